package inspect

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"peregrine/internal/message"
)

// Place says where a message may be found: what all listings filter by. The zero Place is everything.
type Place struct {
	Topic string // "" = all
	Queue *int32 // nil = all
}

func (p Place) holds(topic string, id message.QueueID) bool {
	return (p.Topic == "" || p.Topic == topic) && (p.Queue == nil || message.QueueID(*p.Queue) == id)
}

// Record is one place of the log: a record, or something that is none.
type Record struct {
	Position   int64  `json:"position"`
	File       string `json:"file"`
	At         int64  `json:"at"`
	Size       int64  `json:"size"`
	Damage     string `json:"damage,omitempty"` // why it is not good; the other fields may be missing then
	Topic      string `json:"topic"`
	Queue      int32  `json:"queue"`
	Offset     int64  `json:"offset"`
	Type       string `json:"type"` // normal, prepared, commit, rollback; filler: what dump --repair put in the place of a damaged record
	Version    int    `json:"version"`
	Flag       int32  `json:"flag"`
	SysFlag    int32  `json:"sysFlag"`
	BornTime   int64  `json:"bornTime"`
	BornHost   string `json:"bornHost"`
	StoreTime  int64  `json:"storeTime"`
	StoreHost  string `json:"storeHost"`
	Reconsumed int32  `json:"reconsumeTimes"`
	Prepared   int64  `json:"preparedTransactionOffset"`
	MsgID      string `json:"msgId"`
	Tags       string `json:"tags,omitempty"`
	Keys       string `json:"keys,omitempty"`
	UniqKey    string `json:"uniqKey,omitempty"`
	BodyBytes  int    `json:"bodyBytes"`
	BodyCRC    uint32 `json:"bodyCRC"`
	Properties string `json:"properties,omitempty"` // only of a single record: name=value, one a line
	BodyHead   string `json:"bodyHead,omitempty"`   // only of a single record: its first bytes, hexadecimal
}

// Records calls yield with what the log holds from a position on, until it returns false. Damage is listed whatever the place.
func (d *Directory) Records(place Place, from message.PhyOffset, yield func(Record) bool) error {
	v := d.newVerifier(VerifyOptions{Found: func(Finding) {}})
	defer v.close()
	if err := v.findUnitsEnd(); err != nil {
		return err
	}
	pos := d.MinPhy()
	if f := d.logFile(from); f != nil {
		pos = message.PhyOffset(f.Start)
		if verdict, err := v.log.look(from); err != nil {
			return err
		} else if verdict == isGood || verdict == isDamaged {
			pos = from
		}
	} else if from > pos {
		f := d.nextLogFile(from)
		if f == nil {
			return nil
		}
		pos = message.PhyOffset(f.Start)
	}
	for len(d.Log) > 0 {
		verdict, err := v.log.look(pos)
		if err != nil {
			return err
		}
		var r Record
		next := pos
		switch verdict {
		case isGood, isDamaged:
			r = v.log.record(d, pos, verdict)
			next += message.PhyOffset(r.Size)
			if verdict == isGood && !place.holds(r.Topic, message.QueueID(r.Queue)) {
				pos = next
				continue
			}
		case isBlank:
			pos = message.PhyOffset(v.log.cur.Start + d.SegmentBytes)
			continue
		case isGone:
			f := d.nextLogFile(pos)
			if f == nil {
				return nil
			}
			pos = message.PhyOffset(f.Start)
			continue
		case isNothing:
			r = v.log.record(d, pos, verdict)
			var ok bool
			if next, ok, err = v.resume(pos); err != nil || !ok {
				return err
			}
			r.Size = int64(next - pos)
		}
		if pos >= from && !yield(r) {
			return nil
		}
		pos = next
	}
	return nil
}

// RecordAt returns what stands at a position, with properties and the beginning of the body.
func (d *Directory) RecordAt(pos message.PhyOffset) (Record, error) {
	r := d.newLogReader(peekBlockBytes)
	defer r.close()
	verdict, err := r.look(pos)
	if err != nil {
		return Record{}, err
	}
	rec := r.record(d, pos, verdict)
	if verdict == isBlank {
		rec.Damage = "the end-of-file mark"
	}
	if verdict == isGood || verdict == isDamaged {
		var text strings.Builder
		it := message.Properties(r.view.Properties)
		for name, value, ok := it.Next(); ok; name, value, ok = it.Next() {
			text.Write(name)
			text.WriteByte('=')
			text.Write(value)
			text.WriteByte('\n')
		}
		rec.Properties = text.String()
		rec.BodyHead = hex.EncodeToString(r.view.Body[:min(len(r.view.Body), bodyHeadBytes)])
	}
	return rec, nil
}

