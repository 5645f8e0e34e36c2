package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// DefaultTopic is where the load goes when nothing else is said. Topics whose names begin with it are ours: the load
// generator creates them with the queues that it wants.
const DefaultTopic = "PeregrineBench"

// SendOptions describes one load of sends. Zero values are no defaults: see DefaultSendOptions.
type SendOptions struct {
	Addr    string // broker; or
	Namesrv string // name servers, separated by ; or , of which the first that answers tells the brokers of Topic

	Topic       string
	Group       string // producer group
	Queues      int    // sent to in turn, by each connection
	Connections int
	Inflight    int     // closed loop: unanswered requests per connection
	MaxInflight int     // open loop: unfinished requests of all connections; arrivals beyond are skipped and counted
	Rate        float64 // messages a second on a fixed schedule (open loop); 0 = closed loop
	Size        int     // body bytes of a message
	Batch       int     // messages in a request
	Tags        string
	Keys        bool   // each message carries a key of its own, too; or
	Key         string // every message carries this one in KEYS; "" = none
	Encoding    wire.Encoding
	Threads     int // of the generator; 0 = half the cores, at most one a connection

	Warmup   time.Duration // not measured
	Duration time.Duration // measured

	CheckDispatch bool
	HistogramFile string // HdrHistogram log of the measured seconds; "" = none
}

// DefaultSendOptions is a short closed-loop load of small messages on a local broker.
func DefaultSendOptions() SendOptions {
	return SendOptions{
		Addr: "127.0.0.1:10911", Topic: DefaultTopic, Group: "peregrine_bench", Queues: 8, Connections: 4, Inflight: 32, MaxInflight: 10_000,
		Size: 128, Batch: 1, Tags: "TagA", Encoding: wire.EncodingJSON, Warmup: 2 * time.Second, Duration: 10 * time.Second,
	}
}

// check refuses what cannot be run, naming the flag.
func (o *SendOptions) check() error {
	within := func(flag string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("--%s %d: expected %d to %d", flag, v, low, high)
		}
		return nil
	}
	for _, err := range []error{
		within("connections", o.Connections, 1, connectionsMax),
		within("queues", o.Queues, 1, queuesMax),
		within("inflight", o.Inflight, 1, inflightPerMax),
		within("inflight times --connections", o.Inflight*o.Connections, 1, inflightSumMax),
		within("max-inflight", o.MaxInflight, 1, inflightSumMax),
		within("size", o.Size, 1, bodyBytesMax),
		within("batch", o.Batch, 1, batchMax),
		within("threads", o.Threads, 0, threadsMax),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case o.Rate < 0 || o.Rate > rateMax:
		return fmt.Errorf("--rate %g: expected 0 (closed loop) to %d messages a second", o.Rate, rateMax)
	case o.Duration < 10*time.Millisecond || o.Duration > 24*time.Hour:
		return fmt.Errorf("--duration %v: expected 10ms to 24h", o.Duration)
	case o.Warmup < 0 || o.Warmup > time.Hour:
		return fmt.Errorf("--warmup %v: expected 0s to 1h", o.Warmup)
	case o.Topic == "" || len(o.Topic) > 127:
		return fmt.Errorf("--topic %q: expected 1 to 127 characters", o.Topic)
	case o.Batch > 1 && o.Batch*(o.Size+200) > bodyBytesMax+o.Batch*200:
		return fmt.Errorf("--batch %d of --size %d: together more than %d bytes", o.Batch, o.Size, bodyBytesMax)
	case strings.ContainsAny(o.Tags, "\x01\x02"):
		return fmt.Errorf("--tags: the bytes 1 and 2 separate properties")
	case len(o.Key) > keyBytesMax || strings.ContainsAny(o.Key, "\x01\x02 "):
		return fmt.Errorf("--key: expected one key of at most %d bytes; space and the bytes 1 and 2 separate keys and properties", keyBytesMax)
	case o.Keys && o.Key != "":
		return fmt.Errorf("--keys and --key: a message gets a key of its own or the same as all, not both")
	case o.Addr == "" && o.Namesrv == "":
		return fmt.Errorf("--addr or --namesrv: one of them is needed")
	case o.Group == "":
		return fmt.Errorf("--group: must not be empty")
	}
	if o.Threads == 0 {
		o.Threads = max(1, sysio.CPUCount()/2)
	}
	o.Threads = min(o.Threads, o.Connections)
	return nil
}

func (o *SendOptions) frameSpec(t *target) frameSpec {
	return frameSpec{
		encoding: o.Encoding, group: o.Group, topic: o.Topic, brokerName: t.brokerName, queues: t.queues,
		bodyBytes: o.Size, batch: o.Batch, tags: o.Tags, keys: o.Keys, key: o.Key,
	}
}

// Send puts the load on and reports. Notes that a user should see at once go to notes, a line each. When ctx ends, the load
// ends early and what was measured is reported as interrupted. An error means that nothing worth reporting was measured;
// a bad result is no error: see Report.Failures.
func Send(ctx context.Context, opts SendOptions, notes io.Writer) (*Report, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	r := &run{opts: opts, base: time.Now()}
	r.baseMs = r.base.UnixMilli()
	var exists bool
	var err error
	if opts.Namesrv != "" {
		r.targets, exists, err = lookUpTargets(opts.Namesrv, opts.Topic, opts.Queues)
	} else {
		var t *target
		t, err = directTarget(opts.Addr, opts.Queues)
		r.targets = []*target{t}
	}
	if err != nil {
		return nil, err
	}
	if opts.Connections < len(r.targets) {
		fmt.Fprintf(notes, "%d connections do not reach all of the %d brokers of topic %s\n", opts.Connections, len(r.targets), opts.Topic)
		r.targets = r.targets[:opts.Connections]
	}
	controls := make([]*control, 0, len(r.targets))
	defer func() {
		for _, c := range controls {
			c.close()
		}
	}()
	rep := &Report{Conditions: conditionsOf(&opts)}
	before := int64(0)
	for _, t := range r.targets {
		c, err := dialControl(t.ap.String())
		if err != nil {
			return nil, err
		}
		controls = append(controls, c)
		note, err := prepareTopic(c, t, opts.Topic, !exists && strings.HasPrefix(opts.Topic, DefaultTopic))
		if err != nil {
			return nil, err
		}
		if note != "" {
			fmt.Fprintln(notes, note)
		}
		version, settings := brokerFacts(c)
		rep.Conditions.Brokers = append(rep.Conditions.Brokers, Broker{Addr: t.addr, Name: t.brokerName, Version: version, Settings: settings, Queues: t.queues})
		if opts.CheckDispatch {
			n, err := maxOffsets(c, t, opts.Topic)
			if err != nil {
				return nil, fmt.Errorf("--check-dispatch: %w", err)
			}
			before += n
		}
	}

	var log *histogramLog
	if opts.HistogramFile != "" {
		f, err := os.Create(opts.HistogramFile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		log = &histogramLog{w: hdr.NewHistogramLogWriter(f)}
		if err := log.begin(r.baseMs, rep.Conditions.title()); err != nil {
			return nil, fmt.Errorf("%s: %w", opts.HistogramFile, err)
		}
	}
	out, err := r.load(ctx, log)
	if err != nil {
		return nil, err
	}
	over := r.base.Add(time.Duration(out.lastAnswerNs))
	if opts.CheckDispatch {
		if rep.Dispatch, err = watchDispatch(ctx, controls, r.targets, opts.Topic, before, out.ackedTotal, over); err != nil {
			return nil, fmt.Errorf("--check-dispatch: %w", err)
		}
	}
	rep.fill(r, out)
	return rep, nil
}
