package flush

import (
	"testing"
	"testing/synctest"
	"time"
)

// original is ASYNC_FLUSH with RocketMQ's defaults.
func original() Options {
	return Options{Pace: Pace{Interval: 500 * time.Millisecond, ThoroughInterval: 10 * time.Second, LeastPages: 4}, EarlyBytes: 1 << 20}
}

func TestAsyncSyncsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		c := started(t, log, original())
		begin := time.Now()
		for time.Since(begin) < 10*time.Second {
			c.Request(log.append(4096))
			time.Sleep(10 * time.Millisecond)
		}
		if n := log.syncs.Load(); n < 18 || n > 21 {
			t.Fatalf("%d syncs in 10 s", n)
		}
	})
}

func TestAsyncLeavesFewPagesToTheThoroughSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		c := started(t, log, original())
		log.append(3*pageSize - 1)
		c.Request(log.Wrote())
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		if log.syncs.Load() != 0 {
			t.Fatal("synced although fewer than 4 pages differ")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if log.syncs.Load() != 1 || c.Flushed() != log.Wrote() {
			t.Fatal("unflushed bytes outlived the thorough interval")
		}
	})
}

func TestAsyncCountsPagesAsTheOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		log.append(4095) // page 0
		c := started(t, log, original())
		c.Request(log.append(3*pageSize + 2)) // page 4, although hardly more than three pages of bytes
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if log.syncs.Load() != 1 {
			t.Fatal("4 page numbers apart must be synced at the interval")
		}
	})
}

func TestAsyncIdleSleepsWithoutATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &countingLog{}
		c := started(t, log, original())
		c.Request(log.append(8 * pageSize))
		time.Sleep(time.Second)
		synctest.Wait()
		if c.Flushed() != log.fakeLog.Wrote() {
			t.Fatal("not flushed")
		}
		looks := log.looks.Load()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if d := log.looks.Load() - looks; d != 0 || log.syncs.Load() != 1 {
			t.Fatalf("an idle flusher looked %d times in a day", d)
		}
	})
}

func TestAsyncStartsEarlyWhenMuchIsUnflushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		c := started(t, log, original())
		begin := time.Now()
		c.Request(log.append(1<<20 - 1))
		synctest.Wait()
		if log.syncs.Load() != 0 {
			t.Fatal("synced before the bound")
		}
		c.Request(log.append(1))
		synctest.Wait()
		if log.syncs.Load() != 1 || time.Since(begin) != 0 {
			t.Fatal("not synced although the bound is reached")
		}
	})
}

func TestAsyncWaitDoesNotWaitForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: slowDisk}
		c := started(t, log, original())
		for range 10 {
			begin := time.Now()
			end := log.append(10)
			c.Request(end)
			if err := c.Wait(end, time.Time{}); err != nil || time.Since(begin) != syncTime {
				t.Fatal(err, time.Since(begin))
			}
		}
	})
}

func TestAsyncReasonsCanBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		c := started(t, log, Options{})
		c.Request(log.append(1 << 30))
		time.Sleep(time.Hour)
		synctest.Wait()
		if log.syncs.Load() != 0 {
			t.Fatal("synced without a reason")
		}
		if err := c.Stop(); err != nil || c.Flushed() != 1<<30 {
			t.Fatal(err)
		}
	})
}
