package bench

import (
	"context"
	"fmt"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// freezeSlowPart divides the length of a freeze: requests that took at least so much of it count as slow.
const freezeSlowPart = 100

// Freeze is a drill: a process stands still during the load. Every message that was meant to be sent meanwhile is late, so an open loop has to see
// as many slow samples as there were arrivals.
type Freeze struct {
	Pid      int           `json:"pid"`
	Length   time.Duration `json:"lengthNs"`
	Slow     int64         `json:"slow"`
	Expected float64       `json:"expected"` // rate times length
}

// freeze stops a process in the middle of the load and lets it go on. end makes sure that it does, however the load ended: a broker that stands
// still would stay so for good.
func (r *run) freeze(ctx context.Context) (end func(), err error) {
	o := &r.opts
	if err := unix.Kill(o.FreezePid, 0); err != nil {
		return nil, fmt.Errorf("--freeze-pid %d: %w", o.FreezePid, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	wait := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	middle := time.Duration(r.warmNs-r.nowNs()) + (o.Duration-o.Freeze)/2
	over := make(chan struct{})
	go func() { // ends with the freeze, or with end
		defer close(over)
		if wait(middle) && unix.Kill(o.FreezePid, unix.SIGSTOP) == nil {
			wait(o.Freeze)
			_ = unix.Kill(o.FreezePid, unix.SIGCONT)
		}
	}()
	return func() { cancel(); <-over }, nil
}

// slowIn counts samples of at least ns.
func slowIn(h *hdr.Histogram, ns int64) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.From >= ns {
			n += bar.Count
		}
	}
	return n
}
