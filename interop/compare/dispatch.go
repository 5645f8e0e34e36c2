package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"peregrine/bench"
	"peregrine/interop"
	"peregrine/wire"
)

// What is asked of dispatch after and beside sends at full rate.
const (
	dispatchLevelMax  = time.Second
	indexSendRatioMin = 0.85 // sends a second, of those without the index
)

// measureDispatch sends at full rate, looks how long queues and index need to become level, and then sends with and without the index in turn.
func measureDispatch(ctx context.Context, o options, dir string, ours *interop.Peregrine) (good bool, err error) {
	load := bench.DefaultOptions()
	load.Addr, load.Encoding, load.CheckDispatch, load.Duration = ours.Addr(), wire.EncodingBinary, true, o.burst
	c, err := interop.DialRaw(ours.Addr())
	if err != nil {
		return false, err
	}
	defer c.Close()
	burst, err := o.load(ctx, load, os.Stderr)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return false, err
	}
	queues := time.Duration(burst.Dispatch.AfterSeconds * float64(time.Second))
	lastAnswer := time.Now().Add(-queues)
	if err := awaitProbe(c); err != nil {
		return false, err
	}
	index := time.Since(lastAnswer)
	machine := burst.Conditions.Machine
	fmt.Printf("%s; load average %.2f before.\n%d messages in %v, %.0f/s%s\n", machine, machine.Load[0], burst.Acked, o.burst, burst.Rate, failures(burst))
	good = verdict("ConsumeQueues level after the last answer", queues.Round(100*time.Microsecond).String(), "under "+dispatchLevelMax.String(), burst.Dispatch.Level && queues < dispatchLevelMax)
	good = verdict("index level after the last answer, at most", index.Round(100*time.Microsecond).String(), "under "+dispatchLevelMax.String(), index < dispatchLevelMax) && good
	good = good && len(burst.Failures) == 0

	without, err := startPeregrine(o.binary, filepath.Join(dir, "without"), map[string]string{"messageIndexEnable": "false"})
	if err != nil {
		return false, err
	}
	defer stopBroker(without)
	sides, rates := []side{{"with the index", ours}, {"without", without}}, map[string][]float64{}
	load.Duration = o.duration
	for round := range o.rounds {
		for _, s := range sides {
			load.Addr = s.broker.Addr()
			rep, err := o.load(ctx, load, io.Discard)
			if err == nil {
				err = ctx.Err()
			}
			if err == nil && s.broker == ours {
				err = awaitProbe(c) // the next load meets a level index
			}
			if err != nil {
				return false, fmt.Errorf("%s: %w\n%s", s.name, err, s.broker.Logs())
			}
			rates[s.name] = append(rates[s.name], rep.Rate)
			good = good && len(rep.Failures) == 0
			fmt.Printf("round %d  %-15s %10.0f/s%s\n", round+1, s.name, rep.Rate, failures(rep))
		}
		slices.Reverse(sides)
	}
	a, b := bench.Median(rates["without"]), bench.Median(rates["with the index"])
	good = verdict("sends/s, medians, with : without the index", fmt.Sprintf("%.0f : %.0f = %.2f", b, a, b/a), fmt.Sprintf("at least %g", indexSendRatioMin), b/a >= indexSendRatioMin) && good
	fmt.Println("Dispatch into ConsumeQueues cannot be switched off, so its share of what sends cost is not measured.")
	return good, nil
}
