package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"peregrine/internal/sysio"
)

// sendAll appends count messages to a queue; dispatched ones are visible.
func sendAll(t *testing.T, s *Store, topic, prefix string, count int, dispatched bool) {
	t.Helper()
	at := s.Wrote()
	for i := range count {
		send(t, s, s.Queue(topic, 0), fmt.Sprint(prefix, i))
	}
	if dispatched {
		mustDispatch(t, s, at)
	}
}

func expectBodies(t *testing.T, s *Store, topic string, want ...string) {
	t.Helper()
	q := s.Queue(topic, 0)
	var got []string
	for _, u := range unitsOf(t, q) {
		if !u.IsPreBlank() {
			got = append(got, bodyAt(t, s, u))
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") || q.Min() != 0 || int(q.Max()) != len(want) || int(q.Next()) != len(want) {
		t.Errorf("%s: %v in [%d, %d), next %d; want %v", topic, got, q.Min(), q.Max(), q.Next(), want)
	}
}

func expectNoDir(t *testing.T, fsys sysio.FS, path string) {
	t.Helper()
	if _, err := fsys.Stat(path); err == nil {
		t.Errorf("%s is there", path)
	}
}

// A deleted topic stays deleted, whatever happens next, and a new one of its name begins at 0 (C15).
func TestDeletedTopicDoesNotComeBack(t *testing.T) {
	ends := map[string]func(t *testing.T, fsys *sysio.FaultFS, s *Store) *sysio.FaultFS{
		"running": nil,
		"clean": func(t *testing.T, fsys *sysio.FaultFS, s *Store) *sysio.FaultFS {
			mustDispatch(t, s, 0) // what there is already is passed over
			closeTest(t, s, true)
			return fsys
		},
		"kill": func(_ *testing.T, fsys *sysio.FaultFS, s *Store) *sysio.FaultFS {
			next := fsys.Kill()
			s.abandon()
			return next
		},
		"power cut": func(t *testing.T, fsys *sysio.FaultFS, s *Store) *sysio.FaultFS {
			if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
				t.Fatal(err)
			}
			next := fsys.PowerCut(rand.New(rand.NewPCG(7, 7)))
			s.abandon()
			return next
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			fsys := sysio.NewFaultFS()
			set := testSettings("/s", func(s *settings) { s.queueFileBytes = 7 * unitBytes })
			s := openTest(t, fsys, set)
			defer func() { s.abandon() }()
			sendAll(t, s, "T", "old", 30, true)
			sendAll(t, s, "Other", "other", 3, true)
			sendAll(t, s, "T", "undispatched", 5, false)
			dispatched := s.Wrote()
			held := s.Queue("T", 0)
			if err := s.DeleteTopic("T"); err != nil {
				t.Fatal(err)
			}
			if !held.Gone() || s.LookupQueue([]byte("T"), 0) != nil {
				t.Error("the queue is there")
			}
			expectNoDir(t, fsys, "/s/consumequeue/T")
			batch := []Message{newMessage(held, "late"), newMessage(s.Queue("Other", 0), "other3")}
			if s.Append(batch); !errors.Is(batch[0].Err, ErrQueueGone) || batch[1].Err != nil {
				t.Errorf("append to a queue that is gone: %v, beside it: %v", batch[0].Err, batch[1].Err)
			}
			if err := held.AppendUnits(30, []Unit{{Phy: 1, Size: 1}}); err != nil {
				t.Errorf("late units: %v", err)
			}
			expectNoDir(t, fsys, "/s/consumequeue/T")
			if err := s.FlushQueues(0); err != nil {
				t.Error(err)
			}
			restart := func() {
				if end != nil {
					fsys = end(t, fsys, s)
					s = openTest(t, fsys, set)
					dispatched = s.Recovery().RedispatchFrom
				}
				mustDispatch(t, s, dispatched)
				dispatched = s.Wrote()
			}
			restart()
			expectBodies(t, s, "T")
			expectNoDir(t, fsys, "/s/consumequeue/T")
			expectBodies(t, s, "Other", "other0", "other1", "other2", "other3")
			sendAll(t, s, "T", "new", 3, false)
			restart()
			expectBodies(t, s, "T", "new0", "new1", "new2")
			if err := s.DeleteTopic("T"); err != nil {
				t.Fatal(err)
			}
			sendAll(t, s, "T", "newest", 2, false)
			restart()
			expectBodies(t, s, "T", "newest0", "newest1")
			expectBodies(t, s, "Other", "other0", "other1", "other2", "other3")
		})
	}
}

