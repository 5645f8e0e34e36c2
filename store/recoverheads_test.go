package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Each byte of a record's head from QUEUEID to BORNTIMESTAMP is damaged, of records in the middle and at both ends of a queue. However the
// directory was left, every other message stands where it did; the record of that head is served where it belongs, or its place is
// kept, the log tells of it once and it is counted. No offset is given out again, now or later.
func TestEveryByteOfAHeadCostsItsRecordAtMost(t *testing.T) {
	for form, leave := range map[string]func(*testing.T, *sysio.FaultFS, settings, *Store) *sysio.FaultFS{
		"clean without state": func(t *testing.T, fsys *sysio.FaultFS, set settings, s *Store) *sysio.FaultFS {
			closeTest(t, s, true)
			forgetState(t, fsys, set)
			return fsys
		},
		"killed": func(t *testing.T, fsys *sysio.FaultFS, set settings, s *Store) *sysio.FaultFS {
			return killed(fsys, s)
		},
		"killed without state": func(t *testing.T, fsys *sysio.FaultFS, set settings, s *Store) *sysio.FaultFS {
			fsys = killed(fsys, s)
			forgetState(t, fsys, set)
			return fsys
		},
		"another boot": func(t *testing.T, fsys *sysio.FaultFS, set settings, s *Store) *sysio.FaultFS {
			fsys = killed(fsys, s)
			anotherBoot(t, fsys, set)
			return fsys
		},
	} {
		for _, hit := range []place{{"T", 0, 0}, {"T", 0, 10}, {"T", 0, 39}, {"U", 0, 5}} {
			for at := int64(12); at < 48; at++ {
				for _, mask := range []byte{0x10, 0x04, 0x01} {
					if testing.Short() && (at+int64(mask))%11 != 0 {
						continue // the race detector makes each some ten times as long
					}
					if hit.topic == "U" && (at >= 28 && at < phyFieldEnd || at == 39 && mask == 0x10) {
						continue // the last record of the log, and nothing that can be stepped over: its end is torn
					}
					t.Run(fmt.Sprintf("%s/%v/byte %d^%#x", form, hit, at, mask), func(t *testing.T) {
						oneByteOfAHead(t, leave, hit, at, mask)
					})
				}
			}
		}
	}
}

func oneByteOfAHead(t *testing.T, leave func(*testing.T, *sysio.FaultFS, settings, *Store) *sysio.FaultFS, hit place, at int64, mask byte) {
	fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
	s := openTest(t, fsys, set)
	want, next := map[place]message.PhyOffset{}, map[place]message.QueueOffset{}
	add := func(topic string, id message.QueueID) {
		m := send(t, s, s.Queue(topic, id), "body")
		want[place{topic, id, m.QueueOffset}] = m.PhyOffset
		next[place{topic, id, 0}] = m.QueueOffset + 1
	}
	for n := range 40 {
		add("T", 0)
		if n%2 == 0 {
			add("T", 1)
		}
		if n%8 == 0 {
			add("U", 0)
		}
	}
	add("U", 0) // the last record of the log
	mustDispatch(t, s, 0)
	fsys = leave(t, fsys, set, s)
	spoiled := want[hit]
	flip(t, fsys, dataPath(set.logDir, 0), int64(spoiled)+at, mask)
	delete(want, hit)
	var before bool
	for round := range 3 {
		var lines bytes.Buffer
		s := openLogged(t, fsys, set, &lines)
		r := s.Recovery()
		mustDispatch(t, s, r.RedispatchFrom)
		got := served(t, s)
		phy, shown := got[hit]
		delete(got, hit)
		servesJust(t, round, got, want)
		told := strings.Count(lines.String(), "damaged part of the log stepped over")
		switch {
		case shown && phy != spoiled:
			t.Errorf("round %d: the place serves %d", round, phy)
		case shown && (told > 0 || r.DamagedCount > 0):
			t.Errorf("round %d: it is served, and called damaged:\n%s", round, lines.String())
		case !shown && (r.DamagedCount != 1 || round == 0 && told != 1):
			t.Errorf("round %d: %d damaged places, %d lines:\n%s", round, r.DamagedCount, told, lines.String())
		case round > 0 && shown != before:
			t.Errorf("round %d: served %v, before %v", round, shown, before)
		}
		before = shown
		switch round {
		case 0:
			fsys = killed(fsys, s)
			continue
		case 2:
			for q, offset := range next {
				if m := send(t, s, s.Queue(q.topic, q.id), "next"); m.QueueOffset != offset {
					t.Errorf("%s-%d: the next message got offset %d, want %d", q.topic, q.id, m.QueueOffset, offset)
				}
			}
		}
		closeTest(t, s, true)
	}
}

func killed(fsys *sysio.FaultFS, s *Store) *sysio.FaultFS {
	next := fsys.Kill()
	s.abandon()
	return next
}

