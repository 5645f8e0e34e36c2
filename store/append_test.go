package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// forms runs a test with the mapped and with the direct append.
func forms(t *testing.T, test func(t *testing.T, form func(*settings))) {
	t.Run("mapped", func(t *testing.T) { test(t, func(*settings) {}) })
	t.Run("direct", func(t *testing.T) { test(t, func(s *settings) { s.direct = true }) })
}

// The bytes are those of the original (store.md 2.12: topic T, queue 3, flag 7, body hello, at 1024 with queue offset 42).
func TestRecordBytesAreTheOriginals(t *testing.T) {
	const golden = "00000073DAA320A73610A6860000000300000007000000000000002A0000000000000400000000000000018BCFE568000A000001000004D2" +
		"0000018BCFE568010A00000200002A9F0000000000000000000000000000000568656C6C6F01540012544147530154616741024B455953016B3102"
	want, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	forms(t, func(t *testing.T, form func(*settings)) {
		clock := func() message.Millis { return 1700000000001 }
		s, err := open(sysio.NewFaultFS(), testSettings("/s", form), quietLogger(), clock, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(false)
		other, q := s.Queue("other", 0), s.Queue("T", 3)
		for q.Next() < 42 {
			send(t, s, q, "")
		}
		filler := newMessage(other, "")
		send(t, s, other, strings.Repeat("x", int(1024*8-int(s.Wrote())-filler.Size())))
		if s.Wrote() != 8192 {
			t.Fatalf("filled up to %d", s.Wrote())
		}
		batch := []Message{{Queue: q, Record: message.Record{
			Topic: []byte("T"), QueueID: 3, Flag: 7, Body: []byte("hello"), BodyCRC: message.BodyCRC([]byte("hello")),
			Properties: []byte("TAGS\x01TagA\x02"), PropertiesSuffix: []byte("KEYS\x01k1\x02"), BornTimestamp: 1700000000000,
			BornHost:  message.HostOf(netip.MustParseAddrPort("10.0.0.1:1234")),
			StoreHost: message.HostOf(netip.MustParseAddrPort("10.0.0.2:10911")),
		}}}
		s.Append(batch)
		if batch[0].Err != nil || batch[0].QueueOffset != 42 || batch[0].PhyOffset != 8192 || batch[0].StoreTimestamp != 1700000000001 {
			t.Fatalf("appended %+v", batch[0])
		}
		got := make([]byte, len(want))
		if _, err := s.ReadAt(got, 8192); err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint64(want[28:], 8192) // the vector was made for position 1024
		if string(got) != string(want) {
			t.Errorf("got  %X\nwant %X", got, want)
		}
		if slice := s.Slice(8192, len(want)); string(slice) != string(want) {
			t.Errorf("the mapping shows %X", slice)
		}
	})
}

// A record of length L fits if L+8 bytes are free; else the file gets an end mark and the record starts the next file.
func TestEndOfFileRule(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		for spare := range 20 {
			s := openTest(t, sysio.NewFaultFS(), testSettings("/s", form))
			q := s.Queue("T", 0)
			empty := newMessage(q, "")
			// Leave room for one small record and spare bytes.
			send(t, s, q, strings.Repeat("x", testSegment-2*empty.Size()-spare))
			at := s.Wrote()
			m := send(t, s, q, "")
			if fits := spare >= blankBytes; fits != (m.PhyOffset == at) || (!fits && m.PhyOffset != testSegment) {
				t.Fatalf("%d bytes to spare: the record is at %d, the one before ended at %d", spare, m.PhyOffset, at)
			}
			if m.PhyOffset == testSegment {
				mark := s.Slice(at, blankBytes)
				if left := testSegment - int(at); binary.BigEndian.Uint32(mark) != uint32(left) || binary.BigEndian.Uint32(mark[4:]) != 0xCBD43194 {
					t.Errorf("end mark % X, %d bytes were left", mark, left)
				}
			}
			s.Close(false)
		}
	})
}

func TestJoinedRecordsStayTogether(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		s := openTest(t, sysio.NewFaultFS(), testSettings("/s", form))
		defer s.Close(false)
		q, other := s.Queue("T", 0), s.Queue("U", 0)
		send(t, s, q, strings.Repeat("x", testSegment-2000))
		body := strings.Repeat("y", 400)
		batch := []Message{newMessage(q, "first"), newMessage(q, body), newMessage(q, body), newMessage(q, body), newMessage(q, body), newMessage(other, "last")}
		for i := 2; i < 5; i++ {
			batch[i].Joined = true
		}
		end := s.Append(batch)
		if batch[0].PhyOffset >= testSegment {
			t.Errorf("the first record is at %d: it fits the first file", batch[0].PhyOffset)
		}
		next := message.PhyOffset(testSegment)
		for i := 1; i < 6; i++ {
			if batch[i].Err != nil || batch[i].PhyOffset != next {
				t.Errorf("record %d is at %d (%v), want %d", i, batch[i].PhyOffset, batch[i].Err, next)
			}
			next += message.PhyOffset(batch[i].Size())
		}
		if end != next || s.Wrote() != next || q.Next() != 6 || other.Next() != 1 {
			t.Errorf("end %d, wrote %d, want %d; next %d, %d", end, s.Wrote(), next, q.Next(), other.Next())
		}
	})
}

