package wire

// Headers of the requests that a name server serves, and of their answers; see headers_broker.go.

// PutKVConfigRequestHeader is the header of PUT_KV_CONFIG (100).
type PutKVConfigRequestHeader struct {
	Namespace string `wire:"namespace,required"`
	Key       string `wire:"key,required"`
	Value     string `wire:"value,required"`
}

// KVConfigRequestHeader is the header of GET_KV_CONFIG (101) and DELETE_KV_CONFIG (102).
type KVConfigRequestHeader struct {
	Namespace string `wire:"namespace,required"`
	Key       string `wire:"key,required"`
}

// GetKVConfigResponseHeader goes with the answer to 101.
type GetKVConfigResponseHeader struct {
	Value *string `wire:"value"`
}

// GetKVListByNamespaceRequestHeader is the header of GET_KVLIST_BY_NAMESPACE (219).
type GetKVListByNamespaceRequestHeader struct {
	Namespace string `wire:"namespace,required"`
}

// RegisterBrokerRequestHeader is the header of REGISTER_BROKER (103).
type RegisterBrokerRequestHeader struct {
	BrokerName             string  `wire:"brokerName,required"`
	BrokerAddr             string  `wire:"brokerAddr,required"`
	ClusterName            string  `wire:"clusterName,required"`
	HAServerAddr           string  `wire:"haServerAddr,required"`
	BrokerID               int64   `wire:"brokerId,required"` // 0 = master
	HeartbeatTimeoutMillis *int64  `wire:"heartbeatTimeoutMillis"`
	EnableActingMaster     *bool   `wire:"enableActingMaster"`
	Compressed             bool    `wire:"compressed"`
	BodyCRC32              int32   `wire:"bodyCrc32"` // of the body as sent; 0: do not check
	ZoneName               *string `wire:"__ZONE_NAME"`
}

// RegisterBrokerResponseHeader goes with the answer to 103.
type RegisterBrokerResponseHeader struct {
	HAServerAddr *string `wire:"haServerAddr"`
	MasterAddr   *string `wire:"masterAddr"`
}

// UnregisterBrokerRequestHeader is the header of UNREGISTER_BROKER (104).
type UnregisterBrokerRequestHeader struct {
	BrokerName  string `wire:"brokerName,required"`
	BrokerAddr  string `wire:"brokerAddr,required"`
	ClusterName string `wire:"clusterName,required"`
	BrokerID    int64  `wire:"brokerId,required"`
}

// BrokerHeartbeatRequestHeader is the header of BROKER_HEARTBEAT (904). The timeout is spelled as RocketMQ spells it here.
type BrokerHeartbeatRequestHeader struct {
	ClusterName            string `wire:"clusterName,required"`
	BrokerAddr             string `wire:"brokerAddr,required"`
	BrokerName             string `wire:"brokerName,required"`
	BrokerID               *int64 `wire:"brokerId"`
	Epoch                  *int32 `wire:"epoch"`
	MaxOffset              *int64 `wire:"maxOffset"`
	ConfirmOffset          *int64 `wire:"confirmOffset"`
	HeartbeatTimeoutMillis *int64 `wire:"heartbeatTimeoutMills"`
	ElectionPriority       *int32 `wire:"electionPriority"`
}

// QueryDataVersionRequestHeader is the header of QUERY_DATA_VERSION (322); its body is a DataVersion.
type QueryDataVersionRequestHeader struct {
	BrokerName  string `wire:"brokerName,required"`
	BrokerAddr  string `wire:"brokerAddr,required"`
	ClusterName string `wire:"clusterName,required"`
	BrokerID    int64  `wire:"brokerId,required"`
}

// QueryDataVersionResponseHeader goes with the answer to 322.
type QueryDataVersionResponseHeader struct {
	Changed bool `wire:"changed,required"`
}

// GetRouteInfoRequestHeader is the header of GET_ROUTEINFO_BY_TOPIC (105).
type GetRouteInfoRequestHeader struct {
	Topic                  string `wire:"topic,required"`
	AcceptStandardJSONOnly *bool  `wire:"acceptStandardJsonOnly"`
}

// BrokerNameRequestHeader is the header of WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327).
type BrokerNameRequestHeader struct {
	BrokerName string `wire:"brokerName,required"`
}

// WipeWritePermOfBrokerResponseHeader goes with the answer to 205.
type WipeWritePermOfBrokerResponseHeader struct {
	WipeTopicCount int32 `wire:"wipeTopicCount,required"`
}

// AddWritePermOfBrokerResponseHeader goes with the answer to 327.
type AddWritePermOfBrokerResponseHeader struct {
	AddTopicCount int32 `wire:"addTopicCount,required"`
}

// GetTopicsByClusterRequestHeader is the header of GET_TOPICS_BY_CLUSTER (224).
type GetTopicsByClusterRequestHeader struct {
	Cluster string `wire:"cluster,required"`
}

// DeleteTopicFromNamesrvRequestHeader is the header of DELETE_TOPIC_IN_NAMESRV (216).
type DeleteTopicFromNamesrvRequestHeader struct {
	Topic       string  `wire:"topic,required"`
	ClusterName *string `wire:"clusterName"`
}

// GetBrokerMemberGroupRequestHeader is the header of GET_BROKER_MEMBER_GROUP (901).
type GetBrokerMemberGroupRequestHeader struct {
	ClusterName string `wire:"clusterName,required"`
	BrokerName  string `wire:"brokerName,required"`
}
