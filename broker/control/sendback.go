package control

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"peregrine/broker/names"
	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// Sender stores records that the broker makes.
type Sender interface {
	// Send stores one record and fills in where; wait asks for its durability in SYNC_FLUSH. The error is a *wire.Refusal, or
	// a sync that failed.
	Send(m *store.Message, wait bool) error
}

// Retries counts messages that were consumed in vain. Any goroutine may add.
type Retries struct {
	SentBack    atomic.Uint64 // CONSUMER_SEND_MSG_BACK, dead letters included
	DeadLetters atomic.Uint64 // messages that went to a dead letter queue, sent ones included
}

// retryLevelFirst is the delay level of the first retry; each further one has the next level (10 s, 30 s, 1 min …).
const retryLevelFirst = 3

var (
	nameRetryTopic      = []byte(message.PropertyRetryTopic)
	nameOriginMessageID = []byte(message.PropertyOriginMessageID)
	nameWait            = []byte(message.PropertyWait)
	nameDelay           = []byte(message.PropertyDelay)
	textFalse           = []byte("false")
)

// sendBack is code 36 (AbstractSendMessageProcessor.consumerSendMsgBack): a consumer could not consume a message. It is stored
// once more, for its group's retry topic after a delay, or in its dead letter queue. Like the original it does not wait
// for a sync (WAIT=false is in the record).
func (s *service) sendBack(r *Request) wire.Reply {
	var h wire.ConsumerSendMsgBackRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	group := s.Groups.LookupOrCreate(h.Group)
	switch {
	case group == nil:
		return failure(wire.ResponseSubscriptionGroupNotExist, "subscription group not exist, "+names.Quote(h.Group)+" "+topics.Hint)
	case int32(s.Config.Get().BrokerPermission)&topics.PermWrite == 0:
		return failure(wire.ResponseNoPermission, "the broker["+s.Config.Get().BrokerIP1+"] sending message is forbidden")
	}
	config := group.Config()
	if config.RetryQueueNums <= 0 {
		return success(nil, nil)
	}
	topic, refusal := s.Topics.CreateRetryTopic(h.Group, config.RetryQueueNums, false, h.UnitMode)
	if refusal != nil {
		return failure(wire.ResponseSystemError, "topic["+topics.RetryPrefix+names.Quote(h.Group)+"] not exist")
	}
	if topic.Config().Perm&topics.PermWrite == 0 {
		return failure(wire.ResponseNoPermission, "the topic["+topic.Name()+"] sending message is forbidden")
	}
	var v message.View
	if _, err := s.Store.ReadRecord(nil, message.PhyOffset(h.Offset), &v); err != nil {
		remark := "look message by offset failed, " + strconv.FormatInt(h.Offset, 10)
		if !errors.Is(err, store.ErrNoRecord) && !errors.Is(err, store.ErrOutOfRange) {
			s.Logger.Error("a message that is sent back cannot be read", "position", h.Offset, "error", err)
			remark += ": " + err.Error()
		}
		return failure(wire.ResponseSystemError, remark)
	}
	retriesMax := config.RetryMaxTimes
	if h.MaxReconsumeTimes != nil && r.Cmd.Version >= wire.VersionMaxReconsume {
		retriesMax = *h.MaxReconsumeTimes
	}
	level := h.DelayLevel
	dead := v.ReconsumeTimes >= retriesMax || level < 0
	queueID := message.QueueID(rand.Int32N(config.RetryQueueNums))
	switch {
	case dead:
		if topic, refusal = s.Topics.CreateDeadLetterTopic(h.Group); refusal != nil {
			return failure(wire.ResponseSystemError, "topic["+topics.DLQPrefix+names.Quote(h.Group)+"] not exist")
		}
		level, queueID = 0, 0
	case level == 0:
		level = retryLevelFirst + v.ReconsumeTimes
	}
	m := s.retryOf(&v, topic.NameBytes(), queueID, level)
	if err := s.Sender.Send(&m, false); err != nil {
		return wire.ReplyOf(sendBackFailed(err))
	}
	s.Retries.SentBack.Add(1)
	origin, retried := message.GetProperty(v.Properties, message.PropertyRetryTopic)
	if !retried {
		origin = v.Topic
	}
	s.Stats.Add(stats.SendBackNums, []byte(string(origin)+"@"+h.Group), 1)
	if dead {
		s.Retries.DeadLetters.Add(1)
	}
	return success(nil, nil)
}

// sendBackFailed is the answer when nothing could be stored. Code 1 makes every client send the message by itself, as it
// does with the original; flow control keeps its own code.
func sendBackFailed(err error) error {
	var refusal *wire.Refusal
	if errors.As(err, &refusal) && refusal.Code != wire.ResponseSystemBusy {
		return wire.Refuse(wire.ResponseSystemError, refusal.Remark)
	}
	return err
}

// retryOf makes the record that v becomes: in the topic and queue that are given, or with a level above 0 in the schedule
// topic on its way there. A level of 0 takes the delay from it. The record aliases v.
func (s *service) retryOf(v *message.View, topic []byte, queueID message.QueueID, level int32) store.Message {
	m := store.Message{Record: v.Record()}
	var p message.PropertyMap
	p.Parse(v.Properties)
	if p.Get(message.PropertyRetryTopic) == nil {
		p.Set(nameRetryTopic, v.Topic)
	}
	if origin := p.Get(message.PropertyOriginMessageID); len(bytes.TrimSpace(origin)) == 0 {
		p.Set(nameOriginMessageID, message.AppendOffsetMsgID(nil, v.StoreHost, v.PhyOffset))
	}
	p.Set(nameWait, textFalse)
	p.Set(nameDelay, strconv.AppendInt(nil, int64(level), 10))
	m.Topic, m.QueueID, m.ReconsumeTimes = topic, queueID, v.ReconsumeTimes+1
	if level > 0 {
		s.Delays.Divert(&m.Record, level, &p, nil)
	} else {
		m.Properties = p.AppendTo(nil)
	}
	return m
}
