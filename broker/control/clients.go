package control

import (
	"maps"
	"slices"

	"peregrine/broker/clients"
	"peregrine/broker/filter"
	"peregrine/broker/names"
	"peregrine/internal/message"
	"peregrine/wire"
)

// heartbeat is code 34 (ClientManageProcessor.heartBeat).
func (s *service) heartbeat(r *Request) wire.Reply {
	var data *wire.HeartbeatData
	if err := wire.DecodeBody(r.Cmd.Body, &data); err != nil {
		return failure(wire.ResponseSystemError, "the heartbeat does not parse: "+err.Error())
	}
	if data == nil {
		return failure(wire.ResponseSystemError, "the heartbeat is null")
	}
	consumerNameless, producerNameless := nameless(r.Cmd.Body, data)
	if consumerNameless {
		return failure(wire.ResponseSystemError, "a consumer of the heartbeat has no groupName")
	}
	beat := clients.Beat{
		Client:      clients.Client{Ref: r.Ref, Remote: r.Remote, ID: data.ClientID, Language: r.Cmd.Language, Version: r.Cmd.Version, LastSeen: s.Now()},
		Fingerprint: data.HeartbeatFingerprint, WithoutSub: data.WithoutSub,
	}
	for i := range data.ConsumerDataSet {
		if consumer := &data.ConsumerDataSet[i]; s.admitConsumer(consumer) {
			beat.Consumers = append(beat.Consumers, *consumer)
		}
	}
	if s.Config.Get().EnableRegisterProducer && !producerNameless {
		for _, producer := range data.ProducerDataSet {
			beat.Producers = append(beat.Producers, producer.GroupName)
		}
	}
	s.saveGroups()
	changed := s.Clients.Heartbeat(&beat)
	if producerNameless { // the original has registered the consumers by then
		return failure(wire.ResponseSystemError, "a producer of the heartbeat has no groupName")
	}
	return success(wire.HeartbeatResponseHeader{SupportHeartbeatV2: true, SubChange: changed}, nil)
}

// nameless tells whether an entry's groupName is missing or null. An empty one is a name to the original: that of no consumer group,
// whose entry is skipped, and of a producer group like others. Only a heartbeat with an empty name is read a second time.
func nameless(body []byte, data *wire.HeartbeatData) (consumer, producer bool) {
	if !slices.ContainsFunc(data.ConsumerDataSet, func(d wire.ConsumerData) bool { return d.GroupName == "" }) &&
		!slices.ContainsFunc(data.ProducerDataSet, func(d wire.ProducerData) bool { return d.GroupName == "" }) {
		return false, false
	}
	type entry struct {
		GroupName *string `json:"groupName"`
	}
	var names struct {
		Consumers []entry `json:"consumerDataSet"`
		Producers []entry `json:"producerDataSet"`
	}
	_ = wire.DecodeBody(body, &names) // it was read before
	missing := func(e entry) bool { return e.GroupName == nil }
	return slices.ContainsFunc(names.Consumers, missing), slices.ContainsFunc(names.Producers, missing)
}

// admitConsumer sees to what a consumer group needs on this broker; false when its entry is skipped.
func (s *service) admitConsumer(c *wire.ConsumerData) bool {
	if s.Config.Get().RejectPullConsumerEnable && c.ConsumeType == wire.ConsumeActively {
		return false
	}
	group := s.Groups.LookupOrCreate(c.GroupName)
	if group == nil {
		return false
	}
	if queues := group.Config().RetryQueueNums; queues > 0 {
		order := slices.ContainsFunc(c.SubscriptionDataSet, func(d wire.SubscriptionData) bool { return s.Topics.IsOrder(d.Topic) })
		// A retry topic that cannot be made must not keep the consumer from its messages.
		_, _ = s.Topics.CreateRetryTopic(c.GroupName, queues, order, c.UnitMode)
	}
	return true
}

// saveGroups writes the group table if a client made a group. A failure is left to the timer, with a warning a minute.
func (s *service) saveGroups() {
	err := s.Groups.Save()
	if err == nil {
		return
	}
	const everyMs = 60_000
	now, last := int64(s.Now()), s.saveWarned.Load()
	if now-last >= everyMs && s.saveWarned.CompareAndSwap(last, now) {
		s.Logger.Error("subscription groups are not saved, the timer tries again", "error", err)
	}
}

// unregisterClient is code 35.
func (s *service) unregisterClient(r *Request) wire.Reply {
	var h wire.UnregisterClientRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.Clients.Unregister(r.Ref, h.ProducerGroup, h.ConsumerGroup)
	return success(noFields{}, nil)
}

// consumerList is code 38.
func (s *service) consumerList(r *Request) wire.Reply {
	var h wire.ConsumerGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	ids := s.Clients.ConsumerIDs(h.ConsumerGroup)
	if len(ids) == 0 {
		return wire.Reply{Code: wire.ResponseSystemError, Remark: "no consumer for this group, " + names.Quote(h.ConsumerGroup), Header: noFields{}}
	}
	return success(noFields{}, wire.EncodeBody(wire.ConsumerListBody{ConsumerIDList: ids}))
}

