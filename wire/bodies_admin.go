package wire

import "encoding/json"

// Bodies between brokers, name servers and admin tools; see bodies_client.go.

// Values of TopicConfig.
const (
	TopicFilterSingleTag = "SINGLE_TAG"
	TopicFilterMultiTag  = "MULTI_TAG"

	PermInherit  int32 = 1 // TBW102: topics may be made after this one
	PermWrite    int32 = 2
	PermRead     int32 = 4
	PermPriority int32 = 8

	TopicSysFlagUnit    int32 = 1
	TopicSysFlagUnitSub int32 = 2
)

// TopicConfig is the configuration of one topic on a broker (common.TopicConfig).
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

func (t *TopicConfig) setDefaults() {
	*t = TopicConfig{Perm: PermRead | PermWrite, ReadQueueNums: 16, WriteQueueNums: 16, TopicFilterType: TopicFilterSingleTag}
}

// DataVersion orders the states of a table (protocol.DataVersion). Equality compares all three, as RocketMQ does.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // epoch ms
}

// TopicConfigSerializeWrapper is the body of the answer to GET_ALL_TOPIC_CONFIG and a part of a registration
// (body.TopicConfigAndMappingSerializeWrapper). Queue mappings (static topics) are carried, not understood.
type TopicConfigSerializeWrapper struct {
	DataVersion                DataVersion                `json:"dataVersion"`
	MappingDataVersion         DataVersion                `json:"mappingDataVersion"`
	TopicConfigTable           map[string]TopicConfig     `json:"topicConfigTable"`
	TopicQueueMappingDetailMap map[string]json.RawMessage `json:"topicQueueMappingDetailMap"`
	TopicQueueMappingInfoMap   map[string]json.RawMessage `json:"topicQueueMappingInfoMap"`
}

// ClusterInfo is the body of the answer to GET_BROKER_CLUSTER_INFO (body.ClusterInfo).
type ClusterInfo struct {
	BrokerAddrTable  map[string]BrokerData `json:"brokerAddrTable"`
	ClusterAddrTable map[string][]string   `json:"clusterAddrTable"`
}

// KVTable is the body of several answers (body.KVTable).
type KVTable struct {
	Table map[string]string `json:"table"`
}

// TopicList is the body of the answers that list topics (body.TopicList).
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	TopicList  []string `json:"topicList"`
}

// BrokerMemberGroupBody is the body of the answer to GET_BROKER_MEMBER_GROUP (GetBrokerMemberGroupResponseBody).
type BrokerMemberGroupBody struct {
	BrokerMemberGroup BrokerMemberGroup `json:"brokerMemberGroup"`
}

// BrokerMemberGroup is a broker name with the addresses behind it (body.BrokerMemberGroup).
type BrokerMemberGroup struct {
	BrokerAddrs map[int64]string `json:"brokerAddrs"`
	BrokerName  string           `json:"brokerName"`
	Cluster     string           `json:"cluster"`
}

// SubscriptionGroupConfig is the configuration of a consumer group (subscription.SubscriptionGroupConfig, 5.5.0).
type SubscriptionGroupConfig struct {
	Attributes                     map[string]string        `json:"attributes"`
	BrokerID                       int64                    `json:"brokerId"`
	ConsumeBroadcastEnable         bool                     `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool                     `json:"consumeEnable"`
	ConsumeFromMinEnable           bool                     `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool                     `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int32                    `json:"consumeTimeoutMinute"`
	GroupName                      string                   `json:"groupName"`
	GroupRetryPolicy               GroupRetryPolicy         `json:"groupRetryPolicy"`
	GroupSysFlag                   int32                    `json:"groupSysFlag"`
	NotifyConsumerIDsChangedEnable bool                     `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int32                    `json:"retryMaxTimes"`
	RetryQueueNums                 int32                    `json:"retryQueueNums"`
	SubscriptionDataSet            []SimpleSubscriptionData `json:"subscriptionDataSet,omitempty"`
	WhichBrokerWhenConsumeSlowly   int64                    `json:"whichBrokerWhenConsumeSlowly"`
}

// NewSubscriptionGroupConfig is a group as Java makes it: everything allowed, 16 retries, 15 minutes to consume.
func NewSubscriptionGroupConfig(group string) SubscriptionGroupConfig {
	return SubscriptionGroupConfig{
		ConsumeBroadcastEnable: true, ConsumeEnable: true, ConsumeFromMinEnable: true, ConsumeTimeoutMinute: 15,
		GroupName: group, GroupRetryPolicy: GroupRetryPolicy{Type: "CUSTOMIZED"}, NotifyConsumerIDsChangedEnable: true,
		RetryMaxTimes: 16, RetryQueueNums: 1, WhichBrokerWhenConsumeSlowly: 1,
	}
}

func (g *SubscriptionGroupConfig) setDefaults() { *g = NewSubscriptionGroupConfig("") }

// GroupRetryPolicy says when a failed message comes back (subscription.GroupRetryPolicy). Type is CUSTOMIZED or
// EXPONENTIAL; the policies themselves are carried, not understood.
type GroupRetryPolicy struct {
	CustomizedRetryPolicy  json.RawMessage `json:"customizedRetryPolicy,omitempty"`
	ExponentialRetryPolicy json.RawMessage `json:"exponentialRetryPolicy,omitempty"`
	Type                   string          `json:"type"`
}

// SimpleSubscriptionData is a group's subscription as configuration holds it (subscription.SimpleSubscriptionData).
type SimpleSubscriptionData struct {
	Expression     string `json:"expression"`
	ExpressionType string `json:"expressionType"`
	Topic          string `json:"topic"`
	Version        int64  `json:"version"`
}

