package store

import (
	"io/fs"
	"os"
	"sync"
	"testing"

	"peregrine/internal/sysio"
)

// cachedDisk is a disk whose reads bring pages into memory, and those behind them too unless the reader says that it reads at random.
// A page in memory counts as data, as with SEEK_DATA on Linux when the place is allocated and was never written.
type cachedDisk struct {
	*sysio.FaultFS

	mu     sync.Mutex                // guards the rest
	memory map[string]map[int64]bool // pages by path
	read   int64                     // bytes
}

const readAheadPages = 32

func (d *cachedDisk) OpenFile(path string, flag int, perm fs.FileMode) (sysio.File, error) {
	f, err := d.FaultFS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory[path] == nil {
		d.memory[path] = map[int64]bool{}
	}
	return &cachedFile{File: f, disk: d, pages: d.memory[path]}, nil
}

type cachedFile struct {
	sysio.File
	disk   *cachedDisk
	pages  map[int64]bool
	random bool
}

func (f *cachedFile) AdviseRandom() error {
	f.random = true
	return f.File.AdviseRandom()
}

func (f *cachedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.read += int64(n)
	last := (off + int64(n) - 1) / sysio.PageSize
	if !f.random {
		last += readAheadPages
	}
	for page := off / sysio.PageSize; n > 0 && page <= last; page++ {
		f.pages[page] = true
	}
	return n, err
}

func (f *cachedFile) NextData(off int64) (int64, error) {
	data, err := f.File.(dataSeeker).NextData(off)
	if err != nil {
		return data, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	for at := off; at < data; at = (at/sysio.PageSize + 1) * sysio.PageSize {
		if f.pages[at/sysio.PageSize] {
			return at, nil
		}
	}
	return data, nil
}

// PunchHole: a file of FaultFS can.
func (f *cachedFile) PunchHole(off, n int64) error { return f.File.(holePuncher).PunchHole(off, n) }

// What was allocated and never written is not read, though every read makes some of it look like data: a start on an empty log took
// seconds, and reads of a whole file ahead of it.
func TestWhatWasNeverWrittenIsNotRead(t *testing.T) {
	const long = 16 << 20
	newDisk := func(fsys *sysio.FaultFS) *cachedDisk {
		return &cachedDisk{FaultFS: fsys, memory: map[string]map[int64]bool{}}
	}
	within := func(what string, d *cachedDisk, most int64) {
		t.Helper()
		if d.read > most {
			t.Errorf("%s: %d bytes are read, at most %d are expected", what, d.read, most)
		}
	}
	for _, begin := range []int64{0, 5000} { // the file has a few bytes, or none
		fsys := sysio.NewFaultFS()
		f, err := fsys.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
		if err == nil {
			err = f.Allocate(0, long)
		}
		if err == nil {
			_, err = f.WriteAt(make([]byte, begin), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		d := newDisk(fsys)
		g, err := d.OpenFile("f", os.O_RDONLY, 0)
		if err == nil {
			_, err = g.ReadAt(make([]byte, 4096), 0) // somebody looked at its beginning
		}
		if err != nil {
			t.Fatal(err)
		}
		if at, err := firstWritten(d, "f", 0, long); at != -1 || err != nil {
			t.Errorf("something is written at %d, %v", at, err)
		}
		within("firstWritten", d, 3*looseBlockBytes)
		d.read = 0
		d.memory["f"] = map[int64]bool{0: true}
		if err := eachWritten(d, "f", 0, long, unitBytes, func(int64, []byte) {}); err != nil {
			t.Error(err)
		}
		within("eachWritten", d, 3*looseBlockBytes)
	}

	fsys := sysio.NewFaultFS()
	set := testSettings("/s", func(s *settings) { s.segmentBytes = long })
	s := openTest(t, fsys, set)
	awaitAllocator(s)
	s.abandon()
	d := newDisk(fsys.Kill())
	s = openTest(t, d, set)
	defer s.Close(false)
	if s.Recovery().Clean {
		t.Error("the start counts as one after a clean stop")
	}
	// The first block of the scan, what that brought into memory once more, and the heads of the files.
	within("a start on an empty log after kill -9", d, 12<<20)
}
