package netio

import (
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// Control bits that a timer sets for a loop.
const (
	controlSweep uint32 = 1 << iota
	controlWatch
)

// Loop is one event loop. All of it belongs to the loop's goroutine except what Post and the
// statistics touch (mail, control, stats).
type Loop struct {
	Index int
	// State is the handler's; it may be set before Start.
	State any

	srv     *Server
	handler Handler
	el      gnet.EventLoop // guarded by Server.claimMu for writing; constant once set
	// enrolled is closed when it is known what became of the waker; guarded by Server.claimMu until
	// Server.hushed, constant then. nil: there was no connection.
	enrolled <-chan struct{}

	slots []slot
	free  []uint32
	live  int // connections in slots

	// Of the current turn.
	inTurn      bool
	dirty       []*Conn
	closing     []*Conn
	turnBuffers []turnBuffer
	frames      uint64
	bytesIn     uint64
	bytesOut    uint64

	outFree    []*Buffer
	outPending int64 // sum of Conn.pending
	outBudget  int64 // this loop's part of Limits.OutboundBytes
	iov        [writevChunk][]byte
	scratch    []byte

	watched    []*Conn
	waiting    int // watched connections that are parked or lingering
	watchTimer *time.Timer
	watchDue   time.Duration // 0: not armed

	locals []localAddr

	turnsSinceDrain int // turns of connections since the last drain

	spare   []Mail
	control atomic.Uint32 // control bits, see signal
	mail    mailbox
	stats   loopStats
}

// turnBuffer is a gathered frame that was handed out in this turn, with its charge to the budget.
type turnBuffer struct {
	buf  *Buffer
	cost int64
}

// localAddr remembers which listener a gnet local address belongs to. gnet gives all connections of
// one listener the same pointer.
type localAddr struct {
	addr     net.Addr
	listener int
}

// beginTurn marks that the loop is at work, for Server.quiet.
func (l *Loop) beginTurn() {
	l.inTurn = true
	l.stats.turnEdges.Add(1)
}

// endTurn lets the handler finish, writes what is dirty and closes what is to be closed. Closing
// calls the handler again, hence the loop; it ends because each round closes a connection.
// hot: 0 allocs.
func (l *Loop) endTurn(c *Conn) {
	for {
		l.callTurnEnd(c)
		l.flush()
		l.callTurnWritten(c)
		if len(l.closing) == 0 {
			break
		}
		for i := 0; i < len(l.closing); i++ {
			l.closeNow(l.closing[i])
			l.closing[i] = nil
		}
		l.closing = l.closing[:0]
	}
	for i, b := range l.turnBuffers {
		l.releaseGather(b.buf, b.cost)
		l.turnBuffers[i].buf = nil
	}
	l.turnBuffers = l.turnBuffers[:0]
	l.inTurn = false
	l.publish()
}

// closeNow closes c, or lets it linger while output is pending.
func (l *Loop) closeNow(c *Conn) {
	if c.closed {
		return
	}
	if !c.abandoned && c.gc.OutboundBuffered() > 0 {
		if !c.lingering {
			c.lingering = true
			c.lingerUntil = time.Now().Add(l.srv.limits.CloseLinger).UnixMilli()
			l.waiting++
			l.watch(c)
		}
		return
	}
	if err := l.el.Close(c.gc); err != nil {
		l.srv.log.Debug("closing a connection", "remote", c.Remote, "err", err)
	}
}

// callTurnEnd runs the handler's TurnEnd. When it panics nobody knows for whom, except that the
// connection of the turn, if there is one, is the likely cause.
func (l *Loop) callTurnEnd(c *Conn) {
	defer func() {
		if v := recover(); v != nil {
			l.panicked(c, "TurnEnd", v)
		}
	}()
	l.handler.TurnEnd(l)
}

// callTurnWritten runs the handler's TurnWritten.
func (l *Loop) callTurnWritten(c *Conn) {
	defer func() {
		if v := recover(); v != nil {
			l.panicked(c, "TurnWritten", v)
		}
	}()
	l.handler.TurnWritten(l)
}

// tell hands one mail to the handler.
func (l *Loop) tell(m Mail) {
	defer func() {
		if v := recover(); v != nil {
			l.panicked(l.Conn(m.Ref), "Mail", v)
		}
	}()
	l.handler.Mail(l, m)
}

func (l *Loop) callOpened(c *Conn) {
	defer func() {
		if v := recover(); v != nil {
			l.panicked(c, "Opened", v)
		}
	}()
	l.handler.Opened(c)
}

func (l *Loop) callClosed(c *Conn, reason error) {
	defer func() {
		if v := recover(); v != nil {
			l.panicked(nil, "Closed", v)
		}
	}()
	l.handler.Closed(c, reason)
}

// panicked counts a bug of the handler and closes the one connection that met it.
func (l *Loop) panicked(c *Conn, where string, v any) {
	l.stats.panics.Add(1)
	if suppressed, ok := l.srv.panicLog.allow(time.Now()); ok {
		l.srv.log.Error("BUG: panic in a connection handler", "callback", where, "panic", v,
			"suppressed", suppressed, "stack", string(debug.Stack()))
	}
	if c != nil {
		c.CloseAfterTurn(ErrPanic)
	}
}

// opened makes the Conn of an accepted connection.
func (l *Loop) opened(gc gnet.Conn) *Conn {
	c := &Conn{
		loop:       l,
		gc:         gc,
		Listener:   l.listenerOf(gc),
		Remote:     remoteOf(gc),
		lastActive: l.srv.clock.Load(),
	}
	l.register(c)
	gc.SetContext(c)
	l.stats.accepted.Add(1)
	l.beginTurn()
	c.Touch()
	l.callOpened(c)
	l.endTurn(c)
	return c
}

// gone is the end of c, inside gnet's close: the descriptor is still open, but nothing may be written
// any more. It may run in the middle of a turn of this or of another connection.
func (l *Loop) gone(c *Conn, reason error) {
	c.closed = true
	l.unregister(c)
	l.outPending -= int64(c.pending)
	c.pending = 0
	l.stats.outPending.Store(l.outPending)
	if c.parked {
		l.waiting--
	}
	if c.lingering {
		l.waiting--
	}
	if c.gather != nil {
		l.releaseGather(c.gather, c.gatherCost)
		c.gather, c.gatherCost = nil, 0
	}
	l.srv.countClosed(reasonOf(reason), c.Remote)
	if l.inTurn {
		l.callClosed(c, reason)
		return
	}
	l.beginTurn()
	l.callClosed(c, reason)
	l.endTurn(nil)
}
