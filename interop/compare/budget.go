package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/internal/sysio"
	"peregrine/interop"
	"peregrine/wire"
)

// The servers that a row of the budget can be measured on.
const (
	original     = "original"
	peregrine    = "peregrine"
	peregrineOwn = "peregrine, SYNC_FLUSH"
	bareGnet     = "bare gnet" // answers the same frames with a fixed answer, stores nothing
)

// budgetRow is one load of the budget and what is asked of peregrine in it.
type budgetRow struct {
	name   string
	mode   string // of the load generator
	change func(*bench.Options)
	on     []string
	claims []claim
}

func (r budgetRow) options() bench.Options {
	o, _ := bench.OptionsOf(r.mode)
	r.change(&o)
	return o
}

// claim is one figure of a row with its bound.
type claim struct {
	what   string
	figure func(*bench.Report) float64
	show   func(float64) string
	of     string  // the server whose figure ours is divided by; "" = ours as it is
	synced bool    // the device's sync is added to what ours is divided by
	ours   string  // the server that is judged; "" = peregrine
	least  float64 // 0 = no bound
	most   float64 // 0 = no bound
}

func rateOf(r *bench.Report) float64 {
	if r.Consume != nil {
		return r.Consume.Rate
	}
	return r.Rate
}

func timesOf(r *bench.Report) *bench.Latency {
	l, _ := r.MainLatency()
	return l
}

func p50Of(r *bench.Report) float64  { return float64(timesOf(r).P50Ns) }
func p99Of(r *bench.Report) float64  { return float64(timesOf(r).P99Ns) }
func p999Of(r *bench.Report) float64 { return float64(timesOf(r).P999Ns) }

func showRate(v float64) string { return fmt.Sprintf("%.0f/s", v) }

func rate(of string, least float64) claim {
	return claim{what: "messages", figure: rateOf, show: showRate, of: of, least: least}
}

func times(what string, figure func(*bench.Report) float64, of string, most float64) claim {
	return claim{what: what, figure: figure, show: showTime, of: of, most: most}
}

func budgetRows() []budgetRow {
	shape := func(size, connections, inflight int, encoding wire.Encoding) func(*bench.Options) {
		return func(o *bench.Options) {
			o.Size, o.Connections, o.Inflight, o.Encoding = size, connections, inflight, encoding
		}
	}
	all := []string{original, peregrine, bareGnet}
	sync := func(connections, inflight int) func(*bench.Options) {
		return func(o *bench.Options) {
			o.Connections, o.Inflight, o.Encoding, o.ProbeDir = connections, inflight, wire.EncodingBinary, ""
		}
	}
	onOwn := func(c claim) claim { c.ours = peregrineOwn; return c }
	plusSync := func(c claim) claim { c.synced = true; return onOwn(c) }
	return []budgetRow{
		{"send 128 B, 4 x 32, binary", "send", shape(128, 4, 32, wire.EncodingBinary), all, []claim{rate(original, 10), rate(bareGnet, 0.6)}},
		{"send 128 B, 8 x 128, binary", "send", shape(128, 8, 128, wire.EncodingBinary), all, []claim{rate(original, 10), rate(bareGnet, 0.5)}},
		{"send 128 B, 4 x 32, JSON", "send", shape(128, 4, 32, wire.EncodingJSON), all, []claim{rate(original, 8), rate(bareGnet, 0)}},
		{"send 1 KiB, 4 x 32, binary", "send", shape(1024, 4, 32, wire.EncodingBinary), all, []claim{rate(original, 10), rate(bareGnet, 0)}},
		{"send 4 KiB, 4 x 32, binary", "send", shape(4096, 4, 32, wire.EncodingBinary), all, []claim{rate(original, 8), rate(bareGnet, 0.8)}},
		{"send 128 B, one in flight, binary", "send", shape(128, 1, 1, wire.EncodingBinary), all, []claim{
			times("p50", p50Of, bareGnet, 1.5), times("p99", p99Of, bareGnet, 2), times("p99", p99Of, original, 0)}},
		{"open loop, 50,000/s, 8 connections, binary", "send", func(o *bench.Options) { o.Connections, o.Rate, o.Encoding = 8, 50_000, wire.EncodingBinary },
			[]string{peregrine, bareGnet}, []claim{times("p99", p99Of, bareGnet, 2), times("p99.9", p999Of, bareGnet, 3)}},
		{"SYNC_FLUSH, one in flight, binary", "send", sync(1, 1), []string{peregrine, peregrineOwn, bareGnet}, []claim{plusSync(times("p50", p50Of, bareGnet, 1.5)), onOwn(times("p99", p99Of, "", 0))}},
		{"SYNC_FLUSH, 4 x 32, binary", "send", sync(4, 32), []string{peregrine, peregrineOwn}, []claim{onOwn(rate(peregrine, 0.7))}},
		{"SYNC_FLUSH, 8 x 128, binary", "send", sync(8, 128), []string{peregrine, peregrineOwn}, []claim{onOwn(rate(peregrine, 0.8))}},
		{"batch 32 x 128 B, 4 x 4, binary", "send", func(o *bench.Options) { o.Batch, o.Inflight, o.Encoding = 32, 4, wire.EncodingBinary }, all, []claim{
			rate(original, 5), {what: "messages", figure: rateOf, show: showRate, least: 600_000}}},
		{"pull hot, 32 a request, 4 connections", "pull", func(o *bench.Options) { o.Encoding = wire.EncodingBinary }, []string{original, peregrine}, []claim{rate(original, 5)}},
		{"end to end, 20,000/s", "e2e", func(o *bench.Options) { o.Encoding = wire.EncodingBinary }, []string{original, peregrine}, []claim{times("p99", p99Of, original, 0.2)}},
	}
}

