package sysio

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFilesReadBackWhatWasWritten(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "f")
		f := create(t, fsys, path, "hello")
		defer f.Close()
		if f.Name() != path {
			t.Errorf("Name = %q", f.Name())
		}
		n, err := f.Pwritev([][]byte{[]byte("12"), nil, []byte("345")}, 5)
		must(t, err)
		if n != 5 {
			t.Errorf("Pwritev = %d", n)
		}
		buf := make([]byte, 10)
		n, err = f.ReadAt(buf, 0)
		if n != 10 || (err != nil && err != io.EOF) || string(buf) != "hello12345" {
			t.Errorf("ReadAt = %d, %v, %q", n, err, buf)
		}
		if n, err := f.ReadAt(buf, 7); n != 3 || err != io.EOF {
			t.Errorf("ReadAt near the end = %d, %v", n, err)
		}
		if n, err := f.ReadAt(buf, 100); n != 0 || err != io.EOF {
			t.Errorf("ReadAt behind the end = %d, %v", n, err)
		}
		must(t, f.Truncate(3))
		must(t, f.Truncate(6))
		if got := content(t, fsys, path); got != "hel\x00\x00\x00" {
			t.Errorf("after shrinking and growing: %q", got)
		}
		must(t, f.Datasync())
		must(t, f.Sync())
	})
}

// Whatever a file system can tell, it is what ReadAt reads, and nothing after Close.
func TestReadCachedAtReadsWhatIsThere(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "0123456789")
		buf := make([]byte, 20)
		for off := range int64(12) {
			n := f.ReadCachedAt(buf, off)
			if n < 0 || n > 10 || n > 0 && string(buf[:n]) != "0123456789"[off:] {
				t.Errorf("at %d: %d bytes, %q", off, n, buf[:max(n, 0)])
			}
		}
		if allocs := testing.AllocsPerRun(100, func() { f.ReadCachedAt(buf, 0) }); allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
		must(t, f.Close())
		if n := f.ReadCachedAt(buf, 0); n != 0 {
			t.Errorf("%d bytes of a closed file", n)
		}
	})
}

func TestPwritevTakesMorePartsThanTheKernel(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "")
		defer f.Close()
		var parts [][]byte
		var want []byte
		for i := range 2*IovecMax + 7 {
			part := bytes.Repeat([]byte{byte(i)}, i%5)
			parts = append(parts, part)
			want = append(want, part...)
		}
		n, err := f.Pwritev(parts, 3)
		if n != len(want) || err != nil {
			t.Fatalf("Pwritev = %d, %v; want %d", n, err, len(want))
		}
		if got := content(t, fsys, f.Name()); got != "\x00\x00\x00"+string(want) {
			t.Error("other bytes than written")
		}
	})
}

func TestPwritevOfEightPartsAllocatesNothing(t *testing.T) {
	f := create(t, OS{}, filepath.Join(t.TempDir(), "f"), "")
	defer f.Close()
	parts := make([][]byte, 8)
	for i := range parts {
		parts[i] = []byte("abcdefgh")
	}
	if n := testing.AllocsPerRun(100, func() { f.Pwritev(parts, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWriteRestGoesOnInTheMiddleOfAPart(t *testing.T) {
	f := create(t, OS{}, filepath.Join(t.TempDir(), "f"), "ab")
	defer f.Close()
	n, err := f.(*osFile).writeRest([][]byte{[]byte("abc"), []byte("de"), []byte("f")}, 2, 0)
	if n != 6 || err != nil {
		t.Fatal(n, err)
	}
	if got := content(t, OS{}, f.Name()); got != "abcdef" {
		t.Errorf("%q", got)
	}
}

func TestAllocateKeepsBytesAndRaisesTheSize(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "abc")
		defer f.Close()
		must(t, f.Allocate(1, 3*PageSize))
		size, err := f.Size()
		must(t, err)
		if size != 1+3*PageSize {
			t.Errorf("size %d", size)
		}
		must(t, f.Allocate(0, 10))
		if got := content(t, fsys, f.Name()); got != "abc"+string(make([]byte, 3*PageSize-2)) {
			t.Error("bytes changed")
		}
		for _, r := range [][2]int64{{-1, 5}, {0, 0}, {5, -1}, {1 << 62, 1 << 62}} {
			if err := f.Allocate(r[0], r[1]); !errors.Is(err, ErrRange) {
				t.Errorf("Allocate(%d, %d) = %v", r[0], r[1], err)
			}
		}
	})
}

func TestAllocateByWritingIsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	old := bytes.Repeat([]byte("x\x00y"), PageSize)
	_, err = f.WriteAt(old, 0)
	must(t, err)
	must(t, f.Truncate(int64(len(old))+5*PageSize))
	must(t, allocateByWriting(f, 100, int64(len(old))+9*PageSize))
	got, err := os.ReadFile(path)
	must(t, err)
	want := append(old, make([]byte, 100+9*PageSize)...)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d with the same content", len(got), len(want))
	}
}

