package bench

import (
	"fmt"
	"math"

	"peregrine/internal/message"
	"peregrine/wire"
)

// puller is what a connection that consumes needs beside a connection that sends: the queues that it asks for, one request each at a time, and what it
// found in them. It belongs to one worker.
type puller struct {
	group  int // number of its consumer group
	queues []pullQueue
	header wire.PullMessageHeader
	answer wire.PullMessageResponse
	view   message.View
	counts consumed
	told   uint64 // of counts.messages, what the run knows
}

// pullQueue is a queue that one connection of a group reads.
type pullQueue struct {
	id      int32
	next    int64 // the offset to ask for
	begin   int64 // where a pull goes on that has reached end, if the run reads the same again and again
	end     int64 // where the messages ended when the run began
	asked   bool  // a request waits for its answer
	done    bool  // nothing is left that the run wants of it
	retryNs int64 // not asked before
	streams []sequence
}

// consumed is what a consumer saw over the whole run.
type consumed struct {
	messages uint64 // arrived, for the first time where that can be told
	corrupt  uint64 // a record that does not parse, or a body that is not what was sent
	foreign  uint64 // not of this run
}

// newPuller makes the consumer of connection number i of a group, which has count of them: it reads every count-th queue.
func newPuller(r *run, t *target, group, i, count int) *puller {
	o := &r.opts
	p := &puller{group: group, header: wire.PullMessageHeader{
		ConsumerGroup: []byte(r.groupName(group)), Topic: []byte(o.Topic), MaxMsgNums: int32(o.PullBatch), SysFlag: wire.PullSysFlagSubscription,
		Subscription: []byte("*"), ExpressionType: []byte("TAG"), BrokerName: []byte(t.brokerName),
	}}
	if t.brokerName == "" {
		p.header.BrokerName = nil
	}
	if o.consumes == consumeArriving {
		p.header.SysFlag |= wire.PullSysFlagSuspend // as push consumers do
		p.header.SuspendTimeoutMillis = longpollHoldMax.Milliseconds()
	}
	for id := i; id < t.queues; id += count {
		q := pullQueue{id: int32(id), next: t.ends[id], begin: t.begins[id], end: t.ends[id]}
		if o.consumes != consumeArriving || r.behind(group) {
			q.next = q.begin
		}
		p.queues = append(p.queues, q)
	}
	return p
}

// ask composes a request for every queue of the connection that has none, and writes.
//
// hot: 0 allocs
func (w *worker) ask(c *conn, now int64) {
	p := c.puller
	if c.state != connUp || !w.pulling {
		return
	}
	for i := range p.queues {
		q := &p.queues[i]
		if q.asked || q.done || q.retryNs > now || c.table.full() || c.unsent() >= writeSoftBytes {
			continue
		}
		q.asked = true
		p.header.QueueID, p.header.QueueOffset = q.id, q.next
		opaque := c.table.take(request{intendedNs: now, sentNs: now, queue: int32(i)})
		c.tx = wire.AppendPullRequest(c.tx, w.run.opts.Encoding, wire.RequestPullMessage, opaque, &p.header)
	}
	if c.unsent() > 0 {
		w.flush(c)
	}
}

// askLater leaves a queue alone for a while.
func (w *worker) askLater(q *pullQueue, now int64) {
	q.retryNs = now + int64(pullPause)
	w.askNs = min(w.askNs, q.retryNs)
}

// askAgain asks for the queues whose pause is over.
func (w *worker) askAgain(now int64) {
	if now < w.askNs {
		return
	}
	w.askNs = math.MaxInt64
	for _, c := range w.pullers {
		w.ask(c, now)
		for i := range c.puller.queues {
			if q := &c.puller.queues[i]; q.retryNs > now {
				w.askNs = min(w.askNs, q.retryNs)
			}
		}
	}
}

// takePulls accounts for every whole answer in the read buffer of a consuming connection.
//
// hot: 0 allocs
func (w *worker) takePulls(c *conn, now int64) {
	for c.state == connUp {
		frame, size, err := wire.SplitFrame(c.rx[c.rxFrom:c.rxTo])
		if err == nil && frame == nil {
			c.makeRoom(size)
			return
		}
		if err == nil {
			err = c.answer.dec.Decode(frame, &c.answer.cmd)
		}
		if err != nil {
			w.lose(c, err)
			return
		}
		c.rxFrom += size
		if cmd := &c.answer.cmd; cmd.IsResponse() {
			w.pulled(c, cmd, now)
		}
	}
}

// pulled takes one answer to a pull.
//
// hot: 0 allocs on success
func (w *worker) pulled(c *conn, cmd *wire.Command, now int64) {
	req, known := c.table.give(cmd.Opaque)
	if !known {
		w.cur.strange++
		return
	}
	w.cur.pulls++
	w.lastAnswerNs = now
	q := &c.puller.queues[req.queue]
	q.asked = false
	answer := &c.puller.answer
	code := wire.ResponseCode(cmd.Code)
	switch code {
	case wire.ResponseSuccess, wire.ResponsePullNotFound, wire.ResponsePullRetryImmediately, wire.ResponsePullOffsetMoved:
		if err := answer.Decode(cmd); err != nil {
			w.lose(c, fmt.Errorf("a pull's answer: %w", err))
			return
		}
		q.next = answer.NextBeginOffset
	}
	switch code {
	case wire.ResponseSuccess:
		if now >= w.run.warmNs && w.sending && w.cur.pull != nil {
			w.cur.record(w.cur.pull, now-req.sentNs)
		}
		w.arrived(c.puller, q, cmd.Body, now)
	case wire.ResponsePullNotFound, wire.ResponsePullRetryImmediately:
		if w.run.opts.consumes != consumeArriving {
			w.askLater(q, now)
		}
	default:
		w.cur.errors.add(cmd.Code, 1, cmd.Remark)
		w.askLater(q, now)
	}
	w.pass(q)
}

// pass decides how a queue goes on that was read up to q.next.
func (w *worker) pass(q *pullQueue) {
	switch o := &w.run.opts; {
	case q.next < q.end || o.consumes == consumeArriving:
	case o.consumes == consumeAgain && q.end > q.begin:
		q.next = q.begin
	default:
		q.done = true
		if w.run.queuesLeft.Add(-1) == 0 {
			w.run.finish()
		}
	}
}

// arrived takes the records of an answer.
//
// hot: 0 allocs while the broker keeps the order
func (w *worker) arrived(p *puller, q *pullQueue, body []byte, now int64) {
	iv, r := w.cur, w.run
	v := &p.view
	for len(body) > 0 {
		if err := message.ParseView(body, v); err != nil {
			p.counts.corrupt++
			return
		}
		iv.receivedBytes += uint64(len(v.Body))
		body = body[v.Size:]
		s, stamped, good := stampOf(v.Body)
		switch {
		case stamped && !good:
			p.counts.corrupt++
			continue
		case r.opts.consumes != consumeArriving:
			p.counts.messages++
			iv.received++
			continue
		case !stamped || s.run != r.id || int(s.stream) >= r.streams():
			p.counts.foreign++
			continue
		}
		for int(s.stream) >= len(q.streams) {
			q.streams = append(q.streams, sequence{})
		}
		if !q.streams[s.stream].observe(s.sequence) {
			continue
		}
		p.counts.messages++
		iv.received++
		w.lastArrivalNs = now
		if s.intendedNs >= r.warmNs && !r.behind(p.group) && !r.isDelayed(s.stream) {
			iv.record(iv.delivery, now-s.intendedNs)
		}
	}
}
