package dispatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// fill puts n records of random sizes into random queues, a few of which no queue shows.
func (l *memLog) fill(rnd *rand.Rand, n int) {
	for range n {
		s := sample{
			topic: fmt.Sprint("Topic", rnd.IntN(5)),
			queue: message.QueueID(rnd.IntN(4)),
			tags:  []string{"", "TagA", "TagB", "订单"}[rnd.IntN(4)],
			body:  rnd.IntN(300),
		}
		switch rnd.IntN(20) {
		case 0:
			s.flag = message.SysFlagTransactionPrepared
		case 1:
			s.flag = message.SysFlagTransactionRollback
		case 2:
			s.flag = message.SysFlagTransactionCommit
		case 3:
			s.queue = queueIDDenseMax + 7
		case 4:
			s.topic = fmt.Sprintf("%0200d", 1) // a V2 record
		case 5:
			s.body = 20_000
		}
		l.put(s)
	}
}

// begun is a dispatcher over a memLog and an empty store.
type begun struct {
	*Dispatcher
	log     *memLog
	store   *store.Store
	witness *witness
}

func begin(t testing.TB, shards int, tweak func(*Options)) *begun {
	s := openStore(t, storeOptions{})
	b := &begun{log: newMemLog(s), store: s, witness: newWitness(t)}
	opts := Options{Store: s, Log: b.log, Shards: shards, Announcer: b.witness}
	if tweak != nil {
		tweak(&opts)
	}
	b.Dispatcher = New(opts)
	t.Cleanup(func() { b.Stop(time.Now()) })
	return b
}

func (b *begun) mustCatchUp(t testing.TB, target message.PhyOffset) {
	t.Helper()
	if err := b.CaughtUp(target, soon()); err != nil {
		t.Fatal(err, b.Err(), b.LowWater(), target)
	}
}

func TestEveryQueueGetsItsRecordsInOrder(t *testing.T) {
	records := 30_000
	if testing.Short() {
		records /= 3
	}
	for _, shards := range []int{1, 4} {
		for _, cold := range []bool{false, true} {
			t.Run(fmt.Sprint(shards, "-", cold), func(t *testing.T) {
				b := begin(t, shards, nil)
				b.log.cold.Store(cold)
				b.log.fill(rand.New(rand.NewPCG(1, uint64(shards))), records)
				b.log.confirm(b.log.end())
				b.Start(0)
				b.mustCatchUp(t, b.log.end())
				b.log.checkUnits(t, b.store, b.log.end())
				if cold != (b.log.reads.Load() > 0) {
					t.Fatalf("%d preads", b.log.reads.Load())
				}
				if !b.Stop(soon()) {
					t.Fatal("not drained")
				}
				s := b.Stats()
				if s.Records+s.Skipped != int64(len(b.log.starts)) || s.BehindBytes != 0 || s.LowWater != b.log.end() || s.Failed {
					t.Fatalf("%+v", s)
				}
				mark := b.LowMark()
				if last := len(b.log.starts) - 1; mark.Newest != b.log.starts[last] || mark.StoreTime != message.Millis(1_000_000+last) {
					t.Fatalf("%+v", mark)
				}
			})
		}
	}
}

// Confirmed may stop anywhere: within a record, within its first bytes, at the end of a file, before the end-of-file mark.
func TestNothingBeyondConfirmedIsShown(t *testing.T) {
	for _, shards := range []int{1, 4} {
		b := begin(t, shards, nil)
		rnd := rand.New(rand.NewPCG(2, uint64(shards)))
		b.log.fill(rnd, 3000)
		b.Start(0)
		covered := 0 // records that end at or below Confirmed
		shown := make(map[*store.Queue]message.QueueOffset)
		for at := message.PhyOffset(0); at < b.log.end(); {
			switch rnd.IntN(3) {
			case 0:
				at += message.PhyOffset(rnd.IntN(12))
			case 1:
				at += message.PhyOffset(rnd.IntN(2000))
			default:
				at += message.PhyOffset(rnd.IntN(100_000))
			}
			at = min(at, b.log.end())
			b.log.confirm(at)
			b.Wake()
			var v message.View
			for ; covered < len(b.log.starts); covered++ {
				if err := message.ParseView(b.log.bytes[b.log.starts[covered]:], &v); err != nil {
					t.Fatal(err)
				}
				if v.PhyOffset+message.PhyOffset(v.Size) > at {
					break
				}
				if k := v.SysFlag & message.SysFlagTransactionMask; k == 0 || k == message.SysFlagTransactionCommit {
					shown[b.store.Queue(string(v.Topic), v.QueueID)]++
				}
			}
			if covered == 0 {
				continue
			}
			b.mustCatchUp(t, b.log.starts[covered-1]+1)
			if b.LowWater() > at && b.LowWater()%b.log.segment != 0 {
				t.Fatalf("dispatched up to %d of %d", b.LowWater(), at)
			}
			for q, n := range shown {
				if q.Max() != n {
					t.Fatalf("%s-%d shows %d units when %d are confirmed", q.Topic(), q.ID(), q.Max(), n)
				}
			}
		}
		b.log.checkUnits(t, b.store, b.log.end())
		b.mustCatchUp(t, b.log.end())
	}
}

