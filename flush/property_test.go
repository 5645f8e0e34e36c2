package flush

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peregrine/internal/message"
)

// countingLog also counts how often it was looked at.
type countingLog struct {
	fakeLog
	looks atomic.Int64
}

func (l *countingLog) Wrote() message.PhyOffset {
	l.looks.Add(1)
	return l.fakeLog.Wrote()
}

// Whatever the disk does (slow, short, boasting, failing) and however appends, requests and waits are interleaved: an
// acknowledgement comes only after a successful sync that began after the bytes were written and covers them, what was
// told never goes back, and nobody is left behind.
func TestAcknowledgedIsDurable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		opts := original()
		opts.Sync = rapid.Bool().Draw(rt, "sync")
		failAt := rapid.Int64Range(0, 40).Draw(rt, "failAt") // 0: never
		disk := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) answer {
			return answer{
				takes: time.Duration(rapid.Int64Range(0, 3000).Draw(t, "us")) * time.Microsecond,
				lie:   message.PhyOffset(rapid.SampledFrom([]int64{0, 0, 0, 500, -1}).Draw(t, "lie")),
			}
		}), 8, 8).Draw(rt, "disk")
		clients := rapid.IntRange(1, 6).Draw(rt, "clients")
		type step struct {
			bytes int64
			pause time.Duration
			wait  bool
		}
		scripts := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				bytes: rapid.Int64Range(2, 5000).Draw(t, "bytes"),
				pause: time.Duration(rapid.Int64Range(0, 2000).Draw(t, "pause")) * time.Microsecond,
				wait:  rapid.Bool().Draw(t, "wait"),
			}
		}), 1, 30), clients, clients).Draw(rt, "scripts")

		synctest.Test(t, func(t *testing.T) {
			log := &fakeLog{}
			log.plan = func(n int64) answer {
				if n == failAt {
					return answer{takes: syncTime, err: syscall.EIO}
				}
				a := disk[n%int64(len(disk))]
				if a.lie < 0 && n%3 != 0 {
					a.lie = 0 // a sync that stops one byte short must get there in the end
				}
				return a
			}
			var last message.PhyOffset
			var lastErr error
			calls := int64(0)
			c := started(t, log, opts, func(upTo message.PhyOffset, err error) {
				calls++
				if lastErr != nil {
					t.Error("told something after the failure")
				}
				if int64(upTo) > log.durable.Load() || upTo < last || (err == nil && upTo == last) {
					t.Errorf("told %d after %d, durable is %d", upTo, last, log.durable.Load())
				}
				last, lastErr = upTo, err
			})
			var clientsDone sync.WaitGroup
			for _, script := range scripts {
				clientsDone.Go(func() {
					for _, s := range script {
						time.Sleep(s.pause)
						end := log.append(s.bytes)
						c.Request(end)
						if !s.wait {
							continue
						}
						err := c.Wait(end, time.Time{})
						switch {
						case err == nil && int64(end) > log.durable.Load():
							t.Errorf("acknowledged %d, durable is %d", end, log.durable.Load())
						case err != nil && !(failAt > 0 && errors.Is(err, ErrFlushFailed)):
							t.Errorf("%v without a failed sync", err)
						}
					}
				})
			}
			clientsDone.Wait()
			err := c.Stop()
			if (err == nil) != (c.Flushed() == log.Wrote()) || (err != nil) != (failAt > 0 && log.syncs.Load() >= failAt) {
				t.Errorf("stopped with %v, flushed %d of %d", err, c.Flushed(), log.Wrote())
			}
			if calls != log.syncs.Load() {
				t.Errorf("told %d times of %d syncs", calls, log.syncs.Load())
			}
		})
	})
}
