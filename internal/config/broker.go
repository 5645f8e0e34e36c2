package config

// BrokerConfig holds the keys of the original's BrokerConfig and BrokerIdentity (5.5.0) that decide how the broker behaves.
type BrokerConfig struct {
	BrokerClusterName string `key:"brokerClusterName" default:"DefaultCluster" important:"yes" doc:"cluster this broker belongs to"`
	BrokerName        string `key:"brokerName" default:"" important:"yes" doc:"name in routes; empty = host name. Set it where host names change (containers)"`
	BrokerId          int64  `key:"brokerId" default:"0" range:"0.." important:"yes" doc:"0 = master; a master is always 0, as in the original"`
	BrokerIP1         string `key:"brokerIP1" default:"" important:"yes" doc:"host that clients are told; empty = address of the default route"`
	BrokerIP2         string `key:"brokerIP2" default:"" doc:"host that slaves are told; empty = brokerIP1"`
	BrokerPermission  int    `key:"brokerPermission" default:"6" range:"0..7" reload:"yes" doc:"4 read, 2 write, 6 both, 0 closed"`
	NamesrvAddr       string `key:"namesrvAddr" default:"" important:"yes" doc:"external name servers, separated by ;. Not built yet"`

	AutoCreateTopicEnable              bool   `key:"autoCreateTopicEnable" default:"true" reload:"yes" important:"yes" doc:"a send to an unknown topic creates it"`
	AutoCreateSubscriptionGroup        bool   `key:"autoCreateSubscriptionGroup" default:"true" reload:"yes" important:"yes" doc:"an unknown group is created at its first use"`
	DefaultTopicQueueNums              int    `key:"defaultTopicQueueNums" default:"8" range:"1..65535" doc:"most queues of a topic created by a send"`
	ClusterTopicEnable                 bool   `key:"clusterTopicEnable" default:"true" doc:"system topic named like the cluster"`
	BrokerTopicEnable                  bool   `key:"brokerTopicEnable" default:"true" doc:"system topic named like the broker"`
	TraceTopicEnable                   bool   `key:"traceTopicEnable" default:"false" important:"yes" doc:"system topic for message traces"`
	MsgTraceTopicName                  string `key:"msgTraceTopicName" default:"RMQ_SYS_TRACE_TOPIC" important:"yes" doc:"its name"`
	EnableMixedMessageType             bool   `key:"enableMixedMessageType" default:"false" reload:"yes" doc:"topics of message.type MIXED may be made"`
	EnableCreateSysGroup               bool   `key:"enableCreateSysGroup" default:"true" doc:"groups of the system are created at their first use"`
	ValidateSystemTopicWhenUpdateTopic bool   `key:"validateSystemTopicWhenUpdateTopic" default:"true" reload:"yes" doc:"system topics cannot be changed by admin tools"`
	ClearRetryTopicWhenDeleteTopic     bool   `key:"clearRetryTopicWhenDeleteTopic" default:"true" doc:"deleting a topic deletes its POP retry topics"`

	TraceOn          bool   `key:"traceOn" default:"true" reload:"yes" doc:"told to producers: message traces are welcome"`
	RegionId         string `key:"regionId" default:"DefaultRegion" doc:"told to producers with each answer"`
	EnableDetailStat bool   `key:"enableDetailStat" default:"true" reload:"yes" pending:"statistics of consumers" doc:"statistics per topic and group"`

	ChannelExpiredTimeout          int64 `key:"channelExpiredTimeout" default:"120000" unit:"ms" range:"1000..86400000" doc:"a client without heartbeat is forgotten after it"`
	SubscriptionExpiredTimeout     int64 `key:"subscriptionExpiredTimeout" default:"600000" unit:"ms" range:"1000..2592000000" pending:"statistics of consumers" doc:"unrenewed ones are forgotten"`
	NotifyConsumerIdsChangedEnable bool  `key:"notifyConsumerIdsChangedEnable" default:"true" reload:"yes" doc:"tell a group when its members change"`
	RealTimeNotifyConsumerChange   bool  `key:"realTimeNotifyConsumerChange" default:"true" reload:"yes" doc:"tell it at once, not in rounds"`
	RejectPullConsumerEnable       bool  `key:"rejectPullConsumerEnable" default:"false" reload:"yes" doc:"refuse clients that only pull"`
	EnableRegisterProducer         bool  `key:"enableRegisterProducer" default:"true" doc:"keep a table of producers"`

	LongPollingEnable                  bool  `key:"longPollingEnable" default:"true" reload:"yes" doc:"hold a pull that finds nothing"`
	ShortPollingTimeMills              int64 `key:"shortPollingTimeMills" default:"1000" unit:"ms" range:"1..120000" reload:"yes" doc:"how long, without long polling"`
	LitePullMessageEnable              bool  `key:"litePullMessageEnable" default:"true" reload:"yes" doc:"serve LITE_PULL_MESSAGE"`
	FlushConsumerOffsetInterval        int64 `key:"flushConsumerOffsetInterval" default:"5000" unit:"ms" range:"10..3600000" doc:"consumerOffset.json is written this often"`
	ConsumerOffsetUpdateVersionStep    int64 `key:"consumerOffsetUpdateVersionStep" default:"500" range:"1.." doc:"commits per step of the data version"`
	UseServerSideResetOffset           bool  `key:"useServerSideResetOffset" default:"true" reload:"yes" doc:"offsets are reset here and handed out by the next pull"`
	StoreReplyMessageEnable            bool  `key:"storeReplyMessageEnable" default:"true" reload:"yes" doc:"reply messages are stored too"`
	ConsumerFallbehindThreshold        int64 `key:"consumerFallbehindThreshold" default:"17179869184" unit:"bytes" range:"0.." reload:"yes" pending:"slow groups" doc:"a group further behind is slow"`
	DisableConsumeIfConsumerReadSlowly bool  `key:"disableConsumeIfConsumerReadSlowly" default:"false" reload:"yes" pending:"slow groups" doc:"slow groups may not consume"`

	BrokerFastFailureEnable         bool  `key:"brokerFastFailureEnable" default:"true" reload:"yes" pending:"waiting times" doc:"requests that waited too long are refused"`
	WaitTimeMillsInSendQueue        int64 `key:"waitTimeMillsInSendQueue" default:"200" unit:"ms" range:"1..3600000" reload:"yes" pending:"waiting times" doc:"too long for a send"`
	WaitTimeMillsInPullQueue        int64 `key:"waitTimeMillsInPullQueue" default:"5000" unit:"ms" range:"1..3600000" reload:"yes" pending:"waiting times" doc:"for a pull"`
	WaitTimeMillsInLitePullQueue    int64 `key:"waitTimeMillsInLitePullQueue" default:"5000" unit:"ms" range:"1..3600000" reload:"yes" pending:"waiting times" doc:"for a lite pull"`
	WaitTimeMillsInHeartbeatQueue   int64 `key:"waitTimeMillsInHeartbeatQueue" default:"31000" unit:"ms" range:"1..3600000" reload:"yes" pending:"waiting times" doc:"for a heartbeat"`
	WaitTimeMillsInAdminBrokerQueue int64 `key:"waitTimeMillsInAdminBrokerQueue" default:"5000" unit:"ms" range:"1..3600000" reload:"yes" pending:"waiting times" doc:"for an admin request"`
	StartAcceptSendRequestTimeStamp int64 `key:"startAcceptSendRequestTimeStamp" default:"0" unit:"epoch ms" range:"0.." reload:"yes" doc:"sends are refused before it"`

	EnablePropertyFilter       bool `key:"enablePropertyFilter" default:"false" reload:"yes" pending:"SQL92 filters" doc:"subscriptions by SQL92"`
	FilterSupportRetry         bool `key:"filterSupportRetry" default:"false" reload:"yes" pending:"SQL92 filters" doc:"filter retried messages too"`
	EnableCalcFilterBitMap     bool `key:"enableCalcFilterBitMap" default:"false" reload:"yes" pending:"SQL92 filters" doc:"evaluate filters at dispatch"`
	ExpectConsumerNumUseFilter int  `key:"expectConsumerNumUseFilter" default:"32" range:"1..1000000" pending:"SQL92 filters" doc:"consumers the bit map is made for"`
	MaxErrorRateOfBloomFilter  int  `key:"maxErrorRateOfBloomFilter" default:"20" unit:"%" range:"1..99" pending:"SQL92 filters" doc:"false hits allowed"`

	RejectTransactionMessage   bool  `key:"rejectTransactionMessage" default:"false" reload:"yes" important:"yes" doc:"refuse half messages"`
	TransactionTimeOut         int64 `key:"transactionTimeOut" default:"6000" unit:"ms" range:"1..2592000000" reload:"yes" important:"yes" doc:"age of a half at its first check"`
	TransactionCheckMax        int   `key:"transactionCheckMax" default:"15" range:"0..2147483647" reload:"yes" important:"yes" doc:"checks before it is given up"`
	TransactionCheckInterval   int64 `key:"transactionCheckInterval" default:"30000" unit:"ms" range:"100..86400000" reload:"yes" important:"yes" doc:"between two rounds"`
	TransactionOpMsgMaxSize    int   `key:"transactionOpMsgMaxSize" default:"4096" unit:"bytes" range:"64..4194304" doc:"an op message is written when it is so large"`
	TransactionOpBatchInterval int   `key:"transactionOpBatchInterval" default:"3000" unit:"ms" range:"1..3600000" doc:"or so old"`
	RecallMessageEnable        bool  `key:"recallMessageEnable" default:"false" reload:"yes" pending:"timer messages" doc:"delayed messages may be recalled"`

	RegisterNameServerPeriod   int64  `key:"registerNameServerPeriod" default:"30000" unit:"ms" range:"10000..60000" pending:"external name servers" doc:"between two registrations"`
	RegisterBrokerTimeoutMills int    `key:"registerBrokerTimeoutMills" default:"24000" unit:"ms" range:"100..600000" reload:"yes" pending:"external name servers" doc:"a registration waits so long"`
	ForceRegister              bool   `key:"forceRegister" default:"true" reload:"yes" pending:"external name servers" doc:"register even when nothing changed"`
	CompressedRegister         bool   `key:"compressedRegister" default:"false" reload:"yes" pending:"external name servers" doc:"compress the topic table"`
	ConfigBlackList            string `key:"configBlackList" default:"configBlackList;brokerConfigPath" doc:"keys that code 25 may not change, separated by ;"`

	AclEnable                       bool   `key:"aclEnable" default:"false" only:"false" important:"yes" why:"access" doc:"ACL 1.0"`
	AuthenticationEnabled           bool   `key:"authenticationEnabled" default:"false" only:"false" why:"access" doc:"ACL 2.0: who is it"`
	AuthorizationEnabled            bool   `key:"authorizationEnabled" default:"false" only:"false" why:"access" doc:"ACL 2.0: may they"`
	EnableControllerMode            bool   `key:"enableControllerMode" default:"false" only:"false" why:"controller" doc:"elect masters"`
	EnableSlaveActingMaster         bool   `key:"enableSlaveActingMaster" default:"false" only:"false" why:"replication" doc:"slaves act for a lost master"`
	EnableRemoteEscape              bool   `key:"enableRemoteEscape" default:"false" only:"false" why:"escape" doc:"send elsewhere when this broker cannot store"`
	ConfigManagerVersion            string `key:"configManagerVersion" default:"v1" only:"v1" why:"rocksdb" doc:"v1 = JSON files"`
	FetchNamesrvAddrByAddressServer bool   `key:"fetchNamesrvAddrByAddressServer" default:"false" only:"false" important:"yes" why:"namesrv" doc:"ask an address server for name servers"`
	FetchNameSrvAddrByDnsLookup     bool   `key:"fetchNameSrvAddrByDnsLookup" default:"false" only:"false" important:"yes" why:"namesrv" doc:"ask DNS for name servers"`
}
