package bench

import (
	"fmt"
	"math"
	"runtime"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"peregrine/internal/sysio"
)

// Report is the result of one load, in the form of the --json file. Times are nanoseconds unless a name says seconds.
type Report struct {
	Conditions Conditions `json:"conditions"`

	Seconds     float64 `json:"seconds"`     // measured length
	Interrupted bool    `json:"interrupted"` // ended early by the user
	Rate        float64 `json:"rate"`        // acknowledged messages a second, errors excluded
	BytesRate   float64 `json:"bytesRate"`   // their bodies, bytes a second

	Offered uint64 `json:"offered,omitempty"` // open loop: messages that the schedule wanted sent
	Skipped uint64 `json:"skipped,omitempty"` // open loop: of these, not sent because too many were unfinished
	Sent    uint64 `json:"sent"`
	Acked   uint64 `json:"acked"` // answered with code 0, drain included, warm-up excluded
	Strange uint64 `json:"strange,omitempty"`

	Consume *ConsumeResult `json:"consume,omitempty"`
	Freeze  *Freeze        `json:"freeze,omitempty"`

	Errors       []ErrorCount  `json:"errors,omitempty"` // of the whole run, warm-up included
	Reconnects   int           `json:"reconnects,omitempty"`
	OutageMax    time.Duration `json:"outageMaxNs,omitempty"` // longest time without a connection
	Response     *Latency      `json:"response,omitempty"`    // open loop: from the intended send time
	Service      *Latency      `json:"service"`               // from the real send time
	GeneratorLag *Latency      `json:"generatorLag,omitempty"`
	Clamped      uint64        `json:"clamped,omitempty"` // latencies longer than the histogram reaches

	GeneratorCores float64         `json:"generatorCores"` // processors that the generator used on average
	Dispatch       *DispatchResult `json:"dispatch,omitempty"`
	Series         []SeriesPoint   `json:"series"`
	Warnings       []string        `json:"warnings,omitempty"`
	Failures       []string        `json:"failures,omitempty"` // why the exit code is not 0
}

// Conditions are what a number means nothing without.
type Conditions struct {
	Machine     sysio.Machine `json:"machine"`
	Time        time.Time     `json:"time"`
	Brokers     []Broker      `json:"brokers"`
	Probe       *Probe        `json:"probe,omitempty"`    // of a device
	Command     string        `json:"command"`            // send, pull …
	Mode        string        `json:"mode"`               // "open loop" or "closed loop"
	Arrivals    string        `json:"arrivals,omitempty"` // open loop: "constant" or "Poisson"
	TargetRate  float64       `json:"targetRate,omitempty"`
	Topic       string        `json:"topic"`
	BodyBytes   int           `json:"bodyBytes"`
	Batch       int           `json:"batch"`
	Connections int           `json:"connections"`
	Inflight    int           `json:"inflight"` // per connection (closed loop) or in all (open loop)
	Encoding    string        `json:"encoding"`
	Tags        string        `json:"tags"`
	Keys        bool          `json:"keys"`
	Key         string        `json:"key,omitempty"` // the same for all messages
	Threads     int           `json:"threads"`
	Warmup      float64       `json:"warmupSeconds"`

	Groups          int     `json:"groups,omitempty"`
	PullConnections int     `json:"pullConnections,omitempty"` // of each group
	PullBatch       int     `json:"pullBatch,omitempty"`
	Backlog         int     `json:"backlog,omitempty"`
	Delayed         float64 `json:"delayed,omitempty"` // share of messages
}

