package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

func syncFlush(s *settings) { s.syncFlush = true }

func TestFailedSyncIsFinal(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		fsys := sysio.NewFaultFS()
		s := openTest(t, fsys, testSettings("/s", form, syncFlush))
		defer s.Close(false)
		q := s.Queue("T", 0)
		send(t, s, q, "durable")
		durable, err := s.CommitLog().Sync(s.Wrote())
		if err != nil || durable != s.Wrote() || s.Confirmed() != durable {
			t.Fatalf("sync: %d, %v", durable, err)
		}
		send(t, s, q, "lost")
		fsys.Inject(sysio.Fault{Op: sysio.OpSyncRange | sysio.OpDatasync, Path: "000*", Times: 1})
		if upTo, err := s.CommitLog().Sync(s.Wrote()); !errors.Is(err, ErrSyncFailed) || !errors.Is(err, syscall.EIO) || upTo != durable {
			t.Fatalf("failing sync: %d, %v", upTo, err)
		}
		// The fault is used up, but trying again would prove nothing.
		if upTo, err := s.CommitLog().Sync(s.Wrote()); !errors.Is(err, ErrSyncFailed) || upTo != durable {
			t.Errorf("the next sync: %d, %v", upTo, err)
		}
		batch := []Message{newMessage(q, "refused")}
		if s.Append(batch); !errors.Is(batch[0].Err, ErrSyncFailed) {
			t.Errorf("append after a failed sync: %v", batch[0].Err)
		}
		if s.Confirmed() != durable {
			t.Errorf("confirmed moved to %d", s.Confirmed())
		}
		if err := s.Close(true); !errors.Is(err, ErrSyncFailed) {
			t.Errorf("close: %v", err)
		}
		if _, err := fsys.Stat("/s/abort"); err != nil {
			t.Errorf("the abort file is gone although a sync failed: %v", err)
		}
	})
}

// What is appended while a sync is under way is not covered by it.
func TestSlowSyncCoversWhatWasThereBefore(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		fsys := sysio.NewFaultFS()
		s := openTest(t, fsys, testSettings("/s", form, syncFlush))
		defer s.Close(false)
		q := s.Queue("T", 0)
		send(t, s, q, "before")
		before := s.Wrote()
		gate := sysio.NewGate()
		fsys.Inject(sysio.Fault{Op: sysio.OpSyncRange | sysio.OpDatasync, Path: "000*", Times: 1, Gate: gate})
		done := make(chan message.PhyOffset)
		go func() {
			upTo, _ := s.CommitLog().Sync(before)
			done <- upTo
		}()
		gate.Await(1)
		send(t, s, q, "meanwhile")
		if s.Confirmed() != 0 {
			t.Errorf("confirmed %d before the sync returned", s.Confirmed())
		}
		gate.Open()
		if upTo := <-done; upTo != before || s.Confirmed() != before {
			t.Errorf("the sync covers %d (confirmed %d), it began at %d", upTo, s.Confirmed(), before)
		}
	})
}

// A sync writes the pages of the new records and no others: the touched window ahead stays as it is.
func TestSyncWritesExactlyTheNewPages(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s", syncFlush))
	defer s.Close(false)
	q := s.Queue("T", 0)
	var events []string
	for range 40 {
		send(t, s, q, strings.Repeat("x", 3000))
		from, to := s.Flushed(), s.Wrote()
		events = events[:0]
		fsys.Observe(func(e sysio.Event) {
			if e.Op&(sysio.OpContentSync) != 0 && !e.Done {
				events = append(events, fmt.Sprintf("%v %d+%d", e.Op, e.Off, e.N))
			}
		})
		if _, err := s.CommitLog().Sync(to); err != nil {
			t.Fatal(err)
		}
		fsys.Observe(nil)
		var want []string
		for at := from; at < to; {
			stop := min(to, (at/testSegment+1)*testSegment)
			want = append(want, fmt.Sprintf("msync %d+%d", at%testSegment, stop-at))
			at = stop
		}
		if fmt.Sprint(events) != fmt.Sprint(want) {
			t.Errorf("sync of [%d, %d): %v, want %v", from, to, events, want)
		}
	}
}

