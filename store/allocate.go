package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// allocator makes the log's files before they are needed. It alone adds to the file table while the store runs; the cleaner
// takes away from its begin.
//
// While the disk allows, files get all their blocks at once and one whole file lies ahead of the one being written. Where
// that would lift the disk over diskSpaceCleanForciblyRatio, files get blocks in steps, up to diskSpaceWarningLevelRatio;
// beyond that nothing is allocated, and appends are refused once the allocated bytes are used up.
type allocator struct {
	l    *CommitLog
	wake chan struct{} // capacity 1
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex    // guards changed; leaf
	changed chan struct{} // closed and replaced whenever there is more room, or a reason why there is none
}

func newAllocator(l *CommitLog) *allocator {
	return &allocator{l: l, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
}

// poke wakes the allocator; it never blocks. The position that asks for it is armed again by the allocator.
// hot: once per file, or per half of allocateAheadBytes
func (a *allocator) poke() {
	a.l.allocateAt.Store(neverPosition)
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// neverPosition disarms touchAt and allocateAt.
const neverPosition = 1<<63 - 1

func (a *allocator) progressed() chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *allocator) announce() {
	a.mu.Lock()
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
}

// wait is what an append that found no room does, without the append lock.
func (a *allocator) wait(changed chan struct{}) error {
	a.poke()
	timer := time.NewTimer(allocateWaitMax)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-a.quit:
		return ErrShutdown
	case <-timer.C:
		return ErrNotReady
	}
}

func (a *allocator) run() {
	defer close(a.done)
	for {
		select {
		case <-a.quit:
			return
		case <-a.wake:
		}
		a.work()
	}
}

// work brings the allocation to where it should be, or records why that is not possible.
func (a *allocator) work() {
	err := a.fill()
	was := a.l.noSpaceCause()
	a.l.setCause(&a.l.noSpace, err)
	if err != nil {
		if was == nil {
			a.l.logger.Warn("nothing can be prepared ahead in the commitlog", "error", err)
		}
		a.announce()
	} else if was != nil {
		a.l.logger.Info("the commitlog is prepared ahead again")
	}
	a.syncDir()
}

func (a *allocator) stop() {
	close(a.quit)
	<-a.done
}

// prime does what the first appends need, before the goroutine starts: blocks behind the end of the log.
func (a *allocator) prime() {
	f, err := a.lacking(a.l.Wrote())
	if err == nil && f != nil {
		err = a.extend(f)
	}
	a.l.setCause(&a.l.noSpace, err)
	if err != nil {
		a.l.logger.Warn("nothing can be prepared ahead in the commitlog", "error", err)
	}
	a.syncDir()
}

// fill makes and allocates files until enough lies ahead of the write position. It returns why it stopped short.
func (a *allocator) fill() error {
	l := a.l
	for {
		select {
		case <-a.quit:
			return nil
		default:
		}
		wrote := l.Wrote()
		f, err := a.lacking(wrote)
		if f == nil && err == nil {
			return nil
		}
		if err == nil {
			err = a.extend(f)
		}
		if err != nil {
			return err
		}
		a.announce()
		l.touch.extendTo()
		l.warm.poke()
	}
}

// lacking returns the first file, made if it does not exist yet, that needs more blocks; nil when enough is allocated. It
// arms the position that wakes the allocator next.
func (a *allocator) lacking(wrote message.PhyOffset) (*mappedFile, error) {
	l := a.l
	table := l.files.Load()
	whole := a.allows(l.set.segmentBytes, l.set.now().forcePct) == nil
	f := table.at(wrote)
	if f == nil {
		return a.create(wrote, whole)
	}
	// The file being written and one more; with tiny files as many as hold allocateAheadBytes.
	ahead := message.PhyOffset(min(allocateAheadBytes, allocateAheadFiles*l.set.segmentBytes))
	want := wrote + ahead
	if whole {
		want = max(want, f.end()+message.PhyOffset(l.set.segmentBytes))
	}
	covered := f.start
	for covered < want {
		g := table.at(covered)
		if g == nil {
			return a.create(covered, whole)
		}
		have := g.allocated.Load()
		covered = g.start + message.PhyOffset(have)
		if have < g.size && covered < want {
			return g, nil
		}
	}
	next := covered - ahead/2
	if whole && f.size >= allocateAheadBytes {
		next = f.end()
	}
	l.allocateAt.Store(int64(next))
	if l.Wrote() >= next {
		a.poke() // it was passed while we were looking
	}
	return nil, nil
}

