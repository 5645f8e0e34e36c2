package sysio

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// mapped makes a durable file of n pages of zeros and maps it.
func mapped(t *testing.T, x *FaultFS, path string, pages int64) (File, Mapping) {
	t.Helper()
	f := create(t, x, path, "")
	must(t, f.Allocate(0, pages*PageSize))
	must(t, f.Sync())
	must(t, x.SyncDir("/"))
	m, err := f.Map(pages * PageSize)
	must(t, err)
	t.Cleanup(func() { m.Unmap(); f.Close() })
	return f, m
}

func at(t *testing.T, fsys FS, path string, off int64, n int) string {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, off)
	must(t, err)
	return string(b)
}

func TestPowerCutKeepsExactlyTheSyncedPages(t *testing.T) {
	x := NewFaultFS()
	_, m := mapped(t, x, "f", 4)
	for page := range 4 {
		copy(m.Bytes()[page*PageSize:], "data")
	}
	must(t, m.SyncRange(PageSize+10, 20)) // page 1 only
	y := x.PowerCut(nil)
	for page, want := range []string{"\x00\x00\x00\x00", "data", "\x00\x00\x00\x00", "\x00\x00\x00\x00"} {
		if got := at(t, y, "f", int64(page)*PageSize, 4); got != want {
			t.Errorf("page %d: %q", page, got)
		}
	}
	if got := at(t, x.Kill(), "f", 3*PageSize, 4); got != "data" {
		t.Errorf("after a kill: %q", got)
	}
	if got := at(t, x.Kill().PowerCut(nil), "f", 3*PageSize, 4); got != "\x00\x00\x00\x00" {
		t.Errorf("a kill made bytes durable: %q", got)
	}
}

func TestDatasyncCoversTheWholeFileAndItsSize(t *testing.T) {
	x := NewFaultFS()
	f := create(t, x, "f", "1234567")
	defer f.Close()
	must(t, x.SyncDir("/"))
	if got := content(t, x.PowerCut(nil), "f"); got != "" {
		t.Errorf("size without a sync: %q", got)
	}
	must(t, f.Datasync())
	if got := content(t, x.PowerCut(nil), "f"); got != "1234567" {
		t.Errorf("%q", got)
	}
	must(t, f.Truncate(3))
	if got := content(t, x.PowerCut(nil), "f"); got != "1234567" {
		t.Errorf("a truncation that was not synced: %q", got)
	}
	must(t, f.Sync())
	must(t, f.Truncate(7))
	must(t, f.Sync())
	if got := content(t, x.PowerCut(nil), "f"); got != "123\x00\x00\x00\x00" {
		t.Errorf("old bytes came back: %q", got)
	}
}

func TestNamesNeedSyncDir(t *testing.T) {
	x := NewFaultFS()
	f := create(t, x, "f", "x")
	must(t, f.Sync())
	must(t, f.Close())
	if _, err := x.PowerCut(nil).Stat("f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the name survived: %v", err)
	}
	must(t, x.SyncDir("."))
	must(t, x.Rename("f", "g"))
	if got := content(t, x.PowerCut(nil), "f"); got != "x" {
		t.Errorf("%q", got)
	}
	must(t, x.SyncDir("."))
	must(t, x.Remove("g"))
	if got := content(t, x.PowerCut(nil), "g"); got != "x" {
		t.Errorf("%q", got)
	}
	must(t, x.SyncDir("."))
	if _, err := x.PowerCut(nil).Stat("g"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a removed file came back")
	}
	must(t, x.MkdirAll("a/b", 0o755))
	must(t, create(t, x, "a/b/f", "").Close())
	must(t, x.SyncDir("a/b"))
	if _, err := x.PowerCut(nil).Stat("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the directory survived without a sync of its parent")
	}
}

func TestPowerCutDirectoriesKeepAPrefix(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(64) {
		x := NewFaultFS()
		must(t, create(t, x, "a", "").Close())
		must(t, x.SyncDir("/"))
		must(t, x.Rename("a", "b"))
		must(t, create(t, x, "c", "").Close())
		y := x.PowerCut(rand.New(rand.NewPCG(seed, 1)))
		var names []string
		infos, err := y.ReadDir("/")
		must(t, err)
		for _, i := range infos {
			names = append(names, i.Name)
		}
		seen[strings.Join(names, "")] = true
	}
	if len(seen) != 3 || !seen["a"] || !seen["b"] || !seen["bc"] {
		t.Errorf("states after power cuts: %v", seen)
	}
}

