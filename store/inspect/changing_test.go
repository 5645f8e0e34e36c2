package inspect

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"peregrine/internal/sysio"
)

// changingFS is a directory that a broker works on: opens and reads are called before a file is opened and read, and may change
// it, and so may after, behind a read. seen changes what a listing shows.
type changingFS struct {
	memFS
	opens func(path string)
	reads func(path string)
	after func(path string)
	seen  func(path string, infos []sysio.Info) []sysio.Info
}

func (c changingFS) ReadDir(path string) ([]sysio.Info, error) {
	infos, err := c.memFS.ReadDir(path)
	if c.seen != nil {
		infos = c.seen(strings.TrimPrefix(path, "/store/"), infos)
	}
	return infos, err
}

func (c changingFS) OpenFile(path string, flag int, perm fs.FileMode) (sysio.File, error) {
	name := strings.TrimPrefix(path, "/store/")
	if c.opens != nil {
		c.opens(name)
	}
	f, err := c.memFS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return liveFile{File: f, fs: c, name: name}, nil
}

// liveFile shows what the file holds now: nothing once it was deleted, for the broker takes its bytes away.
type liveFile struct {
	sysio.File
	fs   changingFS
	name string
}

func (f liveFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.reads != nil {
		f.fs.reads(f.name)
	}
	n, err := memFile{b: f.fs.files[f.name]}.ReadAt(p, off)
	if f.fs.after != nil {
		f.fs.after(f.name)
	}
	return n, err
}

func (f liveFile) Size() (int64, error) { return int64(len(f.fs.files[f.name])), nil }

// running opens a directory that a broker holds.
func (c changingFS) running(t *testing.T) *Directory {
	t.Helper()
	d, err := Open(Options{FS: c, Root: "/store", LockHolder: func(string) (bool, int, error) { return true, 1, nil }})
	must(t, err)
	return d
}

func noFindings(t *testing.T, d *Directory) Report {
	t.Helper()
	all, r := verify(t, d)
	for _, f := range all {
		t.Error(f.String())
	}
	if _, err := d.Summarize(); err != nil {
		t.Error(err)
	}
	return r
}

// empty takes the bytes of all files below a folder away and returns what gives them back.
func (m memFS) empty(folder string) (restore func()) {
	had := map[string][]byte{}
	for name, b := range m.files {
		if strings.HasPrefix(name, folder+"/") || name == folder {
			had[name], m.files[name] = b, nil
		}
	}
	return func() {
		for name, b := range had {
			m.files[name] = b
		}
	}
}

// A file has no length yet when it was made a moment ago. It tells nothing then, neither about itself nor about others.
func TestFilesThatAreBeingMade(t *testing.T) {
	folders := []string{"commitlog", "consumequeue", "consumequeue_ext", "index", "checkpoint"}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			m := fixture(t, "ext-5.5.0")
			m.empty(folder)
			if folder == "commitlog" { // queues come after the log
				m.empty("consumequeue")
			}
			if folder == "consumequeue_ext" {
				m.empty("consumequeue")
			}
			noFindings(t, changingFS{memFS: m}.running(t))
		})
		// And it gets its length while the rest is listed.
		t.Run(folder+" meanwhile", func(t *testing.T) {
			m := fixture(t, "ext-5.5.0")
			want, restore := m.clone(), m.empty(folder)
			fsys := changingFS{memFS: m, opens: func(path string) {
				if path == "checkpoint" { // the last thing that Open reads
					restore()
				}
			}}
			d := fsys.running(t)
			r := noFindings(t, d)
			if _, whole := verify(t, changingFS{memFS: want}.running(t)); folder != "consumequeue" && (r.Records != whole.Records || r.Units != whole.Units) {
				t.Errorf("%+v, expected %+v", r, whole)
			}
		})
	}
}

// At rest the next start deletes an empty last file; it does not say how long others are.
func TestEmptyFilesAtRest(t *testing.T) {
	m := fixture(t, "direct-v6") // one file a queue
	m.empty("consumequeue")
	d := m.open(t)
	for _, f := range d.Findings {
		if f.Level != Note {
			t.Error(f.String())
		}
	}
}

// A listing takes a while. One that misses a file in the middle, made or deleted meanwhile, is no gap.
func TestListingsThatMissFiles(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	for _, folder := range []string{"commitlog", "consumequeue"} {
		t.Run(folder, func(t *testing.T) {
			missed := 0
			noFindings(t, changingFS{memFS: m, seen: func(path string, infos []sysio.Info) []sysio.Info {
				if strings.HasPrefix(path, folder) && len(infos) > 2 && !infos[1].Dir && missed < listingsMax-1 {
					missed++
					infos = slices.Delete(infos, 1, 2)
				}
				return infos
			}}.running(t))
			if missed == 0 {
				t.Fatal("there is no folder with three files")
			}
		})
	}
}

// An index file has its length before its head, but a listing may have shown it before both.
func TestIndexFileThatGrows(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	r := noFindings(t, changingFS{memFS: m, seen: func(path string, infos []sysio.Info) []sysio.Info {
		if path == "index" {
			for i := range infos {
				infos[i].Size = 0
			}
		}
		return infos
	}}.running(t))
	if r.Items == 0 {
		t.Errorf("%+v", r)
	}
}

// A file that is deleted while it is read loses its bytes under the reader. That is no damage.
func TestLogFilesDeletedUnderTheWalk(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	names := slices.Sorted(maps.Keys(m.files))
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "commitlog/") })
	const gone = 3
	walking := false
	d := changingFS{memFS: m, reads: func(path string) {
		if walking = walking || path == names[0]; walking && path == names[gone-1] { // just before its first byte is read
			for _, n := range names[:gone] {
				m.remove(n)
			}
		}
	}}.running(t)
	noted := 0
	r, err := d.Verify(VerifyOptions{Found: func(f Finding) {
		if noted++; f.Kind != KindRetention {
			t.Error(f.String())
		}
	}})
	must(t, err)
	if noted != 1 || r.Records == 0 {
		t.Errorf("%d files were deleted under the walk, %+v", noted, r)
	}
}

// Retention takes units and index items of deleted records away. The walk may be among these records.
func TestQueueAndIndexFilesDeletedUnderTheWalk(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	whole := changingFS{memFS: m.clone()}.running(t)
	begin := int64(whole.Index[0].Head.EndPhy)/whole.SegmentBytes*whole.SegmentBytes + whole.SegmentBytes
	d := changingFS{memFS: m, after: func(path string) {
		if path != whole.Log[0].Name { // the walk has the first file in its buffer
			return
		}
		for _, f := range whole.Log {
			if f.Start < begin {
				m.remove(f.Name)
			}
		}
		m.remove(whole.Index[0].Name)
		m.remove("consumequeue/FixA/0/" + fmt.Sprintf("%020d", 0))
	}}.running(t)
	found := 0
	r, err := d.Verify(VerifyOptions{Found: func(f Finding) {
		if found++; f.Kind != KindRetention {
			t.Error(f.String())
		}
	}})
	must(t, err)
	if _, all := verify(t, whole); found != 1 || r.Records == 0 || r.Records >= all.Records || r.Expired < 200 {
		t.Errorf("%d findings, %+v of %+v", found, r, all)
	}
}
