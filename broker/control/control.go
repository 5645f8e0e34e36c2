// Package control answers what is neither a send nor a pull: heartbeats, consumer offsets, queue bounds, messages sent
// back, and the administrators' requests about topics, groups, clients and the broker itself. It mirrors ClientManageProcessor,
// ConsumerManageProcessor and AdminBrokerProcessor of RocketMQ 5.5.0; codes and remarks are the original's.
//
// It holds no state of its own but the samples behind the rates of code 28: the tables are in their packages.
//
// Every processor may block on a disk and make bodies of megabytes, so control workers call them, never event loops.
package control

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"peregrine/broker/clients"
	"peregrine/broker/delay"
	"peregrine/broker/groups"
	"peregrine/broker/locks"
	"peregrine/broker/offsets"
	"peregrine/broker/relay"
	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/broker/transaction"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// Deps are what the processors work on.
type Deps struct {
	Config *config.Live
	// ConfigFile is the broker.conf that changed settings are written to; "": there is none.
	ConfigFile string
	FS         sysio.FS
	Store      *store.Store
	Topics     *topics.Table
	Groups     *groups.Table
	Clients    *clients.Registry
	Offsets    *offsets.Table
	Locks      *locks.Table
	Relay      *relay.Table
	Stats      *stats.Table
	// Pulled is where the next pull of each group begins.
	Pulled *offsets.Positions
	// WakePulls runs the held pulls of a queue again.
	WakePulls func(topic string, id message.QueueID)
	// Pusher reaches clients.
	Pusher clients.Pusher
	Rates  *Rates
	Delays *delay.Service
	// Sender stores what is sent back; Retries counts it.
	Sender  Sender
	Retries *Retries
	// Transactions ends and resumes transactions.
	Transactions *transaction.Service
	// Addr is the address that clients are told, host:port.
	Addr string
	// Dispatched is the position up to which every record is in its queue.
	Dispatched func() message.PhyOffset
	// IndexBehind is how many bytes of the log are visible and not in the index; mending says that it does not yet hold what was
	// there at the start.
	IndexBehind func() (behind int64, mending bool)
	// MemoryWindow is how many bytes at the end of the log count as lying in memory (accessMessageInMemoryMaxRatio of it).
	MemoryWindow func() int64
	Boot         message.Millis
	Logger       *slog.Logger
	Now          func() message.Millis
}

// Request is one request. Cmd is borrowed until the processor returns.
type Request struct {
	Cmd    *wire.Command
	Ref    netio.ConnRef
	Remote netip.AddrPort
	// Later is for a processor that does not have its answer yet: it calls Later, returns Pending, and calls what Later returned
	// once with the answer, from any goroutine.
	Later func() func(wire.Reply)
}

// Pending is what a processor returns that answers later.
var Pending = wire.Reply{None: true}

// Processor answers one kind of request.
type Processor func(*Request) wire.Reply

// service is the receiver of all processors.
type service struct {
	Deps
	saveWarned      atomic.Int64 // time of the last warning about a failed save
	settingsChanged atomic.Int64 // time of the last change of settings
	litePops        atomic.Int64 // pops of lite topics that wait
}

