package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"peregrine/bench"
	"peregrine/interop"
	"peregrine/wire"
)

// What case C21 asks of consumption beside producers at burstShare of the most that this machine sustains.
const (
	burstConsumers   = 8
	burstShare       = 0.8
	burstStep        = 0.9 // from one rate that is tried to the next
	burstTriesMax    = 12
	burstTry         = 5 * time.Second
	burstDeliveryMax = 20 * time.Millisecond
	burstReceivedMin = 0.99 // of what is acknowledged meanwhile
)

// measureBurst looks for the largest rate at which nothing is skipped and consumers keep up, and then sends at a share of it for long; where
// deliveries are late then, it goes on with smaller shares, to tell from where on they are not.
func measureBurst(ctx context.Context, o options, ours *interop.Peregrine) (good bool, err error) {
	load, ok := bench.OptionsOf("e2e")
	if !ok {
		return false, errors.New("BUG: no e2e load")
	}
	load.Addr, load.Encoding, load.Connections, load.PullConnections, load.Duration = ours.Addr(), wire.EncodingBinary, burstConsumers, burstConsumers, burstTry
	most, err := sustained(ctx, o, load)
	if err != nil {
		return false, err
	}
	load.Duration = o.burst
	load.CheckDispatch = true
	for share := burstShare; share > 0.1; share -= 0.2 {
		load.Rate = share * most
		rep, err := o.load(ctx, load, io.Discard)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return false, err
		}
		fmt.Printf("%v at %.0f %% of %.0f/s%s\n", o.burst, 100*share, most, failures(rep))
		late := burstP99(rep)
		held := verdict("received : sent a second", fmt.Sprintf("%.0f : %.0f", rep.Consume.Rate, rep.Rate), fmt.Sprintf("at least %g", burstReceivedMin), keepsUp(rep))
		held = verdict("deliveries p99", late.String(), "under "+burstDeliveryMax.String(), late < burstDeliveryMax) && held
		level := time.Duration(rep.Dispatch.AfterSeconds * float64(time.Second))
		held = verdict("ConsumeQueues level after the last answer", level.Round(100*time.Microsecond).String(), "under "+dispatchLevelMax.String(), rep.Dispatch.Level && level < dispatchLevelMax) && held
		held = held && len(rep.Failures) == 0
		if share == burstShare {
			good = held
		}
		if held {
			return good, nil
		}
	}
	fmt.Fprintln(os.Stderr, "deliveries are late at every share")
	return false, nil
}

// sustained looks for the largest rate of deliveries in an open loop at which nothing is skipped and consumers keep up, beginning with what a closed loop
// reaches.
func sustained(ctx context.Context, o options, load bench.Options) (most float64, err error) {
	for try := range burstTriesMax {
		load.Rate = most
		rep, err := o.load(ctx, load, io.Discard)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return 0, err
		}
		if try == 0 {
			machine := rep.Conditions.Machine
			fmt.Printf("%s; load average %.2f before.\nclosed loop, %d connections with %d in flight, %d that pull: %.0f/s sent, %.0f/s received\n",
				machine, machine.Load[0], load.Connections, load.Inflight, load.PullConnections, rep.Rate, rep.Consume.Rate)
			most = rep.Rate
			continue
		}
		fmt.Printf("open loop, %.0f/s: %.0f/s sent, %.0f/s received, %d skipped, deliveries p99 %v\n", most, rep.Rate, rep.Consume.Rate, rep.Skipped, burstP99(rep))
		if rep.Skipped == 0 && keepsUp(rep) {
			return most, nil
		}
		most *= burstStep
	}
	return 0, fmt.Errorf("consumers do not even keep up with %.0f/s", most)
}

func keepsUp(rep *bench.Report) bool { return rep.Consume.Rate >= burstReceivedMin*rep.Rate }

func burstP99(rep *bench.Report) time.Duration {
	return time.Duration(rep.Consume.Delivery.P99Ns).Round(100 * time.Microsecond)
}
