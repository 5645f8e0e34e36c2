package netio

import (
	"context"
	"sync"
	"sync/atomic"
)

// MailKind says what a Mail is.
type MailKind uint8

const (
	// MailAnswer carries the bytes of one or more whole frames for the connection Ref; netio writes
	// them, the handler does not see it. Buf may be nil when there is only Done to tell.
	MailAnswer MailKind = iota + 1
	// MailFlushed tells the loop that everything below Pos is durable. Those without Held that wait
	// together become one, with the largest Pos, delivered before the others.
	MailFlushed
	// MailRerun asks the handler to run held work again; Ref, Pos and Held are its own. A long mailbox
	// does not refuse it: the work that is held is bounded by who holds it, and would never run again.
	MailRerun
	// MailDrained is made by netio itself: the connection Ref, for which IsBackedUp said yes, can take
	// answers again.
	MailDrained
)

// Mail is one value on its way to a loop.
type Mail struct {
	Kind MailKind
	Done int32 // requests begun with Conn.BeginRequest that end with this
	Ref  ConnRef
	Buf  *Buffer
	Pos  int64
	Held any // a pointer, or nil: other values would be allocated
}

// mailbox is the queue into one loop: many producers, one consumer. A mutex over a slice: it is held
// for an append, or for a swap of slices.
type mailbox struct {
	mu    sync.Mutex
	bell  bell   // guarded by mu; nil until the loop had its first connection
	waker *waker // guarded by mu; nil until gnet has opened it, kept if it is lost
	queue []Mail // guarded by mu
	// limited is how many in queue count against Limits.MailboxLen, all but MailRerun; guarded by mu.
	// Apart, or a crowd of reruns would have the answers refused.
	limited int
	bytes   int // guarded by mu: of the answers in queue
	// depth is how many mails wait; written under mu, read by the loop after each turn.
	depth atomic.Int64
	// flushedPos is the largest position of the merged MailFlushed; guarded by mu.
	flushedPos int64
	hasFlushed bool // guarded by mu
	awake      bool // guarded by mu: a drain is on its way, nobody needs to ask for another
	ended      bool // guarded by mu: nothing is taken any more, nobody rings any more
	// ringing are those who were told to ring and have not done it yet; added to under mu while not
	// ended.
	ringing sync.WaitGroup
	// lost are the connections whose answers met a full mailbox, lostDone the requests they ended.
	lost     []ConnRef // guarded by mu
	lostDone int64     // guarded by mu
}

// Post gives m to a loop (0 <= loop < Loops). Any goroutine, also the loop itself; it never blocks on
// the network. Answers of one producer arrive in its order. m.Buf belongs to netio from here on,
// whatever the result. False: not delivered, because the mailbox is full (never for a MailRerun), the
// loop never had a connection (so nothing of its waits) or the server has ended; then m.Held stays the
// caller's.
// hot: 0 allocs in steady state; the first post after a drain makes one system call, see waker. (While
// the waker of a new loop is on its way, or if it could not be had, that is one gnet EventLoop.Execute,
// with two or three allocations inside gnet.)
func (s *Server) Post(loop int, m Mail) bool {
	if loop < 0 || loop >= len(s.loops) {
		PutBuffer(m.Buf)
		return false
	}
	l := s.loops[loop]
	size := 0
	if m.Buf != nil {
		size = len(m.Buf.B)
	}
	b := &l.mail
	b.mu.Lock()
	if b.bell == nil || b.ended {
		b.mu.Unlock()
		l.stats.mailUnheard.Add(1)
		PutBuffer(m.Buf)
		return false
	}
	switch {
	case m.Kind == MailFlushed && m.Held == nil:
		if !b.hasFlushed || m.Pos > b.flushedPos {
			b.flushedPos = m.Pos
		}
		b.hasFlushed = true
	case m.Kind != MailRerun && (b.limited >= s.limits.MailboxLen || b.bytes+size > s.limits.MailboxBytes && b.bytes > 0):
		if m.Kind == MailAnswer && len(b.lost) < lostAnswersMax {
			b.lost = append(b.lost, m.Ref)
		}
		b.lostDone += int64(m.Done)
		b.mu.Unlock()
		l.stats.mailDropped.Add(1)
		PutBuffer(m.Buf)
		return false
	default:
		b.queue = append(b.queue, m)
		b.bytes += size
		if m.Kind != MailRerun {
			b.limited++
		}
		if n := int64(len(b.queue)); n > l.stats.mailPeak.Load() {
			l.stats.mailPeak.Store(n) // written under mu only
		}
	}
	b.depth.Add(1)
	bell := b.wake()
	b.mu.Unlock()
	l.stats.mailPosts.Add(1)
	if bell != nil {
		bell.ring()
		b.ringing.Done()
	}
	return true
}

