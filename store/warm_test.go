package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"peregrine/internal/config"
	"peregrine/internal/sysio"
)

const warmSegment = 24 << 20 // larger than the toucher's window

// pageWatch notes what is done to the pages of the log's files.
type pageWatch struct {
	mu       sync.Mutex
	touched  map[string][]bool // by file, a value a page
	dirty    int64             // touched by the warmer and not written yet
	dirtyMax int64
	locked   map[string]bool
	tries    map[string]int // locks, by file
}

func watchPages(x *sysio.FaultFS) *pageWatch {
	w := &pageWatch{touched: map[string][]bool{}, locked: map[string]bool{}, tries: map[string]int{}}
	x.Observe(func(e sysio.Event) {
		if !e.Done {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		name := filepath.Base(e.Path)
		switch e.Op {
		case sysio.OpPopulate:
			if w.touched[name] == nil {
				w.touched[name] = make([]bool, warmSegment/sysio.PageSize)
			}
			for page := e.Off / sysio.PageSize; page*sysio.PageSize < e.Off+e.N; page++ {
				w.touched[name][page] = true
			}
			if e.N > 0 && (name != fileName(0) || e.Off >= touchWindowBytes) {
				w.dirty += e.N
				w.dirtyMax = max(w.dirtyMax, w.dirty)
			}
		case sysio.OpSyncRange:
			w.dirty = max(0, w.dirty-e.N)
		case sysio.OpMemLock:
			w.tries[name]++
			if e.Err == nil {
				w.locked[name] = true
			}
		case sysio.OpMemUnlock:
			delete(w.locked, name)
		}
	})
	return w
}

func (w *pageWatch) untouched(name string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.touched[name] == nil {
		return warmSegment / sysio.PageSize
	}
	for _, yes := range w.touched[name] {
		if !yes {
			n++
		}
	}
	return n
}

// With warmMapedFileEnable the file being written and the next one are touched to the last page, written in pieces of
// flushLeastPagesWhenWarmMapedFile and locked; a full file is unlocked once it is durable. Without the key nothing beyond the
// window is touched.
func TestWarmedFilesAreTouchedWholeAndLocked(t *testing.T) {
	const step = 64 * sysio.PageSize
	x := sysio.NewFaultFS()
	w := watchPages(x)
	s := openTest(t, x, testSettings("/s", func(set *settings) {
		set.segmentBytes, set.warm, set.warmStepBytes = warmSegment, true, step
	}))
	defer s.Close(false)
	await(func() bool { return s.Warm().LockedBytes == 2*warmSegment })
	for _, name := range []string{fileName(0), fileName(warmSegment)} {
		if n := w.untouched(name); n != 0 {
			t.Errorf("%s: %d pages are not touched", name, n)
		}
	}
	if ahead := s.Warm().AheadBytes; ahead < 2*warmSegment {
		t.Errorf("%d bytes are warm", ahead)
	}
	w.mu.Lock()
	if w.dirtyMax > step {
		t.Errorf("%d touched bytes were dirty at once, the limit is %d", w.dirtyMax, step)
	}
	w.mu.Unlock()

	q := s.Queue("T", 0)
	for s.Wrote() < warmSegment+1 {
		send(t, s, q, strings.Repeat("x", 1<<20))
	}
	s.log.warm.poke()
	await(func() bool { return w.untouched(fileName(2*warmSegment)) == 0 })
	w.mu.Lock()
	if !w.locked[fileName(0)] {
		t.Error("a file that is not durable was unlocked")
	}
	w.mu.Unlock()
	if _, err := s.log.Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	s.log.warm.poke() // as the ticker does
	await(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.locked[fileName(0)] && w.locked[fileName(warmSegment)] && w.locked[fileName(2*warmSegment)]
	})
	await(func() bool { return s.Warm().LockedBytes == 2*warmSegment })
}

func TestColdFilesAreTouchedInTheWindowOnly(t *testing.T) {
	x := sysio.NewFaultFS()
	w := watchPages(x)
	s := openTest(t, x, testSettings("/s", func(set *settings) { set.segmentBytes = warmSegment }))
	defer s.Close(false)
	s.log.touch.poke()
	const outside = (warmSegment - touchWindowBytes) / sysio.PageSize
	await(func() bool { return w.untouched(fileName(0)) <= outside })
	if n := w.untouched(fileName(0)); n != outside {
		t.Errorf("%d pages are not touched, want %d", n, outside)
	}
	if s.Warm() != (WarmStats{}) || len(w.tries) > 0 {
		t.Errorf("%+v and %v locks without warmMapedFileEnable", s.Warm(), w.tries)
	}
}

