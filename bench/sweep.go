package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"
)

const (
	sweepPointsMax = 40
	sweepHoldsMax  = 4    // confirmations that are tried, each at a lower rate
	sweepPrecision = 1.05 // the search ends when good and bad rates are so near
	sweepHoldStep  = 0.93 // from a rate that did not hold to the next one
)

// sweep is rate against latency, and the largest rate that keeps a promise.
type sweep struct {
	Conditions *Conditions `json:"conditions"` // of the first load; the others differ in their rates

	LimitNs   time.Duration `json:"limitNs"` // of the 99th percentile
	Points    []SweepPoint  `json:"points"`  // by rate
	Knee      float64       `json:"knee"`    // the rate behind which the time grows faster than the rate; 0 = none was seen
	Largest   float64       `json:"largest"` // the largest rate that keeps the limit, confirmed; 0 = none
	Hold      *Report       `json:"hold,omitempty"`
	HoldTimes []SweepPoint  `json:"holds,omitempty"` // every confirmation that was tried
	Ended     string        `json:"ended,omitempty"` // why it ended early: an interrupt, a broker that is gone

	first *Report
}

// SweepPoint is one load of a sweep.
type SweepPoint struct {
	Rate    float64 `json:"rate"` // asked for
	Reached float64 `json:"reached"`
	P50Ns   int64   `json:"p50Ns"`
	P99Ns   int64   `json:"p99Ns"`
	P999Ns  int64   `json:"p99_9Ns"`
	MaxNs   int64   `json:"maxNs"`
	Good    bool    `json:"good"`          // reached its rate within the limit, without failures
	Why     string  `json:"why,omitempty"` // it is not good
	Seconds float64 `json:"seconds"`
}

func sweepMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	kind, rest := modeFirst(args)
	if kind == nil || !kind.sends {
		fmt.Fprintf(stderr, "peregrine bench sweep: %q has no rate: expected send, e2e, mixed or sync\n", args[0])
		return exitUsage
	}
	from, upTo, factor, limit, hold := 1000.0, float64(rateMax), 1.6, 5*time.Millisecond, 30*time.Second
	var out outputs
	o, code, done := kind.parse(rest, stdout, stderr, "sweep",
		"peregrine bench sweep [send|e2e|mixed|sync]: rate against latency, and the largest rate whose 99th percentile keeps a limit, confirmed by a longer run; --duration is that of each step",
		func(fs *pflag.FlagSet) {
			fs.Float64Var(&from, "from", from, "first rate, messages a second")
			fs.Float64Var(&upTo, "up-to", upTo, "largest rate that is tried")
			fs.Float64Var(&factor, "factor", factor, "from one rate to the next")
			fs.DurationVar(&limit, "p99", limit, "the 99th percentile has to stay below this (of deliveries in e2e and mixed, else of responses)")
			fs.DurationVar(&hold, "hold", hold, "length of the confirmation")
			out.flags(fs)
		})
	if done {
		return code
	}
	if !(from > 0 && from <= upTo && upTo <= rateMax && factor >= 1.05 && factor <= 100) || limit <= 0 || hold < time.Second || o.HistogramFile != "" || o.Freeze != 0 {
		fmt.Fprintln(stderr, "peregrine bench sweep: expected 0 < --from <= --up-to, 1.05 <= --factor <= 100, --p99 above 0, --hold of at least 1s, neither --hdr nor --freeze")
		return exitUsage
	}
	s := &sweep{LimitNs: limit}
	if err := s.run(ctx, o, from, upTo, factor, hold, stderr); err != nil {
		fmt.Fprintln(stderr, "peregrine bench sweep:", err)
		if len(s.Points) == 0 {
			return exitBad
		}
		s.Ended = err.Error() // minutes may have gone into the steps before: they are reported
	}
	if err := out.write(stdout, s.write, s, s.page); err != nil {
		fmt.Fprintln(stderr, "peregrine bench sweep:", err)
		return exitBad
	}
	if s.Largest == 0 {
		return exitBad
	}
	return exitGood
}

