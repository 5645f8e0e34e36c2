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
	pulls    uint64 // answers to pulls
	received uint64 // by consumers, of all groups
	errors   tally

	receivedBytes uint64 // of their bodies

	reconnects   int
	outageMaxNs  int64 // longest time from a lost connection to its replacement
	clampedCount uint64

	response *hdr.Histogram // ns from the intended send time; nil in a closed loop
	service  *hdr.Histogram // ns from the real send time
	lag      *hdr.Histogram // ns that the generator noticed an arrival late, one sample a turn; nil in a closed loop
	delivery *hdr.Histogram // ns from the intended send time to the arrival at a consumer that keeps up; nil without consumers
	pull     *hdr.Histogram // ns from a pull to its answer with messages; nil where pulls are held, or without consumers
}

func newHistogram() *hdr.Histogram { return hdr.New(1, latencyMaxNs, latencyDigits) }

func newInterval(o *Options) *interval {
	iv := &interval{service: newHistogram()}
	if o.Rate > 0 {
		iv.response, iv.lag = newHistogram(), newHistogram()
	}
	switch o.consumes {
	case consumeNothing:
	case consumeArriving:
		iv.delivery = newHistogram()
	default:
		iv.pull = newHistogram()
	}
	return iv
}

// chief are the times that matter most: of deliveries, else pulls, else responses (open loop), else service times.
func (iv *interval) chief() *hdr.Histogram {
	for _, h := range []*hdr.Histogram{iv.delivery, iv.pull, iv.response} {
		if h != nil {
			return h
		}
	}
	return iv.service
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
	kept := interval{response: iv.response, service: iv.service, lag: iv.lag, delivery: iv.delivery, pull: iv.pull}
	for _, h := range []*hdr.Histogram{kept.response, kept.service, kept.lag, kept.delivery, kept.pull} {
		if h != nil {
			h.Reset()
		}
	}
	*iv = kept
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
	iv.pulls += from.pulls
	iv.received += from.received
	iv.receivedBytes += from.receivedBytes
	iv.errors.merge(&from.errors)
	iv.reconnects += from.reconnects
	iv.outageMaxNs = max(iv.outageMaxNs, from.outageMaxNs)
	iv.clampedCount += from.clampedCount
	for _, h := range [...]struct{ to, from *hdr.Histogram }{
		{iv.service, from.service}, {iv.response, from.response}, {iv.lag, from.lag}, {iv.delivery, from.delivery}, {iv.pull, from.pull},
	} {
		if h.to != nil {
			h.to.Merge(h.from)
		}
	}
}
