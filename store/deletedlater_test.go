package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Another broker cuts the log below the place where a topic was deleted and appends, less far or farther than that place: what it
// appended to a new topic of that name counts, what was deleted does not.
func TestDeletionInALogThatWasCutBelowIt(t *testing.T) {
	for name, c := range map[string]struct {
		cutBytes, appended, size int
		queuesGone               bool
	}{
		"not as far":                      {4000, 3, 10, false},
		"farther":                         {4000, 9, 3000, false},
		"from a file before, not as far":  {100_000, 5, 3000, false},
		"from a file before, and farther": {100_000, 50, 3000, false},
		"farther, and no queues":          {4000, 9, 3000, true},
		"nothing appended":                {4000, 0, 0, false},
	} {
		for _, again := range []bool{false, true} { // the place of the topic's new messages: alone, or behind others
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
				s := openTest(t, fsys, set)
				sendAll(t, s, "T", strings.Repeat("o", 500), 30, true)
				sendAll(t, s, "Other", strings.Repeat("x", 3000), 50, true)
				sendAll(t, s, "T", strings.Repeat("o", 500), 30, true)
				if err := s.DeleteTopic("T"); err != nil {
					t.Fatal(err)
				}
				mark := s.Wrote()
				closeTest(t, s, true)
				list, err := sysio.ReadFile(fsys, filepath.Join(set.root, deletedName))
				if err != nil {
					t.Fatal(err)
				}

				// The other broker: it knows of no list, so here it has one that hides nothing that it appends.
				cut := cutBelow(t, fsys, set, mark-message.PhyOffset(c.cutBytes))
				rewrite := func(text string) {
					if err := sysio.AtomicWriteFile(fsys, filepath.Join(set.root, deletedName), []byte(text), false); err != nil {
						t.Fatal(err)
					}
					if err := fsys.Remove(filepath.Join(set.root, stateName)); err != nil {
						t.Fatal(err)
					}
				}
				rewrite(fmt.Sprintf("%d T\n", cut))
				later := func() message.Millis { return nowMillis() + 60_000 }
				s, err = open(fsys, set, quietLogger(), later, nil)
				if err != nil {
					t.Fatal(err)
				}
				if s.Wrote() != cut {
					t.Fatalf("the log ends at %d, want %d", s.Wrote(), cut)
				}
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				if again {
					sendAll(t, s, "Other", "y", 1, true)
				}
				body := strings.Repeat("n", c.size)
				sendAll(t, s, "T", body, c.appended, true)
				var want []string
				for i := range c.appended {
					want = append(want, fmt.Sprint(body, i))
				}
				expectBodies(t, s, "T", want...)
				closeTest(t, s, true)
				rewrite(string(list))
				if c.queuesGone {
					if err := removeAll(fsys, set.queueDir); err != nil {
						t.Fatal(err)
					}
				}

				for round := range 3 {
					s, err = open(fsys, set, quietLogger(), later, nil)
					if err != nil {
						t.Fatal(err)
					}
					mustDispatch(t, s, 0)
					expectBodies(t, s, "T", want...)
					sendAll(t, s, "T", fmt.Sprint("round", round, "-"), 1, true)
					want = append(want, fmt.Sprint("round", round, "-0"))
					expectBodies(t, s, "T", want...)
					if round == 1 {
						next := fsys.Kill()
						s.abandon()
						fsys = next
					} else {
						closeTest(t, s, true)
					}
				}
			})
		}
	}
}

// cutBelow makes the log end with the record in front of at, and returns its end.
func cutBelow(t *testing.T, fsys *sysio.FaultFS, set settings, at message.PhyOffset) message.PhyOffset {
	t.Helper()
	for start := int64(0); ; start += testSegment {
		path := dataPath(set.logDir, start)
		log, err := sysio.ReadFile(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		for pos := 0; ; {
			var v message.View
			if err := message.ParseView(log[pos:], &v); err != nil {
				break
			}
			if message.PhyOffset(start+int64(pos)+int64(v.Size)) > at {
				writeRaw(t, fsys, path, int64(pos), make([]byte, testSegment-pos))
				for next := start + testSegment; ; next += testSegment {
					if err := fsys.Remove(dataPath(set.logDir, next)); err != nil {
						return message.PhyOffset(start) + message.PhyOffset(pos)
					}
				}
			}
			pos += int(v.Size)
		}
	}
}