// create makes the file that begins at start, without blocks unless there is room for all of them, maps it and adds it to
// the table. The size is set first: a crash leaves a file of full length or an empty one, and both are understood at start.
func (a *allocator) create(start message.PhyOffset, whole bool) (*mappedFile, error) {
	l := a.l
	if err := a.allows(1, l.set.now().warnPct); err != nil {
		return nil, err
	}
	f := &mappedFile{start: start, size: l.set.segmentBytes, path: dataPath(l.set.logDir, int64(start))}
	file, err := l.fsys.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) { // left by an attempt that failed
		if err = l.fsys.Remove(f.path); err == nil {
			file, err = l.fsys.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		}
	}
	if err != nil {
		return nil, a.failed(f, err)
	}
	err = file.Truncate(f.size)
	if err == nil && whole {
		if err = file.Allocate(0, f.size); err == nil {
			f.allocated.Store(f.size)
		} else if sysio.IsNoSpace(err) {
			err = nil // extend tries a smaller piece
		}
	}
	if err == nil {
		err = f.attach(file, &l.set)
	} else {
		file.Close()
	}
	if err != nil {
		_ = l.fsys.Remove(f.path)
		return nil, a.failed(f, err)
	}
	l.tableMu.Lock()
	l.files.Store(l.files.Load().with(f))
	l.tableMu.Unlock()
	return f, nil
}

// extend gives f its next blocks: the rest of it, or one step.
func (a *allocator) extend(f *mappedFile) error {
	l := a.l
	have := f.allocated.Load()
	n := f.size - have
	if n == 0 {
		return nil
	}
	if a.allows(n, l.set.now().forcePct) != nil {
		n = min(n, allocateStepBytes)
	}
	// Near the threshold smaller pieces still help: the last bytes that may be used are used.
	for err := a.allows(n, l.set.now().warnPct); err != nil; err = a.allows(n, l.set.now().warnPct) {
		if n /= 2; n < sysio.PageSize {
			return err
		}
	}
	v := f.view.Load()
	if v == nil {
		return ErrNotReady
	}
	if err := v.file.Allocate(have, n); err != nil {
		return a.failed(f, err)
	}
	f.allocated.Store(have + n)
	return nil
}

// allows tells whether n more bytes of the log keep its disk at or below percent.
func (a *allocator) allows(n int64, percent int) error {
	return roomFor(a.l.fsys, a.l.set.logDir, n, percent)
}

func (a *allocator) failed(f *mappedFile, err error) error {
	if sysio.IsNoSpace(err) {
		return noSpace(a.l.fsys, f.path, a.l.set.now().warnPct, err)
	}
	return fmt.Errorf("%w: make %s: %w", ErrWriteFailed, f.path, err)
}

// syncDir makes the names of new files durable before the first sync needs them: Sync does it itself when we are late.
func (a *allocator) syncDir() {
	l := a.l
	last := l.files.Load().last()
	if last == nil || int64(last.end()) <= l.syncedDir.Load() {
		return
	}
	end := int64(last.end())
	if err := l.fsys.SyncDir(l.set.logDir); err == nil {
		l.syncedDir.Store(end)
	}
}

// dropUnused deletes the files behind the write position, so that a directory that was closed cleanly holds only what is in
// use (the original does the same). From the newest on, up to the first that stays: a gap would be refused by the next start. What create
// made and could not take back is the newest. Everything is stopped.
func (a *allocator) dropUnused() error {
	l := a.l
	table := l.files.Load()
	keep := len(table.files)
	for keep > 0 && table.files[keep-1].start >= l.Wrote() && (keep > 1 || l.Wrote() == 0) { // the last one says where the log begins
		keep--
	}
	next := l.Wrote()
	if last := table.last(); last != nil {
		next = last.end()
	}
	err := l.fsys.Remove(dataPath(l.set.logDir, int64(next)))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, f := range slices.Backward(table.files[keep:]) {
		if v := f.view.Swap(nil); v != nil {
			_ = v.close()
		}
		if err == nil {
			err = l.fsys.Remove(f.path)
		}
	}
	l.files.Store(&fileTable{size: table.size, files: table.files[:keep:keep]})
	return errors.Join(err, l.fsys.SyncDir(l.set.logDir))
}
