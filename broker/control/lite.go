package control

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"peregrine/broker/groups"
	"peregrine/broker/names"
	"peregrine/broker/topics"
	"peregrine/store"
	"peregrine/wire"
)

// Lite topics (PopLiteMessageProcessor, LiteSubscriptionCtlProcessor and LiteManagerProcessor of 5.5.0) are answered as by an
// original with enableLmq and enableMultiDispatch off, its default: topics and groups may say that they are lite, but no
// message ever gets into a lite topic.

const (
	lmqPrefix    = "%LMQ%"
	lmqQueuesMax = 20000 // default of maxLmqConsumeQueueNum, told only
	// liteReviveQueue is what the original says where there is no revive queue.
	liteReviveQueue = 999

	popMessagesMax = 32
	litePopsMax    = 4096 // pops that wait; each costs some 300 bytes
	popLateMs      = 500  // a pop that is so late for its poll time has no reader any more
)

// popLite is code 200070. There never is a message, but a client that is answered at once asks again at once: it is kept
// waiting like one that polls where long polling is off.
func (s *service) popLite(r *Request) wire.Reply {
	var h wire.PopLiteMessageRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	now := int64(s.Now())
	if h.BornTime == 0 {
		h.BornTime = now
	}
	if refusal := s.admitPopLite(&h, now); refusal != nil {
		reply := refusal.Reply()
		reply.Header = wire.PopLiteMessageResponseHeader{}
		return reply
	}
	reply := wire.Reply{Code: wire.ResponsePollingTimeout, Remark: "NO_MESSAGE_IN_QUEUE", Header: wire.PopLiteMessageResponseHeader{
		PopTime: now, InvisibleTime: h.InvisibleTime, ReviveQID: liteReviveQueue, OrderCountInfo: new(string)}}
	wait := min(h.BornTime+h.PollTime-now, s.Config.Get().ShortPollingTimeMills)
	if wait <= 0 {
		return reply
	}
	if s.litePops.Add(1) > litePopsMax {
		s.litePops.Add(-1)
		return reply
	}
	later := r.Later()
	time.AfterFunc(time.Duration(wait)*time.Millisecond, func() {
		s.litePops.Add(-1)
		later(reply)
	})
	return Pending
}

// admitPopLite makes the original's checks in its order.
func (s *service) admitPopLite(h *wire.PopLiteMessageRequestHeader, now int64) *wire.Refusal {
	config := s.Config.Get()
	broker := "the broker[" + config.BrokerIP1 + "] pop message"
	switch {
	case now-h.BornTime-h.PollTime > popLateMs:
		return wire.Refuse(wire.ResponsePollingTimeout, broker+" is timeout too much")
	case int32(config.BrokerPermission)&wire.PermRead == 0:
		return wire.Refuse(wire.ResponseNoPermission, broker+" is forbidden")
	case h.MaxMsgNum > popMessagesMax:
		return wire.Refuse(wire.ResponseInvalidParameter, broker+"'s num is greater than "+strconv.Itoa(popMessagesMax))
	}
	name := "the topic [" + names.Quote(h.Topic) + "]"
	topic := s.Topics.Find(h.Topic)
	switch {
	case topic == nil:
		return wire.Refuse(wire.ResponseTopicNotExist, "topic ["+names.Quote(h.Topic)+"] not exist, apply first please! \n"+topics.Hint)
	case topic.Config().Perm&wire.PermRead == 0:
		return wire.Refuse(wire.ResponseNoPermission, name+" peeking message is forbidden")
	case !isLite(topic):
		return wire.Refuse(wire.ResponseInvalidParameter, name+" message type not match")
	}
	group := s.groupOf(h.ConsumerGroup)
	switch {
	case group == nil:
		return wire.Refuse(wire.ResponseSubscriptionGroupNotExist, "subscription group ["+names.Quote(h.ConsumerGroup)+"] not exist, \n"+topics.Hint)
	case !group.Config().ConsumeEnable:
		return wire.Refuse(wire.ResponseNoPermission, "subscription group no permission, "+h.ConsumerGroup)
	case boundTopic(group) != h.Topic:
		return wire.Refuse(wire.ResponseInvalidParameter, "subscription bind topic not match, "+h.ConsumerGroup)
	}
	return nil
}

// liteSubscription is one entry of the body of code 200071 (common.lite.LiteSubscriptionDTO).
type liteSubscription struct {
	Action   string `json:"action"`
	ClientID string `json:"clientId"`
	Group    string `json:"group"`
	Topic    string `json:"topic"`
}

