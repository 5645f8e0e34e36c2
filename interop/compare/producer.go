package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/internal/sysio"
	"peregrine/interop"
)

const (
	producerThreads = 32
	producerSize    = 128 // bytes of a body
)

// compareProducer runs the benchmark Producer of the original's release, unmodified, against both brokers in turn, and prints what it says of them.
// It sends to its own topic, BenchmarkTest, which both brokers have from the start with 1,024 queues.
func compareProducer(ctx context.Context, o options, dir string, theirs, ours interop.Broker) (good bool, err error) {
	if o.duration < interop.ProducerRunMin {
		return false, fmt.Errorf("--duration %v: the Producer prints nothing before %v", o.duration, interop.ProducerRunMin)
	}
	tools, err := toolchain()
	if err != nil {
		return false, err
	}
	classPath, err := tools.ExampleClassPath(apacheVersion)
	if err != nil {
		return false, err
	}
	machine := sysio.Fingerprint(dir)
	if err := warmOriginal(ctx, o, theirs); err != nil {
		return false, err
	}
	good = true
	sides, figures := []side{{original, theirs}, {peregrine, ours}}, map[string][]interop.ProducerFigures{}
	for round := range o.rounds {
		for _, s := range sides {
			home, err := os.MkdirTemp(dir, "producer-")
			if err != nil {
				return false, err
			}
			f, err := interop.RunProducer(ctx, classPath, home, s.broker.NameServer(), producerThreads, producerSize, o.duration)
			if err != nil {
				return false, fmt.Errorf("%s: %w\n%s", s.name, err, s.broker.Logs())
			}
			figures[s.name] = append(figures[s.name], f)
			good = good && (f.Failed == 0 || s.name == original)
			fmt.Fprintf(os.Stderr, "round %d  %-10s %8.0f/s  average %.3f ms  longest %.0f ms  failed %d\n", round+1, s.name, f.Rate, f.AverageMs, f.MaxMs, f.Failed)
		}
		slices.Reverse(sides)
	}
	fmt.Printf("Medians of %d interleaved runs of %v, %d threads, %d B; %s; load average %.2f before the first.\n\n", o.rounds, o.duration, producerThreads, producerSize, machine, machine.Load[0])
	t := table.NewWriter()
	t.AppendHeader(table.Row{"the Producer says", original, peregrine, "ratio"})
	add := func(what, format string, figure func(interop.ProducerFigures) float64) {
		median := func(name string) float64 {
			var values []float64
			for _, f := range figures[name] {
				values = append(values, figure(f))
			}
			return bench.Median(values)
		}
		a, b := median(original), median(peregrine)
		t.AppendRow(table.Row{what, fmt.Sprintf(format, a), fmt.Sprintf(format, b), fmt.Sprintf("%.2f", b/a)})
	}
	add("sends a second", "%.0f", func(f interop.ProducerFigures) float64 { return f.Rate })
	add("average response time, ms", "%.3f", func(f interop.ProducerFigures) float64 { return f.AverageMs })
	add("longest, its own start included, ms", "%.0f", func(f interop.ProducerFigures) float64 { return f.MaxMs })
	fmt.Println(t.RenderMarkdown())
	return good, nil
}
