// Command compare measures peregrine beside the original on this machine: `make compare`, `make compare-recovery`, `make bench-vs-apache`, `make bench-limits`, `make bench-tails`,
// `make bench-longpoll`, `make bench-delay`, `make bench-hotkey`, `make bench-idle`, `make bench-producer`, `make bench-memory`, `make bench-dispatch`, `make bench-burst`.
//
//	compare speed      sends per second and latency of both brokers, interleaved, with ratios and verdicts
//	compare budget     every row of the budget on the original, peregrine and a bare gnet server, interleaved
//	compare producer   what the original's own benchmark Producer says of both brokers, interleaved
//	compare memory     anonymous memory of both with nothing, with 1,000 connections and with 10,000 queues
//	compare dispatch   how long queues and index of peregrine need after sends at full rate, and what the index costs sends
//	compare burst      whether consumers keep up with producers at 80 % of what the machine sustains, and how late messages come
//	compare limits     what this machine can do at most: a bare gnet server, syncs, copies into a mapping, loopback
//	compare tails      whether the 99.9th percentile of deliveries at half load stays while something else goes on
//	compare recovery   how long starts of both take on one directory of some GB, found in three ways
//	compare delay      how late delayed messages come, with and without other load
//	compare hotkey     sends whose messages all have one key beside sends with unique ones, and queries for that key
//	compare longpoll   how fast a message reaches a held pull of peregrine
//	compare idle       start, CPU and memory of a peregrine that has nothing to do
//
// The rules: the original runs with its shipped broker.conf and the collector settings of its start script, a heap of at
// least 4 GiB, and gets the warm-up load before anything counts. Both stores lie on one disk. Both brokers stay up (not for
// recovery, which gives them one directory in turn), only one is under load at a time, and the order alternates from round to round. A rate counts only if dispatch is level within a second.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"peregrine/bench"
	"peregrine/interop"
)

const apacheVersion = "5.5.0"

// apacheJVM is what bin/runbroker.sh of the original's release adds for Java 9 and later, heap size apart.
func apacheJVM() []string {
	return []string{"-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30",
		"-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:-OmitStackTraceInFastThrow", "-XX:+AlwaysPreTouch", "-XX:MaxDirectMemorySize=15g", "-XX:-UseLargePages"}
}

type options struct {
	binary   string
	dir      string
	heap     string
	warm     time.Duration
	duration time.Duration
	rounds   int
	segments int
	topics   int
	burst    time.Duration
	jsonFile string
	memory   *memoryFiller
	only     string
	results  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 || !slices.Contains([]string{"speed", "budget", "limits", "tails", "recovery", "longpoll", "idle", "delay", "hotkey", "producer", "memory", "dispatch", "burst"}, args[0]) {
		fmt.Fprintln(os.Stderr, "usage: compare speed|budget|limits|tails|recovery|longpoll|idle|delay|hotkey|producer|memory|dispatch|burst [--help]")
		return 2
	}
	var o options
	fs := pflag.NewFlagSet("compare "+args[0], pflag.ContinueOnError)
	fs.StringVar(&o.binary, "binary", filepath.Join("bin", "peregrine"), "peregrine's binary")
	fs.StringVar(&o.dir, "dir", os.TempDir(), "where both stores lie; the folders made there are removed at the end")
	fs.StringVar(&o.heap, "heap", "4g", "heap of the original's broker (-Xms and -Xmx)")
	fs.DurationVar(&o.warm, "warm", 60*time.Second, "load on the original before anything counts")
	fs.DurationVar(&o.duration, "duration", 10*time.Second, "measured time of one run")
	fs.IntVar(&o.rounds, "rounds", 3, "runs of each row on each broker")
	fs.IntVar(&o.segments, "segments", 3, "recovery: files of 1 GiB in the log")
	fs.IntVar(&o.topics, "topics", 1250, "memory: topics with a message in each of their 8 queues")
	fs.DurationVar(&o.burst, "burst", 60*time.Second, "dispatch and burst: how long the load lasts that is judged")
	fs.StringVar(&o.only, "only", "", "budget: rows whose name has this")
	fs.StringVar(&o.results, "results", filepath.Join("perf", "results"), "budget and limits: folder for table and reports; empty = none")
	fs.StringVar(&o.jsonFile, "json", "", "write all reports to this file")
	fill := fs.Bool("fill-memory", true, "runs under load: make page cache of what memory is free first, as on a machine that has run for a while")
	if err := fs.Parse(args[1:]); err != nil {
		if !errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		return 2
	}
	dir, err := os.MkdirTemp(o.dir, "peregrine-compare-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if *fill {
		if o.memory, err = newMemoryFiller(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	alone := map[string]func() (bool, error){
		"idle":     func() (bool, error) { return measureIdle(ctx, o.binary, dir) },
		"recovery": func() (bool, error) { return compareRecovery(ctx, o, dir) },
		"tails":    func() (bool, error) { return measureTails(ctx, o, dir) },
		"limits":   func() (bool, error) { return true, measureLimits(ctx, o, dir) },
	}
	if measure := alone[args[0]]; measure != nil {
		return exitCode(measure())
	}
	ours, err := startPeregrine(o.binary, filepath.Join(dir, "peregrine"), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stopBroker(ours)
	if args[0] == "longpoll" {
		return bench.Main([]string{"longpoll", "--addr", ours.Addr()}, os.Stdout, os.Stderr)
	}
	oursOnly := map[string]func() (bool, error){
		"delay":    func() (bool, error) { return measureDelays(ctx, ours.Addr()) },
		"hotkey":   func() (bool, error) { return measureHotKey(ctx, o, ours.Addr()) },
		"dispatch": func() (bool, error) { return measureDispatch(ctx, o, dir, ours) },
		"burst":    func() (bool, error) { return measureBurst(ctx, o, ours) },
	}
	if measure := oursOnly[args[0]]; measure != nil {
		return exitCode(measure())
	}
	theirs, err := startApache(o, filepath.Join(dir, "apache"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stopBroker(theirs)
	switch args[0] {
	case "budget":
		return exitCode(compareBudget(ctx, o, dir, theirs, ours))
	case "producer":
		return exitCode(compareProducer(ctx, o, dir, theirs, ours))
	case "memory":
		return exitCode(compareMemory(ctx, o, dir, theirs, ours))
	default:
		return exitCode(compareSpeed(ctx, o, theirs, ours))
	}
}

// exitCode says what went wrong, if anything did.
func exitCode(good bool, err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !good {
		return 1
	}
	return 0
}

func startPeregrine(binary, dir string, settings map[string]string) (*interop.Peregrine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return interop.StartPeregrine(interop.PeregrineOptions{Binary: binary, Dir: dir, Settings: settings})
}

func toolchain() (*interop.Toolchain, error) {
	root, err := filepath.Abs("interop")
	return &interop.Toolchain{Root: root, Download: os.Getenv("PEREGRINE_INTEROP") == "required"}, err
}

func startApache(o options, dir string) (*interop.Apache, error) {
	tools, err := toolchain()
	if err != nil {
		return nil, err
	}
	classPath, err := tools.ServerClassPath(apacheVersion)
	if err != nil {
		return nil, fmt.Errorf("the original cannot be started (run from the project's folder; PEREGRINE_INTEROP=required allows Maven to download): %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return interop.StartApache(interop.ApacheOptions{ClassPath: classPath, Dir: dir, Heap: o.heap, JVM: apacheJVM()})
}

func stopBroker(b interop.Broker) {
	if err := b.Stop(syscall.SIGTERM); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
