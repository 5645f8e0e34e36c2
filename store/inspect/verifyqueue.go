package inspect

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"peregrine/internal/message"
)

// queueState is what the walk knows of a queue.
type queueState struct {
	dir   *Queue // nil: no directory
	topic string
	id    message.QueueID
	first message.QueueOffset // of the first record met
	next  message.QueueOffset // behind the last one; -1 = none met
	phy   message.PhyOffset   // of the last one
	run   run
}

// run is a finding about neighbouring units that goes on as long as the same is wrong.
type run struct {
	Finding
	what    string // with %d for the number of units
	class   string
	last    message.QueueOffset
	lastPhy message.PhyOffset
}

// lateRecord gets a second look: a broker is running, and its dispatcher may not have come there yet.
type lateRecord struct {
	q    *queueState
	off  message.QueueOffset
	view message.View // without slices
	tags message.TagsCode
}

func (v *verifier) addQueue(q *queueState) *queueState {
	ids := v.queues[q.topic]
	if ids == nil {
		ids = map[message.QueueID]*queueState{}
		v.queues[q.topic] = ids
	}
	ids[q.id] = q
	v.listed = append(v.listed, q)
	return q
}

func (v *verifier) queue(topic []byte, id message.QueueID) *queueState {
	if q := v.queues[string(topic)][id]; q != nil {
		return q
	}
	q := &queueState{topic: string(topic), id: id, next: -1}
	if len(topic) > 0 && len(topic) <= 255 && filepath.Base(q.topic) == q.topic && id >= 0 {
		q.dir = &Queue{Topic: q.topic, ID: id, Name: "consumequeue/" + q.topic + "/" + strconv.Itoa(int(id))}
	}
	return v.addQueue(q)
}

// claim takes a record in its queue: its offset is the next one, and its unit says the same as the record.
func (v *verifier) claim(view *message.View, damaged bool) error {
	if !entersQueue(view.SysFlag) {
		return v.claimsNone(view)
	}
	q := v.queue(view.Topic, view.QueueID)
	off := view.QueueOffset
	strange := off < 0
	switch {
	case strange:
	case q.next < 0:
		q.first = off
	case off > q.next:
		u, err := v.unit(q, off)
		if err != nil {
			return err
		}
		if strange = off-q.next > offsetJumpMax && u.Phy != view.PhyOffset; !strange {
			if err := v.unclaimed(q, q.next, off); err != nil {
				return err
			}
		}
	case off < q.next:
		v.flush(q)
		f := v.d.place(&Finding{Level: Fault, Kind: KindOffset}, view.PhyOffset)
		id, o := int32(q.id), int64(off)
		f.Topic, f.Queue, f.Offset = q.topic, &id, &o
		if off >= q.first {
			v.found(f.format("an earlier record of the queue has this offset already"))
		} else {
			v.found(f.format("the offset is smaller than those of earlier records of the queue"))
		}
		return nil
	}
	if strange {
		f := v.d.place(&Finding{Level: Fault, Kind: KindOffset}, view.PhyOffset)
		id, o := int32(q.id), int64(off)
		f.Topic, f.Queue, f.Offset = q.topic, &id, &o
		v.found(f.format("the offset is impossible: the queue is at %d", max(q.next, 0)))
		return nil
	}
	q.next, q.phy = off+1, view.PhyOffset
	return v.compare(q, off, view, damaged)
}

// claimsNone is claim for a record that enters no queue, by its sysFlag. These have queue offset 0, and no queue keeps a place for one.
func (v *verifier) claimsNone(view *message.View) error {
	q := v.queues[string(view.Topic)][view.QueueID]
	if view.QueueOffset == 0 {
		if q == nil || q.next >= 0 {
			return nil
		}
		if u, err := v.unit(q, 0); err != nil || !u.PreBlank() {
			return err
		}
	}
	if q != nil && view.QueueOffset == max(q.next, 0) {
		v.damagedHead(view, q, view.QueueOffset)
		return nil
	}
	f := v.d.place(&Finding{Level: Fault, Kind: KindOffset}, view.PhyOffset)
	id, o := int32(view.QueueID), int64(view.QueueOffset)
	f.Topic, f.Queue, f.Offset = string(view.Topic), &id, &o
	v.found(f.format("the record has a place in a queue, and sysFlag %#x, of a message that enters none", view.SysFlag))
	return nil
}

func (v *verifier) unit(q *queueState, off message.QueueOffset) (Unit, error) {
	if q.dir == nil {
		return Unit{}, nil
	}
	return v.units.at(q.dir, off)
}

