package netio

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Case P17: one connection sends 4 MiB frames at full speed, 99 others on the same loop ping ten times
// a second. A starved ping would wait until the test gives up; the bound is far below that and far above
// what a machine busy with other things needs. The figure is logged.
func TestBusyConnectionDoesNotStarveOthers(t *testing.T) {
	s := startServer(t, &scripted{frame: func(c *Conn, f []byte) {
		if len(f) > 1<<20 {
			f = f[:8]
		}
		c.Out = appendFrame(c.Out, f)
	}}, nil)
	var stop atomic.Bool
	var busy, pingers sync.WaitGroup
	heavy := dial(t, s.addr)
	busy.Go(func() {
		big := appendFrame(nil, frameOf(1, 4<<20))
		for !stop.Load() {
			if _, err := heavy.Write(big); err != nil {
				t.Error(err)
				return
			}
		}
		_ = heavy.CloseWrite()
	})
	busy.Go(func() { _, _ = io.Copy(io.Discard, heavy) })
	var mu sync.Mutex
	var took []time.Duration
	for k := range 99 {
		pingers.Go(func() {
			c := dial(t, s.addr)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for range 10 {
				<-tick.C
				start := time.Now()
				c.ping(k)
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
		})
	}
	pingers.Wait()
	stop.Store(true)
	busy.Wait()
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d MiB/s from the busy connection, ping p50 %v, p99 %v", s.Stats().BytesIn>>20, took[len(took)/2], p99)
	if p99 > 2*time.Second {
		t.Errorf("ping p99 is %v beside a busy connection", p99)
	}
}
