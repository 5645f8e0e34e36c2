// Package broker serves producers and consumers: the send path, the pull path with long polling, and the tables behind
// them. It puts store, flush, dispatch and netio together; its sub-packages hold one subject each.
//
// # Where to look
//
//	handler.go      every request arrives here, on its event loop
//	send.go         the send path from header to append and answer (sendcheck.go: what is refused, sendproperties.go)
//	syncanswers.go  SYNC_FLUSH: answers that wait for the flusher
//	pull.go         the pull path (holds.go and longpoll: pulls that wait; coldread.go: pulls that need the disk)
//	internalsend.go records that the broker makes itself
//	controlpool.go  everything else, on control workers (package control has the processors)
//	broker.go       construction, start and stop
//
// # Goroutines
//
// Event loops (netio) run sends and pulls; control workers run the rest; cold readers run pulls that need the disk; one
// goroutine keeps time (expiry, persisting). The flusher and the dispatcher's goroutines call back into Flushed and
// into the long-poll table and only post to mailboxes.
//
// # Lock order
//
// The table locks of topics, groups, clients and offsets, then store's append lock, then a stripe of longpoll, then a
// mailbox. None is held while another package's callback runs, besides what those packages document themselves.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"peregrine/broker/clients"
	"peregrine/broker/control"
	"peregrine/broker/delay"
	"peregrine/broker/filter"
	"peregrine/broker/groups"
	"peregrine/broker/locks"
	"peregrine/broker/longpoll"
	"peregrine/broker/offsets"
	"peregrine/broker/relay"
	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/broker/transaction"
	"peregrine/dispatch"
	"peregrine/flush"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// Nameserver is the name-server role of this process.
type Nameserver interface {
	// Process answers one request. conn identifies the connection it came on; it is comparable.
	Process(cmd *wire.Command, conn any, remote netip.AddrPort) wire.Reply
	// ConnClosed says that a connection that may have registered a broker is gone.
	ConnClosed(conn any)
	// Scan drops brokers that have been silent for too long.
	Scan(now time.Time)
}

// Options are what a Broker is made of.
type Options struct {
	Config     *config.Live
	ConfigFile string // the broker.conf that changes are written to; "": there is none
	FS         sysio.FS
	Store      *store.Store
	Nameserver Nameserver       // nil: this process has no name-server role
	Registrar  topics.Registrar // told of every change of the topic table; may be nil
	Addr       string           // host:port that clients are told
	StoreHost  netip.AddrPort   // the same as numbers, for records and message ids
	Logger     *slog.Logger
	// Fatal is called once, from any goroutine, when the broker cannot go on: a sync failed, or the network engine ended.
	Fatal func(error)
}

// Broker is one broker. New opens its tables, Recover brings the queues up to the log, Start opens the ports, Stop ends it.
type Broker struct {
	cfg    *config.Config // as of the start: for keys that stay
	live   *config.Live
	set    atomic.Pointer[settings] // what can change at run time
	file   string                   // Options.ConfigFile
	fs     sysio.FS
	addr   string // that clients are told
	logger *slog.Logger
	fatal  func(error)

	store      *store.Store
	flusher    *flush.Committer
	dispatcher *dispatch.Dispatcher
	keeper     *dispatch.Keeper
	indexer    *dispatch.Indexer // nil: keys are not indexed
	server     *netio.Server
	roles      []role // by netio.Conn.Listener

	topics       *topics.Table
	groups       *groups.Table
	clients      *clients.Registry
	offsets      *offsets.Table
	locks        *locks.Table
	relay        *relay.Table
	stats        *stats.Table
	pulled       *offsets.Positions // where each group's next pull begins
	losses       *losses
	delays       *delay.Service
	retries      control.Retries
	transactions *transaction.Service
	filters      *filter.Cache
	polls        *longpoll.Table
	namesrv      Nameserver

	control    *controlPool
	cold       *coldReaders
	processors map[wire.RequestCode]control.Processor
	rates      *control.Rates
	loops      []*loopState
	stopTimers chan struct{}
	timersDone chan struct{}

	// Fixed by New; read on the hot path.
	syncFlush      bool
	dispatchLagMax int64
	unflushedMax   int64
	storeHost      message.Host

	stopping atomic.Bool // sends are refused

	brokerPuts, brokerGets *stats.Item
	userPuts, userGets     *stats.Item // system topics left out
	slow                   slowCounters
	made                   madeCounters

	bootTime   message.Millis
	panics     atomic.Uint64
	coldErrors atomic.Uint64

	repliesFailed atomic.Uint64
}

