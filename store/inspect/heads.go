package inspect

import (
	"fmt"

	"peregrine/internal/message"
)

// No CRC covers the head of a record. One that looks good by itself is shown to be damaged by what an earlier start found
// (VerifyOptions.Heads), by the queue that its sysFlag takes it out of, or by a unit: that of another place than the record says, when the
// unit of the place that it says does not name it. The original shifts all units of a run, and somebody may have renamed a queue, so the next
// unit has to agree with its record. A queue's only record, or one whose neighbours only keep their places, is left to the start.

// namesDamagedHead tells whether the unit of q at off, which no record claims, shows that the head of the good record that it names is damaged.
// v.peek has looked there.
func (v *verifier) namesDamagedHead(q *queueState, off message.QueueOffset, u Unit) (bool, error) {
	view := &v.peek.view
	if view.Size != u.Size || view.IsFiller() {
		return false, nil
	}
	own := view.QueueID == q.id && string(view.Topic) == q.topic
	if !entersQueue(view.SysFlag) || own && view.QueueOffset == off {
		return !entersQueue(view.SysFlag), nil
	}
	if claimed := v.queues[string(view.Topic)][view.QueueID]; claimed != nil {
		there, err := v.unit(claimed, view.QueueOffset)
		if err != nil || there.Phy == u.Phy && there.Size == u.Size {
			return false, err
		}
	}
	return v.neighbourAgrees(q, off)
}

// neighbourAgrees tells whether the unit behind off, or in front of it where nothing is behind, names the record that it should. v.peek looks
// at the record of off again.
func (v *verifier) neighbourAgrees(q *queueState, off message.QueueOffset) (bool, error) {
	phy := v.peek.view.PhyOffset
	at := off + 1
	u, err := v.unit(q, at)
	if err == nil && !u.Written() {
		at = off - 1
		u, err = v.unit(q, at)
	}
	if err != nil || !u.Written() || u.PreBlank() || u.Phy == phy {
		return false, err
	}
	verdict, err := v.peek.look(u.Phy)
	view := &v.peek.view
	agrees := verdict == isGood && view.QueueOffset == at && view.QueueID == q.id && string(view.Topic) == q.topic
	if err == nil {
		_, err = v.peek.look(phy)
	}
	return agrees, err
}

// damagedHead reports a record whose head is damaged. q is where a unit has it, nil when only an earlier start knew.
func (v *verifier) damagedHead(view *message.View, q *queueState, off message.QueueOffset) {
	if v.heads[view.PhyOffset] {
		return
	}
	v.heads[view.PhyOffset] = true
	v.report.Damaged++
	says := fmt.Sprintf("%s queue %d offset %d", Printable(string(view.Topic)), view.QueueID, view.QueueOffset)
	if !entersQueue(view.SysFlag) {
		says = fmt.Sprintf("sysFlag %#x, of a message that enters no queue", view.SysFlag)
	}
	f := v.d.place(&Finding{Level: Fault, Kind: KindRecord, Count: int64(view.Size), Original: "the original does not notice it"}, view.PhyOffset)
	d := Damage{Phy: view.PhyOffset, Bytes: int64(view.Size), Reason: "the head is damaged: it says " + says, Head: true,
		StoreTime: view.StoreTimestamp, PropertyCRC: view.HasPropertyCRC()}
	if q != nil {
		id, o := int32(q.id), int64(off)
		f.Topic, f.Queue, f.Offset = q.topic, &id, &o
		d.Record, d.Topic, d.Queue, d.Offset = true, q.topic, q.id, off
		d.SysFlag = view.SysFlag &^ message.SysFlagTransactionMask
	}
	v.found(f.format("%d bytes, stepped over: %s", d.Bytes, d.Reason))
	if v.o.Damaged != nil {
		v.o.Damaged(d)
	}
}
