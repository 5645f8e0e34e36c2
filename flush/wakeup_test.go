package flush

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"peregrine/internal/message"
)

// A lost wake-up leaves the flusher asleep over a requested position. Each round waits until its own bytes are durable
// before it appends again, so that the flusher goes to sleep all the time, and no later request repairs a loss.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds = 200_000
	for _, requesters := range []int{1, 4} {
		t.Run(fmt.Sprint(requesters), func(t *testing.T) {
			log := &fakeLogFast{}
			c := started(t, log, Options{Sync: true})
			stuck := time.AfterFunc(60*time.Second, func() {
				buf := make([]byte, 1<<20)
				panic(fmt.Sprintf("a wake-up was lost: requested %d, flushed %d\n%s", c.requested.Load(), c.Flushed(), buf[:runtime.Stack(buf, true)]))
			})
			defer stuck.Stop()
			var all sync.WaitGroup
			for range requesters {
				all.Go(func() {
					for range rounds / requesters {
						end := log.append(1)
						c.Request(end)
						for c.Flushed() < end {
							runtime.Gosched()
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// The same for Wait, whose waiters register while the flusher releases.
func TestNoWaiterIsForgotten(t *testing.T) {
	const rounds = 40_000
	log := &fakeLogFast{}
	c := started(t, log, Options{Pace: Pace{Interval: time.Hour, ThoroughInterval: time.Hour}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range rounds / 4 {
				end := log.append(1)
				c.Request(end)
				if err := c.Wait(end, time.Now().Add(60*time.Second)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if s := c.Stats(); s.Waiters != 0 {
		t.Fatalf("%+v", s)
	}
}

// fakeLogFast syncs at once and remembers nothing.
type fakeLogFast struct{ fakeLog }

func (l *fakeLogFast) Sync(to message.PhyOffset) (message.PhyOffset, error) { return to, nil }

func TestRequestAllocatesNothing(t *testing.T) {
	for _, opts := range []Options{{Sync: true}, {Pace: Pace{Interval: time.Hour, ThoroughInterval: time.Hour}}} {
		log := &fakeLogFast{}
		c := started(t, log, opts)
		if n := testing.AllocsPerRun(1000, func() { c.Request(log.append(1)) }); n != 0 {
			t.Errorf("%v allocations a request", n)
		}
		// With a flusher that sleeps each time: the wake-up and the sync allocate nothing either.
		if n := testing.AllocsPerRun(1000, func() {
			end := log.append(1)
			c.Request(end)
			for opts.Sync && c.Flushed() < end {
				runtime.Gosched()
			}
		}); n != 0 {
			t.Errorf("%v allocations a request and sync", n)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	log := &fakeLogFast{}
	c := started(b, log, Options{Pace: Pace{Interval: time.Hour, ThoroughInterval: time.Hour}})
	b.ReportAllocs()
	for b.Loop() {
		c.Request(log.append(1))
	}
}

// BenchmarkRequestToFlushed is the price of going through the flusher's sleep, without any disk.
func BenchmarkRequestToFlushed(b *testing.B) {
	log := &fakeLogFast{}
	c := started(b, log, Options{Sync: true})
	b.ReportAllocs()
	for b.Loop() {
		end := log.append(1)
		c.Request(end)
		for c.Flushed() < end {
			runtime.Gosched()
		}
	}
}