// record describes what the last look saw at pos.
func (r *logReader) record(d *Directory, pos message.PhyOffset, verdict verdict) Record {
	f := d.place(&Finding{}, pos)
	rec := Record{Position: int64(pos), File: f.File, At: f.At, Damage: r.reason}
	if verdict != isGood && verdict != isDamaged {
		return rec
	}
	v := &r.view
	rec.Size, rec.Topic, rec.Queue, rec.Offset = int64(v.Size), string(v.Topic), int32(v.QueueID), int64(v.QueueOffset)
	rec.Type = [...]string{"normal", "prepared", "commit", "rollback"}[v.SysFlag&message.SysFlagTransactionMask>>2]
	if v.IsFiller() {
		rec.Type = "filler"
	}
	if rec.Version = 1; v.Magic == message.MagicV2 {
		rec.Version = 2
	}
	rec.Flag, rec.SysFlag, rec.Reconsumed = v.Flag, v.SysFlag, v.ReconsumeTimes
	rec.BornTime, rec.BornHost = int64(v.BornTimestamp), v.BornHost.AddrPort().String()
	rec.StoreTime, rec.StoreHost = int64(v.StoreTimestamp), v.StoreHost.AddrPort().String()
	rec.Prepared, rec.BodyBytes, rec.BodyCRC = int64(v.PreparedTransactionOffset), len(v.Body), v.BodyCRC
	rec.MsgID = string(message.AppendOffsetMsgID(nil, v.StoreHost, pos))
	property := func(name string) string {
		value, _ := message.GetProperty(v.Properties, name)
		return string(value)
	}
	rec.Tags, rec.Keys, rec.UniqKey = property(message.PropertyTags), property(message.PropertyKeys), property(message.PropertyUniqKey)
	return rec
}

// QueueUnit is a unit with its place.
type QueueUnit struct {
	Topic    string   `json:"topic"`
	Queue    int32    `json:"queue"`
	Offset   int64    `json:"offset"`
	File     string   `json:"file"`
	At       int64    `json:"at"`
	Position int64    `json:"position"`
	Size     int32    `json:"size"`
	TagsCode int64    `json:"tagsCode"`
	Ext      *ExtUnit `json:"ext,omitempty"`  // in consumequeue_ext; TagsCode is from there, or its address where it cannot be read
	Kept     bool     `json:"kept,omitempty"` // a pre-blank unit: it only keeps the offset occupied
}

// Units calls yield with the units of the queues at a place, from an offset on, until it returns false.
func (d *Directory) Units(place Place, from message.QueueOffset, yield func(QueueUnit) bool) error {
	stop := errors.New("enough")
	v := d.newVerifier(VerifyOptions{Found: func(Finding) {}})
	defer v.close()
	for _, q := range d.Queues {
		if !place.holds(q.Topic, q.ID) {
			continue
		}
		end, err := v.units.end(q)
		if err != nil {
			return err
		}
		first, _ := q.bounds(d)
		err = d.eachUnit(q, max(first, from), end, func(off message.QueueOffset, u Unit) error {
			f := d.unitPlace(&Finding{}, q, off)
			x, err := v.ext.of(q, u)
			if err != nil {
				return err
			}
			if x != nil && x.Problem == "" {
				u.Tags = x.Tags
			}
			if !yield(QueueUnit{Topic: q.Topic, Queue: int32(q.ID), Offset: int64(off), File: f.File, At: f.At,
				Position: int64(u.Phy), Size: u.Size, TagsCode: int64(u.Tags), Ext: x, Kept: u.PreBlank()}) {
				return stop
			}
			return nil
		})
		if err == stop {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// IndexLine is an item of an index file, with the key that it stands for where the record is there.
type IndexLine struct {
	File     string `json:"file"`
	Item     int32  `json:"item"`
	At       int64  `json:"at"`
	Hash     int32  `json:"hash"`
	Slot     int32  `json:"slot"`
	Previous int32  `json:"previous"`
	Position int64  `json:"position"`
	Time     int64  `json:"time"` // ms, to the second
	Topic    string `json:"topic,omitempty"`
	Key      string `json:"key,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

// IndexItems calls yield with the items of all index files, from an item number on in each, until it returns false.
func (d *Directory) IndexItems(place Place, from int32, yield func(IndexLine) bool) error {
	v := d.newVerifier(VerifyOptions{Found: func(Finding) {}})
	defer v.close()
	w := v.index
	for {
		item, ok, err := w.peek()
		if err != nil || !ok {
			return err
		}
		f := d.Index[w.at]
		line := IndexLine{File: f.Name, Item: w.n, At: f.itemAt(w.n), Hash: item.Hash, Slot: item.Hash % f.Slots, Previous: item.Prev, Position: int64(item.Phy),
			Time: int64(f.Head.BeginTimestamp) + int64(item.Seconds)*int64(time.Second/time.Millisecond)}
		w.n++
		if line.Item < from {
			continue
		}
		verdict, err := v.peek.look(item.Phy)
		if err != nil {
			return err
		}
		view := &v.peek.view
		if verdict == isGood || verdict == isDamaged {
			line.Topic = string(view.Topic)
			w.scratch = indexKeys(view, w.scratch, func(key []byte, _ bool) {
				if line.Key == "" && IndexHash(key) == item.Hash {
					line.Key = string(key[len(view.Topic)+1:])
				}
			})
			if line.Key == "" {
				line.Problem = "no key of the record has this hash"
			}
		} else {
			line.Problem = "no record there"
		}
		if (verdict != isGood && verdict != isDamaged || place.holds(line.Topic, view.QueueID)) && !yield(line) {
			return nil
		}
	}
}
