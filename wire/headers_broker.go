package wire

// Headers of the requests that a broker serves, and of their answers. Each struct is named after the Java class of the
// same name in org.apache.rocketmq.remoting.protocol.header; see DecodeHeader for the tags. Offsets count messages,
// timestamps are epoch milliseconds. A pointer is nil when the field was absent.

// QueryConsumerOffsetRequestHeader is the header of QUERY_CONSUMER_OFFSET (14).
type QueryConsumerOffsetRequestHeader struct {
	ConsumerGroup     string `wire:"consumerGroup,required"`
	Topic             string `wire:"topic,required"`
	QueueID           int32  `wire:"queueId,required"`
	SetZeroIfNotFound *bool  `wire:"setZeroIfNotFound"`
}

// OffsetResponseHeader is the header of the answers that consist of one offset (14, 29, 30, 31).
type OffsetResponseHeader struct {
	Offset int64 `wire:"offset,required"`
}

// UpdateConsumerOffsetRequestHeader is the header of UPDATE_CONSUMER_OFFSET (15).
type UpdateConsumerOffsetRequestHeader struct {
	ConsumerGroup string `wire:"consumerGroup,required"`
	Topic         string `wire:"topic,required"`
	QueueID       int32  `wire:"queueId,required"`
	CommitOffset  int64  `wire:"commitOffset,required"`
}

// ConsumerSendMsgBackRequestHeader is the header of CONSUMER_SEND_MSG_BACK (36).
type ConsumerSendMsgBackRequestHeader struct {
	Offset            int64  `wire:"offset,required"` // position in the log of the message that was consumed in vain
	Group             string `wire:"group,required"`
	DelayLevel        int32  `wire:"delayLevel,required"` // 0: the broker decides; negative: to the dead letter queue
	OriginMsgID       string `wire:"originMsgId"`
	OriginTopic       string `wire:"originTopic"`
	UnitMode          bool   `wire:"unitMode"`
	MaxReconsumeTimes *int32 `wire:"maxReconsumeTimes"`
}

// CreateTopicRequestHeader is the header of UPDATE_AND_CREATE_TOPIC (17).
type CreateTopicRequestHeader struct {
	Topic           string  `wire:"topic,required"`
	DefaultTopic    string  `wire:"defaultTopic,required"`
	ReadQueueNums   int32   `wire:"readQueueNums,required"`
	WriteQueueNums  int32   `wire:"writeQueueNums,required"`
	Perm            int32   `wire:"perm,required"`
	TopicFilterType string  `wire:"topicFilterType,required"`
	TopicSysFlag    *int32  `wire:"topicSysFlag"`
	Order           bool    `wire:"order"`
	Attributes      *string `wire:"attributes"` // `+key=value,-key`
	Force           *bool   `wire:"force"`
}

// GetAllTopicConfigRequestHeader is the header of GET_ALL_TOPIC_CONFIG (21): the page wanted. 4.9 sends none of it.
type GetAllTopicConfigRequestHeader struct {
	TopicSeq    *int32  `wire:"topicSeq"`
	MaxTopicNum *int32  `wire:"maxTopicNum"`
	DataVersion *string `wire:"dataVersion"` // JSON, empty for none
}

// GetAllTopicConfigResponseHeader goes with the answer to 21.
type GetAllTopicConfigResponseHeader struct {
	TotalTopicNum *int32 `wire:"totalTopicNum"`
}

// GetBrokerConfigResponseHeader goes with the answer to GET_BROKER_CONFIG (26).
type GetBrokerConfigResponseHeader struct {
	Version string `wire:"version,required"` // DataVersion as JSON
}

// SearchOffsetRequestHeader is the header of SEARCH_OFFSET_BY_TIMESTAMP (29).
type SearchOffsetRequestHeader struct {
	Topic        string  `wire:"topic,required"`
	QueueID      int32   `wire:"queueId,required"`
	Timestamp    int64   `wire:"timestamp,required"`
	BoundaryType *string `wire:"boundaryType"` // LOWER (when absent) or UPPER, any case
}

// GetMaxOffsetRequestHeader is the header of GET_MAX_OFFSET (30).
type GetMaxOffsetRequestHeader struct {
	Topic     string `wire:"topic,required"`
	QueueID   int32  `wire:"queueId,required"`
	Committed *bool  `wire:"committed"`
}

// TopicQueueRequestHeader is the header of GET_MIN_OFFSET (31) and GET_EARLIEST_MSG_STORETIME (32).
type TopicQueueRequestHeader struct {
	Topic   string `wire:"topic,required"`
	QueueID int32  `wire:"queueId,required"`
}

// GetEarliestMsgStoretimeResponseHeader goes with the answer to 32.
type GetEarliestMsgStoretimeResponseHeader struct {
	Timestamp int64 `wire:"timestamp,required"`
}

// QueryMessageRequestHeader is the header of QUERY_MESSAGE (12).
type QueryMessageRequestHeader struct {
	Topic          string  `wire:"topic"` // required, but the answer without it is 22, as to a key that no message has
	Key            string  `wire:"key"`   // so is this
	MaxNum         int32   `wire:"maxNum,required"`
	BeginTimestamp int64   `wire:"beginTimestamp,required"` // of the store time, included
	EndTimestamp   int64   `wire:"endTimestamp,required"`   // included
	UniqueKeyQuery bool    `wire:"_UNIQUE_KEY_QUERY"`       // a loose ext field: the key is a UNIQ_KEY
	IndexType      *string `wire:"indexType"`               // 5.5: K, U (unique key) or T (tag)
	LastKey        *string `wire:"lastKey"`                 // 5.5, for indexes in RocksDB
}

