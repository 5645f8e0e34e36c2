package dispatch

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// Log is the part of the store that the reader reads; *store.Store is one.
type Log interface {
	// Confirmed is the position up to which records may become visible. It never goes back.
	Confirmed() message.PhyOffset
	// MinPhy is the begin of the oldest file.
	MinPhy() message.PhyOffset
	// IsHot tells whether the bytes at phy are taken to be in memory.
	IsHot(phy message.PhyOffset) bool
	// Slice returns n bytes of one file out of its mapping, nil if they are not mapped. They stay valid for the time a turn
	// takes (seconds), so no wait may lie between Slice and the last use.
	Slice(phy message.PhyOffset, n int) []byte
	// ReadAt reads bytes of one file; fewer than len(buf) only with an error or at the end of the file or of the log.
	ReadAt(buf []byte, phy message.PhyOffset) (int, error)
}

// Announcer is told what became visible.
type Announcer interface {
	// Arrived says that q now shows units from offset first on. It is called by the queue's shard, per queue in order, after
	// q.Max shows them, and again for the same units when records are dispatched anew after a start. units are borrowed
	// until it returns. It must not block: its shard waits.
	Arrived(q *store.Queue, first message.QueueOffset, units []store.Unit)
}

// Options are fixed for the life of a Dispatcher.
type Options struct {
	// Store has the queues.
	Store *store.Store
	// Log is what is read; nil is Store.
	Log Log
	// Shards (peregrine.reputShards) is the number of goroutines that append to queues, 1 to ShardsMax.
	Shards int
	// Announcer may be nil.
	Announcer Announcer
	// ScheduleTags makes the tags code of the records of SCHEDULE_TOPIC_XXXX: the time of delivery. v is borrowed. It is
	// called by the reader for each such record and must not block. Nil: the hash of the tags, as for every topic.
	ScheduleTags func(v *message.View) message.TagsCode
	// OnError is told when Err becomes something else, nil included. While Err is not nil the store must refuse sends: what is
	// sent would not become visible. Called from the dispatcher's goroutines, one call at a time; it must not block
	// and must not call Stop. May be nil.
	OnError func(error)
	// Logger may be nil.
	Logger *slog.Logger
}

// Dispatcher is reput. See the package documentation.
type Dispatcher struct {
	opts     Options
	log      Log
	logger   *slog.Logger
	progress *progress
	shards   []*shard
	keeper   *Keeper  // nil or set before Start
	indexer  *Indexer // nil or set before Start

	_ [cacheLinePad]byte
	// parked says that the reader sleeps, or is about to look at Confirmed a last time. Read by every Wake.
	parked atomic.Bool
	_      [cacheLinePad]byte

	wake     chan struct{} // capacity 1; one token for each sleep that somebody ended
	stopping atomic.Bool   // read up to Confirmed, then end
	quit     chan struct{} // closed: end now
	quitOnce sync.Once
	done     chan struct{} // closed when reader and shards have ended
	started  bool

	alarm    alarm
	counters readerCounters

	// recovered is the end of the log that recovery found: what lies below may be damaged in ways that recovery accepted.
	recovered message.PhyOffset
}

