package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"peregrine/bench"
)

// The promises of case D03: how late 99 of 100 delayed messages may come.
const (
	delayIdleMax   = 50 * time.Millisecond
	delayLoadedMax = 200 * time.Millisecond
	probeFor       = 5 * time.Second
	loadFor        = 30 * time.Second
)

// measureDelays sends 1,000 messages of levels 1, 2 and 3 to a broker that has nothing else to do, and again while it takes half of
// the sends that it can.
func measureDelays(ctx context.Context, addr string) (good bool, err error) {
	fmt.Println("an idle broker")
	good = bench.Main([]string{"delay", "--addr", addr, "--limit", delayIdleMax.String()}, os.Stdout, os.Stderr) == 0
	load := bench.DefaultOptions()
	load.Addr, load.Warmup, load.Duration = addr, time.Second, probeFor
	probe, err := bench.Run(ctx, load, io.Discard)
	if err != nil {
		return false, err
	}
	load.Rate, load.Duration = probe.Rate/2, loadFor
	fmt.Printf("a broker that takes %.0f messages a second, half of %.0f\n", load.Rate, probe.Rate)
	ended := make(chan error, 1)
	busy, stop := context.WithCancel(ctx)
	go func() {
		_, err := bench.Run(busy, load, io.Discard)
		ended <- err
	}()
	good = bench.Main([]string{"delay", "--addr", addr, "--limit", delayLoadedMax.String()}, os.Stdout, os.Stderr) == 0 && good
	stop()
	return good, <-ended
}
