package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"peregrine/internal/sysio"
)

// DeleteTopic deletes the queues of a topic with their files. Messages of the topic that are in the log already, dispatched
// or not, are in no queue any more, also after a start; those appended later count from offset 0. An append to a queue that
// was handed out before is refused with ErrQueueGone. A topic without queues is fine. After an error the topic takes
// no messages until the call was made again and succeeded.
func (s *Store) DeleteTopic(topic string) error {
	if !topicCanBeStored(topic) || strings.ContainsAny(topic, "\n") {
		return nil // nothing can be stored in it
	}
	s.deleteMu.Lock()
	defer s.deleteMu.Unlock()
	queues := s.queues.ofTopic(topic)
	if len(queues) == 0 {
		return nil
	}
	mark, err := s.log.dismiss(queues)
	if err == nil {
		// Else a power cut could leave a log that ends before the mark, and whoever opens it next might append there.
		_, err = s.log.Sync(mark.at)
	}
	if err != nil {
		return fmt.Errorf("store: delete a topic: %w", err)
	}
	if err := s.saveDeleted(topic, mark); err != nil {
		return err // the queues still take the units of what was appended: the next start may find the topic as it was
	}
	for _, q := range queues {
		q.gone.Store(true)
	}
	return s.removeQueues(queues)
}

// CleanExpiredQueues is what an administrator asks for with code 306: queues of which every message has left the log are
// deleted with their files, and begin at offset 0 again (DefaultMessageStore.cleanExpiredConsumerQueue, 5.5.0). Queues that
// never had a message, that have one which is not dispatched yet, or whose topic keep wants to have, stay.
func (s *Store) CleanExpiredQueues(keep func(topic string) bool) (deleted int, err error) {
	s.deleteMu.Lock()
	defer s.deleteMu.Unlock()
	var expired []*Queue
	s.queues.each(func(q *Queue) bool {
		if q.Max() > 0 && q.Min() == q.Max() && q.Next() == q.Max() && !keep(q.topic) {
			expired = append(expired, q)
		}
		return true
	})
	expired, err = s.log.dismissIdle(expired)
	if err == nil && len(expired) > 0 {
		_, err = s.log.Sync(s.Wrote())
	}
	if err != nil {
		return 0, fmt.Errorf("store: delete expired queues: %w", err)
	}
	return len(expired), s.removeQueues(expired)
}

// dismiss makes queues refuse appends from now on and returns the end of the log of that moment: no later record names
// one of them, nor one that was refused and lies behind the end.
func (l *CommitLog) dismiss(queues []*Queue) (deletion, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range queues {
		q.closed.Store(true)
	}
	return deletion{at: l.pos, time: l.lastStore}, l.clearRefused(l.pos)
}

// dismissIdle is dismiss for those queues of which every message is dispatched and has left the log; it returns them.
func (l *CommitLog) dismissIdle(queues []*Queue) (idle []*Queue, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.clearRefused(l.pos); err != nil {
		return nil, err
	}
	for _, q := range queues {
		if q.Min() == q.Max() && q.Next() == q.Max() {
			q.closed.Store(true)
			q.gone.Store(true)
			idle = append(idle, q)
		}
	}
	return idle, nil
}

// removeQueues deletes the files of queues that are gone, then forgets the queues. In this order: as long as they are in
// the table nobody makes others of the same names, whose files these would be. The caller holds deleteMu.
func (s *Store) removeQueues(queues []*Queue) error {
	// No flush of the queues may be under way: it would miss folders that it is about to sync.
	s.queueSyncMu.Lock()
	defer s.queueSyncMu.Unlock()
	var failed error
	removed := make([]*Queue, 0, len(queues))
	topics := map[string]bool{}
	for _, q := range queues {
		if err := q.removeFiles(); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		removed = append(removed, q)
		topics[q.topic] = true
	}
	for topic := range topics {
		_ = s.fsys.Remove(filepath.Join(s.set.queueDir, topic)) // stays while there are other queues in it
		_ = s.fsys.Remove(filepath.Join(s.set.extDir, topic))
	}
	if len(topics) > 0 {
		failed = errors.Join(failed, s.fsys.SyncDir(s.set.queueDir))
	}
	if len(topics) > 0 && s.extThere {
		failed = errors.Join(failed, s.fsys.SyncDir(s.set.extDir))
	}
	s.queues.remove(removed)
	if len(removed) > 0 {
		s.saveState(true) // or the next start after a crash would miss them and look at the whole log
	}
	if failed != nil {
		return fmt.Errorf("store: delete queues: %w", failed)
	}
	return nil
}

