package bench

import "math/bits"

// Opaques are ten decimal digits long, always: a JSON frame can then be patched in place. They lie in
// [opaqueBase, opaqueBase + 1<<opaqueBits).
const (
	opaqueBase = 1_000_000_000
	opaqueBits = 30
)

// request is what is remembered of one request until its answer comes.
type request struct {
	intendedNs int64  // when the schedule wanted it sent; equal to sentNs in a closed loop
	sentNs     int64  // when it was composed for the socket
	sequence   uint64 // of its first message
	queue      int32  // sent to; of a pull: index in the puller's
	generation uint32
	waiting    bool
	delayed    bool // its messages carry a delay level
}

// inflight is the table of one connection's unanswered requests. Answers may come in any order, so a request owns a slot,
// and its opaque is the slot plus a generation that tells a late or foreign answer from the right one.
type inflight struct {
	slots    []request
	free     []uint32 // stack of free slots
	slotBits uint
}

func newInflight(capacity int) inflight {
	t := inflight{slots: make([]request, capacity), free: make([]uint32, capacity), slotBits: uint(bits.Len(uint(capacity - 1)))}
	for i := range t.free {
		t.free[i] = uint32(capacity - 1 - i)
	}
	return t
}

func (t *inflight) full() bool   { return len(t.free) == 0 }
func (t *inflight) waiting() int { return len(t.slots) - len(t.free) }

// take claims a slot for a request, of which generation and waiting are the table's; the table must not be full.
//
// hot: 0 allocs
func (t *inflight) take(what request) (opaque int32) {
	last := len(t.free) - 1
	slot := t.free[last]
	t.free = t.free[:last]
	r := &t.slots[slot]
	what.generation, what.waiting = r.generation+1, true
	*r = what
	return opaqueBase + int32((r.generation<<t.slotBits|slot)&(1<<opaqueBits-1))
}

// give returns the request that opaque names and frees its slot; false if no such request waits for an answer.
//
// hot: 0 allocs
func (t *inflight) give(opaque int32) (r request, ok bool) {
	n := uint32(opaque - opaqueBase)
	slot := n & (1<<t.slotBits - 1)
	if opaque < opaqueBase || n >= 1<<opaqueBits || int(slot) >= len(t.slots) {
		return request{}, false
	}
	p := &t.slots[slot]
	generationMask := uint32(1)<<(opaqueBits-t.slotBits) - 1
	if !p.waiting || p.generation&generationMask != n>>t.slotBits {
		return request{}, false
	}
	p.waiting = false
	t.free = append(t.free, slot)
	return *p, true
}

// giveAll frees every waiting slot, oldest knowledge lost, and returns how many there were: the connection is gone.
func (t *inflight) giveAll(each func(r request)) {
	for i := range t.slots {
		if p := &t.slots[i]; p.waiting {
			p.waiting = false
			t.free = append(t.free, uint32(i))
			each(*p)
		}
	}
}