// New opens the state files and builds everything that needs no port. Nothing on disk is changed.
func New(o Options) (*Broker, error) {
	cfg := o.Config.Get()
	b := &Broker{
		cfg: cfg, live: o.Config, file: o.ConfigFile, fs: o.FS, addr: o.Addr, logger: o.Logger, fatal: o.Fatal, store: o.Store, namesrv: o.Nameserver, filters: filter.NewCache(),
		stopTimers: make(chan struct{}), timersDone: make(chan struct{}), bootTime: now(),
		syncFlush:      cfg.SyncFlushed(),
		dispatchLagMax: cfg.DispatchLagMaxBytes,
		unflushedMax:   unflushedMaxOf(cfg.UnflushedMaxBytes),
		storeHost:      message.HostOf(o.StoreHost),
	}
	physical, err := sysio.PhysicalMemory()
	if err != nil {
		return nil, fmt.Errorf("asking for the size of the memory: %w", err)
	}
	b.set.Store(settingsOf(cfg, uint64(physical)))
	if err := b.openTables(o); err != nil {
		return nil, err
	}
	if err := b.openDelays(); err != nil {
		return nil, err
	}
	b.losses = newLosses(b.offsets, b.logger)
	b.store.OnTrim(b.losses.trimmed)
	b.polls = longpoll.New(b.wakeHeld)
	b.buildFlush()
	b.buildDispatch()
	b.live.Watch(func(cfg *config.Config) { b.configure(cfg, uint64(physical)) })
	return b, nil
}

// automatic is a configured count, or what stands for 0.
func automatic(configured, otherwise int) int {
	if configured > 0 {
		return configured
	}
	return otherwise
}

func boolText(v bool) string {
	if v {
		return "true"
	}
	return "false"
}

func (b *Broker) openTables(o Options) (err error) {
	cfg, dir := b.cfg, b.configDir()
	if err := errors.Join(o.FS.MkdirAll(dir, 0o755), o.FS.SyncDir(cfg.StorePathRootDir)); err != nil {
		return err // without the sync a power cut takes the directory, and every durable file in it
	}
	if b.topics, err = topics.Open(topics.Options{
		FS: o.FS, Path: filepath.Join(dir, "topics.json"), Queues: b.store, Registrar: o.Registrar, Logger: b.logger, Now: now,
		Settings: topicSettings(cfg),
	}); err != nil {
		return err
	}
	if b.groups, err = groups.Open(groups.Options{
		FS: o.FS, Path: filepath.Join(dir, "subscriptionGroup.json"), Logger: b.logger, Now: now,
		AutoCreate: cfg.AutoCreateSubscriptionGroup, AutoCreateSystem: cfg.EnableCreateSysGroup,
	}); err != nil {
		return err
	}
	if b.offsets, err = offsets.Open(offsets.Options{FS: o.FS, Path: filepath.Join(dir, "consumerOffset.json"), Logger: b.logger, Now: now}); err != nil {
		return err
	}
	b.relay = relay.New(pusher{b})
	b.stats = stats.New(now())
	b.brokerPuts = b.stats.Item(stats.BrokerPutNums, []byte(cfg.BrokerClusterName))
	b.brokerGets = b.stats.Item(stats.BrokerGetNums, []byte(cfg.BrokerClusterName))
	b.userPuts = b.stats.Item(stats.UserPutNums, []byte(cfg.BrokerClusterName))
	b.userGets = b.stats.Item(stats.UserGetNums, []byte(cfg.BrokerClusterName))
	b.pulled = offsets.NewPositions()
	b.locks = locks.New(locks.Options{KeepOnClose: cfg.KeepLocksOnClose})
	b.clients = clients.NewRegistry(clients.Options{
		Pusher: pusher{b}, Logger: b.logger, RealTime: cfg.RealTimeNotifyConsumerChange, ExpiredAfter: message.Millis(cfg.ChannelExpiredTimeout),
		Notify: func(group string) bool {
			g := b.groups.Find(group)
			return b.set.Load().NotifyConsumerIdsChangedEnable && g != nil && g.Config().NotifyConsumerIDsChangedEnable
		},
		Resubscribed: b.wakeAllPulls,
	})
	return nil
}