// Processors returns the processors by request code.
func Processors(d Deps) map[wire.RequestCode]Processor {
	s := &service{Deps: d}
	return map[wire.RequestCode]Processor{
		wire.RequestQueryMessage:                         s.queryMessage,
		wire.RequestQueryConsumerOffset:                  s.queryOffset,
		wire.RequestUpdateConsumerOffset:                 s.updateOffset,
		wire.RequestUpdateAndCreateTopic:                 s.updateTopic,
		wire.RequestUpdateAndCreateTopicList:             s.updateTopicList,
		wire.RequestGetAllTopicConfig:                    s.allTopicConfig,
		wire.RequestUpdateBrokerConfig:                   s.updateConfig,
		wire.RequestGetBrokerConfig:                      s.getConfig,
		wire.RequestGetBrokerRuntimeInfo:                 s.runtimeInfo,
		wire.RequestSearchOffsetByTimestamp:              s.searchOffset,
		wire.RequestGetMaxOffset:                         s.maxOffset,
		wire.RequestGetMinOffset:                         s.minOffset,
		wire.RequestGetEarliestMsgStoreTime:              s.earliestStoreTime,
		wire.RequestViewMessageByID:                      s.viewMessage,
		wire.RequestHeartBeat:                            s.heartbeat,
		wire.RequestUnregisterClient:                     s.unregisterClient,
		wire.RequestConsumerSendMsgBack:                  s.sendBack,
		wire.RequestGetConsumerListByGroup:               s.consumerList,
		wire.RequestEndTransaction:                       s.endTransaction,
		wire.RequestLockBatchMQ:                          s.lockQueues,
		wire.RequestUnlockBatchMQ:                        s.unlockQueues,
		wire.RequestGetAllConsumerOffset:                 s.allOffsets,
		wire.RequestGetAllDelayOffset:                    s.allDelayOffsets,
		wire.RequestCheckClientConfig:                    s.checkClientConfig,
		wire.RequestUpdateAndCreateSubscriptionGroup:     s.updateGroup,
		wire.RequestGetAllSubscriptionGroupConfig:        s.allGroupConfig,
		wire.RequestGetTopicStatsInfo:                    s.topicStats,
		wire.RequestGetConsumerConnectionList:            s.consumerConnections,
		wire.RequestGetProducerConnectionList:            s.producerConnections,
		wire.RequestDeleteSubscriptionGroup:              s.deleteGroup,
		wire.RequestDeleteTopicInBroker:                  s.deleteTopic,
		wire.RequestCleanExpiredConsumeQueue:             s.cleanExpiredQueues,
		wire.RequestCleanUnusedTopic:                     s.cleanUnusedTopics,
		wire.RequestDeleteExpiredCommitLog:               s.deleteExpiredLog,
		wire.RequestUpdateAndCreateSubscriptionGroupList: s.updateGroupList,
		wire.RequestQueryTopicConsumeByWho:               s.topicConsumeByWho,
		wire.RequestGetConsumeStats:                      s.consumeStats,
		wire.RequestGetBrokerConsumeStats:                s.brokerConsumeStats,
		wire.RequestQueryConsumeTimeSpan:                 s.consumeTimeSpan,
		wire.RequestInvokeBrokerToResetOffset:            s.resetOffset,
		wire.RequestCloneGroupOffset:                     s.cloneOffset,
		wire.RequestInvokeBrokerToGetConsumerStatus:      s.consumerStatus,
		wire.RequestGetConsumerRunningInfo:               s.runningInfo,
		wire.RequestConsumeMessageDirectly:               s.consumeDirectly,
		wire.RequestViewBrokerStatsData:                  s.viewStats,
		wire.RequestQueryConsumeQueue:                    s.queryConsumeQueue,
		wire.RequestGetSystemTopicListFromBroker:         s.systemTopics,
		wire.RequestGetAllProducerInfo:                   s.allProducers,
		wire.RequestQueryTopicsByConsumer:                s.topicsByConsumer,
		wire.RequestQuerySubscriptionByConsumer:          s.subscriptionByConsumer,
		wire.RequestGetTopicConfig:                       s.topicConfig,
		wire.RequestGetSubscriptionGroupConfig:           s.groupConfig,
		wire.RequestResumeCheckHalfMessage:               s.resumeCheckHalfMessage,
		wire.RequestUpdateAndGetGroupForbidden:           s.groupForbidden,
		wire.RequestQueryAssignment:                      s.queryAssignment,
		wire.RequestPopLiteMessage:                       s.popLite,
		wire.RequestLiteSubscriptionCtl:                  s.liteSubscriptionCtl,
		wire.RequestGetBrokerLiteInfo:                    s.brokerLiteInfo,
		wire.RequestGetParentTopicInfo:                   s.parentTopicInfo,
		wire.RequestGetLiteTopicInfo:                     s.liteTopicInfo,
		wire.RequestGetLiteClientInfo:                    s.liteClientInfo,
		wire.RequestGetLiteGroupInfo:                     s.liteGroupInfo,
		wire.RequestTriggerLiteDispatch:                  s.triggerLiteDispatch,
	}
}

// noFields makes an answer carry an empty ext map, as some of the original's do.
type noFields struct{}

func success(header any, body []byte) wire.Reply {
	return wire.Reply{Code: wire.ResponseSuccess, Header: header, Body: body}
}

func failure(code wire.ResponseCode, remark string) wire.Reply {
	return wire.Reply{Code: code, Remark: remark}
}

func refused(r *wire.Refusal) wire.Reply {
	if r == nil {
		return success(nil, nil)
	}
	return r.Reply()
}

// missing says whether err is about a header field that was not there, and which.
func missing(err error) (field string, ok bool) {
	var headerErr *wire.HeaderError
	if errors.As(err, &headerErr) && headerErr.Reason == wire.ReasonMissing {
		return headerErr.Field, true
	}
	return "", false
}
