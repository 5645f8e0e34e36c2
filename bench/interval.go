package bench

import hdr "github.com/HdrHistogram/hdrhistogram-go"

// interval is what one worker saw between two cuts. Counts are messages (a batch counts each of its messages) unless they say requests; they go
// by the time at which a thing happened, latencies by whether the message was meant for the measured part of the run.
type interval struct {
	startNs, endNs int64 // of the interval, on the run's clock; the workers' intervals with one number have equal bounds
	measured       bool  // inside the measured part: counts towards the rate

	offered  uint64 // arrivals due (open loop)
	skipped  uint64 // arrivals refused because too many requests were unfinished (open loop)
	sent     uint64
	acked    uint64 // answered with code 0
	strange  uint64 // answers that nobody waited for, in frames
	requests uint64 // answers taken, in frames
	errors   tally

	reconnects   int
	outageMaxNs  int64 // longest time from a lost connection to its replacement
	clampedCount uint64

	response *hdr.Histogram // ns from the intended send time; nil in a closed loop
	service  *hdr.Histogram // ns from the real send time
	lag      *hdr.Histogram // ns that the generator noticed an arrival late, one sample a turn; nil in a closed loop
}

func newHistogram() *hdr.Histogram { return hdr.New(1, latencyMaxNs, latencyDigits) }

func newInterval(openLoop bool) *interval {
	iv := &interval{service: newHistogram()}
	if openLoop {
		iv.response, iv.lag = newHistogram(), newHistogram()
	}
	return iv
}

// record counts one latency; what is longer than the histogram reaches counts as its maximum.
//
// hot: 0 allocs
func (iv *interval) record(h *hdr.Histogram, ns int64) {
	if ns > latencyMaxNs {
		ns = latencyMaxNs
		iv.clampedCount++
	}
	_ = h.RecordValue(max(ns, 1)) // in range by the two lines above
}

// reset empties the interval for its next use.
func (iv *interval) reset() {
	response, service, lag := iv.response, iv.service, iv.lag
	for _, h := range []*hdr.Histogram{response, service, lag} {
		if h != nil {
			h.Reset()
		}
	}
	*iv = interval{response: response, service: service, lag: lag}
}

// merge adds what another worker saw in the same time.
func (iv *interval) merge(from *interval) {
	iv.startNs, iv.endNs, iv.measured = from.startNs, from.endNs, from.measured
	iv.add(from)
}

// add adds counts and latencies, not bounds: it is how intervals become the whole run.
func (iv *interval) add(from *interval) {
	iv.offered += from.offered
	iv.skipped += from.skipped
	iv.sent += from.sent
	iv.acked += from.acked
	iv.strange += from.strange
	iv.requests += from.requests
	iv.errors.merge(&from.errors)
	iv.reconnects += from.reconnects
	iv.outageMaxNs = max(iv.outageMaxNs, from.outageMaxNs)
	iv.clampedCount += from.clampedCount
	iv.service.Merge(from.service)
	if iv.response != nil {
		iv.response.Merge(from.response)
		iv.lag.Merge(from.lag)
	}
}
