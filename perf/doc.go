// Package perf is what peregrine can say about itself while it runs: the HTTP server with /metrics, /livez, /readyz and
// /debug/pprof, and the short facts (version, machine) that a start banner prints.
//
// It knows no other room. Counters and gauges are callbacks that the graph builder registers; perf calls them only when
// somebody scrapes, so nothing here costs anything per message. Readiness is a callback too.
//
// Goroutines: one that serves, plus net/http's own per connection (at most connectionsMax). All of them end in Close.
// Locks: Registry.mu guards the list of families; callbacks run outside it, so a callback may register.
//
// The text is the plain Prometheus format, histograms in the `le` form. The metrics of the Go runtime and of the process
// come from VictoriaMetrics/metrics as they are.
package perf
