package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Names in the store directory.
const (
	queueDirName   = "consumequeue"
	extDirName     = "consumequeue_ext"
	indexDirName   = "index"
	checkpointName = "checkpoint"
	probeName      = "peregrine.probe"
	cutDirName     = "cut" // files that were found behind the end of the log; nothing reads them
)

// Store is an open store directory.
type Store struct {
	fsys   sysio.FS
	set    settings
	logger *slog.Logger
	log    *CommitLog
	queues *queueTable
	cold   *fileCache
	chunks *chunkPool
	rings  ringBudget
	lock   io.Closer
	run    uint64 // in the lock file and in the state file

	extBatches  *extBatchPool
	extThere    bool // there may be files in consumequeue_ext; set by open
	extReadable bool // they have the configured size; set by open

	checkpoint *checkpoint
	index      *Index // nil: switched off
	cleaner    *cleaner
	report     RecoveryReport

	queueSyncMu     sync.Mutex  // one FlushQueues at a time; before Queue.writeMu
	queueSyncFailed atomic.Bool // a sync of queue files failed: the checkpoint's queue fields stay

	stateMu   sync.Mutex // one writer of the state file at a time; before Queue.writeMu
	lastState time.Time  // of the last state file of a running store; under stateMu

	deleteMu sync.Mutex // one deletion of queues at a time; before queueSyncMu
	deleted  deletedTopics

	dirtyMu     sync.Mutex // the list; leaf
	dirtyQueues []*Queue

	// Records that recovery found damaged in the middle of the log. Only read once Open has returned.
	damaged map[message.PhyOffset]bool
	damage  damageNotes // what readers found since

	// What the last look at the disk gave. Open's goroutine, then tickLoop's only.
	diskFull, diskUnknown, diskForced bool
	usedPct                           atomic.Int64 // percent, -1 when the disk did not tell

	// See doomedFiles; tickLoop's only.
	wroteBefore [paceTicks]message.PhyOffset // the log's end at the last ticks
	ticks       int

	quit      chan struct{}
	running   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// claim takes the directory: the lock before anything else, then a look that refuses what cannot be served, then the abort
// file. A directory that is refused stays as it was, down to the missing lock file.
func claim(fsys sysio.FS, set settings) (held closers, lay *layout, run uint64, err error) {
	defer func() {
		if err != nil {
			held.Close()
		}
	}()
	if info, err := fsys.Stat(filepath.Join(set.root, lockName)); err != nil || info.Dir {
		if _, err := inspect(fsys, set); err != nil && (set.prepare == nil || !Repairable(err)) {
			return nil, nil, 0, err
		}
		if err := makeDir(fsys, set.root); err != nil {
			return nil, nil, 0, err
		}
	}
	lock, err := takeLock(fsys, set.root)
	if err != nil {
		return nil, nil, 0, err
	}
	if held, err = lockDirs(fsys, closers{lock}, set.root, set.logDir); err != nil {
		return held, nil, 0, err
	}
	lay, err = inspect(fsys, set)
	if set.prepare != nil && (err == nil || Repairable(err)) {
		if err = set.prepare(func() error { return markChanging(fsys, set.root) }); err == nil {
			lay, err = inspect(fsys, set)
		}
	}
	if err == nil {
		err = markRunning(fsys, set.root)
	}
	if err == nil {
		run, err = markRun(fsys, set.root, lay)
	}
	_, logMissing := fsys.Stat(set.logDir)
	dirs := []string{set.logDir, set.queueDir}
	if set.extWrite {
		dirs = append(dirs, set.extDir)
	}
	for _, dir := range dirs {
		if err == nil {
			err = makeDir(fsys, dir)
		}
	}
	if err == nil && logMissing != nil {
		held, err = lockDirs(fsys, held, set.logDir)
	}
	return held, lay, run, err
}

// makeDir makes a directory with a durable name.
func makeDir(fsys sysio.FS, dir string) error {
	parent := filepath.Dir(dir)
	_, err := fsys.Stat(dir)
	existed := err == nil
	if !existed && parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
		if err := fsys.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("store: make the directory: %w", err)
		}
	}
	// One that is there may have been made by a process that was killed before it synced the name. Whoever may not read the folder
	// above did not make it.
	if err := fsys.SyncDir(parent); err != nil && !(existed && errors.Is(err, fs.ErrPermission)) {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func open(fsys sysio.FS, set settings, logger *slog.Logger, now func() message.Millis, progress func(RecoveryProgress)) (*Store, error) {
	set.live = new(atomic.Pointer[adjustable])
	set.live.Store(&set.adjustable)
	held, lay, run, err := claim(fsys, set)
	if err != nil {
		return nil, err
	}
	s := &Store{
		fsys: fsys, set: set, logger: logger, lock: held, run: run,
		queues: newQueueTable(), cold: newFileCache(openFilesMax), chunks: newChunkPool(),
		extBatches: newExtBatchPool(), extThere: set.extWrite || lay.ext != nil, extReadable: !lay.extForeign,
		damaged: map[message.PhyOffset]bool{},
		quit:    make(chan struct{}),
	}
	s.log = newCommitLog(fsys, set, logger, now, s.cold)
	if err := s.recover(lay, progress); err != nil {
		s.release()
		return nil, err
	}
	if s.index, err = newIndex(s, lay); err != nil {
		s.release()
		return nil, err
	}
	s.cleaner = newCleaner(s)
	s.log.alloc.prime()
	s.log.touch.prime()
	s.checkDisk()
	s.log.start()
	if set.tickEvery > 0 {
		s.running.Add(1)
		go s.tickLoop()
	}
	if set.retention.every > 0 {
		s.running.Add(1)
		go s.cleaner.run()
	}
	return s, nil
}

func (s *Store) recover(lay *layout, progress func(RecoveryProgress)) error {
	for _, w := range lay.warnings {
		s.logger.Warn(w)
	}
	var err error
	s.deleted.marks = lay.deleted
	if s.checkpoint, err = openCheckpoint(s.fsys, filepath.Join(s.set.root, checkpointName), lay.checkpoint); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	r := &recovery{s: s, lay: lay, logger: s.logger}
	if err := r.run(progress); err != nil {
		return fmt.Errorf("store: recovery: %w", err)
	}
	s.report = r.report
	s.saveState(true) // before anything is made ahead of the end, which would tell a clean end from this one
	return nil
}

// Recovery returns what Open found and did.
func (s *Store) Recovery() RecoveryReport { return s.report }

// CommitLog returns the log, which implements flush.Log.
func (s *Store) CommitLog() *CommitLog { return s.log }

// SegmentBytes is the length of the log's files: the file of position p ends at (p/SegmentBytes+1)*SegmentBytes.
func (s *Store) SegmentBytes() int64 { return s.set.segmentBytes }

// Append is CommitLog.Append.
// hot: see there
func (s *Store) Append(batch []Message) message.PhyOffset { return s.log.Append(batch) }

// Refusal returns why appends are refused now (ErrDiskFull, ErrSyncFailed, ErrShutdown), nil when they are not.
func (s *Store) Refusal() error { return s.log.Refusal() }

// Wrote, Flushed, Confirmed and MinPhy are the log's positions, see CommitLog.
func (s *Store) Wrote() message.PhyOffset     { return s.log.Wrote() }
func (s *Store) Flushed() message.PhyOffset   { return s.log.Flushed() }
func (s *Store) Confirmed() message.PhyOffset { return s.log.Confirmed() }
func (s *Store) MinPhy() message.PhyOffset    { return s.log.MinPhy() }

// LastStoreTime is the store time of the newest record, 0 in a log that never had one. It never runs backwards.
// hot: 0 allocs, no locks
func (s *Store) LastStoreTime() message.Millis { return message.Millis(s.log.storeTime.Load()) }

// Slice, ReadAt and IsHot read the log, see CommitLog.
func (s *Store) Slice(phy message.PhyOffset, n int) []byte           { return s.log.Slice(phy, n) }
func (s *Store) ReadAt(b []byte, phy message.PhyOffset) (int, error) { return s.log.ReadAt(b, phy) }
func (s *Store) IsHot(phy message.PhyOffset) bool                    { return s.log.IsHot(phy) }

// LookupQueue returns a queue, nil if it was never seen. Any goroutine.
// hot: 0 allocs, no locks
func (s *Store) LookupQueue(topic []byte, id message.QueueID) *Queue {
	return s.queues.lookup(topic, id)
}

// Queue returns a queue and makes it, in memory, if it was never seen. Any goroutine.
func (s *Store) Queue(topic string, id message.QueueID) *Queue {
	return s.queues.getOrCreate(topic, id, s.newQueue)
}

func (s *Store) newQueue(topic string, id message.QueueID) *Queue {
	q := &Queue{topic: topic, id: id, badTopic: !topicCanBeStored(topic) || id < 0, store: s, firstFile: -1, bornAt: s.deleted.mark(topic)}
	q.own.Store(-1)
	return q
}

// Queues calls yield with every queue until it returns false, in no order. Queues made meanwhile may be missed.
func (s *Store) Queues(yield func(*Queue) bool) { s.queues.each(yield) }

func (s *Store) unitsPerFile() message.QueueOffset {
	return message.QueueOffset(s.set.queueFileBytes / unitBytes)
}

// tickLoop does what is due once a second. Nobody else calls tick.
func (s *Store) tickLoop() {
	defer s.running.Done()
	tick := time.NewTicker(s.set.tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
			s.tick()
		}
	}
}

