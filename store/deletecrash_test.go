package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Deletions and crashes together: what the lives of broker/crash found first, each by itself.

// In ASYNC_FLUSH a power cut takes the end of the log back behind the deletion of a topic. What is appended there then
// belongs to the new topic.
func TestRecordsBelowTheMarkOfADeletedTopicAfterAPowerCut(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	defer func() { s.abandon() }()
	sendAll(t, s, "T", "old", 3, true)
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	sendAll(t, s, "T", "unsynced", 5, true)
	if err := s.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	fsys2 := fsys.PowerCut(nil)
	s.abandon()
	s = openTest(t, fsys2, set)
	at := s.Recovery().RedispatchFrom
	sendAll(t, s, "T", "new", 3, false)
	mustDispatch(t, s, at)
	expectBodies(t, s, "T", "new0", "new1", "new2")
	fsys3 := fsys2.Kill()
	s.abandon()
	s = openTest(t, fsys3, set)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	expectBodies(t, s, "T", "new0", "new1", "new2")
}

// A deletion that could not be remembered has not happened, for all that a start knows: what was appended before it and not
// dispatched yet still gets into its queue.
func TestAFailedDeletionTakesNoMessage(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	defer func() { s.abandon() }()
	sendAll(t, s, "T", "seen", 2, true)
	at := s.Wrote()
	sendAll(t, s, "T", "late", 2, false)
	heal := fsys.Inject(sysio.Fault{Op: sysio.OpOpen, Path: deletedName + "*"})
	if err := s.DeleteTopic("T"); err == nil {
		t.Fatal("no error")
	}
	heal()
	mustDispatch(t, s, at)
	closeTest(t, s, true)
	s = openTest(t, fsys, set)
	expectBodies(t, s, "T", "seen0", "seen1", "late0", "late1")
}

// A kill in the middle of a deletion leaves folders; the start that removes them can be followed by a clean stop.
func TestCleanStopAfterAnInterruptedDeletion(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	defer func() { s.abandon() }()
	for id := range message.QueueID(2) {
		send(t, s, s.Queue("T", id), "old")
	}
	mustDispatch(t, s, 0)
	heal := fsys.Inject(sysio.Fault{Op: sysio.OpRemove, Path: "/s/consumequeue/T/*"})
	if err := s.DeleteTopic("T"); err == nil {
		t.Fatal("no error")
	}
	heal()
	next := fsys.Kill()
	s.abandon()
	s = openTest(t, next, set)
	if err := s.Close(true); err != nil {
		t.Error(err)
	}
	expectNoDir(t, next, "/s/consumequeue/T/0")
}

// A queue whose messages have all expired keeps its offsets over a restart, also when a topic of its name was deleted once.
func TestExpiredQueueOfATopicThatWasDeletedOnce(t *testing.T) {
	a := newAged(t, byWrites)
	q := a.s.Queue("T", 0)
	send(t, a.s, q, "old")
	mustDispatch(t, a.s, 0)
	if err := a.s.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	at := a.s.Wrote()
	for range 5 {
		send(t, a.s, a.s.Queue("T", 0), "new")
	}
	for a.s.Wrote() < 2*testSegment {
		send(t, a.s, a.s.Queue("Other", 0), strings.Repeat("x", 1000))
	}
	if _, err := a.s.CommitLog().Sync(a.s.Wrote()); err != nil {
		t.Fatal(err)
	}
	mustDispatch(t, a.s, at)
	a.s.DeleteExpiredLog()
	a.pass(100 * time.Hour)
	if q := a.s.Queue("T", 0); q.Min() != 5 || q.Max() != 5 {
		t.Fatalf("the test does not do what it says: [%d, %d)", q.Min(), q.Max())
	}
	for _, clean := range []bool{true, false} {
		if clean {
			closeTest(t, a.s, true)
		} else {
			next := a.fsys.Kill()
			a.s.abandon()
			a.fsys = next
		}
		a.open()
		if q := a.s.Queue("T", 0); q.Next() != 5 {
			t.Errorf("after a clean stop %v: the next offset is %d", clean, q.Next())
		}
	}
}

