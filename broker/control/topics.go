package control

import (
	"strconv"

	"peregrine/broker/names"
	"peregrine/broker/topics"
	"peregrine/internal/message"
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

// statsQueuesMax bounds the queues in one answer of code 202: a topic may claim to have billions.
const statsQueuesMax = 65536

// topicStats is code 202. topicPutTps is left out until there are statistics by topic; readers take 0 for it.
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
	body := []byte(`{"offsetTable":{`)
	for id := range min(max(config.ReadQueueNums, config.WriteQueueNums), statsQueuesMax) {
		lowest, highest, updated := int64(0), int64(0), int64(0)
		if q := s.Store.LookupQueue([]byte(h.Topic), message.QueueID(id)); q != nil {
			lowest, highest = int64(q.Min()), int64(q.Max())
			if highest > 0 {
				if stored, at := q.StoreTimeAt(message.QueueOffset(highest - 1)); int64(at) < highest {
					updated = int64(stored)
				}
			}
		}
		if id > 0 {
			body = append(body, ',')
		}
		body = appendQueueKey(body, s.Config.BrokerName, h.Topic, int32(id))
		body = append(body, `:{"lastUpdateTimestamp":`...)
		body = strconv.AppendInt(body, updated, 10)
		body = append(body, `,"maxOffset":`...)
		body = strconv.AppendInt(body, highest, 10)
		body = append(body, `,"minOffset":`...)
		body = strconv.AppendInt(body, lowest, 10)
		body = append(body, '}')
	}
	return success(nil, append(body, "}}"...))
}

// appendQueueKey appends a MessageQueue as the key of a map: the raw object, which is no standard JSON but the only form
// that 5.5.0 clients read.
func appendQueueKey(dst []byte, broker, topic string, id int32) []byte {
	return wire.AppendBody(dst, struct {
		BrokerName string `json:"brokerName"`
		QueueID    int32  `json:"queueId"`
		Topic      string `json:"topic"`
	}{broker, id, topic})
}