func (b *Broker) openDelays() (err error) {
	levels, err := config.ParseDelayLevels(b.cfg.MessageDelayLevel)
	if err != nil {
		return err
	}
	b.delays, err = delay.Open(delay.Options{FS: b.fs, Path: filepath.Join(b.configDir(), "delayOffset.json"), Store: b.store,
		Appender: internalSender{b}, Levels: delay.NewLevels(levels), PersistInterval: time.Duration(b.cfg.FlushDelayOffsetInterval) * time.Millisecond,
		VersionStep: b.cfg.DelayOffsetUpdateVersionStep, Logger: b.logger, Now: now, Crashed: !b.store.Recovery().Clean})
	return err
}

func (b *Broker) buildFlush() {
	cfg := b.cfg
	b.flusher = flush.New(b.store.CommitLog(), flush.Options{Sync: b.syncFlush, Pace: flushPace(cfg), EarlyBytes: b.unflushedMax / 2, Logger: b.logger})
	b.flusher.Subscribe(b.flushed)
}

func (b *Broker) buildDispatch() {
	cfg := b.cfg
	b.dispatcher = dispatch.New(dispatch.Options{Store: b.store, Shards: b.reputShards(), Announcer: announcer{b.polls, b.delays},
		ScheduleTags: b.delays.ScheduleTags, OnError: b.store.SetDispatchError, Logger: b.logger})
	b.store.DispatchedTo(b.dispatcher.LowWater)
	b.keeper = dispatch.NewKeeper(b.dispatcher, b.store, dispatch.KeeperOptions{
		KeeperPace:  keeperPace(cfg),
		DistanceMax: min(checkpointDistanceMax, checkpointDistanceFiles*cfg.MappedFileSizeCommitLog),
		Logger:      b.logger,
	})
	if x := b.store.Index(); x != nil && x.Writes() {
		b.indexer = dispatch.NewIndexer(b.dispatcher, x, dispatch.IndexerOptions{FlushInterval: store.IndexFlushInterval, RetryInterval: store.IndexRetryInterval})
	}
}

// Recover starts flusher and dispatcher and returns when every record of the log is in its queue. The index may take longer.
func (b *Broker) Recover(report store.RecoveryReport) error {
	for _, topic := range report.WithoutFolder {
		if b.topics.Find(topic) != nil || b.topics.Found() != sysio.SourceMain {
			continue // it was not deleted, or there is no telling
		}
		b.logger.Info("a topic that neither topics.json nor a folder of queues knows was deleted by another broker; its messages in the log stay out", "topic", topic)
		if err := b.store.DeleteTopic(topic); err != nil {
			return err
		}
	}
	b.flusher.Start(b.store.Flushed())
	b.dispatcher.Start(report.RedispatchFrom)
	b.keeper.Start()
	if b.indexer != nil {
		b.indexer.Start()
	}
	if err := b.dispatcher.CaughtUp(b.store.Confirmed(), time.Time{}); err != nil {
		return fmt.Errorf("bringing the queues up to the log: %w", err)
	}
	b.settle()
	return nil
}

// settle makes up for state files that are lost with what the store and the other files know, and names them.
func (b *Broker) settle() {
	for _, lost := range []struct {
		name  string
		found sysio.Source
		then  string
	}{
		{"topics.json", b.topics.Found(), "topics are those that have messages"},
		{"subscriptionGroup.json", b.groups.Found(), "groups are those that have offsets or a retry topic, with default settings"},
		{"consumerOffset.json", b.offsets.Found(), "no group has an offset: each begins where its consumers say (consumeFromWhere)"},
		{"delayOffset.json", b.delays.Found(), "which delayed messages were delivered is looked for in the log"},
	} {
		if lost.found == sysio.SourceNone && b.store.Wrote() > 0 {
			b.logger.Warn("a state file is not there, or damaged, though the log has messages", "file", filepath.Join(b.configDir(), lost.name), "so", lost.then)
		}
	}
	b.topics.Settle()
	b.groups.Settle(append(b.offsets.Groups(), b.topics.GroupsNamed()...))
	b.takeBackOffsets()
}

func (b *Broker) configDir() string { return filepath.Join(b.cfg.StorePathRootDir, "config") }