func TestPowerCutTearsPagesAtSectorsAndBySeed(t *testing.T) {
	x := NewFaultFS()
	_, m := mapped(t, x, "f", 64)
	for i := range m.Bytes() {
		m.Bytes()[i] = 1
	}
	must(t, m.SyncRange(0, 64*PageSize))
	for i := range m.Bytes() {
		m.Bytes()[i] = 2
	}
	must(t, m.SyncRange(10*PageSize, PageSize))
	cut := func(seed uint64) string { return content(t, x.PowerCut(rand.New(rand.NewPCG(seed, 0))), "f") }
	first := cut(7)
	if first != cut(7) {
		t.Error("the same seed gave another result")
	}
	if first == cut(8) {
		t.Error("another seed gave the same result")
	}
	var old, fresh, torn int
	for page := range 64 {
		p := first[page*PageSize : (page+1)*PageSize]
		for s := 0; s < PageSize; s += sectorSize {
			if sector := p[s : s+sectorSize]; strings.Count(sector, sector[:1]) != sectorSize {
				t.Fatalf("page %d: a torn sector", page)
			}
		}
		switch n := strings.Count(p, "\x02"); {
		case n == 0:
			old++
		case n == PageSize:
			fresh++
		default:
			torn++
		}
	}
	if old == 0 || fresh == 0 || torn == 0 {
		t.Errorf("%d old, %d new, %d torn pages", old, fresh, torn)
	}
	if strings.Contains(first[10*PageSize:11*PageSize], "\x01") {
		t.Error("a synced page lost bytes")
	}
}

func TestAFailedSyncIsNotRepaired(t *testing.T) {
	x := NewFaultFS()
	f, m := mapped(t, x, "f", 2)
	copy(m.Bytes(), "lost")
	copy(m.Bytes()[PageSize:], "good")
	remove := x.Inject(Fault{Op: OpSyncRange, Path: "f", Times: 1})
	if err := m.SyncRange(0, 4); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	remove()
	must(t, m.SyncRange(0, 2*PageSize))
	must(t, f.Sync())
	y := x.PowerCut(nil)
	if got := at(t, y, "f", 0, 4) + at(t, y, "f", PageSize, 4); got != "\x00\x00\x00\x00good" {
		t.Errorf("%q", got)
	}
	// The next process sees the bytes, and a cut still takes them, until they are written anew.
	z := x.Kill()
	if got := at(t, z, "f", 0, 4); got != "lost" {
		t.Errorf("%q", got)
	}
	g := create(t, z, "f", "")
	defer g.Close()
	must(t, g.Sync())
	if got := at(t, z.PowerCut(nil), "f", 0, 4); got != "\x00\x00\x00\x00" {
		t.Errorf("%q", got)
	}
	_, err := g.WriteAt([]byte("lost"), 0)
	must(t, err)
	must(t, g.Sync())
	if got := at(t, z.PowerCut(nil), "f", 0, 4); got != "lost" {
		t.Errorf("after the rewrite: %q", got)
	}
	// In the first process touching the page does it too.
	must(t, m.Populate(0, PageSize))
	must(t, m.SyncRange(0, 1))
	if got := at(t, x.PowerCut(nil), "f", 0, 4); got != "lost" {
		t.Errorf("after Populate: %q", got)
	}
}

func TestALyingSyncPersistsNothing(t *testing.T) {
	x := NewFaultFS()
	f, m := mapped(t, x, "f", 1)
	remove := x.Inject(Fault{Op: OpContentSync | OpSyncDir, Lie: true})
	copy(m.Bytes(), "data")
	must(t, m.SyncRange(0, 4))
	must(t, f.Datasync())
	must(t, f.Sync())
	must(t, x.Remove("f"))
	must(t, x.SyncDir("/"))
	if got := at(t, x.PowerCut(nil), "f", 0, 4); got != "\x00\x00\x00\x00" {
		t.Errorf("%q", got)
	}
	remove()
	must(t, m.SyncRange(0, 4))
	if got := at(t, x.PowerCut(nil), "f", 0, 4); got != "data" {
		t.Errorf("an honest sync after the lies: %q", got)
	}
}

func TestASlowSyncCoversWhatWasWrittenBeforeIt(t *testing.T) {
	x := NewFaultFS()
	_, m := mapped(t, x, "f", 2)
	gate := NewGate()
	x.Inject(Fault{Op: OpSyncRange, Gate: gate, Times: 1})
	copy(m.Bytes(), "before")
	done := make(chan error, 1)
	go func() { done <- m.SyncRange(0, 2*PageSize) }()
	gate.Await(1)
	copy(m.Bytes()[PageSize:], "during")
	select {
	case err := <-done:
		t.Fatal("the sync did not wait:", err)
	default:
	}
	if got := at(t, x.PowerCut(nil), "f", 0, 6); got != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("durable before the sync ended: %q", got)
	}
	gate.Open()
	must(t, <-done)
	y := x.PowerCut(nil)
	if got := at(t, y, "f", 0, 6) + at(t, y, "f", PageSize, 6); got != "before\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%q", got)
	}
	must(t, m.SyncRange(0, 2*PageSize))
	if got := at(t, x.PowerCut(nil), "f", PageSize, 6); got != "during" {
		t.Errorf("%q", got)
	}
}

