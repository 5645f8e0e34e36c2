package dispatch

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
)

// QueueFiles is the part of the store that a Keeper drives; *store.Store is one.
type QueueFiles interface {
	// FlushQueues syncs the files of every queue that has at least leastPages unsynced pages (0: everything unsynced).
	// After an error, nothing of this call counts as durable.
	FlushQueues(leastPages int) error
	// Flushed is the durable end of the log.
	Flushed() message.PhyOffset
	// SaveCheckpoint stores the newest record whose unit, and that of every record before it, is durable, and syncs the
	// checkpoint.
	SaveCheckpoint(storeTime message.Millis, phy message.PhyOffset) error
}

// KeeperPace says how long appended units wait for a sync.
type KeeperPace struct {
	// Interval (flushIntervalConsumeQueue, 1 s) is the time between new units and the sync of queues with LeastPages.
	Interval time.Duration
	// LeastPages (flushConsumeQueueLeastPages, 2) is how many unsynced pages a queue needs to be synced then.
	LeastPages int
	// ThoroughInterval (flushConsumeQueueThoroughInterval, 60 s) is the time between two passes that sync everything and
	// move the checkpoint. The first pass after Start is one.
	ThoroughInterval time.Duration
}

// KeeperOptions says when a Keeper syncs.
type KeeperOptions struct {
	// KeeperPace is how often queues are synced, until Configure.
	KeeperPace
	// DistanceMax is how many bytes may be dispatched beyond the checkpoint before a thorough pass is made out of turn: it
	// bounds what a start after kill -9 reads. 0: no bound.
	DistanceMax int64
	// Logger may be nil.
	Logger *slog.Logger
}

// Keeper makes the queues durable and keeps the checkpoint behind them: a thorough pass takes the low-water mark, then syncs
// all queues, then stores the mark, so that the checkpoint never names a record of which some queue's unit could be
// lost. It also waits until the log is durable up to the mark (ASYNC_FLUSH): recovery begins to look for damage at the
// checkpoint. It sleeps without a tick while no unit is unsynced and no mark waits.
//
// A failed sync of a queue is final, as that of the log is: the kernel may have dropped the pages, and a later success
// would let the checkpoint pass over a hole. The checkpoint then stays where it is until the next start.
type Keeper struct {
	dispatcher *Dispatcher
	files      QueueFiles
	opts       KeeperOptions
	logger     *slog.Logger

	_ [cacheLinePad]byte
	// dirty says that units were appended since the last pass began. Set by shards, taken by the keeper.
	dirty atomic.Bool
	// parked says that the keeper sleeps until something is dirty.
	parked atomic.Bool
	_      [cacheLinePad]byte

	wake     chan struct{} // capacity 1; one token for each sleep that somebody ended
	pace     atomic.Pointer[KeeperPace]
	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	started  bool

	passes, thoroughPasses atomic.Int64
	saved                  atomic.Int64 // position of the mark stored last
	failure                atomic.Pointer[error]

	// Only the keeper's goroutine:
	unsynced     bool // units were appended since the last thorough pass began
	lastThorough time.Time
	waiting      Mark // all queues are durable up to here, the log is not yet; Newest is NoRecord if there is none
}

// keeperIntervalMin keeps a configured interval of 0 from becoming a busy loop.
const keeperIntervalMin = time.Millisecond

// NewKeeper returns a Keeper for the queues that d fills. Call it before d.Start.
func NewKeeper(d *Dispatcher, files QueueFiles, opts KeeperOptions) *Keeper {
	if d.started {
		panic("BUG: dispatch: NewKeeper after Start")
	}
	k := &Keeper{
		dispatcher: d,
		files:      files,
		opts:       opts,
		logger:     opts.Logger,
		wake:       make(chan struct{}, 1),
		stopping:   make(chan struct{}),
		done:       make(chan struct{}),
		waiting:    Mark{Newest: NoRecord},
	}
	k.Configure(opts.KeeperPace)
	if k.logger == nil {
		k.logger = slog.New(slog.DiscardHandler)
	}
	d.keeper = k
	return k
}

// Configure changes the pace, from the next sleep on. Any goroutine.
func (k *Keeper) Configure(p KeeperPace) {
	p.Interval = max(p.Interval, keeperIntervalMin)
	k.pace.Store(&p)
}

// Start begins. What the dispatcher did before counts as unsynced. Call it once, after Dispatcher.Start.
func (k *Keeper) Start() {
	k.started = true
	k.saved.Store(int64(k.dispatcher.LowWater()))
	k.dirty.Store(true)
	go k.run()
}

// Stop makes a last thorough pass and ends the keeper. Call it after Dispatcher.Stop. It returns why the queues or the
// checkpoint are not durable, nil if they are; only then may `abort` be removed.
func (k *Keeper) Stop() error {
	k.stopOnce.Do(func() { close(k.stopping) })
	if k.started {
		<-k.done
	}
	return k.Err()
}

