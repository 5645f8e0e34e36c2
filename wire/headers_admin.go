package wire

// Headers of further requests of administrators; see headers_broker.go.

// ProducerGroupRequestHeader is the header of GET_PRODUCER_CONNECTION_LIST (204).
type ProducerGroupRequestHeader struct {
	ProducerGroup string `wire:"producerGroup,required"`
}

// TopicGroupRequestHeader is the header of QUERY_SUBSCRIPTION_BY_CONSUMER (345).
type TopicGroupRequestHeader struct {
	Topic string `wire:"topic,required"`
	Group string `wire:"group,required"`
}

// GroupForbiddenRequestHeader is the header of UPDATE_AND_GET_GROUP_FORBIDDEN (353). Without Readable nothing is changed.
type GroupForbiddenRequestHeader struct {
	Group    string `wire:"group,required"`
	Topic    string `wire:"topic,required"`
	Readable *bool  `wire:"readable"`
}

// GetConsumeStatsRequestHeader is the header of GET_CONSUME_STATS (208). TopicList is joined by semicolons.
type GetConsumeStatsRequestHeader struct {
	ConsumerGroup string `wire:"consumerGroup,required"`
	Topic         string `wire:"topic,omitempty"`
	TopicList     string `wire:"topicList,omitempty"`
}

// GetBrokerConsumeStatsRequestHeader is the header of GET_BROKER_CONSUME_STATS (317).
type GetBrokerConsumeStatsRequestHeader struct {
	IsOrder bool `wire:"isOrder"`
}

// ResetOffsetRequestHeader is the header of INVOKE_BROKER_TO_RESET_OFFSET (222) and RESET_CONSUMER_CLIENT_OFFSET (220). A
// negative timestamp means the end of the queue, a negative queue id all queues.
type ResetOffsetRequestHeader struct {
	Topic     string `wire:"topic,required"`
	Group     string `wire:"group,required"`
	QueueID   *int32 `wire:"queueId"`
	Offset    *int64 `wire:"offset"`
	Timestamp int64  `wire:"timestamp,required"`
	IsForce   bool   `wire:"isForce"`
}

// GetConsumerStatusRequestHeader is the header of INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and, without a client,
// GET_CONSUMER_STATUS_FROM_CLIENT (221). ClientAddr is a client id.
type GetConsumerStatusRequestHeader struct {
	Topic      string `wire:"topic,required"`
	Group      string `wire:"group,required"`
	ClientAddr string `wire:"clientAddr,omitempty"`
}

// GetConsumerRunningInfoRequestHeader is the header of GET_CONSUMER_RUNNING_INFO (307).
type GetConsumerRunningInfoRequestHeader struct {
	ConsumerGroup string `wire:"consumerGroup,required"`
	ClientID      string `wire:"clientId,required"`
	JstackEnable  bool   `wire:"jstackEnable"`
}

// ConsumeMessageDirectlyRequestHeader is the header of CONSUME_MESSAGE_DIRECTLY (309).
type ConsumeMessageDirectlyRequestHeader struct {
	ConsumerGroup string `wire:"consumerGroup,required"`
	ClientID      string `wire:"clientId,omitempty"`
	MsgID         string `wire:"msgId,omitempty"`
	BrokerName    string `wire:"brokerName,omitempty"`
	Topic         string `wire:"topic,omitempty"`
	TopicSysFlag  *int32 `wire:"topicSysFlag"`
	GroupSysFlag  *int32 `wire:"groupSysFlag"`
}

// CloneGroupOffsetRequestHeader is the header of CLONE_GROUP_OFFSET (314). Without a topic all of the source's are cloned.
type CloneGroupOffsetRequestHeader struct {
	SrcGroup  string `wire:"srcGroup,required"`
	DestGroup string `wire:"destGroup,required"`
	Topic     string `wire:"topic,omitempty"`
	Offline   bool   `wire:"offline"`
}

// ViewBrokerStatsDataRequestHeader is the header of VIEW_BROKER_STATS_DATA (315).
type ViewBrokerStatsDataRequestHeader struct {
	StatsName string `wire:"statsName,required"`
	StatsKey  string `wire:"statsKey,required"`
}

// QueryConsumeQueueRequestHeader is the header of QUERY_CONSUME_QUEUE (321).
type QueryConsumeQueueRequestHeader struct {
	Topic         string  `wire:"topic,required"`
	QueueID       int32   `wire:"queueId,required"`
	Index         int64   `wire:"index,required"`
	Count         int32   `wire:"count,required"`
	ConsumerGroup *string `wire:"consumerGroup"`
}
