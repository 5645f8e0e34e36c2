package wire

// PullMessageResponse is the ext part of the answer to a pull (PullMessageResponseHeader).
type PullMessageResponse struct {
	SuggestWhichBrokerID int64 // 0 = master
	NextBeginOffset      int64
	MinOffset            int64
	MaxOffset            int64
	TopicSysFlag         int32
	GroupSysFlag         int32
	ForbiddenType        int32 // with NO_PERMISSION: 1 broker, 2 group, 3 topic, 4 broadcast, 5 subscription
}

// AppendPullResponse appends the answer frame to a pull to dst, up to and without its body: the length covers bodyLen
// bytes that the caller writes behind it. r is borrowed. With the codes SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY and
// PULL_OFFSET_MOVED all offsets are written, as clients need them; other codes write only ForbiddenType if it is set.
// A nil r leaves the ext fields out.
//
// hot: 0 allocs when dst has room.
func AppendPullResponse(dst []byte, enc Encoding, opaque int32, code ResponseCode, remark string, r *PullMessageResponse, bodyLen int) []byte {
	w := beginFrame(dst, enc, int32(code), opaque, flagResponse, Version, LanguageJava, remark)
	if r == nil {
		return w.finish(bodyLen)
	}
	w.beginExt()
	switch code {
	case ResponseSuccess, ResponsePullNotFound, ResponsePullRetryImmediately, ResponsePullOffsetMoved:
		w.num("suggestWhichBrokerId", r.SuggestWhichBrokerID)
		w.num("groupSysFlag", int64(r.GroupSysFlag))
		w.num("nextBeginOffset", r.NextBeginOffset)
		w.num("maxOffset", r.MaxOffset)
		w.num("minOffset", r.MinOffset)
		w.num("topicSysFlag", int64(r.TopicSysFlag))
	default:
		if r.ForbiddenType != 0 {
			w.num("forbiddenType", int64(r.ForbiddenType))
		}
	}
	w.endExt()
	return w.finish(bodyLen)
}

// Decode reads the answer to a pull; absent fields are 0. The error is a *HeaderError.
//
// hot: 0 allocs without error.
func (r *PullMessageResponse) Decode(c *Command) error {
	*r = PullMessageResponse{}
	for i := range c.ext.table {
		e := &c.ext.table[i]
		ok, reason := true, ReasonInt64
		switch string(e.key) {
		case "suggestWhichBrokerId":
			r.SuggestWhichBrokerID, ok = optionalInt64(e.value)
		case "nextBeginOffset":
			r.NextBeginOffset, ok = optionalInt64(e.value)
		case "minOffset":
			r.MinOffset, ok = optionalInt64(e.value)
		case "maxOffset":
			r.MaxOffset, ok = optionalInt64(e.value)
		case "topicSysFlag":
			r.TopicSysFlag, _, ok = optionalInt32(e.value)
			reason = ReasonInt32
		case "groupSysFlag":
			r.GroupSysFlag, _, ok = optionalInt32(e.value)
			reason = ReasonInt32
		case "forbiddenType":
			r.ForbiddenType, _, ok = optionalInt32(e.value)
			reason = ReasonInt32
		}
		if !ok {
			return fieldInvalid(string(e.key), reason, e.value)
		}
	}
	return nil
}

// AppendSendRequestV2 appends a whole SEND_MESSAGE_V2 frame, or SEND_BATCH_MESSAGE when h.Batch is set, to dst.
// flag is 0 or FlagOneway. h and body are borrowed.
//
// hot: 0 allocs when dst has room.
func AppendSendRequestV2(dst []byte, enc Encoding, opaque, flag int32, h *SendMessageHeader, body []byte) []byte {
	code := RequestSendMessageV2
	if h.Batch {
		code = RequestSendBatchMessage
	}
	w := beginFrame(dst, enc, int32(code), opaque, flag, Version, LanguageGo, "")
	w.beginExt()
	w.text("a", h.ProducerGroup)
	w.text("b", h.Topic)
	w.text("c", h.DefaultTopic)
	w.num("d", int64(h.DefaultTopicQueueNums))
	w.num("e", int64(h.QueueID))
	w.num("f", int64(h.SysFlag))
	w.num("g", h.BornTimestamp)
	w.num("h", int64(h.Flag))
	if h.Properties != nil {
		w.text("i", h.Properties)
	}
	w.num("j", int64(h.ReconsumeTimes))
	w.boolean("k", h.UnitMode)
	if h.HasMaxReconsumeTimes {
		w.num("l", int64(h.MaxReconsumeTimes))
	}
	w.boolean("m", h.Batch)
	if h.BrokerName != nil {
		w.text("n", h.BrokerName)
	}
	w.endExt()
	return append(w.finish(len(body)), body...)
}

// AppendPullRequest appends a whole pull frame to dst; code is RequestPullMessage or RequestLitePullMessage. h is borrowed.
//
// hot: 0 allocs when dst has room.
func AppendPullRequest(dst []byte, enc Encoding, code RequestCode, opaque int32, h *PullMessageHeader) []byte {
	w := beginFrame(dst, enc, int32(code), opaque, 0, Version, LanguageGo, "")
	w.beginExt()
	w.text("consumerGroup", h.ConsumerGroup)
	w.text("topic", h.Topic)
	w.num("queueId", int64(h.QueueID))
	w.num("queueOffset", h.QueueOffset)
	w.num("maxMsgNums", int64(h.MaxMsgNums))
	w.num("sysFlag", int64(h.SysFlag))
	w.num("commitOffset", h.CommitOffset)
	w.num("suspendTimeoutMillis", h.SuspendTimeoutMillis)
	if h.Subscription != nil {
		w.text("subscription", h.Subscription)
	}
	w.num("subVersion", h.SubVersion)
	if h.ExpressionType != nil {
		w.text("expressionType", h.ExpressionType)
	}
	if h.BrokerName != nil {
		w.text("bname", h.BrokerName)
	}
	w.endExt()
	return w.finish(0)
}
