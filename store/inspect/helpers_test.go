package inspect

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"peregrine/internal/sysio"
	"peregrine/store/storetest"
)

// readOnly is the machine's file system without anything that could change it.
type readOnly struct {
	sysio.FS // nil: every other call is a fault
	t        testing.TB
}

func (r readOnly) OpenFile(path string, flag int, perm fs.FileMode) (sysio.File, error) {
	if flag != os.O_RDONLY {
		r.t.Errorf("%s was opened with flags %#x", path, flag)
	}
	return sysio.OS{}.OpenFile(path, flag, perm)
}

func (r readOnly) ReadDir(path string) ([]sysio.Info, error) { return sysio.OS{}.ReadDir(path) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memFS is a file system that can only be read: the files of a store directory by their names in it, below "/store".
type memFS struct {
	sysio.FS
	files map[string][]byte
}

type memFile struct {
	sysio.File
	b []byte
}

func (f memFile) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(f.b).ReadAt(p, off) }

func (f memFile) Size() (int64, error) { return int64(len(f.b)), nil }

func (f memFile) Close() error { return nil }

func (m memFS) OpenFile(path string, _ int, _ fs.FileMode) (sysio.File, error) {
	b, ok := m.files[strings.TrimPrefix(path, "/store/")]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return memFile{b: b}, nil
}

func (m memFS) ReadDir(path string) ([]sysio.Info, error) {
	prefix := strings.TrimPrefix(path+"/", "/store/")
	seen := map[string]sysio.Info{}
	for name, b := range m.files {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		first, _, dir := strings.Cut(rest, "/")
		info := sysio.Info{Name: first, Dir: dir}
		if !dir {
			info.Size = int64(len(b))
		}
		seen[first] = info
	}
	if len(seen) == 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	var all []sysio.Info
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		all = append(all, seen[name])
	}
	return all, nil
}

// clone copies the files, so that they can be damaged.
func (m memFS) clone() memFS {
	c := memFS{files: map[string][]byte{}}
	for name, b := range m.files {
		c.files[name] = slices.Clone(b)
	}
	return c
}

// edit changes bytes of a file.
func (m memFS) edit(name string, at int64, b []byte) { copy(m.files[name][at:], b) }

// remove deletes a file or all below a folder.
func (m memFS) remove(name string) {
	maps.DeleteFunc(m.files, func(n string, _ []byte) bool { return n == name || strings.HasPrefix(n, name+"/") })
}

func (m memFS) open(t testing.TB) *Directory {
	t.Helper()
	d, err := Open(Options{FS: m, Root: "/store"})
	must(t, err)
	return d
}

// load reads a packed directory of the original.
func load(t testing.TB, packed string) memFS {
	t.Helper()
	m := memFS{files: map[string][]byte{}}
	storetest.Walk(t, packed, func(name string, content []byte) error {
		if content != nil {
			m.files[strings.TrimPrefix(name, "store/")] = content
		}
		return nil
	})
	return m
}

func fixture(t testing.TB, name string) memFS {
	t.Helper()
	if name == "direct-propcrc" {
		return load(t, filepath.Join("testdata", name+".tar.gz"))
	}
	return load(t, filepath.Join("..", "testdata", name+".tar.gz"))
}

// verify returns all findings.
func verify(t testing.TB, d *Directory) ([]Finding, Report) {
	t.Helper()
	var all []Finding
	r, err := d.Verify(VerifyOptions{Found: func(f Finding) { all = append(all, f) }})
	must(t, err)
	return all, r
}

func unitBytesOf(phy int64, size int32, tags int64) []byte {
	b := make([]byte, unitBytes)
	binary.BigEndian.PutUint64(b, uint64(phy))
	binary.BigEndian.PutUint32(b[8:], uint32(size))
	binary.BigEndian.PutUint64(b[12:], uint64(tags))
	return b
}
