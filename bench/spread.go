package bench

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
)

// figure is a number that runs are compared by.
type figure struct {
	name   string
	value  func(*Report) (v float64, ok bool)
	show   func(float64) string
	higher bool // is better
}

// figures are those of all commands; a run has some of them.
func figures() []figure {
	rate := func(v float64) string { return grouped(int64(v)) }
	nanoseconds := func(v float64) string { return short(int64(v)) }
	all := []figure{
		{"messages/s acknowledged", func(r *Report) (float64, bool) { return r.Rate, r.Conditions.Connections > 0 }, rate, true},
		{"messages/s received", func(r *Report) (float64, bool) {
			if r.Consume == nil {
				return 0, false
			}
			return r.Consume.Rate, true
		}, rate, true},
	}
	for _, kind := range []struct {
		name string
		of   func(*Report) *Latency
	}{
		{"response", func(r *Report) *Latency { return r.Response }},
		{"service", func(r *Report) *Latency {
			if r.Conditions.Connections == 0 {
				return nil
			}
			return r.Service
		}},
		{"delivery", func(r *Report) *Latency {
			if r.Consume == nil {
				return nil
			}
			return r.Consume.Delivery
		}},
		{"pull", func(r *Report) *Latency {
			if r.Consume == nil {
				return nil
			}
			return r.Consume.Pull
		}},
	} {
		for _, at := range []struct {
			name string
			of   func(*Latency) int64
		}{
			{"p50", func(l *Latency) int64 { return l.P50Ns }}, {"p99", func(l *Latency) int64 { return l.P99Ns }},
			{"p99.9", func(l *Latency) int64 { return l.P999Ns }}, {"max", func(l *Latency) int64 { return l.MaxNs }},
		} {
			all = append(all, figure{kind.name + " " + at.name, func(r *Report) (float64, bool) {
				l := kind.of(r)
				if l == nil || l.Count == 0 {
					return 0, false
				}
				return float64(at.of(l)), true
			}, nanoseconds, false})
		}
	}
	return append(all, figure{"cores of the generator", func(r *Report) (float64, bool) { return r.GeneratorCores, true }, digits3, false})
}

// Spread is one figure over several runs.
type Spread struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"` // in the order of the runs; times in nanoseconds
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`

	show func(float64) string
}

func spreadOf(name string, values []float64, show func(float64) string) Spread {
	return Spread{Name: name, Values: values, Median: Median(values), Min: slices.Min(values), Max: slices.Max(values), show: show}
}

// Median is the one in the middle, or what is half-way between the two there; 0 of none. It leaves values as they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spreads are the figures that every one of the runs has.
func spreads(reports []*Report) (all []Spread) {
	for _, f := range figures() {
		var values []float64
		for _, r := range reports {
			if v, ok := f.value(r); ok {
				values = append(values, v)
			}
		}
		if len(values) == len(reports) {
			all = append(all, spreadOf(f.name, values, f.show))
		}
	}
	return all
}

// runs are several runs of one load.
type runs struct {
	Rounds []*Report `json:"rounds"`
	Spread []Spread  `json:"spread"`
}

func (rs *runs) table() table.Writer {
	t := newTable(fmt.Sprintf("%d runs", len(rs.Rounds)), "median", "least", "most")
	for _, s := range rs.Spread {
		t.AppendRow(table.Row{s.Name, s.show(s.Median), s.show(s.Min), s.show(s.Max)})
	}
	rightAlign(t, 2, 4)
	return t
}

// failures of all rounds, each with its number.
func (rs *runs) failures() (all []string) {
	for i, r := range rs.Rounds {
		for _, s := range r.Failures {
			all = append(all, fmt.Sprintf("run %d: %s", i+1, s))
		}
	}
	return all
}

func (rs *runs) write(w io.Writer, markdown bool) {
	if len(rs.Rounds) == 1 {
		rs.Rounds[0].write(w, markdown)
		return
	}
	rs.Rounds[0].writeConditions(w)
	fmt.Fprintln(w, render(rs.table(), markdown))
	for _, s := range rs.failures() {
		fmt.Fprintln(w, "FAILED:", s)
	}
}
