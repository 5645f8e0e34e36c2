package broker

import (
	"fmt"
	"time"

	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/wire"
)

var (
	retryPrefix = []byte(topics.RetryPrefix)

	refusalNoLevel    = wire.Refuse(wire.ResponseSystemError, "the delay level (property DELAY) is not a number")
	refusalDelayBatch = wire.Refuse(wire.ResponseMessageIllegal, "the message is illegal: messages of a batch cannot be delayed (property DELAY)")

	// What the original answers with code 13 it answers because a message cannot be stored; these are asked of a broker
	// that cannot do them yet, and storing them as ordinary messages would deliver them too early or too often.
	refusalTimer    = wire.Refuse(wire.ResponseMessageIllegal, "timer messages (properties TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS) are not supported by this version of peregrine")
	refusalHalf     = wire.Refuse(wire.ResponseMessageIllegal, "the message is illegal: sysFlag prepared or rollback without property TRAN_MSG, or a half message in a batch")
	refusalHalfLate = wire.Refuse(wire.ResponseMessageIllegal, "the message is illegal: a half message (property TRAN_MSG) cannot be delayed")
	refusalInner    = wire.Refuse(wire.ResponseMessageIllegal, "the message is illegal: property INNER_NUM is the broker's own")
	refusalStopping = wire.Refuse(wire.ResponseServiceNotAvailable, "service not available now: the broker is shutting down")
	refusalEmpty    = wire.Refuse(wire.ResponseMessageIllegal, "the message body is empty")

	refusalSyncQueueFull = wire.Refuse(wire.ResponseSystemBusy, "[OVERLOAD]too many sends wait for the disk, start flow control for a while (limit syncAnswersMax)")
)

// checkSendTopic makes the checks 1 to 4 of a send (spec of the original: preSend and msgCheck): may this broker take a
// message of this topic at all. topic is nil when the name is not known.
//
// hot: 0 allocs without refusal.
func (b *Broker) checkSendTopic(h *wire.SendMessageHeader, topic *topics.Topic) *wire.Refusal {
	if from := b.set.Load().acceptSendsFrom; from > 0 && now() < from {
		return wire.Refuse(wire.ResponseSystemError, "broker unable to service, until "+time.UnixMilli(int64(from)).Format(time.DateTime))
	}
	if topic == nil {
		name := string(h.Topic)
		if topics.SendForbidden(name) {
			return topics.SendForbiddenRefusal(name)
		}
		return topics.CheckName(name)
	}
	if topic.SendForbidden() {
		return topics.SendForbiddenRefusal(topic.Name())
	}
	if !b.set.Load().writable && topic.Config().Order {
		return wire.Refuse(wire.ResponseNoPermission, "the broker["+b.cfg.BrokerIP1+"] sending message is forbidden: brokerPermission is "+itoa(int32(b.set.Load().BrokerPermission))+
			", the topic is ordered")
	}
	return nil
}

// checkSendContent makes the checks behind the queue id: sizes, and what is asked for beyond an ordinary message.
//
// hot: 0 allocs without refusal.
func (b *Broker) checkSendContent(h *wire.SendMessageHeader, p *sendProperties, config *wire.TopicConfig, body []byte) *wire.Refusal {
	if h.Batch && len(h.Topic) > topics.NameBytesMax {
		return wire.Refuse(wire.ResponseMessageIllegal, fmt.Sprintf("message topic length over %d", topics.NameBytesMax))
	}
	switch transaction := h.SysFlag & message.SysFlagTransactionMask; {
	case p.half && b.set.Load().RejectTransactionMessage:
		return wire.Refuse(wire.ResponseNoPermission, "the broker["+b.cfg.BrokerIP1+"] sending transaction message is forbidden")
	case p.half && h.Batch:
		return refusalHalf
	case p.half && (p.level > 0 || p.timed):
		return refusalHalfLate // the original stores it where no check finds it, and drops it when its time comes
	case p.half:
	case transaction == message.SysFlagTransactionPrepared, transaction == message.SysFlagTransactionRollback:
		return refusalHalf
	}
	if r := p.unbuilt(); r != nil {
		return r
	}
	switch {
	case len(body) == 0:
		return refusalEmpty
	case int64(len(body)) > int64(b.set.Load().MaxMessageSize):
		return wire.Refuse(wire.ResponseMessageIllegal, fmt.Sprintf("message body size exceeded: %d bytes, maxMessageSize is %d", len(body), b.set.Load().MaxMessageSize))
	}
	return nil
}