// taken is one run of one row.
type taken struct {
	Row    string        `json:"row"`
	On     string        `json:"on"`
	Round  int           `json:"round"`
	CPU    float64       `json:"coresPer100k,omitempty"` // of the broker, for 100,000 messages a second
	Report *bench.Report `json:"report"`
}

// server is something that a row is measured on.
type server struct {
	name string
	addr string
	pid  int // 0 = not looked at
	logs func() string
}

// compareBudget measures every row of the budget on its servers, in turn, and judges. The table goes to stdout and, with all reports, to perf/results.
func compareBudget(ctx context.Context, o options, dir string, theirs *interop.Apache, ours *interop.Peregrine) (good bool, err error) {
	own, err := startPeregrine(o.binary, filepath.Join(dir, "sync"), map[string]string{"flushDiskType": "SYNC_FLUSH"})
	if err != nil {
		return false, err
	}
	defer stopBroker(own)
	bare, stop, err := startBareGnet(ctx, o.binary)
	if err != nil {
		return false, err
	}
	defer stop()
	servers := map[string]server{
		original: {original, theirs.Addr(), theirs.BrokerPID(), theirs.Logs}, peregrine: {peregrine, ours.Addr(), ours.Process().Pid(), ours.Logs},
		peregrineOwn: {peregrineOwn, own.Addr(), own.Process().Pid(), own.Logs}, bareGnet: {name: bareGnet, addr: bare, logs: func() string { return "" }},
	}
	dev, err := probeDevice(dir)
	if err != nil {
		return false, err
	}
	if err := warmOriginal(ctx, o, theirs); err != nil {
		return false, err
	}
	rows := slices.DeleteFunc(budgetRows(), func(r budgetRow) bool { return !strings.Contains(r.name, o.only) })
	var all []taken
	for round := range o.rounds {
		for _, r := range rows {
			if slices.Contains(r.on, peregrineOwn) {
				if err := dev.beside(r); err != nil {
					return false, err
				}
			}
			order := slices.Clone(r.on)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, name := range order {
				m, err := takeRow(ctx, o, r, servers[name], round)
				if err != nil {
					return false, fmt.Errorf("%s, %s: %w\n%s", r.name, name, err, servers[name].logs())
				}
				all = append(all, m)
				fmt.Fprintf(os.Stderr, "round %d  %-44s %-22s %10.0f/s  p50 %v  p99 %v%s\n", round+1, r.name, name, rateOf(m.Report),
					showTime(p50Of(m.Report)), showTime(p99Of(m.Report)), failures(m.Report))
			}
		}
	}
	text, good := budgetTable(rows, all, dev, o.memory.said())
	fmt.Print(text)
	return good, keepResults(o, text, all)
}

// warmOriginal gives the original the load before anything counts.
func warmOriginal(ctx context.Context, o options, theirs interop.Broker) error {
	fmt.Fprintf(os.Stderr, "warming the original for %v\n", o.warm)
	if o.warm <= 0 {
		return nil
	}
	warm := bench.DefaultOptions()
	warm.Addr, warm.Duration, warm.Encoding = theirs.Addr(), o.warm, wire.EncodingBinary
	if _, err := o.load(ctx, warm, os.Stderr); err != nil {
		return fmt.Errorf("%w\n%s", err, theirs.Logs())
	}
	return ctx.Err()
}

