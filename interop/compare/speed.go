package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/interop"
	"peregrine/wire"
)

// row is one load that both brokers get, and what peregrine has to reach in it.
type row struct {
	name   string
	change func(*bench.Options)

	rateRatioMin float64 // sends a second, as a multiple of the original's; 0 = not asked for
	p99RatioMax  float64 // p99 of the service time, as a part of the original's; 0 = not asked for
}

func rows() []row {
	return []row{
		{name: "128 B, 4 x 32 in flight, JSON headers", rateRatioMin: 5, change: func(o *bench.Options) {}},
		{name: "128 B, 4 x 32 in flight, binary headers", rateRatioMin: 5, change: func(o *bench.Options) { o.Encoding = wire.EncodingBinary }},
		{name: "128 B, one in flight, JSON headers", p99RatioMax: 0.5, change: func(o *bench.Options) { o.Connections, o.Inflight = 1, 1 }},
	}
}

// measurement is one run on one broker.
type measurement struct {
	Row    string        `json:"row"`
	Broker string        `json:"broker"`
	Round  int           `json:"round"`
	Report *bench.Report `json:"report"`
}

type side struct {
	name   string
	broker interop.Broker
}

// compareSpeed measures, prints and judges; good means that every row holds.
func compareSpeed(ctx context.Context, o options, theirs, ours interop.Broker) (good bool, err error) {
	sides := []side{{"original", theirs}, {"peregrine", ours}}
	load := func(s side, r row, duration time.Duration) (*bench.Report, error) {
		opts := bench.DefaultOptions()
		opts.Addr, opts.Duration, opts.CheckDispatch = s.broker.Addr(), duration, true
		r.change(&opts)
		return o.load(ctx, opts, os.Stderr)
	}
	fmt.Fprintf(os.Stderr, "warming the original for %v\n", o.warm)
	if o.warm > 0 {
		if _, err := load(sides[0], rows()[0], o.warm); err != nil {
			return false, fmt.Errorf("%w\n%s", err, theirs.Logs())
		}
	}
	var all []measurement
	for round := range o.rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, r := range rows() {
			for _, s := range order {
				rep, err := load(s, r, o.duration)
				if err != nil {
					return false, fmt.Errorf("%s: %w\n%s", s.name, err, s.broker.Logs())
				}
				all = append(all, measurement{Row: r.name, Broker: s.name, Round: round + 1, Report: rep})
				fmt.Fprintf(os.Stderr, "round %d  %-42s %-10s %10.0f/s  p50 %v  p99 %v%s\n", round+1, r.name, s.name, rep.Rate,
					time.Duration(rep.Service.P50Ns), time.Duration(rep.Service.P99Ns), failures(rep))
				if ctx.Err() != nil {
					return false, ctx.Err()
				}
			}
		}
	}
	if o.jsonFile != "" {
		text, err := json.MarshalIndent(all, "", " ")
		if err == nil {
			err = os.WriteFile(o.jsonFile, append(text, '\n'), 0o644)
		}
		if err != nil {
			return false, err
		}
	}
	return summarise(o, all), nil
}

func failures(rep *bench.Report) string {
	if len(rep.Failures) == 0 {
		return ""
	}
	return "  NOT CLEAN: " + strings.Join(rep.Failures, "; ")
}

// summarise prints the medians of all rounds as Markdown.
func summarise(o options, all []measurement) (good bool) {
	good = true
	machine := all[0].Report.Conditions.Machine
	fmt.Printf("Medians of %d interleaved runs of %v; %s.\n", o.rounds, o.duration, machine)
	fmt.Printf("Original: %s, heap %s, shipped broker.conf, %v of load first.\n\n", brokerLine(all, "original"), o.heap, o.warm)
	t := table.NewWriter()
	t.AppendHeader(table.Row{"load", "original", "peregrine", "ratio", "asked for", "verdict"})
	for _, r := range rows() {
		add := func(what string, value func(*bench.Report) float64, show func(float64) string, asked string, holds func(ratio float64) bool) {
			a, b := medianOf(all, r.name, "original", value), medianOf(all, r.name, "peregrine", value)
			ratio := b / a
			verdict := ""
			if holds != nil {
				verdict = "holds"
				if !holds(ratio) {
					verdict, good = "FAILS", false
				}
			}
			t.AppendRow(table.Row{r.name + ": " + what, show(a), show(b), fmt.Sprintf("%.2f", ratio), asked, verdict})
		}
		var rateHolds, p99Holds func(float64) bool
		rateAsked, p99Asked := "", ""
		if r.rateRatioMin > 0 {
			rateAsked, rateHolds = fmt.Sprintf(">= %.0f", r.rateRatioMin), func(x float64) bool { return x >= r.rateRatioMin }
		}
		if r.p99RatioMax > 0 {
			p99Asked, p99Holds = fmt.Sprintf("<= %.1f", r.p99RatioMax), func(x float64) bool { return x <= r.p99RatioMax }
		}
		add("messages/s", func(rep *bench.Report) float64 { return rep.Rate }, func(v float64) string { return fmt.Sprintf("%.0f", v) }, rateAsked, rateHolds)
		add("p50", func(rep *bench.Report) float64 { return float64(rep.Service.P50Ns) }, showTime, "", nil)
		add("p99", func(rep *bench.Report) float64 { return float64(rep.Service.P99Ns) }, showTime, p99Asked, p99Holds)
		add("p99.9", func(rep *bench.Report) float64 { return float64(rep.Service.P999Ns) }, showTime, "", nil)
		add("dispatch level after", func(rep *bench.Report) float64 { return rep.Dispatch.AfterSeconds * 1e9 }, showTime, "", nil)
	}
	fmt.Println(t.RenderMarkdown())
	for _, m := range all {
		for _, f := range m.Report.Failures {
			// What went wrong with the original is worth a line, but it is no failure of ours.
			good = good && m.Broker != "peregrine"
			fmt.Printf("\nNot clean: %s, %s, round %d: %s", m.Broker, m.Row, m.Round, f)
		}
	}
	if load := machine.Load[0]; load > 0.5 {
		fmt.Printf("\nThe machine was not quiet: load average %.2f before the first run.", load)
	}
	fmt.Println()
	return good
}

func showTime(ns float64) string { return time.Duration(ns).Round(100 * time.Nanosecond).String() }

func brokerLine(all []measurement, broker string) string {
	for _, m := range all {
		if m.Broker == broker && len(m.Report.Conditions.Brokers) > 0 {
			return m.Report.Conditions.Brokers[0].String()
		}
	}
	return "unknown"
}

func medianOf(all []measurement, row, broker string, value func(*bench.Report) float64) float64 {
	var values []float64
	for _, m := range all {
		if m.Row == row && m.Broker == broker {
			values = append(values, value(m.Report))
		}
	}
	return bench.Median(values)
}
