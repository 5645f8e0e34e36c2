// Package longpoll is the table of held pulls: requests that found nothing and wait for a message of their queue.
//
// It mirrors PullRequestHoldService of RocketMQ 5.5.0 in what a client sees, not in how: nothing is polled. The
// dispatcher publishes a queue's maximum first and then takes the waiters; a pull inserts itself first and then reads
// the maximum again. Both sides use sequentially consistent atomics, so at least one of them sees the other and no
// wake-up is lost. Deadlines and connection life belong to the event loop that owns the pull (package broker);
// this table only answers "who waits for this queue".
//
// Lock order: one stripe mutex, innermost; no other lock is taken and no I/O is done under it.
package longpoll

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"peregrine/internal/message"
	"peregrine/store"
)

const (
	// stripeCount spreads queues over mutexes, so that shards announcing different queues do not meet. A power of two.
	stripeCount = 64

	// SkippedUnitsMax is how far a queue may run ahead of a held pull whose filter matches nothing before the pull is
	// woken all the same: it then answers 20 with an advanced offset (one scan of maxFilterMessageSize covers 800 units).
	SkippedUnitsMax = 800
)

// Filter decides by tags code whether an arriving message interests a held pull; nil means everything does.
type Filter interface {
	Match(code message.TagsCode) bool
}

// Held is one waiting pull. The owner (the event loop that parked it) fills the fields before Park and must not change
// them until the Held came back: from Park (false), from Remove (true) or through the wake function.
type Held struct {
	Queue  *store.Queue
	Offset message.QueueOffset // the queue offset that the pull waits for
	Filter Filter
	Owner  any // the owner's own record of this pull, handed through untouched

	parked     bool // guarded by the stripe's mutex: still in the table
	next, prev *Held
}

type stripe struct {
	mu     sync.Mutex
	queues map[*store.Queue]*Held // head of the queue's list
	_      [40]byte               // keeps neighbouring mutexes off one cache line
}

// Table holds every parked pull of the broker. All methods may be called from any goroutine.
type Table struct {
	wake    func(*Held)
	held    atomic.Int64 // parked pulls; read by Arrived without a lock
	woken   atomic.Uint64
	stripes [stripeCount]stripe
}

// New makes a table. wake is called by Arrived, outside of any lock, once for each Held that it took out; it must not
// block (it posts to the mailbox of the Held's event loop).
func New(wake func(*Held)) *Table {
	t := &Table{wake: wake}
	for i := range t.stripes {
		t.stripes[i].queues = make(map[*store.Queue]*Held)
	}
	return t
}

func (t *Table) stripeOf(q *store.Queue) *stripe {
	p := uintptr(unsafe.Pointer(q)) // only as a hash: heap objects do not move
	return &t.stripes[(p>>6^p>>13)&(stripeCount-1)]
}

// Park inserts h and then looks at the queue once more. False means that the queue moved on meanwhile and h is not
// parked: run the pull now. True means that h belongs to the table until it is woken or removed.
func (t *Table) Park(h *Held) bool {
	s := t.stripeOf(h.Queue)
	s.mu.Lock()
	head := s.queues[h.Queue]
	h.prev, h.next, h.parked = nil, head, true
	if head != nil {
		head.prev = h
	}
	s.queues[h.Queue] = h
	t.held.Add(1) // publishes the insertion to Arrived before the maximum is read below
	s.mu.Unlock()
	if h.Queue.Max() <= h.Offset {
		return true
	}
	return !t.Remove(h) // false from Remove: Arrived has it already and the wake-up is on its way
}

// Remove takes h out, for example because its deadline passed or its connection closed. False means that it was taken
// before: a wake-up for it is on its way to its loop.
func (t *Table) Remove(h *Held) bool {
	s := t.stripeOf(h.Queue)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.parked {
		return false
	}
	t.unlink(s, h)
	return true
}

// unlink needs s.mu.
func (t *Table) unlink(s *stripe, h *Held) {
	if h.prev != nil {
		h.prev.next = h.next
	} else if h.next != nil {
		s.queues[h.Queue] = h.next
	} else {
		delete(s.queues, h.Queue)
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next, h.parked = nil, nil, false
	t.held.Add(-1)
}

// Arrived wakes the pulls that wait for one of the units [first, first+len(units)) of q, or that the queue has left too
// far behind. The caller has published q's maximum before. Called by dispatch shards, in order per queue.
//
// hot: 0 allocs; one atomic load when nothing is held, else one stripe lock per batch of a queue.
func (t *Table) Arrived(q *store.Queue, first message.QueueOffset, units []store.Unit) {
	if t.held.Load() == 0 {
		return
	}
	s := t.stripeOf(q)
	var taken *Held // chained through next, called outside of the lock
	s.mu.Lock()
	for h := s.queues[q]; h != nil; {
		following := h.next
		if interested(h, first, units) {
			t.unlink(s, h)
			h.next = taken
			taken = h
		}
		h = following
	}
	s.mu.Unlock()
	for taken != nil {
		h := taken
		taken, h.next = h.next, nil
		t.woken.Add(1)
		t.wake(h)
	}
}

// Wake takes out every pull that waits for q: something other than a message has changed for them.
func (t *Table) Wake(q *store.Queue) {
	s := t.stripeOf(q)
	var woken *Held
	s.mu.Lock()
	for h := s.queues[q]; h != nil; h = s.queues[q] {
		t.unlink(s, h)
		h.next, woken = woken, h
	}
	s.mu.Unlock()
	for h := woken; h != nil; {
		following := h.next
		h.next = nil
		t.wake(h)
		h = following
	}
}

func interested(h *Held, first message.QueueOffset, units []store.Unit) bool {
	end := first + message.QueueOffset(len(units))
	if end <= h.Offset {
		return false
	}
	if h.Filter == nil || end-h.Offset >= SkippedUnitsMax {
		return true
	}
	skip := max(0, int(h.Offset-first))
	for i := skip; i < len(units); i++ {
		if h.Filter.Match(units[i].Tags) {
			return true
		}
	}
	return false
}

// Held is the number of parked pulls; Woken counts the pulls that an arrival took out.
func (t *Table) Held() int64   { return t.held.Load() }
func (t *Table) Woken() uint64 { return t.woken.Load() }