func (s *Store) tick() {
	s.checkDisk()
	if s.log.noSpaceCause() != nil {
		s.log.alloc.poke()
	}
	if s.log.tick(hotWindow(), s.doomedFiles()) > 0 && s.cleaner.pending.Load() > 0 {
		s.cleaner.poke()
	}
	s.prove()
	s.log.warm.poke()
	s.sweepRings()
	s.checkpoint.setPhysic(message.Millis(s.log.flushedTime.Load()))
	if err := s.checkpoint.save(false); err != nil {
		s.logger.Warn("write the checkpoint", "error", err)
	}
}

// sweepRings takes the memory of idle rings away when the budget is nearly used up.
func (s *Store) sweepRings() {
	if !s.rings.short() {
		return
	}
	s.queues.each(func(q *Queue) bool {
		q.ringMu.Lock()
		if len(q.ring.units) > 0 {
			if q.idle++; q.idle >= ringIdleTicks {
				q.ring.drop(&s.rings)
				q.idle = 0
			}
		}
		q.ringMu.Unlock()
		return true
	})
}

// RefuseAppends refuses all further appends with ErrShutdown. Reading goes on.
func (s *Store) RefuseAppends() { s.log.close() }

// Fail refuses all further appends with ErrSyncFailed and err as the cause: a sync of the log failed. It is final.
func (s *Store) Fail(err error) {
	s.log.fail(&syncError{at: s.log.Flushed(), cause: err})
}

