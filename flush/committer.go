package flush

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
)

// Log is the log that is synced.
type Log interface {
	// Wrote returns the end of what is appended completely; it never goes back. Any goroutine may call it.
	Wrote() message.PhyOffset

	// Sync makes everything below to durable, where to is an earlier result of Wrote, and returns how far the log is
	// durable now. It may stop short of to (at the end of a file, say) and is then called again, but a success
	// has to be progress. Only the flusher calls it. With an error, nothing of this call counts as durable.
	Sync(to message.PhyOffset) (upTo message.PhyOffset, err error)
}

// Options says when a Committer syncs. The zero value of a duration or a size switches that reason off.
type Options struct {
	// Sync is flushDiskType=SYNC_FLUSH: whatever is requested is synced at once. The two below are for ASYNC_FLUSH.
	Sync bool

	// Pace is when a look at the log syncs it, until Configure.
	Pace Pace

	// EarlyBytes (half of peregrine.unflushedMaxBytes): that many unflushed bytes are synced without waiting for the
	// interval, so that a steady load is never refused because of the bound itself.
	EarlyBytes int64

	// Logger gets one line when a sync fails. Nil: no lines.
	Logger *slog.Logger
}

// Pace says how long written bytes wait for a sync in ASYNC_FLUSH.
type Pace struct {
	// Interval (flushIntervalCommitLog, 500 ms) is how often the log is looked at while something is unflushed.
	Interval time.Duration

	// LeastPages (flushCommitLogLeastPages, 4): a look syncs only if the written and the flushed page numbers differ
	// by that much (pages of 4096 bytes).
	LeastPages int64

	// ThoroughInterval (flushCommitLogThoroughInterval, 10 s) is the age at which unflushed bytes are synced
	// however few they are.
	ThoroughInterval time.Duration
}

// awake is the value of wakeAt while the flusher is not asleep: no request reaches it.
const awake = math.MaxInt64

// Committer is the group commit of one log. See the package documentation.
type Committer struct {
	log         Log
	opts        Options
	pace        atomic.Pointer[Pace]
	logger      *slog.Logger
	subscribers []func(upTo message.PhyOffset, err error) // fixed by Start
	started     bool

	wake     chan struct{} // capacity 1; one token for each sleep ended by somebody else than the timer
	done     chan struct{} // closed when the flusher has ended
	stopping atomic.Bool

	_ [cacheLinePad]byte
	// requested is the highest end that an append announced. Raised by many loops, read by the flusher.
	requested atomic.Int64
	_         [cacheLinePad]byte
	// flushed publishes that every byte below it is durable. Written by the flusher, read by everybody.
	flushed atomic.Int64
	_       [cacheLinePad]byte
	// wakeAt is the requested position that ends the flusher's sleep, or awake. Read by every request.
	wakeAt atomic.Int64
	_      [cacheLinePad]byte
	// urgent is the highest end somebody waits for in Wait: it is synced at once in ASYNC_FLUSH too.
	urgent atomic.Int64
	// failure publishes the sticky error; nil while everything is well.
	failure atomic.Pointer[SyncError]

	counters counters

	mu      sync.Mutex // guards waiters and ended
	waiters []*waiter
	ended   bool // the flusher will release nobody any more

	pool sync.Pool // of *waiter, not in any list, channel empty
}

// New returns a Committer that does nothing until Start.
func New(log Log, opts Options) *Committer {
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Committer{log: log, opts: opts, logger: logger, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.pace.Store(&opts.Pace)
	c.counters.epoch = time.Now()
	c.wakeAt.Store(awake)
	return c
}

// Configure changes the pace, from the next look at the log on. Any goroutine.
func (c *Committer) Configure(p Pace) { c.pace.Store(&p) }

// Subscribe adds a function that the flusher calls once after each sync, with the new flushed position and a nil error,
// or once with the flushed position and the sticky error after the failed one; nothing follows that. It runs on
// the flusher, in the way of the next sync: it must not block and must not call Wait or Stop. Only before Start.
func (c *Committer) Subscribe(f func(upTo message.PhyOffset, err error)) {
	if c.started {
		panic("BUG: flush: Subscribe after Start")
	}
	c.subscribers = append(c.subscribers, f)
}

// Start begins with a log that is durable up to flushed (what recovery found or rewrote). Call it once, before the first
// Request.
func (c *Committer) Start(flushed message.PhyOffset) {
	if c.started {
		panic("BUG: flush: Start called twice")
	}
	c.started = true
	c.flushed.Store(int64(flushed))
	raise(&c.requested, int64(flushed))
	go c.run()
}

// Request says that the log is appended up to end, as Log.Wrote shows already. Every append calls it, in both flush
// modes; it is what makes one-way sends visible in SYNC_FLUSH and what starts the clock in ASYNC_FLUSH. It never
// blocks and wakes the flusher only if that sleeps and end is what it sleeps for.
//
// hot: 0 allocs, no locks, two atomic loads and one store in the common case.
func (c *Committer) Request(end message.PhyOffset) {
	raise(&c.requested, int64(end))
	if at := c.wakeAt.Load(); int64(end) >= at {
		c.rouse(at)
	}
}

// Flushed returns the position below which every byte is durable.
//
// hot: one atomic load.
func (c *Committer) Flushed() message.PhyOffset { return message.PhyOffset(c.flushed.Load()) }

// Err returns nil, or the *SyncError of the sync that failed.
//
// hot: one atomic load.
func (c *Committer) Err() error {
	if e := c.failure.Load(); e != nil {
		return e
	}
	return nil
}

// Stop syncs what is appended, releases everybody and ends the flusher; it returns the sticky error, if there is one.
// Appends must have ended before. It may be called more than once.
func (c *Committer) Stop() error {
	c.stopping.Store(true)
	if !c.started {
		c.release(ErrStopped)
		return nil
	}
	c.rouse(c.wakeAt.Load())
	<-c.done
	return c.Err()
}

// raise lifts a to at least v.
//
// hot: one load, and one compare-and-swap if it moves.
func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if old >= v || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// rouse ends the sleep that was announced as at, unless somebody else did. One try is enough: if the flusher has gone to
// sleep again meanwhile, at whatever position, it has looked for work after that, and the caller published its own before.
//
// hot: at most once per sleep of the flusher.
func (c *Committer) rouse(at int64) {
	if at != awake && c.wakeAt.CompareAndSwap(at, awake) {
		c.wake <- struct{}{}
	}
}
