package delay

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// level is one delay level with its queue of the schedule topic.
type level struct {
	s    *Service
	id   message.QueueID // level - 1
	wait message.Millis  // the delay

	wake chan struct{} // capacity 1
	// asleep says that run waits for a unit, or is about to look at the queue a last time. Read by Arrived.
	asleep atomic.Bool

	mu    sync.Mutex          // guards next and known; held while a record is appended
	next  message.QueueOffset // written by run only, after Start
	known bool                // the file has, or gets, an entry
	shown atomic.Int64        // next, for Stats

	// Of run's goroutine.
	queue  *store.Queue
	units  [unitsPerLook]store.Unit
	record []byte
	batch  [1]store.Message
	pause  time.Duration // after the last failure, 0 after a success
	// clockBehind is about a clock that was set back: the units below heldBelow are delivered at heldUntil at the latest.
	heldBelow message.QueueOffset
	heldUntil time.Time

	counters levelCounters
}

func newLevel(s *Service, id message.QueueID, wait message.Millis) *level {
	return &level{s: s, id: id, wait: wait, wake: make(chan struct{}, 1)}
}

// rouse wakes run if it waits for a unit.
func (l *level) rouse() {
	if l.asleep.Load() && l.asleep.CompareAndSwap(true, false) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// open returns the level's queue, another one if it was deleted meanwhile.
func (l *level) open() *store.Queue {
	if l.queue == nil || l.queue.Gone() {
		l.queue = l.s.opts.Store.Queue(message.ScheduleTopic, l.id)
	}
	return l.queue
}

// correct moves an offset that lies outside of the queue to its bound (case D01; ScheduleMessageService.correctDelayOffset).
func (l *level) correct() {
	q := l.open()
	l.mu.Lock()
	defer l.mu.Unlock()
	from, to := l.next, min(max(l.next, q.Min()), q.Max())
	if from == to {
		return
	}
	l.next = to
	l.shown.Store(int64(to))
	l.s.changes.Add(1)
	if !l.known {
		l.known = true // there was no offset: nothing is corrected, the queue just begins behind 0
		return
	}
	l.s.corrected.Add(1)
	l.s.logger.Warn("the stored offset of a delay level lies outside of its queue, it is corrected", "level", l.id+1, "stored", from, "corrected", to,
		"min", q.Min(), "max", q.Max())
}

// run delivers until Stop.
func (l *level) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !l.s.stopping() {
		sleep, idle := l.stretch()
		switch {
		case idle:
			l.park()
		case sleep == 0:
			runtime.Gosched()
		default:
			timer.Reset(sleep)
			select {
			case <-timer.C:
			case <-l.s.quit:
			}
		}
	}
}

// park sleeps until the queue has a unit at next or Stop was called.
func (l *level) park() {
	if cap(l.record) > bufferKeepBytes {
		l.record = nil
	}
	l.asleep.Store(true)
	// Look again after asleep is published: a unit that came before wakes nobody.
	if l.queue.Max() > l.next || l.queue.Gone() {
		l.asleep.Store(false)
		return
	}
	select {
	case <-l.wake:
	case <-l.s.quit:
	}
}

// stretch delivers what is due, at most stretchMax messages. It returns how long to sleep before the next one, or that the
// queue is at its end.
func (l *level) stretch() (sleep time.Duration, idle bool) {
	q := l.open()
	if first := q.Min(); l.next < first {
		l.counters.expired.Add(uint64(first - l.next))
		l.warn("retention deleted delayed messages before they were due", "from", l.next, "to", first)
		l.advance(first)
	}
	if l.next >= q.Max() {
		return 0, true
	}
	n, hot := q.Units(l.units[:], l.next)
	if !hot {
		var err error
		if n, err = q.ReadUnits(l.units[:], l.next); err != nil {
			return l.failed(err), false
		}
	}
	for i := range l.units[:n] {
		u := &l.units[i]
		if !u.IsPreBlank() {
			due, sleep := l.dueTime(q, l.planned(q, u))
			if sleep > 0 {
				return sleep, false
			}
			if err := l.deliver(q, u, due); err != nil {
				return l.failed(err), false
			}
		} else {
			l.advance(l.next + 1)
		}
		if l.s.stopping() {
			break
		}
	}
	return 0, false
}