// Start opens the ports. addrs are the addresses to listen on, by role: broker, fast, name server; an empty one is left out.
func (b *Broker) Start(ctx context.Context, broker, fast, nameserver string) error {
	var addrs []string
	for _, l := range []struct {
		addr string
		role role
	}{{broker, roleBroker}, {fast, roleFast}, {nameserver, roleNamesrv}} {
		if l.addr != "" {
			addrs = append(addrs, l.addr)
			b.roles = append(b.roles, l.role)
		}
	}
	server, err := netio.New(netio.Options{
		Addrs: addrs, EventLoops: b.eventLoops(), Handler: handler{b}, Logger: b.logger,
		Limits: netio.Limits{Connections: b.cfg.MaxConnections, OutboundSoftBytes: int(b.cfg.OutboundSoftBytes), OutboundHardBytes: int(b.cfg.OutboundHardBytes),
			IdleTimeout: time.Duration(b.cfg.ServerChannelMaxIdleTimeSeconds) * time.Second},
	})
	if err != nil {
		return err
	}
	b.server = server
	for i := range server.Loops() {
		ls := &loopState{loop: server.Loop(i)}
		ls.send.uniqIDs = b.newUniqIDs()
		server.Loop(i).State = ls
		b.loops = append(b.loops, ls)
	}
	b.rates = control.NewRates(b.rateCounters)
	b.transactions = b.buildTransactions()
	b.processors = control.Processors(control.Deps{
		Config: b.live, ConfigFile: b.file, FS: b.fs, Store: b.store, Topics: b.topics, Groups: b.groups, Clients: b.clients, Offsets: b.offsets,
		Locks: b.locks, Relay: b.relay, Stats: b.stats, Pulled: b.pulled, WakePulls: b.wakePulls, Pusher: pusher{b}, Rates: b.rates,
		Delays: b.delays, Sender: internalSender{b}, Retries: &b.retries, Transactions: b.transactions,
		Addr: b.addr, Dispatched: b.Dispatched, IndexBehind: b.IndexBehind, MemoryWindow: func() int64 { return int64(b.set.Load().memoryWindow) }, Boot: b.bootTime,
		Logger: b.logger, Now: now,
	})
	b.control = startControlPool(b, automatic(b.cfg.ControlWorkers, controlWorkersAuto))
	b.cold = startColdReaders(b, automatic(b.cfg.ColdReaders, coldReadersAuto))
	b.transactions.Recover()
	if err := server.Start(ctx); err != nil {
		b.control.stop()
		b.cold.stop()
		b.server = nil // Stop has nothing more to end than what Recover began
		return err
	}
	b.delays.Start()
	b.transactions.Start()
	go b.keepTime()
	go func() {
		<-server.Done()
		if err := server.Err(); err != nil {
			b.fatal(err)
		}
	}()
	return nil
}

// Stop takes no new connection, answers what is in flight, makes everything durable and says whether the stop was clean:
// every record is in its queue and on disk.
func (b *Broker) Stop(drain time.Duration) (clean bool) {
	deadline := time.Now().Add(drain)
	if b.server != nil {
		b.stopping.Store(true)
		b.relay.Stop() // nobody waits for a client any more
		b.server.Shutdown(drain, func() bool { return b.server.Stats().InFlight == 0 && b.waitingForSync() == 0 })
		b.control.stop()
		b.relay.Stop()
		b.cold.stop()
		b.delays.Stop()
		if err := b.transactions.Stop(); err != nil {
			b.logger.Warn("ended transactions will be checked once more", "err", err)
		}
		close(b.stopTimers)
		<-b.timersDone
	}
	errs := b.flusher.Stop()
	drained := b.dispatcher.Stop(deadline)
	indexed := b.indexer == nil || b.indexer.Stop(deadline)
	errs = errors.Join(errs, b.keeper.Stop(), b.delays.Persist(), b.offsets.Persist(), b.groups.Save(), b.topics.Save())
	if errs != nil || !drained || !indexed {
		if !indexed {
			errs = errors.Join(errs, errors.New("the index is not complete"), b.indexer.Err())
		}
		b.logger.Error("the stop is not clean, the next start recovers", "dispatched", drained, "indexed", indexed, "err", errs)
		return false
	}
	return true
}

func (b *Broker) buildTransactions() *transaction.Service {
	cfg := b.live.Get()
	return transaction.New(transaction.Options{
		Settings: transactionSettings(cfg),
		Store:    b.store, Log: internalSender{b}, Progress: b.offsets, Producers: b.clients, Pusher: pusher{b}, CaughtUp: b.dispatcher.CaughtUp,
		DiscardTopic: func() *wire.Refusal {
			_, refusal := b.topics.CreateDiscardTopic()
			return refusal
		},
		Host: b.storeHost, Logger: b.logger, Now: now,
	})
}