func TestMappingAndFileAreTheSameBytes(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "f")
		f := create(t, fsys, path, "")
		must(t, f.Allocate(0, 4*PageSize))
		m, err := f.Map(4 * PageSize)
		must(t, err)
		if len(m.Bytes()) != 4*PageSize || cap(m.Bytes()) != 4*PageSize {
			t.Errorf("len %d cap %d", len(m.Bytes()), cap(m.Bytes()))
		}
		must(t, m.Populate(0, 4*PageSize))
		must(t, m.AdviseRandom(0, 4*PageSize))
		must(t, m.BoundReadAhead(0, 4*PageSize))
		copy(m.Bytes()[5000:], "mapped")
		must(t, m.Forget(100, 2*PageSize)) // what is written and not synced stays
		must(t, m.Forget(5000, 0))
		must(t, m.Forget(PageSize, 1))
		must(t, m.SyncRange(5000, 6))
		must(t, m.SyncRange(0, 0))
		buf := make([]byte, 6)
		_, err = f.ReadAt(buf, 5000)
		must(t, err)
		if string(buf) != "mapped" {
			t.Errorf("ReadAt = %q", buf)
		}
		_, err = f.WriteAt([]byte("file"), 9000)
		must(t, err)
		must(t, f.Close()) // the mapping outlives it
		if got := string(m.Bytes()[9000:9004]); got != "file" {
			t.Errorf("mapping shows %q", got)
		}
		must(t, m.SyncRange(0, 4*PageSize))
		must(t, m.Unmap())
		if m.Bytes() != nil {
			t.Error("bytes after Unmap")
		}
		for name, err := range map[string]error{
			"Unmap": m.Unmap(), "SyncRange": m.SyncRange(0, 1), "Populate": m.Populate(0, 1), "Advise": m.AdviseRandom(0, 1), "Bound": m.BoundReadAhead(0, 1),
			"Forget": m.Forget(0, 1),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s after Unmap: %v", name, err)
			}
		}
	})
}

func TestRangesOutsideAreRefused(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "")
		defer f.Close()
		must(t, f.Allocate(0, 2*PageSize))
		for _, n := range []int64{0, -1, 2*PageSize + 1, 1 << 62} {
			if m, err := f.Map(n); !errors.Is(err, ErrRange) || m != nil {
				t.Errorf("Map(%d) = %v, %v", n, m, err)
			}
		}
		m, err := f.Map(PageSize + 100)
		must(t, err)
		defer m.Unmap()
		for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, PageSize + 101}, {PageSize + 101, 0}, {1 << 62, 1 << 62}, {100, 1<<63 - 1}} {
			if err := m.SyncRange(r[0], r[1]); !errors.Is(err, ErrRange) {
				t.Errorf("SyncRange(%d, %d) = %v", r[0], r[1], err)
			}
			if err := m.Populate(r[0], r[1]); !errors.Is(err, ErrRange) {
				t.Errorf("Populate(%d, %d) = %v", r[0], r[1], err)
			}
		}
		must(t, m.SyncRange(PageSize, 100))
		must(t, m.Populate(0, PageSize+100))
	})
}