// A start from an older position, as after kill -9, repeats nothing.
func TestDispatchingAgainChangesNothing(t *testing.T) {
	s := openStore(t, storeOptions{})
	log := newMemLog(s)
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 6 {
		log.fill(rnd, 2000)
		log.confirm(log.end())
		w := newWitness(t)
		d := New(Options{Store: s, Log: log, Shards: 1 + rnd.IntN(4), Announcer: w})
		d.Start(log.starts[rnd.IntN(len(log.starts)-1999)])
		if err := d.CaughtUp(log.end(), soon()); err != nil {
			t.Fatal(err)
		}
		if !d.Stop(soon()) {
			t.Fatal("not drained")
		}
		log.checkUnits(t, s, log.end())
	}
}

func TestABadRecordStopsLoudly(t *testing.T) {
	for name, damage := range map[string]func(rec []byte){
		"magic":       func(rec []byte) { rec[4]++ },
		"zeros":       func(rec []byte) { clear(rec[:64]) },
		"small size":  func(rec []byte) { binary.BigEndian.PutUint32(rec, 3) },
		"huge size":   func(rec []byte) { binary.BigEndian.PutUint32(rec, 1<<30) },
		"negative":    func(rec []byte) { binary.BigEndian.PutUint32(rec, 1<<31) },
		"size off":    func(rec []byte) { binary.BigEndian.PutUint32(rec, binary.BigEndian.Uint32(rec)-1) },
		"body length": func(rec []byte) { binary.BigEndian.PutUint32(rec[84:], 1<<20) },
		"position":    func(rec []byte) { rec[35] ^= 4 },
	} {
		for _, cold := range []bool{false, true} {
			t.Run(fmt.Sprint(name, cold), func(t *testing.T) {
				var told error
				b := begin(t, 4, func(o *Options) { o.OnError = func(err error) { told = err } })
				b.log.cold.Store(cold)
				for i := range 5000 {
					b.log.put(sample{topic: "T", queue: message.QueueID(i % 8), tags: "TagA", body: 100})
				}
				bad := b.log.starts[3000]
				damage(b.log.bytes[bad:])
				b.log.confirm(b.log.end())
				b.Start(0)
				err := b.CaughtUp(b.log.end(), soon())
				var re *RecordError
				if !errors.Is(err, ErrBadRecord) || !errors.As(err, &re) || re.Phy != bad || b.Err() != err {
					t.Fatalf("got %v, want it at %d", err, bad)
				}
				if told != err {
					t.Fatal("the callback got", told)
				}
				if b.LowWater() != bad || b.BehindBytes() != int64(b.log.end()-bad) || !b.Stats().Failed {
					t.Fatalf("what lies before it must be there: %+v", b.Stats())
				}
				b.log.checkUnits(t, b.store, bad)
				if b.Stop(soon()) {
					t.Fatal("a stop with something left is not clean")
				}
			})
		}
	}
}

func TestTheLogMayBeUnreadableForAMoment(t *testing.T) {
	b := begin(t, 1, nil)
	b.log.cold.Store(true)
	b.log.fill(rand.New(rand.NewPCG(4, 4)), 100)
	b.log.confirm(b.log.end())
	eio := error(syscall.EIO)
	b.log.readErr.Store(&eio)
	b.Start(0)
	for b.log.reads.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	b.log.readErr.Store(nil)
	b.mustCatchUp(t, b.log.end())
}

