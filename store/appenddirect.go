package store

import (
	"fmt"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// The second append form, for writeWithoutMmap=true: records are encoded into a buffer and written with one pwrite per
// batch. Reads go through the same mapping as ever (one page cache). The caller of all functions here holds mu.

// scratchBytes is the capacity of the buffer between batches. What is pending always lies in one file.
func (l *CommitLog) scratchBytes() int64 { return min(directScratchBytes, l.set.segmentBytes) }

// reserveScratch makes room for a run of n bytes in the buffer: what is pending is written first when both do not fit.
func (l *CommitLog) reserveScratch(n int64) error {
	if len(l.scratch) > 0 && int64(len(l.scratch))+n > l.scratchBytes() {
		if err := l.flushScratch(); err != nil {
			return err
		}
	}
	if int64(cap(l.scratch)-len(l.scratch)) < n {
		l.scratch = make([]byte, 0, n) // the buffer is empty here; flushScratch gives the large one back
	}
	return nil
}

// encodeDirect is encode for the direct form. reserveScratch has made the room.
func (l *CommitLog) encodeDirect(run []Message) {
	if len(l.scratch) == 0 {
		l.pendingAt = l.pos
	}
	for i := range run {
		m := &run[i]
		at := len(l.scratch)
		l.number(m)
		l.scratch = l.scratch[:at+m.bytes]
		if m.EncodeTo(l.scratch[at:]) != m.bytes {
			panic("BUG: store: a record changed its size while it was appended")
		}
		l.pos += message.PhyOffset(m.bytes)
	}
}

// flushScratch writes what is pending. After an error it is still pending, and writePending tries it again or takes it back.
func (l *CommitLog) flushScratch() error {
	if len(l.scratch) == 0 {
		return nil
	}
	if err := l.writeDirect(l.scratch, l.pendingAt); err != nil {
		return err
	}
	l.scratch = l.scratch[:0]
	l.pendingAt = l.pos
	if n := l.scratchBytes(); int64(cap(l.scratch)) > n {
		l.scratch = make([]byte, 0, n)
	}
	return nil
}

// writeBlank is putBlank for the direct form.
func (l *CommitLog) writeBlank() error {
	if err := l.flushScratch(); err != nil {
		return err
	}
	mark := l.scratch[:blankBytes] // the buffer is empty and larger than that
	l.encodeBlank(mark)
	return l.writeDirect(mark, l.pos)
}

// writeDirect writes p at phy, behind which nothing was published.
func (l *CommitLog) writeDirect(p []byte, phy message.PhyOffset) error {
	if err := l.clearRefused(phy); err != nil {
		return err
	}
	l.refusedTo = phy + message.PhyOffset(len(p))
	if err := l.writeAt(p, phy); err != nil {
		return err
	}
	l.refusedTo = 0
	return nil
}

// clearRefused makes zeros of what a write that failed may have left behind phy, where the log ends: whole records perhaps. They would
// follow a later one that ends where one of them begins, and come back after a kill to a topic that was deleted meanwhile.
func (l *CommitLog) clearRefused(phy message.PhyOffset) error {
	if phy >= l.refusedTo {
		return nil
	}
	if err := l.writeAt(make([]byte, l.refusedTo-phy), phy); err != nil {
		return err
	}
	l.refusedTo = 0
	l.cleared.Store(true)
	return nil
}

func (l *CommitLog) writeAt(p []byte, phy message.PhyOffset) error {
	v := l.cur.view.Load()
	if v == nil {
		return ErrNotReady
	}
	if _, err := v.file.WriteAt(p, int64(phy-l.cur.start)); err != nil {
		if sysio.IsNoSpace(err) {
			return noSpace(l.fsys, l.cur.path, l.set.now().warnPct, err)
		}
		return fmt.Errorf("%w: %s: %w", ErrWriteFailed, l.cur.path, err)
	}
	return nil
}

// writePending ends a batch: everything of it that is still in the buffer is written, or taken back.
func (l *CommitLog) writePending(batch []Message) {
	if err := l.flushScratch(); err != nil {
		l.takeBack(batch, err)
	}
}

// takeBack undoes what number and encodeDirect did for the records that were not written: positions and queue offsets are
// given out once more. What a failed write left behind in the file is cleared, now or before anything else is written there.
func (l *CommitLog) takeBack(batch []Message, err error) {
	for i := range batch {
		m := &batch[i]
		if m.Err != nil || m.PhyOffset < l.pendingAt {
			continue
		}
		m.Err = err
		if entersQueue(m.SysFlag) {
			m.Queue.next.Add(-1)
		}
	}
	l.pos = l.pendingAt
	l.scratch = l.scratch[:0]
	_ = l.clearRefused(l.pos)
}