// compare checks the unit of a record.
func (v *verifier) compare(q *queueState, off message.QueueOffset, view *message.View, damaged bool) error {
	u, err := v.unit(q, off)
	if err != nil {
		return err
	}
	if v.d.Held && !u.Written() && !damaged && len(v.late) < lateMax {
		kept := *view
		kept.Topic, kept.Body, kept.Properties = nil, nil, nil
		v.late = append(v.late, lateRecord{q, off, kept, view.TagsCode()})
		return nil
	}
	return v.judge(q, off, u, view, view.TagsCode(), damaged)
}

// judge says what is wrong with the unit of a record.
func (v *verifier) judge(q *queueState, off message.QueueOffset, u Unit, view *message.View, tags message.TagsCode, damaged bool) error {
	phy := view.PhyOffset
	if !damaged && u.Phy == phy && u.Size == view.Size {
		if wrong, err := v.judgeExt(q, off, u, view, tags); wrong || err != nil {
			return err
		}
	}
	switch {
	case damaged: // the record itself is reported; its unit may name it or keep its place
		v.flush(q)
	case !u.Written():
		v.noUnit(q, off, phy)
	case u.PreBlank():
		if v.o.Hidden != nil {
			v.o.Hidden(q.topic, q.id, off)
		}
		v.extend(q, KindUnit, Fault, off, phy, "hidden", "%s: the record is good, the unit hides it", "")
	case u.Phy != phy:
		v.extend(q, KindUnit, Fault, off, phy, "position", fmt.Sprintf("%%s: the first names position %d, the record is at %d", u.Phy, phy), "")
	case u.Size != view.Size:
		v.extend(q, KindUnit, Fault, off, phy, "size", fmt.Sprintf("%%s: the first says %d bytes, the record has %d", u.Size, view.Size), "")
	case !tagsFit(u.Tags, tags, q.topic, view.StoreTimestamp):
		v.extend(q, KindUnit, Fault, off, phy, "tags", fmt.Sprintf("%%s: the first has tags code %d, the record %d", u.Tags, tags),
			"consumers that filter by tag get the wrong messages")
	default:
		v.report.Units++
		v.flush(q)
	}
	return nil
}

// tagsFit compares tags codes; an address of an ext unit is judgeExt's matter.
func tagsFit(unit, record message.TagsCode, topic string, stored message.Millis) bool {
	return unit == record || record == message.TagsCodeFiller && unit == 0 || unit.IsExtAddress() || topic == message.ScheduleTopic && message.Millis(unit) > stored
}

// noUnit takes a record that no consumer gets.
func (v *verifier) noUnit(q *queueState, off message.QueueOffset, phy message.PhyOffset) {
	covered := v.d.Checkpoint.LogicsPhysicalOffset
	switch {
	case phy < v.d.MinPhy(): // both were deleted since
		v.report.Expired++
		v.flush(q)
	case v.d.Abort && phy < v.crash.from:
		v.extend(q, KindNoUnit, Fault, off, phy, "early", "%s is missing: consumers do not get the record",
			fmt.Sprintf("the original's next start begins at %d and never makes it anew", v.crash.from))
	case v.d.Abort && (v.unitsEnd > 0 && phy >= v.unitsEnd || covered > 0 && phy > covered):
		v.extend(q, KindNoUnit, Note, off, phy, "lag", "%s is missing: not dispatched yet when the broker ended"+v.nextStart("does it"), "")
	case v.d.Abort:
		v.extend(q, KindNoUnit, Fault, off, phy, "lost", "%s is missing: consumers do not get the record", "a start after a crash makes it anew")
	case phy < v.unitsEnd:
		v.extend(q, KindNoUnit, Fault, off, phy, "lost", "%s is missing: consumers do not get the record",
			"a clean start of the original does not make it anew and gives the queue offset out again")
	case phy == v.unitsEnd:
		v.extend(q, KindNoUnit, Fault, off, phy, "edge", "%s is missing: consumers do not get the record",
			"a clean start of the original passes over it, and the entries behind it in this queue shift by one")
	default:
		v.extend(q, KindNoUnit, Fault, off, phy, "behind", "%s is missing: consumers do not get the record"+v.nextStart("makes it anew"), "")
	}
}

