package store

import (
	"sync/atomic"

	"peregrine/internal/message"
)

// ringUnitBytes is what one unit takes in memory.
const ringUnitBytes = 24

// unitRing holds the newest units of one queue, [end-count, end). The slot of offset o is o & (len-1). Not safe for more
// than one goroutine; Queue.ringMu guards it.
type unitRing struct {
	units []Unit // length 0 or a power of two from ringUnitsMin to ringUnitsMax
	count int
	end   message.QueueOffset
}

// ringBudget bounds the bytes of all rings.
type ringBudget struct{ used atomic.Int64 }

func (b *ringBudget) take(units int) bool {
	n := int64(units) * ringUnitBytes
	if b.used.Add(n) > ringBudgetBytes {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *ringBudget) give(units int) { b.used.Add(-int64(units) * ringUnitBytes) }

// short tells whether idle rings should be given back.
func (b *ringBudget) short() bool { return b.used.Load() > ringBudgetBytes/4*3 }

// push adds units that begin at first. When first is not the end of the ring, the ring starts anew there.
func (r *unitRing) push(first message.QueueOffset, units []Unit, budget *ringBudget) {
	if len(units) > ringUnitsMax {
		first += message.QueueOffset(len(units) - ringUnitsMax)
		units = units[len(units)-ringUnitsMax:]
		r.count = 0
	}
	if first != r.end {
		r.count = 0
	}
	r.grow(r.count+len(units), budget)
	if len(r.units) == 0 {
		r.count, r.end = 0, first+message.QueueOffset(len(units))
		return
	}
	if len(units) > len(r.units) {
		first += message.QueueOffset(len(units) - len(r.units))
		units = units[len(units)-len(r.units):]
	}
	mask := len(r.units) - 1
	at := int(first) & mask
	n := copy(r.units[at:], units)
	copy(r.units, units[n:])
	r.end = first + message.QueueOffset(len(units))
	r.count = min(r.count+len(units), len(r.units))
}

// grow makes room for want units as far as limit and budget allow, by doubling.
func (r *unitRing) grow(want int, budget *ringBudget) {
	size := max(len(r.units), ringUnitsMin)
	for size < want && size < ringUnitsMax {
		size *= 2
	}
	for ; size > len(r.units); size /= 2 {
		if size < ringUnitsMin {
			return
		}
		if !budget.take(size - len(r.units)) {
			continue
		}
		grown := make([]Unit, size)
		for o := r.end - message.QueueOffset(r.count); o < r.end; o++ {
			grown[int(o)&(size-1)] = r.units[int(o)&(len(r.units)-1)]
		}
		r.units = grown
		return
	}
}

// copyTo fills dst from the ring. ok is false when from lies before what the ring holds.
func (r *unitRing) copyTo(dst []Unit, from message.QueueOffset) (n int, ok bool) {
	if from < r.end-message.QueueOffset(r.count) {
		return 0, false
	}
	n = int(min(int64(r.end-from), int64(len(dst))))
	if n <= 0 {
		return 0, true
	}
	at := int(from) & (len(r.units) - 1)
	k := copy(dst[:n], r.units[at:])
	copy(dst[k:n], r.units)
	return n, true
}

// drop gives the memory back.
func (r *unitRing) drop(budget *ringBudget) {
	budget.give(len(r.units))
	r.units, r.count = nil, 0
}