// liteSubscriptionCtl is code 200071. Subscriptions are not kept: taking one away is done, adding one is refused, which the
// original does not do.
func (s *service) liteSubscriptionCtl(r *Request) wire.Reply {
	if len(r.Cmd.Body) == 0 {
		return failure(wire.ResponseIllegalOperation, "Request body is null.")
	}
	var body *struct {
		SubscriptionSet []*liteSubscription `json:"subscriptionSet"`
	}
	if err := wire.DecodeBody(r.Cmd.Body, &body); err != nil {
		return wire.ReplyOf(err)
	}
	if body == nil {
		return failure(wire.ResponseSystemError, "the body is null")
	}
	if len(body.SubscriptionSet) == 0 {
		return failure(wire.ResponseIllegalOperation, "LiteSubscriptionCtlRequestBody is empty.")
	}
	for _, d := range body.SubscriptionSet {
		if d == nil {
			return failure(wire.ResponseSystemError, "an entry of subscriptionSet is null")
		}
		if d.ClientID == "" || d.Group == "" || d.Topic == "" {
			continue // as the original does
		}
		switch d.Action {
		case "PARTIAL_REMOVE", "COMPLETE_REMOVE":
		case "PARTIAL_ADD", "COMPLETE_ADD":
			return failure(wire.ResponseIllegalOperation, "lite subscriptions are not kept by this broker")
		default:
			return failure(wire.ResponseSystemError, "the action of a lite subscription is missing or unknown: "+names.Quote(d.Action))
		}
	}
	return success(nil, nil)
}

// brokerLiteInfo is code 200074.
func (s *service) brokerLiteInfo(*Request) wire.Reply {
	lifetimes, groupsOf := map[string]int{}, map[string][]string{}
	all, _ := s.Topics.Snapshot()
	for _, topic := range all {
		if isLite(topic) {
			lifetimes[topic.Name()] = liteMinutes(topic)
		}
	}
	subscribers, _, _ := s.Groups.Snapshot()
	for _, group := range subscribers {
		if bound, ok := group.Config().Attributes["lite.bind.topic"]; ok {
			groupsOf[bound] = append(groupsOf[bound], group.Name())
		}
	}
	_, offsets := s.Offsets.Pairs(0)
	return success(nil, wire.EncodeBody(struct {
		CqTableSize           int                 `json:"cqTableSize"`
		CurrentLmqNum         int                 `json:"currentLmqNum"`
		EventMapSize          int                 `json:"eventMapSize"`
		GroupMeta             map[string][]string `json:"groupMeta"`
		LiteSubscriptionCount int                 `json:"liteSubscriptionCount"`
		MaxLmqNum             int                 `json:"maxLmqNum"`
		OffsetTableSize       int                 `json:"offsetTableSize"`
		OrderInfoCount        int                 `json:"orderInfoCount"`
		StoreType             string              `json:"storeType"`
		TopicMeta             map[string]int      `json:"topicMeta"`
	}{CqTableSize: len(s.Store.Topics()), CurrentLmqNum: s.lmqQueues(), GroupMeta: groupsOf, MaxLmqNum: lmqQueuesMax, OffsetTableSize: offsets,
		StoreType: "default", TopicMeta: lifetimes}))
}

// parentTopicInfo is code 200075.
func (s *service) parentTopicInfo(r *Request) wire.Reply {
	var h wire.TopicRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	topic, refusal := s.liteTopic(h.Topic)
	if refusal != nil {
		return refusal.Reply()
	}
	var bound []string
	subscribers, _, _ := s.Groups.Snapshot()
	for _, group := range subscribers {
		if boundTopic(group) == h.Topic {
			bound = append(bound, group.Name())
		}
	}
	return success(nil, wire.EncodeBody(struct {
		Groups         []string `json:"groups,omitempty"`
		LiteTopicCount int      `json:"liteTopicCount"`
		LmqNum         int      `json:"lmqNum"`
		Topic          string   `json:"topic"`
		TTL            int      `json:"ttl"`
	}{Groups: bound, LmqNum: s.lmqQueues(), Topic: h.Topic, TTL: liteMinutes(topic)}))
}

// liteTopicInfo is code 200076.
func (s *service) liteTopicInfo(r *Request) wire.Reply {
	var h wire.GetLiteTopicInfoRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	if _, refusal := s.liteTopic(h.ParentTopic); refusal != nil {
		return refusal.Reply()
	}
	if h.LiteTopic == "" {
		return fieldMissing("liteTopic")
	}
	return success(nil, wire.EncodeBody(struct {
		LiteTopic        string           `json:"liteTopic"`
		ParentTopic      string           `json:"parentTopic"`
		ShardingToBroker bool             `json:"shardingToBroker"` // there is no other broker
		Subscriber       []struct{}       `json:"subscriber"`
		TopicOffset      wire.TopicOffset `json:"topicOffset"`
	}{LiteTopic: h.LiteTopic, ParentTopic: h.ParentTopic, ShardingToBroker: true, Subscriber: []struct{}{}}))
}

