package crash

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"peregrine/dispatch"
	"peregrine/flush"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

const (
	root     = "/data"
	patience = time.Hour // virtual: nothing that goes well takes as long
)

// form is how a life keeps its store. Sizes are bytes.
type form struct {
	syncFlush, direct bool
	shards            int
	segment           int64
	queueFile         int64
	pages             int // flushCommitLogLeastPages
	index             int // entries of an index file, 0: no index
	extFile           int64
	ext               bool // this process writes ext files
	retain            int  // deleteFileBatchMax, 0: nothing is deleted
}

func (f form) String() string {
	return fmt.Sprintf("sync %v, direct %v, %d shards, files of %d and %d bytes, %d entries in an index file, ext files of %d bytes, %d files deleted at a time",
		f.syncFlush, f.direct, f.shards, f.segment, f.queueFile, f.index, f.extFile, f.retain)
}

func (f form) config() *config.Config {
	cfg := &config.Config{}
	cfg.StorePathRootDir = root
	cfg.MappedFileSizeCommitLog = f.segment
	cfg.MappedFileSizeConsumeQueue = f.queueFile
	cfg.EnableConsumeQueueExt, cfg.MappedFileSizeConsumeQueueExt = f.ext, f.extFile
	cfg.MaxMessageSize = int(f.segment)
	cfg.WriteWithoutMmap = f.direct
	cfg.FlushDiskType = config.AsyncFlush
	if f.syncFlush {
		cfg.FlushDiskType = config.SyncFlush
	}
	cfg.CheckCRCOnRecover = true
	cfg.DataReadAheadEnable = true
	cfg.MessageIndexEnable, cfg.IndexFileWriteEnable, cfg.IndexFileReadEnable = f.index > 0, f.index > 0, f.index > 0
	cfg.MaxHashSlotNum, cfg.MaxIndexNum = 1+f.index/2, f.index
	cfg.DiskSpaceWarningLevelRatio = 90
	cfg.DiskSpaceCleanForciblyRatio = 85
	if f.retain > 0 { // no hour is due and every file is old: files go when they are asked to, or when the disk is full
		cfg.CleanResourceInterval, cfg.DeleteFileBatchMax, cfg.DeleteCommitLogFilesInterval, cfg.DeleteConsumeQueueFilesInterval = 20, f.retain, 1, 1
		cfg.DiskMaxUsedSpaceRatio, cfg.CleanFileForciblyEnable = 75, true
	}
	return cfg
}

// process is one run of the broker's storage, put together as package broker does it.
type process struct {
	form       form
	model      *model
	store      atomic.Pointer[store.Store] // nil while it is being opened
	flusher    *flush.Committer
	dispatcher *dispatch.Dispatcher
	keeper     *dispatch.Keeper
	indexer    *dispatch.Indexer // nil without an index
	fatal      atomic.Pointer[error]
}

// durable is what a power cut must leave, as far as this process knows.
func (p *process) durable() message.PhyOffset {
	if s := p.store.Load(); s != nil {
		return s.Flushed()
	}
	return 0
}

// begin is below what nothing has to be there any more, as far as this process knows.
func (p *process) begin() message.PhyOffset {
	if s := p.store.Load(); s != nil {
		return s.MinPhy()
	}
	return 0
}

// start opens the store, recovers it and brings the queues up to the log. Without an error, stop has to be called.
func (p *process) start(disk *sysio.FaultFS) error {
	s, err := store.Open(store.Options{FS: disk, Config: p.form.config()})
	if err != nil {
		return err
	}
	p.store.Store(s)
	p.flusher = flush.New(s.CommitLog(), flush.Options{
		Sync: p.form.syncFlush, Pace: flush.Pace{Interval: 2 * time.Millisecond, LeastPages: int64(p.form.pages), ThoroughInterval: 20 * time.Millisecond}, EarlyBytes: p.form.segment,
	})
	p.flusher.Subscribe(p.flushed)
	p.dispatcher = dispatch.New(dispatch.Options{Store: s, Shards: p.form.shards, Announcer: p.model, OnError: s.SetDispatchError})
	s.DispatchedTo(p.dispatcher.LowWater)
	p.keeper = dispatch.NewKeeper(p.dispatcher, s, dispatch.KeeperOptions{KeeperPace: dispatch.KeeperPace{Interval: time.Millisecond, LeastPages: 1, ThoroughInterval: 5 * time.Millisecond}})
	if s.Index() != nil {
		p.indexer = dispatch.NewIndexer(p.dispatcher, s.Index(), dispatch.IndexerOptions{FlushInterval: 3 * time.Millisecond, RetryInterval: time.Millisecond})
	}
	p.flusher.Start(s.Flushed())
	p.dispatcher.Start(s.Recovery().RedispatchFrom)
	p.keeper.Start()
	if p.indexer != nil {
		p.indexer.Start()
	}
	if err := p.dispatcher.CaughtUp(s.Confirmed(), time.Now().Add(patience)); err != nil {
		p.stop()
		return fmt.Errorf("bringing the queues up to the log: %w", err)
	}
	return nil
}

func (p *process) flushed(upTo message.PhyOffset, err error) {
	if err != nil {
		p.fatal.Store(&err)
		return
	}
	if p.form.syncFlush {
		p.model.flushedTo(upTo)
		p.dispatcher.Wake()
	}
}

// failed tells why the process cannot go on, nil if it can.
func (p *process) failed() error {
	if e := p.fatal.Load(); e != nil {
		return *e
	}
	return errors.Join(p.dispatcher.Err(), p.keeper.Err())
}

// indexed waits until everything visible is in the index.
func (p *process) indexed() error {
	for deadline := time.Now().Add(patience); p.indexer.Mark() < p.dispatcher.LowWater(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("the index stays at %d of %d: %w", p.indexer.Mark(), p.dispatcher.LowWater(), p.indexer.Err())
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// close is what the broker does on SIGTERM.
func (p *process) close() error {
	s := p.store.Load()
	s.RefuseAppends()
	err := p.flusher.Stop()
	drained := p.dispatcher.Stop(time.Now().Add(patience))
	if !drained {
		err = errors.Join(err, errors.New("not everything was dispatched"))
	}
	if p.indexer != nil && !p.indexer.Stop(time.Now().Add(patience)) {
		err = errors.Join(err, fmt.Errorf("not everything is in the index: %w", p.indexer.Err()))
	}
	err = errors.Join(err, p.keeper.Stop())
	return errors.Join(err, s.Close(err == nil))
}

// stop ends the goroutines of a process that is dead already: what it does to its disk nobody sees any more.
func (p *process) stop() {
	p.flusher.Stop()
	p.dispatcher.Stop(time.Now())
	if p.indexer != nil {
		p.indexer.Stop(time.Now())
	}
	p.keeper.Stop()
	p.store.Load().Close(false)
}
