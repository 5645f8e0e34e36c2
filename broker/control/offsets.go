package control

import (
	"strconv"
	"strings"

	"peregrine/broker/names"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// queryOffset is code 14. Without a stored offset, 0 is the answer when the queue still begins at 0 and its first message
// counts as lying in memory: a new group then starts at the beginning of a young queue, whatever it asked for. Otherwise 22,
// and the client decides (ConsumerManageProcessor.queryConsumerOffset).
func (s *service) queryOffset(r *Request) wire.Reply {
	var h wire.QueryConsumerOffsetRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	if offset, ok := s.Offsets.Query([]byte(h.ConsumerGroup), []byte(h.Topic), message.QueueID(h.QueueID)); ok {
		return success(wire.OffsetResponseHeader{Offset: int64(offset)}, nil)
	}
	begins := func(where, because string) {
		s.Logger.Debug("a group without an offset begins "+where, "because", because, "group", names.Quote(h.ConsumerGroup), "topic", names.Quote(h.Topic), "queue", h.QueueID)
	}
	if h.SetZeroIfNotFound != nil && !*h.SetZeroIfNotFound {
		begins("where its client decides", "the client asked for that")
		return wire.Reply{Code: wire.ResponseQueryNotFound, Remark: "Not found, do not set to zero, maybe this group boot first", Header: noFields{}}
	}
	if s.beginsInMemory(s.Store.LookupQueue([]byte(h.Topic), message.QueueID(h.QueueID))) {
		begins("at offset 0, whatever its client asked for", "the queue still begins at 0 and its first message counts as lying in memory")
		return success(wire.OffsetResponseHeader{}, nil)
	}
	begins("where its client decides", "the queue is empty, does not begin at 0 any more, or its first message lies too far back in the log")
	return wire.Reply{Code: wire.ResponseQueryNotFound, Remark: "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first", Header: noFields{}}
}

// beginsInMemory says whether a queue has its message 0 and that one is near the end of the log.
func (s *service) beginsInMemory(q *store.Queue) bool {
	if q == nil || q.Min() > 0 || q.Max() == 0 {
		return false
	}
	unit, ok := unitAt(q, 0)
	return ok && int64(s.Store.Wrote()-unit.Phy) <= s.MemoryWindow()
}

// updateOffset is code 15. A lower offset than the stored one counts.
func (s *service) updateOffset(r *Request) wire.Reply {
	var h wire.UpdateConsumerOffsetRequestHeader
	err := wire.DecodeHeader(r.Cmd, &h)
	field, absent := missing(err)
	if err != nil && !(absent && (field == "queueId" || field == "commitOffset")) {
		return wire.ReplyOf(err)
	}
	reply := func(code wire.ResponseCode, remark string) wire.Reply {
		return wire.Reply{Code: code, Remark: remark, Header: noFields{}}
	}
	switch {
	case s.Groups.Find(h.ConsumerGroup) == nil:
		return reply(wire.ResponseSubscriptionGroupNotExist, "Group "+names.Quote(h.ConsumerGroup)+" not exist!")
	case s.Topics.Find(h.Topic) == nil:
		return reply(wire.ResponseTopicNotExist, "Topic "+names.Quote(h.Topic)+" not exist!")
	case absent && field == "queueId":
		return reply(wire.ResponseInvalidParameter, "QueueId is null, topic is "+h.Topic)
	case absent:
		return reply(wire.ResponseInvalidParameter, "Offset is null, topic is "+h.Topic)
	}
	if s.Offsets.ResetWaits([]byte(h.ConsumerGroup), []byte(h.Topic), message.QueueID(h.QueueID)) {
		return reply(wire.ResponseSuccess, "Offset has been previously reset")
	}
	if !s.Offsets.Commit([]byte(h.ConsumerGroup), []byte(h.Topic), message.QueueID(h.QueueID), message.QueueOffset(h.CommitOffset)) {
		return reply(wire.ResponseInvalidParameter, "the offset is not kept: queue id out of range, or too many offsets")
	}
	return reply(wire.ResponseSuccess, "")
}

// allOffsets is code 43.
func (s *service) allOffsets(*Request) wire.Reply { return success(nil, s.Offsets.Body()) }

// allDelayOffsets is code 45: the text of delayOffset.json, which a slave of the original asks for.
func (s *service) allDelayOffsets(*Request) wire.Reply { return success(nil, s.Delays.Body()) }

// maxOffset is code 30.
func (s *service) maxOffset(r *Request) wire.Reply {
	var h wire.GetMaxOffsetRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	offset := int64(0)
	if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(h.QueueID)); q != nil {
		offset = int64(q.Max())
	}
	return ofQueue(h.Topic, h.QueueID, wire.OffsetResponseHeader{Offset: offset})
}

// minOffset is code 31.
func (s *service) minOffset(r *Request) wire.Reply {
	var h wire.TopicQueueRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	offset := int64(0)
	if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(h.QueueID)); q != nil {
		offset = int64(q.Min())
	}
	return ofQueue(h.Topic, h.QueueID, wire.OffsetResponseHeader{Offset: offset})
}

// earliestStoreTime is code 32: −1 when there is no message.
func (s *service) earliestStoreTime(r *Request) wire.Reply {
	var h wire.TopicQueueRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	stored := message.Millis(-1)
	if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(h.QueueID)); q != nil {
		stored, _ = q.StoreTimeAt(q.Min())
	}
	return ofQueue(h.Topic, h.QueueID, wire.GetEarliestMsgStoretimeResponseHeader{Timestamp: int64(stored)})
}

// searchOffset is code 29.
func (s *service) searchOffset(r *Request) wire.Reply {
	var h wire.SearchOffsetRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	offset := message.QueueOffset(0)
	if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(h.QueueID)); q != nil {
		upper := h.BoundaryType != nil && strings.EqualFold(*h.BoundaryType, "UPPER")
		offset = q.OffsetAtTime(message.Millis(h.Timestamp), upper)
	}
	return ofQueue(h.Topic, h.QueueID, wire.OffsetResponseHeader{Offset: int64(offset)})
}

// ofQueue is the answer to a question about a queue. The original answers with code 0 whatever the queue is called; the remark says that there
// can be none of that name.
func ofQueue(topic string, id int32, header any) wire.Reply {
	reply := success(header, nil)
	switch {
	case topic == "":
		reply.Remark = "topic is empty, no queue is of it"
	case id < 0:
		reply.Remark = "queueId is negative: " + strconv.Itoa(int(id))
	}
	return reply
}

// unitAt returns one unit that has a record.
func unitAt(q *store.Queue, at message.QueueOffset) (store.Unit, bool) {
	var unit [1]store.Unit
	n, hot := q.Units(unit[:], at)
	if !hot {
		var err error
		if n, err = q.ReadUnits(unit[:], at); err != nil {
			return store.Unit{}, false
		}
	}
	return unit[0], n == 1 && !unit[0].Hidden()
}