// wake returns what the caller has to ring, outside of mu, if no drain is on its way; then it owes a
// ringing.Done. mu is held.
func (b *mailbox) wake() bell {
	if b.awake || b.ended || b.bell == nil {
		return nil
	}
	b.awake = true
	b.ringing.Add(1)
	return b.bell
}

// signal sets a control bit and wakes the loop. The bit is set before awake is read and read after
// awake is cleared (Run), so no bit is lost. A loop without connections has nothing to do.
func (l *Loop) signal(bit uint32) {
	l.control.Or(bit)
	b := &l.mail
	b.mu.Lock()
	bell := b.wake()
	b.mu.Unlock()
	if bell != nil {
		bell.ring()
		b.ringing.Done()
	}
}

// batch is what one drain found.
type batch struct {
	mails      []Mail
	flushedPos int64
	hasFlushed bool
	lost       []ConnRef
	lostDone   int64
}

// take empties the mailbox; spare becomes its next queue. asleep: no drain is on its way any more.
func (b *mailbox) take(spare []Mail, asleep bool) batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.depth.Store(0)
	got := batch{b.queue, b.flushedPos, b.hasFlushed, b.lost, b.lostDone}
	b.queue, b.bytes, b.limited = spare, 0, 0
	b.hasFlushed, b.lost, b.lostDone = false, nil, 0
	if asleep {
		b.awake = false
	}
	return got
}

// Run is the drain that a post asked for, on the loop. It is called by the waker and by gnet; the name
// is that of gnet.Runnable.
func (l *Loop) Run(context.Context) error {
	l.beginTurn()
	got := l.mail.take(l.spare, true)
	l.drain(got, l.control.Swap(0))
	return nil
}

// drainEarly drains after a turn of a connection when mails pile up or have waited for many turns:
// gnet serves all connections that one epoll_wait found ready, up to 1,024, before it sees that the
// waker is. The drain that is on its way stays ordered.
func (l *Loop) drainEarly() {
	l.turnsSinceDrain++
	depth := l.mail.depth.Load()
	if depth == 0 || depth < earlyDrainMails && l.turnsSinceDrain < earlyDrainTurns {
		return
	}
	l.beginTurn()
	l.drain(l.mail.take(l.spare, false), 0)
}

// drain delivers what was taken out of the mailbox and ends the turn.
func (l *Loop) drain(got batch, control uint32) {
	l.turnsSinceDrain = 0
	if got.hasFlushed {
		l.tell(Mail{Kind: MailFlushed, Pos: got.flushedPos})
	}
	for i := range got.mails {
		if m := &got.mails[i]; m.Kind == MailAnswer {
			l.answer(m)
		} else {
			if m.Done != 0 {
				l.EndRequests(m.Ref, m.Done)
			}
			l.tell(*m)
		}
	}
	l.stats.inFlight.Add(-got.lostDone)
	for _, ref := range got.lost {
		if c := l.Conn(ref); c != nil {
			c.abandon(ErrMailboxFull)
		}
	}
	clear(got.mails) // no pointers behind in the spare
	if l.spare = got.mails[:0]; cap(l.spare) > mailKeepLen && len(got.mails) < mailKeepLen/4 {
		l.spare = nil
	}
	if control&controlSweep != 0 {
		l.sweep()
	}
	if control&controlWatch != 0 {
		l.checkWatched()
	}
	l.endTurn(nil)
}

// answer writes a posted answer, or drops it if its connection is gone.
// hot: 0 allocs.
func (l *Loop) answer(m *Mail) {
	if m.Done != 0 {
		l.EndRequests(m.Ref, m.Done)
	}
	if m.Buf == nil {
		return
	}
	sent := false
	if c := l.Conn(m.Ref); c != nil && !c.abandoned {
		if sent = true; len(m.Buf.B) <= answerCopyBytes {
			c.Out = append(c.Out, m.Buf.B...)
			if len(c.Out) > outFlushBytes {
				c.flushOut()
			}
		} else {
			c.flushOut()
			sent = c.write(m.Buf.B)
		}
	}
	PutBuffer(m.Buf)
	if sent {
		l.stats.answers.Add(1)
	} else {
		l.stats.answersDropped.Add(1)
	}
}

// EndRequests ends n requests begun with BeginRequest whose connection may be gone.
func (l *Loop) EndRequests(ref ConnRef, n int32) {
	l.stats.inFlight.Add(-int64(n))
	if c := l.Conn(ref); c != nil {
		c.InFlight -= int(n)
	}
}
