package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

const (
	producerGroup = "SoakProducers"
	beatEvery     = 10 * time.Second
	redialAfter   = 20 * time.Millisecond
	busyPause     = 10 * time.Millisecond
)

// pace spreads sends over time. It can be changed while it is used.
type pace struct{ interval atomic.Int64 } // of one producer, in ns; 0: as fast as it goes

func (p *pace) set(ratePerSec float64) {
	interval := int64(0)
	if ratePerSec > 0 {
		interval = int64(float64(time.Second) * producerCount / ratePerSec)
	}
	p.interval.Store(interval)
}

// producer sends one message after the other, so that the order of what it sends to a queue is known. All producers are one
// group: each may be asked about the transactions of all.
type producer struct {
	w      *world
	number int
	rng    *rand.Rand
	props  []byte
	body   []byte
}

// run sends until sending ends, and answers checks until ctx does.
func (p *producer) run(ctx, sending context.Context) {
	for ctx.Err() == nil {
		c, err := p.w.dial(p.number, p.answerChecks)
		if err == nil {
			p.work(ctx, sending, c.client)
			c.client.close()
		}
		sleep(ctx, redialAfter)
	}
}

// work is the life of one connection.
func (p *producer) work(ctx, sending context.Context, c *client) {
	beat := wire.EncodeBody(wire.HeartbeatData{ClientID: "producer" + strconv.Itoa(p.number), ProducerDataSet: []wire.ProducerData{{GroupName: producerGroup}}})
	lastBeat := time.Time{}
	due := time.Now()
	for ctx.Err() == nil {
		if time.Since(lastBeat) >= beatEvery {
			if _, err := c.call(wire.RequestHeartBeat, nil, beat); err != nil {
				p.w.note(err)
				return
			}
			lastBeat = time.Now()
		}
		if sending.Err() != nil {
			select {
			case <-ctx.Done():
			case <-c.dead:
				return
			case <-time.After(beatEvery):
			}
			continue
		}
		if err := p.send(c); err != nil {
			p.w.note(err)
			return
		}
		interval := time.Duration(p.w.pace.interval.Load())
		// Nothing is caught up on: a second without a broker must not become a burst.
		due = later(due.Add(interval), time.Now().Add(-interval))
		sleep(sending, time.Until(due))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// choose says what becomes of the next message.
func (p *producer) choose() (k kind, level uint8) {
	switch n := p.rng.IntN(100); {
	case n < halfPercent:
		return firstHalf + kind(p.rng.IntN(halvesKeptApart)), 0
	case n < halfPercent+delayedPercent:
		return delayed, uint8(1 + p.rng.IntN(sentLevelMax))
	}
	return plain, 0
}

// send sends one message; an error ends the connection.
func (p *producer) send(c *client) error {
	k, level := p.choose()
	queue := p.rng.IntN(queueCount)
	now := time.Now()
	m := content{identity: p.w.judge.begin(p.number, queue, k), kind: k, level: level, born: now.UnixMilli()}
	key := fmt.Sprintf("%d-%d-%d-%d", m.producer, m.queue, m.seq, m.born)
	p.body = m.appendTo(p.body[:0])
	p.props = message.AppendProperty(p.props[:0], message.PropertyUniqKey, key)
	sysFlag := message.SysFlagTransactionNotType
	switch {
	case k.half():
		sysFlag = message.SysFlagTransactionPrepared
		p.props = message.AppendProperty(p.props, message.PropertyTransactionPrepared, "true")
		p.props = message.AppendProperty(p.props, message.PropertyProducerGroup, producerGroup)
	case level > 0:
		p.props = message.AppendProperty(p.props, message.PropertyDelay, strconv.Itoa(int(level)))
	}
	h := wire.SendMessageHeader{ProducerGroup: []byte(producerGroup), Topic: []byte(topic), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: queueCount,
		QueueID: int32(queue), SysFlag: sysFlag, BornTimestamp: m.born, Properties: p.props}
	f, err := c.exchange(callTimeout, func(dst []byte, opaque int32) []byte {
		return wire.AppendSendRequestV2(dst, c.enc, opaque, 0, &h, p.body)
	})
	switch {
	case errors.Is(err, errSilent):
		return fmt.Errorf("send: %w within %v", err, callTimeout)
	case err != nil:
		return err
	}
	switch code := wire.ResponseCode(f.Code); code {
	case wire.ResponseSuccess:
	case wire.ResponseSystemBusy, wire.ResponseFlowControl: // not stored
		p.w.refused.Add(1)
		time.Sleep(busyPause) // what a client does that is told to slow down
		return nil
	default:
		return &refusedError{wire.RequestSendMessageV2, code, string(f.Remark)}
	}
	p.w.judge.ack(m.identity)
	if !k.half() {
		return nil
	}
	var answer wire.SendMessageResponseHeader
	if err := wire.DecodeHeader(&f.Command, &answer); err != nil {
		return err
	}
	_, phy, err := message.ParseOffsetMsgID([]byte(answer.MsgID))
	if err != nil {
		return err
	}
	return p.end(c, m, wire.EndTransactionRequestHeader{TranStateTableOffset: answer.QueueOffset, CommitLogOffset: int64(phy), MsgID: key}, false)
}

// end sends END_TRANSACTION as clients do, without asking for an answer.
func (p *producer) end(c *client, m content, h wire.EndTransactionRequestHeader, checked bool) error {
	switch {
	case m.kind == committed || checked && m.kind == openCommitted:
		h.CommitOrRollback = message.SysFlagTransactionCommit
	case m.kind == rolledBack || checked && m.kind == openRolledBack:
		h.CommitOrRollback = message.SysFlagTransactionRollback
	}
	if h.CommitOrRollback != 0 {
		p.w.judge.ending(m.identity, time.Now())
	}
	h.ProducerGroup, h.TransactionID, h.FromTransactionCheck = producerGroup, &h.MsgID, &checked
	_, err := c.write(nil, func(dst []byte, opaque int32) []byte {
		return wire.AppendRequest(dst, c.enc, wire.RequestEndTransaction, opaque, wire.FlagOneway, wire.LanguageGo, wire.Version, h, nil)
	})
	return err
}

// answerChecks answers CHECK_TRANSACTION_STATE by what the message itself says. It runs on the reading goroutine, and its
// write is short: there is one check for some hundred sends.
func (p *producer) answerChecks(c *client, f *frame) {
	if wire.RequestCode(f.Code) != wire.RequestCheckTransactionState {
		return
	}
	var h wire.CheckTransactionStateRequestHeader
	var v message.View
	err := wire.DecodeHeader(&f.Command, &h)
	if err == nil {
		err = message.ParseView(f.Body, &v)
	}
	m, bodyErr := parseContent(v.Body)
	if err = errors.Join(err, bodyErr); err != nil || !m.kind.half() || h.MsgID == nil {
		p.w.judge.complain("transaction", "a check of %+v (%v)", m, err)
		return
	}
	p.w.checks.Add(1)
	_ = p.end(c, m, wire.EndTransactionRequestHeader{TranStateTableOffset: h.TranStateTableOffset, CommitLogOffset: h.CommitLogOffset, MsgID: *h.MsgID}, true)
}
