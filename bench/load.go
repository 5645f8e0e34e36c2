package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"peregrine/wire"
)

// Run puts the load on and reports. Notes that a user should see at once go to notes, a line each. When ctx ends, the load
// ends early and what was measured is reported as interrupted. An error means that nothing worth reporting was measured;
// a bad result is no error: see Report.Failures.
func Run(ctx context.Context, opts Options, notes io.Writer) (*Report, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	r := &run{opts: opts, base: time.Now()}
	r.baseMs, r.id = r.base.UnixMilli(), uint32(r.base.UnixNano()>>10)
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
	for _, connections := range []int{opts.Connections, opts.PullConnections} {
		if connections > 0 && connections < len(r.targets) {
			fmt.Fprintf(notes, "%d connections do not reach all of the %d brokers of topic %s\n", connections, len(r.targets), opts.Topic)
			r.targets = r.targets[:connections]
		}
	}
	controls := make([]*control, 0, len(r.targets))
	defer func() {
		for _, c := range controls {
			c.close()
		}
	}()
	rep := &Report{Conditions: conditionsOf(&opts)}
	if opts.ProbeDir != "" {
		if rep.Conditions.Probe, err = ProbeDevice(opts.ProbeDir); err != nil {
			return nil, err
		}
	}
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

	if opts.consumes != consumeNothing {
		if err := r.findOffsets(ctx, controls, notes); err != nil {
			return nil, err
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
	var profiles *capture
	if opts.ProfileDir != "" {
		profiles = &capture{dir: opts.ProfileDir, addr: opts.ProfileHTTP}
		if err := profiles.begin(ctx, opts.Warmup, max(1, min(int(opts.Duration.Seconds()), profileSecondsMax))); err != nil {
			return nil, err
		}
	}
	out, err := r.load(ctx, log, newProgress(notes))
	if err != nil {
		return nil, err
	}
	if profiles != nil {
		if err := <-profiles.done; err != nil {
			rep.Warnings = append(rep.Warnings, err.Error())
		}
	}
	over := r.base.Add(time.Duration(out.lastAnswerNs))
	if opts.CheckDispatch {
		if rep.Dispatch, err = watchDispatch(ctx, controls, r.targets, opts.Topic, before, out.ackedTotal, over); err != nil {
			return nil, fmt.Errorf("--check-dispatch: %w", err)
		}
	}
	rep.fill(r, out)
	if opts.Freeze > 0 {
		of := out.whole.response
		if out.whole.delivery != nil {
			of = out.whole.delivery
		}
		rep.Freeze = &Freeze{Pid: opts.FreezePid, Length: opts.Freeze, Slow: slowIn(of, int64(opts.Freeze/freezeSlowPart)), Expected: opts.Rate * opts.Freeze.Seconds()}
	}
	return rep, nil
}

// findOffsets sees to it that the backlog is there and asks where the queues begin and end.
func (r *run) findOffsets(ctx context.Context, controls []*control, notes io.Writer) error {
	for told := false; ; told = true {
		there := int64(0)
		for i, t := range r.targets {
			var err error
			if t.begins, err = offsets(controls[i], t, r.opts.Topic, wire.RequestGetMinOffset); err == nil {
				t.ends, err = offsets(controls[i], t, r.opts.Topic, wire.RequestGetMaxOffset)
			}
			if err != nil {
				return err
			}
			for q := range t.ends {
				there += t.ends[q] - t.begins[q]
			}
		}
		if there >= int64(r.opts.Backlog) {
			return nil
		}
		if !told {
			fmt.Fprintf(notes, "topic %s has %s messages; %s are sent first\n", r.opts.Topic, grouped(there), grouped(int64(r.opts.Backlog)-there))
		}
		fill := r.opts
		fill.Mode, fill.consumes, fill.Groups, fill.Backlog, fill.Rate, fill.Delayed, fill.ProbeDir = "send", consumeNothing, 0, 0, 0, 0, ""
		fill.Connections, fill.Inflight, fill.HistogramFile = max(fill.Connections, len(r.targets)), fillInflight, ""
		fill.Warmup, fill.Duration, fill.CheckDispatch = 0, fillStep, true
		rep, err := Run(ctx, fill, io.Discard)
		if err != nil {
			return fmt.Errorf("backlog: %w", err)
		}
		if rep.Acked == 0 || rep.Interrupted {
			return fmt.Errorf("backlog: %s", strings.Join(rep.Failures, "; "))
		}
	}
}