// SubscriptionGroupWrapper is the body of the answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG (body.SubscriptionGroupWrapper).
type SubscriptionGroupWrapper struct {
	DataVersion            DataVersion                        `json:"dataVersion"`
	ForbiddenTable         map[string]map[string]int32        `json:"forbiddenTable"` // group → topic → bits
	SubscriptionGroupTable map[string]SubscriptionGroupConfig `json:"subscriptionGroupTable"`
}

// ConsumerOffsetWrapper is the body of the answer to GET_ALL_CONSUMER_OFFSET (body.ConsumerOffsetSerializeWrapper). The
// tables are by topic@group, then by queue id.
type ConsumerOffsetWrapper struct {
	DataVersion     *DataVersion               `json:"dataVersion,omitempty"`
	OffsetTable     map[string]map[int32]int64 `json:"offsetTable"`
	PullOffsetTable map[string]map[int32]int64 `json:"pullOffsetTable,omitempty"` // 5.x: what lite pull consumers were given
}

// TopicStatsTable is the body of the answer to GET_TOPIC_STATS_INFO (admin.TopicStatsTable).
type TopicStatsTable struct {
	OffsetTable map[MessageQueue]TopicOffset `json:"offsetTable"`
	TopicPutTPS float64                      `json:"topicPutTps"`
}

// TopicOffset is what a queue has (admin.TopicOffset). The time is that of the newest message, epoch ms.
type TopicOffset struct {
	LastUpdateTimestamp int64 `json:"lastUpdateTimestamp"`
	MaxOffset           int64 `json:"maxOffset"`
	MinOffset           int64 `json:"minOffset"`
}

// ConsumeStats is the body of the answer to GET_CONSUME_STATS (admin.ConsumeStats).
type ConsumeStats struct {
	ConsumeTPS  float64                        `json:"consumeTps"`
	OffsetTable map[MessageQueue]OffsetWrapper `json:"offsetTable"`
}

// OffsetWrapper is how far a group is in a queue (admin.OffsetWrapper). LastTimestamp is the store time of the last message
// that it consumed, epoch ms, 0 without one; PullOffset is where its next pull begins.
type OffsetWrapper struct {
	BrokerOffset   int64 `json:"brokerOffset"`
	ConsumerOffset int64 `json:"consumerOffset"`
	LastTimestamp  int64 `json:"lastTimestamp"`
	PullOffset     int64 `json:"pullOffset"`
}

// ConsumeStatsList is the body of the answer to GET_BROKER_CONSUME_STATS (body.ConsumeStatsList): per group its topics.
type ConsumeStatsList struct {
	BrokerAddr        string                      `json:"brokerAddr"`
	ConsumeStatsList  []map[string][]ConsumeStats `json:"consumeStatsList"`
	TotalDiff         int64                       `json:"totalDiff"`
	TotalInflightDiff int64                       `json:"totalInflightDiff"`
}

// ResetOffsetBody is the body of the answer to INVOKE_BROKER_TO_RESET_OFFSET, and of RESET_CONSUMER_CLIENT_OFFSET
// (body.ResetOffsetBody).
type ResetOffsetBody struct {
	OffsetTable map[MessageQueue]int64 `json:"offsetTable"`
}

// ResetOffsetBodyForC is the form of it that clients in C++ read (body.ResetOffsetBodyForC).
type ResetOffsetBodyForC struct {
	OffsetTable []MessageQueueForC `json:"offsetTable"`
}

// MessageQueueForC is a queue with its offset (common.message.MessageQueueForC).
type MessageQueueForC struct {
	BrokerName string `json:"brokerName"`
	Offset     int64  `json:"offset"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// ConsumerStatusBody is the body of the answers to INVOKE_BROKER_TO_GET_CONSUMER_STATUS (body.GetConsumerStatusBody): by
// client id the offsets that each believes in.
type ConsumerStatusBody struct {
	ConsumerTable     map[string]map[MessageQueue]int64 `json:"consumerTable"`
	MessageQueueTable map[MessageQueue]int64            `json:"messageQueueTable"`
}

// ConsumeTimeSpanBody is the body of the answer to QUERY_CONSUME_TIME_SPAN (body.QueryConsumeTimeSpanBody).
type ConsumeTimeSpanBody struct {
	ConsumeTimeSpanSet []QueueTimeSpan `json:"consumeTimeSpanSet"`
}

// QueueTimeSpan holds times of a queue in epoch ms, the delay in ms (body.QueueTimeSpan).
type QueueTimeSpan struct {
	ConsumeTimeStamp int64        `json:"consumeTimeStamp"`
	DelayTime        int64        `json:"delayTime"`
	MaxTimeStamp     int64        `json:"maxTimeStamp"`
	MessageQueue     MessageQueue `json:"messageQueue"`
	MinTimeStamp     int64        `json:"minTimeStamp"`
}

// QueryConsumeQueueBody is the body of the answer to QUERY_CONSUME_QUEUE (body.QueryConsumeQueueResponseBody).
type QueryConsumeQueueBody struct {
	FilterData       string             `json:"filterData,omitempty"`
	MaxQueueIndex    int64              `json:"maxQueueIndex"`
	MinQueueIndex    int64              `json:"minQueueIndex"`
	QueueData        []ConsumeQueueData `json:"queueData"`
	SubscriptionData *SubscriptionData  `json:"subscriptionData"`
}

// ConsumeQueueData is one unit (body.ConsumeQueueData). Eval and Msg are for SQL92 filters.
type ConsumeQueueData struct {
	Eval         bool   `json:"eval"`
	Msg          string `json:"msg,omitempty"`
	PhysicOffset int64  `json:"physicOffset"`
	PhysicSize   int32  `json:"physicSize"`
	TagsCode     int64  `json:"tagsCode"`
}