// New returns a Dispatcher that does nothing until Start.
func New(opts Options) *Dispatcher {
	opts.Shards = max(1, min(opts.Shards, ShardsMax))
	d := &Dispatcher{
		opts:     opts,
		log:      opts.Log,
		logger:   opts.Logger,
		progress: newProgress(opts.Shards),
		wake:     make(chan struct{}, 1),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	if d.log == nil {
		d.log = opts.Store
	}
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	d.alarm.told = opts.OnError
	for i := range opts.Shards {
		d.shards = append(d.shards, newShard(d, i))
	}
	return d
}

// Start begins at from: the begin of a record, of which all before are dispatched. After kill -9 that is an older one than
// the newest that some queue has; what is there already is passed over. Call it once.
func (d *Dispatcher) Start(from message.PhyOffset) {
	if d.started {
		panic("BUG: dispatch: Start called twice")
	}
	d.started = true
	report := d.opts.Store.Recovery()
	d.recovered = report.End
	d.progress.begin(from)
	var all sync.WaitGroup
	for _, s := range d.shards {
		all.Go(s.run)
	}
	r := newReader(d, from, report.Damaged)
	all.Go(r.run)
	go func() {
		all.Wait()
		err := d.Err()
		if err == nil {
			err = ErrStopped
		}
		d.progress.end(err)
		close(d.done)
	}()
}

// Wake says that Confirmed has advanced. Every append calls it in ASYNC_FLUSH, every sync in SYNC_FLUSH. Any goroutine.
//
// hot: 0 allocs, no locks, one atomic load unless the reader sleeps.
func (d *Dispatcher) Wake() {
	if d.parked.Load() && d.parked.CompareAndSwap(true, false) {
		d.wake <- struct{}{}
	}
}

// LowWater is the position below which every record is in its queue and announced, by every shard. It never goes back.
//
// hot: one atomic load.
func (d *Dispatcher) LowWater() message.PhyOffset {
	return message.PhyOffset(d.progress.low.Load())
}

// lowMoved wakes the indexer: LowWater may have moved.
func (d *Dispatcher) lowMoved() {
	if d.indexer != nil {
		d.indexer.advanced()
	}
}

// LowMark is LowWater with the newest record below it.
func (d *Dispatcher) LowMark() Mark { return d.progress.mark() }

// BehindBytes is how much is confirmed and not dispatched (dispatchBehindBytes of the original).
//
// hot: two atomic loads.
func (d *Dispatcher) BehindBytes() int64 {
	return max(0, int64(d.log.Confirmed()-d.LowWater()))
}

// BehindMs is how long ago the newest dispatched record was stored, in milliseconds, if something is behind it; else 0.
func (d *Dispatcher) BehindMs() int64 {
	mark := d.LowMark()
	if mark.Newest == NoRecord || d.log.Confirmed() <= mark.Pos {
		return 0
	}
	return max(0, time.Now().UnixMilli()-int64(mark.StoreTime))
}

// CaughtUp blocks until everything below target is dispatched. A zero deadline is none. It returns nil, ErrTimeout,
// ErrStopped or the error that ended the dispatcher.
func (d *Dispatcher) CaughtUp(target message.PhyOffset, deadline time.Time) error {
	return d.progress.wait(target, deadline)
}

// Err returns nil, a *RecordError or a *QueueError. While it is not nil no sends should be accepted. It goes back to nil only
// when a full disk has room again.
//
// hot: one atomic load.
func (d *Dispatcher) Err() error { return d.alarm.err() }

// Stop ends the dispatcher. Until the deadline it dispatches what is confirmed; what is confirmed later may be left. It
// returns whether everything confirmed is dispatched, that is whether the stop was clean and `abort` may be removed.
func (d *Dispatcher) Stop(deadline time.Time) (drained bool) {
	d.stopping.Store(true)
	if !d.started {
		d.progress.end(ErrStopped)
		return false
	}
	d.Wake()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-d.done:
	case <-timer.C:
		d.endNow()
		timer.Reset(stopGrace)
		select {
		case <-d.done:
		case <-timer.C:
			d.logger.Error("dispatch does not end: a queue's file cannot be written", "behindBytes", d.BehindBytes())
			return false
		}
	}
	return d.Err() == nil && d.BehindBytes() == 0
}

// endNow makes all goroutines end at their next look.
func (d *Dispatcher) endNow() { d.quitOnce.Do(func() { close(d.quit) }) }

// fail makes err the last word.
func (d *Dispatcher) fail(err error) {
	d.logger.Error("dispatch has stopped; nothing sent from now on becomes visible", "error", err)
	d.alarm.final(err)
}

// alarm holds what Err returns.
type alarm struct {
	current atomic.Pointer[error] // nil while everything is well

	mu      sync.Mutex // guards the rest; a leaf, except that told is called inside, so that the calls keep their order
	stalled int        // shards that wait for space
	ended   bool       // final was called
	told    func(error)
}

func (a *alarm) err() error {
	if e := a.current.Load(); e != nil {
		return *e
	}
	return nil
}

// final sets an error that stays. The first one wins.
func (a *alarm) final(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.ended = true
		a.set(err)
	}
}

// raise says that a shard waits for space, with the reason.
func (a *alarm) raise(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stalled++; a.stalled == 1 && !a.ended {
		a.set(err)
	}
}

// clear takes one raise back.
func (a *alarm) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stalled--; a.stalled == 0 && !a.ended {
		a.set(nil)
	}
}

func (a *alarm) set(err error) {
	if err == nil {
		a.current.Store(nil)
	} else {
		a.current.Store(&err)
	}
	if a.told != nil {
		a.told(err)
	}
}