// A kill in the middle of a deletion: the next start ends it. A failure leaves a topic that takes nothing until the deletion
// succeeded.
func TestInterruptedTopicDeletion(t *testing.T) {
	for _, path := range []string{deletedName + "*", fileName(0), "0", "T"} {
		t.Run(path, func(t *testing.T) {
			fsys := sysio.NewFaultFS()
			set := testSettings("/s")
			s := openTest(t, fsys, set)
			defer func() { s.abandon() }()
			sendAll(t, s, "T", "old", 3, true)
			heal := fsys.Inject(sysio.Fault{Op: sysio.OpRemove | sysio.OpRename | sysio.OpOpen, Path: path})
			err := s.DeleteTopic("T")
			if path != "T" && err == nil {
				t.Fatal("no error")
			}
			if path == "T" { // an empty folder does no harm
				heal()
				expectBodies(t, s, "T")
				return
			}
			batch := []Message{newMessage(s.Queue("T", 0), "early")}
			if s.Append(batch); !errors.Is(batch[0].Err, ErrQueueGone) {
				t.Errorf("append: %v", batch[0].Err)
			}
			remembered := path != deletedName+"*"
			killed := fsys.Kill()
			killed.Inject(sysio.Fault{Op: sysio.OpUsage, Times: 1})
			second := openTest(t, killed, set)
			mustDispatch(t, second, second.Recovery().RedispatchFrom)
			if remembered {
				expectBodies(t, second, "T")
				expectNoDir(t, killed, "/s/consumequeue/T/0")
			} else {
				expectBodies(t, second, "T", "old0", "old1", "old2")
			}
			second.abandon()
			heal()
			if err := s.DeleteTopic("T"); err != nil {
				t.Fatal(err)
			}
			sendAll(t, s, "T", "new", 1, true)
			expectBodies(t, s, "T", "new0")
		})
	}
}

// What was deleted is forgotten once the log begins behind it.
func TestListOfDeletedTopics(t *testing.T) {
	a := newAged(t)
	sendAll(t, a.s, "Gone", "x", 1, true)
	if err := a.s.DeleteTopic("Gone"); err != nil {
		t.Fatal(err)
	}
	a.fill(4)
	a.pass(88 * time.Hour)
	sendAll(t, a.s, "Gone2", "x", 1, true)
	if err := a.s.DeleteTopic("Gone2"); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("%d,%d Gone2\n", a.s.Wrote(), a.s.LastStoreTime())
	for _, name := range []string{deletedName, deletedCopy} {
		if data, err := sysio.ReadFile(a.fsys, "/s/"+name); err != nil || string(data) != deletedSum([]byte(line))+"\n"+line {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// Code 306: queues of which everything has left the log begin anew.
func TestCleanExpiredQueues(t *testing.T) {
	a := newAged(t)
	sendAll(t, a.s, "Old", "x", 3, true)
	sendAll(t, a.s, "Kept", "x", 3, true)
	sendAll(t, a.s, "Pending", "x", 3, true)
	a.s.Queue("Never", 0)
	a.fill(4)
	a.pass(88 * time.Hour)
	sendAll(t, a.s, "Pending", "y", 1, false)
	keep := func(topic string) bool { return topic == "Kept" }
	if n, err := a.s.CleanExpiredQueues(keep); n != 1 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	expectNoDir(t, a.fsys, "/s/consumequeue/Old")
	expectBodies(t, a.s, "Old")
	if q := a.s.Queue("Kept", 0); q.Next() != 3 || q.Min() != 3 {
		t.Errorf("kept: [%d, %d)", q.Min(), q.Next())
	}
	if got := strings.Join(a.s.Topics(), " "); got != "Kept Never Old Pending T" {
		t.Errorf("topics: %s", got)
	}
	sendAll(t, a.s, "Old", "z", 1, true)
	expectBodies(t, a.s, "Old", "z0")
}
