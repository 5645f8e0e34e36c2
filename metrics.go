package main

import (
	"fmt"
	"sync"
	"time"

	"peregrine/broker"
	"peregrine/broker/transaction"
	"peregrine/flush"
	"peregrine/internal/stagetime"
	"peregrine/perf"
)

// statsKeep is how old the broker's counters may be that a scrape shows: all series of one scrape come from one snapshot.
const statsKeep = 100 * time.Millisecond

// snapshot takes the broker's counters once a scrape instead of once a series.
type snapshot struct {
	service *service
	mu      sync.Mutex // guards the fields below
	taken   time.Time
	stats   broker.Stats
}

func (s *snapshot) get() *broker.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.service.running.Load() && time.Since(s.taken) > statsKeep {
		s.stats, s.taken = s.service.broker.Stats(), time.Now()
	}
	stats := s.stats
	return &stats
}

// registerMetrics names what the broker counts. Before the ports are open everything is 0. OPERATIONS.md has the list.
func (s *service) registerMetrics(r *perf.Registry) {
	snap := &snapshot{service: s}
	counter := func(name, help string, read func(*broker.Stats) uint64) {
		r.Counter("peregrine_"+name, help, func() uint64 { return read(snap.get()) })
	}
	gauge := func(name, help string, read func(*broker.Stats) float64) {
		r.Gauge("peregrine_"+name, help, func() float64 { return read(snap.get()) })
	}
	type stats = broker.Stats

	counter("messages_in_total", "messages stored", func(s *stats) uint64 { return s.Sent })
	counter("message_bytes_in_total", "bytes of their bodies", func(s *stats) uint64 { return s.SentBytes })
	counter("send_refused_total", "messages refused, whatever the reason", func(s *stats) uint64 { return s.SendFailed })
	counter("send_flush_timeout_total", "sends answered FLUSH_DISK_TIMEOUT", func(s *stats) uint64 { return s.FlushTimeouts })
	counter("pulls_total", "pull requests", func(s *stats) uint64 { return s.Pulls })
	counter("messages_out_total", "messages handed to consumers from memory", func(s *stats) uint64 { return s.Pulled })
	counter("message_bytes_out_total", "bytes of their records", func(s *stats) uint64 { return s.PulledBytes })
	counter("pulls_cold_total", "pulls that a cold reader answered: what they read may have left memory, or an earlier run wrote it", func(s *stats) uint64 { return s.ColdPulls })
	counter("pulls_cold_failed_total", "of these, the ones that met an error", func(s *stats) uint64 { return s.ColdErrors })
	counter("pulls_set_aside_total", "pulls that waited because their client did not read", func(s *stats) uint64 { return s.PullsSetAside })
	gauge("pulls_held", "pulls that wait for a message (limit heldPullsMax)", func(s *stats) float64 { return float64(s.Held) })
	counter("pulls_woken_total", "held pulls woken by an arrival", func(s *stats) uint64 { return s.Woken })
	counter("holds_refused_total", "pulls answered at once because too many were held (heldPullsMax, heldPullsPerConnMax)", func(s *stats) uint64 { return s.HoldsRefused })
	counter("control_requests_total", "requests for the control workers", func(s *stats) uint64 { return s.Control })
	counter("busy_total", "requests answered SYSTEM_BUSY (controlJobsMax, controlBytesMax, coldJobsMax, syncAnswersMax, lags)", func(s *stats) uint64 { return s.Busy })
	counter("undecodable_total", "frames that closed their connection", func(s *stats) uint64 { return s.Undecodable })
	counter("panics_total", "bugs met while serving", func(s *stats) uint64 { return s.Panics + s.Network.Panics })

	gauge("commitlog_end_bytes", "end of the log", func(s *stats) float64 { return float64(s.Wrote) })
	gauge("commitlog_begin_bytes", "begin of the log", func(s *stats) float64 { return float64(s.MinPhy) })
	gauge("commitlog_damaged_places", "damaged places in log and queues that the start or a reader stepped over; dump --verify lists them", func(s *stats) float64 { return float64(s.Damaged) })
	gauge("commitlog_warm_bytes", "warm ahead of the end of the log (warmMapedFileEnable)", func(s *stats) float64 { return float64(s.Warm.AheadBytes) })
	gauge("commitlog_locked_bytes", "of the log's files, locked into memory (limits RLIMIT_MEMLOCK, lockedFilesMax, lockedMemoryPercent)", func(s *stats) float64 { return float64(s.Warm.LockedBytes) })
	gauge("recovery_seconds", "how long the start took to recover the log", func(s *stats) float64 { return float64(s.RecoveryMillis) / 1000 })
	gauge("unflushed_bytes", "stored, not yet on the device (limit peregrine.unflushedMaxBytes)", func(s *stats) float64 { return float64(s.Wrote - s.Flushed) })
	gauge("dispatch_behind_bytes", "stored, not yet visible (limit peregrine.dispatchLagMaxBytes)", func(s *stats) float64 { return float64(s.Dispatch.BehindBytes) })
	gauge("dispatch_behind_seconds", "age of the newest visible message while others wait", func(s *stats) float64 { return float64(s.Dispatch.BehindMs) / 1000 })
	gauge("index_behind_bytes", "visible, not yet found by key", func(s *stats) float64 { return float64(s.Indexer.BehindBytes) })
	gauge("index_paused", "1 while keys are not indexed because something failed (limit IndexRetryInterval between two attempts)", func(s *stats) float64 {
		if s.Indexer.Paused {
			return 1
		}
		return 0
	})
	gauge("index_files", "index files", func(s *stats) float64 { return float64(s.Index.Files) })
	gauge("index_bytes", "allocated for index files", func(s *stats) float64 { return float64(s.Index.Bytes) })
	gauge("index_items", "keys in the newest index file (limit maxIndexNum)", func(s *stats) float64 { return float64(s.Index.Items) })
	counter("indexed_total", "messages that the index stage has looked at", func(s *stats) uint64 { return uint64(s.Indexer.Records) })
	gauge("sends_waiting_for_sync", "sends that wait for the flusher (limit syncAnswersMax)", func(s *stats) float64 { return float64(s.WaitingForSync) })
	counter("syncs_total", "syncs of the log", func(s *stats) uint64 { return uint64(s.Flush.Syncs) })
	s.registerSyncTimes(r, snap)
	s.registerStageTimes(r, snap)
	s.registerTransactions(r, snap)
	s.registerRetention(r, snap)
	s.registerDelays(r, snap)

	gauge("topics", "topics", func(s *stats) float64 { return float64(s.Topics) })
	gauge("groups", "subscription groups", func(s *stats) float64 { return float64(s.Groups) })
	gauge("offset_pairs", "pairs of group and topic with committed offsets (limit PairsMax)", func(s *stats) float64 { return float64(s.OffsetPairs) })
	gauge("client_connections", "connections that sent a heartbeat (limit RegistrationsMax)", func(s *stats) float64 { return float64(s.ClientConnections) })
	gauge("consumer_groups_online", "consumer groups with a member", func(s *stats) float64 { return float64(s.ConsumerGroups) })
	gauge("producer_groups_online", "producer groups with a member", func(s *stats) float64 { return float64(s.ProducerGroups) })
	counter("replies_failed_total", "replies (324, 325) that did not reach their requester", func(s *stats) uint64 { return s.RepliesFailed })
	gauge("client_calls_waiting", "calls to clients that wait for an answer (limit CallsMax)", func(s *stats) float64 { return float64(s.Relay.Waiting) })
	counter("client_calls_timed_out_total", "calls to clients without an answer in time", func(s *stats) uint64 { return s.Relay.Timeouts })
	counter("client_calls_refused_total", "calls to clients over the limit", func(s *stats) uint64 { return s.Relay.Refused })
	gauge("queue_locks", "queues locked by orderly consumers (limit LocksMax)", func(s *stats) float64 { return float64(s.QueueLocks) })
	counter("queue_locks_denied_total", "queues that an orderly consumer asked for in vain: another client has them, or LocksMax", func(s *stats) uint64 { return s.LocksDenied })
	gauge("connections", "open connections (limit peregrine.maxConnections)", func(s *stats) float64 { return float64(s.Network.Connections) })
	counter("connections_total", "connections accepted", func(s *stats) uint64 { return s.Network.Accepted })
	counter("connections_refused_total", "connections over the limit", func(s *stats) uint64 { return s.Network.Refused })
	counter("network_bytes_in_total", "bytes read", func(s *stats) uint64 { return s.Network.BytesIn })
	counter("network_bytes_out_total", "bytes written", func(s *stats) uint64 { return s.Network.BytesOut })
	counter("frames_in_total", "requests read", func(s *stats) uint64 { return s.Network.Frames })
	gauge("requests_in_flight", "requests outside of the event loops", func(s *stats) float64 { return float64(s.Network.InFlight) })
	gauge("outbound_pending_bytes", "answers that clients have not read", func(s *stats) float64 { return float64(s.Network.OutboundPending) })
	gauge("incomplete_frame_bytes", "held for frames that have not arrived whole", func(s *stats) float64 { return float64(s.Network.GatheredBytes) })
	counter("answers_dropped_total", "answers whose connection was gone", func(s *stats) uint64 { return s.Network.AnswersDropped })
	counter("mail_dropped_total", "values that met a full mailbox", func(s *stats) uint64 { return s.Network.MailDropped })
	counter("log_lines_dropped_total", "log lines lost to a slow sink", func(*stats) uint64 { return s.log.Dropped() })
	counter("log_lines_suppressed_total", "log lines left out because their text repeated itself (logBurst, logRefill)", func(*stats) uint64 { return s.log.Suppressed() })
	s.registerNamesrv(r)
	for _, reason := range broker.CloseReasons() {
		counter(fmt.Sprintf("connections_closed_total{reason=%q}", reason), "connections closed", func(s *stats) uint64 { return s.Network.Closed[reason] })
	}
}

