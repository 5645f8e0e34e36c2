package wire

import "slices"

// Role says which part of peregrine serves a request code.
type Role uint8

// Roles.
const (
	RoleBroker  Role = 1 + iota // served on the broker's listeners
	RoleNamesrv                 // served on the name server's listener
	RoleClient                  // sent by the broker, served by clients
)

// SupportedCode is one row of the table of served codes.
type SupportedCode struct {
	Code RequestCode
	Name string // RocketMQ's constant
	Role Role
	// Header is a zero value of the struct with the request's ext fields, nil when it has none. SendMessageHeader and
	// PullMessageHeader decode themselves, all others are for DecodeHeader.
	Header any
	// Response is a zero value of the struct with the answer's ext fields, nil when it has none.
	Response any
}

// SupportedCodes is the table of all request codes that peregrine serves or sends, in ascending order. The rooms that
// serve them register their handlers against it; every other code is answered with REQUEST_CODE_NOT_SUPPORTED.
func SupportedCodes() []SupportedCode { return slices.Clone(supportedCodes) }

// FindCode is the row of code; ok is false for a code that is not served.
func FindCode(code RequestCode) (row SupportedCode, ok bool) {
	i, found := slices.BinarySearchFunc(supportedCodes, code, func(row SupportedCode, code RequestCode) int {
		return int(row.Code) - int(code)
	})
	if !found {
		return SupportedCode{}, false
	}
	return supportedCodes[i], true
}

