package repair

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"peregrine/internal/message"
	"peregrine/store/inspect"
)

// Options says what may be done and whom to tell.
type Options struct {
	Inspect  inspect.Options
	Fill     bool   // replace damaged records
	Refused  string // these two as inspect.VerifyOptions has them
	Heads    map[message.PhyOffset]int64
	Found    func(inspect.Finding) // with each finding; may be nil
	Progress func(done, all int64) // bytes of the log, about once a second; may be nil
}

// ErrNeedsFill says that Options.Fill is missing: without fillers a start finds its way behind such a place only by the queues.
var ErrNeedsFill = errors.New("parts of the log hold no readable record: nothing is done without --fill")

// Place is a damaged part of the log.
type Place struct {
	Phy    message.PhyOffset `json:"position"`
	Bytes  int64             `json:"bytes"`
	File   string            `json:"file"`
	At     int64             `json:"at"`
	Reason string            `json:"reason"`
	Fills  []Fill            `json:"fills,omitempty"`
	// Left says why something stays as it is, "" if nothing does.
	Left string `json:"left,omitempty"`

	storeTime   message.Millis
	propertyCRC bool
}

// QueueRepair is a queue that does not agree with the log.
type QueueRepair struct {
	Topic string          `json:"topic"`
	Queue message.QueueID `json:"queue"`
	Why   string          `json:"why"` // the first finding
	// InPlace says why its files stay and are mended by the start, "" when they are moved away and made again.
	InPlace string `json:"inPlace,omitempty"`

	dir  *inspect.Queue
	kept message.QueueOffset // empty units in front of this one are made to keep their places; 0 = none
}

// Plan is what a repair does.
type Plan struct {
	Report inspect.Report
	Places []Place
	More   int64 // damaged places beyond placesMax
	Queues []QueueRepair
	Index  []*inspect.IndexFile // files to be moved away
	// Reindex says that the index is made again, whether it has files or not.
	Reindex bool
	Short   []inspect.File // of the log, cut short in front of its end: they are given their length
	Tail    Place          // what stands behind the end of the log and is cut by the start; no Bytes when nothing does
	Crashed bool           // the start recovers
	// NeedsFill says that Apply refuses with ErrNeedsFill.
	NeedsFill bool

	fill bool
	dir  *inspect.Directory
}

// Nothing tells that the directory is as it should be.
func (p *Plan) Nothing() bool { return p.Report.Clean() && !p.Crashed }

type queueName struct {
	topic string
	id    message.QueueID
}

type offsetName struct {
	queueName
	offset message.QueueOffset
}

// planner collects what verification tells.
type planner struct {
	o      Options
	d      *inspect.Directory
	plan   Plan
	damage []inspect.Damage
	faults map[queueName]string // the first finding about a queue
	order  []queueName
	ends   map[queueName]inspect.QueueEnd
	next   map[queueName]message.QueueOffset // behind the last record, fillers included
	taken  map[offsetName]bool               // offsets that have a record already
	index  bool
	fills  int
	unread bool // a stretch of the log cannot be read and stays so
}

// Make looks at everything and says what a repair would do. It changes nothing.
func Make(o Options) (*Plan, error) {
	d, err := inspect.Open(o.Inspect)
	if err != nil {
		return nil, err
	}
	p := &planner{o: o, d: d, faults: map[queueName]string{}, ends: map[queueName]inspect.QueueEnd{},
		next: map[queueName]message.QueueOffset{}, taken: map[offsetName]bool{}}
	p.plan.dir, p.plan.fill, p.plan.Crashed = d, o.Fill, d.Abort
	p.plan.Report, err = d.Verify(inspect.VerifyOptions{
		Refused: o.Refused, Heads: o.Heads, Found: p.found, Progress: o.Progress,
		Damaged: func(x inspect.Damage) {
			if len(p.damage) < placesMax {
				p.damage = append(p.damage, x)
			} else {
				p.plan.More++
			}
		},
		Queue: func(e inspect.QueueEnd) {
			name := queueName{e.Topic, e.Queue}
			p.ends[name], p.next[name] = e, e.Next
		},
		Hidden: func(topic string, id message.QueueID, offset message.QueueOffset) {
			if len(p.taken) < fillsMax { // more than an earlier run can have left half done
				p.taken[offsetName{queueName{topic, id}, offset}] = true
			}
		},
	})
	if err == nil {
		err = p.places()
	}
	if err == nil {
		err = p.queues()
	}
	if err == nil {
		err = p.tail()
	}
	if err != nil {
		return nil, err
	}
	for _, f := range d.Log {
		if f.Size < d.SegmentBytes && message.PhyOffset(f.Start+d.SegmentBytes) <= p.plan.Report.End {
			p.plan.Short = append(p.plan.Short, f)
		}
	}
	p.reindex()
	return &p.plan, nil
}