func TestRemovedFilesArePassedOver(t *testing.T) {
	for _, cold := range []bool{false, true} {
		b := begin(t, 1, nil)
		for range 3000 {
			b.log.put(sample{topic: "T", body: 1000})
		}
		oldest := 2 * b.log.segment
		b.log.min.Store(int64(oldest))
		b.log.cold.Store(cold)
		b.log.confirm(b.log.end())
		b.Start(0)
		b.mustCatchUp(t, b.log.end())
		if s := b.Stats(); s.ExpiredBytes != int64(oldest) || s.Failed {
			t.Fatalf("%+v", s)
		}
		q := b.store.Queue("T", 0)
		var u [1]store.Unit
		if n, err := q.ReadUnits(u[:], q.Min()); n != 1 || err != nil || u[0].Phy != oldest {
			t.Fatalf("the first readable unit is %+v (%v), want the record at %d", u[0], err, oldest)
		}
	}
}

func TestScheduledRecordsGetTheirTagsFromTheFunction(t *testing.T) {
	b := begin(t, 1, func(o *Options) {
		o.ScheduleTags = func(v *message.View) message.TagsCode { return message.TagsCode(v.StoreTimestamp) + 1000 }
	})
	b.log.put(sample{topic: "SCHEDULE_TOPIC_XXXX", queue: 2, tags: "TagA"})
	b.log.put(sample{topic: "T", tags: "TagA"})
	b.log.confirm(b.log.end())
	b.Start(0)
	b.mustCatchUp(t, b.log.end())
	var u [1]store.Unit
	if n, err := b.store.Queue("SCHEDULE_TOPIC_XXXX", 2).ReadUnits(u[:], 0); n != 1 || err != nil || u[0].Tags != 1_001_000 {
		t.Fatal(u, err)
	}
	if n, err := b.store.Queue("T", 0).ReadUnits(u[:], 0); n != 1 || err != nil || u[0].Tags != 2598919 {
		t.Fatal(u, err)
	}
}

// A shard that is held up holds up the reader after a bounded number of batches, and nothing is lost when it goes on.
func TestASlowShardHoldsUpTheReader(t *testing.T) {
	b := begin(t, 1, nil)
	b.witness.hold = make(chan struct{})
	for range 3 * batchesPerShard * batchRecordsMax {
		b.log.put(sample{topic: "T"})
	}
	b.log.confirm(b.log.end())
	b.Start(0)
	for b.Stats().Starved == 0 {
		time.Sleep(time.Millisecond)
	}
	if s := b.Stats(); s.Records > batchesPerShard*batchRecordsMax || s.LowWater != 0 {
		t.Fatalf("%+v", s)
	}
	close(b.witness.hold)
	b.mustCatchUp(t, b.log.end())
	b.log.checkUnits(t, b.store, b.log.end())
}

func TestStop(t *testing.T) {
	t.Run("drains", func(t *testing.T) {
		b := begin(t, 4, nil)
		b.log.fill(rand.New(rand.NewPCG(5, 5)), 20_000)
		b.log.confirm(b.log.end())
		b.Start(0)
		if !b.Stop(soon()) || b.LowWater() != b.log.end() {
			t.Fatal("not drained")
		}
		if err := b.CaughtUp(b.log.end()+1, soon()); !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		b.Wake() // a late one does nothing
		if !b.Stop(soon()) {
			t.Fatal("the second Stop disagrees")
		}
	})
	t.Run("gives up at the deadline", func(t *testing.T) {
		b := begin(t, 1, nil)
		b.witness.hold = make(chan struct{})
		for range 3 * batchesPerShard * batchRecordsMax {
			b.log.put(sample{topic: "T"})
		}
		b.log.confirm(b.log.end())
		b.Start(0)
		go func() { <-b.quit; close(b.witness.hold) }() // not before Stop has given up
		if b.Stop(time.Now().Add(10 * time.Millisecond)) {
			t.Fatal("drained?")
		}
	})
	t.Run("before Start", func(t *testing.T) {
		b := begin(t, 1, nil)
		if b.Stop(soon()) {
			t.Fatal("nothing is dispatched")
		}
		if err := b.CaughtUp(1, soon()); !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
	})
}
