package offsets

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"peregrine/internal/message"
)

// absent marks a queue without an offset. Negative offsets are stored like others (and count as absent when asked for).
const absent = math.MinInt64

// Positions are an offset for each queue of each group and topic.
type Positions struct {
	changes atomic.Uint64 // generation: +1 with each commit that changed something and with each removal

	mu     sync.RWMutex // guards the maps below, not the offsets in them
	groups map[string]map[string]*pair
	pairs  int
}

// pair is the offsets of one topic for one group.
type pair struct {
	// By queue id. The slice is grown copy-on-write under Positions.mu; the cells are shared by old and new slice, so that a commit
	// which holds the old one is not lost.
	offsets atomic.Pointer[[]*atomic.Int64]
}

// NewPositions makes an empty set.
func NewPositions() *Positions {
	return &Positions{groups: make(map[string]map[string]*pair)}
}

// Commit stores the offset of a queue for a group. ok is false when a limit was reached and nothing was stored.
//
// hot: 0 allocs once the queue is known, one read lock.
func (t *Positions) Commit(group, topic []byte, id message.QueueID, offset message.QueueOffset) (ok bool) {
	t.mu.RLock()
	p := t.groups[string(group)][string(topic)]
	t.mu.RUnlock()
	if p != nil && p.store(t, id, offset) {
		return true
	}
	if ok = t.commit(group, topic, id, offset); ok {
		t.changes.Add(1)
	}
	return ok
}

// store writes into the array at hand; false when it is too short.
func (p *pair) store(t *Positions, id message.QueueID, offset message.QueueOffset) bool {
	offsets := *p.offsets.Load()
	if uint32(id) >= uint32(len(offsets)) {
		return false
	}
	if offsets[id].Swap(int64(offset)) != int64(offset) {
		t.changes.Add(1)
	}
	return true
}

// commit is the slow form: it makes what is missing.
func (t *Positions) commit(group, topic []byte, id message.QueueID, offset message.QueueOffset) bool {
	if id < 0 || id > QueueIDMax {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	topics := t.groups[string(group)]
	p := topics[string(topic)]
	if p == nil {
		if t.pairs >= PairsMax {
			return false
		}
		if topics == nil {
			topics = make(map[string]*pair)
			t.groups[strings.Clone(string(group))] = topics
		}
		p = &pair{}
		p.offsets.Store(&[]*atomic.Int64{})
		topics[string(topic)] = p
		t.pairs++
	}
	known := *p.offsets.Load()
	if int(id) >= len(known) {
		grown := append([]*atomic.Int64(nil), known...)
		fresh := make([]atomic.Int64, int(id)+1-len(known))
		for i := range fresh {
			fresh[i].Store(absent)
			grown = append(grown, &fresh[i])
		}
		p.offsets.Store(&grown)
		known = grown
	}
	known[id].Store(int64(offset))
	return true
}

// Query returns the committed offset of a queue. Negative offsets, which a client may commit, count as none.
//
// hot: 0 allocs, one read lock.
func (t *Positions) Query(group, topic []byte, id message.QueueID) (offset message.QueueOffset, ok bool) {
	t.mu.RLock()
	p := t.groups[string(group)][string(topic)]
	t.mu.RUnlock()
	if p == nil {
		return 0, false
	}
	offsets := *p.offsets.Load()
	if uint32(id) >= uint32(len(offsets)) {
		return 0, false
	}
	if o := offsets[id].Load(); o >= 0 {
		return message.QueueOffset(o), true
	}
	return 0, false
}

// RemoveTopic forgets a topic for all groups.
func (t *Positions) RemoveTopic(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeTopic(topic)
}

// removeTopic is RemoveTopic for callers that hold mu.
func (t *Positions) removeTopic(topic string) {
	for group, topics := range t.groups {
		if topics[topic] == nil {
			continue
		}
		delete(topics, topic)
		t.pairs--
		if len(topics) == 0 {
			delete(t.groups, group)
		}
	}
	t.changes.Add(1)
}

// RemoveGroup forgets all offsets of a group.
func (t *Positions) RemoveGroup(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeGroup(group)
}

// removeGroup is RemoveGroup for callers that hold mu.
func (t *Positions) removeGroup(group string) {
	t.pairs -= len(t.groups[group])
	delete(t.groups, group)
	t.changes.Add(1)
}

// Groups returns the groups that have offsets, sorted.
func (t *Positions) Groups() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.groups))
}

// GroupsOf returns the groups that have offsets of a topic, sorted.
func (t *Positions) GroupsOf(topic string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var names []string
	for group, topics := range t.groups {
		if topics[topic] != nil {
			names = append(names, group)
		}
	}
	slices.Sort(names)
	return names
}

// Pair is a group and a topic that it has offsets of.
type Pair struct {
	Group, Topic string
	offsets      *pair
}

// Each calls yield with the committed offset of each queue that has one.
func (p Pair) Each(yield func(id message.QueueID, offset message.QueueOffset)) {
	for id, cell := range *p.offsets.offsets.Load() {
		if o := cell.Load(); o >= 0 {
			yield(message.QueueID(id), message.QueueOffset(o))
		}
	}
}

// Pairs returns all pairs by group and topic; none, and how many there are, if these are more than limit.
func (t *Positions) Pairs(limit int) (pairs []Pair, total int) {
	t.mu.RLock()
	total = t.pairs
	if total <= limit {
		pairs = make([]Pair, 0, total)
		for group, topics := range t.groups {
			for topic, p := range topics {
				pairs = append(pairs, Pair{group, topic, p})
			}
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Topic, b.Topic))
	})
	return pairs, total
}

// TopicsOf returns the topics that a group has offsets of, sorted.
func (t *Positions) TopicsOf(group string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.groups[group]))
}
