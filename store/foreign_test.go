package store

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

type expectation struct {
	End    message.PhyOffset
	Queues map[string]map[string]struct {
		Min, Max message.QueueOffset
		Messages [][3]int64
	}
}

func readExpectation(t *testing.T, name string) expectation {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e expectation
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e expectation) check(t *testing.T, s *Store) {
	t.Helper()
	if s.Wrote() != e.End {
		t.Errorf("the log ends at %d, the original says %d", s.Wrote(), e.End)
	}
	for topic, queues := range e.Queues {
		for id, want := range queues {
			n, _ := strconv.Atoi(id)
			q := s.LookupQueue([]byte(topic), message.QueueID(n))
			if q == nil {
				if want.Max != 0 {
					t.Errorf("%s-%s is missing", topic, id)
				}
				continue
			}
			if q.Min() != want.Min || q.Max() != want.Max || q.Next() != want.Max {
				t.Errorf("%s-%s: min %d, max %d, next %d; the original has %d, %d", topic, id, q.Min(), q.Max(), q.Next(), want.Min, want.Max)
				continue
			}
			for i, u := range unitsOf(t, q) {
				m := want.Messages[i]
				if int64(q.Min())+int64(i) != m[0] || int64(u.Phy) != m[1] || int64(u.Size) != m[2] {
					t.Errorf("%s-%s: unit %d is %+v, the original has %v", topic, id, i, u, m)
				}
				bodyAt(t, s, u)
			}
		}
	}
}

// Directories of the original open with the same queues, and again after this program has closed or lost them.
func TestDirectoriesOfTheOriginalOpen(t *testing.T) {
	for _, name := range []string{"clean-5.5.0", "killed-5.5.0", "clean-4.9.4", "direct-v6"} {
		for _, crash := range []bool{false, true} {
			t.Run(name+"/crash="+strconv.FormatBool(crash), func(t *testing.T) {
				want := readExpectation(t, name)
				root := unpack(t, name, t.TempDir())
				if crash {
					if err := os.WriteFile(filepath.Join(root, abortName), []byte("1"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				set := testSettings(root)
				for round := range 3 {
					s := openTest(t, sysio.OS{}, set)
					r := s.Recovery()
					if round == 0 && r.Clean == (crash || name == "killed-5.5.0") {
						t.Errorf("clean start: %v", r.Clean)
					}
					mustDispatch(t, s, r.RedispatchFrom)
					want.check(t, s)
					if round == 1 {
						s.abandon() // the next round recovers after a crash
					} else {
						closeTest(t, s, true)
					}
				}
				s := openTest(t, sysio.OS{}, set)
				defer s.Close(true)
				q := s.LookupQueue([]byte("FixA"), 0)
				if q == nil {
					return
				}
				m := send(t, s, q, "one more")
				if m.QueueOffset != q.Max() || m.PhyOffset < want.End {
					t.Errorf("the next message got offset %d at %d", m.QueueOffset, m.PhyOffset)
				}
			})
		}
	}
}
