// Package offsets keeps the committed offsets of consumer groups, the next queue offset that a group will read of each
// queue, and their state file consumerOffset.json (Table). It mirrors ConsumerOffsetManager of RocketMQ 5.5.0. Positions are the
// same without file, resets and data version: where pulls begin, which a restart may forget.
//
// There is no monotonic rule: a commit below the stored offset counts. What is committed here is on disk after the next
// Persist, which a timer calls every flushConsumerOffsetInterval (5 s), and the shutdown; kill -9 loses up to that much, as
// in the original.
//
// Goroutines: Commit and Query are for event loops. Lock order: the state file's lock → mu (the maps, never held during
// I/O). An offset itself is an atomic; it publishes nothing else.
package offsets

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

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
	Positions
	file    *statefile.File
	source  sysio.Source                                       // which copy of it was read; immutable after Open
	unused  map[string]map[message.QueueID]message.QueueOffset // entries of the file that no commit can make; immutable after Open
	logger  *slog.Logger
	now     func() message.Millis
	commits atomic.Uint64 // since the start; every versionStep-th raises the data version

	waiting atomic.Int64 // resets that wait, for a look without the lock

	// Guarded by Positions.mu.
	resets  map[string]map[string]map[message.QueueID]message.QueueOffset
	version wire.DataVersion
	rest    statefile.Extra
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

// Commit stores the offset of a queue for a group. ok is false when a limit was reached and nothing was stored.
//
// hot: 0 allocs once the queue is known, one read lock.
func (t *Table) Commit(group, topic []byte, id message.QueueID, offset message.QueueOffset) (ok bool) {
	if !t.Positions.Commit(group, topic, id, offset) {
		return false
	}
	if t.commits.Add(1)%versionStep == 0 {
		t.nextVersion()
	}
	return true
}

func (t *Table) nextVersion() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version.Counter++
	t.version.Timestamp = int64(t.now())
}

// RemoveTopic forgets a topic for all groups.
func (t *Table) RemoveTopic(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for group := range t.resets {
		t.forgetResets(group, topic)
	}
	t.removeTopic(topic)
}

// RemoveGroup forgets all offsets of a group.
func (t *Table) RemoveGroup(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetResets(group, "")
	t.removeGroup(group)
}

// Version returns the table's data version.
func (t *Table) Version() wire.DataVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.version
}
