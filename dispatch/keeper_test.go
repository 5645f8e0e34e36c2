package dispatch

import (
	"errors"
	"math"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/message"
)

// fakeFiles notes what the keeper does and when.
type fakeFiles struct {
	mu      sync.Mutex
	did     seen
	fail    error
	behind  bool // the log is durable up to flushed only, else as far as anybody asks
	flushed message.PhyOffset
	during  func() // runs inside FlushQueues; fixed before Start
}

type seen struct {
	flushes []int // leastPages
	saves   []message.PhyOffset
	times   []message.Millis
}

func (f *fakeFiles) seen() seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return seen{slices.Clone(f.did.flushes), slices.Clone(f.did.saves), slices.Clone(f.did.times)}
}

func (f *fakeFiles) Flushed() message.PhyOffset {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.behind {
		return f.flushed
	}
	return math.MaxInt64
}

func (f *fakeFiles) setFlushed(to message.PhyOffset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flushed = to
}

func (f *fakeFiles) setFail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fakeFiles) FlushQueues(leastPages int) error {
	if f.during != nil {
		f.during()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did.flushes = append(f.did.flushes, leastPages)
	return f.fail
}

func (f *fakeFiles) SaveCheckpoint(storeTime message.Millis, phy message.PhyOffset) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did.saves, f.did.times = append(f.did.saves, phy), append(f.did.times, storeTime)
	return nil
}

// keeping returns a keeper over a dispatcher that is driven by hand: arrive dispatches one record that begins at phy.
func keeping(t *testing.T, files *fakeFiles, opts KeeperOptions) (k *Keeper, arrive func(phy message.PhyOffset)) {
	d := New(Options{})
	k = NewKeeper(d, files, opts)
	d.progress.begin(0)
	k.Start()
	t.Cleanup(func() { k.Stop() })
	return k, func(phy message.PhyOffset) {
		d.progress.handOut([]*batch{{before: d.LowMark()}}, Mark{Pos: phy + 10, Newest: phy, StoreTime: message.Millis(1000 + phy)})
		d.progress.done(0)
		k.dirtied()
	}
}

func originalKeeper() KeeperOptions {
	return KeeperOptions{KeeperPace: KeeperPace{Interval: time.Second, LeastPages: 2, ThoroughInterval: time.Minute}}
}

func TestKeeperSyncsAsTheOriginalDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		_, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(files.seen().flushes) != 1 || files.seen().flushes[0] != 0 || len(files.seen().saves) != 1 || files.seen().saves[0] != 0 || files.seen().times[0] != 1000 {
			t.Fatalf("the first pass is thorough: %+v", files.seen())
		}
		for i := range 59 { // behind the pass that is due at each instant
			arrive(message.PhyOffset(10 + 10*i))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		synctest.Wait()
		if len(files.seen().flushes) != 60 || files.seen().flushes[59] != 2 || len(files.seen().saves) != 1 {
			t.Fatalf("then one a second with the least pages: %d %v", len(files.seen().flushes), files.seen().saves)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(files.seen().flushes) != 61 || files.seen().flushes[60] != 0 || files.seen().saves[1] != 590 {
			t.Fatalf("and a thorough one after a minute: %v %v", files.seen().flushes[59:], files.seen().saves)
		}
	})
}

func TestKeeperIsIdleWhileNothingIsUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		k, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait() // a pass that is due at this instant comes first
		arrive(10)
		time.Sleep(time.Second) // one pass with the least pages: what it left has to wait for the thorough one
		synctest.Wait()
		if len(files.seen().flushes) != 2 {
			t.Fatal(files.seen().flushes)
		}
		time.Sleep(58 * time.Second)
		synctest.Wait()
		if len(files.seen().flushes) != 2 {
			t.Fatal("it ticked:", files.seen().flushes)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(files.seen().flushes) != 3 || files.seen().flushes[2] != 0 || files.seen().saves[1] != 10 || k.Stats().SavedTo != 20 {
			t.Fatalf("%+v", files.seen())
		}
	})
}

// What is dispatched while the queues are being synced may have missed its sync.
func TestCheckpointNeverPassesWhatWasDispatchedBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		var arrive func(message.PhyOffset)
		files.during = func() {
			files.during = nil
			arrive(10)
		}
		_, arrive = keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(files.seen().saves) != 1 || files.seen().saves[0] != 0 {
			t.Fatalf("saved %v", files.seen().saves)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if len(files.seen().saves) != 2 || files.seen().saves[1] != 10 {
			t.Fatalf("what arrived meanwhile is forgotten: %v", files.seen().saves)
		}
	})
}

// Recovery looks for damage from the checkpoint on: what lies before it has to be durable in the log as well.
func TestCheckpointWaitsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{behind: true}
		k, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait()
		arrive(10)
		files.setFlushed(9) // the first record is not durable as a whole
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if files.seen().saves != nil {
			t.Fatal("saved", files.seen().saves)
		}
		files.setFlushed(10)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := files.seen().saves; len(s) != 1 || s[0] != 0 {
			t.Fatal("saved", s)
		}
		files.setFlushed(20)
		if err := k.Stop(); err != nil {
			t.Fatal(err)
		}
		if s := files.seen().saves; len(s) != 2 || s[1] != 10 {
			t.Fatal("saved", s)
		}
	})
}

func TestKeeperStopIsThorough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		k, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		arrive(10)
		if err := k.Stop(); err != nil {
			t.Fatal(err)
		}
		if len(files.seen().flushes) != 1 || files.seen().flushes[0] != 0 || len(files.seen().saves) != 1 || files.seen().saves[0] != 10 {
			t.Fatalf("%+v", files.seen())
		}
		if err := k.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestKeeperLimitsTheDistanceToTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		opts := originalKeeper()
		opts.DistanceMax = 1000
		_, arrive := keeping(t, files, opts)
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait() // a pass that is due at this instant comes first
		arrive(900)
		time.Sleep(time.Second)
		synctest.Wait() // a pass that is due at this instant comes first
		arrive(1100)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(files.seen().saves) != 2 || files.seen().saves[1] != 1100 || files.seen().flushes[1] != 2 || files.seen().flushes[2] != 0 {
			t.Fatalf("%+v", files.seen())
		}
	})
}

func TestFailedQueueSyncFreezesTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		k, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait()
		files.setFail(syscall.EIO)
		arrive(10)
		time.Sleep(time.Second)
		synctest.Wait()
		files.setFail(nil)
		arrive(20)
		time.Sleep(time.Hour)
		if err := k.Stop(); !errors.Is(err, syscall.EIO) || !k.Stats().Failed {
			t.Fatal(err)
		}
		if len(files.seen().flushes) != 2 || len(files.seen().saves) != 1 {
			t.Fatalf("%+v", files.seen())
		}
	})
}

func TestKeeperWithoutARecordLeavesTheCheckpointAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		k, _ := keeping(t, files, originalKeeper())
		time.Sleep(time.Hour)
		if err := k.Stop(); err != nil || len(files.seen().saves) != 0 {
			t.Fatalf("%v %+v", err, files.seen())
		}
	})
}
