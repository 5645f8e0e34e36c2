package sysio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
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
				l := ReadFileWithBackup(y, "f", nil)
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
		backupErr    error // nil: none, or any with SourceNone
	}{
		{"main", "{1}", "{2}", "{1}", SourceMain, nil, nil},
		{"main alone", "{1}", "-", "{1}", SourceMain, nil, nil},
		{"main good, backup broken", "{1}", "x", "{1}", SourceMain, nil, nil},
		{"main missing", "-", "{2}", "{2}", SourceBackup, fs.ErrNotExist, nil},
		{"main empty", "", "{2}", "{2}", SourceBackup, ErrEmpty, nil},
		{"main broken", "\x00\x00", "{2}", "{2}", SourceBackup, nil, nil},
		{"nothing", "-", "-", "", SourceNone, fs.ErrNotExist, fs.ErrNotExist},
		{"main broken, no backup", "x", "-", "", SourceNone, nil, fs.ErrNotExist},
		{"both broken", "x", "y", "", SourceNone, nil, nil},
		{"both empty", "", "", "", SourceNone, ErrEmpty, ErrEmpty},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewFaultFS()
			for path, text := range map[string]string{"f": c.main, "f.bak": c.backup} {
				if text != "-" {
					must(t, create(t, x, path, text).Close())
				}
			}
			l := ReadFileWithBackup(x, "f", valid)
			if l.Source != c.source || string(l.Data) != c.want {
				t.Errorf("%v %q", l.Source, l.Data)
			}
			if (l.BackupErr != nil) != (c.source == SourceNone) || c.backupErr != nil && !errors.Is(l.BackupErr, c.backupErr) {
				t.Errorf("BackupErr %v", l.BackupErr)
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

// What a file held for nobody else's eyes stays so, also while it is being replaced, and its backup, too.
func TestAtomicWriteKeepsMode(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "f")
	modes := func(what string, want fs.FileMode, paths ...string) {
		t.Helper()
		for _, path := range paths {
			fi, err := os.Stat(path)
			must(t, err)
			if fi.Mode().Perm() != want {
				t.Errorf("%s: %s has mode %o, want %o", what, filepath.Base(path), fi.Mode().Perm(), want)
			}
		}
	}
	must(t, AtomicWriteFile(OS{}, path, []byte("1"), true))
	modes("a new file", 0o644, path)
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666} {
		must(t, os.Chmod(path, mode))
		must(t, os.WriteFile(path+tempSuffix, nil, 0o666)) // what a kill left behind
		must(t, AtomicWriteFile(OS{}, path, []byte("2"), true))
		modes("replaced", mode, path, path+backupSuffix)
	}
	must(t, os.Chmod(path, 0o600))
	x := &spiedFS{see: func(temp string) { modes("on the way", 0o600, temp) }}
	must(t, AtomicWriteFile(x, path, []byte("3"), true))
	if x.seen == 0 {
		t.Error("nothing was seen on the way")
	}
}

// spiedFS shows each file that is opened for writing before anything is written, and cannot link.
type spiedFS struct {
	OS
	see  func(path string)
	seen int
}

func (s *spiedFS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := s.OS.OpenFile(path, flag, perm)
	if err == nil && flag&os.O_CREATE != 0 {
		s.seen++
		s.see(path)
	}
	return f, err
}

func (s *spiedFS) Link(string, string) error { return errors.ErrUnsupported }

// Owner and group stay too where the process may give files away.
func TestAtomicWriteKeepsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, AtomicWriteFile(OS{}, path, []byte("1"), false))
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 12345, 23456
		must(t, os.Chown(path, uid, gid))
	}
	must(t, AtomicWriteFile(OS{}, path, []byte("2"), true))
	for _, path := range []string{path, path + backupSuffix} {
		fi, err := os.Stat(path)
		must(t, err)
		if st := fi.Sys().(*syscall.Stat_t); int(st.Uid) != uid || int(st.Gid) != gid {
			t.Errorf("%s belongs to %d:%d, want %d:%d", filepath.Base(path), st.Uid, st.Gid, uid, gid)
		}
	}
}
