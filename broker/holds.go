package broker

import (
	"container/heap"
	"time"

	"peregrine/broker/longpoll"
	"peregrine/internal/message"
	"peregrine/netio"
)

// heldPull is a pull that is kept by its loop: parked in the long-poll table until a message arrives or its deadline
// passes, or set aside until its connection has read what was written before. Only its loop touches it, besides the
// embedded Held while that is in the table.
type heldPull struct {
	longpoll.Held
	request  pullRequest
	deadline message.Millis
	parked   bool // in the long-poll table as far as this loop knows
	setAside bool // waits for the connection to drain; its deadline is the end of the connection
	index    int  // in the loop's heap, -1 when not

	next, prev *heldPull // of the same connection
}

// holds are a loop's held pulls by deadline, with one timer for the nearest. It implements heap.Interface.
type holds struct {
	byDeadline []*heldPull
	free       []*heldPull
	timer      *time.Timer
	armedFor   message.Millis // 0: the timer is not running
}

func (h *holds) Len() int           { return len(h.byDeadline) }
func (h *holds) Less(i, j int) bool { return h.byDeadline[i].deadline < h.byDeadline[j].deadline }
func (h *holds) Swap(i, j int) {
	h.byDeadline[i], h.byDeadline[j] = h.byDeadline[j], h.byDeadline[i]
	h.byDeadline[i].index, h.byDeadline[j].index = i, j
}
func (h *holds) Push(x any) {
	p := x.(*heldPull)
	p.index = len(h.byDeadline)
	h.byDeadline = append(h.byDeadline, p)
}
func (h *holds) Pop() any {
	last := len(h.byDeadline) - 1
	p := h.byDeadline[last]
	h.byDeadline[last] = nil
	h.byDeadline = h.byDeadline[:last]
	p.index = -1
	return p
}

// connState is what the broker keeps of a connection on its loop.
type connState struct {
	host      message.Host // the client's address as it is stored in records
	held      *heldPull    // head of the list of its held pulls
	heldCount int
}

// hold parks r until a message arrives in its queue or the deadline passes. moved: the queue got ahead meanwhile. Neither:
// too much is held already.
//
// hot: 0 allocs once the loop has held as many before.
func (ls *loopState) hold(b *Broker, c *netio.Conn, r *pullRequest, deadline message.Millis) (kept, moved bool) {
	state := c.State.(*connState)
	if state.heldCount >= heldPullsPerConnMax || b.polls.Held() >= heldPullsMax {
		ls.count[countHoldsRefused]++
		return false, false
	}
	p := ls.holds.take()
	p.request, p.deadline = *r, deadline
	p.Held = longpoll.Held{Queue: r.queue, Offset: r.offset, Owner: p}
	if !r.filter.All() {
		p.Held.Filter = r.filter
	}
	if !b.polls.Park(&p.Held) {
		ls.holds.give(p)
		return false, true
	}
	p.parked = true
	ls.keep(b, state, p)
	return true, false
}

// setAside keeps r while its connection does not read. MailDrained runs it; a connection that stays above its mark is closed.
func (ls *loopState) setAside(b *Broker, c *netio.Conn, r *pullRequest, mayHold bool) {
	state := c.State.(*connState)
	if state.heldCount >= heldPullsPerConnMax {
		c.CloseAfterTurn(netio.ErrOutboundHard)
		return
	}
	p := ls.holds.take()
	p.request, p.deadline, p.setAside = *r, now()+message.Millis(slowReaderPatience.Milliseconds()), true
	p.request.maySuspend = r.maySuspend && mayHold
	ls.count[countSetAside]++
	ls.keep(b, state, p)
}

func (ls *loopState) keep(b *Broker, state *connState, p *heldPull) {
	if state.held != nil {
		state.held.prev = p
	}
	p.next, p.prev = state.held, nil
	state.held = p
	state.heldCount++
	heap.Push(&ls.holds, p)
	ls.armHoldTimer(b)
}

