package broker

import (
	"bytes"
	"strconv"
	"time"

	"peregrine/broker/relay"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// replyPushTimeout is how long a requester has to take the reply (Broker2Client.callClient).
const replyPushTimeout = 10 * time.Second

// pendingReply is a reply on its way to its requester. Nothing in it belongs to a frame.
type pendingReply struct {
	broker  *Broker
	record  store.Message
	queueID message.QueueID
	enc     wire.Encoding
	opaque  int32
	oneway  bool
	done    func(frame *netio.Buffer)
}

// sendReply is SEND_REPLY_MESSAGE (324, 325; ReplyMessageProcessor of 5.5.0): a send whose message goes to the client that asked
// for it, by the id in its property REPLY_TO_CLIENT, and then, with storeReplyMessageEnable, into the log. later gives the function
// that ends the request; a frame is an answer already, then later was not called.
func (b *Broker) sendReply(t *sendTurn, cmd *wire.Command, from *sender, later func() func(*netio.Buffer)) (refusal []byte) {
	if r := b.admitSlowly(t, cmd, from); r != nil {
		return b.appendSendRefusal(nil, from.enc, from.opaque, r)
	}
	defer t.reset()
	h, p := t.header, &t.pending[0]
	if p.n != 1 {
		return b.appendSendRefusal(nil, from.enc, from.opaque, wire.Refuse(wire.ResponseMessageIllegal, "a reply is no batch"))
	}
	reply := &pendingReply{broker: b, record: t.messages[0], queueID: p.queueID, enc: from.enc, opaque: from.opaque,
		oneway: from.oneway, done: later()}
	m := &reply.record
	m.Body = bytes.Clone(m.Body)
	var properties message.PropertyMap
	properties.Parse(h.Properties)
	m.Properties, m.PropertiesSuffix = replyProperties(m, &properties), nil
	to := string(properties.Get(message.PropertyReplyToClient))
	if to == "" {
		reply.pushed("reply message properties[" + message.PropertyReplyToClient + "] is null")
		return nil
	}
	requester, ok := b.clients.FindProducer(to)
	if !ok {
		reply.pushed("push reply message fail, channel of <" + to + "> not found.")
		return nil
	}
	properties.Set([]byte(message.PropertyPushReplyTime), strconv.AppendInt(nil, int64(now()), 10))
	properties.Set([]byte(message.PropertyMsgRegion), []byte(b.cfg.RegionId))
	properties.Set([]byte(message.PropertyTraceSwitch), []byte(b.set.Load().traceOn))
	header := wire.ReplyMessageRequestHeader{ProducerGroup: string(h.ProducerGroup), Topic: string(h.Topic), DefaultTopic: string(h.DefaultTopic),
		DefaultTopicQueueNums: h.DefaultTopicQueueNums, QueueID: int32(p.queueID), SysFlag: h.SysFlag, BornTimestamp: h.BornTimestamp, Flag: h.Flag,
		Properties: string(properties.AppendTo(nil)), ReconsumeTimes: h.ReconsumeTimes, UnitMode: h.UnitMode, BornHost: from.host.String(),
		StoreHost: b.storeHost.String(), StoreTimestamp: int64(now())}
	b.relay.Call(requester, wire.RequestPushReplyMessageToClient, header, m.Body, replyPushTimeout, func(a *relay.Answer, err error) {
		if err != nil || a.Code != wire.ResponseSuccess {
			reply.pushed("push reply message to " + to + "fail.")
			return
		}
		reply.pushed("")
	})
	return nil
}

// notForReplies are properties that a send makes, replaces or takes out, a reply at the original not.
var notForReplies = [...]string{message.PropertyUniqKey, message.PropertyCluster, message.PropertyPopCK}

// replyProperties is the text that is stored with a reply: that of a send, with the properties notForReplies as they were sent.
func replyProperties(m *store.Message, sent *message.PropertyMap) []byte {
	var stored message.PropertyMap
	stored.Parse(m.Properties)
	stored.Add(m.PropertiesSuffix)
	for _, name := range notForReplies {
		if value := sent.Get(name); value != nil {
			stored.Set([]byte(name), value)
		} else {
			stored.Delete(name)
		}
	}
	return stored.AppendTo(nil)
}

// pushed goes on when the requester has the reply, or with the reason why it has not: that is the answer's, and the message is
// stored all the same.
func (r *pendingReply) pushed(failure string) {
	b := r.broker
	code := wire.ResponseSuccess
	if failure != "" {
		code = wire.ResponseSystemError
		b.repliesFailed.Add(1)
	}
	response := wire.SendMessageResponse{MsgID: []byte("0"), QueueID: int32(r.queueID), Region: b.cfg.RegionId, TraceOn: b.set.Load().traceOn}
	finish := func() {
		if r.oneway {
			r.done(nil)
			return
		}
		buf := netio.GetBuffer(512)
		buf.B = wire.AppendSendResponse(buf.B, r.enc, r.opaque, code, failure, &response)
		r.done(buf)
	}
	if !b.set.Load().StoreReplyMessageEnable {
		finish()
		return
	}
	batch := []store.Message{r.record}
	end, err := internalSender{b}.Append(batch)
	if err == nil {
		err = batch[0].Err
	}
	if err != nil {
		b.logger.Warn("a reply reached its requester but is not stored", "topic", string(r.record.Topic), "err", err)
		finish()
		return
	}
	response.MsgID, response.StoreHost, response.PhyOffsets = nil, b.storeHost, []message.PhyOffset{batch[0].PhyOffset}
	response.QueueOffset = int64(batch[0].QueueOffset)
	if !b.syncFlush {
		finish()
		return
	}
	go func() { // whoever brought the requester's answer must not wait for a disk
		if err := (internalSender{b}).Await(end); err != nil {
			b.logger.Warn("a reply reached its requester but is not durable", "topic", string(r.record.Topic), "err", err)
		}
		finish()
	}()
}
