package broker

import (
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// role is what a listening address serves.
type role uint8

const (
	roleBroker role = iota // everything of a broker
	roleFast               // the VIP port: everything but pulls and pops
	roleNamesrv
)

// handler is the broker as netio sees it. All its methods run on event loops.
type handler struct{ *Broker }

func (h handler) Opened(c *netio.Conn) {
	c.State = &connState{host: message.HostOf(c.Remote)}
}

// Frame serves one request: sends and pulls here, everything else on a control worker.
//
// hot: 0 allocs for sends and hot pulls.
func (h handler) Frame(c *netio.Conn, frame []byte) {
	b, ls := h.Broker, c.Loop().State.(*loopState)
	cmd := &ls.command
	if err := ls.decoder.Decode(frame, cmd); err != nil {
		ls.count[countUndecodable]++
		b.logger.Warn("connection closed: its request cannot be decoded", "remote", c.Remote, "err", err)
		c.CloseAfterTurn(err)
		return
	}
	if cmd.IsResponse() {
		if b.relay.Waits() {
			b.control.submit(ls, c, cmd, frame)
		}
		return
	}
	if role := b.roles[c.Listener]; role != roleNamesrv {
		switch wire.RequestCode(cmd.Code) {
		case wire.RequestSendMessage, wire.RequestSendMessageV2, wire.RequestSendBatchMessage:
			b.send(ls, c, cmd, frame)
			return
		case wire.RequestPullMessage, wire.RequestLitePullMessage:
			if role == roleBroker {
				b.pull(ls, c, cmd)
				return
			}
		}
	}
	b.control.submit(ls, c, cmd, frame)
}

// send admits one send to the turn, or hands it to a control worker when its topic has to be made first.
//
// hot: 0 allocs.
func (b *Broker) send(ls *loopState, c *netio.Conn, cmd *wire.Command, frame []byte) {
	if len(ls.send.messages) >= turnMessagesMax {
		b.commitSends(ls)
	}
	from := sender{conn: c, host: &c.State.(*connState).host, opaque: cmd.Opaque, enc: cmd.Encoding, oneway: cmd.IsOneway()}
	how, refusal := refused, refusalSyncQueueFull
	if !b.syncFlush || !ls.answers.full(len(ls.send.pending)) {
		how, refusal = b.admitSend(&ls.send, cmd, &from)
	}
	switch how {
	case topicUnknown:
		b.control.submit(ls, c, cmd, frame)
	case refused:
		if refusal.Code == wire.ResponseSystemBusy {
			ls.count[countBusy]++
		}
		ls.count[countSendFailed]++
		if !from.oneway {
			c.Out = b.appendSendRefusal(c.Out, from.enc, from.opaque, refusal)
		}
	}
}

// TurnEnd appends what the turn collected.
//
// hot: 0 allocs, one hold of the append lock.
func (h handler) TurnEnd(l *netio.Loop) {
	ls := l.State.(*loopState)
	if len(ls.send.pending) > 0 {
		h.commitSends(ls)
	}
	ls.publish()
}

// TurnWritten wakes the dispatcher for what the turn appended: a system call that no answer waits for.
//
// hot: 0 allocs, one atomic load while the dispatcher is awake.
func (h handler) TurnWritten(l *netio.Loop) {
	if ls := l.State.(*loopState); ls.appended {
		ls.appended = false
		h.dispatcher.Wake()
	}
}

// Mail takes what other goroutines and timers have for this loop.
func (h handler) Mail(l *netio.Loop, m netio.Mail) {
	ls := l.State.(*loopState)
	switch m.Kind {
	case netio.MailFlushed:
		if err := h.flusher.Err(); err != nil {
			ls.refuseAll(h.Broker, storeRefusal(err))
			return
		}
		ls.answerFlushed(h.Broker, message.PhyOffset(m.Pos))
	case netio.MailRerun:
		switch held := m.Held.(type) {
		case *heldPull:
			ls.wakeHeld(h.Broker, held)
		case *syncAnswers:
			ls.answerOverdue(h.Broker)
		case *holds:
			ls.runDueHolds(h.Broker)
		case *closeOrder:
			if c := l.Conn(m.Ref); c != nil {
				c.CloseAfterTurn(held.reason)
			}
		}
	case netio.MailDrained:
		if c := l.Conn(m.Ref); c != nil {
			ls.runSetAside(h.Broker, c)
		}
	}
}

func (h handler) Closed(c *netio.Conn, _ error) {
	ls := c.Loop().State.(*loopState)
	if state, ok := c.State.(*connState); ok {
		ls.dropHolds(h.Broker, state)
	}
	h.control.connClosed(c)
}
