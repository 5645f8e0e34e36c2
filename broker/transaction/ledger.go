package transaction

import (
	"sync"

	"peregrine/internal/message"
)

// ledger is what is known of ends before a round reads it back from the op queue.
type ledger struct {
	mu sync.Mutex // guards the fields below
	// ending counts the ends that are being carried out, by half offset. A round waits for them.
	ending map[message.QueueOffset]int
	settle *sync.Cond // on mu: ending got smaller
	// ended has the offsets whose op message may be missing from what the running round reads.
	ended map[message.QueueOffset]struct{}
	// ops is the text of the op messages that are not written yet; since is the time of its first offset.
	ops   []byte
	since message.Millis
	// newest has the offset of the newest copy of each half that was copied.
	newest map[identity]message.QueueOffset
	lost   uint64 // ends forgotten because of opPendingBytesMax
}

func newLedger() *ledger {
	l := &ledger{ending: make(map[message.QueueOffset]int), ended: make(map[message.QueueOffset]struct{}), newest: make(map[identity]message.QueueOffset)}
	l.settle = sync.NewCond(&l.mu)
	return l
}

// begin says that an end of the half is being carried out.
func (l *ledger) begin(offset message.QueueOffset) {
	l.mu.Lock()
	l.ending[offset]++
	l.mu.Unlock()
}

// done is the end of what begin began. If it worked the half has ended, and so has its newest copy. wake says that the op writer
// has something to wait for, or more than fits into one op message.
func (l *ledger) done(offset message.QueueOffset, id identity, worked bool, now message.Millis, opBytesMax int) (wake bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending[offset]--; l.ending[offset] == 0 {
		delete(l.ending, offset)
	}
	l.settle.Broadcast()
	if !worked {
		return false
	}
	wasEmpty := len(l.ops) == 0
	l.note(offset, now)
	if copied, ok := l.newest[id]; ok {
		if copied != offset {
			l.note(copied, now)
		}
		delete(l.newest, id)
	}
	return wasEmpty || len(l.ops) > opBytesMax
}

func (l *ledger) note(offset message.QueueOffset, now message.Millis) {
	l.ended[offset] = struct{}{}
	if len(l.ops) >= opPendingBytesMax {
		l.lost++
		return
	}
	if len(l.ops) == 0 {
		l.since = now
	}
	l.ops = appendOp(l.ops, offset)
}

// hasEnded waits for an end of the half that is being carried out, then tells whether it is known to have ended.
func (l *ledger) hasEnded(offset message.QueueOffset) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ending[offset] > 0 {
		l.settle.Wait()
	}
	_, ended := l.ended[offset]
	return ended
}

// copied remembers the newest copy of a half. An identity without key is none.
func (l *ledger) copied(id identity, offset message.QueueOffset) {
	if id.uniqKey == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, known := l.newest[id]; known && at < offset || !known && len(l.newest) < copiesMax {
		l.newest[id] = offset
	}
}

// superseded tells whether a newer copy of the half at offset exists.
func (l *ledger) superseded(id identity, offset message.QueueOffset) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[id] > offset
}

// passed drops what is remembered of copies below the progress: they have ended, were given up or copied again.
func (l *ledger) passed(progress message.QueueOffset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, at := range l.newest {
		if at < progress {
			delete(l.newest, id)
		}
	}
}

// startRound takes the ends known so far away, for a round that reads all op messages written by now. They come back with
// merge if the round does not happen.
func (l *ledger) startRound() (taken map[message.QueueOffset]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken, l.ended = l.ended, make(map[message.QueueOffset]struct{})
	return taken
}

func (l *ledger) merge(taken map[message.QueueOffset]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for offset := range taken {
		l.ended[offset] = struct{}{}
	}
}

// full says that the running round should end, so that the next one begins with an empty set.
func (l *ledger) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ended) >= endedMax
}

// takeOps takes the text of the waiting op messages; putBack returns what could not be written.
func (l *ledger) takeOps() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := l.ops
	l.ops = nil
	return ops
}

func (l *ledger) putBack(ops []byte, now message.Millis) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops, l.since = append(ops, l.ops...), now
}

// waiting tells how much op text waits and since when.
func (l *ledger) waiting() (bytes int, since message.Millis) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ops), l.since
}
