package flush

import (
	"time"

	"peregrine/internal/message"
)

// waiter is one goroutine blocked in Wait. It is owned by that goroutine, and by the flusher while it is in the list.
type waiter struct {
	end    message.PhyOffset
	index  int        // its place in Committer.waiters, -1 when it is out; under Committer.mu
	result chan error // capacity 1; gets exactly one value if the flusher takes the waiter out
}

// takeWaiter returns a waiter whose channel is empty.
func (c *Committer) takeWaiter() *waiter {
	if w, ok := c.pool.Get().(*waiter); ok {
		return w
	}
	return &waiter{result: make(chan error, 1)}
}

// Wait blocks until everything below end is durable. A zero deadline is none. It returns nil, ErrFlushTimeout, ErrStopped,
// ErrTooManyWaiters or the sticky *SyncError. In ASYNC_FLUSH it makes the flusher sync at once. Not for event loops
// and not for subscribers.
func (c *Committer) Wait(end message.PhyOffset, deadline time.Time) error {
	if c.Flushed() >= end {
		return nil
	}
	w := c.takeWaiter()
	w.end = end
	if err, waits := c.enlist(w); !waits {
		c.pool.Put(w)
		return err
	}
	raise(&c.requested, int64(end))
	raise(&c.urgent, int64(end))
	c.rouse(c.wakeAt.Load())

	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	var err error
	select {
	case err = <-w.result:
	case <-expired:
		if c.withdraw(w) {
			err = ErrFlushTimeout
			c.counters.timeouts.Add(1)
		} else {
			err = <-w.result
		}
	}
	c.pool.Put(w)
	return err
}

// enlist puts w into the list, or says why there is nothing to wait for. The position is read under the lock that
// releaseUpTo takes after it moved the position: one of the two sees the other.
func (c *Committer) enlist(w *waiter) (err error, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Flushed() >= w.end {
		return nil, false
	}
	if c.ended {
		if err := c.Err(); err != nil {
			return err, false
		}
		return ErrStopped, false
	}
	if len(c.waiters) >= MaxWaiters {
		c.counters.refused.Add(1)
		return ErrTooManyWaiters, false
	}
	w.index = len(c.waiters)
	c.waiters = append(c.waiters, w)
	return nil, true
}

// withdraw takes w out of the list; false: the flusher was faster and its result is there or on its way.
func (c *Committer) withdraw(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.index < 0 {
		return false
	}
	c.removeLocked(w.index)
	return true
}

// removeLocked takes out the waiter at index i, filling the gap with the last one.
func (c *Committer) removeLocked(i int) {
	last := len(c.waiters) - 1
	c.waiters[i].index = -1
	if i != last {
		c.waiters[i] = c.waiters[last]
		c.waiters[i].index = i
	}
	c.waiters[last] = nil
	c.waiters = c.waiters[:last]
}

// releaseUpTo releases whoever waits for upTo or less.
func (c *Committer) releaseUpTo(upTo message.PhyOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.waiters) - 1; i >= 0; i-- {
		if w := c.waiters[i]; w.end <= upTo {
			c.removeLocked(i)
			w.result <- nil
		}
	}
}

// release lets go of everybody with err and of all who come later: the flusher has ended.
func (c *Committer) release(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for len(c.waiters) > 0 {
		w := c.waiters[len(c.waiters)-1]
		c.removeLocked(w.index)
		w.result <- err
	}
}
