package topics

import (
	"strings"

	"peregrine/broker/names"
	"peregrine/internal/message"
	"peregrine/wire"
)

// Names that mean something to the broker (TopicValidator, MixAll, 5.5.0).
const (
	AutoCreateTopic   = "TBW102" // the template of topics made by a send
	SelfTestTopic     = "SELF_TEST_TOPIC"
	BenchmarkTopic    = "BenchmarkTest"
	OffsetMovedTopic  = "OFFSET_MOVED_EVENT"
	ScheduleTopic     = message.ScheduleTopic
	TraceTopic        = "RMQ_SYS_TRACE_TOPIC"
	HalfTopic         = "RMQ_SYS_TRANS_HALF_TOPIC"
	OpHalfTopic       = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	rocksHalfTopic    = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
	rocksOpHalfTopic  = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
	CheckMaxTimeTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	checkpointTopic   = "CHECKPOINT_TOPIC"
	TimerTopic        = "rmq_sys_wheel_timer"

	RetryPrefix       = "%RETRY%"
	DLQPrefix         = "%DLQ%"
	LightQueuePrefix  = "%LMQ%" // of light message queues, which are no topics
	systemPrefix      = "rmq_sys_"
	replySuffix       = "_REPLY_TOPIC"
	revivePrefix      = "rmq_sys_REVIVE_LOG_"
	syncMemberPrefix  = "rmq_sys_SYNC_BROKER_MEMBER_"
	scheduleQueueNums = 18 // constant, however many levels are configured
)

// alwaysSystem are system topics whatever the configuration; the ones named after cluster and broker are added at start.
func alwaysSystem() map[string]bool {
	return map[string]bool{
		AutoCreateTopic: true, ScheduleTopic: true, BenchmarkTopic: true, HalfTopic: true, TraceTopic: true, OpHalfTopic: true,
		CheckMaxTimeTopic: true, SelfTestTopic: true, OffsetMovedTopic: true, checkpointTopic: true,
		rocksHalfTopic: true, rocksOpHalfTopic: true,
	}
}

// SendForbidden tells the topics that only the broker itself writes. No send makes one of them.
func SendForbidden(name string) bool {
	switch name {
	case ScheduleTopic, HalfTopic, OpHalfTopic, rocksHalfTopic, rocksOpHalfTopic, CheckMaxTimeTopic, SelfTestTopic, OffsetMovedTopic:
		return true
	}
	return false
}

// CheckName tests a topic name by the rules of TopicValidator.validateTopic (5.5.0): nil, or the refusal with code 29 and
// the original's text. It allocates only for a refusal.
func CheckName(name string) *wire.Refusal {
	switch {
	case isBlank(name):
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified topic is blank.")
	case !names.Legal(name):
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified topic: "+names.Quote(name)+", contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
	case strings.HasPrefix(name, RetryPrefix) || strings.HasPrefix(name, DLQPrefix):
		if len(name) > RetryNameBytesMax {
			return wire.Refuse(wire.ResponseInvalidParameter, "The specified topic is DLQ or Retry topic: "+names.Quote(name)+", and it's longer than topic max length: 255")
		}
	case len(name) > NameBytesMax:
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified topic: "+names.Quote(name)+", is longer than topic max length: 127")
	}
	return nil
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }
