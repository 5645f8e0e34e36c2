package locks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

func queue(id int32) wire.MessageQueue {
	return wire.MessageQueue{Topic: "t", BrokerName: "b", QueueID: id}
}

func conn(slot uint32) netio.ConnRef { return netio.ConnRef{Slot: slot, Gen: 1} }

// A hand-over takes no longer than the next try (case C11), but for a client that went without a word.
func TestHandOver(t *testing.T) {
	all := []wire.MessageQueue{queue(0), queue(1), queue(2)}
	for _, c := range []struct {
		name        string
		keepOnClose bool
		leave       func(*Table)
		free        message.Millis // after the last request of A
	}{
		{"unlock", false, func(t *Table) { t.Unlock("g", "A", all) }, 0},
		{"close", false, func(t *Table) { t.ConnClosed(conn(1)) }, 0},
		{"close, kept", true, func(t *Table) { t.ConnClosed(conn(1)) }, LiveTime + 1},
		{"silence", false, func(*Table) {}, LiveTime + 1},
		{"somebody else unlocks", false, func(t *Table) { t.Unlock("g", "B", all) }, LiveTime + 1},
		{"another group unlocks", false, func(t *Table) { t.Unlock("h", "A", all) }, LiveTime + 1},
		{"another connection closes", false, func(t *Table) { t.ConnClosed(conn(2)) }, LiveTime + 1},
	} {
		table := New(Options{KeepOnClose: c.keepOnClose})
		if got := table.Lock("g", "A", all, conn(1), 1000); !slices.Equal(got, all) {
			t.Fatalf("%s: %v", c.name, got)
		}
		c.leave(table)
		if c.free > 0 {
			if got := table.Lock("g", "B", all, conn(3), 1000+c.free-1); len(got) != 0 || !table.Held("g", 1000+c.free-1) {
				t.Errorf("%s: B got %v too early", c.name, got)
			}
		} else if table.Held("g", 1000) {
			t.Errorf("%s: still held", c.name)
		}
		if got := table.Lock("g", "B", all, conn(3), 1000+c.free); !slices.Equal(got, all) {
			t.Errorf("%s: B got %v", c.name, got)
		}
	}
}

// A client that came back on another connection keeps its locks when the old one ends.
func TestTheLastConnectionCounts(t *testing.T) {
	table := New(Options{})
	table.Lock("g", "A", []wire.MessageQueue{queue(0), queue(1)}, conn(1), 0)
	table.Lock("g", "A", []wire.MessageQueue{queue(0)}, conn(2), 1)
	table.ConnClosed(conn(1))
	if got := table.Lock("g", "B", []wire.MessageQueue{queue(0), queue(1)}, conn(3), 2); !slices.Equal(got, []wire.MessageQueue{queue(1)}) {
		t.Errorf("B got %v", got)
	}
}

func TestLocksAreBounded(t *testing.T) {
	table := New(Options{})
	for i := range int32(LocksMax) {
		table.Lock("g", "A", []wire.MessageQueue{queue(i)}, conn(1), 0)
	}
	if got := table.Lock("g", "A", []wire.MessageQueue{queue(LocksMax), queue(7)}, conn(1), 0); !slices.Equal(got, []wire.MessageQueue{queue(7)}) {
		t.Errorf("got %v", got)
	}
	if count, denied := table.Counts(); count != LocksMax || denied != 1 {
		t.Errorf("%d locks, %d denied", count, denied)
	}
	table.Scan(LiveTime)
	if count, _ := table.Counts(); count != LocksMax {
		t.Errorf("%d locks before they expire", count)
	}
	table.Scan(LiveTime + 1)
	if count, _ := table.Counts(); count != 0 || len(table.groups) != 0 || len(table.held) != 0 {
		t.Errorf("%d locks, %d groups, %d connections remain", count, len(table.groups), len(table.held))
	}
}

// model is the table as simple as can be.
type model struct {
	locks map[string]lock // by group and queue
}

func (m *model) lock(group, client string, queues []wire.MessageQueue, ref netio.ConnRef, now message.Millis) (granted []wire.MessageQueue) {
	for _, q := range queues {
		key := fmt.Sprint(group, q)
		if l, ok := m.locks[key]; ok && l.client != client && now-l.last <= LiveTime {
			continue
		}
		m.locks[key] = lock{client, ref, now}
		if !slices.Contains(granted, q) {
			granted = append(granted, q)
		}
	}
	return granted
}

// Case C12: three clients, four queues, two groups, any order of lock, renew, unlock, disconnect, restart and time. What a
// client believes is derived from its answers alone: never do two of a group believe in the same queue.
func TestNeverTwoOwners(t *testing.T) {
	steps := 100_000
	if testing.Short() {
		steps /= 20
	}
	for _, keep := range []bool{false, true} {
		r := rand.New(rand.NewPCG(1, 2))
		table, m := New(Options{KeepOnClose: keep}), &model{map[string]lock{}}
		type belief struct {
			ref  netio.ConnRef
			last message.Millis
		}
		believes := map[string]map[string]belief{} // group and queue, then client
		refs := map[string]netio.ConnRef{}
		slot := uint32(0)
		now := message.Millis(0)
		for step := range steps {
			group, client := []string{"g", "h"}[r.IntN(2)], []string{"A", "B", "C"}[r.IntN(3)]
			if _, connected := refs[client]; !connected {
				slot++
				refs[client] = conn(slot)
			}
			var queues []wire.MessageQueue
			for range 1 + r.IntN(4) {
				queues = append(queues, queue(r.Int32N(4)))
			}
			switch n := r.IntN(100); {
			case n < 50:
				got, want := table.Lock(group, client, queues, refs[client], now), m.lock(group, client, queues, refs[client], now)
				if !slices.Equal(got, want) {
					t.Fatalf("step %d: %v, the model says %v", step, got, want)
				}
				for _, q := range got {
					key := fmt.Sprint(group, q)
					for other, b := range believes[key] {
						if other != client && now-b.last <= LiveTime {
							t.Fatalf("step %d: %s and %s own %s", step, client, other, key)
						}
					}
					if believes[key] == nil {
						believes[key] = map[string]belief{}
					}
					believes[key][client] = belief{refs[client], now}
				}
			case n < 70:
				table.Unlock(group, client, queues)
				for _, q := range queues {
					key := fmt.Sprint(group, q)
					delete(believes[key], client)
					if m.locks[key].client == client {
						delete(m.locks, key)
					}
				}
			case n < 80: // the client's connection ends; with KeepOnClose it still believes in what it had
				table.ConnClosed(refs[client])
				for key, l := range m.locks {
					if l.ref == refs[client] && !keep {
						delete(m.locks, key)
						delete(believes[key], client)
					}
				}
				delete(refs, client)
			case n < 99:
				now += message.Millis(r.IntN(20_000))
				if r.IntN(4) == 0 {
					table.Scan(now)
				}
			default: // the broker starts again: all locks are free, every client has to ask
				table = New(Options{KeepOnClose: keep})
				m.locks = map[string]lock{}
				clear(believes)
				clear(refs)
			}
			for _, g := range []string{"g", "h"} {
				held := false
				for _, id := range []int32{0, 1, 2, 3} {
					l, ok := m.locks[fmt.Sprint(g, queue(id))]
					held = held || ok && now-l.last <= LiveTime
				}
				if got := table.Held(g, now); got != held {
					t.Fatalf("step %d: held %v, the model says %v", step, got, held)
				}
			}
		}
	}
}
