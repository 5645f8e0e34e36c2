package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"peregrine/internal/sysio"
	"peregrine/interop"
)

// The promises of a broker that has nothing to do.
const (
	startRuns     = 9
	startMax      = 100 * time.Millisecond // median from exec to the ready line, empty store
	idleFor       = 30 * time.Second
	idleCPUMax    = 0.01 // cores
	idleAnonMax   = 40 << 20
	settleAtStart = 3 * time.Second
	bytesPerMiB   = 1 << 20
)

// measureIdle starts peregrine several times on an empty store and then watches one that has nothing to do.
func measureIdle(ctx context.Context, binary, dir string) (good bool, err error) {
	var ready []time.Duration
	var broker *interop.Peregrine
	for i := range startRuns {
		if broker, err = startPeregrine(binary, filepath.Join(dir, fmt.Sprint("start", i)), nil); err != nil {
			return false, err
		}
		ready = append(ready, broker.ReadyAfter)
		if i < startRuns-1 {
			if err := broker.Stop(syscall.SIGTERM); err != nil {
				return false, err
			}
		}
	}
	defer stopBroker(broker)
	slices.Sort(ready)
	median := ready[len(ready)/2]
	good = verdict("start to ready, empty store, median of "+fmt.Sprint(startRuns), median.Round(100*time.Microsecond).String(), "at most "+startMax.String(), median <= startMax)
	fmt.Printf("  (all: %v)\n", ready)

	pid := broker.Process().Pid()
	wait := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(settleAtStart); err != nil {
		return false, err
	}
	before, err := sysio.CPUOf(pid)
	if err != nil {
		return false, err
	}
	if err := wait(idleFor); err != nil {
		return false, err
	}
	after, err := sysio.CPUOf(pid)
	if err != nil {
		return false, err
	}
	cores := (after - before).Seconds() / idleFor.Seconds()
	good = verdict(fmt.Sprintf("CPU while idle, %v", idleFor), fmt.Sprintf("%.2f %% of a core", cores*100), fmt.Sprintf("below %.0f %%", idleCPUMax*100), cores < idleCPUMax) && good
	anon, err := sysio.RssAnonOf(pid)
	if err != nil {
		return false, err
	}
	good = verdict("anonymous memory while idle (RssAnon)", fmt.Sprintf("%.1f MiB", float64(anon)/bytesPerMiB), fmt.Sprintf("below %d MiB", idleAnonMax/bytesPerMiB), anon < idleAnonMax) && good
	return good, nil
}

func verdict(what, value, promise string, holds bool) bool {
	word := "ok"
	if !holds {
		word = "MISSED"
	}
	fmt.Printf("%-50s %-20s %-20s %s\n", what, value, promise, word)
	return holds
}