// registerTransactions names what half messages come to.
func (s *service) registerTransactions(r *perf.Registry, snap *snapshot) {
	counter := func(name, help string, read func(*transaction.Stats) uint64) {
		r.Counter("peregrine_transaction_"+name, help, func() uint64 { return read(&snap.get().Transactions) })
	}
	counter("commits_total", "transactions committed", func(s *transaction.Stats) uint64 { return s.Commits })
	counter("rollbacks_total", "transactions rolled back", func(s *transaction.Stats) uint64 { return s.Rollbacks })
	counter("unknown_total", "ends that said neither", func(s *transaction.Stats) uint64 { return s.Unknown })
	counter("ends_refused_total", "ends that were refused: of no half, too late, or the store takes nothing", func(s *transaction.Stats) uint64 { return s.EndsRefused })
	counter("checks_total", "checks sent to producers", func(s *transaction.Stats) uint64 { return s.Checks })
	counter("checks_unsent_total", "checks for which no producer of the group was there (limit producersAskedMax)", func(s *transaction.Stats) uint64 { return s.Unasked })
	counter("given_up_total", "transactions given up (transactionCheckMax, fileReservedTime)", func(s *transaction.Stats) uint64 { return s.GivenUp })
	counter("damaged_total", "half and op messages that cannot be read", func(s *transaction.Stats) uint64 { return s.Damaged })
	counter("ends_forgotten_total", "ends whose op message was not written (limit opPendingBytesMax), checked once more", func(s *transaction.Stats) uint64 { return s.EndsForgotten })
	r.Gauge("peregrine_transaction_halves_pending", "half messages that the checks have not passed: open, or ended since the last round", func() float64 {
		return float64(snap.get().Transactions.Pending)
	})
}

