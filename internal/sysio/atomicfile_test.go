package sysio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAtomicWriteKeepsThePreviousContent(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "topics.json")
		must(t, AtomicWriteFile(fsys, path, []byte("one"), true))
		if _, err := fsys.Stat(path + ".bak"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a backup of nothing")
		}
		must(t, AtomicWriteFile(fsys, path, []byte("two, longer"), true))
		must(t, AtomicWriteFile(fsys, path, []byte("3"), true))
		if got := content(t, fsys, path) + "|" + content(t, fsys, path+".bak"); got != "3|two, longer" {
			t.Error(got)
		}
		must(t, AtomicWriteFile(fsys, path, []byte("four"), false))
		if got := content(t, fsys, path) + "|" + content(t, fsys, path+".bak"); got != "four|two, longer" {
			t.Error(got)
		}
	})
}

func TestAtomicWriteDoesNotBackUpAnEmptyFile(t *testing.T) {
	x := NewFaultFS()
	must(t, AtomicWriteFile(x, "f.bak", []byte("good"), false))
	must(t, create(t, x, "f", "").Close())
	must(t, AtomicWriteFile(x, "f", []byte("new"), true))
	if got := content(t, x, "f") + "|" + content(t, x, "f.bak"); got != "new|good" {
		t.Error(got)
	}
}

func TestAtomicWriteWithoutHardLinksCopies(t *testing.T) {
	x := NewFaultFS()
	x.Inject(Fault{Op: OpLink, Err: syscall.EPERM})
	for _, text := range []string{"one", "two", "three"} {
		must(t, AtomicWriteFile(x, "f", []byte(text), true))
	}
	y := x.PowerCut(nil)
	if got := content(t, y, "f") + "|" + content(t, y, "f.bak"); got != "three|two" {
		t.Error(got)
	}
}

// Every cut inside a series of writes leaves a whole version: one that was acknowledged last or the one under way, and with a
// backup that is whole too.
func TestAtomicWriteSurvivesCutsAtEveryStep(t *testing.T) {
	for _, links := range []bool{true, false} {
		for seed := range uint64(60) {
			x := NewFaultFS()
			r := rand.New(rand.NewPCG(seed, 0))
			if !links {
				x.Inject(Fault{Op: OpLink, Err: syscall.EPERM})
			}
			acked := -1
			version := func(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%04d;", i)), 900) }
			check := func(y *FaultFS, what string) {
				l, err := ReadFileWithBackup(y, "f", nil)
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, what, err)
				}
				if l.Source == SourceNone && acked < 0 {
					return
				}
				if l.Source != SourceMain || !(bytes.Equal(l.Data, version(acked)) || bytes.Equal(l.Data, version(acked+1))) {
					t.Fatalf("seed %d, %s: after version %d: %v, %d bytes", seed, what, acked, l.Source, len(l.Data))
				}
				if data, err := ReadFile(y, "f.bak"); err == nil && len(data) != len(version(0)) {
					t.Fatalf("seed %d, %s: backup of %d bytes", seed, what, len(data))
				}
			}
			x.Observe(func(e Event) {
				if e.Op == OpWrite || r.IntN(4) == 0 {
					check(x.PowerCut(r), "power cut")
					check(x.PowerCut(nil), "hard power cut")
					check(x.Kill(), "kill")
				}
			})
			for i := range 4 {
				must(t, AtomicWriteFile(x, "f", version(i), true))
				acked = i
			}
			check(x.PowerCut(r), "power cut at the end")
		}
	}
}

func TestAtomicWriteFailsWithoutHarm(t *testing.T) {
	steps := OpOpen | OpWrite | OpSync | OpRename | OpSyncDir | OpStat
	for after := range 12 {
		x := NewFaultFS()
		must(t, AtomicWriteFile(x, "f", []byte("old"), true))
		remove := x.Inject(Fault{Op: steps, After: after, Times: 1, Err: syscall.ENOSPC})
		err := AtomicWriteFile(x, "f", []byte("new"), true)
		remove()
		if err != nil && !IsNoSpace(err) {
			t.Errorf("step %d: %v", after, err)
		}
		if got := content(t, x, "f"); got != "new" && (err == nil || got != "old") {
			t.Errorf("step %d: %v, content %q", after, err, got)
		}
		if files, _ := x.Open(); files != 0 {
			t.Errorf("step %d: %d files left open", after, files)
		}
		must(t, AtomicWriteFile(x, "f", []byte("again"), true))
	}
}

func TestReadFileWithBackup(t *testing.T) {
	valid := func(b []byte) error {
		if !strings.HasPrefix(string(b), "{") {
			return errors.New("not JSON")
		}
		return nil
	}
	for _, c := range []struct {
		name         string
		main, backup string // "-" = missing
		want         string
		source       Source
		mainErr      error
		fails        bool
	}{
		{"main", "{1}", "{2}", "{1}", SourceMain, nil, false},
		{"main alone", "{1}", "-", "{1}", SourceMain, nil, false},
		{"main good, backup broken", "{1}", "x", "{1}", SourceMain, nil, false},
		{"main missing", "-", "{2}", "{2}", SourceBackup, fs.ErrNotExist, false},
		{"main empty", "", "{2}", "{2}", SourceBackup, ErrEmpty, false},
		{"main broken", "\x00\x00", "{2}", "{2}", SourceBackup, nil, false},
		{"nothing", "-", "-", "", SourceNone, fs.ErrNotExist, false},
		{"main broken, no backup", "x", "-", "", SourceNone, nil, false},
		{"both broken", "x", "y", "", SourceNone, nil, true},
		{"both empty", "", "", "", SourceNone, ErrEmpty, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewFaultFS()
			for path, text := range map[string]string{"f": c.main, "f.bak": c.backup} {
				if text != "-" {
					must(t, create(t, x, path, text).Close())
				}
			}
			l, err := ReadFileWithBackup(x, "f", valid)
			if (err != nil) != c.fails || l.Source != c.source || string(l.Data) != c.want {
				t.Errorf("%v %q, %v", l.Source, l.Data, err)
			}
			if (l.MainErr == nil) != (c.source == SourceMain) || (c.mainErr != nil && !errors.Is(l.MainErr, c.mainErr)) {
				t.Errorf("MainErr %v", l.MainErr)
			}
			if l.MainErr != nil && !strings.Contains(l.MainErr.Error(), "f") {
				t.Errorf("MainErr names no file: %v", l.MainErr)
			}
		})
	}
}

func TestSourceNames(t *testing.T) {
	if SourceMain.String() != "file" || SourceBackup.String() != "backup" || SourceNone.String() != "none" {
		t.Error("names changed")
	}
}

func TestWholeFilesAreBounded(t *testing.T) {
	x := NewFaultFS()
	f := create(t, x, "f", "")
	must(t, f.Truncate(WholeFileMax+1))
	must(t, f.Close())
	if _, err := ReadFile(x, "f"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
