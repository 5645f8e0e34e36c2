package control

import (
	"fmt"

	"peregrine/broker/clients"
	"peregrine/broker/names"
	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// resetOffset is code 222 (AdminBrokerProcessor.resetOffset). With useServerSideResetOffset the broker keeps the offsets and the
// group's next pull is told; without, as up to 4.9, the members are told at once and commit by themselves.
func (s *service) resetOffset(r *Request) wire.Reply {
	var h wire.ResetOffsetRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	topic := s.Topics.Find(h.Topic)
	if topic == nil {
		return failure(wire.ResponseTopicNotExist, "Topic "+names.Quote(h.Topic)+" does not exist")
	}
	if !s.Config.Get().UseServerSideResetOffset {
		return s.resetByClients(r, &h, topic.Config().WriteQueueNums)
	}
	if s.Groups.Find(h.Group) == nil {
		return failure(wire.ResponseSubscriptionGroupNotExist, "Group "+names.Quote(h.Group)+" does not exist")
	}
	targets := map[int32]int64{}
	if h.QueueID != nil && *h.QueueID >= 0 {
		target, refusal := s.resetTarget(&h, *h.QueueID)
		if refusal != nil {
			return refusal.Reply()
		}
		targets[*h.QueueID] = target
	} else {
		for id := range min(topic.Config().ReadQueueNums, topics.QueueNumsMax) {
			targets[id] = s.offsetAt(s.Store.LookupQueue([]byte(h.Topic), message.QueueID(id)), h.Timestamp)
		}
	}
	if len(targets) == 0 {
		return failure(wire.ResponseSystemError, "No queues to reset.")
	}
	body := wire.ResetOffsetBody{OffsetTable: make(map[wire.MessageQueue]int64, len(targets))}
	for id, target := range targets {
		if !s.Offsets.Reset(h.Group, h.Topic, message.QueueID(id), message.QueueOffset(target)) {
			return failure(wire.ResponseSystemError, fmt.Sprintf("the offset of queue %d is not kept: queue id out of range, or too many offsets", id))
		}
		body.OffsetTable[s.messageQueue(h.Topic, id)] = target
		s.WakePulls(h.Topic, message.QueueID(id))
	}
	s.Logger.Info("offsets reset by an administrator", "topic", h.Topic, "group", h.Group, "timestamp", h.Timestamp, "queues", len(targets), "remote", r.Remote)
	return success(nil, wire.EncodeBody(body))
}

// resetTarget is the offset for one queue: the one given, if the queue can have it, or that of the timestamp.
func (s *service) resetTarget(h *wire.ResetOffsetRequestHeader, id int32) (int64, *wire.Refusal) {
	q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(id))
	if h.Offset == nil || *h.Offset == -1 {
		return s.offsetAt(q, h.Timestamp), nil
	}
	lowest, highest := int64(0), int64(0)
	if q != nil {
		lowest, highest = int64(q.Min()), int64(q.Max())
	}
	if *h.Offset < lowest || *h.Offset > highest+1 {
		return 0, wire.Refuse(wire.ResponseSystemError, fmt.Sprintf("Target offset %d not in consume queue range [%d-%d]", *h.Offset, lowest, highest))
	}
	return *h.Offset, nil
}

// offsetAt is the first message stored at or after a time, the queue's end for a negative one.
func (s *service) offsetAt(q *store.Queue, timestamp int64) int64 {
	switch {
	case q == nil:
		return 0
	case timestamp < 0:
		return int64(q.Max())
	}
	return int64(q.OffsetAtTime(message.Millis(timestamp), false))
}

// resetByClients is Broker2Client.resetOffset: 220 to each member, which sets its offsets anew. Without isForce an offset only
// goes back.
func (s *service) resetByClients(r *Request, h *wire.ResetOffsetRequestHeader, queues int32) wire.Reply {
	table := make(map[wire.MessageQueue]int64)
	for id := range min(queues, topics.QueueNumsMax) {
		committed, ok := s.Offsets.Query([]byte(h.Group), []byte(h.Topic), message.QueueID(id))
		if !ok {
			return failure(wire.ResponseSystemError, "THe consumer group <"+names.Quote(h.Group)+"> not exist")
		}
		target := s.offsetAt(s.Store.LookupQueue([]byte(h.Topic), message.QueueID(id)), h.Timestamp)
		if !h.IsForce {
			target = min(target, int64(committed))
		}
		table[s.messageQueue(h.Topic, id)] = target
	}
	members := s.Clients.Consumers(h.Group)
	if len(members) == 0 {
		return failure(wire.ResponseConsumerNotOnline, fmt.Sprintf("Consumer not online, so can not reset offset, Group: %s Topic: %s Timestamp: %d", names.Quote(h.Group), h.Topic, h.Timestamp))
	}
	header := wire.ResetOffsetRequestHeader{Topic: h.Topic, Group: h.Group, Timestamp: h.Timestamp, IsForce: h.IsForce}
	for i := range members {
		if members[i].Version < wire.VersionResetOffsetPush {
			return failure(wire.ResponseSystemError, fmt.Sprintf("the client does not support this feature. version=%d", members[i].Version))
		}
		frame := wire.AppendRequest(nil, wire.EncodingJSON, wire.RequestResetConsumerClientOffset, 0, wire.FlagOneway, wire.LanguageJava,
			wire.Version, header, resetBody(&members[i], table))
		s.Pusher.Push(members[i].Ref, frame)
	}
	s.Logger.Info("offsets reset by an administrator, members told", "topic", h.Topic, "group", h.Group, "timestamp", h.Timestamp, "members", len(members), "remote", r.Remote)
	return success(nil, wire.EncodeBody(wire.ResetOffsetBody{OffsetTable: table}))
}

func resetBody(c *clients.Client, table map[wire.MessageQueue]int64) []byte {
	if c.Language != wire.LanguageCPP {
		return wire.EncodeBody(wire.ResetOffsetBody{OffsetTable: table})
	}
	var list []wire.MessageQueueForC
	for mq, offset := range table {
		list = append(list, wire.MessageQueueForC{BrokerName: mq.BrokerName, Offset: offset, QueueID: mq.QueueID, Topic: mq.Topic})
	}
	return wire.EncodeBody(wire.ResetOffsetBodyForC{OffsetTable: list})
}

// cloneOffset is code 314 (AdminBrokerProcessor.cloneGroupOffset): a group takes over the offsets of another. Topics that the
// source is online for and does not subscribe are left out, unless offline is set.
func (s *service) cloneOffset(r *Request) wire.Reply {
	var h wire.CloneGroupOffsetRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	cloned := []string{h.Topic}
	if h.Topic == "" {
		cloned = s.Offsets.TopicsOf(h.SrcGroup)
	}
	for _, name := range cloned {
		if s.Topics.Find(name) == nil {
			continue
		}
		if subscribes, online := s.Clients.Subscribes(h.SrcGroup, name); !h.Offline && online && !subscribes {
			continue
		}
		s.Offsets.Clone(h.SrcGroup, h.DestGroup, name)
	}
	s.Logger.Info("offsets cloned by an administrator", "from", names.Quote(h.SrcGroup), "to", names.Quote(h.DestGroup), "topic", names.Quote(h.Topic), "remote", r.Remote)
	return success(nil, nil)
}
