package flush

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/message"
)

const syncTime = time.Millisecond

func slowDisk(int64) answer { return answer{takes: syncTime} }

func TestOneClientGetsOneSyncPerAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: slowDisk}
		c := started(t, log, Options{Sync: true})
		for i := range int64(100) {
			begin := time.Now()
			end := log.append(100)
			c.Request(end)
			if err := c.Wait(end, time.Time{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != syncTime {
				t.Fatalf("acknowledged after %v, want exactly one sync of %v", took, syncTime)
			}
			synctest.Wait()
			if log.syncs.Load() != i+1 {
				t.Fatalf("%d syncs for %d acknowledgements", log.syncs.Load(), i+1)
			}
			time.Sleep(3 * syncTime)
		}
	})
}

func TestWaitersOfOneGroupShareOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 500
		log := &fakeLog{plan: slowDisk}
		c := started(t, log, Options{Sync: true})
		c.Request(log.append(1)) // keeps the disk busy while the group gathers
		synctest.Wait()
		results := make(chan error, waiters)
		for range waiters {
			go func() {
				end := log.append(100)
				c.Request(end)
				results <- c.Wait(end, time.Time{})
			}()
		}
		for range waiters {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if log.syncs.Load() != 2 {
			t.Fatalf("%d syncs, want the running one and one for all %d waiters", log.syncs.Load(), waiters)
		}
	})
}

func TestSyncsAreBackToBackUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: slowDisk}
		c := started(t, log, Options{Sync: true})
		begin := time.Now()
		for time.Since(begin) < time.Second {
			c.Request(log.append(10))
			time.Sleep(syncTime / 4)
		}
		if n := log.syncs.Load(); n < 998 || n > 1001 {
			t.Fatalf("%d syncs of %v in one second", n, syncTime)
		}
	})
}

func TestOneWaySendsBecomeVisibleWithoutOtherTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: slowDisk}
		var told []message.PhyOffset
		c := started(t, log, Options{Sync: true}, func(upTo message.PhyOffset, err error) { told = append(told, upTo) })
		c.Request(log.append(77))
		time.Sleep(syncTime)
		synctest.Wait()
		if c.Flushed() != 77 || len(told) != 1 || told[0] != 77 {
			t.Fatalf("flushed %d, told %v", c.Flushed(), told)
		}
	})
}

func TestNothingBeyondTheBeginOfTheSyncIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: func(int64) answer { return answer{takes: syncTime, lie: 1000} }}
		c := started(t, log, Options{Sync: true})
		c.Request(log.append(10))
		synctest.Wait() // the sync runs
		end := log.append(10)
		c.Request(end)
		time.Sleep(syncTime)
		synctest.Wait()
		if c.Flushed() != 10 {
			t.Fatalf("flushed %d: a log that claims too much was believed", c.Flushed())
		}
		if err := c.Wait(end, time.Time{}); err != nil || c.Flushed() != 20 {
			t.Fatal(err, c.Flushed())
		}
	})
}

func TestPartialSyncGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: func(n int64) answer { return answer{lie: -max(0, 30-10*message.PhyOffset(n))} }}
		c := started(t, log, Options{Sync: true})
		end := log.append(100)
		c.Request(end)
		if err := c.Wait(end, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if log.syncs.Load() != 3 {
			t.Fatalf("%d syncs", log.syncs.Load())
		}
	})
}

func TestFailedSyncIsFinal(t *testing.T) {
	for name, bad := range map[string]answer{
		"error":       {takes: syncTime, err: syscall.EIO},
		"no progress": {takes: syncTime, lie: -100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &fakeLog{plan: func(n int64) answer {
					if n == 2 {
						return bad
					}
					return answer{}
				}}
				type note struct {
					upTo message.PhyOffset
					err  error
				}
				var told [2][]note
				c := started(t, log, Options{Sync: true},
					func(upTo message.PhyOffset, err error) { told[0] = append(told[0], note{upTo, err}) },
					func(upTo message.PhyOffset, err error) { told[1] = append(told[1], note{upTo, err}) })
				c.Request(log.append(50))
				synctest.Wait()
				results := make(chan error, 10)
				log.append(100) // before anybody waits: the one sync that fails is of all of it
				for i := range cap(results) {
					go func() { results <- c.Wait(message.PhyOffset(60+10*i), time.Time{}) }()
				}
				for range cap(results) {
					var se *SyncError
					if err := <-results; !errors.Is(err, ErrFlushFailed) || !errors.As(err, &se) || se.From != 50 || se.To != 150 {
						t.Fatalf("a waiter got %v", err)
					}
				}
				synctest.Wait()
				for _, notes := range told {
					if len(notes) != 2 || notes[0] != (note{50, nil}) || notes[1].upTo != 50 || !errors.Is(notes[1].err, ErrFlushFailed) {
						t.Fatalf("a subscriber was told %v", notes)
					}
				}
				c.Request(log.append(10))
				if err := c.Wait(log.Wrote(), time.Time{}); !errors.Is(err, ErrFlushFailed) {
					t.Fatalf("a later waiter got %v", err)
				}
				if err := c.Wait(50, time.Time{}); err != nil {
					t.Fatalf("what is durable stays so: %v", err)
				}
				if err := c.Stop(); !errors.Is(err, ErrFlushFailed) || c.Err() != err {
					t.Fatalf("Stop gave %v", err)
				}
				if log.syncs.Load() != 2 || c.Flushed() != 50 || !c.Stats().Failed {
					t.Fatalf("%d syncs, flushed %d", log.syncs.Load(), c.Flushed())
				}
				if bad.err != nil && !errors.Is(c.Err(), syscall.EIO) {
					t.Fatal("the cause is lost:", c.Err())
				}
			})
		})
	}
}

func TestWaitGivesUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: func(int64) answer { return answer{takes: time.Minute} }}
		c := started(t, log, Options{Sync: true})
		c.Request(log.append(1))
		begin := time.Now()
		if err := c.Wait(1, begin.Add(5*time.Second)); !errors.Is(err, ErrFlushTimeout) || time.Since(begin) != 5*time.Second {
			t.Fatal(err, time.Since(begin))
		}
		if err := c.Wait(1, begin); !errors.Is(err, ErrFlushTimeout) {
			t.Fatal(err)
		}
		if s := c.Stats(); s.Waiters != 0 || s.Timeouts != 2 || s.RunningNs != int64(5*time.Second) || s.WaitingBytes != 1 {
			t.Fatalf("%+v", s)
		}
		if err := c.Wait(1, time.Time{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{plan: func(int64) answer { return answer{takes: time.Minute} }}
		c := started(t, log, Options{Sync: true})
		log.append(1)
		results := make(chan error, MaxWaiters)
		for range MaxWaiters {
			go func() { results <- c.Wait(1, time.Time{}) }()
		}
		synctest.Wait()
		if err := c.Wait(1, time.Time{}); !errors.Is(err, ErrTooManyWaiters) || c.Stats().WaitersRefused != 1 {
			t.Fatal(err)
		}
		for range MaxWaiters {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestStopMakesALastSync(t *testing.T) {
	for _, opts := range []Options{{Sync: true}, {Pace: Pace{Interval: time.Hour}}} {
		synctest.Test(t, func(t *testing.T) {
			log := &fakeLog{plan: slowDisk}
			c := started(t, log, opts)
			log.append(123) // nobody requested it
			hopeless := make(chan error)
			go func() { hopeless <- c.Wait(1000, time.Time{}) }()
			synctest.Wait()
			if err := c.Stop(); err != nil || c.Flushed() != 123 {
				t.Fatal(err, c.Flushed())
			}
			if err := <-hopeless; !errors.Is(err, ErrStopped) {
				t.Fatal("waiting for what was never appended:", err)
			}
			if err := c.Wait(1000, time.Time{}); !errors.Is(err, ErrStopped) {
				t.Fatal(err)
			}
			if err := c.Wait(123, time.Time{}); err != nil {
				t.Fatal(err)
			}
			c.Request(log.append(1)) // a late one neither blocks nor syncs
			if err := c.Stop(); err != nil || log.syncs.Load() != 1 {
				t.Fatal(err, log.syncs.Load())
			}
		})
	}
}

func TestStopWithoutStart(t *testing.T) {
	c := New(&fakeLog{}, Options{Sync: true})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(1, time.Time{}); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
}

// A caller that requests what is not written must not make the flusher spin: in a bubble a spinning goroutine would
// never let the clock advance.
func TestRequestBeyondWroteDoesNotSpin(t *testing.T) {
	for _, sync := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			log := &fakeLog{}
			c := started(t, log, Options{Sync: sync, Pace: Pace{Interval: time.Second, ThoroughInterval: time.Second}})
			c.Request(1000)
			if err := c.Wait(1000, time.Now().Add(time.Hour)); !errors.Is(err, ErrFlushTimeout) || log.syncs.Load() != 0 {
				t.Fatal(err, log.syncs.Load())
			}
			c.Request(log.append(10))
			synctest.Wait()
			if c.Flushed() != 10 {
				t.Fatalf("flushed %d", c.Flushed())
			}
		})
	}
}

func TestStatsCountSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := []time.Duration{10 * time.Microsecond, 16 * time.Microsecond, 17 * time.Microsecond, time.Millisecond, time.Minute, time.Microsecond}
		log := &fakeLog{plan: func(n int64) answer { return answer{takes: times[n-1]} }}
		c := started(t, log, Options{Sync: true})
		for range times {
			if err := c.Wait(log.append(5), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		s := c.Stats()
		if s.Syncs != 6 || s.Bytes != 30 || s.LastNs != 1000 || s.LongestNs != int64(time.Minute) || s.RunningNs != 0 ||
			s.Flushed != 30 || s.Requested != 30 || s.UnflushedBytes != 0 {
			t.Fatalf("%+v", s)
		}
		want := [BucketCount]int64{0: 3, 1: 1, 6: 1, BucketCount - 1: 1}
		if s.Buckets != want {
			t.Fatalf("%v", s.Buckets)
		}
		for i := range BucketCount - 1 {
			if b := BucketUpperNs(i); bucketOf(b) != i || bucketOf(b+1) != i+1 {
				t.Fatalf("bucket %d does not end at %d", i, b)
			}
		}
	})
}
