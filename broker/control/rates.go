package control

import (
	"sync"
	"time"

	"peregrine/internal/message"
)

// Counters are sums since the start of the broker.
type Counters struct {
	Puts        uint64 // messages stored, those that the broker made itself, too
	PutBytes    uint64 // bytes of their records
	PutsRefused uint64
	GetsFound   uint64 // pulls that found messages
	GetsMissed  uint64 // pulls that found none
	Gets        uint64 // messages handed out
	UserPuts    uint64 // as Puts, system topics left out
	UserGets    uint64 // as Gets, system topics left out
}

const (
	sampleEvery = 1000 // ms; a sample that comes sooner is dropped
	samplesMax  = 601  // ten minutes
)

// Rates samples the counters for the rates and the day's sums of code 28. It may be used from any goroutine.
type Rates struct {
	counters func() Counters

	mu        sync.Mutex // leaf
	samples   []sample   // ring, oldest at next once it is full
	next      int
	day       int // of the year, of the last sample
	today     Counters
	yesterday Counters
}

type sample struct {
	at       message.Millis
	counters Counters
}

// NewRates makes a Rates that reads counters, which must be cheap and safe to call from any goroutine.
func NewRates(counters func() Counters) *Rates { return &Rates{counters: counters, day: -1} }

// Sample takes a sample. Call it every second, or less often for coarser rates.
func (r *Rates) Sample(now message.Millis) {
	c := r.counters()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.samples); n > 0 && now-r.samples[(r.next+n-1)%n].at < sampleEvery {
		return
	}
	if day := time.UnixMilli(int64(now)).YearDay(); day != r.day {
		if r.day >= 0 {
			r.yesterday, r.today = r.today, c
		}
		r.day = day
	}
	if len(r.samples) < samplesMax {
		r.samples = append(r.samples, sample{now, c})
		return
	}
	r.samples[r.next] = sample{now, c}
	r.next = (r.next + 1) % samplesMax
}

// over returns how fast a counter grew during the last window: the newest value against the youngest sample that is old
// enough, or the oldest there is.
func (r *Rates) over(now, window message.Millis, current uint64, value func(*Counters) uint64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.samples)
	if n == 0 {
		return 0
	}
	then := &r.samples[r.next%n]
	for i := n - 1; i >= 0; i-- {
		if s := &r.samples[(r.next+i)%n]; now-s.at >= window {
			then = s
			break
		}
	}
	if now <= then.at {
		return 0
	}
	return float64(current-value(&then.counters)) * 1000 / float64(now-then.at)
}

// triple is the text of the rates over 10 s, 1 min and 10 min.
func (r *Rates) triple(now message.Millis, current *Counters, value func(*Counters) uint64) string {
	var text []byte
	for i, window := range []message.Millis{10_000, 60_000, 600_000} {
		if i > 0 {
			text = append(text, ' ')
		}
		text = append(text, decimal(r.over(now, window, value(current), value))...)
	}
	return string(text)
}

// mornings are the counters at yesterday's and today's midnight; since the start only, as the original's.
func (r *Rates) mornings() (yesterday, today Counters) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.yesterday, r.today
}