// checkClientConfig is code 46. SQL92 filters are not built, which is what the original's default says, too.
func (s *service) checkClientConfig(r *Request) wire.Reply {
	if len(r.Cmd.Body) == 0 {
		return success(nil, nil)
	}
	var body wire.CheckClientConfigBody
	if err := wire.DecodeBody(r.Cmd.Body, &body); err != nil {
		return wire.ReplyOf(err)
	}
	if d := body.SubscriptionData; d != nil && !filter.IsTag(d.ExpressionType) {
		return failure(wire.ResponseSystemError, "The broker does not support consumer to filter message by "+names.Quote(d.ExpressionType))
	}
	return success(nil, nil)
}

// connection is one entry of the bodies of codes 203 and 204 (body.Connection).
type connection struct {
	ClientAddr string `json:"clientAddr"`
	ClientID   string `json:"clientId,omitempty"`
	Language   string `json:"language"`
	Version    int32  `json:"version"`
}

func connectionsOf(list []clients.Client) []connection {
	set := make([]connection, 0, len(list))
	for i := range list {
		c := &list[i]
		set = append(set, connection{ClientAddr: c.Remote.String(), ClientID: c.ID, Language: c.Language.String(), Version: c.Version})
	}
	slices.SortFunc(set, func(a, b connection) int {
		if a.ClientID != b.ClientID {
			return compare(a.ClientID, b.ClientID)
		}
		return compare(a.ClientAddr, b.ClientAddr)
	})
	return set
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// consumerConnections is code 203.
func (s *service) consumerConnections(r *Request) wire.Reply {
	var h wire.ConsumerGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	group, members := s.Clients.LookupGroup([]byte(h.ConsumerGroup)), s.Clients.Consumers(h.ConsumerGroup)
	if group == nil || len(members) == 0 {
		return failure(wire.ResponseConsumerNotOnline, "the consumer group["+names.Quote(h.ConsumerGroup)+"] not online")
	}
	scalars := group.Scalars()
	table := make(map[string]wire.SubscriptionData)
	for topic, subscription := range group.Subscriptions() {
		table[topic] = subscription.SubscriptionData
	}
	return success(nil, wire.EncodeBody(struct {
		ConnectionSet     []connection                     `json:"connectionSet"`
		ConsumeFromWhere  string                           `json:"consumeFromWhere"`
		ConsumeType       string                           `json:"consumeType"`
		MessageModel      string                           `json:"messageModel"`
		SubscriptionTable map[string]wire.SubscriptionData `json:"subscriptionTable"`
	}{connectionsOf(members), scalars.ConsumeFromWhere, scalars.ConsumeType, scalars.MessageModel, table}))
}

// producerConnections is code 204.
func (s *service) producerConnections(r *Request) wire.Reply {
	var h wire.ProducerGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	members, known := s.Clients.Producers(h.ProducerGroup)
	if !known {
		return failure(wire.ResponseSystemError, "the producer group["+names.Quote(h.ProducerGroup)+"] not exist")
	}
	return success(nil, wire.EncodeBody(struct {
		ConnectionSet []connection `json:"connectionSet"`
	}{connectionsOf(members)}))
}

// producerInfo is one entry of the body of code 328 (body.ProducerInfo).
type producerInfo struct {
	ClientID            string         `json:"clientId,omitempty"`
	Language            string         `json:"language"`
	LastUpdateTimestamp message.Millis `json:"lastUpdateTimestamp"`
	RemoteIP            string         `json:"remoteIP"`
	Version             int32          `json:"version"`
}

// allProducers is code 328.
func (s *service) allProducers(*Request) wire.Reply {
	data := make(map[string][]producerInfo)
	for group, members := range s.Clients.AllProducers() {
		for i := range members {
			c := &members[i]
			data[group] = append(data[group], producerInfo{c.ID, c.Language.String(), c.LastSeen, "/" + c.Remote.String(), c.Version})
		}
	}
	return success(nil, wire.EncodeBody(struct {
		Data map[string][]producerInfo `json:"data"`
	}{data}))
}

// topicsByConsumer is code 343.
func (s *service) topicsByConsumer(r *Request) wire.Reply {
	var h wire.GroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	return success(nil, wire.EncodeBody(wire.TopicList{BrokerAddr: s.Addr, TopicList: s.Offsets.TopicsOf(h.Group)}))
}

// subscriptionByConsumer is code 345.
func (s *service) subscriptionByConsumer(r *Request) wire.Reply {
	var h wire.TopicGroupRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	body := struct {
		Group            string                 `json:"group"`
		SubscriptionData *wire.SubscriptionData `json:"subscriptionData,omitempty"`
		Topic            string                 `json:"topic"`
	}{Group: h.Group, Topic: h.Topic}
	if group := s.Clients.LookupGroup([]byte(h.Group)); group != nil {
		if subscription := group.Subscription([]byte(h.Topic)); subscription != nil {
			body.SubscriptionData = &subscription.SubscriptionData
		}
	}
	return success(nil, wire.EncodeBody(body))
}

// topicConsumeByWho is code 300: groups that subscribe the topic now, and those that have offsets of it.
func (s *service) topicConsumeByWho(r *Request) wire.Reply {
	var h wire.TopicRequestHeader
	if err := wire.DecodeHeader(r.Cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	all := make(map[string]bool)
	for _, list := range [][]string{s.Clients.GroupsOf(h.Topic), s.Offsets.GroupsOf(h.Topic)} {
		for _, group := range list {
			all[group] = true
		}
	}
	return success(nil, wire.EncodeBody(struct {
		GroupList []string `json:"groupList"`
	}{slices.Sorted(maps.Keys(all))}))
}