// SetDispatchError refuses appends while err is not nil: what is appended would not become visible.
func (s *Store) SetDispatchError(err error) {
	if err != nil {
		err = &dispatchError{cause: err}
	}
	s.log.setCause(&s.log.undispatched, err)
}

// Close ends the store: appends are refused, everything is synced, files made ahead are deleted, the lock is released. clean
// says that dispatch has reached the end of the log and nothing failed elsewhere: only then, and if nothing fails here, the
// abort file goes and the next start counts as one after a clean stop. Nobody may use a Slice or any other method
// afterwards. Further calls return the first result.
func (s *Store) Close(clean bool) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(clean) })
	return s.closeErr
}

func (s *Store) close(clean bool) error {
	close(s.quit)
	s.log.stop()
	s.running.Wait()
	err := s.cleaner.finish()
	_, syncErr := s.log.Sync(s.log.Wrote())
	err = errors.Join(err, syncErr)
	err = errors.Join(err, s.FlushQueues(0))
	s.checkpoint.setPhysic(message.Millis(s.log.flushedTime.Load()))
	err = errors.Join(err, s.checkpoint.save(true), s.log.alloc.dropUnused())
	if err == nil && clean && !s.queueSyncFailed.Load() {
		s.saveState(false)
		err = markStopped(s.fsys, s.set.root)
	} else {
		s.logger.Warn("the store was not closed cleanly; the next start recovers as after a crash", "error", err)
	}
	s.release()
	return err
}

// release gives mappings, descriptors and the lock back and changes nothing on disk.
func (s *Store) release() {
	if s.cleaner != nil {
		s.cleaner.letGo()
	}
	s.log.adoptOrphans()
	for _, r := range s.log.retired {
		_ = r.view.close()
	}
	for _, f := range s.log.files.Load().files {
		if v := f.view.Swap(nil); v != nil {
			_ = v.close()
		}
	}
	s.cold.closeAll()
	if s.index != nil {
		s.index.release()
	}
	if s.checkpoint != nil {
		_ = s.checkpoint.close()
	}
	_ = s.lock.Close()
}
