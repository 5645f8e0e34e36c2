package control

import (
	"strings"

	"peregrine/broker/names"
	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/wire"
)

// consumeStats is code 208 (AdminBrokerProcessor.getConsumeStats): how far a group is in each queue of its topics.
func (s *service) consumeStats(r *Request) wire.Reply {
	var h wire.GetConsumeStatsRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	var names []string
	switch {
	case h.TopicList != "":
		names = strings.Split(h.TopicList, ";")
	case h.Topic != "":
		names = []string{h.Topic}
	default:
		names = s.Offsets.TopicsOf(h.ConsumerGroup)
	}
	body := wire.ConsumeStats{OffsetTable: map[wire.MessageQueue]wire.OffsetWrapper{}}
	for _, name := range names {
		if topic := s.shownTo(h.ConsumerGroup, name); topic != nil {
			s.addConsumeStats(&body, h.ConsumerGroup, topic, topic.Config().ReadQueueNums, true)
		}
	}
	return success(nil, wire.EncodeBody(body))
}

// shownTo returns a topic unless it is unknown, or the group is online and does not subscribe it.
func (s *service) shownTo(group, topic string) *topics.Topic {
	if subscribes, online := s.Clients.Subscribes(group, topic); online && !subscribes {
		return nil
	}
	return s.Topics.Find(topic)
}

func (s *service) addConsumeStats(body *wire.ConsumeStats, group string, topic *topics.Topic, queues int32, pulled bool) {
	name := []byte(topic.Name())
	for id := range min(queues, topics.QueueNumsMax) {
		var o wire.OffsetWrapper
		committed, _ := s.Offsets.Query([]byte(group), name, message.QueueID(id))
		o.ConsumerOffset = int64(committed)
		if pulled {
			next, _ := s.Pulled.Query([]byte(group), name, message.QueueID(id))
			o.PullOffset = max(int64(next), o.ConsumerOffset)
		}
		if q := s.Store.LookupQueue(name, message.QueueID(id)); q != nil {
			o.BrokerOffset = int64(q.Max())
			o.LastTimestamp = s.storeTimeOf(q, committed-1)
		}
		body.OffsetTable[s.messageQueue(topic.Name(), id)] = o
	}
	body.ConsumeTPS += s.getTPS(group, topic.Name())
}

// putTPS and getTPS are messages per second over the last minute.
func (s *service) putTPS(topic string) float64 {
	return minuteTPS(s.Stats.Find(stats.TopicPutNums, topic))
}
func (s *service) getTPS(group, topic string) float64 {
	return minuteTPS(s.Stats.Find(stats.GroupGetNums, topic+"@"+group))
}

func minuteTPS(item *stats.Item) float64 {
	if item == nil {
		return 0
	}
	return item.Minute().TPS
}

// brokerConsumeStats is code 317 (AdminBrokerProcessor.fetchAllConsumeStatsInBroker): the same for all groups. The original leaves
// pullOffset at 0 here, so its total of messages in flight is not to be planned with; it is the same sum here.
func (s *service) brokerConsumeStats(r *Request) wire.Reply {
	var h wire.GetBrokerConsumeStatsRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	body := wire.ConsumeStatsList{BrokerAddr: s.Addr, ConsumeStatsList: []map[string][]wire.ConsumeStats{}}
	groups, _, _ := s.Groups.Snapshot()
	left := consumeStatsQueuesMax
	for _, group := range groups {
		list := []wire.ConsumeStats{}
		for _, name := range s.Offsets.TopicsOf(group.Name()) {
			topic := s.shownTo(group.Name(), name)
			if topic == nil || h.IsOrder && !topic.Config().Order {
				continue
			}
			one := wire.ConsumeStats{OffsetTable: map[wire.MessageQueue]wire.OffsetWrapper{}}
			s.addConsumeStats(&one, group.Name(), topic, topic.Config().WriteQueueNums, false)
			for _, o := range one.OffsetTable {
				body.TotalDiff += o.BrokerOffset - o.ConsumerOffset
				body.TotalInflightDiff += o.PullOffset - o.ConsumerOffset
			}
			if left -= len(one.OffsetTable); left < 0 {
				return failure(wire.ResponseSystemError, "too many queues with consumers for one answer (limit consumeStatsQueuesMax); ask group by group")
			}
			list = append(list, one)
		}
		body.ConsumeStatsList = append(body.ConsumeStatsList, map[string][]wire.ConsumeStats{group.Name(): list})
	}
	return success(nil, wire.EncodeBody(body))
}

// consumeStatsQueuesMax bounds the queues in one answer of code 317: some 150 bytes each have to fit into a frame.
const consumeStatsQueuesMax = 80_000

// consumeTimeSpan is code 303 (AdminBrokerProcessor.queryConsumeTimeSpan): how old the messages are that a group has reached.
func (s *service) consumeTimeSpan(r *Request) wire.Reply {
	var h wire.TopicGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	topic := s.Topics.Find(h.Topic)
	if topic == nil {
		return failure(wire.ResponseTopicNotExist, "topic["+names.Quote(h.Topic)+"] not exist")
	}
	body := wire.ConsumeTimeSpanBody{ConsumeTimeSpanSet: []wire.QueueTimeSpan{}}
	for id := range min(topic.Config().WriteQueueNums, topics.QueueNumsMax) {
		span := wire.QueueTimeSpan{MessageQueue: s.messageQueue(h.Topic, id), MinTimeStamp: -1, MaxTimeStamp: -1}
		if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(id)); q != nil && q.Max() > q.Min() {
			span.MinTimeStamp = s.storeTimeOf(q, q.Min())
			span.MaxTimeStamp = s.storeTimeOf(q, q.Max()-1)
			span.ConsumeTimeStamp = span.MinTimeStamp
			committed, _ := s.Offsets.Query([]byte(h.Group), []byte(h.Topic), message.QueueID(id))
			if committed > 0 {
				span.ConsumeTimeStamp = s.storeTimeOf(q, committed-1)
			}
			if committed < q.Max() {
				span.DelayTime = int64(s.Now()) - s.storeTimeOf(q, max(committed, q.Min()))
			}
		}
		body.ConsumeTimeSpanSet = append(body.ConsumeTimeSpanSet, span)
	}
	return success(nil, wire.EncodeBody(body))
}