// keepTime does what comes round: expiry of clients and brokers, persisting of offsets.
func (b *Broker) keepTime() {
	defer close(b.timersDone)
	scan := time.NewTicker(scanInterval)
	defer scan.Stop()
	sample := time.NewTicker(sampleInterval)
	defer sample.Stop()
	persist := time.NewTicker(max(time.Duration(b.cfg.FlushConsumerOffsetInterval)*time.Millisecond, time.Second))
	defer persist.Stop()
	b.persist() // from now on a state file that is not there was lost
	for {
		select {
		case <-b.stopTimers:
			return
		case <-sample.C:
			b.rates.Sample(now())
			b.stats.Sample(now())
		case t := <-scan.C:
			b.clients.Scan(now())
			b.locks.Scan(now())
			if b.namesrv != nil {
				b.namesrv.Scan(t)
			}
		case <-persist.C:
			b.persist()
		}
	}
}

// persist writes the state files that changed and that no other goroutine writes.
func (b *Broker) persist() {
	if err := errors.Join(b.topics.Save(), b.groups.Save(), b.offsets.Persist()); err != nil {
		b.logger.Error("state files could not be written", "err", err)
	}
}

// flushed is called by the flusher after each sync: it tells the loops whose answers wait and lets the dispatcher go on.
func (b *Broker) flushed(upTo message.PhyOffset, err error) {
	if err != nil {
		b.fatal(err) // the store refuses everything from here on by itself
	}
	if !b.syncFlush {
		return
	}
	for i, ls := range b.loops {
		if ls.answers.waiting.Load() > 0 {
			b.server.Post(i, netio.Mail{Kind: netio.MailFlushed, Pos: int64(upTo)})
		}
	}
	if err == nil {
		b.dispatcher.Wake() // behind the answers: it is a system call
	}
}

// eventLoops is peregrine.eventLoops; automatic is half of the CPUs: the other half is for dispatch, syncs and the kernel.
func (b *Broker) eventLoops() int { return cmp.Or(b.cfg.EventLoops, max(1, sysio.CPUCount()/2)) }

// reputShards is peregrine.reputShards; automatic is one for four CPUs: a shard alone keeps up with what two loops append.
func (b *Broker) reputShards() int {
	if n := b.cfg.ReputShards; n > 0 {
		return n
	}
	return min(max(1, sysio.CPUCount()/4), 8)
}

// unflushedMaxOf is peregrine.unflushedMaxBytes; automatic is three quarters of the dirty bytes at which the kernel begins to
// hold back writers, half-way between its two limits: a send should be refused with a reason, not stall in a page fault.
func unflushedMaxOf(configured int64) int64 {
	if configured > 0 {
		return configured
	}
	background, throttle, err := sysio.DirtyLimits()
	if err != nil {
		return unflushedAutoMin
	}
	return min(max((background+throttle)/2/4*3, unflushedAutoMin), unflushedAutoMax)
}

// waitingForSync is how many sends of all loops wait for the flusher.
func (b *Broker) waitingForSync() (n int64) {
	for _, ls := range b.loops {
		n += ls.answers.waiting.Load()
	}
	return n
}

// announcer passes on what dispatch made visible.
type announcer struct {
	polls  *longpoll.Table
	delays *delay.Service
}

func (a announcer) Arrived(q *store.Queue, first message.QueueOffset, units []store.Unit) {
	a.polls.Arrived(q, first, units)
	if q.Topic() == message.ScheduleTopic {
		a.delays.Arrived(q.ID())
	}
}

// wakeHeld posts an arrival to the loop of a held pull.
func (b *Broker) wakeHeld(h *longpoll.Held) {
	p := h.Owner.(*heldPull)
	b.server.Post(int(p.request.ref.Loop), netio.Mail{Kind: netio.MailRerun, Ref: p.request.ref, Held: p})
}

func (b *Broker) newUniqIDs() message.UniqIDGen {
	return message.NewUniqIDGen(b.storeHost, os.Getpid(), rand.Uint32())
}

// pusher sends requests of the broker's own to clients.
type pusher struct{ *Broker }

func (p pusher) Push(ref netio.ConnRef, frame []byte) bool {
	buf := netio.GetBuffer(len(frame))
	buf.B = append(buf.B, frame...)
	return p.server.Post(int(ref.Loop), netio.Mail{Kind: netio.MailAnswer, Ref: ref, Buf: buf})
}

// closeOrder asks a loop to close a connection.
type closeOrder struct{ reason error }

func (p pusher) Close(ref netio.ConnRef, reason string) {
	p.server.Post(int(ref.Loop), netio.Mail{Kind: netio.MailRerun, Ref: ref, Held: &closeOrder{errors.New(reason)}})
}