// A full disk refuses sends and heals by itself; no page without blocks is ever stored into (that would be SIGBUS).
func TestFullDiskRefusesAndHeals(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		fsys := sysio.NewFaultFS()
		fsys.SetCapacity(1<<20, 0)
		s := openTest(t, fsys, testSettings("/s", form))
		defer s.Close(false)
		q := s.Queue("T", 0)
		var refused error
		sent := 0
		for refused == nil && sent < 10_000 {
			batch := []Message{newMessage(q, strings.Repeat("x", 1000))}
			s.Append(batch)
			if refused = batch[0].Err; refused == nil {
				sent++
			}
		}
		var full *DiskFullError
		if !errors.Is(refused, ErrDiskFull) || !errors.As(refused, &full) || full.Path == "" || full.Threshold != 90 || full.UsedPct > 100 {
			t.Fatalf("after %d sends: %v", sent, refused)
		}
		if sent < 500 {
			t.Errorf("only %d KiB fitted into a disk of 1 MiB", sent)
		}
		usage, _ := fsys.DiskUsage("/s")
		if usage.UsedPercent() > 90 {
			t.Errorf("allocation ahead lifted the disk to %d %%", usage.UsedPercent())
		}
		if err := fsys.CheckSpace(); err != nil {
			t.Error(err)
		}
		if int(q.Next()) != sent {
			t.Errorf("next offset %d after %d sends", q.Next(), sent)
		}
		mustDispatch(t, s, 0)
		for _, u := range unitsOf(t, q) {
			bodyAt(t, s, u)
		}
		fsys.SetCapacity(8<<20, 0)
		var healed message.QueueOffset
		await(func() bool {
			s.tick()
			s.log.alloc.poke() // nobody but its goroutine may do its work
			batch := []Message{newMessage(q, "again")}
			s.Append(batch)
			healed = batch[0].QueueOffset
			return batch[0].Err == nil
		})
		if int(healed) != sent {
			t.Errorf("offset %d after %d sends", healed, sent)
		}
	})
}

func TestDiskRatioRefusesAndHeals(t *testing.T) {
	fsys := sysio.NewFaultFS()
	fsys.SetCapacity(100<<20, 0)
	s := openTest(t, fsys, testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	send(t, s, q, "a")
	try := func() error {
		batch := []Message{newMessage(q, "x")}
		s.Append(batch)
		return batch[0].Err
	}
	for _, step := range []struct {
		foreignMiB int64
		refused    bool
	}{{70, false}, {80, false}, {92, true}, {87, true}, {70, false}, {95, true}, {10, false}} {
		fsys.SetCapacity(100<<20, step.foreignMiB<<20)
		s.tick()
		err := try()
		if errors.Is(err, ErrDiskFull) != step.refused {
			u, _ := fsys.DiskUsage("/s")
			t.Errorf("foreign %d MiB, %d %% used: %v", step.foreignMiB, u.UsedPercent(), err)
		}
		if err != nil && strings.Contains(err.Error(), "-") {
			t.Errorf("odd text: %v", err)
		}
	}
	remove := fsys.Inject(sysio.Fault{Op: sysio.OpUsage})
	s.tick()
	if err := try(); err != nil {
		t.Errorf("a disk that does not tell its space: %v", err)
	}
	remove()
}

// With writeWithoutMmap a failed write takes back positions and offsets.
func TestFailedDirectWriteIsTakenBack(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s", func(s *settings) { s.direct = true }))
	defer s.Close(false)
	q, p := s.Queue("T", 0), s.Queue("U", 0)
	send(t, s, q, "a")
	end := s.Wrote()
	for _, fault := range []sysio.Fault{{Op: sysio.OpWrite, Path: "000*", Times: 1}, {Op: sysio.OpWrite, Path: "000*", Times: 1, Err: syscall.ENOSPC, Short: 50}} {
		fsys.Inject(fault)
		batch := []Message{newMessage(q, "b"), newMessage(p, "c"), newMessage(q, "d")}
		batch[2].Joined = true
		if got := s.Append(batch); got != end || s.Wrote() != end {
			t.Fatalf("wrote %d after a failed write, was %d", s.Wrote(), end)
		}
		for i, m := range batch {
			if m.Err == nil {
				t.Errorf("element %d was accepted", i)
			}
		}
		if q.Next() != 1 || p.Next() != 0 {
			t.Errorf("next offsets %d and %d", q.Next(), p.Next())
		}
	}
	m := send(t, s, q, "e")
	if m.PhyOffset != end || m.QueueOffset != 1 {
		t.Errorf("the next record is at %d with offset %d", m.PhyOffset, m.QueueOffset)
	}
	mustDispatch(t, s, 0)
	if got := bodyAt(t, s, unitsOf(t, q)[1]); got != "e" {
		t.Errorf("body %q", got)
	}
}

// What a failed write left in the log does not come to light behind a later record that ends where one of the refused ones begins.
func TestRefusedRecordsDoNotFollowALaterOne(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", byWrites)
	s := openTest(t, fsys, set)
	q, p := s.Queue("T", 0), s.Queue("U", 0)
	send(t, s, q, "kept")
	end := s.Wrote()
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "000*", Times: 1, Short: 1000})
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "000*", Times: 2}) // what cannot be cleared is not written over either
	batch := []Message{newMessage(q, "1"), newMessage(q, "2"), newMessage(q, "3")}
	if s.Append(batch); batch[0].Err == nil || batch[2].Err == nil {
		t.Fatal("the write did not fail")
	}
	again := []Message{newMessage(p, "x")}
	if s.Append(again); !errors.Is(again[0].Err, ErrWriteFailed) || s.Wrote() != end || p.Next() != 0 {
		t.Errorf("append: %v, the log ends at %d, next offset %d", again[0].Err, s.Wrote(), p.Next())
	}
	if m := send(t, s, p, "4"); m.PhyOffset != end || int(m.PhyOffset)+m.Size() != int(end)+batch[0].Size() {
		t.Fatalf("the next record lies at %d+%d", m.PhyOffset, m.Size())
	}
	after := fsys.Kill()
	s.abandon()
	s = openTest(t, after, set)
	defer closeTest(t, s, true)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	expectBodies(t, s, "T", "kept")
	expectBodies(t, s, "U", "4")
	if r := s.Recovery(); r.End != end+message.PhyOffset(batch[0].Size()) || r.Cut != 0 {
		t.Errorf("the log ends at %d, %d bytes were cut", r.End, r.Cut)
	}
}