func (h *holds) take() *heldPull {
	if n := len(h.free); n > 0 {
		p := h.free[n-1]
		h.free = h.free[:n-1]
		return p
	}
	return &heldPull{index: -1}
}

// give returns a pull that nobody else can see any more.
func (h *holds) give(p *heldPull) {
	*p = heldPull{index: -1}
	if len(h.free) < freeHoldsMax {
		h.free = append(h.free, p)
	}
}

// release takes p out of the heap and of its connection's list. It must have left the table already.
func (ls *loopState) release(state *connState, p *heldPull) {
	if p.index >= 0 {
		heap.Remove(&ls.holds, p.index)
	}
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		state.held = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
	state.heldCount--
}

// wakeHeld runs a pull that an arrival took out of the table. A stale one (its connection closed) is forgotten.
func (ls *loopState) wakeHeld(b *Broker, p *heldPull) {
	p.parked = false
	c := ls.loop.Conn(p.request.ref)
	if c == nil {
		ls.holds.give(p) // dropConn left it to the wake-up that was on its way
		return
	}
	ls.release(c.State.(*connState), p)
	r := p.request
	ls.holds.give(p)
	b.rerun(ls, c, &r, false)
}

// runDueHolds answers the pulls whose deadline passed and closes connections that have not read for slowReaderPatience.
func (ls *loopState) runDueHolds(b *Broker) {
	ls.holds.armedFor = 0
	for now := now(); len(ls.holds.byDeadline) > 0 && ls.holds.byDeadline[0].deadline <= now; {
		p := ls.holds.byDeadline[0]
		if p.parked && !b.polls.Remove(&p.Held) {
			// Arrived has it: its wake-up runs it. It stays in the connection's list, out of the heap.
			heap.Remove(&ls.holds, p.index)
			continue
		}
		p.parked = false
		c := ls.loop.Conn(p.request.ref)
		if c == nil {
			panic("BUG: broker: a closed connection kept a held pull")
		}
		if p.setAside {
			ls.dropHolds(b, c.State.(*connState))
			c.CloseAfterTurn(netio.ErrNotReading)
			continue
		}
		ls.release(c.State.(*connState), p)
		r := p.request
		ls.holds.give(p)
		b.rerun(ls, c, &r, false)
	}
	ls.armHoldTimer(b)
}

// runSetAside goes on with the pulls of a connection that has drained.
func (ls *loopState) runSetAside(b *Broker, c *netio.Conn) {
	state := c.State.(*connState)
	for p := state.held; p != nil; {
		following := p.next
		if p.setAside {
			ls.release(state, p)
			r := p.request
			ls.holds.give(p)
			if b.rerun(ls, c, &r, r.maySuspend); c.IsBackedUp() {
				return // the rest waits for the next MailDrained
			}
		}
		p = following
	}
}

// armHoldTimer makes the loop look at its holds when the nearest deadline comes.
func (ls *loopState) armHoldTimer(b *Broker) {
	h := &ls.holds
	if len(h.byDeadline) == 0 {
		return
	}
	next := h.byDeadline[0].deadline
	if h.armedFor != 0 && h.armedFor <= next {
		return
	}
	h.armedFor = next
	wait := max(time.Duration(next-now())*time.Millisecond, time.Millisecond)
	if h.timer == nil {
		index := ls.loop.Index
		h.timer = time.AfterFunc(wait, func() { b.server.Post(index, netio.Mail{Kind: netio.MailRerun, Held: h}) })
		return
	}
	h.timer.Reset(wait)
}

// dropHolds forgets the held pulls of a connection that closed.
func (ls *loopState) dropHolds(b *Broker, state *connState) {
	for state.held != nil {
		p := state.held
		onItsWay := p.parked && !b.polls.Remove(&p.Held)
		ls.release(state, p)
		if !onItsWay {
			ls.holds.give(p)
		}
	}
}