// found notes what a finding means for queues and index.
func (p *planner) found(f inspect.Finding) {
	if p.o.Found != nil {
		p.o.Found(f)
	}
	if f.Level != inspect.Fault {
		return
	}
	switch f.Kind {
	case inspect.KindNoUnit, inspect.KindUnit, inspect.KindStrayUnit, inspect.KindHole, inspect.KindUnitOrder, inspect.KindQueueFile:
		name := queueName{topic: f.Topic}
		if f.Queue != nil {
			name.id = message.QueueID(*f.Queue)
		} else if parts := strings.Split(f.File, "/"); len(parts) == 4 { // consumequeue/<topic>/<queue>/<file>
			id, err := strconv.ParseInt(parts[2], 10, 32)
			if err != nil {
				return
			}
			name = queueName{parts[1], message.QueueID(id)}
		} else {
			return
		}
		if _, known := p.faults[name]; !known {
			p.faults[name] = f.Kind + ": " + f.What
			p.order = append(p.order, name)
		}
	case inspect.KindIndexFile, inspect.KindIndexItem, inspect.KindIndexTwice, inspect.KindNoIndex, inspect.KindIndexChain:
		p.index = true
	}
}

// places decides what is put into damaged places: first where the record says itself what it is, then where units have to say it.
func (p *planner) places() error {
	p.plan.Places = make([]Place, 0, len(p.damage))
	var unknown []int
	for i := range p.damage {
		x := &p.damage[i]
		for _, part := range p.parts(x) {
			p.plan.Places = append(p.plan.Places, part)
			place := &p.plan.Places[len(p.plan.Places)-1]
			known := false
			if x.Record {
				var err error
				if known, err = p.fillRecord(x, place); err != nil {
					return err
				}
			}
			if !known {
				unknown = append(unknown, len(p.plan.Places)-1)
			}
			p.plan.NeedsFill = p.plan.NeedsFill || !x.Record && !x.Head && !p.o.Fill
		}
	}
	for _, i := range unknown {
		if err := p.fillStretch(&p.plan.Places[i]); err != nil {
			return err
		}
	}
	for i := range p.plan.Places {
		place := &p.plan.Places[i]
		if !p.o.Fill {
			break
		}
		for k := range place.Fills {
			f := &place.Fills[k]
			if name := (queueName{f.Topic, f.Queue}); f.Topic != "" {
				p.next[name] = max(p.next[name], f.Offset+1)
			}
		}
	}
	p.unread = p.unread || p.plan.More > 0
	return nil
}

// parts cuts damage at the ends of files.
func (p *planner) parts(x *inspect.Damage) (all []Place) {
	for phy, end := x.Phy, x.Phy+message.PhyOffset(x.Bytes); phy < end; {
		f := p.d.LogFile(phy)
		if f == nil {
			return all
		}
		stop := min(end, message.PhyOffset(f.Start+p.d.SegmentBytes))
		all = append(all, Place{Phy: phy, Bytes: int64(stop - phy), File: f.Name, At: int64(phy) - f.Start, Reason: x.Reason,
			storeTime: x.StoreTime, propertyCRC: x.PropertyCRC})
		phy = stop
	}
	return all
}