// QueryMessageResponseHeader goes with the answer to 12: the newest record in the index.
type QueryMessageResponseHeader struct {
	IndexLastUpdateTimestamp int64 `wire:"indexLastUpdateTimestamp,required"`
	IndexLastUpdatePhyoffset int64 `wire:"indexLastUpdatePhyoffset,required"`
}

// ViewMessageRequestHeader is the header of VIEW_MESSAGE_BY_ID (33).
type ViewMessageRequestHeader struct {
	Topic  *string `wire:"topic"`           // 5.x
	Offset int64   `wire:"offset,required"` // position in the log
}

// HeartbeatResponseHeader goes with the answer to HEART_BEAT (34). RocketMQ sets both as loose ext fields.
type HeartbeatResponseHeader struct {
	SupportHeartbeatV2 bool `wire:"IS_SUPPORT_HEART_BEAT_V2"`
	SubChange          bool `wire:"IS_SUB_CHANGE"`
}

// UnregisterClientRequestHeader is the header of UNREGISTER_CLIENT (35). An empty group, as the C++ client sends it, means
// none.
type UnregisterClientRequestHeader struct {
	ClientID      string `wire:"clientID,required"`
	ProducerGroup string `wire:"producerGroup,omitempty"`
	ConsumerGroup string `wire:"consumerGroup,omitempty"`
}

// ConsumerGroupRequestHeader is the header of GET_CONSUMER_LIST_BY_GROUP (38) and, from broker to client, of
// NOTIFY_CONSUMER_IDS_CHANGED (40).
type ConsumerGroupRequestHeader struct {
	ConsumerGroup string `wire:"consumerGroup,required"`
}

// GetAllSubscriptionGroupRequestHeader is the header of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): the page wanted.
type GetAllSubscriptionGroupRequestHeader struct {
	GroupSeq    *int32  `wire:"groupSeq"`
	MaxGroupNum *int32  `wire:"maxGroupNum"`
	DataVersion *string `wire:"dataVersion"` // JSON, empty for none
}

// GetAllSubscriptionGroupResponseHeader goes with the answer to 201.
type GetAllSubscriptionGroupResponseHeader struct {
	TotalGroupNum *int32 `wire:"totalGroupNum"`
}

// DeleteSubscriptionGroupRequestHeader is the header of DELETE_SUBSCRIPTIONGROUP (207).
type DeleteSubscriptionGroupRequestHeader struct {
	GroupName   string `wire:"groupName,required"`
	CleanOffset bool   `wire:"cleanOffset"`
}

// TopicRequestHeader is the header of the requests about one topic: DELETE_TOPIC_IN_BROKER (215),
// REGISTER_TOPIC_IN_NAMESRV (217), GET_TOPIC_CONFIG (351).
type TopicRequestHeader struct {
	Topic string `wire:"topic,required"`
}

// GroupRequestHeader is the header of GET_SUBSCRIPTIONGROUP_CONFIG (352).
type GroupRequestHeader struct {
	Group string `wire:"group,required"`
}

// SendMessageResponseHeader reads the answer to a send where allocating does not matter; see SendMessageResponse for
// writing it.
type SendMessageResponseHeader struct {
	MsgID         string  `wire:"msgId,required"`
	QueueID       int32   `wire:"queueId,required"`
	QueueOffset   int64   `wire:"queueOffset,required"`
	TransactionID *string `wire:"transactionId"`
	BatchUniqID   *string `wire:"batchUniqId"`
	RecallHandle  *string `wire:"recallHandle"`
	Region        *string `wire:"MSG_REGION"`
	TraceOn       *string `wire:"TRACE_ON"`
}

// PullMessageResponseHeader reads the answer to a pull where allocating does not matter; see PullMessageResponse.
type PullMessageResponseHeader struct {
	SuggestWhichBrokerID int64  `wire:"suggestWhichBrokerId,required"`
	NextBeginOffset      int64  `wire:"nextBeginOffset,required"`
	MinOffset            int64  `wire:"minOffset,required"`
	MaxOffset            int64  `wire:"maxOffset,required"`
	OffsetDelta          *int64 `wire:"offsetDelta"`
	TopicSysFlag         *int32 `wire:"topicSysFlag"`
	GroupSysFlag         *int32 `wire:"groupSysFlag"`
	ForbiddenType        *int32 `wire:"forbiddenType"`
}

// ReplyMessageRequestHeader is the header of PUSH_REPLY_MESSAGE_TO_CLIENT (326). Hosts are address:port.
type ReplyMessageRequestHeader struct {
	ProducerGroup         string `wire:"producerGroup,required"`
	Topic                 string `wire:"topic,required"`
	DefaultTopic          string `wire:"defaultTopic,required"`
	DefaultTopicQueueNums int32  `wire:"defaultTopicQueueNums,required"`
	QueueID               int32  `wire:"queueId,required"`
	SysFlag               int32  `wire:"sysFlag,required"`
	BornTimestamp         int64  `wire:"bornTimestamp,required"`
	Flag                  int32  `wire:"flag,required"`
	Properties            string `wire:"properties"`
	ReconsumeTimes        int32  `wire:"reconsumeTimes"`
	UnitMode              bool   `wire:"unitMode"`
	BornHost              string `wire:"bornHost,required"`
	StoreHost             string `wire:"storeHost,required"`
	StoreTimestamp        int64  `wire:"storeTimestamp,required"`
}
