package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// dispatchMark is a record below which everything is dispatched: what the checkpoint may name once the queues are synced.
type dispatchMark struct {
	phy       message.PhyOffset
	storeTime message.Millis
}

// NoteDispatched tells where the newest record begins up to which every record has its unit, in every queue (the low-water
// mark over all shards), and its store time. Dispatch calls it now and then; the checkpoint names that record after the
// next complete FlushQueues. Any goroutine.
func (s *Store) NoteDispatched(start message.PhyOffset, storeTime message.Millis) {
	s.dirtyMu.Lock()
	if start >= s.dispatched.phy {
		s.dispatched = dispatchMark{start, storeTime}
	}
	s.dirtyMu.Unlock()
}

func (s *Store) noteDirty(q *Queue) {
	s.dirtyMu.Lock()
	s.dirtyQueues = append(s.dirtyQueues, q)
	s.dirtyMu.Unlock()
}

// FlushQueues makes all visible units durable, with the names of their files, and moves the checkpoint to the record last
// given to NoteDispatched before the call. After a failure the checkpoint's queue fields do not move any more in this run:
// what follows is dispatched again after the next start. Any goroutine; one at a time does the work.
func (s *Store) FlushQueues() error { return s.flushQueues(0) }

// flushQueues leaves alone what has fewer than leastPages dirty pages and fills no file; 0 syncs all.
func (s *Store) flushQueues(leastPages int64) error {
	s.queueSyncMu.Lock()
	defer s.queueSyncMu.Unlock()
	s.dirtyMu.Lock()
	mark, queues := s.dispatched, s.dirtyQueues // the mark first: units that come while we sync are not covered
	s.dirtyQueues = nil
	s.dirtyMu.Unlock()

	dirs := map[string]bool{}
	var first error
	for _, q := range queues {
		if err := q.flush(leastPages, dirs); err != nil && first == nil {
			first = err
		}
	}
	for dir := range dirs {
		if err := s.fsys.SyncDir(dir); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		s.queueSyncFailed.Store(true)
		return fmt.Errorf("sync consume queues: %w", first)
	}
	if leastPages == 0 && mark.storeTime > 0 && !s.queueSyncFailed.Load() {
		s.checkpoint.setLogics(mark)
	}
	return nil
}

// flush makes the queue's units durable. Directories that got new names are added to dirs.
func (q *Queue) flush(leastPages int64, dirs map[string]bool) error {
	q.writeMu.Lock()
	from, end := q.synced, q.Max()
	lo, hi := int64(from)*unitBytes, int64(end)*unitBytes
	fileBytes := q.store.set.queueFileBytes
	if hi/sysio.PageSize-lo/sysio.PageSize < leastPages && hi/fileBytes == lo/fileBytes {
		q.writeMu.Unlock()
		q.store.noteDirty(q) // later
		return nil
	}
	names := q.newNames
	q.newNames, q.dirty = false, false
	lo = max(lo, q.firstFile)
	q.writeMu.Unlock()

	if names {
		dirs[q.dir()] = true
		dirs[filepath.Dir(q.dir())] = true
		dirs[q.store.set.queueDir] = true
	}
	var err error
	for start := lo - lo%fileBytes; start < hi && err == nil; start += fileBytes {
		err = q.syncFile(start)
	}
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	if err == nil {
		q.synced = max(q.synced, end)
		return nil
	}
	q.newNames = q.newNames || names
	if !q.dirty {
		q.dirty = true
		q.store.noteDirty(q)
	}
	return err
}

func (q *Queue) syncFile(start int64) error {
	key := fileKey{queue: q, start: start}
	open := q.store.cold.acquire(key)
	if open == nil {
		file, err := q.store.fsys.OpenFile(q.filePath(start), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile: nothing to keep
		}
		if err != nil {
			return err
		}
		open = q.store.cold.insert(key, file)
	}
	defer q.store.cold.release(open)
	return open.file.Datasync()
}
