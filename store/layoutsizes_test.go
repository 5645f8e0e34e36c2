package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/sysio"
)

// A log of one file that is shorter than configured: cut short, it is served up to its last whole record, as a short last file of several
// is; made with another size, it is refused with that size; where nobody can tell, both ways out are named, and work.
func TestTheOnlyFileOfTheLogIsShort(t *testing.T) {
	const many, few = 60, 20 // 60 records of some 1,100 bytes nearly fill a file
	for name, c := range map[string]struct {
		records int
		cut     func(end int64) int64 // the file's length, given the end of the last record
		state   bool                  // peregrine.state is there
		config  int64                 // mappedFileSizeCommitLog of the start, 0: as made
		lost    int                   // records that are not served
		refused []string
	}{
		"in a record":            {few, func(end int64) int64 { return end - 500 }, false, 0, 1, nil},
		"in a record's head":     {few, func(end int64) int64 { return end - 1100 + 12 }, false, 0, 1, nil},
		"behind a record":        {few, func(end int64) int64 { return end }, false, 0, 0, nil},
		"just behind a record":   {few, func(end int64) int64 { return end + 5 }, false, 0, 0, nil},
		"in free space, known":   {few, func(end int64) int64 { return end + 500 }, true, 0, 0, nil},
		"in free space":          {few, func(end int64) int64 { return end + 500 }, false, 0, 0, []string{"was cut short", "configure that", "truncate -s 65536 " + fileName(0)}},
		"other size, known":      {few, func(int64) int64 { return testSegment }, true, 2 * testSegment, 0, []string{"made with mappedFileSizeCommitLog=65536: configure that"}},
		"other size":             {few, func(int64) int64 { return testSegment }, false, 2 * testSegment, 0, []string{"was cut short", "made with mappedFileSizeCommitLog=65536, configure that"}},
		"other size, a full one": {many, func(int64) int64 { return testSegment }, false, 2 * testSegment, 0, []string{"made with mappedFileSizeCommitLog=65536: configure that"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			set := testSettings(root)
			path := dataPath(set.logDir, 0)
			s := openTest(t, sysio.OS{}, set)
			for range c.records {
				send(t, s, s.Queue("T", 0), strings.Repeat("x", 1000))
			}
			end := int64(s.Wrote())
			mustDispatch(t, s, 0)
			closeTest(t, s, true)
			if end > testSegment {
				if err := os.Remove(dataPath(set.logDir, testSegment)); err != nil {
					t.Fatal(err)
				}
			}
			err := os.Truncate(path, c.cut(end))
			if err == nil && !c.state {
				err = os.Remove(filepath.Join(root, stateName))
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.config > 0 {
				set.segmentBytes = c.config
			}
			before := snapshot(t, root)
			s, err = open(sysio.OS{}, set, quietLogger(), nowMillis, nil)
			if c.refused == nil {
				if err != nil {
					t.Fatal(err)
				}
				if w := strings.Join(s.Recovery().Warnings, "\n"); !strings.Contains(w, path+" has ") || !strings.Contains(w, "taken as a torn end") {
					t.Errorf("warnings: %q", w)
				}
				if got := len(served(t, s)); got != c.records-c.lost {
					t.Errorf("%d records are served, want %d", got, c.records-c.lost)
				}
				closeTest(t, s, true)
				return
			}
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("it was opened: %v", err)
			}
			for _, part := range append(c.refused, path, "expected are") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if after := snapshot(t, root); !maps.Equal(before, after) {
				t.Error("files changed")
			}
			// What the sentence advises.
			if set.segmentBytes = testSegment; c.config == 0 {
				if err := os.Truncate(path, testSegment); err != nil {
					t.Fatal(err)
				}
			}
			s = openTest(t, sysio.OS{}, set)
			defer s.Close(true)
			if got := len(served(t, s)); got < few || c.records == few && got != few {
				t.Errorf("as advised, %d records are served", got)
			}
		})
	}
}

// The last file that holds anything may be short whatever the stop was: after kill -9 files made ahead follow it.
func TestAShortFileInFrontOfUnusedOnes(t *testing.T) {
	for _, left := range []int64{0, 10, 5000} {
		root := t.TempDir()
		set := filled(t, root)
		s := openTest(t, sysio.OS{}, set)
		want := len(served(t, s))
		closeTest(t, s, true)
		if left < 1000 {
			want-- // the only one in that file
		}
		if err := errors.Join(os.Truncate(dataPath(set.logDir, 2*testSegment), left), put(dataPath(set.logDir, 3*testSegment), testSegment),
			put(dataPath(set.logDir, 4*testSegment), 0), put(filepath.Join(root, abortName), 0)); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, sysio.OS{}, set)
		mustDispatch(t, s, s.Recovery().RedispatchFrom)
		if got := len(served(t, s)); got != want {
			t.Errorf("with %d bytes of the last file left, %d records are served, want %d", left, got, want)
		}
		send(t, s, s.Queue("T", 0), "goes on")
		closeTest(t, s, false)
	}
}

// An index file that was cut short, whichever, is made again from there on; the start says so.
func TestShortIndexFilesAreMadeAgain(t *testing.T) {
	const keys = 400
	for _, i := range []int{0, 3, 5} {
		for _, cut := range []int64{1, 500, 1 << 40} {
			fsys, set := gapStore(t, keys, 0)
			names := indexNames(t, fsys, set)
			path := filepath.Join(set.indexDir, names[min(i, len(names)-1)])
			if err := setLength(fsys, path, max(100, set.index.fileBytes()-cut)); err != nil {
				t.Fatal(err)
			}
			s := openIndexed(t, fsys, set)
			if w := strings.Join(s.Recovery().Warnings, "\n"); !strings.Contains(w, path+" has ") {
				t.Errorf("warnings: %q", w)
			}
			for k := range keys {
				if r, views := query(t, s, IndexQuery{Topic: "T", Key: fmt.Sprint("k", k)}); len(views) != 1 || r.Broken {
					t.Errorf("file %d without %d bytes: key %d is found %d times, broken: %v", i, cut, k, len(views), r.Broken)
				}
			}
			closeIndexed(t, s)
			for _, name := range indexNames(t, fsys, set) {
				if info, err := fsys.Stat(filepath.Join(set.indexDir, name)); err != nil || info.Size != set.index.fileBytes() {
					t.Errorf("%s has %d bytes: %v", name, info.Size, err)
				}
			}
		}
	}
}
