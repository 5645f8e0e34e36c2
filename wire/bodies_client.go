package wire

// Bodies that clients send and get. Members are in alphabetical order, as Java writes them; each type is named after its
// class in org.apache.rocketmq.remoting.protocol.

// Values of HeartbeatData's enumerations. Go's own spelling differs in case: compare with strings.EqualFold.
const (
	ConsumeActively  = "CONSUME_ACTIVELY"  // pull consumer
	ConsumePassively = "CONSUME_PASSIVELY" // push consumer
	ConsumePop       = "CONSUME_POP"

	ModelClustering   = "CLUSTERING"
	ModelBroadcasting = "BROADCASTING"

	ConsumeFromLastOffset  = "CONSUME_FROM_LAST_OFFSET"
	ConsumeFromFirstOffset = "CONSUME_FROM_FIRST_OFFSET"
	ConsumeFromTimestamp   = "CONSUME_FROM_TIMESTAMP"

	ExpressionTag   = "TAG"
	ExpressionSQL92 = "SQL92"

	// SubscribeAll is the expression that every message passes.
	SubscribeAll = "*"
)

// HeartbeatData is the body of HEART_BEAT (heartbeat.HeartbeatData).
type HeartbeatData struct {
	ClientID             string         `json:"clientID"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet"`
	HeartbeatFingerprint int32          `json:"heartbeatFingerprint"`
	ProducerDataSet      []ProducerData `json:"producerDataSet"`
	WithoutSub           bool           `json:"withoutSub"`
}

// ConsumerData is one consumer group of a client (heartbeat.ConsumerData).
type ConsumerData struct {
	ConsumeFromWhere    string             `json:"consumeFromWhere"`
	ConsumeType         string             `json:"consumeType"`
	GroupName           string             `json:"groupName"`
	MessageModel        string             `json:"messageModel"`
	SubscriptionDataSet []SubscriptionData `json:"subscriptionDataSet"`
	UnitMode            bool               `json:"unitMode"`
}

// ProducerData is one producer group of a client (heartbeat.ProducerData).
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// SubscriptionData is what a group wants of one topic (heartbeat.SubscriptionData). TagsSet and CodeSet, the tags' Java
// hashes, are empty for SubscribeAll and for SQL92. Both are sets: their order means nothing.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet"`
	ExpressionType  string   `json:"expressionType"`
	SubString       string   `json:"subString"`
	SubVersion      int64    `json:"subVersion"` // the client's clock: ms for Java, ns for Go
	TagsSet         []string `json:"tagsSet"`
	Topic           string   `json:"topic"`
}

func (s *SubscriptionData) setDefaults() { s.ExpressionType = ExpressionTag }

// CheckClientConfigBody is the body of CHECK_CLIENT_CONFIG (body.CheckClientRequestBody).
type CheckClientConfigBody struct {
	ClientID         string            `json:"clientId"`
	Group            string            `json:"group"`
	Namespace        string            `json:"namespace,omitempty"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
}

// ConsumerListBody is the body of the answer to GET_CONSUMER_LIST_BY_GROUP (GetConsumerListByGroupResponseBody).
type ConsumerListBody struct {
	ConsumerIDList []string `json:"consumerIdList"`
}

// MessageQueue names a queue (common.message.MessageQueue). It is comparable.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// LockBatchBody is the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ (body.LockBatchRequestBody, UnlockBatchRequestBody).
// OnlyThisBroker, which 4.9.4 does not send, matters to replicated brokers alone.
type LockBatchBody struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MQSet          []MessageQueue `json:"mqSet"`
	OnlyThisBroker bool           `json:"onlyThisBroker"`
}

// LockBatchResponseBody is the body of the answer to LOCK_BATCH_MQ: the queues that the client owns now.
type LockBatchResponseBody struct {
	LockOKMQSet []MessageQueue `json:"lockOKMQSet"`
}

// TopicRouteData is the body of the answer to GET_ROUTEINFO_BY_TOPIC (route.TopicRouteData).
type TopicRouteData struct {
	BrokerDatas       []BrokerData        `json:"brokerDatas"`
	FilterServerTable map[string][]string `json:"filterServerTable"`
	OrderTopicConf    string              `json:"orderTopicConf,omitempty"` // `broker-a:4;broker-b:4`
	QueueDatas        []QueueData         `json:"queueDatas"`
}

// Append appends the route as JSON to dst. standard quotes the broker ids, which clients below VersionStandardJSON only
// get when they ask for it (ClientRequestProcessor.getRouteInfoByTopic).
func (r *TopicRouteData) Append(dst []byte, standard bool) []byte {
	if standard {
		return AppendBody(dst, r)
	}
	return AppendBareIntKeys(dst, EncodeBody(r))
}

// BrokerData is a broker with its replicas (route.BrokerData).
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs"` // by broker id, 0 = master
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitempty"`
}

// QueueData says how many queues of a topic a broker has (route.QueueData).
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}