// planned is the time of delivery that dispatch gave a unit. Where its ext unit cannot be read it is reckoned once more, from the
// record. A record that cannot be read is due: deliver decides about it.
func (l *level) planned(q *store.Queue, u *store.Unit) message.Millis {
	if !u.Tags.IsExtAddress() {
		return message.Millis(u.Tags)
	}
	var v message.View
	var err error
	if l.record, err = q.ReadRecord(l.record[:0], l.next, *u, &v); err != nil {
		return l.s.opts.Now()
	}
	return message.Millis(l.s.ScheduleTags(&v))
}

// dueTime returns when a unit is due and how long that is from now, at most clockLookInterval: 0 is now.
func (l *level) dueTime(q *store.Queue, due message.Millis) (message.Millis, time.Duration) {
	now := l.s.opts.Now()
	if due <= now {
		return due, 0
	}
	if due > now+l.wait {
		// The original delivers at once where its clock was set back, or the table of levels had a longer delay before. Here
		// the two are told apart: store times never run backwards, so only a change of the table puts a time further ahead.
		if logTime := l.s.opts.Store.LastStoreTime(); due > max(now, logTime)+l.wait {
			return now, 0
		}
		// The clock is behind the log. A message that is here now waits for its delay from now on, and no longer.
		if l.next >= l.heldBelow {
			l.heldBelow, l.heldUntil = q.Max(), time.Now().Add(time.Duration(l.wait)*time.Millisecond)
		}
		left := time.Until(l.heldUntil)
		if left <= 0 {
			return due, 0
		}
		return due, min(left, clockLookInterval)
	}
	return due, time.Duration(min(due-now, message.Millis(clockLookInterval.Milliseconds()))) * time.Millisecond
}

// deliver stores the message of u under its own topic and moves on. An error means that it has to be tried again.
func (l *level) deliver(q *store.Queue, u *store.Unit, due message.Millis) error {
	var v message.View
	var err error
	if l.record, err = q.ReadRecord(l.record[:0], l.next, *u, &v); err != nil {
		if errors.Is(err, store.ErrNoRecord) || errors.Is(err, store.ErrOutOfRange) {
			return l.drop(u, err)
		}
		return err
	}
	record, ok := Restore(&v)
	if !ok {
		return l.drop(u, errNowhere)
	}
	m := &l.batch[0]
	*m = store.Message{Record: record}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err = l.s.opts.Appender.Append(l.batch[:]); err != nil {
		return err
	}
	switch err = m.Err; {
	case err == nil:
		l.counters.delivered(m.StoreTimestamp - due)
	case errors.Is(err, store.ErrBadTopic), errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrProperties):
		l.dropped(u, err)
	default:
		return err
	}
	l.move(l.next + 1)
	return nil
}

// drop passes a unit over that can never be delivered, so that it does not stop those behind it.
func (l *level) drop(u *store.Unit, cause error) error {
	l.dropped(u, cause)
	l.advance(l.next + 1)
	return nil
}

func (l *level) dropped(u *store.Unit, cause error) {
	l.counters.undeliverable.Add(1)
	l.warn("a delayed message cannot be delivered and is passed over; its record stays where it is", "position", u.Phy, "offset", l.next, "cause", cause)
}

func (l *level) advance(to message.QueueOffset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.move(to)
}

// move sets the offset. The caller holds mu.
func (l *level) move(to message.QueueOffset) {
	n := int64(to - l.next)
	l.next, l.known, l.pause = to, true, 0
	l.shown.Store(int64(to))
	l.s.advanced(n)
}

// failed says how long to wait after a failure.
func (l *level) failed(err error) time.Duration {
	l.counters.failures.Add(1)
	l.warn("delayed messages wait: one cannot be delivered now", "offset", l.next, "cause", err)
	l.pause = min(max(2*l.pause, retryPauseMin), retryPauseMax)
	return l.pause
}

// warn writes a line; the logger bounds how many.
func (l *level) warn(text string, args ...any) {
	l.s.logger.Warn(text, append(args, "level", l.id+1)...)
}

// errNowhere is what is wrong with a record that Restore does not take.
var errNowhere = errors.New("it names no topic and queue that a message may go to")
