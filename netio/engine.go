package netio

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// engine is the Server as gnet sees it; a type of its own keeps gnet's callbacks out of our API.
type engine Server

// OnBoot runs when all addresses listen and no loop runs yet.
func (e *engine) OnBoot(eng gnet.Engine) gnet.Action {
	s := (*Server)(e)
	s.engine = eng
	if s.bound, s.bootErr = s.settle(eng); s.bootErr != nil {
		return gnet.Shutdown
	}
	return gnet.None
}

// OnTick runs on a goroutine of its own; its first call is the proof that all loops run. It moves the
// coarse clock and orders the sweeps.
func (e *engine) OnTick() (time.Duration, gnet.Action) {
	s := (*Server)(e)
	now := time.Now().UnixMilli()
	s.clock.Store(now)
	s.startOnce.Do(func() {
		s.swept = now
		close(s.started)
	})
	every := s.limits.SweepInterval
	if now-s.swept >= coarse(every) {
		s.swept = now
		for _, l := range s.loops {
			if l.stats.conns.Load() > 0 {
				l.signal(controlSweep)
			}
		}
	}
	return min(time.Second, every), gnet.None
}

// OnOpen runs on the loop that gnet has chosen.
func (e *engine) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	s := (*Server)(e)
	if w, ok := gc.Context().(*waker); ok {
		return nil, w.onOpen(gc)
	}
	if s.stopping.Load() {
		s.refused.Add(1)
		return nil, gnet.Close
	}
	if s.connections.Add(1) > int64(s.limits.Connections) {
		s.connections.Add(-1)
		s.refused.Add(1)
		s.countClosed(ErrTooManyConnections, remoteOf(gc))
		return nil, gnet.Close
	}
	l, enrolled := s.claim(gc.EventLoop())
	if enrolled != nil {
		l.enroll(enrolled)
	}
	l.opened(gc)
	return nil, gnet.None
}

// claim finds the Loop of a gnet loop. gnet shows its loops only through their connections, so the
// first connection of each takes the next free index; enrolled is not nil then, see Loop.enroll.
func (s *Server) claim(el gnet.EventLoop) (l *Loop, enrolled chan struct{}) {
	s.claimMu.Lock()
	defer s.claimMu.Unlock()
	for _, l := range s.loops {
		if l.el == el {
			return l, nil
		}
		if l.el == nil {
			l.el = el
			l.mail.mu.Lock()
			l.mail.bell = l
			l.mail.mu.Unlock()
			if !s.hushed {
				enrolled = make(chan struct{})
				l.enrolled = enrolled
			}
			return l, enrolled
		}
	}
	panic("BUG: gnet runs more event loops than it was told to")
}

// OnTraffic is one turn: one read of one connection, or a drain.
// hot: 0 allocs.
func (e *engine) OnTraffic(gc gnet.Conn) gnet.Action {
	ctx := gc.Context()
	c, ok := ctx.(*Conn)
	if !ok {
		if w, ok := ctx.(*waker); ok {
			return w.onTraffic()
		}
		return gnet.Close // refused in OnOpen
	}
	l := c.loop
	data, _ := gc.Peek(-1)
	l.beginTurn()
	c.lastActive = l.srv.clock.Load()
	if !c.closing {
		l.take(c, data)
	}
	l.endTurn(c)
	scribble(data)
	if !c.closed {
		_, _ = gc.Discard(-1) // everything, always: the inbound ring stays empty
	}
	l.drainEarly()
	return gnet.None
}

// OnClose runs inside gnet's close, whatever the cause.
func (e *engine) OnClose(gc gnet.Conn, err error) gnet.Action {
	if w, ok := gc.Context().(*waker); ok {
		w.onClose(err)
		return gnet.None
	}
	c, ok := gc.Context().(*Conn)
	if !ok {
		return gnet.None // refused in OnOpen
	}
	s := (*Server)(e)
	s.connections.Add(-1)
	reason := c.reason
	switch {
	case reason != nil:
	case err == nil:
		reason = ErrShutdown // gnet closes all connections at the end
	case errors.Is(err, io.EOF):
		reason = ErrPeerClosed
	default:
		reason = ErrPeerReset
	}
	c.loop.gone(c, reason)
	return gnet.None
}

// OnShutdown runs before the loops and the listeners end: the place to drain, and the last one where the
// descriptors that wake loops are certainly open.
func (e *engine) OnShutdown(gnet.Engine) {
	s := (*Server)(e)
	deadline := time.Now().Add(s.drainFor)
	// Polled, because what the caller waits for is a function and gnet does not tell when an outbound
	// buffer has drained; it happens once in the life of a process.
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for time.Now().Before(deadline) && !((s.drained == nil || s.drained()) && s.quiet()) {
		<-poll.C
	}
	s.hush()
}

// remoteOf copies the peer's address: gnet recycles the zone string when the connection closes.
func remoteOf(gc gnet.Conn) netip.AddrPort {
	a, ok := gc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ip, _ := netip.AddrFromSlice(a.IP)
	return netip.AddrPortFrom(ip.Unmap(), uint16(a.Port))
}
