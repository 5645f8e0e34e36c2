package store

import (
	"testing"
	"time"

	"peregrine/internal/stagetime"
	"peregrine/internal/sysio"
)

func counted(times *stagetime.Times) (n uint64) {
	for _, bucket := range times.Buckets {
		n += bucket
	}
	return n
}

// An append that found the lock free is no wait; one that had to wait counts once, with its time. Pages ahead of the log count from the start on.
func TestStageTimesOfAppends(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	q := s.Queue("T", 0)
	for range 100 {
		send(t, s, q, "free")
	}
	var waits, populate stagetime.Times
	s.AddStageTimes(&waits, &populate)
	if counted(&waits) != 0 || counted(&populate) == 0 {
		t.Errorf("%d waits for a free lock, %d steps of pages", counted(&waits), counted(&populate))
	}
	await(func() bool {
		s.log.mu.Lock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			batch := []Message{newMessage(q, "waits")}
			s.Append(batch)
		}()
		time.Sleep(2 * time.Millisecond) // the goroutine may not have come by then: once more
		s.log.mu.Unlock()
		<-done
		waits = stagetime.Times{}
		s.AddStageTimes(&waits, &populate)
		return counted(&waits) > 0
	})
	if counted(&waits) != 1 || waits.SumNs == 0 {
		t.Errorf("%d waits of %d ns", counted(&waits), waits.SumNs)
	}
	closeTest(t, s, false)
}