func takeRow(ctx context.Context, o options, r budgetRow, s server, round int) (m taken, err error) {
	opts := r.options()
	if r.mode == "pull" { // a topic of its own: what the rounds before have sent lies far behind, and brokers answer with less of that
		opts.Topic = fmt.Sprintf("%s%d", opts.Topic, round)
	}
	opts.Addr, opts.Duration, opts.CheckDispatch = s.addr, o.duration, s.name != bareGnet && r.mode == "send"
	m = taken{Row: r.name, On: s.name, Round: round + 1}
	var before, after time.Duration
	if s.pid != 0 {
		if before, err = sysio.CPUOf(s.pid); err != nil {
			return m, err
		}
	}
	if m.Report, err = o.load(ctx, opts, io.Discard); err != nil {
		return m, err
	}
	if s.pid != 0 {
		if after, err = sysio.CPUOf(s.pid); err != nil {
			return m, err
		}
		// Warm-up and drain are in the time, and the rate of the warm-up is that of the run.
		if rate := rateOf(m.Report); rate > 0 {
			m.CPU = (after - before).Seconds() / (opts.Warmup + opts.Duration).Seconds() / rate * 100_000
		}
	}
	return m, ctx.Err()
}

// budgetTable is Markdown with a line for each claim.
func budgetTable(rows []budgetRow, all []taken, dev *device, memory string) (text string, good bool) {
	good = true
	median := func(row, on string, figure func(taken) float64) float64 {
		var values []float64
		for _, m := range all {
			if m.Row == row && m.On == on {
				values = append(values, figure(m))
			}
		}
		return bench.Median(values)
	}
	t := table.NewWriter()
	t.AppendHeader(table.Row{"row", "figure", "beside", "theirs", "ours", "ratio", "asked for", "verdict"})
	for _, r := range rows {
		for _, c := range r.claims {
			judged := c.ours
			if judged == "" {
				judged = peregrine
			}
			figure := func(m taken) float64 { return c.figure(m.Report) }
			ours := median(r.name, judged, figure)
			value, theirs, ratio := ours, "", ""
			if c.of != "" {
				base := median(r.name, c.of, figure)
				theirs = c.show(base)
				if c.synced {
					base += dev.syncP50
					theirs += " + sync " + c.show(dev.syncP50)
				}
				value = ours / base
				ratio = fmt.Sprintf("%.2f", value)
			}
			asked, verdict := "", ""
			switch {
			case c.least > 0:
				asked = fmt.Sprintf(">= %g", c.least)
			case c.most > 0:
				asked = fmt.Sprintf("<= %g", c.most)
			}
			if asked != "" {
				verdict = "holds"
				if c.least > 0 && value < c.least || c.most > 0 && value > c.most {
					if verdict = ""; r.mode == "send" && c.least > 0 {
						verdict = dev.excuse(r, judged, ours)
					}
					if verdict == "" {
						verdict, good = "MISSED", false
					}
				}
			}
			t.AppendRow(table.Row{r.name, c.what, c.of, theirs, c.show(ours), ratio, asked, verdict})
		}
		if slices.Contains(r.on, original) {
			cpu := func(m taken) float64 { return m.CPU }
			a, b := median(r.name, original, cpu), median(r.name, peregrine, cpu)
			t.AppendRow(table.Row{r.name, "cores per 100,000/s", original, fmt.Sprintf("%.2f", a), fmt.Sprintf("%.2f", b), fmt.Sprintf("%.2f", b/a), "", ""})
		}
	}
	var b strings.Builder
	first := all[0].Report.Conditions
	fmt.Fprintf(&b, "Medians of %d interleaved runs; %s; load average %.2f before the first. %s %s\n\n%s\n",
		all[len(all)-1].Round, first.Machine, first.Machine.Load[0], memory, dev.said(rows), t.RenderMarkdown())
	for _, m := range all {
		for _, f := range m.Report.Failures {
			// What went wrong with the original is worth a line, but it is no failure of ours.
			good = good && m.On == original
			fmt.Fprintf(&b, "\nNot clean: %s, %s, round %d: %s", m.On, m.Row, m.Round, f)
		}
	}
	return b.String() + "\n", good
}

// keepResults writes table and reports to perf/results, named by the time.
func keepResults(o options, text string, all []taken) error {
	if o.results == "" {
		return nil
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	base := filepath.Join(o.results, time.Now().Format("20060102-150405"))
	if err := os.WriteFile(base+".md", []byte(text), 0o644); err != nil {
		return err
	}
	doc, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(base+".json", append(doc, '\n'), 0o644)
}

// startBareGnet runs `peregrine bench ceiling` on a free port.
func startBareGnet(ctx context.Context, binary string) (addr string, stop func(), err error) {
	port, err := interop.FreePort()
	if err != nil {
		return "", nil, err
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(ctx, binary, "bench", "ceiling", "--listen", addr)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	var line [256]byte
	if _, err := out.Read(line[:]); err != nil { // its ready line
		return "", nil, fmt.Errorf("bench ceiling: %w", err)
	}
	return addr, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}
