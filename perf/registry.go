package perf

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// Registry is the list of metrics of one server. The zero value is not usable: see NewRegistry.
// Registering may be done from any goroutine, also while a scrape runs.
type Registry struct {
	set *metrics.Set

	mu       sync.Mutex // guards families and byName; no callback runs under it
	families []*family
	byName   map[string]*family
}

type metricKind string

const (
	kindGauge     metricKind = "gauge"
	kindCounter   metricKind = "counter"
	kindHistogram metricKind = "histogram"
)

// family is all series of one metric name: Prometheus wants them together, under one HELP and one TYPE.
type family struct {
	name   string
	help   string
	kind   metricKind
	series []series
}

type series struct {
	labels string // `loop="0"`, without braces; empty = none
	write  func(w io.Writer)
}

// NewRegistry returns an empty registry with a metric set of its own; nothing goes into the library's global one.
func NewRegistry() *Registry {
	r := &Registry{set: metrics.NewSet(), byName: map[string]*family{}}
	r.set.RegisterMetricsWriter(r.writeFamilies)
	return r
}

// Gauge registers a value that may go up and down. name may carry labels: `peregrine_loop_connections{loop="0"}`.
// read is called once a scrape, from the scraper's goroutine; it must be safe beside the goroutines that change the value.
// A name that is malformed, taken, or taken by another kind is a programming error and panics.
func (r *Registry) Gauge(name, help string, read func() float64) {
	r.add(name, help, kindGauge, func(w io.Writer, full string) {
		metrics.WriteGaugeFloat64(w, full, read())
	})
}

// Counter registers a value that only grows while the process lives. By custom its name ends in `_total`. Rules as for Gauge.
func (r *Registry) Counter(name, help string, read func() uint64) {
	r.add(name, help, kindCounter, func(w io.Writer, full string) {
		metrics.WriteCounterUint64(w, full, read())
	})
}

// Series registers a metric whose series come and go: read calls add with the labels (`group="a"`, without braces, values
// quoted; no two alike) and the value of each series that there is. total says that the values only grow. Rules as for Gauge;
// name has no labels. A series that is there only sometimes has the labels "".
func (r *Registry) Series(name, help string, total bool, read func(add func(labels string, value float64))) {
	kind := kindGauge
	if total {
		kind = kindCounter
	}
	r.add(name, help, kind, func(w io.Writer, full string) {
		read(func(labels string, value float64) {
			name := full
			if labels != "" {
				name += "{" + labels + "}"
			}
			metrics.WriteGaugeFloat64(w, name, value)
		})
	})
}

// Histogram registers a distribution. bounds are the upper bounds of its buckets, ascending, in the unit of the name
// (seconds, bytes), without +Inf; they are kept, so the caller must not change them. snapshot fills counts, which has
// len(bounds)+1 zeroed entries (the last one for what lies above all bounds) with the number of observations per bucket,
// not added up, and returns the sum of all observed values. counts is valid only during the call.
func (r *Registry) Histogram(name, help string, bounds []float64, snapshot func(counts []uint64) (sum float64)) {
	if err := metrics.ValidateBuckets(bounds); err != nil || len(bounds) == 0 {
		panic(fmt.Sprintf("BUG: histogram %s: bad bounds %v: %v", name, bounds, err))
	}
	base, labels := splitName(name)
	with := func(suffix, extra string) string {
		all := labels
		if extra != "" {
			if all != "" {
				all += ","
			}
			all += extra
		}
		if all == "" {
			return base + suffix
		}
		return base + suffix + "{" + all + "}"
	}
	r.add(name, help, kindHistogram, func(w io.Writer, _ string) {
		counts := make([]uint64, len(bounds)+1)
		sum := snapshot(counts)
		total := uint64(0)
		for i, n := range counts {
			total += n
			le := math.Inf(1)
			if i < len(bounds) {
				le = bounds[i]
			}
			fmt.Fprintf(w, "%s %d\n", with("_bucket", fmt.Sprintf("le=%q", formatBound(le))), total)
		}
		fmt.Fprintf(w, "%s %g\n", with("_sum", ""), sum)
		fmt.Fprintf(w, "%s %d\n", with("_count", ""), total)
	})
}

func formatBound(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return fmt.Sprintf("%g", v)
}

func splitName(name string) (base, labels string) {
	base, labels, found := strings.Cut(name, "{")
	if !found {
		return name, ""
	}
	return base, strings.TrimSuffix(labels, "}")
}

func (r *Registry) add(name, help string, kind metricKind, write func(w io.Writer, full string)) {
	if err := metrics.ValidateMetric(name); err != nil {
		panic(fmt.Sprintf("BUG: metric name %q: %v", name, err))
	}
	base, labels := splitName(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byName[base]
	if f == nil {
		f = &family{name: base, help: help, kind: kind}
		r.byName[base] = f
		r.families = append(r.families, f)
	}
	if f.kind != kind {
		panic(fmt.Sprintf("BUG: metric %s is registered as %s and as %s", base, f.kind, kind))
	}
	for _, s := range f.series {
		if s.labels == labels {
			panic(fmt.Sprintf("BUG: metric %s is registered twice", name))
		}
	}
	f.series = append(f.series, series{labels: labels, write: func(w io.Writer) { write(w, name) }})
}

// writeFamilies writes every registered family in the order of registration.
func (r *Registry) writeFamilies(w io.Writer) {
	r.mu.Lock()
	families := make([]family, len(r.families))
	for i, f := range r.families {
		families[i] = *f // the series slice is append-only, so a copy of its header is a stable view
	}
	r.mu.Unlock()
	for i := range families {
		f := &families[i]
		if f.help != "" {
			fmt.Fprintf(w, "# HELP %s %s\n", f.name, escapeHelp(f.help))
		}
		fmt.Fprintf(w, "# TYPE %s %s\n", f.name, f.kind)
		for _, s := range f.series {
			s.write(w)
		}
	}
}

func escapeHelp(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s)
}

// WriteTo writes one scrape: the registered families, then the Go runtime's and the process's own metrics.
// The text is complete in memory before its first byte is written, so a callback that panics leaves no half answer.
func (r *Registry) WriteTo(w io.Writer) (int64, error) {
	var page bytes.Buffer
	r.set.WritePrometheus(&page)
	metrics.WriteGoMetrics(&page)
	metrics.WriteProcMetrics(&page)
	return page.WriteTo(w)
}