// Broker is a server under load, as far as it tells.
type Broker struct {
	Addr     string            `json:"addr"`
	Name     string            `json:"name,omitempty"`
	Version  string            `json:"version,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	Queues   int               `json:"queues"`
}

// ErrorCount is how often one outcome other than success was seen, in messages.
type ErrorCount struct {
	Code   int32  `json:"code"`
	Name   string `json:"name"`
	Count  uint64 `json:"count"`
	Remark string `json:"remark,omitempty"` // an example
}

// Latency is a distribution of requests, in nanoseconds.
type Latency struct {
	Count  int64   `json:"count"`
	MeanNs float64 `json:"meanNs"`
	MinNs  int64   `json:"minNs"`
	P50Ns  int64   `json:"p50Ns"`
	P90Ns  int64   `json:"p90Ns"`
	P99Ns  int64   `json:"p99Ns"`
	P999Ns int64   `json:"p99_9Ns"`
	P9999  int64   `json:"p99_99Ns"`
	MaxNs  int64   `json:"maxNs"`

	Curve []float64 `json:"curveMs,omitempty"` // see curveOf
}

func latencyOf(h *hdr.Histogram) *Latency {
	if h == nil {
		return nil
	}
	if h.TotalCount() == 0 {
		return &Latency{}
	}
	return &Latency{
		Count: h.TotalCount(), MeanNs: h.Mean(), MinNs: h.Min(), P50Ns: h.ValueAtPercentile(50), P90Ns: h.ValueAtPercentile(90),
		P99Ns: h.ValueAtPercentile(99), P999Ns: h.ValueAtPercentile(99.9), P9999: h.ValueAtPercentile(99.99), MaxNs: h.Max(), Curve: curveOf(h),
	}
}

// curveOf is the distribution for a chart: milliseconds at 0, 0.1, 0.2 … nines (50 % has 0.3, 99 % has 2), as far as the samples tell.
func curveOf(h *hdr.Histogram) (curve []float64) {
	for i := 0; ; i++ {
		beyond := math.Pow(10, -float64(i)/10)
		if beyond*float64(h.TotalCount()) < 1 {
			return curve
		}
		curve = append(curve, float64(h.ValueAtPercentile(100*(1-beyond)))/1e6)
	}
}

func conditionsOf(o *Options) Conditions {
	c := Conditions{
		Machine: sysio.Fingerprint(""), Time: time.Now().Round(time.Second), Mode: "closed loop", Topic: o.Topic, BodyBytes: o.Size, Batch: o.Batch,
		Connections: o.Connections, Inflight: o.Inflight, Encoding: o.Encoding.String(), Tags: o.Tags, Keys: o.Keys, Key: o.Key, Threads: o.Threads, Warmup: o.Warmup.Seconds(),
	}
	c.Command = o.Mode
	if o.consumes != consumeNothing {
		c.Groups, c.PullConnections, c.PullBatch, c.Backlog, c.Delayed = o.Groups, o.PullConnections, o.PullBatch, o.Backlog, o.Delayed
	}
	if o.Rate > 0 {
		c.Mode, c.Arrivals, c.TargetRate, c.Inflight = "open loop", "constant", o.Rate, o.MaxInflight
		if o.Poisson {
			c.Arrivals = "Poisson"
		}
	}
	return c
}

// title is the load in one line.
func (c *Conditions) title() string {
	load := fmt.Sprintf("closed loop, %d in flight each", c.Inflight)
	if c.TargetRate > 0 {
		load = fmt.Sprintf("open loop, %.0f messages/s, %s arrivals, at most %d in flight", c.TargetRate, c.Arrivals, c.Inflight)
	}
	batch := ""
	if c.Batch > 1 {
		batch = fmt.Sprintf(" in batches of %d", c.Batch)
	}
	many := "s"
	if c.Connections == 1 {
		many = ""
	}
	title := fmt.Sprintf("%s %d B%s, %d connection%s, %s, %s headers", c.Command, c.BodyBytes, batch, c.Connections, many, load, c.Encoding)
	if c.Connections == 0 {
		title = fmt.Sprintf("%s %d B, %s headers", c.Command, c.BodyBytes, c.Encoding)
	}
	if c.Groups > 0 {
		title += fmt.Sprintf("; consumer groups: %d, of %d connections, %d messages a pull", c.Groups, c.PullConnections, c.PullBatch)
	}
	return title
}

// fill computes what the run means.
func (rep *Report) fill(r *run, out *outcome) {
	w := out.whole
	rep.Interrupted = out.interrupted
	rep.Seconds = max(float64(out.windowNs)/1e9, 0)
	if out.windowNs > 0 {
		rep.Rate = float64(out.ackedInWindow) / rep.Seconds
		rep.BytesRate = rep.Rate * float64(r.opts.Size)
	}
	rep.Offered, rep.Skipped, rep.Sent, rep.Acked, rep.Strange = w.offered, w.skipped, w.sent, w.acked, w.strange
	all := w.errors
	all.merge(&out.warmup.errors)
	for _, e := range all.rows[:all.n] {
		rep.Errors = append(rep.Errors, ErrorCount{Code: e.code, Name: codeName(e.code), Count: e.count, Remark: e.remark})
	}
	rep.Reconnects, rep.OutageMax = w.reconnects+out.warmup.reconnects, time.Duration(max(w.outageMaxNs, out.warmup.outageMaxNs))
	rep.Response, rep.Service, rep.GeneratorLag, rep.Clamped = latencyOf(w.response), latencyOf(w.service), latencyOf(w.lag), w.clampedCount
	rep.GeneratorCores = out.cpu.Seconds() / (float64(out.lastAnswerNs-r.cuts[0]) / 1e9)
	rep.Series = out.measured
	rep.fillConsume(r, out)
	rep.judge(r)
}

// wantedRate is what an open loop had to reach. Arrivals at random are now more and now fewer than the rate says, in a short run by
// several percent, so those that came are what counts.
func (rep *Report) wantedRate(r *run) float64 {
	if r.opts.Poisson && rep.Seconds > 0 {
		return min(r.opts.Rate, float64(rep.Offered)/rep.Seconds)
	}
	return r.opts.Rate
}

// judge collects what makes the numbers doubtful, and what makes the run a failure.
func (rep *Report) judge(r *run) {
	warn := func(format string, args ...any) { rep.Warnings = append(rep.Warnings, fmt.Sprintf(format, args...)) }
	fail := func(format string, args ...any) { rep.Failures = append(rep.Failures, fmt.Sprintf(format, args...)) }
	m := rep.Conditions.Machine
	if m.Load[0] > 0.5*float64(m.LogicalCores) {
		warn("the machine was not quiet: load average %.1f on %d cores before the run", m.Load[0], m.LogicalCores)
	}
	for _, t := range r.targets {
		if t.ap.Addr().IsLoopback() {
			warn("broker and generator share one machine: both rates and latencies include the other's use of %d cores", runtime.NumCPU())
			break
		}
	}
	if rep.GeneratorLag != nil && rep.GeneratorLag.P99Ns > int64(lateGeneratorMax) {
		warn("the generator itself was late: p99 %v; response times include that", time.Duration(rep.GeneratorLag.P99Ns).Round(time.Microsecond))
		if rep.GeneratorLag.P99Ns > int64(lateGeneratorBad) && (rep.Response == nil || rep.GeneratorLag.P50Ns*2 > rep.Response.P50Ns) {
			fail("the generator was so late (p99 %v) that the times are its own, not the broker's", time.Duration(rep.GeneratorLag.P99Ns).Round(time.Microsecond))
		}
	}
	if rep.Clamped > 0 {
		warn("%d latencies were longer than %v and count as that", rep.Clamped, time.Duration(latencyMaxNs))
	}
	if rep.Strange > 0 {
		warn("%d answers belonged to no request", rep.Strange)
	}
	for _, b := range rep.Conditions.Brokers {
		if flush := b.Settings["flushDiskType"]; rep.Conditions.Command == "sync" && flush != "SYNC_FLUSH" {
			fail("%s answers without a sync: flushDiskType is %q", b.Addr, flush)
		}
	}
	if rep.Interrupted {
		fail("interrupted after %.1f of %.1f measured seconds", rep.Seconds, r.opts.Duration.Seconds())
	}
	rep.judgeConsume(r, warn, fail)
	for _, e := range rep.Errors {
		fail("%d messages failed: %s", e.Count, e.Name)
	}
	if rep.Acked == 0 && r.opts.Connections > 0 && !rep.Interrupted {
		fail("no message was acknowledged")
	}
	if r.opts.Rate > 0 && !rep.Interrupted {
		if rep.Skipped > 0 {
			fail("target missed: %d of %d messages were skipped because %d were unfinished", rep.Skipped, rep.Offered, r.opts.MaxInflight)
		} else if wanted := rep.wantedRate(r); rep.Rate < targetRateShare*wanted {
			fail("target missed: %.0f of %.0f messages/s", rep.Rate, wanted)
		}
	}
	if d := rep.Dispatch; d != nil && !d.InTime {
		if d.Level {
			fail("dispatch was level only %.2f s after the run (at most %v): the rate does not count", d.AfterSeconds, dispatchLevelMax)
		} else {
			fail("dispatch is not level: %d of %d messages are visible after %.0f s", d.Grown, d.Acknowledged, d.AfterSeconds)
		}
	}
}