// No log file goes before the queue entries of its records are in the queues and durable: a crash would leave queues that give offsets
// out once more.
func TestRetentionWaitsForTheQueues(t *testing.T) {
	for _, reason := range []string{"not dispatched", "not durable", "cannot be made durable"} {
		t.Run(reason, func(t *testing.T) {
			a := newAged(t, byWrites)
			defer func() { a.s.abandon() }()
			low := message.PhyOffset(0)
			a.s.DispatchedTo(func() message.PhyOffset { return low })
			for i := range 3 {
				send(t, a.s, a.s.Queue("T", 0), fmt.Sprint(i))
			}
			for a.s.Wrote() < 2*testSegment {
				send(t, a.s, a.s.Queue("Other", 0), strings.Repeat("x", 1000))
			}
			if _, err := a.s.CommitLog().Sync(a.s.Wrote()); err != nil {
				t.Fatal(err)
			}
			if reason != "not dispatched" {
				mustDispatch(t, a.s, 0)
				low = a.s.Wrote()
			}
			if reason == "cannot be made durable" {
				a.fsys.Inject(sysio.Fault{Op: sysio.OpContentSync, Path: "/s/consumequeue/*/*/*", Times: 1})
			}
			for range 2 { // once more: a sync after one that failed proves nothing
				a.s.DeleteExpiredLog()
				a.pass(100 * time.Hour)
			}
			if deleted := a.s.MinPhy() > 0; deleted != (reason == "not durable") {
				t.Fatalf("the log begins at %d", a.s.MinPhy())
			}
			next := a.fsys.PowerCut(nil)
			a.s.abandon()
			a.fsys = next
			a.open()
			mustDispatch(t, a.s, a.s.Recovery().RedispatchFrom)
			if q := a.s.Queue("T", 0); q.Next() != 3 {
				t.Errorf("the next offset is %d", q.Next())
			}
		})
	}
}

// A queue that could not be trimmed when files went is trimmed by the next pass, or by a clean stop, whose minima the next start takes as
// they are.
func TestMinimumThatCouldNotBeCorrected(t *testing.T) {
	for _, later := range []string{"pass", "clean stop"} {
		t.Run(later, func(t *testing.T) {
			a := newAged(t, byWrites, func(s *settings) { s.queueFileBytes = 7 * unitBytes })
			a.fill(3)
			for _, q := range a.s.queues.ofTopic("T") { // or the memory ring answers instead of the file
				q.ringMu.Lock()
				q.ring.drop(&a.s.rings)
				q.ringMu.Unlock()
			}
			heal := a.fsys.Inject(sysio.Fault{Op: sysio.OpRead, Path: "/s/consumequeue/*/*/*"})
			a.s.DeleteExpiredLog()
			a.pass(100 * time.Hour)
			heal()
			begin := a.s.MinPhy()
			if q := a.s.Queue("T", 0); begin == 0 || q.Min() != 0 {
				t.Fatalf("the test does not do what it says: the log begins at %d, the queue at %d", begin, q.Min())
			}
			if later == "pass" {
				a.pass(0)
			} else {
				closeTest(t, a.s, true)
				a.open()
			}
			q := a.s.Queue("T", 0)
			if units := unitsOf(t, q); len(units) == 0 || units[0].Phy < begin {
				t.Errorf("the queue begins with %+v, the log at %d", units[:min(1, len(units))], begin)
			}
		})
	}
}

// A file ahead of need that could neither be used nor taken back is made anew, and a stop that cannot delete it leaves those in front of
// it: the next start would refuse a gap.
func TestFileAheadThatCannotBeTakenBack(t *testing.T) {
	for _, removable := range []bool{true, false} {
		t.Run(fmt.Sprint(removable), func(t *testing.T) {
			fsys := sysio.NewFaultFS()
			set := testSettings("/s")
			s := openTest(t, fsys, set)
			defer func() { s.abandon() }()
			s.log.alloc.stop()
			orphan := s.log.files.Load().last().end()
			path := "/s/commitlog/" + fileName(int64(orphan))
			unmap := fsys.Inject(sysio.Fault{Op: sysio.OpMap | sysio.OpRemove, Path: path})
			if _, err := s.log.alloc.create(orphan, true); err == nil {
				t.Fatal("no error")
			}
			unmap()
			if removable {
				if f, err := s.log.alloc.create(orphan, true); err != nil || f.start != orphan {
					t.Fatalf("made anew: %v", err)
				}
			} else {
				defer fsys.Inject(sysio.Fault{Op: sysio.OpRemove, Path: path})()
				if err := s.log.alloc.dropUnused(); err == nil {
					t.Fatal("no error")
				}
			}
			next := fsys.Kill()
			s.log.alloc = newAllocator(s.log) // for abandon, which stops it once more
			go s.log.alloc.run()
			s.abandon()
			s = openTest(t, next, set)
		})
	}
}
