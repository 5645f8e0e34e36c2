package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"peregrine/internal/sysio"
)

// forgetDeletions leaves a directory as the original leaves it after topics were deleted: nothing tells of them.
func forgetDeletions(t *testing.T, fsys sysio.FS, set settings) {
	t.Helper()
	if err := errors.Join(fsys.Remove(filepath.Join(set.root, deletedName)), fsys.Remove(filepath.Join(set.root, deletedCopy)),
		fsys.Remove(filepath.Join(set.root, stateName))); err != nil {
		t.Fatal(err)
	}
}

// eachForgetting runs a test for the original, which leaves no list, and for a list of which both copies are damaged.
func eachForgetting(t *testing.T, test func(*testing.T, func(*testing.T, sysio.FS, settings))) {
	t.Run("no list", func(t *testing.T) { test(t, forgetDeletions) })
	t.Run("damaged list", func(t *testing.T) {
		test(t, func(t *testing.T, fsys sysio.FS, set settings) {
			damageList(t, fsys, set, deletedName)
			damageList(t, fsys, set, deletedCopy)
		})
	})
}

// A topic that the original deleted, and that was made again, keeps its new messages and none of the old ones, even where these
// have higher offsets; a topic that was not made again is reported, and stays away once the broker says so.
func TestEarlierLivesOfATopicStayOut(t *testing.T) {
	eachForgetting(t, testEarlierLives)
}

func testEarlierLives(t *testing.T, forget func(*testing.T, sysio.FS, settings)) {
	for _, fewer := range []int{1, 4, 9, 20} {
		for name, end := range map[string]func(*sysio.FaultFS, *Store) *sysio.FaultFS{
			"clean": func(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS { closeTest(t, s, true); return fsys },
			"kill": func(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS {
				next := fsys.Kill()
				s.abandon()
				return next
			},
		} {
			t.Run(fmt.Sprint(fewer, " of 9, ", name), func(t *testing.T) {
				fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
				s := openTest(t, fsys, set)
				sendAll(t, s, "Stays", "stays", 3, true)
				sendAll(t, s, "Again", "old", 9, true)
				sendAll(t, s, "Away", "old", 9, true)
				for _, topic := range []string{"Again", "Away"} {
					if err := s.DeleteTopic(topic); err != nil {
						t.Fatal(err)
					}
				}
				sendAll(t, s, "Again", "new", fewer, true)
				want := make([]string, fewer)
				for i := range want {
					want[i] = fmt.Sprint("new", i)
				}
				fsys = end(fsys, s)
				forget(t, fsys, set)
				for round := range 3 {
					s = openTest(t, fsys, set)
					if got := s.Recovery().WithoutFolder; round == 0 && !slices.Equal(got, []string{"Away"}) || round > 0 && len(got) > 0 {
						t.Errorf("round %d: topics without a folder: %v", round, got)
					}
					for _, topic := range s.Recovery().WithoutFolder {
						if err := s.DeleteTopic(topic); err != nil {
							t.Fatal(err)
						}
					}
					mustDispatch(t, s, 0)
					expectBodies(t, s, "Stays", "stays0", "stays1", "stays2")
					expectBodies(t, s, "Again", want...)
					expectBodies(t, s, "Away")
					sendAll(t, s, "Again", fmt.Sprint("round", round, "-"), 1, true)
					want = append(want, fmt.Sprint("round", round, "-0"))
					expectBodies(t, s, "Again", want...)
					fsys = end(fsys, s)
				}
			})
		}
	}
}

// A power cut takes the end of the log, and with it places up to which a deletion was to leave out what there is: new messages get
// these places, and count.
func TestDeletionBehindTheEndOfTheLog(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
			s := openTest(t, fsys, set)
			sendAll(t, s, "Again", "old", 2, true)
			if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
				t.Fatal(err)
			}
			sendAll(t, s, "Again", "lost", 9, true)
			if err := s.DeleteTopic("Again"); err != nil {
				t.Fatal(err)
			}
			next := fsys.PowerCut(rand.New(rand.NewPCG(seed, seed)))
			s.abandon()
			var want []string
			for round := range 3 {
				s = openTest(t, next, set)
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				expectBodies(t, s, "Again", want...)
				sendAll(t, s, "Again", fmt.Sprint("new", round, "-"), 1, true)
				want = append(want, fmt.Sprint("new", round, "-0"))
				expectBodies(t, s, "Again", want...)
				closeTest(t, s, true)
			}
		})
	}
}
