package broker

import (
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// syncAnswer is one send of a loop that waits for the flushed position to cover it.
type syncAnswer struct {
	end      message.PhyOffset
	ref      netio.ConnRef
	since    int64 // UnixNano of its append
	deadline message.Millis
	opaque   int32
	enc      wire.Encoding
	size     int32 // bytes of its prepared answer
}

// syncAnswers is a loop's queue of sends that wait for a sync, in the order of the log. Their answers are written when
// they are appended, since everything that they say is known then, and lie back to back in one byte queue. A refusal or
// a time-out replaces the prepared answer.
//
// Only its loop touches it, besides waiting.
type syncAnswers struct {
	queue []syncAnswer // queue[head:] waits
	head  int
	bytes []byte // answers of queue[head:] from at on
	at    int

	waiting atomic.Int64 // len(queue[head:]), for the flusher: whom to tell
	timer   *time.Timer  // fires at the oldest deadline; nil until first needed
	armed   bool
}

// full says that no further send may be admitted in SYNC_FLUSH, with admitted ones of this turn still to come.
func (a *syncAnswers) full(admitted int) bool { return len(a.queue)-a.head+admitted >= syncAnswersMax }

// push adds p, which was appended at that time, behind the others.
//
// hot: 0 allocs once the queue has grown to its load.
func (a *syncAnswers) push(b *Broker, t *sendTurn, p *pendingSend, appended time.Time) {
	last := &t.messages[p.first+p.n-1]
	start := len(a.bytes)
	a.bytes = b.appendSendAnswer(a.bytes, t, p, wire.ResponseSuccess)
	a.queue = append(a.queue, syncAnswer{end: last.PhyOffset + message.PhyOffset(last.Size()), ref: p.conn.Ref, opaque: p.opaque, enc: p.enc,
		since: appended.UnixNano(), deadline: message.Millis(appended.UnixMilli()) + message.Millis(b.set.Load().syncFlushTimeout.Milliseconds()), size: int32(len(a.bytes) - start)})
	a.waiting.Store(int64(len(a.queue) - a.head))
}

// answerFlushed answers every send that flushed covers.
//
// hot: 0 allocs.
func (ls *loopState) answerFlushed(b *Broker, flushed message.PhyOffset) {
	a := &ls.answers
	now := time.Now().UnixNano()
	for a.head < len(a.queue) && a.queue[a.head].end <= flushed {
		w := &a.queue[a.head]
		ls.syncWait.Took(time.Duration(now-w.since), 1)
		if c := ls.loop.Conn(w.ref); c != nil {
			c.Out = append(c.Out, a.bytes[a.at:a.at+int(w.size)]...)
		}
		a.pop()
	}
	a.settle(b, ls)
}

// answerOverdue answers the sends whose deadline passed: they are stored, and nobody knows yet how durably.
func (ls *loopState) answerOverdue(b *Broker) {
	a := &ls.answers
	a.armed = false
	for now := now(); a.head < len(a.queue) && a.queue[a.head].deadline <= now; a.pop() {
		w := &a.queue[a.head]
		if c := ls.loop.Conn(w.ref); c != nil {
			c.Out = appendRecoded(c.Out, a.bytes[a.at:a.at+int(w.size)], wire.ResponseFlushDiskTimeout, &ls.recode)
		}
		ls.count[countFlushTimeouts]++
	}
	a.settle(b, ls)
}

// refuseAll answers every waiting send with r: a sync failed, and with it their durability.
func (ls *loopState) refuseAll(b *Broker, r *wire.Refusal) {
	a := &ls.answers
	for ; a.head < len(a.queue); a.pop() {
		w := &a.queue[a.head]
		if c := ls.loop.Conn(w.ref); c != nil {
			c.Out = wire.AppendResponse(c.Out, w.enc, w.opaque, r.Code, r.Remark, nil, nil)
		}
	}
	a.settle(b, ls)
}

func (a *syncAnswers) pop() {
	a.at += int(a.queue[a.head].size)
	a.head++
}

// settle moves what waits to the front when more is done than left, publishes the count and sees to the timer.
func (a *syncAnswers) settle(b *Broker, ls *loopState) {
	if left := len(a.queue) - a.head; a.head > left {
		copy(a.queue, a.queue[a.head:])
		a.queue, a.head = a.queue[:left], 0
		n := copy(a.bytes, a.bytes[a.at:])
		a.bytes, a.at = a.bytes[:n], 0
	}
	left := len(a.queue) - a.head
	a.waiting.Store(int64(left))
	if left == 0 || a.armed {
		return
	}
	wait := max(time.Duration(a.queue[a.head].deadline-now())*time.Millisecond, time.Millisecond)
	a.armed = true
	if a.timer == nil {
		index := ls.loop.Index
		a.timer = time.AfterFunc(wait, func() { b.server.Post(index, netio.Mail{Kind: netio.MailRerun, Held: a}) })
		return
	}
	a.timer.Reset(wait)
}

// appendRecoded writes the prepared answer frame once more with another code, its fields untouched.
func appendRecoded(dst, frame []byte, code wire.ResponseCode, d *wire.Decoder) []byte {
	var cmd wire.Command
	if err := d.Decode(frame[4:], &cmd); err != nil {
		panic("BUG: broker: own answer does not decode: " + err.Error())
	}
	cmd.Code = int32(code)
	return wire.AppendCommand(dst, &cmd)
}