// run tries rates upwards until one is not good, looks between the last two, and confirms.
func (s *sweep) run(ctx context.Context, o Options, from, upTo, factor float64, hold time.Duration, notes io.Writer) error {
	try := func(rate float64, duration time.Duration) (SweepPoint, *Report, error) {
		load := o
		load.Rate, load.Duration = rate, duration
		if len(s.Points) > 0 {
			load.ProbeDir = ""
		}
		rep, err := Run(ctx, load, notes)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return SweepPoint{}, nil, err
		}
		if s.first == nil {
			s.first, s.Conditions = rep, &rep.Conditions
		}
		p := s.judge(rate, rep)
		fmt.Fprintf(notes, "%9s messages/s: p50 %s, p99 %s, p99.9 %s%s\n", grouped(int64(rate)), short(p.P50Ns), short(p.P99Ns), short(p.P999Ns), map[bool]string{false: "  " + p.Why}[p.Good])
		return p, rep, nil
	}
	defer func() {
		slices.SortFunc(s.Points, func(a, b SweepPoint) int { return int(math.Copysign(1, a.Rate-b.Rate)) })
		s.Knee = kneeOf(s.Points)
	}()
	good, bad := 0.0, 0.0
	for rate := from; len(s.Points) < sweepPointsMax; {
		p, _, err := try(rate, o.Duration)
		if err != nil {
			return err
		}
		s.Points = append(s.Points, p)
		if p.Good {
			good = max(good, rate)
		} else if bad == 0 || rate < bad {
			bad = rate
		}
		switch {
		case bad == 0 && rate >= upTo, bad > 0 && good == 0:
			rate = 0 // the highest is good, or not even the lowest
		case bad == 0:
			rate = min(rate*factor, upTo)
		case bad/good <= sweepPrecision:
			rate = 0
		default:
			rate = math.Sqrt(good * bad)
		}
		if rate == 0 {
			break
		}
	}
	for rate := good; rate > 0 && len(s.HoldTimes) < sweepHoldsMax; rate *= sweepHoldStep {
		p, rep, err := try(rate, hold)
		if err != nil {
			return err
		}
		if s.HoldTimes = append(s.HoldTimes, p); p.Good {
			s.Largest, s.Hold = rate, rep
			break
		}
	}
	return nil
}

func (s *sweep) judge(rate float64, rep *Report) SweepPoint {
	l, what := rep.MainLatency()
	p := SweepPoint{Rate: rate, Reached: rep.Rate, P50Ns: l.P50Ns, P99Ns: l.P99Ns, P999Ns: l.P999Ns, MaxNs: l.MaxNs, Seconds: rep.Seconds}
	switch {
	case len(rep.Failures) > 0:
		p.Why = rep.Failures[0]
	case l.P99Ns > int64(s.LimitNs):
		p.Why = fmt.Sprintf("%s p99 above %v", what, s.LimitNs)
	default:
		p.Good = true
	}
	return p
}

// kneeOf finds the rate that lies farthest below the line from the first point to the last one, both axes scaled to 1 and the 99th percentile taken by
// its logarithm: up to there more load costs little. Points by rate; 0 where none stands out.
func kneeOf(points []SweepPoint) (rate float64) {
	if len(points) < 3 {
		return 0
	}
	first, last := points[0], points[len(points)-1]
	height := math.Log(float64(last.P99Ns) / float64(first.P99Ns))
	if height <= 0 {
		return 0
	}
	const least = 0.1
	farthest := least
	for _, p := range points {
		x := (p.Rate - first.Rate) / (last.Rate - first.Rate)
		y := math.Log(float64(p.P99Ns)/float64(first.P99Ns)) / height
		if x-y > farthest {
			farthest, rate = x-y, p.Rate
		}
	}
	return rate
}

func (s *sweep) table() table.Writer {
	t := newTable("messages/s", "reached", "p50", "p99", "p99.9", "max", "seconds", "")
	row := func(p SweepPoint, word string) {
		if !p.Good {
			word = p.Why
		}
		t.AppendRow(table.Row{grouped(int64(p.Rate)), grouped(int64(p.Reached)), short(p.P50Ns), short(p.P99Ns), short(p.P999Ns), short(p.MaxNs), digits3(p.Seconds), word})
	}
	for _, p := range s.Points {
		word := ""
		if p.Rate == s.Knee {
			word = "the knee"
		}
		row(p, word)
	}
	for _, p := range s.HoldTimes {
		row(p, "confirmed")
	}
	rightAlign(t, 1, 7)
	return t
}

func (s *sweep) verdict() string {
	if s.Ended != "" {
		return "ended early (" + s.Ended + "), no rate is confirmed"
	}
	if s.Largest == 0 {
		return fmt.Sprintf("no rate keeps p99 below %v", s.LimitNs)
	}
	return fmt.Sprintf("%s messages/s is the largest rate that keeps p99 below %v, confirmed over %.0f s", grouped(int64(s.Largest)), s.LimitNs, s.Hold.Seconds)
}

func (s *sweep) write(w io.Writer, markdown bool) {
	s.first.writeConditions(w)
	fmt.Fprintf(w, "\n%s\n\n- %s\n", render(s.table(), markdown), s.verdict())
	if s.Knee > 0 {
		fmt.Fprintf(w, "- up to %s messages/s more load costs little time\n", grouped(int64(s.Knee)))
	}
	for _, text := range s.first.Warnings {
		fmt.Fprintf(w, "- warning: %s\n", text)
	}
}

func (s *sweep) page() *page {
	p := newPage(s.first)
	p.Title = "sweep: " + s.verdict()
	p.add(s.table())
	for _, x := range s.Points {
		p.Points = append(p.Points, pagePoint{Rate: x.Rate, P50: float64(x.P50Ns) / 1e6, P99: float64(x.P99Ns) / 1e6, P999: float64(x.P999Ns) / 1e6})
	}
	if s.Hold != nil {
		p.Lines = append(p.Lines, lineOf(grouped(int64(s.Largest))+" messages/s", s.Hold))
	}
	return p
}
