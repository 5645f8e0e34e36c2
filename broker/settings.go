package broker

import (
	"time"

	"peregrine/broker/topics"
	"peregrine/broker/transaction"
	"peregrine/dispatch"
	"peregrine/flush"
	"peregrine/internal/config"
	"peregrine/internal/message"
)

// settings is what sends and pulls take out of the configuration and what can change at run time: immutable, replaced as a whole
// (Broker.set). A request that needs more than one of them loads it once.
type settings struct {
	*config.Config

	readable         bool
	writable         bool
	syncFlushTimeout time.Duration
	acceptSendsFrom  message.Millis
	memoryWindow     message.PhyOffset
	propertiesSuffix []byte // MSG_REGION, TRACE_ON and CLUSTER as every single message gets them
	traceOn          string
}

func settingsOf(c *config.Config, memoryBytes uint64) *settings {
	s := &settings{
		Config:           c,
		readable:         int32(c.BrokerPermission)&topics.PermRead != 0,
		writable:         int32(c.BrokerPermission)&topics.PermWrite != 0,
		syncFlushTimeout: time.Duration(c.SyncFlushTimeout) * time.Millisecond,
		acceptSendsFrom:  message.Millis(c.StartAcceptSendRequestTimeStamp),
		memoryWindow:     memoryWindowOf(memoryBytes, c.AccessMessageInMemoryMaxRatio),
		traceOn:          boolText(c.TraceOn),
	}
	for _, p := range [][2]string{{message.PropertyMsgRegion, c.RegionId}, {message.PropertyTraceSwitch, s.traceOn}, {message.PropertyCluster, c.BrokerClusterName}} {
		s.propertiesSuffix = message.AppendProperty(s.propertiesSuffix, p[0], p[1])
	}
	return s
}

// configure puts a changed configuration into effect, see config.Live.Watch.
func (b *Broker) configure(c *config.Config, memoryBytes uint64) {
	b.store.Configure(c) // first: it must take what sends may carry
	b.set.Store(settingsOf(c, memoryBytes))
	b.topics.Configure(topicSettings(c))
	b.groups.Configure(c.AutoCreateSubscriptionGroup)
	b.clients.Configure(c.RealTimeNotifyConsumerChange)
	b.flusher.Configure(flushPace(c))
	b.keeper.Configure(keeperPace(c))
	if b.transactions != nil {
		b.transactions.Configure(transactionSettings(c))
	}
}

func topicSettings(c *config.Config) topics.Settings {
	return topics.Settings{
		Cluster: c.BrokerClusterName, Broker: c.BrokerName, AutoCreate: c.AutoCreateTopicEnable,
		DefaultQueueNums: int32(c.DefaultTopicQueueNums), ClusterTopic: c.ClusterTopicEnable, BrokerTopic: c.BrokerTopicEnable,
		Trace: c.TraceTopicEnable, TraceTopic: c.MsgTraceTopicName, TimerWheel: c.TimerWheelEnable,
		ReviveQueueNums: reviveQueueNums, ProtectSystemTopics: c.ValidateSystemTopicWhenUpdateTopic,
		MixedMessageType: c.EnableMixedMessageType, Permission: int32(c.BrokerPermission),
	}
}

func flushPace(c *config.Config) flush.Pace {
	return flush.Pace{Interval: time.Duration(c.FlushIntervalCommitLog) * time.Millisecond, LeastPages: int64(c.FlushCommitLogLeastPages),
		ThoroughInterval: time.Duration(c.FlushCommitLogThoroughInterval) * time.Millisecond}
}

func keeperPace(c *config.Config) dispatch.KeeperPace {
	return dispatch.KeeperPace{Interval: time.Duration(c.FlushIntervalConsumeQueue) * time.Millisecond, LeastPages: c.FlushConsumeQueueLeastPages,
		ThoroughInterval: time.Duration(c.FlushConsumeQueueThoroughInterval) * time.Millisecond}
}

func transactionSettings(c *config.Config) transaction.Settings {
	return transaction.Settings{
		BrokerName: c.BrokerName, TimeOut: message.Millis(c.TransactionTimeOut), Interval: time.Duration(c.TransactionCheckInterval) * time.Millisecond,
		CheckMax: c.TransactionCheckMax, OpBytesMax: c.TransactionOpMsgMaxSize, OpInterval: message.Millis(c.TransactionOpBatchInterval),
		ReservedTime: message.Millis(c.FileReservedTime) * 3600_000,
	}
}
