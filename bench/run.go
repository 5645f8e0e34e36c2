package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"peregrine/internal/message"
)

// run is what the workers of one load share. Everything but endCut is set before they start.
type run struct {
	opts    Options
	base    time.Time // time 0 of the run's clock; all ...Ns are nanoseconds since then
	baseMs  int64     // the same, in milliseconds since 1970
	cuts    []int64   // bounds of the intervals: start of the load, end of the warm-up, then once a second up to the end
	warmNs  int64     // end of the warm-up: messages meant for before are not measured
	targets []*target

	id uint32 // in the stamps of its messages

	// What the workers tell each other at the end: whose sends are over, what was acknowledged, what each group received.
	sendersBusy   atomic.Int64
	acked         atomic.Uint64
	unsure        atomic.Bool // some sends were not acknowledged
	unsureTooMany atomic.Bool
	received      []atomic.Uint64 // by group
	queuesLeft    atomic.Int64    // that are not read to their end
	doneNs        atomic.Int64    // when there were none left

	// endCut is the index in cuts at which sending ends. It starts at the last one; an interrupt moves it to one that no
	// worker has reached. It publishes nothing else.
	endCut atomic.Int64
}

func (r *run) nowNs() int64              { return int64(time.Since(r.base)) }
func (r *run) epochMs(nowNs int64) int64 { return r.baseMs + nowNs/1e6 }
func (r *run) endNs() int64              { return r.cuts[r.endCut.Load()] }

func (r *run) pullConnections() int         { return r.opts.Groups * r.opts.PullConnections }
func (r *run) streams() int                 { return 2 * r.opts.Connections }
func (r *run) isDelayed(stream uint32) bool { return int(stream) >= r.opts.Connections }

// behind tells that a group begins with what was there before the load.
func (r *run) behind(group int) bool {
	return r.opts.consumes == consumeArriving && r.opts.Backlog > 0 && group == r.opts.Groups-1
}

func (r *run) groupName(group int) string { return fmt.Sprintf("%s_%d", r.opts.Group, group) }

// streamOf numbers what arrives in order: a connection's messages, and its delayed ones.
func (r *run) streamOf(connection uint32, delayed bool) uint32 {
	if delayed {
		return connection + uint32(r.opts.Connections)
	}
	return connection
}

// finish ends the run because nothing is left to read.
func (r *run) finish() {
	r.doneNs.Store(r.nowNs())
	r.interrupt()
}

// plan fixes the bounds of the run, starting at startNs.
func (r *run) plan(startNs int64) {
	r.cuts = []int64{startNs}
	r.warmNs = startNs + int64(r.opts.Warmup)
	if r.opts.Warmup > 0 {
		r.cuts = append(r.cuts, r.warmNs)
	}
	end := r.warmNs + int64(r.opts.Duration)
	for at := r.warmNs + int64(time.Second); at < end; at += int64(time.Second) {
		r.cuts = append(r.cuts, at)
	}
	r.cuts = append(r.cuts, end)
	r.endCut.Store(int64(len(r.cuts) - 1))
}

// interrupt ends the sending early, at the first cut that every worker still has before it.
func (r *run) interrupt() {
	soonest := r.nowNs() + int64(200*time.Millisecond)
	for i, at := range r.cuts {
		if at > soonest && int64(i) < r.endCut.Load() {
			r.endCut.Store(int64(i))
			return
		}
	}
}

// outcome is a finished load, summed over workers.
type outcome struct {
	whole    *interval // all measured counts and latencies, drain included
	warmup   *interval // counts before the measured part
	measured []SeriesPoint

	windowNs      int64  // length of the measured part
	ackedInWindow uint64 // messages acknowledged within it: what the rate is made of
	ackedTotal    uint64 // messages acknowledged at any time
	receivedIn    uint64 // messages received within it
	receivedBytes uint64 // their bodies
	groups        []GroupResult
	lastAnswerNs  int64 // when the load was over, drain included
	cpu           time.Duration
	interrupted   bool
}

// SeriesPoint is one second of the run.
type SeriesPoint struct {
	Second   float64           `json:"second"` // start of the interval, from the end of the warm-up
	Length   float64           `json:"length"` // seconds
	Acked    uint64            `json:"acked"`
	Received uint64            `json:"received,omitempty"`
	Offered  uint64            `json:"offered,omitempty"`
	Skipped  uint64            `json:"skipped,omitempty"`
	Errors   map[string]uint64 `json:"errors,omitempty"`
	P50Ns    int64             `json:"p50Ns"` // of what matters most: deliveries, pulls, response times (open loop) or service times
	P99Ns    int64             `json:"p99Ns"`
	MaxNs    int64             `json:"maxNs"`
}