func TestWhatIsRefusedLeavesNoTrace(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		s := openTest(t, sysio.NewFaultFS(), testSettings("/s", form, func(s *settings) { s.recordBytesMax = 10_000 }))
		defer s.Close(false)
		q := s.Queue("T", 0)
		bad := s.Queue("a/b", 0)
		part := strings.Repeat("p", 9000)
		batch := []Message{
			newMessage(q, "good"),
			newMessage(q, strings.Repeat("x", 10_000)), // above the limit
			newMessage(q, part), newMessage(q, part), newMessage(q, part), newMessage(q, part), newMessage(q, part), newMessage(q, part), newMessage(q, part), newMessage(q, part),
			newMessage(bad, "x"),
			{Record: newMessage(q, "x").Record},
			newMessage(q, "good too"),
			newMessage(q, "head of a run"), newMessage(q, strings.Repeat("x", 10_000)),
		}
		for i := 3; i < 10; i++ {
			batch[i].Joined = true // a run larger than a file
		}
		batch[14].Joined = true
		batch[12].Properties = nil
		tooMany := newMessage(q, "")
		tooMany.PropertiesSuffix = make([]byte, 32767)
		batch = append(batch, tooMany)
		s.Append(batch)
		want := map[int]error{1: ErrTooLarge, 10: ErrBadTopic, 11: ErrNoQueue, 13: ErrTooLarge, 14: ErrTooLarge, 15: ErrProperties}
		for i := 2; i < 10; i++ {
			want[i] = ErrTooLarge
		}
		for i, m := range batch {
			if !errors.Is(m.Err, want[i]) || (want[i] == nil) != (m.Err == nil) {
				t.Errorf("element %d: %v, want %v", i, m.Err, want[i])
			}
		}
		if q.Next() != 2 || bad.Next() != 0 || batch[12].QueueOffset != 1 {
			t.Errorf("next %d, %d; the second good one has offset %d", q.Next(), bad.Next(), batch[12].QueueOffset)
		}
		if want := message.PhyOffset(batch[0].Size() + batch[12].Size()); s.Wrote() != want {
			t.Errorf("wrote %d, want %d", s.Wrote(), want)
		}
	})
}

// Raw half messages and rolled-back ones have queue offset 0 and take none.
func TestTransactionTypesTakeNoOffset(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	send(t, s, q, "a")
	for _, flag := range []int32{message.SysFlagTransactionPrepared, message.SysFlagTransactionRollback} {
		batch := []Message{newMessage(q, "x")}
		batch[0].SysFlag = flag
		s.Append(batch)
		if batch[0].Err != nil || batch[0].QueueOffset != 0 || q.Next() != 1 {
			t.Errorf("flag %d: offset %d, next %d, %v", flag, batch[0].QueueOffset, q.Next(), batch[0].Err)
		}
	}
	batch := []Message{newMessage(q, "x")}
	batch[0].SysFlag = message.SysFlagTransactionCommit
	if s.Append(batch); batch[0].QueueOffset != 1 {
		t.Errorf("a committed one got %d", batch[0].QueueOffset)
	}
}