// extend adds one unit to the queue's run of the same class, or begins another. In what, %s is the number of units.
func (v *verifier) extend(q *queueState, kind string, level Level, off message.QueueOffset, phy message.PhyOffset, class, what, original string) {
	r := &q.run
	if r.Count > 0 && r.class == kind+class && r.last+1 == off {
		r.Count++
		r.last, r.lastPhy = off, phy
		return
	}
	v.flush(q)
	*r = run{Finding: Finding{Level: level, Kind: kind, Count: 1, Original: original, Position: int64(phy)}, what: what, class: kind + class, last: off, lastPhy: phy}
	if q.dir != nil {
		v.d.unitPlace(&r.Finding, q.dir, off)
	} else {
		id, o := int32(q.id), int64(off)
		r.Topic, r.Queue, r.Offset = q.topic, &id, &o
	}
}

// flush reports the queue's run.
func (v *verifier) flush(q *queueState) {
	r := &q.run
	if r.Count == 0 {
		return
	}
	units := fmt.Sprintf("the unit of position %d", r.Position)
	if r.Count > 1 {
		units = fmt.Sprintf("each of %d units, offsets %d to %d, positions %d to %d,", r.Count, *r.Offset, r.last, r.Position, r.lastPhy)
	}
	f := r.Finding
	f.What = fmt.Sprintf(r.what, units)
	r.Count = 0
	v.found(&f)
}

// unclaimed looks at units between two records of a queue that follow each other in the log: no record has these offsets.
func (v *verifier) unclaimed(q *queueState, from, to message.QueueOffset) error {
	var limit message.QueueOffset
	if q.dir != nil {
		if err := v.listQueueAgain(q); err != nil {
			return err
		}
		first, behind := q.dir.bounds(v.d)
		if limit = behind; v.d.Held && q.phy < v.d.MinPhy() && first > from { // deleted with their records
			v.report.Expired += int64(min(first, to) - from)
			from = min(first, to)
		}
	}
	off := from
	for ; off < min(to, limit) && to-from <= offsetJumpMax; off++ {
		u, err := v.unit(q, off)
		if err != nil {
			return err
		}
		if err := v.strayUnit(q, off, u); err != nil {
			return err
		}
	}
	if off < to {
		v.flush(q)
		f := &Finding{Level: Fault, Kind: KindOffset, Position: -1, Count: int64(to - off)}
		id, o := int32(q.id), int64(off)
		f.Topic, f.Queue, f.Offset = q.topic, &id, &o
		v.found(f.format("neither a record nor a unit up to offset %d", to-1))
	}
	return nil
}

// strayUnit says what a unit is that belongs to no record.
func (v *verifier) strayUnit(q *queueState, off message.QueueOffset, u Unit) error {
	switch {
	case u.PreBlank():
		v.report.Kept++
		v.flush(q)
		return nil
	case !u.Written():
		v.extend(q, KindHole, Fault, off, -1, "", "%s and its record are missing", "")
		return nil
	case v.d.Held && u.Phy >= v.unitsEnd:
		return nil
	case v.d.Held && u.Phy < v.d.MinPhy(): // deleted since, even if a reader still has the file
		v.report.Expired++
		v.flush(q)
		return nil
	}
	verdict, err := v.peek.look(u.Phy)
	if err != nil {
		return err
	}
	view := &v.peek.view
	if verdict == isGood {
		if damaged, err := v.namesDamagedHead(q, off, u); err != nil || damaged {
			if damaged && err == nil {
				v.flush(q)
				v.damagedHead(view, q, off)
			}
			return err
		}
	}
	switch {
	case verdict == isGone && u.Phy < v.d.MinPhy() && q.next < 0 || verdict == isGone && v.d.Held:
		v.report.Expired++
		v.flush(q)
	case (verdict == isGood || verdict == isDamaged) && view.QueueOffset == off && view.QueueID == q.id && string(view.Topic) == q.topic:
		v.extend(q, KindUnitOrder, Fault, off, u.Phy, "", "%s and its record stand out of order", "")
	case verdict == isGood:
		v.extend(q, KindStrayUnit, Fault, off, u.Phy, "other", fmt.Sprintf("%%s: the record there is %s queue %d offset %d", Printable(string(view.Topic)), view.QueueID, view.QueueOffset), "")
	case verdict == isBlank:
		v.extend(q, KindStrayUnit, Fault, off, u.Phy, "blank", "%s: the file ends there", "")
	case v.inDamage(u.Phy):
		v.extend(q, KindStrayUnit, Note, off, u.Phy, "damage", "%s names a damaged part of the log", "")
	default:
		v.extend(q, KindStrayUnit, Fault, off, u.Phy, "bad", "%s: "+escapePercent(v.peek.reason), "")
	}
	return nil
}

