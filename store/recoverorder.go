package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"peregrine/internal/message"
)

// No CRC covers the head of a record: one whose QUEUEOFFSET, QUEUEID or topic is damaged looks good by itself, and would be served with a
// wrong offset, or take the place of others when its queue is made again. In the log the records of a queue have one offset after the other, so
// a record that breaks the row is held back until the next one of its queue tells:
//
//	expected 7, it says x, the next says x+1    a gap, an earlier life of the topic, or offsets that the original gave out again: it is right
//	expected 7, it says x, the next says 8      it is number 7: its queue offset is damaged
//	expected 7, it says 9, the next says 7      it does not belong to this queue
//	anything else, or no next one               damaged if the unit of 7 names it, or an earlier start found so; else right
//
// Records that no row knows to be missing, in front of the first one of a queue and behind its last one, are known by the queue's units, and so is a
// sysFlag that takes a message out of its queue.
//
// What the original has shifted stays in the row: there the units are wrong, not the records. One that says less than what is expected,
// alone, can be what a run of the original appended that had lost its queue entries.

// headDamaged is how reasons begin that a start has for such a record; the state file keeps them.
const headDamaged = "the head is damaged"

// standsHere is in the reason of a record whose place is in the queue that it names.
const standsHere = "it stands where"

// queueOrder is how far the scan has come in a queue.
type queueOrder struct {
	next message.QueueOffset // that the next record should have
	odd  *message.View       // held back: it does not have it. Its slices are its own
}

// noteRecord takes what a good record tells about its queue: the next offset to give out is at least one more than its own.
func (r *recovery) noteRecord(v *message.View) error {
	r.checked.Add(1)
	r.last = max(r.last, v.StoreTimestamp)
	if !entersQueue(v.SysFlag) {
		return r.noteOutside(v)
	}
	q := r.queueOf(v)
	if q == nil {
		return nil
	}
	o := r.order[q]
	if o == nil {
		if err := r.foreignIn(q, 0, v.QueueOffset); err != nil {
			return err
		}
		if known, strange, err := r.strangeStill(q, v); strange || err != nil {
			if err != nil {
				return err
			}
			return r.hideAndNote(q, v, &suspect{DamagedRange: known, unseen: true})
		}
		place, err := r.firstPlace(q, v)
		if err != nil {
			return err
		}
		if place != v.QueueOffset {
			r.order[q] = &queueOrder{next: place, odd: heldCopy(q, v)}
			r.heldBack++
			return r.settleOdd(q, r.order[q], -1)
		}
		r.order[q] = &queueOrder{next: v.QueueOffset + 1}
		return r.takeRecord(v)
	}
	if o.odd != nil {
		if err := r.settleOdd(q, o, v.QueueOffset); err != nil {
			return err
		}
	}
	if v.QueueOffset != o.next {
		return r.holdBack(q, o, v)
	}
	o.next++
	return r.takeRecord(v)
}

// noteOutside is noteRecord for one that enters no queue, by its sysFlag. These have queue offset 0: one that stands where the row of a queue
// goes on has a damaged sysFlag.
func (r *recovery) noteOutside(v *message.View) error {
	q := r.s.queues.lookup(v.Topic, v.QueueID)
	if q == nil || v.PhyOffset < q.bornAt {
		return nil
	}
	if _, known := r.wasDamaged(v); known {
		return r.noteDamaged(headOf(q, v.QueueOffset, v))
	}
	o := r.order[q]
	if o == nil {
		return nil
	}
	if o.odd != nil && o.odd.QueueOffset+1 == v.QueueOffset {
		if err := r.settleOdd(q, o, v.QueueOffset); err != nil {
			return err
		}
	}
	if v.QueueOffset != o.next || o.odd != nil {
		return nil
	}
	return r.noteDamaged(headOf(q, o.next, v))
}