// registerNamesrv shows the sizes of the name server's tables.
func (s *service) registerNamesrv(r *perf.Registry) {
	for _, g := range []struct {
		name, help string
		pick       func(brokers, routes, kvBytes int) int
	}{
		{"brokers", "registered broker addresses (limit BrokersMax)", func(n, _, _ int) int { return n }},
		{"routes", "pairs of topic and broker name (limit RoutesMax)", func(_, n, _ int) int { return n }},
		{"kv_bytes", "names and values of the KV table (limit KVBytesMax)", func(_, _, n int) int { return n }},
	} {
		r.Gauge("peregrine_namesrv_"+g.name, "name server: "+g.help, func() float64 {
			if !s.running.Load() || s.namesrv == nil {
				return 0
			}
			return float64(g.pick(s.namesrv.Counts()))
		})
	}
}

// registerStageTimes shows where the time of requests goes.
func (s *service) registerStageTimes(r *perf.Registry, snap *snapshot) {
	for _, h := range []struct {
		name, help string
		of         func(*broker.Stats) *stagetime.Times
	}{
		{"append", "time of an append of one turn's sends: the append lock, copies, page faults", func(s *broker.Stats) *stagetime.Times { return &s.AppendTimes }},
		{"append_lock_wait", "time of an append that found the append lock taken until it had it", func(s *broker.Stats) *stagetime.Times { return &s.LockWaits }},
		{"populate", "time in which the kernel gave the pages ahead of the log, in steps of up to 1 MiB", func(s *broker.Stats) *stagetime.Times { return &s.PopulateTimes }},
		{"send_sync_wait", "SYNC_FLUSH: time of a send from its append until its sync", func(s *broker.Stats) *stagetime.Times { return &s.SyncWaits }},
		{"control_wait", "time of a request until its control worker takes it", func(s *broker.Stats) *stagetime.Times { return &s.ControlWaits }},
	} {
		r.Histogram("peregrine_"+h.name+"_seconds", h.help, stagetime.Bounds(), func(counts []uint64) float64 {
			times := h.of(snap.get())
			copy(counts, times.Buckets[:])
			return float64(times.SumNs) / 1e9
		})
	}
}

// registerSyncTimes shows how long the syncs of the log take.
func (s *service) registerSyncTimes(r *perf.Registry, snap *snapshot) {
	bounds := make([]float64, flush.BucketCount-1)
	for i := range bounds {
		bounds[i] = float64(flush.BucketUpperNs(i)) / 1e9
	}
	r.Histogram("peregrine_sync_seconds", "duration of the syncs of the log", bounds, func(counts []uint64) float64 {
		stats := snap.get()
		for i := range counts {
			counts[i] = uint64(stats.Flush.Buckets[i])
		}
		return float64(stats.Flush.TotalNs) / 1e9
	})
}
