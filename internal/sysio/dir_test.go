package sysio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
)

func isNoMemory(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN)
}

func TestDirectories(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		must(t, fsys.MkdirAll(filepath.Join(dir, "b", "c"), 0o755))
		must(t, fsys.MkdirAll(filepath.Join(dir, "b", "c"), 0o755))
		must(t, create(t, fsys, filepath.Join(dir, "b", "a"), "123").Close())
		infos, err := fsys.ReadDir(filepath.Join(dir, "b"))
		must(t, err)
		var got []Info
		for _, i := range infos {
			if !i.Dir && i.ModTime.IsZero() {
				t.Error("no time")
			}
			got = append(got, Info{Name: i.Name, Size: i.Size, Dir: i.Dir})
		}
		if want := []Info{{Name: "a", Size: 3}, {Name: "c", Dir: true}}; !reflect.DeepEqual(got, want) {
			t.Errorf("ReadDir = %v", got)
		}
		info, err := fsys.Stat(filepath.Join(dir, "b"))
		must(t, err)
		if info.Name != "b" || !info.Dir {
			t.Errorf("Stat = %v", info)
		}
		must(t, fsys.SyncDir(filepath.Join(dir, "b")))
		must(t, fsys.Remove(filepath.Join(dir, "b", "c")))
		if err := fsys.Remove(filepath.Join(dir, "b")); !errors.Is(err, syscall.ENOTEMPTY) {
			t.Errorf("Remove of a full directory: %v", err)
		}
	})
}

func TestMissingAndExistingNames(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path, missing := filepath.Join(dir, "f"), filepath.Join(dir, "missing")
		must(t, create(t, fsys, path, "1").Close())
		_, oerr := fsys.OpenFile(missing, os.O_RDWR, 0)
		_, serr := fsys.Stat(missing)
		_, rerr := fsys.ReadDir(missing)
		_, perr := fsys.OpenFile(filepath.Join(missing, "f"), os.O_RDWR|os.O_CREATE, 0o644)
		for name, err := range map[string]error{
			"OpenFile": oerr, "Stat": serr, "ReadDir": rerr, "parent": perr, "Remove": fsys.Remove(missing),
			"Rename": fsys.Rename(missing, path), "Link": fsys.Link(missing, path+"2"), "SyncDir": fsys.SyncDir(missing),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, eerr := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		for name, err := range map[string]error{"O_EXCL": eerr, "Link": fsys.Link(path, path)} {
			if !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := fsys.OpenFile(filepath.Join(path, "below"), os.O_RDWR|os.O_CREATE, 0o644); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("a file as directory: %v", err)
		}
		if _, err := fsys.OpenFile(dir, os.O_RDWR, 0); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("a directory as file: %v", err)
		}
		if err := fsys.MkdirAll(filepath.Join(path, "x"), 0o755); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("a directory below a file: %v", err)
		}
	})
}

func TestRenameReplacesAndOpenFilesLive(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
		must(t, create(t, fsys, a, "new").Close())
		old := create(t, fsys, b, "old")
		defer old.Close()
		must(t, fsys.Link(b, c))
		must(t, fsys.Rename(a, b))
		if content(t, fsys, b) != "new" || content(t, fsys, c) != "old" {
			t.Error("wrong content after rename")
		}
		if _, err := fsys.Stat(a); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the old name is still there")
		}
		must(t, fsys.Remove(c))
		buf := make([]byte, 3)
		_, err := old.ReadAt(buf, 0)
		must(t, err)
		if string(buf) != "old" {
			t.Errorf("the open file shows %q", buf)
		}
		f, err := fsys.OpenFile(b, os.O_RDWR|os.O_TRUNC, 0)
		must(t, err)
		must(t, f.Close())
		if content(t, fsys, b) != "" {
			t.Error("O_TRUNC left bytes")
		}
	})
}

func TestDanglingLinksAreListed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "l")))
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("12345"), 0o644))
	must(t, os.Symlink(filepath.Join(dir, "f"), filepath.Join(dir, "m")))
	infos, err := OS{}.ReadDir(dir)
	must(t, err)
	if len(infos) != 3 || infos[1].Name != "l" || infos[2].Name != "m" || infos[2].Size != 5 {
		t.Errorf("%v", infos)
	}
}

func TestDiskUsage(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		u, err := fsys.DiskUsage(dir)
		must(t, err)
		if u.Total <= 0 || u.Usable < 0 || u.Used < 0 || u.Used+u.Usable > u.Total {
			t.Errorf("%+v", u)
		}
	})
	if _, err := (OS{}).DiskUsage(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestUsedPercentIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		u    Usage
		want int
	}{
		{Usage{}, 0}, {Usage{Used: 0, Usable: 5}, 0}, {Usage{Used: 901, Usable: 99}, 91}, {Usage{Used: 900, Usable: 100}, 90},
		{Usage{Used: 1, Usable: 1 << 40}, 1}, {Usage{Used: 7, Usable: 0}, 100}, {Usage{Used: 1 << 61, Usable: 1 << 61}, 50},
	} {
		if got := c.u.UsedPercent(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.u, got, c.want)
		}
	}
}
