package dispatch

import (
	"peregrine/internal/message"
	"peregrine/store"
)

// group is a run of units of one queue with consecutive offsets.
type group struct {
	queue *store.Queue
	first message.QueueOffset
	count int32
	next  int32 // only in sorted: where the next unit of the group goes
}

// batch is what the reader hands to one shard: units in log order, each with the group it belongs to. Owned by the
// reader while it is open, then by the shard, then by the shard's free list.
type batch struct {
	serial  uint64 // of this filling; tells routes whether their group index is for it
	before  Mark   // what the reader had read before the first record of this batch
	units   []store.Unit
	groupOf []int32
	groups  []group
}

// reset empties the batch for another filling.
func (b *batch) reset() {
	clear(b.groups) // lets go of the queues
	b.units, b.groupOf, b.groups = b.units[:0], b.groupOf[:0], b.groups[:0]
}

// add appends a unit of the route's queue.
//
// hot: 0 allocs once the batch has grown.
func (b *batch) add(r *route, offset message.QueueOffset, unit store.Unit) {
	b.units = append(b.units, unit)
	if r.serial == b.serial {
		if g := &b.groups[r.group]; g.first+message.QueueOffset(g.count) == offset {
			g.count++
			b.groupOf = append(b.groupOf, r.group)
			return
		}
		// A jump or a repetition. It becomes a group of its own, in order behind the queue's others; what that means
		// is decided by AppendUnits.
	}
	r.serial, r.group = b.serial, int32(len(b.groups))
	b.groups = append(b.groups, group{queue: r.queue, first: offset, count: 1})
	b.groupOf = append(b.groupOf, r.group)
}

// sorted returns the units group by group, in the order of b.groups, each group in log order. It uses scratch, which it
// returns grown; the result is valid until the batch is reset or scratch is used again.
//
// hot: 0 allocs once scratch has grown.
func (b *batch) sorted(scratch []store.Unit) (units, grown []store.Unit) {
	if len(b.groups) == 1 {
		return b.units, scratch
	}
	if cap(scratch) < len(b.units) {
		scratch = make([]store.Unit, cap(b.units))
	}
	units = scratch[:len(b.units)]
	at := int32(0)
	for i := range b.groups {
		b.groups[i].next = at
		at += b.groups[i].count
	}
	for i, g := range b.groupOf {
		next := &b.groups[g].next
		units[*next] = b.units[i]
		*next++
	}
	return units, scratch
}
