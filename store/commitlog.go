package store

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/stagetime"
	"peregrine/internal/sysio"
)

// cacheLinePad keeps positions that different goroutines write on different cache lines (two lines: the prefetcher of
// x86 fetches pairs).
type cacheLinePad [128]byte

// CommitLog is the log itself: the append lock, the files, the positions. It implements flush.Log.
//
//	             flushed          wrote      touched           allocated
//	|---------------|---------------|-----------|------------------|
//	 durable         in page cache   dirty zeros  blocks on disk
type CommitLog struct {
	fsys   sysio.FS
	set    settings
	logger *slog.Logger
	now    func() message.Millis

	// mu is the append lock. It guards the fields down to the pad and Queue.next of every queue; nothing else is locked
	// and no system call is made under it in the mapped form (one pwrite per batch with writeWithoutMmap).
	mu        sync.Mutex
	lockWaits stagetime.Stage   // of appends that found mu taken; written under mu
	pos       message.PhyOffset // where the next record goes; equals wrote whenever mu is free
	cur       *mappedFile       // the file of pos; nil when pos is at the border of a file that is not entered yet
	curData   []byte            // its mapping
	lastStore message.Millis    // store time of the newest record
	scratch   []byte            // writeWithoutMmap: records of this batch that are not written yet
	pendingAt message.PhyOffset // writeWithoutMmap: where scratch goes
	refusedTo message.PhyOffset // writeWithoutMmap: up to here a failed write may have left records that were refused, 0: nowhere

	_ cacheLinePad
	// wrote publishes that every byte below it is in place. Stored once per batch by the holder of mu.
	wrote atomic.Int64
	_     cacheLinePad
	// flushed publishes that every byte below it is durable. Stored by Sync.
	flushed atomic.Int64
	_       cacheLinePad

	// storeTime publishes lastStore, before wrote: whoever reads it first and wrote second gets a time that wrote covers.
	storeTime atomic.Int64
	// flushedTime is the store time of the newest record known to be durable (checkpoint.physicMsgTimestamp).
	flushedTime atomic.Int64
	// cleared says that the zeros of clearRefused may not be durable.
	cleared atomic.Bool
	// gate publishes why appends are refused, nil while they are not. See setGate.
	gate atomic.Pointer[error]
	// unproven is the newest cause that refused appends, until something durable was written after it. See Store.Health.
	unproven atomic.Pointer[error]
	// touchAt and allocateAt are positions at which an append wakes the background goroutine of that name.
	touchAt    atomic.Int64
	allocateAt atomic.Int64
	// files publishes the table of files.
	files atomic.Pointer[fileTable]
	// mappedFrom is the start of the oldest mapped file; hotFrom is where the hot window begins.
	mappedFrom atomic.Int64
	hotFrom    atomic.Int64
	// residentFrom is the oldest position that this run has read or written: older pages may not be in memory.
	residentFrom message.PhyOffset

	syncMu    sync.Mutex // one sync at a time; taken before no other lock
	syncedDir atomic.Int64

	gateMu       sync.Mutex // guards the causes; leaf
	closed       bool
	failed       error // sticky: a failed sync
	full         error // disk over the threshold
	undispatched error // queues cannot be written
	noSpace      error // the allocator met the end of the disk or of the ratio

	tableMu sync.Mutex    // guards changes of files, and orphans; leaf
	orphans []retiredView // mappings of deleted files, for the ticker

	alloc   *allocator
	touch   *toucher
	warm    *warmer // nil without warmMapedFileEnable
	cold    *fileCache
	retired []retiredView // only the ticker's goroutine
}

func newCommitLog(fsys sysio.FS, set settings, logger *slog.Logger, now func() message.Millis, cold *fileCache) *CommitLog {
	l := &CommitLog{fsys: fsys, set: set, logger: logger, now: now, cold: cold}
	l.files.Store(&fileTable{size: set.segmentBytes})
	if set.direct {
		l.scratch = make([]byte, 0, l.scratchBytes())
	}
	l.alloc = newAllocator(l)
	l.touch = newToucher(l)
	if set.warm {
		l.warm = newWarmer(l)
	}
	return l
}

// Wrote returns the end of what is appended completely. Any goroutine.
// hot: 0 allocs, no locks
func (l *CommitLog) Wrote() message.PhyOffset { return message.PhyOffset(l.wrote.Load()) }

// Flushed returns the end of what is durable. Any goroutine.
// hot: 0 allocs, no locks
func (l *CommitLog) Flushed() message.PhyOffset { return message.PhyOffset(l.flushed.Load()) }

// Confirmed returns the end of what readers may see: flushed in SYNC_FLUSH, wrote otherwise. Any goroutine.
// hot: 0 allocs, no locks
func (l *CommitLog) Confirmed() message.PhyOffset {
	if l.set.syncFlush {
		return l.Flushed()
	}
	return l.Wrote()
}