// fillRecord fills the place of a record whose head is right, if it fits what its queue says.
func (p *planner) fillRecord(x *inspect.Damage, place *Place) (bool, error) {
	fill := Fill{Phy: place.Phy, Bytes: place.Bytes}
	switch x.SysFlag & message.SysFlagTransactionMask {
	case message.SysFlagTransactionPrepared, message.SysFlagTransactionRollback: // of no queue
	default:
		_, fits, err := p.d.Neighbours(x.Topic, x.Queue, x.Offset, x.Phy)
		name := offsetName{queueName{x.Topic, x.Queue}, x.Offset}
		if err != nil || !fits || x.Offset < 0 || x.Queue < 0 || x.Topic == "" || strings.ContainsAny(x.Topic, "/\x00") || p.taken[name] {
			return false, err
		}
		p.taken[name] = true
		fill.Topic, fill.Queue, fill.Offset = x.Topic, x.Queue, x.Offset
	}
	if place.Bytes < int64(message.FillerBytesMin(fill.Topic)) || place.Bytes > recordBytesMax {
		place.Left = fmt.Sprintf("a filler has %d bytes at least", message.FillerBytesMin(fill.Topic))
		return true, nil
	}
	place.Fills = []Fill{fill}
	p.room(place)
	return true, nil
}

// fillStretch fills a place that does not say what it held.
func (p *planner) fillStretch(place *Place) error {
	end := place.Phy + message.PhyOffset(place.Bytes)
	lost, err := p.d.LostUnits(place.Phy, end, lostMax)
	if err != nil {
		return err
	}
	lost = slices.DeleteFunc(lost, func(u inspect.LostUnit) bool {
		return p.taken[offsetName{queueName{u.Queue.Topic, u.Queue.ID}, u.Offset}]
	})
	var left int64
	var offsets int
	place.Fills, left, offsets = layOut(stretch{from: place.Phy, end: end, endsFile: int64(end)%p.d.SegmentBytes == 0, lost: lost})
	switch {
	case left > 0:
		place.Left = fmt.Sprintf("%d bytes are too few for a record: they stay, and the original may cut the log there", left)
		p.unread = true
	case offsets > 0:
		place.Left = fmt.Sprintf("%d queue offsets find no room: their units keep their places", offsets)
	}
	if !p.room(place) {
		return nil
	}
	for i := range place.Fills {
		f := &place.Fills[i]
		p.taken[offsetName{queueName{f.Topic, f.Queue}, f.Offset}] = f.Topic != ""
	}
	return nil
}

// room counts the fills of a place against fillsMax.
func (p *planner) room(place *Place) bool {
	if p.fills+len(place.Fills) > fillsMax {
		place.Fills, place.Left = nil, "left to the next run"
		p.unread = true
		return false
	}
	p.fills += len(place.Fills)
	return true
}

// queues decides which queues are made again, and which are mended where they are.
func (p *planner) queues() error {
	slices.SortFunc(p.order, func(a, b queueName) int { return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id)) })
	for _, name := range p.order {
		r := QueueRepair{Topic: name.topic, Queue: name.id, Why: p.faults[name], dir: p.ends[name].Dir}
		if r.dir == nil {
			r.dir = &inspect.Queue{Topic: name.topic, ID: name.id}
		}
		kept, err := p.d.KeptBelow(r.dir, p.plan.Report.End)
		if err != nil {
			return err
		}
		switch {
		case p.unread:
			r.InPlace = "parts of the log cannot be read, and units show where it goes on"
		case kept > max(p.next[name], 0):
			r.InPlace = fmt.Sprintf("only its units show that offsets up to %d were given out", kept-1)
			r.kept = kept
		}
		p.plan.Queues = append(p.plan.Queues, r)
	}
	return nil
}

func (p *planner) tail() error {
	from, to, err := p.d.Behind(p.plan.Report.End)
	if err != nil || from == to {
		return err
	}
	t := &p.plan.Tail
	t.Phy, t.Bytes, t.Reason = from, int64(to-from), "behind the end of the log"
	if f := p.d.LogFile(from); f != nil {
		t.File, t.At = f.Name, int64(from)-f.Start
	}
	return nil
}

func (p *planner) reindex() {
	if p.o.Inspect.WithoutIndex {
		return
	}
	if p.plan.Reindex = p.index || p.o.Fill && p.fills > 0; p.plan.Reindex {
		p.plan.Index = p.d.Index
	}
}
