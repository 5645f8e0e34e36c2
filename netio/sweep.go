package netio

import "time"

// sweep closes idle connections and stalled frames. It walks the slots of the loop: some 100 us for
// 20,000 of them, every SweepInterval.
func (l *Loop) sweep() {
	now := l.srv.clock.Load()
	idle := coarse(l.srv.limits.IdleTimeout)
	stalled := coarse(l.srv.limits.FrameTimeout)
	for i := range l.slots {
		c := l.slots[i].conn
		if c == nil || c.closing {
			continue
		}
		switch {
		case now-c.lastActive > idle:
			c.abandon(ErrIdle)
		case (c.gather != nil || c.headLen > 0) && now-c.gatherSince > stalled:
			c.abandon(ErrFrameStalled)
		}
	}
}

// coarse is d in ticks of the server's coarse clock (milliseconds).
func coarse(d time.Duration) int64 { return d.Milliseconds() }

// watch puts c under observation: gnet says nothing when it drains an outbound buffer.
func (l *Loop) watch(c *Conn) {
	if !c.watched {
		c.watched = true
		l.watched = append(l.watched, c)
	}
	l.armWatch()
}

// armWatch starts the timer, or shortens it when somebody waits.
func (l *Loop) armWatch() {
	due := watchSlowInterval
	if l.waiting > 0 {
		due = watchFastInterval
	}
	if l.watchDue != 0 && l.watchDue <= due {
		return
	}
	l.watchDue = due
	if l.watchTimer == nil {
		l.watchTimer = time.AfterFunc(due, func() { l.signal(controlWatch) })
		return
	}
	l.watchTimer.Reset(due)
}

// checkWatched looks at every connection with pending output: tells the handler about the ones that
// were parked and have room, closes those that waited for their last bytes, and drops the rest from
// the list when nothing is pending.
func (l *Loop) checkWatched() {
	l.watchDue = 0
	now := time.Now().UnixMilli()
	list := l.watched
	l.watched = nil // notePending and the handler may watch again meanwhile
	keep := list[:0]
	for _, c := range list {
		if c.closed {
			continue
		}
		c.notePending() // c.watched is still true: it does not enter the list twice
		switch {
		case c.lingering && (c.pending == 0 || now >= c.lingerUntil):
			c.abandon(c.reason)
		case c.parked && !c.closing && c.pending <= l.srv.limits.OutboundSoftBytes/2 &&
			(c.pending == 0 || l.outPending <= l.outBudget):
			c.parked = false
			l.waiting--
			l.tell(Mail{Kind: MailDrained, Ref: c.Ref})
		}
		if c.pending > 0 || c.parked || c.lingering {
			keep = append(keep, c)
			continue
		}
		c.watched = false
	}
	clear(list[len(keep):])
	l.watched = append(keep, l.watched...)
	if len(l.watched) > 0 {
		l.armWatch()
	}
}