// MinPhy returns the start of the oldest file, 0 without any.
func (l *CommitLog) MinPhy() message.PhyOffset {
	if t := l.files.Load(); len(t.files) > 0 {
		return t.files[0].start
	}
	return 0
}

// start begins the background work. The positions must be set.
func (l *CommitLog) start() {
	go l.alloc.run()
	l.alloc.poke()
	if !l.set.direct {
		go l.touch.run()
		l.touch.poke()
	}
	l.warm.start()
}

// close refuses appends from now on.
func (l *CommitLog) close() {
	l.gateMu.Lock()
	l.closed = true
	l.gateMu.Unlock()
	l.publishGate()
}

// stop refuses appends, ends the background work and waits for it.
func (l *CommitLog) stop() {
	l.close()
	l.alloc.stop()
	if !l.set.direct {
		l.touch.stop()
	}
	l.warm.stop()
	// Whoever holds the append lock now passed the gate before it closed.
	l.mu.Lock()
	defer l.mu.Unlock()
}

// fail makes a failed sync final.
func (l *CommitLog) fail(err error) {
	l.gateMu.Lock()
	if l.failed == nil {
		l.failed = err
	}
	l.gateMu.Unlock()
	l.publishGate()
}

// Err returns the sticky error of a failed sync, nil while everything is well.
func (l *CommitLog) Err() error {
	l.gateMu.Lock()
	defer l.gateMu.Unlock()
	return l.failed
}

// Refusal returns why appends are refused now, nil when they are not.
// hot: 0 allocs, no locks
func (l *CommitLog) Refusal() error {
	if p := l.gate.Load(); p != nil {
		return *p
	}
	return nil
}

// setCause records or clears (nil) one of the causes that heal by themselves.
func (l *CommitLog) setCause(cause *error, err error) {
	if err != nil {
		l.unproven.Store(&err)
	}
	l.gateMu.Lock()
	*cause = err
	l.gateMu.Unlock()
	l.publishGate()
}

func (l *CommitLog) noSpaceCause() error {
	l.gateMu.Lock()
	defer l.gateMu.Unlock()
	return l.noSpace
}

// publishGate makes the weightiest cause visible to appends. noSpace is not among them: what is allocated already may be
// used up first.
func (l *CommitLog) publishGate() {
	l.gateMu.Lock()
	defer l.gateMu.Unlock()
	var err error
	switch {
	case l.failed != nil:
		err = l.failed
	case l.closed:
		err = ErrShutdown
	case l.full != nil:
		err = l.full
	case l.undispatched != nil:
		err = l.undispatched
	}
	if err == nil {
		l.gate.Store(nil)
		return
	}
	l.gate.Store(&err)
}

// retiredView is a mapping that left the hot window and waits for its last readers.
type retiredView struct {
	view  *mappedView
	f     *mappedFile
	ticks int
}

// tick moves the hot window and unmaps what left it long ago. The oldest files, as many as doomed says, leave it early: they
// are the next to be deleted, and the blocks of a mapped file stay on the disk. It returns how many mappings were closed.
// Called once per tickInterval by one goroutine.
func (l *CommitLog) tick(hotBytes int64, doomed int) (closed int) {
	l.adoptOrphans()
	wrote := l.Wrote()
	table := l.files.Load()
	hot := max(int64(wrote)-hotBytes, int64(l.residentFrom))
	// Grace is counted in ticks of this goroutine, not by the clock: when the process was stopped for a minute, its readers
	// were as well.
	kept := l.retired[:0]
	for _, r := range l.retired {
		if r.ticks++; r.ticks < unmapGraceTicks {
			kept = append(kept, r)
			continue
		}
		if err := r.view.close(); err != nil {
			l.logger.Warn("unmap a commitlog file", "file", r.view.file.Name(), "error", err)
		}
		r.f.mapped.Store(false)
		closed++
	}
	clear(l.retired[len(kept):])
	l.retired = kept

	from := max(message.PhyOffset(l.mappedFrom.Load()), l.MinPhy())
	newest := table.last()
	for f := table.at(from); f != nil; f = table.at(f.end()) {
		tooMany := newest != nil && int64(newest.start-f.start)/table.size >= mappedFilesMax
		soonGone := int64(f.start-table.files[0].start)/table.size < int64(doomed) && f.end() < wrote
		if (f.end() > message.PhyOffset(hot) && !tooMany && !soonGone) || f.end() > l.Flushed() {
			break
		}
		from = f.end()
		l.mappedFrom.Store(int64(from)) // before the view goes: IsHot must not promise it any more
		if v := f.view.Swap(nil); v != nil {
			l.retired = append(l.retired, retiredView{view: v, f: f})
		}
	}
	l.hotFrom.Store(max(hot, int64(from)))
	return closed
}

// nowMillis is the default clock.
func nowMillis() message.Millis { return message.Millis(time.Now().UnixMilli()) }
