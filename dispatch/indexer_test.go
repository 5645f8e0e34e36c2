package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// fakeIndex notes what it is given. A file of it takes perFile records.
type fakeIndex struct {
	from    message.PhyOffset
	perFile int
	hold    chan struct{} // not nil: Add waits until it is closed

	mu       sync.Mutex
	got      []message.PhyOffset
	left     int   // records that the open file takes
	noFile   error // what NextFile fails with
	attempts int
	flushed  int // records that Flush has made durable

	refused atomic.Int64 // NextFile failed so often
}

func (f *fakeIndex) Recover(func() bool) (message.PhyOffset, error) { return f.from, nil }

func (f *fakeIndex) Add(records []store.IndexRecord) (int, error) {
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range records {
		if f.left == 0 {
			return i, store.ErrIndexFull
		}
		f.left--
		f.got = append(f.got, r.Phy)
	}
	return len(records), nil
}

func (f *fakeIndex) NextFile() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts++
	if f.noFile != nil {
		f.refused.Add(1)
		return f.noFile
	}
	f.left = f.perFile
	return nil
}

func (f *fakeIndex) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flushed = len(f.got)
	return nil
}

func startIndexer(t testing.TB, b *begun, index KeyIndex, retry time.Duration) *Indexer {
	x := NewIndexer(b.Dispatcher, index, IndexerOptions{FlushInterval: time.Millisecond, RetryInterval: retry})
	b.Start(0)
	x.Start()
	t.Cleanup(func() { x.Stop(time.Now()) })
	return x
}

// indexable are the records of the log that have to be indexed.
func (l *memLog) indexable(t testing.TB, from message.PhyOffset) []message.PhyOffset {
	var v message.View
	var want []message.PhyOffset
	for _, phy := range l.starts {
		if err := message.ParseView(l.bytes[phy-l.base:], &v); err != nil {
			t.Fatal(err)
		}
		if v.SysFlag&message.SysFlagTransactionMask != message.SysFlagTransactionRollback && phy >= from {
			want = append(want, phy)
		}
	}
	return want
}

