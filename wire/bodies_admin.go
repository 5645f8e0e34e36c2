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
