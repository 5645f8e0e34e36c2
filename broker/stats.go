package broker

import (
	"peregrine/broker/control"
	"peregrine/broker/delay"
	"peregrine/broker/relay"
	"peregrine/broker/transaction"
	"peregrine/dispatch"
	"peregrine/flush"
	"peregrine/internal/message"
	"peregrine/internal/stagetime"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// Stats is a snapshot for metrics; the fields are read one after the other, not at one instant.
type Stats struct {
	Sent, SentBytes, SendFailed, FlushTimeouts                       uint64
	Pulls, Pulled, PulledBytes, ColdPulls, ColdErrors, PullsSetAside uint64
	Held                                                             int64
	Woken, HoldsRefused                                              uint64
	Control, Busy, Undecodable, Panics                               uint64
	Topics, Groups                                                   int
	ConsumerGroups, ProducerGroups, ClientConnections, OffsetPairs   int
	WaitingForSync                                                   int64
	QueueLocks                                                       int
	Transactions                                                     transaction.Stats
	LocksDenied, RepliesFailed                                       uint64
	Relay                                                            relay.Stats

	Damaged        int64 // places in the log, and entries of queues, that the start or a reader stepped over
	RecoveryMillis int64

	Wrote, Flushed, MinPhy message.PhyOffset
	Flush                  flush.Stats
	Dispatch               dispatch.Stats
	Indexer                dispatch.IndexerStats
	Index                  store.IndexStats
	Network                netio.Stats

	AppendTimes, LockWaits, PopulateTimes, SyncWaits, ControlWaits stagetime.Times

	Delays                delay.Stats
	SentBack, DeadLetters uint64

	Retention    store.RetentionStats
	Warm         store.WarmStats
	OldestStored message.Millis // store time of the first record of the log, -1 without one
	Lost         uint64         // messages that retention deleted before a group consumed them, over all groups
}

// Stats may be called by any goroutine once Start has returned.
func (b *Broker) Stats() Stats {
	s := Stats{
		ColdErrors: b.coldErrors.Load(), Held: b.polls.Held(), Woken: b.polls.Woken(), Panics: b.panics.Load(),
		Topics: b.topics.Count(), Groups: b.groups.Count(),
		Wrote: b.store.Wrote(), Flushed: b.flusher.Flushed(), MinPhy: b.store.MinPhy(),
		Flush: b.flusher.Stats(), Dispatch: b.dispatcher.Stats(), Network: b.server.Stats(),
		Retention: b.store.Retention(), Warm: b.store.Warm(), OldestStored: b.store.OldestStoreTime(), Lost: b.losses.sum(),
	}
	s.Transactions = b.transactions.Stats()
	if b.indexer != nil {
		s.Indexer = b.indexer.Stats()
	}
	if x := b.store.Index(); x != nil {
		s.Index = x.Stats()
	}
	s.Delays, s.SentBack, s.DeadLetters = b.delays.Stats(), b.retries.SentBack.Load(), b.retries.DeadLetters.Load()
	_, s.OffsetPairs = b.offsets.Pairs(0)
	s.ConsumerGroups, s.ProducerGroups, s.ClientConnections = b.clients.Counts()
	s.QueueLocks, s.LocksDenied = b.locks.Counts()
	s.Relay = b.relay.Stats()
	s.RepliesFailed = b.repliesFailed.Load()
	s.WaitingForSync = b.waitingForSync()
	recovered := b.store.Recovery()
	s.Damaged, s.RecoveryMillis = recovered.DamagedCount+b.store.DamageNoted(), recovered.Took.Milliseconds()
	for kind, sum := range map[int]*uint64{
		countSent: &s.Sent, countSentBytes: &s.SentBytes, countSendFailed: &s.SendFailed, countFlushTimeouts: &s.FlushTimeouts,
		countPulls: &s.Pulls, countPulled: &s.Pulled, countPulledBytes: &s.PulledBytes, countColdPulls: &s.ColdPulls,
		countSetAside: &s.PullsSetAside, countHoldsRefused: &s.HoldsRefused, countControl: &s.Control, countBusy: &s.Busy,
		countUndecodable: &s.Undecodable,
	} {
		for _, ls := range b.loops {
			*sum += ls.published[kind].Load()
		}
	}
	for _, ls := range b.loops {
		ls.appendTime.AddTo(&s.AppendTimes)
		ls.syncWait.AddTo(&s.SyncWaits)
	}
	b.store.AddStageTimes(&s.LockWaits, &s.PopulateTimes)
	for i := range b.control.workers {
		b.control.workers[i].waited.AddTo(&s.ControlWaits)
	}
	s.Sent += b.slow.sent.Load()
	s.SentBytes += b.slow.sentBytes.Load()
	s.SendFailed += b.slow.failed.Load()
	return s
}

// Err says why the broker is not healthy: a failed sync, or records that cannot be made visible. nil: it is.
func (b *Broker) Err() error {
	if err := b.flusher.Err(); err != nil {
		return err
	}
	return b.store.Health()
}

// Topics is the topic table's content, for the registration with the name server.
func (b *Broker) Topics() (configs []wire.TopicConfig, version wire.DataVersion) {
	all, version := b.topics.Snapshot()
	for _, t := range all {
		configs = append(configs, *t.Config())
	}
	return configs, version
}

// Dispatched is the position below which every record is in its queue.
func (b *Broker) Dispatched() message.PhyOffset { return b.dispatcher.LowWater() }

// DispatchedRecords is how many records were dispatched since the start: right behind Recover, those whose queue entries had to be looked
// at again.
func (b *Broker) DispatchedRecords() int64 { return b.dispatcher.Stats().Records }

// IndexBehind is how many bytes of the log are visible and not in the index of keys; mending says that some of them were there at the
// start already.
func (b *Broker) IndexBehind() (behind int64, mending bool) {
	if b.indexer == nil {
		return 0, false
	}
	mending = b.indexer.Mark() < b.store.Recovery().End
	return b.indexer.BehindBytes(), mending
}

// NamesrvAddr is where the name server listens, "" without one. Valid after Start.
func (b *Broker) NamesrvAddr() string {
	for i, role := range b.roles {
		if role == roleNamesrv {
			return b.server.Addrs()[i].String()
		}
	}
	return ""
}

// CloseConn ends a connection. Any goroutine.
func (b *Broker) CloseConn(ref netio.ConnRef, reason string) { pusher{b}.Close(ref, reason) }

// CloseReasons are the labels in Stats.Network.Closed.
func CloseReasons() []string { return netio.Labels() }

// rateCounters are the sums that GET_BROKER_RUNTIME_INFO shows as rates.
func (b *Broker) rateCounters() control.Counters {
	c := control.Counters{Puts: b.slow.sent.Load() + b.made.records.Load(), PutBytes: b.slow.storedBytes.Load() + b.made.bytes.Load(),
		PutsRefused: b.slow.failed.Load(), UserPuts: uint64(b.userPuts.Value()), UserGets: uint64(b.userGets.Value())}
	for _, ls := range b.loops {
		c.Puts += ls.published[countSent].Load()
		c.PutBytes += ls.published[countStoredBytes].Load()
		c.PutsRefused += ls.published[countSendFailed].Load()
		c.GetsFound += ls.published[countPullsFound].Load()
		c.GetsMissed += ls.published[countPullsMissed].Load()
		c.Gets += ls.published[countPulled].Load()
	}
	return c
}
