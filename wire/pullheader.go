package wire

// Bits of PullMessageHeader.SysFlag (org.apache.rocketmq.common.sysflag.PullSysFlag).
const (
	PullSysFlagCommitOffset int32 = 0x1  // commit CommitOffset for the group
	PullSysFlagSuspend      int32 = 0x2  // the request may be held
	PullSysFlagSubscription int32 = 0x4  // filter by this request's expression, not the heartbeat's
	PullSysFlagClassFilter  int32 = 0x8  // legacy filter server
	PullSysFlagLitePull     int32 = 0x10 // sent by a lite pull consumer
)

// PullMessageHeader is the header of PULL_MESSAGE and LITE_PULL_MESSAGE (PullMessageRequestHeader). The []byte fields
// alias the Command's memory.
type PullMessageHeader struct {
	ConsumerGroup        []byte
	Topic                []byte
	QueueID              int32
	QueueOffset          int64 // first offset wanted, in messages
	MaxMsgNums           int32
	SysFlag              int32
	CommitOffset         int64 // counts only with PullSysFlagCommitOffset
	SuspendTimeoutMillis int64
	Subscription         []byte // filter expression, nil when absent
	SubVersion           int64
	ExpressionType       []byte // TAG when absent
	BrokerName           []byte
	MaxMsgBytes          int32 // sent by 5.x, not used by brokers
	RequestSource        int32 // -1 client, 0 and up a proxy
}

const (
	seenPullGroup = 1 << iota
	seenPullTopic
	seenPullQueueID
	seenPullQueueOffset
	seenPullMaxMsgNums
	seenPullSysFlag
	seenPullCommitOffset
	seenPullSuspend
	seenPullSubVersion
	pullRequired = 1<<iota - 1
)

var pullFieldNames = [...]string{"consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset",
	"suspendTimeoutMillis", "subVersion"}

// Decode reads the header of codes 11 and 361. The error is a *HeaderError.
//
// hot: 0 allocs without error.
func (h *PullMessageHeader) Decode(c *Command) error {
	*h = PullMessageHeader{RequestSource: -1}
	seen := 0
	for i := range c.ext.table {
		e := &c.ext.table[i]
		value, ok, reason := e.value, true, ReasonInt32
		switch string(e.key) {
		case "consumerGroup":
			h.ConsumerGroup = value
			seen |= seenPullGroup
		case "topic":
			h.Topic = value
			seen |= seenPullTopic
		case "queueId":
			h.QueueID, ok = parseInt32(value)
			seen |= seenPullQueueID
		case "queueOffset":
			h.QueueOffset, ok = parseInt64(value)
			reason = ReasonInt64
			seen |= seenPullQueueOffset
		case "maxMsgNums":
			h.MaxMsgNums, ok = parseInt32(value)
			seen |= seenPullMaxMsgNums
		case "sysFlag":
			h.SysFlag, ok = parseInt32(value)
			seen |= seenPullSysFlag
		case "commitOffset":
			h.CommitOffset, ok = parseInt64(value)
			reason = ReasonInt64
			seen |= seenPullCommitOffset
		case "suspendTimeoutMillis":
			h.SuspendTimeoutMillis, ok = parseInt64(value)
			reason = ReasonInt64
			seen |= seenPullSuspend
		case "subscription":
			h.Subscription = value
		case "subVersion":
			h.SubVersion, ok = parseInt64(value)
			reason = ReasonInt64
			seen |= seenPullSubVersion
		case "expressionType":
			h.ExpressionType = value
		case "bname":
			h.BrokerName = value
		case "maxMsgBytes":
			h.MaxMsgBytes, _, ok = optionalInt32(value)
		case "requestSource":
			var has bool
			if h.RequestSource, has, ok = optionalInt32(value); !has {
				h.RequestSource = -1
			}
		}
		if !ok {
			return fieldInvalid(string(e.key), reason, value)
		}
	}
	if seen != pullRequired {
		for i, name := range pullFieldNames {
			if seen&(1<<i) == 0 {
				return fieldMissing(name)
			}
		}
	}
	return nil
}