// unbuilt refuses what properties ask for and is not built yet, or not a client's to ask.
//
// hot: 0 allocs.
func (p *sendProperties) unbuilt() *wire.Refusal {
	switch {
	case p.noLevel:
		return refusalNoLevel
	case p.timed && p.level <= 0:
		return refusalTimer
	case p.inner:
		return refusalInner
	}
	return nil
}

// checkRetrySend is SendMessageProcessor.handleRetryAndDLQ (5.5.0) for a send to a retry topic: dead says that the message has
// used up its retries and goes to the group's dead letter queue. The group of an orderly consumer retries in place, so what
// it sends here is dead whatever its number.
func (b *Broker) checkRetrySend(h *wire.SendMessageHeader, version int32) (dead bool, refusal *wire.Refusal) {
	if h.Batch {
		return false, wire.Refuse(wire.ResponseMessageIllegal, "batch messages to a retry topic are not allowed")
	}
	group := string(h.Topic[len(retryPrefix):])
	known := b.groups.LookupOrCreate(group)
	if known == nil {
		return false, wire.Refuse(wire.ResponseSubscriptionGroupNotExist, "subscription group not exist, "+group+" \n"+topics.Hint)
	}
	retriesMax := known.Config().RetryMaxTimes
	if h.HasMaxReconsumeTimes && version >= wire.VersionMaxReconsume {
		retriesMax = h.MaxReconsumeTimes
	}
	return h.ReconsumeTimes > retriesMax || b.locks.Held(group, now()), nil
}

func invalidQueueID(h *wire.SendMessageHeader, config *wire.TopicConfig) *wire.Refusal {
	return wire.Refuse(wire.ResponseInvalidParameter, fmt.Sprintf("request queueId[%d] is illegal, TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%d]",
		h.QueueID, h.Topic, config.ReadQueueNums, config.WriteQueueNums, config.Perm))
}

func propertiesTooLong(n int) *wire.Refusal {
	return wire.Refuse(wire.ResponseMessageIllegal, fmt.Sprintf("the message is illegal, the properties have %d bytes, at most %d are allowed", n, message.PropertiesBytesMax))
}

func batchTooMany() *wire.Refusal {
	return wire.Refuse(wire.ResponseMessageIllegal, fmt.Sprintf("the batch has more than %d messages", batchElementsMax))
}

// overloaded tells whether dispatch or write-back is so far behind that a send has to be refused, with the reason.
//
// hot: 0 allocs without refusal, a few atomic loads.
func (b *Broker) overloaded() *wire.Refusal {
	if b.stopping.Load() {
		return refusalStopping
	}
	return b.lagging()
}

// lagging is overloaded without regard to a shutdown, during which the broker still ends what it began.
//
// hot: 0 allocs without refusal, a few atomic loads.
func (b *Broker) lagging() *wire.Refusal {
	wrote := b.store.Wrote()
	if lag := int64(b.store.Confirmed() - b.dispatcher.LowWater()); lag > b.dispatchLagMax {
		return wire.Refuse(wire.ResponseSystemBusy, fmt.Sprintf("[REJECTREQUEST]system busy, dispatch is %d bytes behind (peregrine.dispatchLagMaxBytes is %d)", lag, b.dispatchLagMax))
	}
	if lag := int64(wrote - b.flusher.Flushed()); lag > b.unflushedMax {
		return wire.Refuse(wire.ResponseSystemBusy, fmt.Sprintf("[REJECTREQUEST]system busy, %d bytes are not flushed (peregrine.unflushedMaxBytes is %d)", lag, b.unflushedMax))
	}
	return nil
}
