package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// WriteText prints the report for people: conditions, rate, latencies, errors, verdict.
func (rep *Report) WriteText(w io.Writer) { rep.write(w, false) }

func (rep *Report) write(w io.Writer, markdown bool) {
	c := &rep.Conditions
	rep.writeConditions(w)
	fmt.Fprintln(w)
	line := func(format string, args ...any) { fmt.Fprintf(w, "- "+format+"\n", args...) }
	if c.Connections > 0 {
		line("rate: %s messages/s acknowledged, %.1f MB/s of bodies", grouped(int64(rep.Rate)), rep.BytesRate/1e6)
	}
	if got := rep.Consume; got != nil {
		line("received: %s messages/s, %.1f MB/s of bodies, %s answers to pulls", grouped(int64(got.Rate)), got.BytesRate/1e6, grouped(int64(got.Requests)))
	}
	if c.TargetRate > 0 {
		line("messages: offered %s, skipped %s, sent %s, acknowledged %s", grouped(int64(rep.Offered)), grouped(int64(rep.Skipped)), grouped(int64(rep.Sent)), grouped(int64(rep.Acked)))
	} else if c.Connections > 0 {
		line("messages: sent %s, acknowledged %s", grouped(int64(rep.Sent)), grouped(int64(rep.Acked)))
	}
	if d := rep.Dispatch; d != nil {
		state := "level"
		if !d.Level {
			state = "NOT level"
		}
		line("dispatch: %s %.3f s after the last answer (%s of %s visible)", state, d.AfterSeconds, grouped(d.Grown), grouped(int64(d.Acknowledged)))
	}
	if f := rep.Freeze; f != nil {
		line("process %d stood still for %v: %s slow samples (above %v); a generator without coordinated omission sees about %s", f.Pid, f.Length, grouped(f.Slow),
			f.Length/freezeSlowPart, grouped(int64(f.Expected)))
	}
	for _, t := range rep.tables() {
		fmt.Fprintf(w, "\n%s\n", render(t, markdown))
	}
	fmt.Fprintln(w)
	if rep.Response == nil && c.Connections > 0 {
		line("closed loop: a slow answer delays the next request, so stalls are under-represented; use --rate for response times")
	}
	if rep.Reconnects > 0 {
		line("%d reconnects, longest outage %v", rep.Reconnects, rep.OutageMax.Round(time.Millisecond))
	}
	for _, s := range rep.Warnings {
		line("warning: %s", s)
	}
	for _, s := range rep.Failures {
		line("FAILED: %s", s)
	}
}

// writeConditions prints what the load was and where it ran, a line each; the first is a title.
func (rep *Report) writeConditions(w io.Writer) {
	c := &rep.Conditions
	line := func(format string, args ...any) { fmt.Fprintf(w, "- "+format+"\n", args...) }
	fmt.Fprintf(w, "%s\n\n", c.title())
	for _, b := range c.Brokers {
		line("broker: %s", b)
	}
	line("machine: %s; load %.2f", c.Machine, c.Machine.Load[0])
	if p := c.Probe; p != nil {
		line("device: %s (%s): a sync of 4 KiB takes p50 %s, p99 %s over written blocks, p50 %s, p99 %s over allocated ones; %.0f MB/s written in a row", p.Dir, p.FileSystem,
			short(p.SyncWritten.P50Ns), short(p.SyncWritten.P99Ns), short(p.SyncFresh.P50Ns), short(p.SyncFresh.P99Ns), p.WriteRate/1e6)
	}
	line("run: topic %s, %.1f s after %.1f s of warm-up, generator on %d threads using %.2f cores", c.Topic, rep.Seconds, c.Warmup, c.Threads, rep.GeneratorCores)
}

// tables are what the report shows in rows and columns.
func (rep *Report) tables() []table.Writer {
	all := []table.Writer{rep.latencyTable()}
	if rep.Consume != nil {
		all = append(all, rep.Consume.table())
	}
	if len(rep.Errors) > 0 {
		all = append(all, rep.errorTable())
	}
	return all
}

func render(t table.Writer, markdown bool) string {
	if markdown {
		return t.RenderMarkdown()
	}
	return t.Render()
}

// String is a broker in one line.
func (b Broker) String() string {
	parts := []string{b.Addr}
	if b.Name != "" {
		parts[0] += " (" + b.Name + ")"
	}
	if b.Version != "" {
		parts = append(parts, b.Version)
	}
	parts = append(parts, fmt.Sprintf("%d queues", b.Queues))
	var keys []string
	for k := range b.Settings {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		parts = append(parts, k+"="+b.Settings[k])
	}
	return strings.Join(parts, ", ")
}

// newTable is a table in the one style of all reports.
func newTable(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	return t
}

func (rep *Report) latencyTable() table.Writer {
	t := newTable("time of a request", "count", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max")
	row := func(name string, l *Latency) {
		if l == nil {
			return
		}
		t.AppendRow(table.Row{name, grouped(l.Count), short(int64(l.MeanNs)), short(l.P50Ns), short(l.P90Ns), short(l.P99Ns), short(l.P999Ns), short(l.P9999), short(l.MaxNs)})
	}
	row("response (from the intended send time)", rep.Response)
	if rep.Conditions.Connections > 0 {
		row("service (from the real send time)", rep.Service)
	}
	if got := rep.Consume; got != nil {
		row("delivery (from the intended send time)", got.Delivery)
		row("pull (from the request)", got.Pull)
	}
	row("generator lag", rep.GeneratorLag)
	rightAlign(t, 2, 9)
	return t
}

func (c *ConsumeResult) table() table.Writer {
	t := newTable("consumer group", "received", "lost", "twice", "out of order", "corrupt", "of others")
	for _, g := range c.Groups {
		name := g.Name
		if g.Behind {
			name += " (was behind)"
		}
		t.AppendRow(table.Row{name, grouped(int64(g.Received)), grouped(int64(g.Lost)), grouped(int64(g.Duplicates)), grouped(int64(g.Reordered)), grouped(int64(g.Corrupt)), grouped(int64(g.Foreign))})
	}
	rightAlign(t, 2, 7)
	return t
}

func (rep *Report) errorTable() table.Writer {
	t := newTable("error", "messages", "example")
	for _, e := range rep.Errors {
		t.AppendRow(table.Row{e.Name, grouped(int64(e.Count)), e.Remark})
	}
	rightAlign(t, 2, 2)
	return t
}

func rightAlign(t table.Writer, from, to int) {
	var configs []table.ColumnConfig
	for i := from; i <= to; i++ {
		configs = append(configs, table.ColumnConfig{Number: i, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(configs)
}

// short is a time with three significant digits and its unit.
func short(ns int64) string {
	switch v := float64(ns); {
	case v < 1e3:
		return fmt.Sprintf("%d ns", ns)
	case v < 1e6:
		return fmt.Sprintf("%s us", digits3(v/1e3))
	case v < 1e9:
		return fmt.Sprintf("%s ms", digits3(v/1e6))
	default:
		return fmt.Sprintf("%s s", digits3(v/1e9))
	}
}

func digits3(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// grouped writes thousands apart: 1,234,567.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
