package bench

import (
	"math"
	"math/rand/v2"
)

// schedule is the arrival plan of one worker in an open loop: intended send times, evenly spaced or at random, and the queue of
// arrivals that were admitted but could not be composed yet. Memory is bounded by the queue's fixed capacity: an arrival
// that finds as many requests unfinished as may be is skipped and counted, the ones before it keep their places.
type schedule struct {
	firstNs   int64      // intended time of arrival 0
	gapNs     float64    // between two arrivals
	next      int64      // number of the next arrival, of a fixed grid
	nextAt    int64      // its intended time
	random    *rand.Rand // nil = a fixed grid
	atNs      float64    // nextAt, with what is below a nanosecond
	endNs     int64      // no arrival at or after this time
	queue     []int64    // ring of intended times
	head, len int
}

// newSchedule plans rate messages a second from startNs on. phase, 0 to 1, shifts the grid by a part of the gap, so that
// several workers do not fire together. capacity bounds the queue.
func newSchedule(startNs, endNs int64, rate, phase float64, capacity int) *schedule {
	gap := 1e9 / rate
	first := startNs + int64(gap*phase)
	return &schedule{firstNs: first, nextAt: first, gapNs: gap, endNs: endNs, queue: make([]int64, capacity)}
}

// newPoisson plans rate messages a second on average, with exponentially distributed gaps: what many independent clients do together.
func newPoisson(startNs, endNs int64, rate float64, seed uint64, capacity int) *schedule {
	s := newSchedule(startNs, endNs, rate, 0, capacity)
	s.random, s.atNs = rand.New(rand.NewPCG(seed, uint64(startNs))), float64(startNs)
	s.advance()
	return s
}

// advance goes on to the next arrival.
func (s *schedule) advance() {
	s.next++
	if s.random == nil {
		s.nextAt = s.firstNs + int64(float64(s.next)*s.gapNs)
		return
	}
	s.atNs += s.random.ExpFloat64() * s.gapNs
	s.nextAt = int64(s.atNs)
}

// nextNs is the intended time of the next arrival, math.MaxInt64 when there is none any more.
func (s *schedule) nextNs() int64 {
	if s.nextAt < s.endNs {
		return s.nextAt
	}
	return math.MaxInt64
}

// admit takes all arrivals up to and including dueNs, which is not later than nowNs. unanswered is how many requests are on
// the wire, max how many unfinished ones there may be. It returns how many arrivals were due, how many of them were skipped,
// and how late the first one was noticed.
//
// hot: 0 allocs
func (s *schedule) admit(dueNs, nowNs int64, unanswered, max int) (due, skipped int, lagNs int64) {
	for {
		t := s.nextAt
		if t > dueNs || t >= s.endNs {
			return due, skipped, lagNs
		}
		if due == 0 {
			lagNs = nowNs - t
		}
		s.advance()
		due++
		if unanswered+s.len >= max || s.len == len(s.queue) {
			skipped++
			continue
		}
		at := s.head + s.len
		if at >= len(s.queue) {
			at -= len(s.queue)
		}
		s.queue[at] = t
		s.len++
	}
}

// pop takes the oldest admitted arrival; the queue must not be empty.
//
// hot: 0 allocs
func (s *schedule) pop() (intendedNs int64) {
	t := s.queue[s.head]
	s.head++
	if s.head == len(s.queue) {
		s.head = 0
	}
	s.len--
	return t
}
