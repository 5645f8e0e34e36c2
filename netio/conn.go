package netio

import (
	"net/netip"

	"github.com/panjf2000/gnet/v2"
)

// ConnRef names a connection outside of its loop. It is the only thing of a connection that leaves
// the loop; comparable, 12 bytes. The zero value names none.
type ConnRef struct {
	Loop uint16
	Slot uint32
	Gen  uint32
}

// Conn is one connection. All fields and methods belong to its loop.
type Conn struct {
	Ref ConnRef
	// Listener is the index into Options.Addrs of the address the client connected to.
	Listener int
	// Remote is the client's address: IPv4 unmapped, without a zone.
	Remote netip.AddrPort
	// Out collects whole answer frames during a turn: c.Out = wire.Append…(c.Out, …). netio writes
	// it once after TurnEnd (earlier above outFlushBytes). It is attached in Opened and Frame and by
	// Loop.Conn; a handler that kept a *Conn over turns calls Touch first. Do not keep a slice of it.
	Out []byte
	// State is the handler's.
	State any
	// InFlight counts the requests of this connection that are outside of its loop: see BeginRequest.
	InFlight int

	loop   *Loop
	gc     gnet.Conn
	reason error

	// closed is set first in OnClose. gnet's synchronous writes do not look whether the descriptor
	// is still theirs, so each of ours looks here before.
	closed    bool
	closing   bool // CloseAfterTurn was called: no more frames
	abandoned bool // closing without waiting for output
	lingering bool // closing when the output has drained
	dirty     bool // on the loop's dirty list, Out attached
	watched   bool // on the loop's watch list
	parked    bool // IsBackedUp said yes: MailDrained is due

	outBuf  *Buffer // what Out was attached to
	pending int     // outbound bytes in gnet as last seen, part of the loop's sum

	// The incomplete frame at the end of what was read. Up to three bytes of the length word live in
	// head, what follows in gather, of which gatherCost is charged to the budget.
	head       [lengthWordBytes]byte
	headLen    uint8
	greeted    bool // a whole length word was legal once: later illegal ones are not foreign protocols
	gather     *Buffer
	gatherWant int
	gatherCost int64

	gatherSince int64 // ms of the server's coarse clock
	lastActive  int64 // ms of the server's coarse clock
	lingerUntil int64 // epoch ms
}

// Loop returns the loop that owns c.
func (c *Conn) Loop() *Loop { return c.loop }

// Closed says whether the connection is gone or on its way.
func (c *Conn) Closed() bool { return c.closed || c.closing }

// Touch attaches Out and puts c on the dirty list of this turn. Opened, Frame and Loop.Conn have
// done it already; it is for handlers that kept the pointer of an earlier turn.
// hot: 0 allocs.
func (c *Conn) Touch() {
	if c.dirty || c.closed {
		return
	}
	l := c.loop
	c.dirty = true
	c.outBuf = l.takeOut()
	c.Out = c.outBuf.B[:0]
	l.dirty = append(l.dirty, c)
}

// CloseAfterTurn closes c when the turn has ended, for a reason that Handler.Closed gets and the
// statistics count. Frames behind the current one are ignored. Output of this turn and what the
// client has not read yet is still sent, for at most Limits.CloseLinger.
func (c *Conn) CloseAfterTurn(reason error) {
	if c.closed || c.closing {
		return
	}
	c.closing = true
	c.reason = reason
	c.loop.closing = append(c.loop.closing, c)
}

// abandon is CloseAfterTurn without waiting for output, also for a connection that waits already.
func (c *Conn) abandon(reason error) {
	if c.closed || c.abandoned {
		return
	}
	c.abandoned = true
	c.closing = true
	c.reason = reason
	c.loop.closing = append(c.loop.closing, c)
}

// BeginRequest counts a request that leaves the loop (to a worker, a table, the flusher). It ends
// with Mail.Done of the answer, or with Loop.EndRequests.
func (c *Conn) BeginRequest() {
	c.InFlight++
	c.loop.stats.inFlight.Add(1)
}

// slot is one entry of a loop's connection table. gen changes when the connection goes, so a ConnRef
// taken before is detected as stale.
type slot struct {
	conn *Conn
	gen  uint32
}

// Conn returns the connection of ref, or nil when it is gone. Its Out is attached, see Touch.
// hot: 0 allocs.
func (l *Loop) Conn(ref ConnRef) *Conn {
	if int(ref.Loop) != l.Index || int(ref.Slot) >= len(l.slots) {
		return nil
	}
	s := &l.slots[ref.Slot]
	if s.gen != ref.Gen || s.conn == nil {
		return nil
	}
	s.conn.Touch()
	return s.conn
}

// register gives c a slot. Generations start at 1, so the zero ConnRef is never valid.
func (l *Loop) register(c *Conn) {
	var i uint32
	if n := len(l.free); n > 0 {
		i = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		i = uint32(len(l.slots))
		l.slots = append(l.slots, slot{gen: 1})
	}
	l.slots[i].conn = c
	c.Ref = ConnRef{Loop: uint16(l.Index), Slot: i, Gen: l.slots[i].gen}
	l.live++
	l.stats.conns.Add(1)
}

// unregister frees the slot of c; refs to it are stale from here on.
func (l *Loop) unregister(c *Conn) {
	s := &l.slots[c.Ref.Slot]
	s.conn = nil
	s.gen++
	if s.gen == 0 {
		s.gen = 1
	}
	l.free = append(l.free, c.Ref.Slot)
	l.live--
	l.stats.conns.Add(-1)
}