func TestSyncsMayRunBesideWritersOfTheMapping(t *testing.T) {
	x := NewFaultFS()
	_, m := mapped(t, x, "f", 1)
	var wrote atomic.Int64
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(0); i < PageSize; i++ {
			m.Bytes()[i] = byte(i%255 + 1)
			wrote.Store(i + 1)
		}
		stop.Store(true)
	}()
	for !stop.Load() {
		n := wrote.Load()
		must(t, m.SyncRange(0, PageSize))
		durable := at(t, x.PowerCut(nil), "f", 0, PageSize)
		for i := range n {
			if durable[i] != byte(i%255+1) {
				t.Fatalf("byte %d of %d written before the sync is %d", i, n, durable[i])
			}
		}
		x.Kill()
	}
	<-done
}

func TestSpaceRunsOutAndComesBack(t *testing.T) {
	x := NewFaultFS()
	x.SetCapacity(10*PageSize, 4*PageSize)
	f := create(t, x, "f", "")
	defer f.Close()
	must(t, f.Allocate(0, 5*PageSize))
	if err := f.Allocate(5*PageSize, 2*PageSize); !IsNoSpace(err) {
		t.Errorf("Allocate: %v", err)
	}
	if size, _ := f.Size(); size != 5*PageSize {
		t.Errorf("a failed Allocate left %d bytes", size)
	}
	u, err := x.DiskUsage("/")
	must(t, err)
	if u != (Usage{Total: 10 * PageSize, Used: 10 * PageSize}) || u.UsedPercent() != 100 {
		t.Errorf("%+v", u)
	}
	g := create(t, x, "g", "")
	defer g.Close()
	if n, err := g.WriteAt(make([]byte, 100), 0); n != 0 || !IsNoSpace(err) {
		t.Errorf("WriteAt = %d, %v", n, err)
	}
	// Bytes within allocated pages are no question of space.
	_, err = f.WriteAt([]byte("x"), 5*PageSize-1)
	must(t, err)
	must(t, f.Truncate(3*PageSize))
	if n, err := g.WriteAt(make([]byte, 5*PageSize), 10); n != 3*PageSize-10 || !IsNoSpace(err) {
		t.Errorf("WriteAt = %d, %v", n, err)
	}
	must(t, x.Remove("f"))
	if u, _ := x.DiskUsage("/"); u.Usable != 0 {
		t.Errorf("an open file gave its space back: %+v", u)
	}
	must(t, f.Close())
	if u, _ := x.DiskUsage("/"); u.Usable != 3*PageSize {
		t.Errorf("%+v", u)
	}
	x.SetCapacity(0, 0)
	_, err = g.WriteAt(make([]byte, 50*PageSize), 0)
	must(t, err)
}

func TestClonesCountTheirOwnSpace(t *testing.T) {
	x := NewFaultFS()
	x.SetCapacity(100*PageSize, 0)
	mapped(t, x, "f", 10)
	f := create(t, x, "g", "")
	must(t, f.Allocate(0, PageSize))
	must(t, f.Close())
	must(t, create(t, x, "unsynced", strings.Repeat("x", 3*PageSize)).Close())
	for _, c := range []struct {
		name string
		fs   *FaultFS
		want int64
	}{{"kill", x.Kill(), 14}, {"power cut", x.PowerCut(nil), 10}} {
		u, err := c.fs.DiskUsage("/")
		must(t, err)
		if u.Used != c.want*PageSize {
			t.Errorf("%s: %d pages used, want %d", c.name, u.Used/PageSize, c.want)
		}
	}
}

func TestStoresWithoutSpaceAreFound(t *testing.T) {
	x := NewFaultFS()
	f := create(t, x, "d", "")
	defer f.Close()
	must(t, f.Truncate(4*PageSize))
	must(t, f.Allocate(0, 2*PageSize))
	m, err := f.Map(4 * PageSize)
	must(t, err)
	defer m.Unmap()
	m.Bytes()[2*PageSize-1] = 1
	must(t, x.CheckSpace())
	if err := m.Populate(PageSize, 2*PageSize); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("Populate of a page without blocks: %v", err)
	}
	m.Bytes()[2*PageSize] = 1
	if err := x.CheckSpace(); err == nil || !strings.Contains(err.Error(), "/d: bytes at 8192") {
		t.Errorf("CheckSpace = %v", err)
	}
}

