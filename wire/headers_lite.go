package wire

// Headers about lite topics (5.5.0); see headers_broker.go.

// PopLiteMessageRequestHeader is the header of POP_LITE_MESSAGE (200070). Times are in ms; a BornTime of 0 means now.
type PopLiteMessageRequestHeader struct {
	ClientID      string `wire:"clientId,required"`
	ConsumerGroup string `wire:"consumerGroup,required"`
	Topic         string `wire:"topic,required"`
	MaxMsgNum     int32  `wire:"maxMsgNum"`
	InvisibleTime int64  `wire:"invisibleTime"`
	PollTime      int64  `wire:"pollTime"`
	BornTime      int64  `wire:"bornTime"`
	AttemptID     string `wire:"attemptId,omitempty"`
}

// PopLiteMessageResponseHeader is in every answer to POP_LITE_MESSAGE. OrderCountInfo is nil in a refusal.
type PopLiteMessageResponseHeader struct {
	PopTime        int64   `wire:"popTime"`
	InvisibleTime  int64   `wire:"invisibleTime"`
	ReviveQID      int32   `wire:"reviveQid"`
	OrderCountInfo *string `wire:"orderCountInfo"`
}

// GetLiteTopicInfoRequestHeader is the header of GET_LITE_TOPIC_INFO (200076).
type GetLiteTopicInfoRequestHeader struct {
	ParentTopic string `wire:"parentTopic,required"`
	LiteTopic   string `wire:"liteTopic,omitempty"`
}

// GetLiteClientInfoRequestHeader is the header of GET_LITE_CLIENT_INFO (200077). MaxCount bounds the lite topics told, when it is given.
type GetLiteClientInfoRequestHeader struct {
	ParentTopic string  `wire:"parentTopic,required"`
	Group       *string `wire:"group"`
	ClientID    *string `wire:"clientId"`
	MaxCount    int32   `wire:"maxCount"`
}

// GetLiteGroupInfoRequestHeader is the header of GET_LITE_GROUP_INFO (200078): one lite topic, or without it the TopK with
// the longest lag.
type GetLiteGroupInfoRequestHeader struct {
	Group     string  `wire:"group,required"`
	LiteTopic *string `wire:"liteTopic"`
	TopK      int32   `wire:"topK"`
}

// TriggerLiteDispatchRequestHeader is the header of TRIGGER_LITE_DISPATCH (200079).
type TriggerLiteDispatchRequestHeader struct {
	Group    string `wire:"group,required"`
	ClientID string `wire:"clientId,omitempty"`
}
