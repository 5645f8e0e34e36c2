package dispatch

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/message"
)

// fakeFiles notes what the keeper does and when.
type fakeFiles struct {
	flushes  []int // leastPages
	saves    []message.PhyOffset
	times    []message.Millis
	during   func() // runs inside FlushQueues
	fail     error
	failSave error
}

func (f *fakeFiles) FlushQueues(leastPages int) error {
	f.flushes = append(f.flushes, leastPages)
	if f.during != nil {
		f.during()
	}
	return f.fail
}

func (f *fakeFiles) SaveCheckpoint(storeTime message.Millis, phy message.PhyOffset) error {
	f.saves, f.times = append(f.saves, phy), append(f.times, storeTime)
	return f.failSave
}

// keeping returns a keeper over a dispatcher that is driven by hand: arrive dispatches one record that begins at phy.
func keeping(t *testing.T, files *fakeFiles, opts KeeperOptions) (k *Keeper, arrive func(phy message.PhyOffset)) {
	d := New(Options{})
	k = NewKeeper(d, files, opts)
	d.progress.begin(0)
	k.Start()
	t.Cleanup(func() { k.Stop() })
	return k, func(phy message.PhyOffset) {
		if files.during == nil {
			synctest.Wait() // a pass that is due at this instant comes first
		}
		d.progress.handOut([]*batch{{before: d.LowMark()}}, Mark{Pos: phy + 10, Newest: phy, StoreTime: message.Millis(1000 + phy)})
		d.progress.done(0)
		k.dirtied()
	}
}

func originalKeeper() KeeperOptions {
	return KeeperOptions{Interval: time.Second, LeastPages: 2, ThoroughInterval: time.Minute}
}

func TestKeeperSyncsAsTheOriginalDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		_, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(files.flushes) != 1 || files.flushes[0] != 0 || len(files.saves) != 1 || files.saves[0] != 0 || files.times[0] != 1000 {
			t.Fatalf("the first pass is thorough: %+v", files)
		}
		for i := range 59 {
			arrive(message.PhyOffset(10 + 10*i))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(files.flushes) != 60 || files.flushes[59] != 2 || len(files.saves) != 1 {
			t.Fatalf("then one a second with the least pages: %d %v", len(files.flushes), files.saves)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(files.flushes) != 61 || files.flushes[60] != 0 || files.saves[1] != 590 {
			t.Fatalf("and a thorough one after a minute: %v %v", files.flushes[59:], files.saves)
		}
	})
}

func TestKeeperIsIdleWhileNothingIsUnsynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		k, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		time.Sleep(time.Second)
		arrive(10)
		time.Sleep(time.Second) // one pass with the least pages: what it left has to wait for the thorough one
		synctest.Wait()
		if len(files.flushes) != 2 {
			t.Fatal(files.flushes)
		}
		time.Sleep(58 * time.Second)
		synctest.Wait()
		if len(files.flushes) != 2 {
			t.Fatal("it ticked:", files.flushes)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if len(files.flushes) != 3 || files.flushes[2] != 0 || files.saves[1] != 10 || k.Stats().SavedTo != 20 {
			t.Fatalf("%+v", files)
		}
	})
}

// What is dispatched while the queues are being synced may have missed its sync.
func TestCheckpointNeverPassesWhatWasDispatchedBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		_, arrive := keeping(t, files, originalKeeper())
		arrive(0)
		files.during = func() { arrive(10) }
		time.Sleep(time.Second)
		synctest.Wait()
		files.during = nil
		if len(files.saves) != 1 || files.saves[0] != 0 {
			t.Fatalf("saved %v", files.saves)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if len(files.saves) != 2 || files.saves[1] != 10 {
			t.Fatalf("what arrived meanwhile is forgotten: %v", files.saves)
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
		if len(files.flushes) != 1 || files.flushes[0] != 0 || len(files.saves) != 1 || files.saves[0] != 10 {
			t.Fatalf("%+v", files)
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
		arrive(900)
		time.Sleep(time.Second)
		arrive(1100)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(files.saves) != 2 || files.saves[1] != 1100 || files.flushes[1] != 2 || files.flushes[2] != 0 {
			t.Fatalf("%+v", files)
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
		files.fail = syscall.EIO
		arrive(10)
		time.Sleep(time.Second)
		synctest.Wait()
		files.fail = nil
		arrive(20)
		time.Sleep(time.Hour)
		if err := k.Stop(); !errors.Is(err, syscall.EIO) || !k.Stats().Failed {
			t.Fatal(err)
		}
		if len(files.flushes) != 2 || len(files.saves) != 1 {
			t.Fatalf("%+v", files)
		}
	})
}

func TestKeeperWithoutARecordLeavesTheCheckpointAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &fakeFiles{}
		k, _ := keeping(t, files, originalKeeper())
		time.Sleep(time.Hour)
		if err := k.Stop(); err != nil || len(files.saves) != 0 {
			t.Fatalf("%v %+v", err, files)
		}
	})
}
