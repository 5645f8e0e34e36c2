package control

import (
	"peregrine/broker/names"
	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// updateTopic is code 17.
func (s *service) updateTopic(r *Request) wire.Reply {
	var h wire.CreateTopicRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	if h.TopicFilterType != wire.TopicFilterSingleTag && h.TopicFilterType != wire.TopicFilterMultiTag {
		return failure(wire.ResponseSystemError, "topicFilterType = ["+names.Quote(h.TopicFilterType)+"] value invalid")
	}
	config := wire.TopicConfig{Order: h.Order, Perm: h.Perm, ReadQueueNums: h.ReadQueueNums, WriteQueueNums: h.WriteQueueNums,
		TopicFilterType: h.TopicFilterType, TopicName: h.Topic}
	if h.TopicSysFlag != nil {
		config.TopicSysFlag = *h.TopicSysFlag
	}
	if h.Attributes != nil {
		var refusal *wire.Refusal
		if config.Attributes, refusal = topics.ParseAttributes(*h.Attributes); refusal != nil {
			return refusal.Reply()
		}
	}
	refusal := s.Topics.UpdateOrCreate(config)
	if refusal == nil {
		s.Logger.Info("topic set by an administrator", "topic", h.Topic, "read", h.ReadQueueNums, "write", h.WriteQueueNums, "perm", h.Perm, "remote", r.Remote)
	}
	return refused(refusal)
}

// updateTopicList is code 18.
func (s *service) updateTopicList(r *Request) wire.Reply {
	var body struct {
		TopicConfigList []wire.TopicConfig `json:"topicConfigList"`
	}
	if err := wire.DecodeBody(r.Cmd.Body, &body); err != nil {
		return wire.ReplyOf(err)
	}
	if body.TopicConfigList == nil {
		return failure(wire.ResponseSystemError, "the body lacks topicConfigList")
	}
	refusal := s.Topics.UpdateOrCreateAll(body.TopicConfigList)
	if refusal == nil {
		s.Logger.Info("topics set by an administrator", "topics", len(body.TopicConfigList), "remote", r.Remote)
	}
	return refused(refusal)
}

// pageOf is where a paged answer starts: at the sequence number asked for if the table is still the one that the client
// began with, else at the beginning.
func pageOf(seq, count *int32, theirs *string, current wire.DataVersion) (from, n int) {
	if seq == nil || count == nil {
		return 0, 0
	}
	if theirs != nil && *theirs != "" && *seq > 0 {
		var version wire.DataVersion
		if wire.DecodeBody([]byte(*theirs), &version) == nil && version == current {
			from = int(*seq)
		}
	}
	return from, max(int(*count), 1)
}

// allTopicConfig is code 21.
func (s *service) allTopicConfig(r *Request) wire.Reply {
	var h wire.GetAllTopicConfigRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	from, count := pageOf(h.TopicSeq, h.MaxTopicNum, h.DataVersion, s.Topics.DataVersion())
	page, total, version := s.Topics.Page(from, count)
	wrapper := wire.TopicConfigSerializeWrapper{DataVersion: version, TopicConfigTable: make(map[string]wire.TopicConfig, len(page))}
	for _, config := range page {
		wrapper.TopicConfigTable[config.TopicName] = config
	}
	n := int32(total)
	return success(wire.GetAllTopicConfigResponseHeader{TotalTopicNum: &n}, wire.EncodeBody(wrapper))
}

// topicConfig is code 351.
func (s *service) topicConfig(r *Request) wire.Reply {
	var h wire.TopicRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	topic := s.Topics.Find(h.Topic)
	if topic == nil {
		return failure(wire.ResponseTopicNotExist, "No topic in this broker. topic: "+names.Quote(h.Topic))
	}
	return success(nil, wire.EncodeBody(topic.Config()))
}

// systemTopics is code 305.
func (s *service) systemTopics(*Request) wire.Reply {
	return success(nil, wire.EncodeBody(wire.TopicList{TopicList: s.Topics.SystemNames()}))
}

// topicStats is code 202.
func (s *service) topicStats(r *Request) wire.Reply {
	var h wire.TopicRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	topic := s.Topics.Find(h.Topic)
	if topic == nil {
		return failure(wire.ResponseTopicNotExist, "topic["+names.Quote(h.Topic)+"] not exist")
	}
	config := topic.Config()
	body := wire.TopicStatsTable{OffsetTable: map[wire.MessageQueue]wire.TopicOffset{}, TopicPutTPS: s.putTPS(h.Topic)}
	for id := range min(max(config.ReadQueueNums, config.WriteQueueNums), topics.QueueNumsMax) {
		var o wire.TopicOffset
		if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(id)); q != nil {
			o.MinOffset, o.MaxOffset = int64(q.Min()), int64(q.Max())
			o.LastUpdateTimestamp = s.storeTimeOf(q, q.Max()-1)
		}
		body.OffsetTable[s.messageQueue(h.Topic, id)] = o
	}
	return success(nil, wire.EncodeBody(body))
}

// messageQueue names a queue of this broker.
func (s *service) messageQueue(topic string, id int32) wire.MessageQueue {
	return wire.MessageQueue{BrokerName: s.Config.Get().BrokerName, QueueID: id, Topic: topic}
}

// storeTimeOf is when the message of an offset was stored, in epoch ms; 0 when there is none.
func (s *service) storeTimeOf(q *store.Queue, offset message.QueueOffset) int64 {
	if offset < 0 || offset >= q.Max() {
		return 0
	}
	if stored, at := q.StoreTimeAt(offset); at < q.Max() {
		return max(int64(stored), 0)
	}
	return 0
}