func TestReadOnlyFilesRefuseWrites(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "f")
		must(t, create(t, fsys, path, "data").Close())
		f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
		must(t, err)
		defer f.Close()
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Error("WriteAt succeeded")
		}
		if err := f.Truncate(0); err == nil {
			t.Error("Truncate succeeded")
		}
		m, err := f.Map(4)
		must(t, err)
		defer m.Unmap()
		if string(m.Bytes()) != "data" {
			t.Errorf("%q", m.Bytes())
		}
		if err := m.Populate(0, 4); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Populate = %v", err)
		}
	})
}

func TestClosedFilesSaySo(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "data")
		must(t, f.Close())
		_, rerr := f.ReadAt(make([]byte, 1), 0)
		_, werr := f.WriteAt([]byte("x"), 0)
		_, verr := f.Pwritev([][]byte{[]byte("x")}, 0)
		_, serr := f.Size()
		_, merr := f.Map(1)
		for name, err := range map[string]error{
			"ReadAt": rerr, "WriteAt": werr, "Pwritev": verr, "Size": serr, "Map": merr, "Truncate": f.Truncate(1),
			"Allocate": f.Allocate(0, 1), "Datasync": f.Datasync(), "Sync": f.Sync(), "Close": f.Close(),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestSyncRangeAllocatesNothing(t *testing.T) {
	f := create(t, OS{}, filepath.Join(t.TempDir(), "f"), "")
	defer f.Close()
	must(t, f.Allocate(0, 4*PageSize))
	m, err := f.Map(4 * PageSize)
	must(t, err)
	defer m.Unmap()
	if n := testing.AllocsPerRun(20, func() { m.Forget(0, 2*PageSize); m.SyncRange(0, 2*PageSize) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTouchChangesNothing(t *testing.T) {
	f := create(t, OS{}, filepath.Join(t.TempDir(), "f"), "")
	defer f.Close()
	const size = 3*PageSize + 2
	must(t, f.Allocate(0, size))
	m, err := f.Map(size)
	must(t, err)
	defer m.Unmap()
	b := m.Bytes()
	for i := range b {
		b[i] = byte(i)
	}
	touch(b)
	for i := range b {
		if b[i] != byte(i) {
			t.Fatal("changed at", i)
		}
	}
}

func TestMlockWithinTheLimit(t *testing.T) {
	f := create(t, OS{}, filepath.Join(t.TempDir(), "f"), "")
	defer f.Close()
	must(t, f.Allocate(0, PageSize))
	m, err := f.Map(PageSize)
	must(t, err)
	defer m.Unmap()
	if err := m.Lock(0, PageSize); err != nil {
		if !errors.Is(err, fs.ErrPermission) && !isNoMemory(err) {
			t.Fatal(err)
		}
		return // RLIMIT_MEMLOCK is 0 here: refusing is right
	}
	must(t, m.Unlock(0, PageSize))
}

func TestMappingsAndDescriptorsAreGivenBack(t *testing.T) {
	dir := t.TempDir()
	fdsBefore, err := os.ReadDir("/dev/fd")
	must(t, err)
	for range 50 {
		f := create(t, OS{}, filepath.Join(dir, "f"), "")
		must(t, f.Allocate(0, 8*PageSize))
		m, err := f.Map(8 * PageSize)
		must(t, err)
		must(t, m.Populate(0, PageSize))
		must(t, OS{}.SyncDir(dir))
		l, err := OS{}.Lock(filepath.Join(dir, "lock"))
		must(t, err)
		must(t, l.Close())
		must(t, f.Close())
		must(t, m.Unmap())
		if _, err := f.Map(1); err == nil {
			t.Fatal("mapped a closed file")
		}
	}
	fds, err := os.ReadDir("/dev/fd")
	must(t, err)
	if len(fds) > len(fdsBefore) {
		t.Errorf("%d descriptors, %d before", len(fds), len(fdsBefore))
	}
	if left := mappedFiles(dir); len(left) > 0 {
		t.Error("mappings left:", left)
	}
}