// liteClientInfo is code 200077: no client has a lite subscription.
func (s *service) liteClientInfo(r *Request) wire.Reply {
	h := wire.GetLiteClientInfoRequestHeader{MaxCount: 1}
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	if h.MaxCount <= 0 {
		return failure(wire.ResponseSystemError, "[maxCount] field invalid")
	}
	if _, refusal := s.liteTopic(h.ParentTopic); refusal != nil {
		return refusal.Reply()
	}
	if h.Group == nil {
		return fieldMissing("group")
	}
	group := s.groupOf(*h.Group)
	switch {
	case group == nil:
		return noGroup(*h.Group)
	case boundTopic(group) != h.ParentTopic:
		return failure(wire.ResponseInvalidParameter, fmt.Sprintf("Subscription [%s]-[%s] not match.", *h.Group, h.ParentTopic))
	case h.ClientID == nil:
		return fieldMissing("clientId")
	}
	return success(nil, wire.EncodeBody(struct {
		ClientID        string `json:"clientId"`
		Group           string `json:"group"`
		LastAccessTime  int64  `json:"lastAccessTime"`
		LastConsumeTime int64  `json:"lastConsumeTime"`
		LiteTopicCount  int    `json:"liteTopicCount"`
		ParentTopic     string `json:"parentTopic"`
	}{ClientID: *h.ClientID, Group: *h.Group, LastAccessTime: -1, LiteTopicCount: -1, ParentTopic: h.ParentTopic}))
}

// liteLag is an entry of the lists in the answer to code 200078, which stay empty.
type liteLag struct{}

// liteGroupInfo is code 200078.
func (s *service) liteGroupInfo(r *Request) wire.Reply {
	var h wire.GetLiteGroupInfoRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	group, refusal := s.liteGroup(h.Group)
	if refusal != nil {
		return refusal.Reply()
	}
	body := struct {
		EarliestUnconsumedTimestamp int64      `json:"earliestUnconsumedTimestamp"`
		Group                       string     `json:"group"`
		LagCountTopK                *[]liteLag `json:"lagCountTopK,omitempty"`
		LagTimestampTopK            *[]liteLag `json:"lagTimestampTopK,omitempty"`
		LiteTopic                   *string    `json:"liteTopic,omitempty"`
		ParentTopic                 string     `json:"parentTopic"`
		TotalLagCount               int64      `json:"totalLagCount"`
	}{EarliestUnconsumedTimestamp: -1, Group: h.Group, LiteTopic: h.LiteTopic, ParentTopic: boundTopic(group)}
	switch {
	case h.LiteTopic != nil && *h.LiteTopic != "":
		body.TotalLagCount = -1 // there is no such queue
	case h.TopK <= 0:
		return failure(wire.ResponseSystemError, "topK is not positive: "+strconv.Itoa(int(h.TopK)))
	default:
		body.LagCountTopK, body.LagTimestampTopK = &[]liteLag{}, &[]liteLag{}
	}
	return success(nil, wire.EncodeBody(body))
}

// triggerLiteDispatch is code 200079. Nobody subscribes, so that there is nothing to tell anybody.
func (s *service) triggerLiteDispatch(r *Request) wire.Reply {
	var h wire.TriggerLiteDispatchRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	_, refusal := s.liteGroup(h.Group)
	return refused(refusal)
}

// liteTopic finds a topic whose message.type is LITE.
func (s *service) liteTopic(name string) (*topics.Topic, *wire.Refusal) {
	topic := s.Topics.Find(name)
	switch {
	case topic == nil:
		return nil, wire.Refuse(wire.ResponseTopicNotExist, "Topic ["+names.Quote(name)+"] not exist.")
	case !isLite(topic):
		return nil, wire.Refuse(wire.ResponseInvalidParameter, "Topic ["+name+"] type not match.")
	}
	return topic, nil
}

// liteGroup finds a group that is bound to a topic.
func (s *service) liteGroup(name string) (*groups.Group, *wire.Refusal) {
	group := s.groupOf(name)
	switch {
	case group == nil:
		reply := noGroup(name)
		return nil, wire.Refuse(reply.Code, reply.Remark)
	case boundTopic(group) == "":
		return nil, wire.Refuse(wire.ResponseInvalidParameter, "Group ["+name+"] is not a LITE group.")
	}
	return group, nil
}

// groupOf makes the group if groups may be made, as the original's lookup does.
func (s *service) groupOf(name string) *groups.Group {
	group := s.Groups.LookupOrCreate(name)
	s.saveGroups()
	return group
}

// lmqQueues counts the queues of topics that only by their name are light message queues.
func (s *service) lmqQueues() (n int) {
	s.Store.Queues(func(q *store.Queue) bool {
		if strings.HasPrefix(q.Topic(), lmqPrefix) {
			n++
		}
		return true
	})
	return n
}

func isLite(topic *topics.Topic) bool { return topic.Config().Attributes["message.type"] == "LITE" }

func boundTopic(group *groups.Group) string { return group.Config().Attributes["lite.bind.topic"] }

// liteMinutes is how long messages of a lite topic are kept; -1: for ever.
func liteMinutes(topic *topics.Topic) int {
	if minutes, err := strconv.Atoi(topic.Config().Attributes["lite.topic.expiration"]); err == nil {
		return minutes
	}
	return -1
}

func noGroup(name string) wire.Reply {
	return failure(wire.ResponseSubscriptionGroupNotExist, "Group ["+names.Quote(name)+"] not exist.")
}

func fieldMissing(field string) wire.Reply {
	return wire.ReplyOf(&wire.HeaderError{Field: field, Reason: wire.ReasonMissing})
}
