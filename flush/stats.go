package flush

import (
	"math"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/stagetime"
)

// Stats is a snapshot for metrics. The fields are read one after the other, not at one instant.
type Stats struct {
	Requested message.PhyOffset // highest end announced by an append
	Flushed   message.PhyOffset // everything below is durable

	WaitingBytes   int64 // announced and not durable yet
	UnflushedBytes int64 // written and not durable yet
	Waiters        int   // goroutines blocked in Wait
	WaitersRefused int64 // answered ErrTooManyWaiters
	Timeouts       int64 // answered ErrFlushTimeout

	Syncs     int64 // syncs that ended, failed ones included
	Bytes     int64 // bytes made durable
	LastNs    int64 // duration of the last sync
	LongestNs int64 // duration of the longest sync
	TotalNs   int64 // sum of all durations
	RunningNs int64 // how long the sync that is running now takes so far, 0 if none runs: a stuck disk shows here
	Failed    bool  // see Committer.Err

	// Buckets counts syncs by duration: bucket i holds those of at most BucketUpperNs(i) and more than the one before.
	Buckets [BucketCount]int64
}

// bucketUnitNs is the upper bound of the first bucket: 16 us. Each next one is twice as wide; the last has no end.
const bucketUnitNs = 16_000

// BucketUpperNs returns the upper bound of bucket i in nanoseconds, math.MaxInt64 for the last one.
func BucketUpperNs(i int) int64 {
	if i >= BucketCount-1 {
		return math.MaxInt64
	}
	return bucketUnitNs << i
}

// bucketOf returns the bucket of a duration.
func bucketOf(ns int64) int { return stagetime.Bucket(ns, bucketUnitNs, BucketCount) }

// counters are written by the flusher (timeouts and refused by waiters) and read by Stats.
type counters struct {
	syncs, bytes, lastNs, longestNs, totalNs atomic.Int64
	epoch                                    time.Time    // set once; the origin of runningSince
	runningSince                             atomic.Int64 // nanoseconds from epoch to the begin of the sync that runs, plus 1; 0: none
	timeouts, refused                        atomic.Int64
	buckets                                  [BucketCount]atomic.Int64
}

func (c *counters) begin(at time.Time) { c.runningSince.Store(int64(at.Sub(c.epoch)) + 1) }

func (c *counters) end(took time.Duration) {
	ns := int64(took)
	c.runningSince.Store(0)
	c.syncs.Add(1)
	c.lastNs.Store(ns)
	c.totalNs.Add(ns)
	c.longestNs.Store(max(c.longestNs.Load(), ns))
	c.buckets[bucketOf(ns)].Add(1)
}

// Stats returns the counters. Any goroutine may call it; it takes the waiters' lock for an instant.
func (c *Committer) Stats() Stats {
	s := Stats{
		Requested:      message.PhyOffset(c.requested.Load()),
		Flushed:        c.Flushed(),
		WaitersRefused: c.counters.refused.Load(),
		Timeouts:       c.counters.timeouts.Load(),
		Syncs:          c.counters.syncs.Load(),
		Bytes:          c.counters.bytes.Load(),
		LastNs:         c.counters.lastNs.Load(),
		LongestNs:      c.counters.longestNs.Load(),
		TotalNs:        c.counters.totalNs.Load(),
		Failed:         c.failure.Load() != nil,
	}
	s.WaitingBytes = max(0, int64(s.Requested-s.Flushed))
	s.UnflushedBytes = max(0, int64(c.log.Wrote()-s.Flushed))
	if since := c.counters.runningSince.Load(); since != 0 {
		s.RunningNs = max(1, int64(time.Since(c.counters.epoch))-since+1)
	}
	for i := range s.Buckets {
		s.Buckets[i] = c.counters.buckets[i].Load()
	}
	c.mu.Lock()
	s.Waiters = len(c.waiters)
	c.mu.Unlock()
	return s
}
