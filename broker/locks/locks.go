// Package locks is the table of queue locks of orderly consumers (RebalanceLockManager of RocketMQ 5.5.0): which client of a
// group may work on a queue. A broker never looks at it when it serves pulls; clients of one group keep each other away by it.
//
// A lock belongs to a client id and lives for LiveTime after its owner last asked for it. Unlike in the original it ends with
// the connection that last asked, too, unless Options.KeepOnClose: a crashed consumer does not block its queues for a minute.
//
// Goroutines: all methods, from anywhere. Nothing is persisted: after a restart every client locks anew.
package locks

import (
	"slices"
	"sync"

	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// Options are what a Table is made of.
type Options struct {
	// KeepOnClose keeps locks of closed connections until they expire, as the original does.
	KeepOnClose bool
}

// Table holds the locks of all groups.
type Table struct {
	keepOnClose bool

	mu     sync.Mutex // guards the fields below
	groups map[string]map[wire.MessageQueue]lock
	held   map[netio.ConnRef]map[place]struct{} // what each connection asked for last
	count  int
	denied uint64
}

// lock is one entry; expired ones stay until somebody asks for the queue or Scan removes them.
type lock struct {
	client string
	ref    netio.ConnRef // of the last request
	last   message.Millis
}

type place struct {
	group string
	queue wire.MessageQueue
}

// New makes an empty table.
func New(o Options) *Table {
	return &Table{keepOnClose: o.KeepOnClose, groups: make(map[string]map[wire.MessageQueue]lock), held: make(map[netio.ConnRef]map[place]struct{})}
}

func (l *lock) expired(now message.Millis) bool { return now-l.last > LiveTime }

// Lock is code 41: it returns the queues, of those asked for, that the client owns now (tryLockBatch). A queue is given when
// it is free, when its lock has expired, or when the client has it already, which renews it. What a limit refuses is not in the
// answer either; the client tries again.
func (t *Table) Lock(group, client string, queues []wire.MessageQueue, ref netio.ConnRef, now message.Millis) []wire.MessageQueue {
	granted := make([]wire.MessageQueue, 0, len(queues))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queue := range queues {
		had, taken := t.groups[group][queue]
		if taken && had.client != client && !had.expired(now) || !taken && t.count >= LocksMax {
			t.denied++
			continue
		}
		t.put(group, queue, lock{client: client, ref: ref, last: now})
		if !slices.Contains(granted, queue) {
			granted = append(granted, queue)
		}
	}
	return granted
}

// Unlock is code 42: the queues that the client owns are free at once; others stay as they are (unlockBatch).
func (t *Table) Unlock(group, client string, queues []wire.MessageQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queue := range queues {
		if had, taken := t.groups[group][queue]; taken && had.client == client {
			t.remove(place{group, queue})
		}
	}
}

// ConnClosed frees what the connection was the last to ask for. A client that has asked again on another one keeps it.
func (t *Table) ConnClosed(ref netio.ConnRef) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.keepOnClose {
		for p := range t.held[ref] {
			t.remove(p)
		}
	}
	delete(t.held, ref)
}

// Held says whether a client of the group owns any queue (isLockAllExpired, negated): the group consumes in order.
func (t *Table) Held(group string, now message.Millis) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.groups[group] {
		if !l.expired(now) {
			return true
		}
	}
	return false
}

// Scan removes what has expired, so that groups that are gone cost nothing. Call it about once in LiveTime.
func (t *Table) Scan(now message.Millis) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for group, queues := range t.groups {
		for queue, l := range queues {
			if l.expired(now) {
				t.remove(place{group, queue})
			}
		}
	}
}

// Counts returns how many locks there are, expired ones that nobody removed yet included, and how many queues were ever refused.
func (t *Table) Counts() (locks int, denied uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count, t.denied
}

// put enters a lock in both tables. The caller holds mu.
func (t *Table) put(group string, queue wire.MessageQueue, l lock) {
	p := place{group, queue}
	queues := t.groups[group]
	if queues == nil {
		queues = make(map[wire.MessageQueue]lock)
		t.groups[group] = queues
	}
	if had, taken := queues[queue]; taken {
		t.letGo(had.ref, p)
	} else {
		t.count++
	}
	queues[queue] = l
	if t.held[l.ref] == nil {
		t.held[l.ref] = make(map[place]struct{})
	}
	t.held[l.ref][p] = struct{}{}
}

// remove takes a lock out of both tables. The caller holds mu.
func (t *Table) remove(p place) {
	queues := t.groups[p.group]
	had, taken := queues[p.queue]
	if !taken {
		return
	}
	t.letGo(had.ref, p)
	delete(queues, p.queue)
	t.count--
	if len(queues) == 0 {
		delete(t.groups, p.group)
	}
}

func (t *Table) letGo(ref netio.ConnRef, p place) {
	delete(t.held[ref], p)
	if len(t.held[ref]) == 0 {
		delete(t.held, ref)
	}
}
