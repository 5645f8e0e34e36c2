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

// freeze stops a process in the middle of the load and lets it go on.
func (r *run) freeze(ctx context.Context) error {
	o := &r.opts
	if err := unix.Kill(o.FreezePid, 0); err != nil {
		return fmt.Errorf("--freeze-pid %d: %w", o.FreezePid, err)
	}
	middle := time.Duration(r.warmNs-r.nowNs()) + (o.Duration-o.Freeze)/2
	go func() { // ends with the freeze, before the load does
		select {
		case <-ctx.Done():
			return
		case <-time.After(middle):
		}
		if unix.Kill(o.FreezePid, unix.SIGSTOP) == nil {
			time.Sleep(o.Freeze)
			_ = unix.Kill(o.FreezePid, unix.SIGCONT)
		}
	}()
	return nil
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
