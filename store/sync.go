package store

import (
	"peregrine/internal/message"
)

// Sync makes everything durable that was appended before the call and returns the new durable position, which covers to. On
// the mapped form exactly the pages between the durable and the written position are written (msync of the range); with
// writeWithoutMmap it is fdatasync of the files concerned. A failed sync is final: the durable position stays where it was,
// this and every later call returns the error, appends are refused from then on. One goroutine at a time does the work;
// others wait.
//
// hot: 0 allocs
func (l *CommitLog) Sync(to message.PhyOffset) (message.PhyOffset, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	from := l.Flushed()
	if err := l.Err(); err != nil {
		return from, err
	}
	storeTime := l.storeTime.Load() // before wrote: see the field
	target := l.Wrote()
	span := target
	if l.cleared.Swap(false) {
		span++ // the zeros behind the end
	}
	if span <= from {
		return from, nil
	}
	if err := l.syncSpan(from, span); err != nil {
		failure := &syncError{at: from, cause: err}
		l.fail(failure)
		l.logger.Error("sync of the commitlog failed", "from", from, "to", target, "error", err)
		return from, failure
	}
	l.flushedTime.Store(storeTime)
	l.flushed.Store(int64(target))
	return target, nil
}

// syncSpan makes [from, target) durable: names first, then the pages of each file.
func (l *CommitLog) syncSpan(from, target message.PhyOffset) error {
	if int64(target) > l.syncedDir.Load() {
		last := l.files.Load().last()
		if err := l.fsys.SyncDir(l.set.logDir); err != nil {
			return err
		}
		if last != nil {
			l.syncedDir.Store(int64(last.end()))
		}
	}
	table := l.files.Load()
	for from < target {
		f := table.at(from)
		if f == nil {
			return ErrOutOfRange
		}
		to := min(target, f.end())
		if err := f.syncRange(l.fsys, int64(from-f.start), int64(to-f.start), l.set.direct); err != nil {
			return err
		}
		from = to
	}
	return nil
}