// removeFiles deletes the files and the folder of a queue that is gone, or that recovery found to be.
func (q *Queue) removeFiles() error {
	q.writeMu.Lock() // an append that is under way has come to its end then, and no other writes
	defer q.writeMu.Unlock()
	q.ringMu.Lock()
	q.ring.drop(&q.store.rings)
	q.ringMu.Unlock()
	// Ext files first: a queue without them can be read, and be deleted by the next start.
	if err := q.removeExtFiles(); err != nil {
		return err
	}
	fsys := q.store.fsys
	entries, err := readDirIfThere(fsys, q.dir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if start, ok := parseFileName(e.Name); ok && !e.Dir {
			if err := q.removeFile(start); err != nil {
				return err
			}
		}
	}
	q.firstFile = -1
	return removeDir(fsys, q.dir())
}

// removeDir removes a folder of which the files are deleted, if it is there. The deletions are durable first.
func removeDir(fsys sysio.FS, dir string) error {
	err := fsys.SyncDir(dir)
	if err == nil {
		err = fsys.Remove(dir) // fails if something else is in it
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Topics returns the topics that have a queue, sorted.
func (s *Store) Topics() []string {
	names := map[string]bool{}
	s.queues.each(func(q *Queue) bool { names[q.topic] = true; return true })
	return slices.Sorted(maps.Keys(names))
}

// Gone tells whether the queue was deleted. The store has, or makes, another one of its name then.
// hot: 0 allocs, no locks
func (q *Queue) Gone() bool { return q.gone.Load() }

// ofTopic returns the queues of a topic.
func (t *queueTable) ofTopic(topic string) (queues []*Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tq := (*t.shard([]byte(topic)).Load())[topic]; tq != nil {
		tq.each(func(q *Queue) bool { queues = append(queues, q); return true })
	}
	return queues
}

// remove takes queues out of the table.
func (t *queueTable) remove(queues []*Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range queues {
		shard := t.shard([]byte(q.topic))
		topics := *shard.Load()
		tq := topics[q.topic]
		if tq == nil || tq.get(q.id) != q {
			continue
		}
		t.count.Add(-1)
		if rest := tq.without(q); rest != nil {
			changed := maps.Clone(topics)
			changed[q.topic] = rest
			shard.Store(&changed)
			continue
		}
		changed := maps.Clone(topics)
		delete(changed, q.topic)
		shard.Store(&changed)
	}
}

// without returns the topic with all queues but q, nil if there is no other.
func (tq *topicQueues) without(q *Queue) *topicQueues {
	rest := &topicQueues{name: tq.name}
	others := false
	tq.each(func(other *Queue) bool {
		if other != q {
			rest.put(other)
			others = true
		}
		return true
	})
	if !others {
		return nil
	}
	return rest
}

// dropDeleted deletes what is left of queues whose topic was deleted while the broker was killed in the middle of it, or
// whose removal a power cut took back.
func (r *recovery) dropDeleted() error {
	for topic, mark := range r.lay.deleted {
		for _, q := range r.s.queues.ofTopic(topic) {
			u, ok := r.lastUnit(q)
			if ok && u.Phy >= mark.at {
				continue // a later topic of the same name
			}
			if err := q.removeFiles(); err != nil {
				return fmt.Errorf("store: a queue of a deleted topic: %w", err)
			}
			q.min.Store(0)
			r.setEnd(q, 0)
			q.goneBelow.Store(0)
			q.ext.goneBelow.Store(0)
		}
	}
	// Names in consumequeue_ext may have come back alone.
	for _, d := range r.lay.ext {
		if _, deleted := r.lay.deleted[d.topic]; !deleted {
			continue
		}
		if q := r.s.Queue(d.topic, d.id); q.firstFile < 0 {
			if err := q.removeFiles(); err != nil {
				return fmt.Errorf("store: a queue of a deleted topic: %w", err)
			}
			q.goneBelow.Store(0)
			q.ext.goneBelow.Store(0)
		}
	}
	return nil
}