// passInOrder goes on in the row of a queue behind a damaged record, if its head fits in there.
func (r *recovery) passInOrder(v *message.View) error {
	q := r.queueOf(v)
	if q == nil || r.order[q] == nil {
		return nil
	}
	o := r.order[q]
	if o.odd != nil {
		if err := r.settleOdd(q, o, v.QueueOffset); err != nil {
			return err
		}
	}
	if v.QueueOffset == o.next {
		o.next++
	}
	return nil
}

// holdBack keeps a record that breaks the row of its queue.
func (r *recovery) holdBack(q *Queue, o *queueOrder, v *message.View) error {
	o.odd = heldCopy(q, v)
	if r.heldBack++; r.heldBack > heldBackMax {
		return r.settleOdd(q, o, -1)
	}
	return nil
}

func heldCopy(q *Queue, v *message.View) *message.View {
	held := *v
	held.Body, held.Topic = nil, []byte(q.topic)
	held.Properties = append([]byte(nil), v.Properties...)
	return &held
}

// firstPlace returns the queue offset of the first record that is met of a queue: what it says, but where a unit of the queue has it elsewhere, and
// the unit behind that one agrees with its own record. The original shifts all units of a run.
func (r *recovery) firstPlace(q *Queue, v *message.View) (message.QueueOffset, error) {
	u, err := r.unitAt(q, v.QueueOffset)
	if err != nil || u.Phy == v.PhyOffset || v.IsFiller() {
		return v.QueueOffset, err
	}
	at, err := q.firstReadable(q.Min(), q.Max(), v.PhyOffset)
	if err != nil {
		return 0, err
	}
	if u, err = r.unitAt(q, at); err != nil || u.Phy != v.PhyOffset || u.Size != v.Size {
		return v.QueueOffset, err
	}
	if u, err = r.unitAt(q, at+1); err != nil || !u.valid() || u.IsPreBlank() {
		return v.QueueOffset, err
	}
	if named, err := names(r.probe, q, u); err != nil || !named || r.probe.view.QueueOffset != at+1 {
		return v.QueueOffset, err
	}
	return at, nil
}

// settleOdd decides about the record that is held back. follows is the offset of the one behind it, -1 if there is none.
func (r *recovery) settleOdd(q *Queue, o *queueOrder, follows message.QueueOffset) error {
	v := o.odd
	o.odd = nil
	r.heldBack--
	var stranger, misnumbered bool
	switch {
	case v.IsFiller() || follows >= 0 && follows == v.QueueOffset+1: // fillers stand in for records of which only the units were known
	case follows >= 0 && follows == o.next+1:
		misnumbered = true
	case follows >= 0 && follows == o.next:
		_, known := r.wasDamaged(v)
		stranger = known || v.QueueOffset > o.next || v.QueueOffset < 0
	default:
		u, err := r.unitAt(q, o.next)
		if err != nil {
			return err
		}
		before, known := r.wasDamaged(v)
		misnumbered = u.Phy == v.PhyOffset && u.Size == v.Size || known && follows < 0 && strings.Contains(before.Reason, standsHere)
		stranger = known && !misnumbered
	}
	d := suspect{DamagedRange: DamagedRange{Phy: v.PhyOffset, Bytes: int64(v.Size)}, unseen: true, topic: q.topic, queueID: q.id, offset: o.next,
		sysFlag: v.SysFlag, storeTime: v.StoreTimestamp}
	switch {
	case stranger:
		d.Reason = fmt.Sprintf(headDamaged+": it says offset %d of a queue that has %d behind it", v.QueueOffset, o.next)
		return r.hideAndNote(q, v, &d)
	case misnumbered:
		d.isRecord = true
		d.Reason = fmt.Sprintf(headDamaged+": it says queue offset %d, "+standsHere+" %d belongs", v.QueueOffset, o.next)
		o.next++
		return r.hideAndNote(q, v, &d)
	}
	if follows < 0 {
		d, err := r.ownedBy(q, v)
		if err != nil {
			return err
		}
		if d != nil {
			return r.noteDamaged(d)
		}
	}
	from := o.next
	o.next = v.QueueOffset + 1
	if err := r.strangersIn(q, from, v.QueueOffset); err != nil {
		return err
	}
	return r.takeRecord(v)
}

