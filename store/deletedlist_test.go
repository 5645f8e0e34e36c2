package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/sysio"
)

// damageList changes a digit of a position in a copy of the list of deleted topics: every line can still be read.
func damageList(t *testing.T, fsys sysio.FS, set settings, name string) {
	t.Helper()
	path := filepath.Join(set.root, name)
	data, err := sysio.ReadFile(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.IndexByte(data, '\n')+1] ^= 1
	if err := sysio.AtomicWriteFile(fsys, path, data, false); err != nil {
		t.Fatal(err)
	}
}

// A list of deleted topics that is damaged or away does not stop a start, and does not bring messages back: those of a topic that was
// made again and has none yet are known by the copy alone. What was damaged is kept, a line names it, and both copies are whole again.
func TestDamagedListOfDeletedTopics(t *testing.T) {
	path := func(name string) string { return filepath.Join(memoryRoot, name) }
	for name, harm := range map[string]func(t *testing.T, fsys sysio.FS, set settings){
		"a digit": func(t *testing.T, fsys sysio.FS, set settings) { damageList(t, fsys, set, deletedName) },
		"nonsense": func(t *testing.T, fsys sysio.FS, _ settings) {
			putText(t, fsys, path(deletedName), "12 T\nnonsense\n")
		},
		"cut between lines": func(t *testing.T, fsys sysio.FS, _ settings) {
			whole, err := sysio.ReadFile(fsys, path(deletedName))
			if err != nil {
				t.Fatal(err)
			}
			putText(t, fsys, path(deletedName), string(whole[:bytes.IndexByte(whole, '\n')+1]))
		},
		"empty": func(t *testing.T, fsys sysio.FS, _ settings) { putText(t, fsys, path(deletedName), "") },
		"missing": func(t *testing.T, fsys sysio.FS, _ settings) {
			if err := fsys.Remove(path(deletedName)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", killed ", killed), func(t *testing.T) {
				fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
				s := openTest(t, fsys, set)
				sendAll(t, s, "Again", "old", 9, true)
				sendAll(t, s, "Away", "old", 9, true)
				sendAll(t, s, "Stays", "stays", 3, true)
				sendAll(t, s, "Unborn", "old", 9, true)
				for _, topic := range []string{"Again", "Away", "Unborn"} {
					if err := s.DeleteTopic(topic); err != nil {
						t.Fatal(err)
					}
				}
				sendAll(t, s, "Again", "new", 2, true)
				whole, err := sysio.ReadFile(fsys, path(deletedName))
				if err != nil {
					t.Fatal(err)
				}
				end := func() {
					if !killed {
						closeTest(t, s, true)
						return
					}
					next := fsys.Kill()
					s.abandon()
					fsys = next
				}
				end()
				harm(t, fsys, set)
				harmed, harmedErr := sysio.ReadFile(fsys, path(deletedName))

				var log bytes.Buffer
				for round := range 3 {
					if s, err = open(fsys, set, slog.New(slog.NewTextHandler(&log, nil)), nowMillis, nil); err != nil {
						t.Fatal(err)
					}
					if got := strings.Count(log.String(), "used instead"); got != 1 || !strings.Contains(log.String(), path(deletedName)) {
						t.Errorf("round %d: %d lines name the file: %s", round, got, log.String())
					}
					mustDispatch(t, s, 0)
					expectBodies(t, s, "Stays", "stays0", "stays1", "stays2")
					expectBodies(t, s, "Again", "new0", "new1")
					expectBodies(t, s, "Away")
					expectBodies(t, s, "Unborn")
					for _, name := range []string{deletedName, deletedCopy} {
						if data, err := sysio.ReadFile(fsys, path(name)); err != nil || !bytes.Equal(data, whole) {
							t.Errorf("round %d: %s is %q, %v; want %q", round, name, data, err, whole)
						}
					}
					if kept, err := sysio.ReadFile(fsys, path(deletedName+damagedSuffix)); harmedErr == nil && (err != nil || !bytes.Equal(kept, harmed)) {
						t.Errorf("round %d: kept %q, %v; want %q", round, kept, err, harmed)
					}
					end()
				}
			})
		}
	}
}

// A start that fails behind a damaged list leaves the next one as wary as it was.
func TestDamagedListAndAFailedStart(t *testing.T) {
	for _, place := range []string{deletedName + "*", stateName + "*", deletedCopy + "*"} {
		t.Run(place, func(t *testing.T) {
			fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
			s := openTest(t, fsys, set)
			sendAll(t, s, "Stays", "stays", 2, true)
			sendAll(t, s, "Away", "old", 3, true)
			if err := s.DeleteTopic("Away"); err != nil {
				t.Fatal(err)
			}
			closeTest(t, s, true)
			damageList(t, fsys, set, deletedName)
			damageList(t, fsys, set, deletedCopy)
			heal := fsys.Inject(sysio.Fault{Op: sysio.OpRename, Path: place})
			if s, err := open(fsys, set, quietLogger(), nowMillis, nil); err == nil {
				s.abandon()
			}
			heal()
			next := fsys.Kill()
			s = openTest(t, next, set)
			if got := s.Recovery().WithoutFolder; len(got) != 1 || got[0] != "Away" {
				t.Errorf("topics without a folder: %v", got)
			}
			s.abandon()
		})
	}
}

func putText(t *testing.T, fsys sysio.FS, path, text string) {
	t.Helper()
	if err := sysio.AtomicWriteFile(fsys, path, []byte(text), false); err != nil {
		t.Fatal(err)
	}
}
