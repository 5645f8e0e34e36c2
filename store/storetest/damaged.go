package storetest

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Variant is a directory of the original, clean-5.5.0, with damage, and what the original made of it (testdata/damaged.json of store).
type Variant struct {
	Name, Damage string
	Changes      []Change
	Original     struct {
		Starts bool
		End    message.PhyOffset
		Served int
	}
}

// Change is one change of a file.
type Change struct {
	File         string
	Remove       bool
	Truncate, At int64
	Zeros        int
	Hex, Text    string
}

// Variants reads all of them.
func Variants(t testing.TB, path string) []Variant {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []Variant
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 35 {
		t.Fatalf("%d variants", len(all))
	}
	return all
}

// Make damages a copy of the undamaged directory at root.
func (v *Variant) Make(t testing.TB, whole *sysio.FaultFS, root string) *sysio.FaultFS {
	t.Helper()
	fsys := whole.Kill()
	for _, c := range v.Changes {
		c.make(t, fsys, filepath.Join(root, c.File))
	}
	return fsys
}

func (c *Change) make(t testing.TB, fsys *sysio.FaultFS, path string) {
	t.Helper()
	if c.Remove {
		if err := fsys.Remove(path); err != nil {
			t.Fatal(err)
		}
		if fsys.Remove(filepath.Dir(path)) == nil { // the last file of a folder takes it along
			_ = fsys.Remove(filepath.Dir(filepath.Dir(path)))
		}
		return
	}
	raw, err := hex.DecodeString(c.Hex)
	if err != nil {
		t.Fatal(err)
	}
	if c.Zeros > 0 {
		raw = make([]byte, c.Zeros)
	}
	flag := os.O_RDWR
	if c.Text != "" {
		raw, flag = []byte(c.Text), os.O_RDWR|os.O_CREATE|os.O_TRUNC
	}
	f, err := fsys.OpenFile(path, flag, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c.Truncate > 0 {
		err = f.Truncate(c.Truncate)
	} else {
		_, err = f.WriteAt(raw, c.At)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// InMemory puts a packed data directory into a file system in memory, at root, with everything durable.
func InMemory(t testing.TB, packed, root string) *sysio.FaultFS {
	t.Helper()
	fsys := sysio.NewFaultFS()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	syncUp := func(dir string) {
		for ; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
			must(fsys.SyncDir(dir))
		}
		must(fsys.SyncDir(dir))
	}
	Walk(t, packed, func(name string, content []byte) error {
		path := filepath.Join(root, strings.TrimPrefix(name, "store"))
		if content == nil {
			must(fsys.MkdirAll(path, 0o755))
			syncUp(path)
			return nil
		}
		must(fsys.MkdirAll(filepath.Dir(path), 0o755))
		f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		must(err)
		_, err = f.WriteAt(content, 0)
		must(err)
		must(f.Sync())
		must(f.Close())
		syncUp(filepath.Dir(path))
		return nil
	})
	return fsys
}
