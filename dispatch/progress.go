package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
)

// NoRecord is Mark.Newest of a dispatcher that has read no record yet.
const NoRecord message.PhyOffset = -1

// Mark is a position in the log with the record before it.
type Mark struct {
	Pos       message.PhyOffset // everything below is meant
	Newest    message.PhyOffset // start of the newest record below Pos, NoRecord if none was read since the start
	StoreTime message.Millis    // of that record
}

// progress knows what the reader has handed out and the shards have done. Low is exact: the first record of the oldest
// batch that is not done, or the reader's position when all are. It never goes back, because a new batch begins at
// or behind the reader's position at the time of the last handing-out.
type progress struct {
	low atomic.Int64 // Mark.Pos of the low-water mark, for those who need no more

	mu      sync.Mutex // guards everything below
	read    Mark       // everything below was handed out
	lowMark Mark
	pending []pendingRing // by shard
	waiters []progressWaiter
	ended   error // why nothing will move any more
}

// pendingRing holds the begins of the batches of one shard that are handed out and not done, oldest first.
type pendingRing struct {
	marks [batchesPerShard]Mark
	head  int
	count int
}

type progressWaiter struct {
	target message.PhyOffset
	result chan error // capacity 1; gets exactly one value
}

func newProgress(shards int) *progress { return &progress{pending: make([]pendingRing, shards)} }

// begin sets the position that everything starts from.
func (p *progress) begin(from message.PhyOffset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = Mark{Pos: from, Newest: NoRecord}
	p.lowMark = p.read
	p.low.Store(int64(from))
}

// handOut notes the batches that the shards are about to get (nil: none for that shard) and that everything below read
// is in them or done. It has to be called before the shards get them.
func (p *progress) handOut(batches []*batch, read Mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range batches {
		if b != nil {
			ring := &p.pending[i]
			ring.marks[(ring.head+ring.count)%batchesPerShard] = b.before
			ring.count++
		}
	}
	p.read = read
	p.settle()
}

// done notes that a shard has done its oldest batch.
func (p *progress) done(shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ring := &p.pending[shard]
	ring.head = (ring.head + 1) % batchesPerShard
	ring.count--
	p.settle()
}

// settle computes the low-water mark. Under mu.
func (p *progress) settle() {
	low := p.read
	for i := range p.pending {
		if ring := &p.pending[i]; ring.count > 0 && ring.marks[ring.head].Pos < low.Pos {
			low = ring.marks[ring.head]
		}
	}
	if low.Pos < p.lowMark.Pos {
		panic("BUG: dispatch: the low-water mark goes back")
	}
	p.lowMark = low
	p.low.Store(int64(low.Pos))
	for i := len(p.waiters) - 1; i >= 0; i-- {
		if w := p.waiters[i]; w.target <= low.Pos {
			p.removeWaiter(i)
			w.result <- nil
		}
	}
}

// mark returns the low-water mark with its record.
func (p *progress) mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lowMark
}

// wait blocks until the low-water mark is at least target. A zero deadline is none.
func (p *progress) wait(target message.PhyOffset, deadline time.Time) error {
	p.mu.Lock()
	if p.lowMark.Pos >= target || p.ended != nil {
		defer p.mu.Unlock()
		if p.lowMark.Pos >= target {
			return nil
		}
		return p.ended
	}
	w := progressWaiter{target: target, result: make(chan error, 1)}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()

	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case err := <-w.result:
		return err
	case <-expired:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.waiters {
		if p.waiters[i].result == w.result {
			p.removeWaiter(i)
			return ErrTimeout
		}
	}
	return <-w.result
}

func (p *progress) removeWaiter(i int) {
	last := len(p.waiters) - 1
	p.waiters[i] = p.waiters[last]
	p.waiters[last] = progressWaiter{}
	p.waiters = p.waiters[:last]
}

// end releases all waiters and all later ones with err, unless they got what they wanted.
func (p *progress) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = err
	}
	for _, w := range p.waiters {
		w.result <- p.ended
	}
	clear(p.waiters)
	p.waiters = p.waiters[:0]
}
