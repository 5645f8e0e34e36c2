package delay

import (
	"sync/atomic"

	"peregrine/internal/message"
)

// LatenessBounds are the upper bounds of the classes of lateness, in milliseconds; a last class has the rest.
var LatenessBounds = [...]message.Millis{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 60_000}

// levelCounters are written by a level's goroutine and read by anybody.
type levelCounters struct {
	lateness      [len(LatenessBounds) + 1]atomic.Uint64
	latenessSum   atomic.Uint64 // ms
	undeliverable atomic.Uint64
	expired       atomic.Uint64
	failures      atomic.Uint64
}

// delivered counts one delivery, late by so much.
func (c *levelCounters) delivered(late message.Millis) {
	late = max(late, 0)
	class := 0
	for class < len(LatenessBounds) && late > LatenessBounds[class] {
		class++
	}
	c.lateness[class].Add(1)
	c.latenessSum.Add(uint64(late))
}

// LevelStats is what one level did since the start.
type LevelStats struct {
	Level         int
	Next, Max     message.QueueOffset // delivered is what lies below Next; Max is the end of the level's queue
	Delivered     uint64
	Lateness      [len(LatenessBounds) + 1]uint64 // deliveries by class of LatenessBounds
	LatenessSumMs uint64
	Undeliverable uint64 // passed over: no later attempt can deliver them
	Expired       uint64 // retention deleted them before they were due
	Failures      uint64 // attempts that will be made again
}

// Pending is how many messages wait.
func (s *LevelStats) Pending() int64 { return max(0, int64(s.Max-s.Next)) }

// Stats is a snapshot for metrics.
type Stats struct {
	Levels    []LevelStats // level 1 first
	Corrected uint64       // stored offsets that lay outside of their queue
	Found     uint64       // deliveries of before a crash that were found in the log
}

// Stats may be called by any goroutine.
func (s *Service) Stats() Stats {
	stats := Stats{Levels: make([]LevelStats, len(s.levels)), Corrected: s.corrected.Load(), Found: s.found.Load()}
	for i, l := range s.levels {
		st := &stats.Levels[i]
		st.Level = i + 1
		st.Next = message.QueueOffset(l.shown.Load())
		if q := s.opts.Store.LookupQueue(scheduleTopic, l.id); q != nil {
			st.Max = q.Max()
		}
		c := &l.counters
		for class := range c.lateness {
			st.Lateness[class] = c.lateness[class].Load()
			st.Delivered += st.Lateness[class]
		}
		st.LatenessSumMs, st.Undeliverable = c.latenessSum.Load(), c.undeliverable.Load()
		st.Expired, st.Failures = c.expired.Load(), c.failures.Load()
	}
	return stats
}
