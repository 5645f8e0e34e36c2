package dispatch

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// KeyIndex is the part of the store that an Indexer fills; *store.Index is one.
type KeyIndex interface {
	// Recover makes the index agree with the log and returns where Add has to begin. It ends early when quit says yes.
	Recover(quit func() bool) (message.PhyOffset, error)
	// Add indexes records in the order of the log and returns how many are done; store.ErrIndexFull asks for NextFile.
	Add(records []store.IndexRecord) (int, error)
	// NextFile makes room. It may take long, so no slice of the log may be held.
	NextFile() error
	// Flush makes what was added durable.
	Flush() error
}

// Indexer is the index stage: one goroutine that follows LowWater and adds every record to the index, in the order of the log.
// It reads the log by itself, so nothing ever waits for it, however far it is behind: after a start it begins at its own mark,
// which may be the begin of the log. A file that cannot be made pauses it, with an alarm, for RetryInterval at a time; a stop ends a pause for one more
// attempt.
type Indexer struct {
	d      *Dispatcher
	index  KeyIndex
	opts   IndexerOptions
	logger *slog.Logger

	_ [cacheLinePad]byte
	// mark is L_index: everything below is in the index. -1 until Recover is through.
	mark atomic.Int64
	// parked says that the indexer sleeps, or is about to look at LowWater a last time. Read with every hand-over of a batch.
	parked atomic.Bool
	_      [cacheLinePad]byte

	wake     chan struct{} // capacity 1; one token for each sleep that somebody ended
	stopping atomic.Bool   // index up to LowWater, then end
	quit     chan struct{} // closed: end now
	quitOnce sync.Once
	stopped  chan struct{} // closed by Stop: ends pauses and sleeps
	stopOnce sync.Once
	done     chan struct{}
	started  bool

	failure                              atomic.Pointer[error] // why it pauses, nil while it does not
	records, coldBytes, pauses, newFiles atomic.Int64

	// Only the goroutine's.
	at        message.PhyOffset
	need      int64 // bytes the next block has to have, if more than blockBytesMax
	block     []byte
	batch     []store.IndexRecord
	view      message.View
	damaged   []store.DamagedRange
	lastFlush time.Time
	unflushed bool
	worked    bool // since the last rest
	lastTry   bool // a pause has ended early because of Stop
}

// IndexerOptions say when an Indexer does what does not depend on records.
type IndexerOptions struct {
	FlushInterval time.Duration
	RetryInterval time.Duration
}

// NewIndexer returns an Indexer for the records that d dispatches. Call it before d.Start.
func NewIndexer(d *Dispatcher, index KeyIndex, opts IndexerOptions) *Indexer {
	if d.started {
		panic("BUG: dispatch: NewIndexer after Start")
	}
	x := &Indexer{
		d: d, index: index, opts: opts, logger: d.logger,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}), done: make(chan struct{}),
		batch: make([]store.IndexRecord, 0, indexBatchMax),
	}
	x.mark.Store(-1)
	d.indexer = x
	return x
}

// Start begins. Call it once, after Dispatcher.Start.
func (x *Indexer) Start() {
	x.started = true
	x.damaged = x.d.opts.Store.Recovery().Damaged
	x.lastFlush = time.Now()
	go x.run()
}

// Stop ends the indexer. Until the deadline it indexes what is dispatched; call it after Dispatcher.Stop. It returns whether
// everything dispatched is in the index and durable: only then may `abort` be removed, for the original rebuilds no index after
// a clean stop.
func (x *Indexer) Stop(deadline time.Time) (complete bool) {
	if !x.started {
		return false
	}
	x.stopping.Store(true)
	x.stopOnce.Do(func() { close(x.stopped) })
	x.advanced()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-x.done:
	case <-timer.C:
		x.quitOnce.Do(func() { close(x.quit) })
		<-x.done // within a block of the log, or one sync
	}
	return x.Err() == nil && x.BehindBytes() == 0 && x.Mark() >= 0
}

// Mark is the position below which everything is in the index; -1 while recovery of the index is not through.
func (x *Indexer) Mark() message.PhyOffset { return message.PhyOffset(x.mark.Load()) }

// BehindBytes is how much is visible and not in the index. While the index recovers, all of the log counts.
func (x *Indexer) BehindBytes() int64 {
	return max(0, int64(x.d.LowWater()-max(x.Mark(), x.d.log.MinPhy())))
}

