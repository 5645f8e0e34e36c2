// Package bench is the load generator behind `peregrine bench`. It speaks the Remoting protocol and nothing else: it imports
// no part of the broker, so it measures any RocketMQ-compatible server in the same way.
//
// What makes its numbers honest:
//   - Open loop (`--rate`): each message has an intended send time from a fixed schedule, and its response time counts from
//     then, whether or not the generator, the socket or the broker was ready. A broker that stands still for a second shows
//     as a second of slow samples, not as one (coordinated omission).
//   - Closed loop says that it is one: its response time is the service time, and stalls are under-represented.
//   - A rate counts acknowledged messages only; errors are counted by code beside it, skipped arrivals beside that.
//   - With `--check-dispatch` a rate counts only if the messages are visible to consumers within dispatchLevelMax.
//   - Each message is what the Java client sends: its own UNIQ_KEY, WAIT, TAGS.
//   - Each body says where it comes from (stamp.go); consumers verify all of them (sequence.go, consume.go).
//
// A load is Options (options.go) that a mode fills (modes.go). Run (load.go) prepares topic and backlog, run.load drives the workers
// (worker_linux.go; what consumers do is in pull_linux.go) and folds their intervals, Report.fill says what it means. sweep.go, compare.go and
// plan.go are made of several loads; table.go and html.go show them.
//
// How it stays out of the way: a worker is one goroutine on one thread of its own with an epoll set, non-blocking sockets
// and waits of nanosecond resolution (the runtime's timers round a short wait up to a millisecond when the process is
// idle). Frames are prebuilt and patched in place; all frames due in one turn of a connection leave in one write; answers
// are parsed in a large buffer. A message costs no allocation, no lock and no channel operation.
//
// Goroutines of a send run: the workers, and the caller, which collects one interval a second from each. A worker owns its
// connections, tables and histograms; an interval changes hands through a channel and comes back empty through another.
// The only state shared by writing is the atomic end of the run (run.endNs), which an interrupt moves forward.
package bench
