package store

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"peregrine/internal/message"
)

// Unit is one ConsumeQueue entry: where a record lies, its whole size in bytes, and its tags code (in a file it may be an address
// in consumequeue_ext instead).
type Unit struct {
	Phy  message.PhyOffset
	Size int32
	Tags message.TagsCode
}

// IsPreBlank tells that the unit only keeps its queue offset occupied: there is no record, readers step over it.
func (u Unit) IsPreBlank() bool { return u.Size == preBlankSize }

// Hidden tells that there is nothing to show at the unit's offset: a pre-blank unit, or that of a filler in the place of a damaged
// record (message.Filler).
func (u Unit) Hidden() bool { return u.Size == preBlankSize || u.Tags == message.TagsCodeFiller }

// Queue is one queue of one topic: the next offset for appends, and the ConsumeQueue that readers see. It exists in memory
// from the first mention on, in files from its first unit on.
type Queue struct {
	topic    string
	id       message.QueueID
	badTopic bool // the name cannot be a directory: nothing is ever stored in it
	store    *Store

	// next is the queue offset of the next append. Written under the append lock (CommitLog.mu); dispatch raises it there too.
	next atomic.Int64
	_    [64]byte
	// max publishes the end of the visible units, after they are in the file and in the ring.
	max atomic.Int64
	// own is the first unit that this run has written, -1 while there is none.
	own atomic.Int64
	// min is the first unit whose record is still in the log.
	min atomic.Int64
	// closed says that the queue is being deleted, or was: no record is appended for it any more. Set under CommitLog.mu.
	closed atomic.Bool
	// gone says that the queue was deleted: nothing is stored in it any more, and asking the store again gives another one.
	gone atomic.Bool
	// goneBelow publishes up to which byte files were deleted: no descriptor of them may stay in the cache.
	goneBelow atomic.Int64
	// bornAt is where the log ended when the topic was deleted before: older records of this name are not the queue's.
	bornAt message.PhyOffset

	// writeMu makes AppendUnits and FlushQueues exclusive per queue. Taken before ringMu, before CommitLog.mu.
	writeMu   sync.Mutex
	firstFile int64               // start byte of the oldest file, -1 without files
	synced    message.QueueOffset // units below are durable, with the names of their files
	dirty     bool                // in Store.dirtyQueues
	newNames  bool                // a file or directory was made since the last sync
	ext       queueExt

	// ringMu guards the two below. Short: a copy of units. Leaf.
	ringMu sync.Mutex
	ring   unitRing
	idle   uint8 // ticks since the last unit, saturating
}

// Topic and ID name the queue.
func (q *Queue) Topic() string { return q.topic }

// ID is the queue's number within its topic.
func (q *Queue) ID() message.QueueID { return q.id }

// Min is the first offset that can be read.
// hot: 0 allocs, no locks
func (q *Queue) Min() message.QueueOffset { return message.QueueOffset(q.min.Load()) }

// Max is the end of what can be read: the offset that the next visible message will have.
// hot: 0 allocs, no locks
func (q *Queue) Max() message.QueueOffset { return message.QueueOffset(q.max.Load()) }

// Next is the offset that the next append will get. It runs ahead of Max by what is not dispatched yet.
func (q *Queue) Next() message.QueueOffset { return message.QueueOffset(q.next.Load()) }

// Units copies units from offset from on out of memory and returns how many. hot is false when they are not in memory: ask
// ReadUnits. At or behind Max it is 0 and true. It reads no file. Any goroutine.
// hot: 0 allocs, the queue's ring lock
func (q *Queue) Units(dst []Unit, from message.QueueOffset) (n int, hot bool) {
	if from >= q.Max() {
		return 0, true
	}
	if from < q.Min() {
		return 0, false
	}
	q.ringMu.Lock()
	n, hot = q.ring.copyTo(dst, from)
	q.ringMu.Unlock()
	return n, hot
}

// queueTable finds queues by topic and id without locks. Creating a queue copies one shard of the topics.
type queueTable struct {
	seed   maphash.Seed
	mu     sync.Mutex // serialises creation
	shards [queueShardCount]atomic.Pointer[map[string]*topicQueues]
	count  atomic.Int64
}

// topicQueues is the queues of one topic. Both fields are replaced, never changed.
type topicQueues struct {
	name  string
	dense atomic.Pointer[[]*Queue]                   // by id; holes are nil
	large atomic.Pointer[map[message.QueueID]*Queue] // ids from queueIDDenseMax on, and negative ones
}

func newQueueTable() *queueTable {
	t := &queueTable{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].Store(&map[string]*topicQueues{})
	}
	return t
}

func (t *queueTable) shard(topic []byte) *atomic.Pointer[map[string]*topicQueues] {
	return &t.shards[maphash.Bytes(t.seed, topic)&(queueShardCount-1)]
}

// lookup returns nil if the queue was never seen.
// hot: 0 allocs, no locks
func (t *queueTable) lookup(topic []byte, id message.QueueID) *Queue {
	tq := (*t.shard(topic).Load())[string(topic)]
	if tq == nil {
		return nil
	}
	return tq.get(id)
}

func (tq *topicQueues) get(id message.QueueID) *Queue {
	if id >= 0 && id < queueIDDenseMax {
		if d := tq.dense.Load(); d != nil && int(id) < len(*d) {
			return (*d)[id]
		}
		return nil
	}
	if m := tq.large.Load(); m != nil {
		return (*m)[id]
	}
	return nil
}

// put adds a queue. The caller holds the table's mu.
func (tq *topicQueues) put(q *Queue) {
	if q.id >= 0 && q.id < queueIDDenseMax {
		var old []*Queue
		if d := tq.dense.Load(); d != nil {
			old = *d
		}
		dense := make([]*Queue, max(len(old), int(q.id)+1))
		copy(dense, old)
		dense[q.id] = q
		tq.dense.Store(&dense)
		return
	}
	large := map[message.QueueID]*Queue{q.id: q}
	if m := tq.large.Load(); m != nil {
		for id, old := range *m {
			large[id] = old
		}
	}
	tq.large.Store(&large)
}

// getOrCreate makes the queue in memory if it was never seen.
func (t *queueTable) getOrCreate(topic string, id message.QueueID, create func(string, message.QueueID) *Queue) *Queue {
	key := []byte(topic)
	if q := t.lookup(key, id); q != nil {
		return q
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	shard := t.shard(key)
	topics := *shard.Load()
	tq := topics[topic]
	if tq == nil {
		grown := make(map[string]*topicQueues, len(topics)+1)
		for name, old := range topics {
			grown[name] = old
		}
		tq = &topicQueues{name: topic}
		grown[topic] = tq
		defer shard.Store(&grown)
	}
	q := tq.get(id)
	if q == nil {
		q = create(tq.name, id)
		tq.put(q)
		t.count.Add(1)
	}
	return q
}

// each calls yield with every queue until it returns false. Queues made meanwhile may be missed.
func (t *queueTable) each(yield func(*Queue) bool) {
	for i := range t.shards {
		for _, tq := range *t.shards[i].Load() {
			if !tq.each(yield) {
				return
			}
		}
	}
}

// each is queueTable.each for one topic; false when yield returned it.
func (tq *topicQueues) each(yield func(*Queue) bool) bool {
	if d := tq.dense.Load(); d != nil {
		for _, q := range *d {
			if q != nil && !yield(q) {
				return false
			}
		}
	}
	if m := tq.large.Load(); m != nil {
		for _, q := range *m {
			if !yield(q) {
				return false
			}
		}
	}
	return true
}