// ownedBy looks for the record, which is not the next one of the queue that it names, in the units of the topic's other queues. It describes
// the damage if one has it and its own queue does not.
func (r *recovery) ownedBy(q *Queue, v *message.View) (*suspect, error) {
	if u, err := r.unitAt(q, v.QueueOffset); err != nil || u.Phy == v.PhyOffset {
		return nil, err
	}
	for _, other := range r.s.queues.ofTopic(q.topic) {
		if other == q {
			continue
		}
		at, err := other.firstReadable(other.Min(), other.Max(), v.PhyOffset)
		if err != nil {
			return nil, err
		}
		if u, err := r.unitAt(other, at); err != nil || u.Phy != v.PhyOffset || u.Size != v.Size {
			if err != nil {
				return nil, err
			}
			continue
		}
		if agrees, err := r.neighbourAgrees(other, at); err != nil || agrees {
			return headOf(other, at, v), err
		}
	}
	return nil, nil
}

// hideAndNote is noteDamaged for a record whose own offset is not its place: a queue may have it there, too.
func (r *recovery) hideAndNote(q *Queue, v *message.View, d *suspect) error {
	if err := r.hideUnit(q, v.QueueOffset, v.PhyOffset); err != nil {
		return err
	}
	return r.noteDamaged(d)
}

// settleOdds decides about all records that are held back, and looks for records behind the last ones of the queues.
func (r *recovery) settleOdds() error {
	for q, o := range r.order {
		if o.odd != nil {
			if err := r.settleOdd(q, o, -1); err != nil {
				return err
			}
		}
	}
	var queues []*Queue
	r.s.queues.each(func(q *Queue) bool { queues = append(queues, q); return true })
	for _, q := range queues {
		var next message.QueueOffset
		if o := r.order[q]; o != nil {
			next = o.next
		}
		if err := r.foreignIn(q, next, q.Max()); err != nil {
			return err
		}
	}
	return nil
}

// foreignIn is strangersIn for the units in front of the first record of a queue that the walk met, and behind the last one, where it looks for
// records that claim no place in this queue. About those that do the row has decided: the original may have shifted their units.
func (r *recovery) foreignIn(q *Queue, from, to message.QueueOffset) error {
	if to = min(to, q.Max()); from >= to {
		return nil
	}
	from = max(from, q.Min(), message.QueueOffset(q.firstFile/unitBytes))
	if from >= to {
		return nil
	}
	from, err := q.firstReadable(from, to, max(r.walkFrom, q.bornAt))
	if err != nil {
		return err
	}
	return r.strangers(q, from, to, true)
}

// strangersIn looks at the units of queue offsets [from, to) that no record of the log has: a unit that names a good record, which says that
// it belongs elsewhere, but that no unit names there, shows that the record's head is damaged, if a unit beside it is right.
func (r *recovery) strangersIn(q *Queue, from, to message.QueueOffset) error {
	return r.strangers(q, from, to, false)
}

