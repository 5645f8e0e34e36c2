package inspect

import (
	"io"
	"slices"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Damage is a part of the log without a good record, with good ones behind it. It lies in one file, unless more of it was met in
// one go than is held back (suspectsMax).
type Damage struct {
	Phy    message.PhyOffset
	Bytes  int64
	Reason string
	// Record says that lengths, magic and position are right: the next four are what the record's head says, which no CRC covers.
	Record  bool
	Topic   string
	Queue   message.QueueID
	Offset  message.QueueOffset
	SysFlag int32
	// Head: it has its length, and a damaged head. With Record the four above are where its unit has it, else nothing says where it belongs.
	Head bool
	// StoreTime is that of the good record in front of it, else of the one behind. PropertyCRC: the one behind ends with a checksum.
	StoreTime   message.Millis
	PropertyCRC bool
}

// QueueEnd is what the log holds of a queue: Next is one more than the offset of its last record, -1 without one.
type QueueEnd struct {
	Topic string
	Queue message.QueueID
	Next  message.QueueOffset
	Dir   *Queue // nil without a directory
}

// tellDamage tells of damage that turned out to lie in the middle of the log: v.log.view is the good record behind it.
func (v *verifier) tellDamage(s *suspect) {
	if v.o.Damaged == nil {
		return
	}
	d := Damage{Phy: s.phy, Bytes: s.bytes, Reason: s.reason, StoreTime: v.lastStore, PropertyCRC: v.log.view.HasPropertyCRC()}
	if d.StoreTime == 0 {
		d.StoreTime = v.log.view.StoreTimestamp
	}
	if s.record {
		d.Record, d.Topic, d.Queue, d.Offset, d.SysFlag = true, string(s.view.Topic), s.view.QueueID, s.view.QueueOffset, s.view.SysFlag
	}
	v.o.Damaged(d)
}

// LostUnit is a queue offset whose record lay in a part of the log: its unit names a place there, or (Phy is -1) keeps the offset only,
// between units that name records before and behind that part.
type LostUnit struct {
	Queue  *Queue
	Offset message.QueueOffset
	Phy    message.PhyOffset
	Size   int32
}

// LostUnits returns the queue offsets whose records lay in [from, end) of the log, at most limit, each queue's in order.
func (d *Directory) LostUnits(from, end message.PhyOffset, limit int) ([]LostUnit, error) {
	r := d.newUnitReader()
	var all []LostUnit
	for _, q := range d.Queues {
		stop, err := r.end(q)
		if err != nil {
			return nil, err
		}
		inside, err := r.lowerBound(q, from, stop)
		if err != nil {
			return nil, err
		}
		behind, err := r.lowerBound(q, end, stop)
		if err != nil {
			return nil, err
		}
		// Units that keep a place stand in front of the first one inside, too; those that a queue begins with are there because it
		// was begun at that offset.
		first, _ := q.bounds(d)
		for inside > first {
			u, err := r.at(q, inside-1)
			if err != nil {
				return nil, err
			}
			if !u.PreBlank() {
				break
			}
			inside--
		}
		if inside == first {
			if _, inside, err = r.real(q, inside, stop); err != nil {
				return nil, err
			}
		}
		for off := inside; off < behind && len(all) < limit; off++ {
			u, err := r.at(q, off)
			if err != nil {
				return nil, err
			}
			lost := LostUnit{Queue: q, Offset: off, Phy: u.Phy, Size: u.Size}
			if u.PreBlank() || u.Phy < from || u.Phy >= end {
				lost.Phy, lost.Size = -1, 0
			}
			all = append(all, lost)
		}
	}
	return all, nil
}

// Neighbours returns the unit of a queue offset and whether a record of that offset may stand at a position: no unit in front of it
// names one behind, and none behind it one in front.
func (d *Directory) Neighbours(topic string, id message.QueueID, off message.QueueOffset, phy message.PhyOffset) (u Unit, fits bool, err error) {
	i := slices.IndexFunc(d.Queues, func(q *Queue) bool { return q.Topic == topic && q.ID == id })
	if i < 0 {
		return Unit{}, true, nil
	}
	q, r := d.Queues[i], d.newUnitReader()
	end, err := r.end(q)
	if err != nil {
		return Unit{}, false, err
	}
	if off < end {
		if u, err = r.at(q, off); err != nil {
			return u, false, err
		}
	}
	low, err := r.lowerBound(q, phy, end) // the first unit that names phy or something behind it
	if err != nil {
		return u, false, err
	}
	next, at, err := r.real(q, low, end)
	if err != nil || at < end && (off > at || (off == at) != (next.Phy == phy)) {
		return u, false, err
	}
	first, _ := q.bounds(d)
	for k := low - 1; k >= max(off, first); k-- {
		if before, err := r.at(q, k); err != nil || !before.PreBlank() {
			return u, false, err
		}
	}
	return u, true, nil
}

// KeptBelow returns one more than the last queue offset that was given out, as far as units show it: one that keeps a place, or names
// a record before end that is the queue's own, deleted, or damaged.
func (d *Directory) KeptBelow(q *Queue, end message.PhyOffset) (message.QueueOffset, error) {
	r, log := d.newUnitReader(), d.newLogReader(peekBlockBytes)
	defer log.close()
	off, err := r.lastWritten(q)
	first, _ := q.bounds(d)
	for ; off > first && err == nil; off-- {
		var u Unit
		if u, err = r.at(q, off-1); err != nil || !u.Written() || !u.PreBlank() && u.Phy >= end {
			continue
		}
		if u.PreBlank() || u.Phy < d.MinPhy() {
			return off, nil
		}
		var verdict verdict
		if verdict, err = log.look(u.Phy); err != nil {
			break
		}
		other := log.view.QueueOffset != off-1 || log.view.QueueID != q.ID || string(log.view.Topic) != q.Topic
		if verdict != isBlank && (verdict != isGood && verdict != isDamaged || !other) {
			return off, nil
		}
	}
	return 0, err
}

// Behind returns the first place behind the end of the log, in the file that holds it, where something stands, and the end of the
// last one; two equal ones when nothing does.
func (d *Directory) Behind(end message.PhyOffset) (from, to message.PhyOffset, err error) {
	f := d.logFile(end)
	if f == nil {
		return end, end, nil
	}
	from = -1
	buf := make([]byte, 1<<20)
	for at := int64(end) - f.Start; at < d.SegmentBytes; {
		n, err := d.readFile(f.Path, buf[:min(int64(len(buf)), d.SegmentBytes-at)], at)
		for i, b := range buf[:n] {
			if b == 0 {
				continue
			}
			if to = message.PhyOffset(f.Start + at + int64(i) + 1); from < 0 {
				from = to - 1
			}
		}
		if at += int64(n); err == io.EOF || n == 0 {
			break
		}
		if err != nil {
			return end, end, err
		}
	}
	if from < 0 {
		return end, end, nil
	}
	return from, to, nil
}

// LogFile returns the file that holds a position, nil if there is none.
func (d *Directory) LogFile(phy message.PhyOffset) *File { return d.logFile(phy) }

// FS is the file system that the directory was opened on.
func (d *Directory) FS() sysio.FS { return d.opts.FS }