// Nor does it come back, even if it was durable, to a topic that was deleted meanwhile.
func TestRefusedRecordsGoWithTheirTopic(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", byWrites)
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	sendAll(t, s, "T", "m", 3, true)
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "000*", Times: 1, Short: 1000})
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "000*", Times: 2})
	batch := []Message{newMessage(q, "1"), newMessage(q, "2"), newMessage(q, "3")}
	if s.Append(batch); batch[0].Err == nil {
		t.Fatal("the write did not fail")
	}
	if _, err := s.log.Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteTopic("T"); !errors.Is(err, ErrWriteFailed) {
		t.Errorf("delete while nothing can be cleared: %v", err)
	}
	if err := s.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	after := fsys.PowerCut(nil)
	s.abandon()
	s = openTest(t, after, set)
	defer closeTest(t, s, true)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	expectBodies(t, s, "T")
}

// What was synced under SYNC_FLUSH survives a power cut at the same place with the same offset; nothing torn is served.
func TestAckedSurvivesPowerCut(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		for seed := range uint64(60) {
			if !powerCutRound(t, seed, form) {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

func powerCutRound(t *testing.T, seed uint64, form func(*settings)) bool {
	r := rand.New(rand.NewPCG(seed, 7))
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", form, syncFlush, func(s *settings) { s.segmentBytes = 16 << 10; s.queueFileBytes = 10 * unitBytes })
	type sent struct {
		queue message.QueueID
		msg   Message
		body  string
	}
	var acked []sent
	for life := range 3 {
		s := openTest(t, fsys, set)
		mustDispatch(t, s, s.Recovery().RedispatchFrom)
		for _, a := range acked {
			q := s.Queue("T", a.queue)
			var one [1]Unit
			if n, err := q.ReadUnits(one[:], a.msg.QueueOffset); err != nil || n != 1 || one[0].Phy != a.msg.PhyOffset || bodyAt(t, s, one[0]) != a.body {
				t.Errorf("life %d: queue %d offset %d at %d (%d bytes) is not there: %d units %+v, %v",
					life, a.queue, a.msg.QueueOffset, a.msg.PhyOffset, len(a.body), n, one, err)
				return false
			}
		}
		for id := range message.QueueID(3) {
			q := s.Queue("T", id)
			if q.Next() != q.Max() {
				t.Errorf("queue %d: next %d, max %d", id, q.Next(), q.Max())
				return false
			}
			for _, u := range unitsOf(t, q) {
				if !u.IsPreBlank() {
					bodyAt(t, s, u)
				}
			}
		}
		at := s.Confirmed()
		var pending []sent
		for range 5 + r.IntN(60) {
			switch r.IntN(10) {
			case 0:
				upTo, err := s.CommitLog().Sync(s.Wrote())
				if err != nil {
					t.Fatal(err)
				}
				for len(pending) > 0 && pending[0].msg.PhyOffset+message.PhyOffset(pending[0].msg.Size()) <= upTo {
					acked, pending = append(acked, pending[0]), pending[1:]
				}
			case 1:
				end := s.Confirmed()
				mustDispatch(t, s, at)
				at = end
			case 2:
				if at < s.Confirmed() || at == 0 {
					break
				}
				last := newestRecord(s)
				if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset)); err != nil {
					t.Fatal(err)
				}
			default:
				id := message.QueueID(r.IntN(3))
				body := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(3000))
				pending = append(pending, sent{id, send(t, s, s.Queue("T", id), body), body})
			}
		}
		next := fsys.PowerCut(r)
		s.abandon()
		fsys = next
	}
	return true
}

// newestRecord is the last confirmed record, found through the queues.
func newestRecord(s *Store) message.View {
	var v message.View
	newest := Unit{Phy: -1}
	s.Queues(func(q *Queue) bool {
		var one [1]Unit
		if q.Max() > q.Min() {
			if n, err := q.ReadUnits(one[:], q.Max()-1); err == nil && n == 1 && one[0].Phy > newest.Phy {
				newest = one[0]
			}
		}
		return true
	})
	if newest.Phy >= 0 {
		buf := make([]byte, newest.Size)
		if _, err := s.ReadAt(buf, newest.Phy); err == nil {
			_ = message.ParseView(buf, &v)
		}
	}
	return v
}
