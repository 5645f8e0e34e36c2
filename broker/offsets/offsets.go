// Package offsets keeps the committed offsets of consumer groups, the next queue offset that a group will read of each
// queue, and their state file consumerOffset.json. It mirrors ConsumerOffsetManager of RocketMQ 5.5.0.
//
// There is no monotonic rule: a commit below the stored offset counts. What is committed here is on disk after the next
// Persist, which a timer calls every flushConsumerOffsetInterval (5 s), and the shutdown; kill -9 loses up to that much, as
// in the original.
//
// Goroutines: Commit and Query are for event loops. Lock order: the state file's lock → mu (the maps, never held during
// I/O). An offset itself is an atomic; it publishes nothing else.
package offsets

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// absent marks a queue without an offset. Negative offsets are stored like others (and count as absent when asked for).
const absent = math.MinInt64

// ErrLimit says that a commit was refused because of QueueIDMax or PairsMax.
var ErrLimit = errors.New("too many queues or group and topic pairs to keep offsets for")

// Options are what a Table is made of.
type Options struct {
	FS     sysio.FS
	Path   string // of consumerOffset.json; its directory exists
	Logger *slog.Logger
	Now    func() message.Millis
}

// Table holds the committed offsets of a broker.
type Table struct {
	file    *statefile.File
	source  sysio.Source                                       // which copy of it was read; immutable after Open
	unused  map[string]map[message.QueueID]message.QueueOffset // entries of the file that no commit can make; immutable after Open
	logger  *slog.Logger
	now     func() message.Millis
	commits atomic.Uint64 // since the start; every versionStep-th raises the data version
	changes atomic.Uint64 // generation: +1 with each commit that changed something and with each removal

	waiting atomic.Int64 // resets that wait, for a look without the lock

	mu      sync.RWMutex // guards the maps below, not the offsets in them
	resets  map[string]map[string]map[message.QueueID]message.QueueOffset
	groups  map[string]map[string]*pair
	pairs   int
	version wire.DataVersion
	rest    statefile.Extra
}

// pair is the offsets of one topic for one group.
type pair struct {
	// By queue id. The slice is grown copy-on-write under Table.mu; the cells are shared by old and new slice, so that a commit
	// which holds the old one is not lost.
	offsets atomic.Pointer[[]*atomic.Int64]
}

// NewVolatile makes a table that no file keeps: where pulls begin, which a restart may forget.
func NewVolatile(now func() message.Millis) *Table {
	return &Table{now: now, groups: make(map[string]map[string]*pair)}
}

// Open reads consumerOffset.json or its backup; without either the table is empty. It changes nothing on disk.
func Open(o Options) (*Table, error) {
	t := &Table{file: statefile.New(o.FS, o.Path, o.Logger), logger: o.Logger, now: o.Now, unused: make(map[string]map[message.QueueID]message.QueueOffset)}
	var loaded content
	var err error
	t.source, err = t.file.Load(func(data []byte) (err error) {
		loaded, err = parse(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.groups = make(map[string]map[string]*pair)
	t.version = wire.DataVersion{Timestamp: int64(t.now())}
	t.changes.Store(1) // so that there is a file soon
	if t.source == sysio.SourceNone {
		return t, nil
	}
	if loaded.version != nil {
		t.version = *loaded.version
	}
	t.rest = loaded.rest
	for key, queues := range loaded.offsets {
		if err := t.adopt(key, queues); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
	}
	return t, nil
}

// adopt takes over one entry of the file. What cannot be an offset here stays in the file, with a warning.
func (t *Table) adopt(key string, queues map[message.QueueID]message.QueueOffset) error {
	topic, group, ok := strings.Cut(key, "@")
	if !ok {
		t.logger.Warn("an entry of the consumer offsets is no topic@group; it is not used", "file", t.file.Path(), "entry", key)
		t.unused[key] = queues
		return nil
	}
	for id, offset := range queues {
		switch {
		case id < 0 || id > QueueIDMax:
			t.logger.Warn("an entry of the consumer offsets has an impossible queue id; it is not used", "file", t.file.Path(), "entry", key, "queue", id)
			if t.unused[key] == nil {
				t.unused[key] = make(map[message.QueueID]message.QueueOffset)
			}
			t.unused[key][id] = offset
		case !t.commit([]byte(group), []byte(topic), id, offset):
			return fmt.Errorf("%s: queue %d: %w", key, id, ErrLimit)
		}
	}
	return nil
}

// Found says which copy of consumerOffset.json was read.
func (t *Table) Found() sysio.Source { return t.source }

// Groups returns the groups that have offsets, sorted.
func (t *Table) Groups() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.groups))
}

// Commit stores the offset of a queue for a group. ok is false when a limit was reached and nothing was stored.
//
// hot: 0 allocs once the queue is known, one read lock.
func (t *Table) Commit(group, topic []byte, id message.QueueID, offset message.QueueOffset) (ok bool) {
	t.mu.RLock()
	p := t.groups[string(group)][string(topic)]
	t.mu.RUnlock()
	if p == nil || !p.store(t, id, offset) {
		if !t.commit(group, topic, id, offset) {
			return false
		}
		t.changes.Add(1)
	}
	if t.commits.Add(1)%versionStep == 0 {
		t.nextVersion()
	}
	return true
}

// store writes into the array at hand; false when it is too short.
func (p *pair) store(t *Table, id message.QueueID, offset message.QueueOffset) bool {
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
func (t *Table) commit(group, topic []byte, id message.QueueID, offset message.QueueOffset) bool {
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

func (t *Table) nextVersion() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version.Counter++
	t.version.Timestamp = int64(t.now())
}

// Query returns the committed offset of a queue. Negative offsets, which a client may commit, count as none.
//
// hot: 0 allocs, one read lock.
func (t *Table) Query(group, topic []byte, id message.QueueID) (offset message.QueueOffset, ok bool) {
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
func (t *Table) RemoveTopic(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for group := range t.resets {
		t.forgetResets(group, topic)
	}
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
func (t *Table) RemoveGroup(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetResets(group, "")
	t.pairs -= len(t.groups[group])
	delete(t.groups, group)
	t.changes.Add(1)
}

// GroupsOf returns the groups that have offsets of a topic, sorted.
func (t *Table) GroupsOf(topic string) []string {
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
func (t *Table) Pairs(limit int) (pairs []Pair, total int) {
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
func (t *Table) TopicsOf(group string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.groups[group]))
}

// Version returns the table's data version.
func (t *Table) Version() wire.DataVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.version
}