func TestIndexGetsEveryRecordOnceInOrder(t *testing.T) {
	for _, cold := range []bool{false, true} {
		for _, perFile := range []int{7, 1_000_000} {
			t.Run(fmt.Sprint(cold, "-", perFile), func(t *testing.T) {
				b := begin(t, 2, nil)
				b.log.cold.Store(cold)
				b.log.fill(rand.New(rand.NewPCG(2, 2)), 20_000)
				b.log.put(sample{topic: "T", body: 120_000}) // larger than what is left of most blocks
				from := b.log.starts[500]
				f := &fakeIndex{perFile: perFile, from: from}
				x := startIndexer(t, b, f, time.Hour)
				for end := range slices.Values([]int{1, 2, 3000, 3001, 20_000}) {
					b.log.confirm(b.log.starts[end])
					b.Wake()
					b.mustCatchUp(t, b.log.starts[end])
				}
				b.log.confirm(b.log.end())
				b.Wake()
				if !b.Stop(soon()) || !x.Stop(soon()) {
					t.Fatal("not drained", b.Stats(), x.Stats(), x.Err())
				}
				if want := b.log.indexable(t, from); !slices.Equal(f.got, want) {
					t.Errorf("%d records indexed, want %d", len(f.got), len(want))
				}
				if f.flushed != len(f.got) {
					t.Errorf("%d of %d records are durable", f.flushed, len(f.got))
				}
				if s := x.Stats(); s.Mark != b.log.end() || s.BehindBytes != 0 || s.Paused {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// An index that takes nothing holds nobody up, and is complete when it takes again.
func TestConsumptionNeverWaitsForTheIndex(t *testing.T) {
	b := begin(t, 2, nil)
	b.log.fill(rand.New(rand.NewPCG(3, 3)), 30_000)
	b.log.confirm(b.log.end())
	f := &fakeIndex{perFile: 1_000_000, hold: make(chan struct{})}
	x := startIndexer(t, b, f, time.Hour)
	b.mustCatchUp(t, b.log.end())
	if x.BehindBytes() < int64(b.log.end())/2 {
		t.Errorf("%d bytes behind, nothing was taken", x.BehindBytes())
	}
	close(f.hold)
	if !b.Stop(soon()) || !x.Stop(soon()) {
		t.Fatal("not drained")
	}
	if want := b.log.indexable(t, 0); !slices.Equal(f.got, want) {
		t.Errorf("%d records indexed, want %d", len(f.got), len(want))
	}
}

// Case R09: at most one attempt per interval, messages flow, and a stop in between makes one more: it is clean if that succeeds.
func TestIndexThatCannotBeMadePauses(t *testing.T) {
	for _, healed := range []bool{false, true} {
		t.Run(fmt.Sprint("healed ", healed), func(t *testing.T) {
			b := begin(t, 1, nil)
			b.log.fill(rand.New(rand.NewPCG(4, 4)), 5_000)
			b.log.confirm(b.log.starts[2500])
			f := &fakeIndex{perFile: 1_000_000, noFile: os.ErrPermission}
			x := startIndexer(t, b, f, time.Hour)
			b.mustCatchUp(t, b.log.starts[2500])
			for f.refused.Load() == 0 {
				runtime.Gosched()
			}
			b.log.confirm(b.log.end())
			b.Wake()
			b.mustCatchUp(t, b.log.end())
			if !b.Stop(soon()) {
				t.Error("dispatch is not drained")
			}
			f.mu.Lock()
			before := f.attempts
			if healed {
				f.noFile = nil
			}
			f.mu.Unlock()
			complete := x.Stop(soon())
			if complete != healed || errors.Is(x.Err(), os.ErrPermission) == healed || before != 1 || f.attempts != 2 {
				t.Errorf("complete %v; %d attempts before the stop, %d with it: %v", complete, before, f.attempts, x.Err())
			}
			if want := b.log.indexable(t, 0); healed && (!slices.Equal(f.got, want) || f.flushed != len(want)) {
				t.Errorf("%d records indexed, %d durable, want %d", len(f.got), f.flushed, len(want))
			}
		})
	}
}

func TestIndexingGoesOnAfterAPause(t *testing.T) {
	b := begin(t, 1, nil)
	b.log.fill(rand.New(rand.NewPCG(5, 5)), 5_000)
	b.log.confirm(b.log.end())
	f := &fakeIndex{perFile: 1_000_000, noFile: os.ErrPermission}
	x := startIndexer(t, b, f, time.Millisecond)
	for f.refused.Load() < 3 {
		runtime.Gosched()
	}
	f.mu.Lock()
	f.noFile = nil
	f.mu.Unlock()
	b.mustCatchUp(t, b.log.end())
	for x.Mark() < b.log.end() {
		runtime.Gosched()
	}
	if !b.Stop(soon()) || !x.Stop(soon()) || x.Err() != nil {
		t.Error("not drained", x.Err())
	}
	if want := b.log.indexable(t, 0); !slices.Equal(f.got, want) {
		t.Errorf("%d records indexed, want %d", len(f.got), len(want))
	}
}

// indexedStore is a store with an index on disk.
func indexedStore(t testing.TB, items int) *store.Store {
	cfg := testConfig(storeOptions{root: t.TempDir(), queueFile: 6_000_000, segment: 64 << 20})
	cfg.MessageIndexEnable, cfg.IndexFileWriteEnable, cfg.IndexFileReadEnable = true, true, true
	cfg.MaxHashSlotNum, cfg.MaxIndexNum = 5_000_000, items
	cfg.FlushDiskType = config.AsyncFlush
	s, err := store.Open(store.Options{FS: sysio.OS{}, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(false) })
	return s
}

// The budget is 0.01 of an allocation a record.
func TestIndexingAllocatesNothingPerRecord(t *testing.T) {
	records := 200_000
	if testing.Short() {
		records /= 10
	}
	s := indexedStore(t, 1_000_000)
	b := &begun{log: newMemLog(s), store: s}
	b.Dispatcher = New(Options{Store: s, Log: b.log, Shards: 1})
	x := NewIndexer(b.Dispatcher, s.Index(), IndexerOptions{FlushInterval: time.Hour, RetryInterval: time.Hour})
	manyRecords(b, records, 16)
	b.Start(0)
	b.mustCatchUp(t, b.log.end())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x.Start()
	for x.Mark() < b.log.end() {
		runtime.Gosched()
	}
	runtime.ReadMemStats(&after)
	if per := float64(after.Mallocs-before.Mallocs) / float64(records); per > 0.01 {
		t.Errorf("%.4f allocations a record", per)
	}
	if !b.Stop(soon()) || !x.Stop(soon()) {
		t.Error("not drained", x.Err())
	}
	if st := s.Index().Stats(); st.Items != int64(2*records) {
		t.Errorf("%+v, want %d items", st, 2*records)
	}
}

// BenchmarkIndex is the index stage alone, on records that are dispatched already, with real files of the usual geometry. The
// rate per second of processor time is the one to look at on a busy machine.
func BenchmarkIndex(b *testing.B) {
	const records = 2_000_000
	source := onDisk(b, 1)
	manyRecords(source, records, 8)
	log := source.log
	b.SetBytes(int64(log.end()))
	b.ReportAllocs()
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		s := indexedStore(b, 20_000_000)
		d := New(Options{Store: s, Log: log, Shards: 1})
		x := NewIndexer(d, s.Index(), IndexerOptions{FlushInterval: time.Hour, RetryInterval: time.Hour})
		d.Start(0)
		if err := d.CaughtUp(log.end(), soon()); err != nil {
			b.Fatal(err)
		}
		before := processorTime(b)
		b.StartTimer()
		x.Start()
		for x.Mark() < log.end() {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		cpu += processorTime(b) - before
		d.Stop(soon())
		x.Stop(soon())
		b.StartTimer()
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
	b.ReportMetric(records*float64(b.N)/cpu.Seconds()/1e6, "Mrecords/cpu-s")
}