func forgetState(t *testing.T, fsys *sysio.FaultFS, set settings) {
	t.Helper()
	if err := fsys.Remove(filepath.Join(set.root, stateName)); err != nil {
		t.Fatal(err)
	}
}

// anotherBoot makes the state file tell of a machine that went down since, while all that was written is there.
func anotherBoot(t *testing.T, fsys *sysio.FaultFS, set settings) {
	t.Helper()
	st, err := readState(fsys, set.root)
	if err != nil || st == nil {
		t.Fatal(err)
	}
	st.boot = "another boot"
	if err := writeWhole(fsys, filepath.Join(set.root, stateName), string(st.encode())); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, fsys *sysio.FaultFS, path string, at int64, mask byte) {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err = f.ReadAt(b, at); err == nil {
		b[0] ^= mask
		_, err = f.WriteAt(b, at)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A queue whose folder got another name holds the units of another queue: the records are right. The queue is made again from the log, and
// nothing is taken for damaged.
func TestARenamedQueueIsNoDamage(t *testing.T) {
	for _, to := range []string{"T/7", "W/0", "T/1"} {
		for form, leave := range map[string]func(s *Store, root string) error{
			"clean": func(s *Store, root string) error { return s.Close(true) },
			"without state": func(s *Store, root string) error {
				return errors.Join(s.Close(true), os.Remove(filepath.Join(root, stateName)))
			},
			"killed": func(s *Store, root string) error { s.abandon(); return nil },
		} {
			t.Run(to+"/"+form, func(t *testing.T) {
				root := t.TempDir()
				set := testSettings(root)
				s := openTest(t, sysio.OS{}, set)
				for n := range 60 {
					send(t, s, s.Queue("T", 0), "body")
					if n%2 == 0 {
						send(t, s, s.Queue("T", 1), "body")
					}
				}
				mustDispatch(t, s, 0)
				want := served(t, s)
				if err := leave(s, root); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(set.queueDir, filepath.FromSlash(to))
				if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o755), os.Rename(filepath.Join(set.queueDir, "T", "0"), path)); err != nil {
					t.Fatal(err)
				}
				s = openTest(t, sysio.OS{}, set)
				defer s.Close(false)
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				got := served(t, s)
				if form == "killed" { // what no record claims is met by readers
					maps.DeleteFunc(got, func(at place, _ message.PhyOffset) bool {
						return fmt.Sprintf("%s/%d", at.topic, at.id) == to && to != "T/1"
					})
				}
				if !maps.Equal(got, want) {
					t.Errorf("%d messages are served of %d", len(got), len(want))
				}
				if n := s.Recovery().DamagedCount; n != 0 {
					t.Errorf("%d damaged places", n)
				}
				if m := send(t, s, s.Queue("T", 0), "next"); m.QueueOffset != 60 {
					t.Errorf("the next message got offset %d", m.QueueOffset)
				}
			})
		}
	}
}

// The queue offset of a record whose head is damaged is kept over any number of power cuts, in the middle of a start, too, if its unit was
// durable once. No unit names it any more after the first one.
func TestADamagedHeadKeepsItsOffsetOverPowerCuts(t *testing.T) {
	for _, hit := range []message.QueueOffset{5, 39} {
		for _, at := range []int64{15, 20, 39, 93} {
			for ops := range 12 {
				fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
				s := openTest(t, fsys, set)
				var spoiled message.PhyOffset
				for n := range message.QueueOffset(40) {
					if m := send(t, s, s.Queue("T", 0), "body"); n == hit {
						spoiled = m.PhyOffset
					}
					send(t, s, s.Queue("T", 1), "body")
				}
				mustDispatch(t, s, 0)
				closeTest(t, s, false) // all is durable, and it counts as a crash
				flip(t, fsys, dataPath(set.logDir, 0), int64(spoiled)+at, 0x04)
				syncFile(t, fsys, dataPath(set.logDir, 0))
				fsys = fsys.PowerCut(nil)
				fsys.Inject(sysio.Fault{Op: sysio.OpRemove | sysio.OpTruncate | sysio.OpRename | sysio.OpAllocate | sysio.OpContentSync, After: ops})
				if s, err := open(fsys, set, quietLogger(), nowMillis, nil); err == nil {
					s.abandon()
				}
				for round := range 3 {
					fsys = fsys.PowerCut(nil)
					s := openTest(t, fsys, set)
					mustDispatch(t, s, s.Recovery().RedispatchFrom)
					if next := s.Queue("T", 0).Next(); next != 40 || s.Recovery().DamagedCount != 1 {
						t.Errorf("offset %d, byte %d, cut at %d, round %d: the queue goes on at %d, %d damaged places", hit, at, ops, round, next, s.Recovery().DamagedCount)
					}
					s.abandon()
				}
			}
		}
	}
}

func syncFile(t *testing.T, fsys sysio.FS, path string) {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