// Err returns nil or the error that ended the syncing of queues.
func (k *Keeper) Err() error {
	if e := k.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// KeeperStats is a snapshot for metrics.
type KeeperStats struct {
	Passes, ThoroughPasses int64
	// SavedTo is the low-water mark that the checkpoint was stored for last.
	SavedTo message.PhyOffset
	Failed  bool
}

// Stats returns the counters. Any goroutine.
func (k *Keeper) Stats() KeeperStats {
	return KeeperStats{
		Passes:         k.passes.Load(),
		ThoroughPasses: k.thoroughPasses.Load(),
		SavedTo:        message.PhyOffset(k.saved.Load()),
		Failed:         k.failure.Load() != nil,
	}
}

// dirtied says that a shard has appended units. Called once per batch.
//
// hot: 0 allocs, no locks, two atomic loads in the common case.
func (k *Keeper) dirtied() {
	if !k.dirty.Load() {
		k.dirty.Store(true)
	}
	if k.parked.Load() && k.parked.CompareAndSwap(true, false) {
		k.wake <- struct{}{}
	}
}

// run is the keeper's goroutine.
func (k *Keeper) run() {
	defer close(k.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for k.sleep(timer) {
		if k.dirty.Swap(false) { // before the pass: what comes during it is for the next one
			k.unsynced = true
		}
		k.saveWaiting()
		if k.unsynced {
			now := time.Now()
			k.pass(now.Sub(k.lastThorough) >= k.pace.Load().ThoroughInterval || k.tooFar(), now)
		}
	}
	k.pass(true, time.Now())
}

// sleep waits until there is a pass to make; false: it is time to stop.
func (k *Keeper) sleep(timer *time.Timer) bool {
	for {
		if k.Err() != nil {
			<-k.stopping
			return false
		}
		if k.dirty.Load() || k.waiting.Newest != NoRecord {
			timer.Reset(k.pace.Load().Interval)
			select {
			case <-timer.C:
				return true
			case <-k.stopping:
				return false
			}
		}
		// Nothing new. What is left unsynced by the last passes waits for the thorough one.
		var expired <-chan time.Time
		if k.unsynced {
			timer.Reset(max(0, k.pace.Load().ThoroughInterval-time.Since(k.lastThorough)))
			expired = timer.C
		}
		k.parked.Store(true)
		// Look again after parked is published: who appended before will not wake us.
		if k.dirty.Load() {
			k.unpark()
			continue
		}
		select {
		case <-k.wake:
		case <-expired:
			k.unpark()
			return true
		case <-k.stopping:
			return false
		}
	}
}

// unpark takes the announcement of a sleep back, and the token of whoever ended it already.
func (k *Keeper) unpark() {
	if !k.parked.CompareAndSwap(true, false) {
		<-k.wake
	}
}

// tooFar tells whether a start after a crash would have to read too much.
func (k *Keeper) tooFar() bool {
	return k.opts.DistanceMax > 0 && int64(k.dispatcher.LowWater())-k.saved.Load() >= k.opts.DistanceMax
}

// pass syncs queues; a thorough one syncs all of them and moves the checkpoint.
func (k *Keeper) pass(thorough bool, now time.Time) {
	if k.Err() != nil {
		return
	}
	leastPages := k.pace.Load().LeastPages
	if thorough {
		leastPages = 0
		k.thoroughPasses.Add(1)
	}
	k.passes.Add(1)
	mark := k.dispatcher.LowMark() // before the queues are synced
	if err := k.files.FlushQueues(leastPages); err != nil {
		k.fail("sync of the queues failed; the checkpoint stays where it is", err)
		return
	}
	if !thorough {
		return
	}
	k.unsynced = false
	k.lastThorough = now
	if mark.Newest == NoRecord {
		return
	}
	// An older mark that waits is saved first if it can be: under a steady load the newest one is never durable at once.
	k.saveWaiting()
	if k.waiting.Newest == NoRecord {
		k.waiting = mark
		k.saveWaiting()
	}
}

// saveWaiting moves the checkpoint to the mark that waits, if the log is durable up to there.
func (k *Keeper) saveWaiting() {
	mark := k.waiting
	if mark.Newest == NoRecord || k.Err() != nil || k.files.Flushed() < mark.Pos {
		return
	}
	k.waiting = Mark{Newest: NoRecord}
	if err := k.files.SaveCheckpoint(mark.StoreTime, mark.Newest); err != nil {
		k.fail("the checkpoint cannot be stored", err)
		return
	}
	k.saved.Store(int64(mark.Pos))
}

func (k *Keeper) fail(what string, err error) {
	k.failure.Store(&err)
	k.logger.Error(what, "error", err)
}
