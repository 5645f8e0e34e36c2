package store

import (
	"encoding/binary"
	"time"

	"peregrine/internal/message"
)

// Message is one element of an Append batch. The embedded Record is borrowed until Append returns; QueueOffset, PhyOffset
// and StoreTimestamp of it are filled in when Err is nil.
type Message struct {
	message.Record
	// Queue takes the record; its topic and id must be those of the Record. Required.
	Queue *Queue
	// Joined says that the record must lie right behind the previous element in the same file (the records of one batch
	// message). A run of an element and the joined ones behind it succeeds or fails as a whole.
	Joined bool
	// Err says why the element was refused. Set by Append, nil on success; the value before does not matter.
	Err error

	bytes    int   // size of the record
	runBytes int64 // first of a run: size of all its records
	runCount int   // first of a run: number of its records
}

// Append puts the records of a batch into the log, one behind the other, under one hold of the append lock, and returns the
// end of the log afterwards. Each element succeeds or fails by itself (but see Joined); offsets and positions advance on
// success only. Nothing is durable and nothing visible through a queue when it returns: ask flush for the first, dispatch
// gives the second. Any goroutine; it blocks only while the next file of the log is being made.
//
// hot: 0 allocs; the append lock, no other; no system call but the clock (writeWithoutMmap: one pwrite)
func (l *CommitLog) Append(batch []Message) message.PhyOffset {
	if len(batch) == 0 {
		return l.Wrote()
	}
	l.measure(batch)
	l.lockForAppend()
	l.lastStore = max(l.now(), l.lastStore) // one clock read; a clock that steps back does not make the log do so
	for i := 0; i < len(batch); i += batch[i].runCount {
		run := batch[i : i+batch[i].runCount]
		if run[0].Err != nil {
			continue
		}
		if anyClosed(run) { // under the lock: DeleteTopic takes it to end all appends to a queue
			failRun(run, ErrQueueGone)
			continue
		}
		if err := l.reserve(run[0].runBytes); err != nil {
			failRun(run, err)
			continue
		}
		l.encode(run)
	}
	if l.set.direct {
		l.writePending(batch)
	}
	end := l.publish()
	l.mu.Unlock()
	return end
}

// lockForAppend takes the append lock, and the time only if somebody has it.
//
// hot: 0 allocs.
func (l *CommitLog) lockForAppend() {
	if l.mu.TryLock() {
		return
	}
	began := time.Now()
	l.mu.Lock()
	l.lockWaits.Took(time.Since(began), 1)
}

// measure fills in sizes and runs and refuses what can never be stored, before the lock is taken.
func (l *CommitLog) measure(batch []Message) {
	for i := 0; i < len(batch); {
		n := i
		first := &batch[i]
		var total int64
		var bad error
		for {
			m := &batch[n]
			m.Err = nil
			m.bytes = m.Size()
			total += int64(m.bytes)
			if err := l.check(m); err != nil && bad == nil {
				bad = err
			}
			if n++; n == len(batch) || !batch[n].Joined {
				break
			}
		}
		if bad == nil && total+blankBytes > l.set.segmentBytes {
			bad = ErrTooLarge
		}
		first.runBytes, first.runCount = total, n-i
		if bad != nil {
			failRun(batch[i:n], bad)
		}
		i = n
	}
}

func (l *CommitLog) check(m *Message) error {
	switch {
	case m.Queue == nil:
		return ErrNoQueue
	case m.Queue.badTopic || len(m.Topic) > message.TopicBytesMaxV2:
		return ErrBadTopic
	case len(m.Properties)+len(m.PropertiesSuffix) > message.PropertiesBytesMax:
		return ErrProperties
	case int64(m.bytes) > l.set.now().recordBytesMax:
		return ErrTooLarge
	}
	return nil
}

func anyClosed(run []Message) bool {
	for i := range run {
		if run[i].Queue.closed.Load() {
			return true
		}
	}
	return false
}

func failRun(run []Message, err error) {
	for i := range run {
		run[i].Err = err
	}
}

// reserve sees to it that the next n bytes at pos, and an end mark behind them, lie in one file and have blocks on disk. It
// moves on to the next file when they do not fit. The caller holds mu; it is let go while a file is waited for.
func (l *CommitLog) reserve(n int64) error {
	for {
		if p := l.gate.Load(); p != nil {
			return *p
		}
		if l.cur != nil {
			at := int64(l.pos - l.cur.start)
			if at+n+blankBytes <= l.cur.size {
				if at+n+blankBytes <= l.cur.allocated.Load() {
					if l.set.direct {
						return l.reserveScratch(n)
					}
					return nil
				}
				if err := l.awaitSpace(n); err != nil {
					return err
				}
				continue
			}
		}
		if err := l.roll(n); err != nil {
			return err
		}
	}
}

