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
