package store

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// warmer does what warmMapedFileEnable asks for (DefaultMappedFile.warmMappedFile, 5.5.0): the pages of the log's files are
// touched from the toucher's window to the end of the newest file, so that a file is complete before it is entered, and written
// to the device once, so that their blocks count as written and later syncs change no metadata. The file being written and
// the next one are then locked into memory where that is allowed.
//
// Nobody waits for it: where appends overtake it, it goes on ahead of them. At most warmStepBytes of its pages are dirty at a
// time, and it rests as long as the device took to write them, so that half of the device is left to others. The original does all
// of this before the file is used, and writes in between in SYNC_FLUSH only.
//
// A nil *warmer does nothing.
type warmer struct {
	l    *CommitLog
	wake chan struct{} // capacity 1
	quit chan struct{}
	done chan struct{}

	lockedBytes atomic.Int64
	warmedTo    atomic.Int64 // publishes warmed

	// Only the warmer's goroutine.
	warmed  message.PhyOffset // everything from the write position to here is touched, but for the toucher's window
	own     *mappedView       // of ownFile: a sync through the log's own descriptor could take a failure away from Sync
	ownFile *mappedFile
	broken  *mappedFile       // is not warmed any further: something failed
	locked  []*mappedFile     // oldest first, at most lockedFilesMax
	tried   message.PhyOffset // files that end here or before were locked, or not allowed to be
	refused bool              // it was said that a file cannot be locked
}

func newWarmer(l *CommitLog) *warmer {
	return &warmer{l: l, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// poke wakes the warmer; it never blocks.
func (w *warmer) poke() {
	if w == nil {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *warmer) start() {
	if w != nil {
		go w.run()
		w.poke()
	}
}

func (w *warmer) stop() {
	if w != nil {
		close(w.quit)
		<-w.done
	}
}

func (w *warmer) run() {
	defer close(w.done)
	defer w.letGo()
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
		}
		for w.step() {
			w.lock()
		}
		w.lock()
	}
}

// step warms up to warmStepBytes and tells whether there may be more to do.
func (w *warmer) step() bool {
	l := w.l
	w.warmed = max(w.warmed, l.Wrote()+touchWindowBytes)
	w.warmedTo.Store(int64(w.warmed))
	f := l.files.Load().at(w.warmed)
	// A file that gets its blocks in steps lies on a disk that is nearly full: no more is written there than has to be.
	if f == nil || f == w.broken || f.allocated.Load() < f.size {
		return false
	}
	at := int64(w.warmed - f.start)
	n := min(l.set.warmStepBytes, f.size-at)
	began := time.Now()
	if err := w.write(f, at, n); err != nil {
		w.broken = f
		l.logger.Warn("a commitlog file is not warmed completely", "file", f.path, "position", int64(w.warmed), "error", err)
		w.letGo()
		return false
	}
	w.warmed += message.PhyOffset(n)
	w.warmedTo.Store(int64(w.warmed))
	if w.warmed == f.end() {
		w.letGo()
	}
	timer := time.NewTimer(time.Since(began))
	defer timer.Stop()
	select {
	case <-w.quit:
		return false
	case <-timer.C:
		return true
	}
}

// write touches n bytes of f at at and brings them to the device.
func (w *warmer) write(f *mappedFile, at, n int64) error {
	v := f.view.Load()
	if v == nil {
		return ErrNotReady
	}
	for from := at; from < at+n; from += touchStepBytes {
		if err := v.mapping.Populate(from, min(touchStepBytes, at+n-from)); err != nil {
			return err
		}
	}
	if w.ownFile != f {
		w.letGo()
		file, err := w.l.fsys.OpenFile(f.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		m, err := file.Map(f.size)
		if err != nil {
			file.Close()
			return err
		}
		w.own, w.ownFile = &mappedView{file: file, mapping: m}, f
	}
	return w.own.mapping.SyncRange(at, n)
}

// letGo closes the warmer's own view of the file it was at.
func (w *warmer) letGo() {
	if w.own != nil {
		_ = w.own.close()
		w.own, w.ownFile = nil, nil
	}
}

// lock unlocks what is full and durable, and locks the file being written and the next one once they are warm.
func (w *warmer) lock() {
	l := w.l
	wrote := l.Wrote()
	kept := w.locked[:0]
	for _, f := range w.locked {
		if f.end() > wrote || f.end() > l.Flushed() {
			kept = append(kept, f)
			continue
		}
		if v := f.view.Load(); v != nil {
			_ = v.mapping.Unlock(0, f.size) // its unmapping unlocks it at the latest
		}
		w.lockedBytes.Add(-f.size)
	}
	clear(w.locked[len(kept):])
	w.locked = kept
	table := l.files.Load()
	for f := table.at(max(wrote, w.tried)); f != nil && f.end() <= w.warmed && len(w.locked) < lockedFilesMax; f = table.at(f.end()) {
		v := f.view.Load()
		if v == nil {
			return
		}
		w.tried = f.end()
		if err := w.lockFile(f, v); err != nil {
			w.refuse(f, err)
			continue
		}
		w.locked = append(w.locked, f)
		w.lockedBytes.Add(f.size)
	}
}

func (w *warmer) lockFile(f *mappedFile, v *mappedView) error {
	locked := w.lockedBytes.Load()
	if avail, err := sysio.MemAvailable(); err == nil && f.size+locked > (avail+locked)/100*lockedMemoryPercent {
		return fmt.Errorf("%d bytes are more than %d %% of the available memory", f.size+locked, lockedMemoryPercent)
	}
	return v.mapping.Lock(0, f.size)
}

// refuse says once that files are not locked. The log works without, and the next file is tried again without a line.
func (w *warmer) refuse(f *mappedFile, err error) {
	if w.refused {
		return
	}
	w.refused = true
	limit := "unknown"
	if n, lerr := sysio.MemLockLimit(); lerr == nil {
		limit = fmt.Sprintf("%d bytes", n)
	}
	w.l.logger.Warn("files of the log are warmed but not locked into memory (raise ulimit -l or LimitMEMLOCK to have them locked)",
		"file", f.path, "bytes", f.size, "RLIMIT_MEMLOCK", limit, "error", err)
}

// WarmStats is what warming has reached, for metrics; all 0 without warmMapedFileEnable.
type WarmStats struct {
	AheadBytes  int64 // warm ahead of the write position
	LockedBytes int64 // of the log's files locked into memory
}

// Warm may be called by any goroutine.
func (s *Store) Warm() WarmStats {
	w := s.log.warm
	if w == nil {
		return WarmStats{}
	}
	return WarmStats{AheadBytes: max(0, w.warmedTo.Load()-int64(s.log.Wrote())), LockedBytes: w.lockedBytes.Load()}
}
