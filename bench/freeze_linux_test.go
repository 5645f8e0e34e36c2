package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A load that is interrupted during the drill leaves nobody standing still.
func TestAnInterruptedFreezeEnds(t *testing.T) {
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	stopped := func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return stat[bytes.LastIndexByte(stat, ')')+2] == 'T'
	}
	f := startFakeBroker(t, nil)
	o := shortLoad(f)
	o.Rate, o.Warmup, o.Duration, o.Freeze, o.FreezePid = 500, 0, time.Minute, 59*time.Second, other.Process.Pid
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	over := make(chan error, 1)
	go func() {
		_, err := Run(ctx, o, &bytes.Buffer{})
		over <- err
	}()
	for deadline := time.Now().Add(20 * time.Second); !stopped(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process was never stopped")
		}
	}
	interrupt()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if stopped() {
		t.Error("the process stands still after the load")
	}
}