func TestInjectedFaultsHitTheCallsTheyName(t *testing.T) {
	x := NewFaultFS()
	must(t, x.MkdirAll("log/q", 0o755))
	f := create(t, x, "log/0000", "")
	defer f.Close()
	g := create(t, x, "log/q/0000", "")
	defer g.Close()
	x.Inject(Fault{Op: OpWrite, Path: "log/*", After: 1, Times: 2, Err: syscall.ENOSPC, Short: 3})
	write := func(h File) (int, error) { return h.WriteAt([]byte("12345"), 0) }
	for i, want := range []int{5, 3, 3, 5} {
		n, err := write(f)
		if n != want || (err != nil) != (want == 3) {
			t.Errorf("write %d: %d, %v", i, n, err)
		}
		if err != nil && !IsNoSpace(err) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if n, err := write(g); n != 5 || err != nil {
		t.Errorf("another path: %d, %v", n, err)
	}
	remove := x.Inject(Fault{Op: OpRead | OpStat | OpOpen | OpAllocate | OpTruncate | OpMap | OpRename | OpRemove | OpLink | OpMkdir | OpReadDir | OpUsage | OpLock})
	_, oerr := x.OpenFile("log/0000", os.O_RDWR, 0)
	_, rerr := f.ReadAt(make([]byte, 1), 0)
	_, serr := x.Stat("log")
	_, derr := x.ReadDir("log")
	_, uerr := x.DiskUsage("log")
	_, lerr := x.Lock("log/lock")
	_, merr := f.Map(1)
	for name, err := range map[string]error{"open": oerr, "read": rerr, "stat": serr, "readdir": derr, "statfs": uerr, "lock": lerr, "map": merr,
		"allocate": f.Allocate(0, 1), "truncate": f.Truncate(1), "rename": x.Rename("log/0000", "log/1"), "remove": x.Remove("log/0000"),
		"link": x.Link("log/0000", "log/1"), "mkdir": x.MkdirAll("a", 0o755)} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", name, err)
		}
	}
	remove()
	remove()
	if got := content(t, x, "log/0000"); got != "12345" {
		t.Errorf("%q", got)
	}
	if err := x.Rename("log/0000", "log/q/1"); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("rename between directories: %v", err)
	}
}

func TestObserverSeesBeginAndEnd(t *testing.T) {
	x := NewFaultFS()
	_, m := mapped(t, x, "f", 2)
	var events []Event
	x.Observe(func(e Event) { events = append(events, e) })
	x.Inject(Fault{Op: OpSyncRange, After: 1})
	must(t, m.SyncRange(5, 10))
	m.SyncRange(0, 1)
	x.Observe(nil)
	must(t, x.MkdirAll("z", 0o755))
	if len(events) != 4 || events[0] != (Event{Op: OpSyncRange, Path: "f", Off: 5, N: 10}) || !events[1].Done || events[1].Err != nil ||
		events[2].Done || !errors.Is(events[3].Err, syscall.EIO) {
		t.Errorf("%+v", events)
	}
	if (OpSyncRange | OpSyncDir).String() != "msync|syncdir" {
		t.Error((OpSyncRange | OpSyncDir).String())
	}
}

func TestKillGivesLocksFreeAndKeepsTheTree(t *testing.T) {
	x := NewFaultFS()
	now := time.UnixMilli(1_700_000_000_000)
	x.SetClock(func() time.Time { return now })
	must(t, x.MkdirAll("store/log", 0o755))
	f := create(t, x, "store/log/0", "abc")
	defer f.Close()
	must(t, x.Link("store/log/0", "store/log/1"))
	l, err := x.Lock("store/lock")
	must(t, err)
	defer l.Close()
	x.Inject(Fault{Op: OpOpen})
	y := x.Kill()
	l2, err := y.Lock("store/lock")
	must(t, err)
	must(t, l2.Close())
	g := create(t, y, "store/log/1", "ABCD")
	must(t, g.Close())
	if got := content(t, y, "store/log/0"); got != "ABCD" {
		t.Errorf("two names became two files: %q", got)
	}
	info, err := y.Stat("store/log/0")
	must(t, err)
	if !info.ModTime.Equal(now) {
		t.Errorf("time %v", info.ModTime)
	}
	buf := make([]byte, 4)
	if n, err := f.ReadAt(buf, 0); n != 3 || err != io.EOF || !bytes.Equal(buf[:3], []byte("abc")) {
		t.Errorf("the original changed: %q", buf)
	}
}

func TestGrowthOfAMappedFileIsRefused(t *testing.T) {
	x := NewFaultFS()
	f, _ := mapped(t, x, "f", 1)
	if err := f.Truncate(1 << 30); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	g := create(t, x, "g", "")
	defer g.Close()
	if err := g.Truncate(faultFileMax + 1); !errors.Is(err, syscall.EFBIG) {
		t.Error(err)
	}
	if err := g.Allocate(faultFileMax, 1); !errors.Is(err, syscall.EFBIG) {
		t.Error(err)
	}
	if err := g.Truncate(-1); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}
