package flush

import (
	"time"

	"peregrine/internal/message"
)

// flusher is what only the goroutine of run touches.
type flusher struct {
	timer *time.Timer // stopped unless the flusher sleeps with a time limit

	// dirtySince is when unflushed bytes were first seen since the last sync, zero if none were. ASYNC_FLUSH only.
	dirtySince time.Time
	// nextLook is when LeastPages is asked again.
	nextLook time.Time
}

// run is the flusher.
func (c *Committer) run() {
	defer close(c.done)
	f := flusher{timer: time.NewTimer(time.Hour)}
	f.timer.Stop()
	for !c.stopping.Load() {
		due, wakeAt, sleep := c.decide(&f)
		if !due {
			c.park(&f, wakeAt, sleep)
			continue
		}
		if !c.sync() {
			return
		}
		f.dirtySince = time.Time{}
	}
	for end := c.log.Wrote(); c.Flushed() < end; {
		if !c.sync() {
			return
		}
	}
	c.release(ErrStopped)
}

// decide says whether to sync now, and otherwise which requested position ends the sleep and how long it may last (0: no
// limit).
func (c *Committer) decide(f *flusher) (due bool, wakeAt int64, sleep time.Duration) {
	flushed, wrote := c.flushed.Load(), int64(c.log.Wrote())
	if wrote <= flushed {
		// Whatever is requested beyond Wrote is a caller's mistake; it must not make the flusher spin.
		f.dirtySince = time.Time{}
		return false, flushed + 1, 0
	}
	if c.opts.Sync {
		return c.requested.Load() > flushed, flushed + 1, 0
	}
	early := int64(awake - 1)
	if c.opts.EarlyBytes > 0 {
		early = flushed + c.opts.EarlyBytes
	}
	if c.urgent.Load() > flushed || wrote >= early {
		return true, 0, 0
	}

	now, pace := time.Now(), c.pace.Load()
	if f.dirtySince.IsZero() {
		f.dirtySince, f.nextLook = now, now.Add(pace.Interval)
	}
	sleep = time.Duration(1<<63 - 1)
	if pace.ThoroughInterval > 0 {
		if sleep = f.dirtySince.Add(pace.ThoroughInterval).Sub(now); sleep <= 0 {
			return true, 0, 0
		}
	}
	if pace.Interval > 0 {
		if !now.Before(f.nextLook) {
			if wrote/pageSize-flushed/pageSize >= pace.LeastPages {
				return true, 0, 0
			}
			f.nextLook = now.Add(pace.Interval)
		}
		sleep = min(sleep, f.nextLook.Sub(now))
	}
	return false, early, sleep
}

// park sleeps until somebody requests wakeAt or more, waits in Wait, stops, or sleep has passed.
func (c *Committer) park(f *flusher, wakeAt int64, sleep time.Duration) {
	c.wakeAt.Store(wakeAt)
	// Look again after wakeAt is published: what was requested before nobody will wake us for.
	if c.stopping.Load() || c.reached(wakeAt) {
		c.unpark(wakeAt)
		return
	}
	if sleep <= 0 {
		<-c.wake
		return
	}
	f.timer.Reset(sleep)
	select {
	case <-c.wake:
		f.timer.Stop()
	case <-f.timer.C:
		c.unpark(wakeAt)
	}
}

// unpark takes the announcement of a sleep back; if somebody ended that sleep already, it takes the token, which is sent or
// about to be.
func (c *Committer) unpark(wakeAt int64) {
	if !c.wakeAt.CompareAndSwap(wakeAt, awake) {
		<-c.wake
	}
}

// reached tells whether something is to do for a flusher that wants to sleep up to wakeAt. As in decide, only what is
// written counts, or a request beyond it would keep the flusher from sleeping.
func (c *Committer) reached(wakeAt int64) bool {
	wrote := int64(c.log.Wrote())
	return min(c.requested.Load(), wrote) >= wakeAt || min(c.urgent.Load(), wrote) > c.flushed.Load()
}

// sync makes one sync and tells everybody. False: it failed, and the flusher has to end.
func (c *Committer) sync() bool {
	from := c.Flushed()
	to := c.log.Wrote() // before the sync begins: only this is acknowledged
	start := time.Now()
	c.counters.begin(start)
	upTo, err := c.log.Sync(to)
	c.counters.end(time.Since(start))
	upTo = min(upTo, to)
	if err == nil && upTo <= from {
		err = errNoProgress
	}
	if err != nil {
		c.fail(&SyncError{From: from, To: to, Cause: err})
		return false
	}
	c.counters.bytes.Add(int64(upTo - from))
	c.flushed.Store(int64(upTo))
	for _, told := range c.subscribers {
		told(upTo, nil)
	}
	c.releaseUpTo(upTo)
	return true
}

// fail makes e the sticky error and tells everybody, once.
func (c *Committer) fail(e *SyncError) {
	c.failure.Store(e)
	c.logger.Error("the log could not be synced; nothing is acknowledged any more",
		"from", int64(e.From), "to", int64(e.To), "error", e.Cause)
	for _, told := range c.subscribers {
		told(message.PhyOffset(c.flushed.Load()), e)
	}
	c.release(e)
}