// supportedCodes is never written.
var supportedCodes = []SupportedCode{
	{RequestSendMessage, "SEND_MESSAGE", RoleBroker, SendMessageHeader{}, SendMessageResponseHeader{}},
	{RequestPullMessage, "PULL_MESSAGE", RoleBroker, PullMessageHeader{}, PullMessageResponseHeader{}},
	{RequestQueryMessage, "QUERY_MESSAGE", RoleBroker, QueryMessageRequestHeader{}, QueryMessageResponseHeader{}},
	{RequestQueryConsumerOffset, "QUERY_CONSUMER_OFFSET", RoleBroker, QueryConsumerOffsetRequestHeader{}, OffsetResponseHeader{}},
	{RequestUpdateConsumerOffset, "UPDATE_CONSUMER_OFFSET", RoleBroker, UpdateConsumerOffsetRequestHeader{}, nil},
	{RequestUpdateAndCreateTopic, "UPDATE_AND_CREATE_TOPIC", RoleBroker, CreateTopicRequestHeader{}, nil},
	{RequestUpdateAndCreateTopicList, "UPDATE_AND_CREATE_TOPIC_LIST", RoleBroker, nil, nil},
	{RequestGetAllTopicConfig, "GET_ALL_TOPIC_CONFIG", RoleBroker, GetAllTopicConfigRequestHeader{}, GetAllTopicConfigResponseHeader{}},
	{RequestUpdateBrokerConfig, "UPDATE_BROKER_CONFIG", RoleBroker, nil, nil},
	{RequestGetBrokerConfig, "GET_BROKER_CONFIG", RoleBroker, nil, GetBrokerConfigResponseHeader{}},
	{RequestGetBrokerRuntimeInfo, "GET_BROKER_RUNTIME_INFO", RoleBroker, nil, nil},
	{RequestSearchOffsetByTimestamp, "SEARCH_OFFSET_BY_TIMESTAMP", RoleBroker, SearchOffsetRequestHeader{}, OffsetResponseHeader{}},
	{RequestGetMaxOffset, "GET_MAX_OFFSET", RoleBroker, GetMaxOffsetRequestHeader{}, OffsetResponseHeader{}},
	{RequestGetMinOffset, "GET_MIN_OFFSET", RoleBroker, TopicQueueRequestHeader{}, OffsetResponseHeader{}},
	{RequestGetEarliestMsgStoreTime, "GET_EARLIEST_MSG_STORETIME", RoleBroker, TopicQueueRequestHeader{}, GetEarliestMsgStoretimeResponseHeader{}},
	{RequestViewMessageByID, "VIEW_MESSAGE_BY_ID", RoleBroker, ViewMessageRequestHeader{}, nil},
	{RequestHeartBeat, "HEART_BEAT", RoleBroker, nil, HeartbeatResponseHeader{}},
	{RequestUnregisterClient, "UNREGISTER_CLIENT", RoleBroker, UnregisterClientRequestHeader{}, nil},
	{RequestConsumerSendMsgBack, "CONSUMER_SEND_MSG_BACK", RoleBroker, ConsumerSendMsgBackRequestHeader{}, nil},
	{RequestEndTransaction, "END_TRANSACTION", RoleBroker, EndTransactionRequestHeader{}, nil},
	{RequestGetConsumerListByGroup, "GET_CONSUMER_LIST_BY_GROUP", RoleBroker, ConsumerGroupRequestHeader{}, nil},
	{RequestCheckTransactionState, "CHECK_TRANSACTION_STATE", RoleClient, CheckTransactionStateRequestHeader{}, nil},
	{RequestNotifyConsumerIDsChanged, "NOTIFY_CONSUMER_IDS_CHANGED", RoleClient, ConsumerGroupRequestHeader{}, nil},
	{RequestLockBatchMQ, "LOCK_BATCH_MQ", RoleBroker, nil, nil},
	{RequestUnlockBatchMQ, "UNLOCK_BATCH_MQ", RoleBroker, nil, nil},
	{RequestGetAllConsumerOffset, "GET_ALL_CONSUMER_OFFSET", RoleBroker, nil, nil},
	{RequestGetAllDelayOffset, "GET_ALL_DELAY_OFFSET", RoleBroker, nil, nil},
	{RequestCheckClientConfig, "CHECK_CLIENT_CONFIG", RoleBroker, nil, nil},
	{RequestPutKVConfig, "PUT_KV_CONFIG", RoleNamesrv, PutKVConfigRequestHeader{}, nil},
	{RequestGetKVConfig, "GET_KV_CONFIG", RoleNamesrv, KVConfigRequestHeader{}, GetKVConfigResponseHeader{}},
	{RequestDeleteKVConfig, "DELETE_KV_CONFIG", RoleNamesrv, KVConfigRequestHeader{}, nil},
	{RequestRegisterBroker, "REGISTER_BROKER", RoleNamesrv, RegisterBrokerRequestHeader{}, RegisterBrokerResponseHeader{}},
	{RequestUnregisterBroker, "UNREGISTER_BROKER", RoleNamesrv, UnregisterBrokerRequestHeader{}, nil},
	{RequestGetRouteInfoByTopic, "GET_ROUTEINFO_BY_TOPIC", RoleNamesrv, GetRouteInfoRequestHeader{}, nil},
	{RequestGetBrokerClusterInfo, "GET_BROKER_CLUSTER_INFO", RoleNamesrv, nil, nil},
	{RequestUpdateAndCreateSubscriptionGroup, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", RoleBroker, nil, nil},
	{RequestGetAllSubscriptionGroupConfig, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", RoleBroker, GetAllSubscriptionGroupRequestHeader{}, GetAllSubscriptionGroupResponseHeader{}},
	{RequestGetTopicStatsInfo, "GET_TOPIC_STATS_INFO", RoleBroker, TopicRequestHeader{}, nil},
	{RequestGetConsumerConnectionList, "GET_CONSUMER_CONNECTION_LIST", RoleBroker, ConsumerGroupRequestHeader{}, nil},
	{RequestGetProducerConnectionList, "GET_PRODUCER_CONNECTION_LIST", RoleBroker, ProducerGroupRequestHeader{}, nil},
	{RequestWipeWritePermOfBroker, "WIPE_WRITE_PERM_OF_BROKER", RoleNamesrv, BrokerNameRequestHeader{}, WipeWritePermOfBrokerResponseHeader{}},
	{RequestGetAllTopicListFromNameServer, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", RoleNamesrv, nil, nil},
	{RequestDeleteSubscriptionGroup, "DELETE_SUBSCRIPTIONGROUP", RoleBroker, DeleteSubscriptionGroupRequestHeader{}, nil},
	{RequestGetConsumeStats, "GET_CONSUME_STATS", RoleBroker, GetConsumeStatsRequestHeader{}, nil},
	{RequestDeleteTopicInBroker, "DELETE_TOPIC_IN_BROKER", RoleBroker, TopicRequestHeader{}, nil},
	{RequestDeleteTopicInNamesrv, "DELETE_TOPIC_IN_NAMESRV", RoleNamesrv, DeleteTopicFromNamesrvRequestHeader{}, nil},
	{RequestRegisterTopicInNamesrv, "REGISTER_TOPIC_IN_NAMESRV", RoleNamesrv, TopicRequestHeader{}, nil},
	{RequestGetKVListByNamespace, "GET_KVLIST_BY_NAMESPACE", RoleNamesrv, GetKVListByNamespaceRequestHeader{}, nil},
	{RequestResetConsumerClientOffset, "RESET_CONSUMER_CLIENT_OFFSET", RoleClient, ResetOffsetRequestHeader{}, nil},
	{RequestGetConsumerStatusFromClient, "GET_CONSUMER_STATUS_FROM_CLIENT", RoleClient, GetConsumerStatusRequestHeader{}, nil},
	{RequestInvokeBrokerToResetOffset, "INVOKE_BROKER_TO_RESET_OFFSET", RoleBroker, ResetOffsetRequestHeader{}, nil},
	{RequestInvokeBrokerToGetConsumerStatus, "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", RoleBroker, GetConsumerStatusRequestHeader{}, nil},
	{RequestGetTopicsByCluster, "GET_TOPICS_BY_CLUSTER", RoleNamesrv, GetTopicsByClusterRequestHeader{}, nil},
	{RequestUpdateAndCreateSubscriptionGroupList, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", RoleBroker, nil, nil},
	{RequestQueryTopicConsumeByWho, "QUERY_TOPIC_CONSUME_BY_WHO", RoleBroker, TopicRequestHeader{}, nil},
	{RequestQueryConsumeTimeSpan, "QUERY_CONSUME_TIME_SPAN", RoleBroker, TopicGroupRequestHeader{}, nil},
	{RequestGetSystemTopicListFromNS, "GET_SYSTEM_TOPIC_LIST_FROM_NS", RoleNamesrv, nil, nil},
	{RequestGetSystemTopicListFromBroker, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", RoleBroker, nil, nil},
	{RequestCleanExpiredConsumeQueue, "CLEAN_EXPIRED_CONSUMEQUEUE", RoleBroker, nil, nil},
	{RequestGetConsumerRunningInfo, "GET_CONSUMER_RUNNING_INFO", RoleBroker, GetConsumerRunningInfoRequestHeader{}, nil},
	{RequestConsumeMessageDirectly, "CONSUME_MESSAGE_DIRECTLY", RoleBroker, ConsumeMessageDirectlyRequestHeader{}, nil},
	{RequestSendMessageV2, "SEND_MESSAGE_V2", RoleBroker, SendMessageHeader{}, SendMessageResponseHeader{}},
	{RequestGetUnitTopicList, "GET_UNIT_TOPIC_LIST", RoleNamesrv, nil, nil},
	{RequestGetHasUnitSubTopicList, "GET_HAS_UNIT_SUB_TOPIC_LIST", RoleNamesrv, nil, nil},
	{RequestGetHasUnitSubUnUnitTopicList, "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", RoleNamesrv, nil, nil},
	{RequestCloneGroupOffset, "CLONE_GROUP_OFFSET", RoleBroker, CloneGroupOffsetRequestHeader{}, nil},
	{RequestViewBrokerStatsData, "VIEW_BROKER_STATS_DATA", RoleBroker, ViewBrokerStatsDataRequestHeader{}, nil},
	{RequestCleanUnusedTopic, "CLEAN_UNUSED_TOPIC", RoleBroker, nil, nil},
	{RequestGetBrokerConsumeStats, "GET_BROKER_CONSUME_STATS", RoleBroker, GetBrokerConsumeStatsRequestHeader{}, nil},
	{RequestUpdateNamesrvConfig, "UPDATE_NAMESRV_CONFIG", RoleNamesrv, nil, nil},
	{RequestGetNamesrvConfig, "GET_NAMESRV_CONFIG", RoleNamesrv, nil, nil},
	{RequestSendBatchMessage, "SEND_BATCH_MESSAGE", RoleBroker, SendMessageHeader{}, SendMessageResponseHeader{}},
	{RequestQueryConsumeQueue, "QUERY_CONSUME_QUEUE", RoleBroker, QueryConsumeQueueRequestHeader{}, nil},
	{RequestQueryDataVersion, "QUERY_DATA_VERSION", RoleNamesrv, QueryDataVersionRequestHeader{}, QueryDataVersionResponseHeader{}},
	{RequestResumeCheckHalfMessage, "RESUME_CHECK_HALF_MESSAGE", RoleBroker, ResumeCheckHalfMessageRequestHeader{}, nil},
	{RequestSendReplyMessage, "SEND_REPLY_MESSAGE", RoleBroker, SendMessageHeader{}, SendMessageResponseHeader{}},
	{RequestSendReplyMessageV2, "SEND_REPLY_MESSAGE_V2", RoleBroker, SendMessageHeader{}, SendMessageResponseHeader{}},
	{RequestPushReplyMessageToClient, "PUSH_REPLY_MESSAGE_TO_CLIENT", RoleClient, ReplyMessageRequestHeader{}, nil},
	{RequestAddWritePermOfBroker, "ADD_WRITE_PERM_OF_BROKER", RoleNamesrv, BrokerNameRequestHeader{}, AddWritePermOfBrokerResponseHeader{}},
	{RequestGetAllProducerInfo, "GET_ALL_PRODUCER_INFO", RoleBroker, nil, nil},
	{RequestDeleteExpiredCommitLog, "DELETE_EXPIRED_COMMITLOG", RoleBroker, nil, nil},
	{RequestQueryTopicsByConsumer, "QUERY_TOPICS_BY_CONSUMER", RoleBroker, GroupRequestHeader{}, nil},
	{RequestQuerySubscriptionByConsumer, "QUERY_SUBSCRIPTION_BY_CONSUMER", RoleBroker, TopicGroupRequestHeader{}, nil},
	{RequestGetTopicConfig, "GET_TOPIC_CONFIG", RoleBroker, TopicRequestHeader{}, nil},
	{RequestGetSubscriptionGroupConfig, "GET_SUBSCRIPTIONGROUP_CONFIG", RoleBroker, GroupRequestHeader{}, nil},
	{RequestUpdateAndGetGroupForbidden, "UPDATE_AND_GET_GROUP_FORBIDDEN", RoleBroker, GroupForbiddenRequestHeader{}, nil},
	{RequestLitePullMessage, "LITE_PULL_MESSAGE", RoleBroker, PullMessageHeader{}, PullMessageResponseHeader{}},
	{RequestQueryAssignment, "QUERY_ASSIGNMENT", RoleBroker, nil, nil},
	{RequestGetBrokerMemberGroup, "GET_BROKER_MEMBER_GROUP", RoleNamesrv, GetBrokerMemberGroupRequestHeader{}, nil},
	{RequestBrokerHeartbeat, "BROKER_HEARTBEAT", RoleNamesrv, BrokerHeartbeatRequestHeader{}, nil},
	{RequestPopLiteMessage, "POP_LITE_MESSAGE", RoleBroker, PopLiteMessageRequestHeader{}, PopLiteMessageResponseHeader{}},
	{RequestLiteSubscriptionCtl, "LITE_SUBSCRIPTION_CTL", RoleBroker, nil, nil},
	{RequestGetBrokerLiteInfo, "GET_BROKER_LITE_INFO", RoleBroker, nil, nil},
	{RequestGetParentTopicInfo, "GET_PARENT_TOPIC_INFO", RoleBroker, TopicRequestHeader{}, nil},
	{RequestGetLiteTopicInfo, "GET_LITE_TOPIC_INFO", RoleBroker, GetLiteTopicInfoRequestHeader{}, nil},
	{RequestGetLiteClientInfo, "GET_LITE_CLIENT_INFO", RoleBroker, GetLiteClientInfoRequestHeader{}, nil},
	{RequestGetLiteGroupInfo, "GET_LITE_GROUP_INFO", RoleBroker, GetLiteGroupInfoRequestHeader{}, nil},
	{RequestTriggerLiteDispatch, "TRIGGER_LITE_DISPATCH", RoleBroker, TriggerLiteDispatchRequestHeader{}, nil},
}
