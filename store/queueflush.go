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

func (s *Store) noteDirty(q *Queue) {
	s.dirtyMu.Lock()
	s.dirtyQueues = append(s.dirtyQueues, q)
	s.dirtyMu.Unlock()
}

// FlushQueues makes the visible units durable, with the names of their files, of every queue that has at least leastPages
// unsynced pages or filled a file (0: everything unsynced). After a failure SaveCheckpoint does not move any more in this
// run: what follows is dispatched again after the next start. Any goroutine; one at a time does the work.
func (s *Store) FlushQueues(leastPages int) error {
	s.queueSyncMu.Lock()
	defer s.queueSyncMu.Unlock()
	s.dirtyMu.Lock()
	queues := s.dirtyQueues
	s.dirtyQueues = nil
	s.dirtyMu.Unlock()

	dirs := map[string]bool{}
	var first error
	for _, q := range queues {
		if err := q.flush(int64(leastPages), dirs); err != nil && first == nil {
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
		return fmt.Errorf("store: sync consume queues: %w", first)
	}
	return nil
}

// SaveCheckpoint stores, durably, the newest record whose unit is durable like those of all records before it: where it
// begins and its store time. The next start after a crash begins its scan in the file of phy. Take the mark before
// FlushQueues(0) and call this after it. Positions only move forward.
func (s *Store) SaveCheckpoint(storeTime message.Millis, phy message.PhyOffset) error {
	if s.queueSyncFailed.Load() {
		return fmt.Errorf("store: checkpoint: %w", ErrSyncFailed)
	}
	s.checkpoint.setLogics(storeTime, phy)
	s.checkpoint.setPhysic(message.Millis(s.log.flushedTime.Load()))
	if err := s.checkpoint.save(true); err != nil {
		return err
	}
	s.saveStateNowAndThen()
	return nil
}

// flush makes the queue's units durable. Directories that got new names are added to dirs.
func (q *Queue) flush(leastPages int64, dirs map[string]bool) error {
	q.writeMu.Lock()
	if q.gone.Load() {
		q.writeMu.Unlock()
		return nil
	}
	from, end := q.synced, q.Max()
	lo, hi := int64(from)*unitBytes, int64(end)*unitBytes
	fileBytes := q.store.set.queueFileBytes
	if hi/sysio.PageSize-lo/sysio.PageSize < leastPages && hi/fileBytes == lo/fileBytes {
		q.writeMu.Unlock()
		q.store.noteDirty(q) // later
		return nil
	}
	names := q.newNames && q.firstFile >= 0 // without files there may be no folder: recovery has ended a deletion
	q.newNames, q.dirty = false, false
	lo = max(lo, q.firstFile)
	ext, extNames := q.ext.dirty, q.ext.newNames
	q.ext.dirty, q.ext.newNames = span{}, false
	q.writeMu.Unlock()

	if names {
		dirs[q.dir()] = true
		dirs[filepath.Dir(q.dir())] = true
		dirs[q.store.set.queueDir] = true
	}
	if extNames {
		dirs[q.extDir()] = true
		dirs[filepath.Dir(q.extDir())] = true
		dirs[q.store.set.extDir] = true
	}
	// Ext units before the units that name them.
	var err error
	for start := q.extKey(ext.from).start; start < ext.to && err == nil; start += q.store.set.extFileBytes {
		err = q.syncFile(fileKey{queue: q, start: start, ext: true})
	}
	for start := lo - lo%fileBytes; start < hi && err == nil; start += fileBytes {
		err = q.syncFile(fileKey{queue: q, start: start})
	}
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	if err == nil {
		q.synced = max(q.synced, end)
		return nil
	}
	q.newNames = q.newNames || names
	q.ext.newNames = q.ext.newNames || extNames
	q.ext.dirty.add(ext.from, ext.to)
	if !q.dirty {
		q.dirty = true
		q.store.noteDirty(q)
	}
	return err
}

func (q *Queue) syncFile(key fileKey) error {
	open := q.store.cold.acquire(key)
	if open == nil {
		file, err := q.store.fsys.OpenFile(q.path(key), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile: nothing to keep
		}
		if err != nil {
			return err
		}
		open = q.keepOpen(key, file)
	}
	defer q.store.cold.release(open)
	return open.file.Datasync()
}