// What may not be locked is said once, with path and limit; each file is tried once, and messages flow.
func TestRefusedLocksAreSaidOnce(t *testing.T) {
	var lines bytes.Buffer
	x := sysio.NewFaultFS()
	w := watchPages(x)
	x.Inject(sysio.Fault{Op: sysio.OpMemLock, Err: syscall.ENOMEM})
	s := openLogged(t, x, testSettings("/s", func(set *settings) { set.warm = true }), &lines)
	q := s.Queue("T", 0)
	for s.Wrote() < 40*testSegment {
		send(t, s, q, strings.Repeat("x", 1000))
		s.log.warm.poke()
	}
	await(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.tries) > 0
	})
	closeTest(t, s, false)
	if n := strings.Count(lines.String(), "not locked into memory"); n != 1 || !strings.Contains(lines.String(), "file=/s/commitlog/0") ||
		!strings.Contains(lines.String(), "RLIMIT_MEMLOCK=\"") || !strings.Contains(lines.String(), syscall.ENOMEM.Error()) {
		t.Errorf("%d lines: %s", n, lines.String())
	}
	if len(w.tries) == 0 {
		t.Error("no attempt")
	}
	for name, n := range w.tries {
		if n != 1 {
			t.Errorf("%d attempts on %s", n, name)
		}
	}
	if s.Warm().LockedBytes != 0 {
		t.Errorf("%d bytes are said to be locked", s.Warm().LockedBytes)
	}
}

// A failure of the warmer's own sync is no failure of the log: nothing was acknowledged on it.
func TestFailedWarmingIsNotFatal(t *testing.T) {
	var lines bytes.Buffer
	x := sysio.NewFaultFS()
	x.Inject(sysio.Fault{Op: sysio.OpSyncRange, Path: fileName(0), Times: 1})
	var failed atomic.Bool
	x.Observe(func(e sysio.Event) {
		if e.Op == sysio.OpSyncRange && e.Done && e.Err != nil {
			failed.Store(true)
		}
	})
	s := openLogged(t, x, testSettings("/s", func(set *settings) { set.segmentBytes, set.warm = warmSegment, true }), &lines)
	q := s.Queue("T", 0)
	for range 100 {
		s.log.warm.poke()
		send(t, s, q, "still there")
	}
	await(failed.Load)
	if _, err := s.log.Sync(s.Wrote()); err != nil {
		t.Errorf("the log's sync: %v", err)
	}
	closeTest(t, s, false)
	if n := strings.Count(lines.String(), "is not warmed completely"); n != 1 {
		t.Errorf("%d lines: %s", n, lines.String())
	}
}

// dataReadAheadEnable=false concerns every descriptor that the log is read through; true concerns none.
func TestReadAheadIsWhatTheKeySays(t *testing.T) {
	for _, readAhead := range []bool{true, false} {
		x := sysio.NewFaultFS()
		var mu sync.Mutex
		advised := map[string]bool{}
		x.Observe(func(e sysio.Event) {
			if e.Op == sysio.OpAdvise && e.Done {
				mu.Lock()
				advised[filepath.Base(e.Path)] = true
				mu.Unlock()
			}
		})
		set := testSettings("/s", func(set *settings) { set.readAhead = readAhead })
		s := openTest(t, x, set)
		q := s.Queue("T", 0)
		for s.Wrote() < 3*testSegment {
			send(t, s, q, strings.Repeat("x", 1000))
		}
		closeTest(t, s, true)
		s = openTest(t, x, set)
		if _, err := s.ReadAt(make([]byte, 100), 0); err != nil { // cold: through the cache of descriptors
			t.Fatal(err)
		}
		closeTest(t, s, true)
		for i := range 3 {
			if name := fileName(int64(i) * testSegment); advised[name] == readAhead {
				t.Errorf("dataReadAheadEnable=%v: %s is advised: %v", readAhead, name, advised[name])
			}
		}
	}
}

// The keys arrive where they are used.
func TestKeysOfMappingReachTheStore(t *testing.T) {
	of := func(lines ...string) settings {
		cfg, _, err := config.Load(append([]string{"storePathRootDir=/s"}, lines...), func(string) string { return "" }, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		set, err := settingsOf(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	if set := of(); set.warm || set.direct || !set.readAhead || set.warmStepBytes != 16<<20 {
		t.Errorf("defaults: %+v", set)
	}
	if set := of("warmMapedFileEnable=true", "flushLeastPagesWhenWarmMapedFile=3", "dataReadAheadEnable=false"); !set.warm || set.readAhead || set.warmStepBytes != 3*4096 {
		t.Errorf("set: %+v", set)
	}
	if set := of("warmMapedFileEnable=true", "writeWithoutMmap=true"); set.warm || !set.direct {
		t.Errorf("writeWithoutMmap: %+v", set)
	}
}