// load runs the workers and folds what they report. log gets one interval histogram after the other when it is not nil.
func (r *run) load(ctx context.Context, log *histogramLog, seen *progress) (*outcome, error) {
	workers, err := r.startWorkers()
	if err != nil {
		return nil, err
	}
	cpuBefore := processCPU()
	r.plan(r.nowNs())
	if r.opts.Freeze > 0 {
		end, err := r.freeze(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	finished := make(chan struct{})
	defer close(finished)
	go func() { // ends with the load
		select {
		case <-ctx.Done():
			r.interrupt()
		case <-finished:
		}
	}()
	for _, w := range workers {
		go w.work()
	}

	out := &outcome{whole: newInterval(&r.opts), warmup: newInterval(&r.opts)}
	merged := newInterval(&r.opts)
	var logErr error
	for {
		merged.reset()
		got := 0
		for _, w := range workers {
			iv, ok := <-w.full
			if !ok {
				continue // its channel is closed after its last interval, in step with the others
			}
			got++
			merged.merge(iv)
			iv.reset()
			w.empty <- iv
		}
		if got == 0 {
			break
		}
		out.take(r, merged)
		if merged.measured {
			seen.show(r.opts.Duration.Seconds(), out.measured[len(out.measured)-1])
		}
		if log != nil && logErr == nil {
			logErr = log.write(r, merged) // the load goes on; the caller learns of it at the end
		}
	}
	seen.end()
	for _, w := range workers {
		if w.err != nil {
			return nil, w.err
		}
		out.lastAnswerNs = max(out.lastAnswerNs, w.lastAnswerNs)
	}
	if logErr != nil {
		return nil, fmt.Errorf("histogram log: %w", logErr)
	}
	out.cpu = processCPU() - cpuBefore
	out.groups = groupResults(r, workers)
	out.interrupted = ctx.Err() != nil && r.doneNs.Load() == 0
	out.windowNs = r.endNs() - r.warmNs
	return out, nil
}

// take folds one interval, which is over for all workers.
func (o *outcome) take(r *run, iv *interval) {
	o.ackedTotal += iv.acked
	switch {
	case iv.measured:
		o.ackedInWindow += iv.acked
		o.receivedIn += iv.received
		o.receivedBytes += iv.receivedBytes
		o.measured = append(o.measured, pointOf(r, iv))
		o.whole.add(iv)
	case iv.startNs < r.warmNs:
		o.warmup.add(iv)
	default: // the drain: its latencies belong to measured messages, its acknowledgements are too late for the rate
		o.whole.add(iv)
	}
}

func pointOf(r *run, iv *interval) SeriesPoint {
	h := iv.chief()
	p := SeriesPoint{
		Second: float64(iv.startNs-r.warmNs) / 1e9, Length: float64(iv.endNs-iv.startNs) / 1e9,
		Acked: iv.acked, Received: iv.received, Offered: iv.offered, Skipped: iv.skipped,
		P50Ns: h.ValueAtPercentile(50), P99Ns: h.ValueAtPercentile(99), MaxNs: h.Max(),
	}
	for _, e := range iv.errors.rows[:iv.errors.n] {
		if p.Errors == nil {
			p.Errors = map[string]uint64{}
		}
		p.Errors[codeName(e.code)] += e.count
	}
	return p
}

// startWorkers builds and connects the workers; none runs yet.
func (r *run) startWorkers() ([]*worker, error) {
	o := &r.opts
	threads := min(o.Threads, o.Connections+r.pullConnections())
	r.received = make([]atomic.Uint64, o.Groups)
	r.sendersBusy.Store(int64(threads))
	var workers []*worker
	fail := func(err error) ([]*worker, error) {
		for _, w := range workers {
			w.hangUpAll()
		}
		return nil, err
	}
	for i := range threads {
		w, err := newWorker(r, i, threads)
		if err != nil {
			return fail(err)
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		for _, c := range w.pullers {
			r.queuesLeft.Add(int64(len(c.puller.queues)))
		}
	}
	for _, w := range workers {
		if err := w.connectAll(); err != nil {
			return fail(err)
		}
	}
	return workers, nil
}

// localHost is the address from which this machine talks to remote, for the ids of messages. Ids are made in the IPv4 form,
// as by a client that was told to; of an IPv6 address the low bytes tell machines apart.
func localHost(remote netip.AddrPort) message.Host {
	ap := remote
	if probe, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(remote)); err == nil { // sends nothing: only asks for the way
		ap = probe.LocalAddr().(*net.UDPAddr).AddrPort()
		_ = probe.Close()
	}
	addr := ap.Addr().Unmap()
	if addr.Is6() {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return message.HostOf(netip.AddrPortFrom(addr, ap.Port()))
}

// histogramLog writes interval histograms in the HdrHistogram log format, which the usual plotters read.
type histogramLog struct {
	w *hdr.HistogramLogWriter
}

func (l *histogramLog) begin(startMs int64, comment string) error {
	if err := l.w.OutputComment("[" + comment + "]"); err != nil {
		return err
	}
	if err := l.w.OutputLogFormatVersion(); err != nil {
		return err
	}
	l.w.SetBaseTime(startMs)
	if err := l.w.OutputBaseTime(startMs); err != nil {
		return err
	}
	if err := l.w.OutputStartTime(startMs); err != nil {
		return err
	}
	return l.w.OutputLegend()
}

// write logs the measured intervals and the drain. Without a tag stands what matters most in such a run, as in the series; response and
// service times follow with a tag where they are not that.
func (l *histogramLog) write(r *run, iv *interval) error {
	if iv.startNs < r.warmNs {
		return nil
	}
	chief := iv.chief()
	for _, part := range []struct {
		tag string
		h   *hdr.Histogram
	}{{"", chief}, {"response", iv.response}, {"service", iv.service}} {
		if part.h == nil || part.h.TotalCount() == 0 || part.h == chief && part.tag != "" {
			continue
		}
		part.h.SetStartTimeMs(r.epochMs(iv.startNs))
		part.h.SetEndTimeMs(r.epochMs(iv.endNs))
		part.h.SetTag(part.tag)
		if err := l.w.OutputIntervalHistogram(part.h); err != nil {
			return err
		}
	}
	return nil
}