// Err says why indexing pauses; nil: it does not.
func (x *Indexer) Err() error {
	if e := x.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// IndexerStats is a snapshot for metrics.
type IndexerStats struct {
	Mark        message.PhyOffset
	BehindBytes int64
	Records     int64 // looked at, indexed or found to be in the index
	ColdBytes   int64 // read with pread
	Pauses      int64 // times it paused because something failed
	NewFiles    int64 // opened or made
	Paused      bool
}

// Stats may be called by any goroutine.
func (x *Indexer) Stats() IndexerStats {
	return IndexerStats{Mark: x.Mark(), BehindBytes: x.BehindBytes(), Records: x.records.Load(), ColdBytes: x.coldBytes.Load(),
		Pauses: x.pauses.Load(), NewFiles: x.newFiles.Load(), Paused: x.failure.Load() != nil}
}

// advanced says that LowWater has moved.
//
// hot: 0 allocs, no locks, one atomic load unless the indexer sleeps.
func (x *Indexer) advanced() {
	if x.parked.Load() && x.parked.CompareAndSwap(true, false) {
		x.wake <- struct{}{}
	}
}

// run is the indexer's goroutine.
func (x *Indexer) run() {
	defer close(x.done)
	if !x.recover() {
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !x.quitting() {
		stopping := x.stopping.Load() // before LowWater: then all that was dispatched before Stop is indexed
		low := x.d.LowWater()
		switch {
		case x.at < low:
			x.worked = true
			if err := x.step(low); err != nil && !x.pause(err) {
				return
			}
		case stopping:
			if err := x.index.Flush(); err != nil {
				x.fail(err)
			}
			return
		case x.worked:
			x.worked = false
			x.rest(timer)
		default:
			x.park(low, timer)
		}
		if x.unflushed && time.Since(x.lastFlush) >= x.opts.FlushInterval {
			if err := x.flush(); err != nil && !x.pause(err) {
				return
			}
		}
	}
	_ = x.index.Flush() // the stop is not clean as it is
}

// recover tries until it succeeds; false: it is time to end.
func (x *Indexer) recover() bool {
	began := time.Now()
	for {
		at, err := x.index.Recover(x.quitting)
		if err == nil {
			x.at = at
			x.mark.Store(int64(at))
			x.succeed()
			if behind := x.BehindBytes(); behind > indexBehindTold {
				x.logger.Info("the index of keys is completed from the log; queries by key are incomplete until then", "from", int64(at), "bytes", behind)
			}
			x.logger.Debug("index recovered", "from", int64(at), "took", time.Since(began))
			return true
		}
		if errors.Is(err, store.ErrShutdown) || !x.pause(err) {
			return false
		}
	}
}

func (x *Indexer) flush() error {
	x.lastFlush, x.unflushed = time.Now(), false
	return x.index.Flush()
}

// step indexes the records of one block that begins at at. An error leaves at where it has to go on.
//
// hot: 0 allocs and no clock per record.
func (x *Indexer) step(low message.PhyOffset) error {
	if oldest := x.d.log.MinPhy(); x.at < oldest {
		x.moveTo(oldest)
		return nil
	}
	segment := message.PhyOffset(x.d.opts.Store.SegmentBytes())
	pos := x.at
	fileEnd := pos - pos%segment + segment
	damage := x.nextDamage(pos)
	if pos == damage {
		x.moveTo(endOf(x.damaged[0]))
		return nil
	}
	b, err := x.read(pos, int(min(low, fileEnd, damage, pos+message.PhyOffset(max(blockBytesMax, x.need)))-pos))
	if err != nil {
		return err
	}
	x.need = 0
	for len(b) > 0 {
		if err := message.ParseView(b, &x.view); err != nil || x.view.PhyOffset != pos {
			if errors.Is(err, message.ErrTornTail) && pos > x.at {
				break // goes on behind the block
			}
			if errors.Is(err, message.ErrTornTail) && len(b) >= message.BlankBytes {
				if size := int64(int32(binary.BigEndian.Uint32(b))); size > int64(len(b)) && pos+message.PhyOffset(size) <= min(low, fileEnd) {
					x.need = size
					return nil
				}
			}
			// The end of the file, or what dispatch has stepped over as well: all of this was dispatched.
			if err := x.add(); err != nil {
				return err
			}
			x.moveTo(min(fileEnd, low))
			return nil
		}
		if x.view.SysFlag&message.SysFlagTransactionMask != message.SysFlagTransactionRollback {
			x.batch = append(x.batch, store.IndexRecord{Phy: pos, StoreTime: x.view.StoreTimestamp, Topic: x.view.Topic, Properties: x.view.Properties})
		}
		pos += message.PhyOffset(x.view.Size)
		b = b[x.view.Size:]
		if len(x.batch) == cap(x.batch) {
			if err := x.add(); err != nil {
				return err
			}
			x.moveTo(pos)
		}
	}
	if err := x.add(); err != nil {
		return err
	}
	x.moveTo(pos)
	return nil
}

// add gives the batch to the index. When it needs another file, the rest of the batch is forgotten and read again: its slices must
// not be held for so long.
func (x *Indexer) add() error {
	if len(x.batch) == 0 {
		return nil
	}
	n, err := x.index.Add(x.batch)
	x.records.Add(int64(n))
	x.unflushed = x.unflushed || n > 0
	if err == nil {
		x.batch = x.batch[:0]
		x.succeed()
		return nil
	}
	if n < len(x.batch) {
		x.moveTo(x.batch[n].Phy)
	}
	x.batch = x.batch[:0]
	if !errors.Is(err, store.ErrIndexFull) {
		return err
	}
	return errNextFile
}

// errNextFile ends a step in favour of NextFile.
var errNextFile = errors.New("dispatch: the index needs its next file")

func (x *Indexer) moveTo(pos message.PhyOffset) {
	x.at = pos
	x.mark.Store(int64(pos))
}

// succeed takes the alarm back.
func (x *Indexer) succeed() {
	if x.failure.Load() != nil {
		x.failure.Store(nil)
		x.logger.Info("indexing goes on", "position", int64(x.at))
	}
}

// read returns n bytes of one file of the log: out of the mapping where they are taken to be in memory.
func (x *Indexer) read(pos message.PhyOffset, n int) ([]byte, error) {
	if x.d.log.IsHot(pos) {
		if b := x.d.log.Slice(pos, n); b != nil {
			return b, nil
		}
	}
	if cap(x.block) < n {
		x.block = make([]byte, max(n, min(blockBytesMax, int(x.d.opts.Store.SegmentBytes()))))
	}
	got, err := x.d.log.ReadAt(x.block[:n], pos)
	x.coldBytes.Add(int64(got))
	if got > 0 || x.d.log.MinPhy() > pos {
		return x.block[:got], nil
	}
	return nil, &RecordError{Phy: pos, Cause: err}
}

// nextDamage returns where the next range begins that recovery stepped over, pos if it lies in one: what was indexed last may
// lie in the middle of one.
func (x *Indexer) nextDamage(pos message.PhyOffset) message.PhyOffset {
	for len(x.damaged) > 0 && endOf(x.damaged[0]) <= pos {
		x.damaged = x.damaged[1:]
	}
	if len(x.damaged) == 0 {
		return math.MaxInt64
	}
	return max(pos, x.damaged[0].Phy)
}

func endOf(d store.DamagedRange) message.PhyOffset { return d.Phy + message.PhyOffset(d.Bytes) }

// pause deals with what ended a step. False: it is time to end.
func (x *Indexer) pause(err error) bool {
	if err == errNextFile {
		if err = x.index.NextFile(); err == nil {
			x.newFiles.Add(1)
			x.succeed()
			return true
		}
	}
	x.fail(err)
	timer := time.NewTimer(x.opts.RetryInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.stopped:
		// What failed may be over by now, and a stop without a complete index is not clean: once more.
		last := x.lastTry
		x.lastTry = true
		return !last
	}
}

// fail raises the alarm, with a line when it is a new one.
func (x *Indexer) fail(err error) {
	x.pauses.Add(1)
	if old := x.Err(); old == nil || old.Error() != err.Error() {
		x.logger.Error("keys are not indexed for the time being; messages flow, queries by key are incomplete", "error", err, "retryAfter", x.opts.RetryInterval)
	}
	x.failure.Store(&err)
}

// rest lets more records come together: being woken for each few of them would cost more than indexing them.
func (x *Indexer) rest(timer *time.Timer) {
	timer.Reset(indexRest)
	select {
	case <-timer.C:
	case <-x.stopped:
	}
}

// park sleeps until LowWater is not seen any more, something has to be synced, or Stop was called.
func (x *Indexer) park(seen message.PhyOffset, timer *time.Timer) {
	x.block = nil
	x.parked.Store(true)
	// Look again after parked is published: who moved LowWater before will not wake us.
	if x.d.LowWater() != seen || x.stopping.Load() {
		x.unpark()
		return
	}
	var due <-chan time.Time
	if x.unflushed {
		timer.Reset(max(0, x.opts.FlushInterval-time.Since(x.lastFlush)))
		due = timer.C
	}
	select {
	case <-x.wake:
	case <-due:
		x.unpark()
	case <-x.quit:
	}
}

// unpark takes the announcement of a sleep back, and the token of whoever ended it already.
func (x *Indexer) unpark() {
	if !x.parked.CompareAndSwap(true, false) {
		<-x.wake
	}
}

// quitting tells whether everything has to end now.
func (x *Indexer) quitting() bool {
	select {
	case <-x.quit:
		return true
	default:
		return false
	}
}