// strangers does that for strangersIn and, with foreign, for foreignIn. It looks at unitWindowUnits at most.
func (r *recovery) strangers(q *Queue, from, to message.QueueOffset, foreign bool) error {
	for off := from; off < min(to, from+unitWindowUnits); off++ {
		u, err := r.unitAt(q, off)
		if err != nil {
			return err
		}
		if !u.valid() || u.IsPreBlank() || u.Phy < q.bornAt || r.s.damaged[u.Phy] {
			continue
		}
		v, err := r.probe.look(u.Phy)
		if err != nil {
			return err
		}
		view := &r.probe.view
		if v != recordGood || view.Size != u.Size || view.IsFiller() {
			continue
		}
		if entersQueue(view.SysFlag) {
			here := view.QueueID == q.id && string(view.Topic) == q.topic
			if here && (foreign || view.QueueOffset == off) {
				continue
			}
			if other := r.s.queues.lookup(view.Topic, view.QueueID); other != nil {
				there, err := r.unitAt(other, view.QueueOffset)
				if err != nil {
					return err
				}
				if there.Phy == u.Phy {
					continue // the record is right
				}
			}
		}
		if view.QueueID != q.id || view.QueueOffset != off || string(view.Topic) != q.topic {
			if agrees, err := r.neighbourAgrees(q, off); err != nil || !agrees {
				if err != nil {
					return err
				}
				continue
			}
			if _, err := r.probe.look(u.Phy); err != nil {
				return err
			}
		}
		if err := r.noteDamaged(headOf(q, off, view)); err != nil {
			return err
		}
	}
	return nil
}

// neighbourAgrees tells whether the unit behind off, or the one in front of it, names the record that it should; those that only keep a place
// are passed over. In a queue whose folder was renamed or copied none does: there the units are wrong, not the records.
func (r *recovery) neighbourAgrees(q *Queue, off message.QueueOffset) (bool, error) {
	for _, step := range []message.QueueOffset{1, -1} {
		for at := off + step; at >= q.Min() && at < q.Max() && at-off <= unitWindowUnits && off-at <= unitWindowUnits; at += step {
			u, err := r.unitAt(q, at)
			if err != nil {
				return false, err
			}
			if u.IsPreBlank() {
				continue
			}
			named, err := names(r.probe, q, u)
			if err != nil || named && r.probe.view.QueueOffset == at {
				return err == nil, err
			}
			break
		}
	}
	return false, nil
}

// headOf describes a record whose head is damaged, and whose place in a queue is known.
func headOf(q *Queue, off message.QueueOffset, v *message.View) *suspect {
	says := fmt.Sprintf("%s queue %d offset %d", v.Topic, v.QueueID, v.QueueOffset)
	if !entersQueue(v.SysFlag) {
		says = fmt.Sprintf("sysFlag %#x, of a message that enters no queue", v.SysFlag)
	}
	return &suspect{DamagedRange: DamagedRange{Phy: v.PhyOffset, Bytes: int64(v.Size), Reason: headDamaged + ": it says " + says}, isRecord: true, unseen: true,
		topic: q.topic, queueID: q.id, offset: off, sysFlag: v.SysFlag &^ message.SysFlagTransactionMask, storeTime: v.StoreTimestamp}
}

// strangeStill tells whether the first record that is met of a queue was stepped over by an earlier start, and its own place in the queue
// knows nothing of it: that start found it by another queue's unit, which only keeps the place since.
func (r *recovery) strangeStill(q *Queue, v *message.View) (DamagedRange, bool, error) {
	known, was := r.wasDamaged(v)
	if !was || v.IsFiller() {
		return known, false, nil
	}
	u, err := r.unitAt(q, v.QueueOffset)
	return known, u.Phy != v.PhyOffset && !u.IsPreBlank(), err
}

// wasDamaged tells whether an earlier start stepped over this record: then its unit only keeps its place.
func (r *recovery) wasDamaged(v *message.View) (DamagedRange, bool) {
	i, found := slices.BinarySearchFunc(r.known, v.PhyOffset, func(d DamagedRange, phy message.PhyOffset) int { return cmp.Compare(d.Phy, phy) })
	if !found || r.known[i].Bytes != int64(v.Size) || !strings.HasPrefix(r.known[i].Reason, headDamaged) {
		return DamagedRange{}, false
	}
	return r.known[i], true
}

// unitAt returns the unit of a queue offset, one that names nothing where there is none.
func (r *recovery) unitAt(q *Queue, off message.QueueOffset) (Unit, error) {
	if off < q.Min() || off >= q.Max() || int64(off)*unitBytes < q.firstFile {
		return Unit{Phy: -1}, nil
	}
	return r.windows.at(q, off)
}