func TestStoreTimesNeverGoBack(t *testing.T) {
	fsys := sysio.NewFaultFS()
	times := []message.Millis{1000, 1005, 900, 1, 1006}
	i := 0
	clock := func() message.Millis { i++; return times[(i-1)%len(times)] }
	s, err := open(fsys, testSettings("/s"), quietLogger(), clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := s.Queue("T", 0)
	last := message.Millis(0)
	for range times {
		m := send(t, s, q, "x")
		if m.StoreTimestamp < last {
			t.Errorf("store time %d after %d", m.StoreTimestamp, last)
		}
		last = m.StoreTimestamp
	}
	mustDispatch(t, s, 0)
	closeTest(t, s, true)
	i = 2 // 900
	if s, err = open(fsys, testSettings("/s"), quietLogger(), clock, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	if m := send(t, s, s.Queue("T", 0), "x"); m.StoreTimestamp < last {
		t.Errorf("store time %d after a restart, the log ends with %d", m.StoreTimestamp, last)
	}
}

// Four goroutines append; nothing is lost, offsets have no gap, and what is below Wrote is complete at any moment.
func TestAppendFromManyGoroutines(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		s := openTest(t, sysio.OS{}, testSettings(t.TempDir(), form))
		defer s.Close(false)
		const appenders, rounds = 4, 300
		var wg sync.WaitGroup
		for a := range appenders {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r := rand.New(rand.NewPCG(1, uint64(a)))
				for range rounds {
					batch := make([]Message, 1+r.IntN(5))
					for i := range batch {
						batch[i] = newMessage(s.Queue("T", message.QueueID(r.IntN(3))), strings.Repeat("b", r.IntN(700)))
						batch[i].Joined = r.IntN(2) == 0
					}
					s.Append(batch)
					for i := range batch {
						if batch[i].Err != nil {
							t.Errorf("append: %v", batch[i].Err)
							return
						}
					}
				}
			}()
		}
		stop := make(chan struct{})
		followed := make(chan error, 1)
		go func() {
			at := message.PhyOffset(0)
			for {
				select {
				case <-stop:
					followed <- dispatchFrom(s, at)
					return
				default:
				}
				end := s.Wrote()
				if err := dispatchFrom(s, at); err != nil {
					followed <- err
					return
				}
				at = end
			}
		}()
		wg.Wait()
		close(stop)
		if err := <-followed; err != nil {
			t.Fatal(err)
		}
		for id := range message.QueueID(3) {
			q := s.Queue("T", id)
			if q.Max() != q.Next() || q.Min() != 0 {
				t.Errorf("queue %d: min %d, max %d, next %d", id, q.Min(), q.Max(), q.Next())
			}
			for o, u := range unitsOf(t, q) {
				if u.IsPreBlank() {
					t.Errorf("queue %d has a hole at %d", id, o)
				}
				bodyAt(t, s, u)
			}
		}
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		for _, sync := range []bool{false, true} {
			s := openTest(t, sysio.OS{}, testSettings(t.TempDir(), form, func(s *settings) { s.syncFlush, s.segmentBytes = sync, 64<<20 }))
			q := s.Queue("T", 0)
			batch := make([]Message, 8)
			for i := range batch {
				batch[i] = newMessage(q, strings.Repeat("b", 128))
			}
			if n := testing.AllocsPerRun(1000, func() { s.Append(batch) }); n != 0 {
				t.Errorf("sync=%v: %v allocations per batch", sync, n)
			}
			if sync {
				if n := testing.AllocsPerRun(100, func() { // the first sync, which is not counted, syncs the folder too
					s.Append(batch)
					if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
						t.Error(err)
					}
				}); n != 0 {
					t.Errorf("%v allocations per sync", n)
				}
			}
			s.Close(false)
		}
	})
}

func TestReadingAllocatesNothing(t *testing.T) {
	s := openTest(t, sysio.OS{}, testSettings(t.TempDir()))
	defer s.Close(false)
	q := s.Queue("TopicTest", 3)
	for range 100 {
		send(t, s, q, "body")
	}
	mustDispatch(t, s, 0)
	topic, units := []byte("TopicTest"), make([]Unit, 32)
	n := testing.AllocsPerRun(1000, func() {
		q := s.LookupQueue(topic, 3)
		n, hot := q.Units(units, q.Max()-32)
		if n != 32 || !hot || !s.IsHot(units[0].Phy) || s.Slice(units[0].Phy, int(units[0].Size)) == nil || s.Confirmed() == 0 {
			t.Error("the newest units are not in memory")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per pull", n)
	}
}

// Slices and reads end where the log or a file ends.
func TestReadsStayInside(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	for s.Wrote() < testSegment+1000 {
		send(t, s, q, strings.Repeat("x", 500))
	}
	end := s.Wrote()
	for _, c := range []struct {
		phy message.PhyOffset
		n   int
		ok  bool
	}{
		{0, 10, true}, {end - 10, 10, true}, {end - 10, 11, false}, {end, 0, true}, {end, 1, false},
		{testSegment - 5, 5, true}, {testSegment - 5, 6, false}, {-1, 4, false}, {0, -1, false}, {1 << 62, 1, false},
	} {
		if got := s.Slice(c.phy, c.n); (got != nil) != c.ok || len(got) > 0 && len(got) != c.n {
			t.Errorf("Slice(%d, %d) has %d bytes", c.phy, c.n, len(got))
		}
	}
	buf := make([]byte, 100)
	if n, err := s.ReadAt(buf, testSegment-30); n != 30 || err != nil {
		t.Errorf("a read at a file's end gave %d, %v", n, err)
	}
	if n, err := s.ReadAt(buf, end-7); n != 7 || err != nil {
		t.Errorf("a read at the log's end gave %d, %v", n, err)
	}
	if _, err := s.ReadAt(buf, -5); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("a read before the log: %v", err)
	}
}

func ExampleDiskFullError() {
	fmt.Println(&DiskFullError{Path: "data/commitlog", UsedPct: 91, Threshold: 90})
	// Output: store: disk full: data/commitlog is 91 % used, threshold 90 %
}