// hasRoom tells whether the allocator is far enough for n bytes at pos. The caller holds mu.
func (l *CommitLog) hasRoom(n int64) bool {
	f, at := l.cur, int64(0)
	if f != nil {
		at = int64(l.pos - f.start)
		if at+n+blankBytes > f.size {
			f, at = l.files.Load().at(f.end()), 0
		}
	} else {
		f = l.files.Load().at(l.pos)
	}
	return f != nil && at+n+blankBytes <= f.allocated.Load()
}

// awaitSpace waits for the allocator, which is behind or out of space. The caller holds mu; others append meanwhile, so
// everything is looked at again afterwards.
func (l *CommitLog) awaitSpace(n int64) error {
	if err := l.flushScratch(); err != nil {
		return err
	}
	if err := l.noSpaceCause(); err != nil {
		return err
	}
	progress := l.alloc.progressed()
	if l.hasRoom(n) {
		return nil // it came between our look and the subscription
	}
	l.publish()
	l.mu.Unlock()
	err := l.alloc.wait(progress)
	l.mu.Lock()
	return err
}

// roll enters the next file: the present one gets its end mark. The next one must be able to take n bytes. The caller holds
// mu.
func (l *CommitLog) roll(n int64) error {
	nextStart := l.pos
	if l.cur != nil {
		nextStart = l.cur.end()
	}
	if !l.hasRoom(n) {
		return l.awaitSpace(n)
	}
	next := l.files.Load().at(nextStart)
	v := next.view.Load()
	if v == nil {
		return ErrNotReady // the files ahead of pos are always mapped; this one was closed under us
	}
	if l.cur != nil && l.pos < nextStart {
		if err := l.putBlank(); err != nil {
			return err
		}
	}
	l.cur, l.curData, l.pos = next, v.data, nextStart
	l.pendingAt = nextStart
	return nil
}

// putBlank writes the end-of-file mark at pos. At least blankBytes are free there: every record kept them so.
func (l *CommitLog) putBlank() error {
	if l.set.direct {
		return l.writeBlank()
	}
	l.encodeBlank(l.curData[l.pos-l.cur.start:])
	return nil
}

func (l *CommitLog) encodeBlank(dst []byte) {
	magic := message.MagicBlank
	binary.BigEndian.PutUint32(dst, uint32(l.cur.end()-l.pos))
	binary.BigEndian.PutUint32(dst[4:], uint32(magic))
}

// encode places a run at pos and gives out its offsets. The room is there. The caller holds mu.
func (l *CommitLog) encode(run []Message) {
	if l.set.direct {
		l.encodeDirect(run)
		return
	}
	for i := range run {
		m := &run[i]
		l.number(m)
		at := int64(l.pos - l.cur.start)
		if m.EncodeTo(l.curData[at:at+int64(m.bytes)]) != m.bytes {
			panic("BUG: store: a record changed its size while it was appended")
		}
		l.pos += message.PhyOffset(m.bytes)
	}
}

// number gives a record its place in the log and in its queue. Half messages that were never handed to a system topic
// (type PREPARED) and rolled-back ones enter no queue (CommitLog.assignOffset of 5.5.0). The caller holds mu.
func (l *CommitLog) number(m *Message) {
	m.PhyOffset = l.pos
	m.StoreTimestamp = l.lastStore
	m.QueueOffset = 0
	if entersQueue(m.SysFlag) {
		next := m.Queue.next.Load()
		m.QueueOffset = message.QueueOffset(next)
		m.Queue.next.Store(next + 1)
	}
}

// entersQueue tells whether a record of this sysFlag gets a ConsumeQueue unit.
func entersQueue(sysFlag int32) bool {
	t := sysFlag & message.SysFlagTransactionMask
	return t != message.SysFlagTransactionPrepared && t != message.SysFlagTransactionRollback
}

// publish makes everything below pos readable and wakes the goroutines that work ahead. The caller holds mu.
func (l *CommitLog) publish() message.PhyOffset {
	end := int64(l.pos)
	if end == l.wrote.Load() {
		return l.pos
	}
	l.storeTime.Store(int64(l.lastStore))
	l.wrote.Store(end)
	if end >= l.touchAt.Load() {
		l.touch.poke()
	}
	if end >= l.allocateAt.Load() {
		l.alloc.poke()
	}
	return l.pos
}