func escapePercent(s string) string {
	var b []byte
	for i := range len(s) {
		if s[i] == '%' {
			b = append(b, '%')
		}
		b = append(b, s[i])
	}
	return string(b)
}

// finishQueue looks at the units in front of the first record of the log and behind the last one.
func (v *verifier) finishQueue(q *queueState) error {
	v.flush(q)
	if q.dir == nil || len(q.dir.Files) == 0 {
		if q.next >= 0 {
			v.report.Queues++
		}
		return nil
	}
	v.report.Queues++
	first, limit := q.dir.bounds(v.d)
	behind := first
	if q.next >= 0 {
		behind = max(q.next, first)
		if err := v.before(q, first, min(q.first, limit)); err != nil {
			return err
		}
	}
	return v.behind(q, behind, limit)
}

// before checks the units of deleted records.
func (v *verifier) before(q *queueState, from, to message.QueueOffset) error {
	newest := message.PhyOffset(-1)
	err := v.d.eachUnit(q.dir, from, to, func(off message.QueueOffset, u Unit) error {
		switch {
		case u.PreBlank():
			v.report.Kept++
			v.flush(q)
		case u.Written() && u.Phy < v.d.MinPhy() && u.Phy > newest:
			newest = u.Phy
			v.report.Expired++
			v.flush(q)
		case u.Written() && u.Phy < v.d.MinPhy():
			v.extend(q, KindUnitOrder, Fault, off, u.Phy, "", "%s does not lie behind the one before it", "")
		default:
			return v.strayUnit(q, off, u)
		}
		return nil
	})
	v.flush(q)
	return err
}

// behind checks what follows the last record's unit: free space, as a rule.
func (v *verifier) behind(q *queueState, from, limit message.QueueOffset) error {
	hole := message.QueueOffset(-1)
	newest := message.PhyOffset(-1)
	err := v.d.eachUnit(q.dir, from, limit, func(off message.QueueOffset, u Unit) error {
		if !u.Written() {
			v.flush(q)
			if hole < 0 {
				hole = off
			}
			return nil
		}
		if v.d.Held && u.Phy >= v.unitsEnd {
			hole = -1
			return nil
		}
		if hole >= 0 {
			f := v.d.unitPlace(&Finding{Level: Fault, Kind: KindHole, Position: -1, Count: int64(off - hole)}, q.dir, hole)
			v.found(f.format("%s, and units behind", plural(int64(off-hole), "an empty unit", "empty units")))
			hole = -1
		}
		switch {
		case u.PreBlank():
			v.report.Kept++
		case u.Phy < v.d.MinPhy() && q.next < 0 && u.Phy > newest: // all of the queue's records were deleted
			newest = u.Phy
			v.report.Expired++
		case u.Phy >= v.end:
			v.extend(q, KindQueueAhead, Fault, off, u.Phy, "", fmt.Sprintf("%%s lies behind the end of the log, %d", v.end),
				"a start cuts it; new messages get the queue offset again")
		default:
			return v.strayUnit(q, off, u)
		}
		return nil
	})
	v.flush(q)
	return err
}

// listQueueAgain finds the files that a running broker made or deleted since.
func (v *verifier) listQueueAgain(q *queueState) (err error) {
	if v.d.Held {
		q.dir.Files, err = v.d.listAgain(filepath.Join(v.d.Root, filepath.FromSlash(q.dir.Name)), &v.d.QueueFileBytes, KindQueueFile)
	}
	return err
}

// settleLate gives records of a running broker a second look.
func (v *verifier) settleLate() error {
	for deadline := time.Now().Add(lateGrace); len(v.late) > 0; {
		waiting := v.late[:0]
		last := time.Now().After(deadline)
		if err := v.d.refreshLog(); err != nil {
			return err
		}
		for _, l := range v.late {
			if l.q.dir != nil {
				v.units.forget(l.q.dir, l.off)
				if err := v.listQueueAgain(l.q); err != nil {
					return err
				}
			}
			u, err := v.unit(l.q, l.off)
			if err != nil {
				return err
			}
			if u.Written() || last || l.view.PhyOffset < v.d.MinPhy() {
				if err := v.judge(l.q, l.off, u, &l.view, l.tags, false); err != nil {
					return err
				}
				continue
			}
			waiting = append(waiting, l)
		}
		if v.late = waiting; len(waiting) > 0 {
			time.Sleep(lateGrace / 1000)
		}
	}
	return nil
}
