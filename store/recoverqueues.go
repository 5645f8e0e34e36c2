package store

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"peregrine/internal/message"
)

// loadQueues finds the end of every queue that has a folder, several at a time.
func (r *recovery) loadQueues() error {
	return r.parallel(len(r.lay.queues), func(i int) error {
		d := r.lay.queues[i]
		return r.loadQueue(r.s.Queue(d.topic, d.id), d.files)
	})
}

// parallel calls work(0..n-1) on a few goroutines and returns the first error.
func (r *recovery) parallel(n int, work func(int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var first error
	for range min(n, recoverWorkersMax) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := work(i); err != nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
					return
				}
			}
		}()
	}
	wg.Wait()
	return first
}

// loadQueue sets the queue's end: behind the last unit of the unbroken run of written ones. The last three files are walked
// (ConsumeQueue.recover, 5.5.0), since a page in the middle may be missing. What lies behind a hole names records, but is no
// part of the queue: see clearTails.
func (r *recovery) loadQueue(q *Queue, files []dataFile) error {
	files = newestRun(files, r.s.set.queueFileBytes)
	if len(files) == 0 {
		return nil
	}
	perFile := message.QueueOffset(r.s.set.queueFileBytes / unitBytes)
	q.firstFile = files[0].start
	first := message.QueueOffset(files[0].start / unitBytes)
	end, limit := first, first+perFile*message.QueueOffset(len(files))
	for _, f := range files {
		if f.size < r.s.set.queueFileBytes {
			if err := setLength(r.s.fsys, f.path, r.s.set.queueFileBytes); err != nil {
				return err
			}
		}
	}
	var err error
	from := max(first, limit-3*perFile)
	if end, err = r.walkUnits(q, from, limit); err == nil && end == from && from > first {
		end, err = r.walkUnits(q, first, limit)
	}
	if err != nil {
		return err
	}
	r.setEnd(q, end)
	q.min.Store(int64(first))
	r.noteTail(q, limit)
	return nil
}

// setEnd puts the end of the visible units to end.
func (r *recovery) setEnd(q *Queue, end message.QueueOffset) {
	q.max.Store(int64(end))
	q.next.Store(int64(end))
	q.synced = end
	q.ring.end, q.ring.count = end, 0
}

// newestRun returns the last files without a gap between them.
func newestRun(files []dataFile, size int64) []dataFile {
	for i := len(files) - 1; i > 0; i-- {
		if files[i-1].start+size != files[i].start {
			return files[i:]
		}
	}
	return files
}

// walkUnits returns the first offset in [from, limit) without a valid unit, limit if there is none.
func (r *recovery) walkUnits(q *Queue, from, limit message.QueueOffset) (message.QueueOffset, error) {
	buf := make([]Unit, unitChunk)
	for from < limit {
		n, err := q.readUnits(buf, from, limit)
		if err != nil {
			return 0, err
		}
		for i := range n {
			if !buf[i].valid() {
				return from + message.QueueOffset(i), nil
			}
		}
		from += message.QueueOffset(n)
	}
	return limit, nil
}

// lastUnit returns the queue's last unit that names a record, whether the log has that still or not.
func (r *recovery) lastUnit(q *Queue) (Unit, bool) {
	var one [1]Unit
	for o := q.Max() - 1; o >= 0 && int64(o)*unitBytes >= q.firstFile; o-- {
		if n, err := q.readUnits(one[:], o, q.Max()); err != nil || n == 0 {
			return Unit{}, false
		}
		if !one[0].IsPreBlank() {
			return one[0], true
		}
	}
	return Unit{}, false
}

// hideUnit puts a pre-blank unit in the place of the one that names a damaged record.
func (r *recovery) hideUnit(q *Queue, offset message.QueueOffset, phy message.PhyOffset) error {
	if offset < q.Min() || offset >= q.Max() {
		return nil
	}
	var one [1]Unit
	if n, err := q.readUnits(one[:], offset, q.Max()); err != nil || n == 0 || one[0].Phy != phy || one[0].IsPreBlank() {
		return err
	}
	return r.replaceUnit(q, offset, Unit{Size: preBlankSize})
}

// replaceUnit writes one unit in the middle of a queue. It becomes durable with the next flush.
func (r *recovery) replaceUnit(q *Queue, offset message.QueueOffset, u Unit) error {
	q.synced = min(q.synced, offset)
	if !q.dirty {
		q.dirty = true
		q.store.noteDirty(q)
	}
	r.windows.forget(q)
	return q.write(offset, []Unit{u}, 1)
}

// eachQueue calls work for every queue, on a few goroutines.
func (r *recovery) eachQueue(work func(*Queue) error) error {
	var queues []*Queue
	r.s.queues.each(func(q *Queue) bool { queues = append(queues, q); return true })
	return r.parallel(len(queues), func(i int) error { return work(queues[i]) })
}

// cutQueues takes away the units that name records at or behind the end of the log.
func (r *recovery) cutQueues(end message.PhyOffset) error {
	var cut, newest atomic.Int64
	err := r.eachQueue(func(q *Queue) error {
		last, _ := r.lastUnit(q)
		n, err := r.cutQueue(q, end)
		if n > 0 {
			cut.Add(n)
			raise(&newest, int64(last.Phy)+int64(last.Size))
		}
		return err
	})
	if n := cut.Load(); n > 0 {
		r.report.UnitsCut += n
		r.logger.Warn("the log ends before records that queues name: these are lost, their entries are cut, their places and offsets will be used again",
			"end", int64(end), "entries", n, "namedUpTo", newest.Load())
	}
	return err
}

// raise sets a to at least v.
func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}

func (r *recovery) cutQueue(q *Queue, end message.PhyOffset) (int64, error) {
	if u, ok := r.lastUnit(q); !ok || u.Phy < end {
		return 0, nil
	}
	buf := make([]Unit, unitChunk)
	keep := q.Max()
	for keep > q.Min() {
		from := max(keep-unitChunk, q.Min())
		// A chunk may not cross a file.
		perFile := q.store.unitsPerFile()
		from = max(from, (keep-1)-(keep-1)%perFile)
		n, err := q.readUnits(buf[:keep-from], from, keep)
		if err != nil {
			return 0, err
		}
		i := n
		for i > 0 && (buf[i-1].Phy >= end || buf[i-1].IsPreBlank()) {
			i--
		}
		keep = from + message.QueueOffset(i)
		if i > 0 {
			break
		}
	}
	cut := q.Max() - keep
	return int64(cut), r.cutAt(q, keep)
}

// clearUnits makes [from, limit) empty: the rest of the file that holds from is zeroed, later files are deleted.
func (r *recovery) clearUnits(q *Queue, from, limit message.QueueOffset) error {
	fileBytes := r.s.set.queueFileBytes
	off, stop := int64(from)*unitBytes, int64(limit)*unitBytes
	start := off - off%fileBytes
	if off%fileBytes != 0 || start == q.firstFile {
		if start < stop {
			file, err := r.s.fsys.OpenFile(q.filePath(start), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			err = zeroTail(file, off-start, fileBytes)
			if cerr := file.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
		}
		start += fileBytes
	}
	// From the newest on: a crash in between must not leave a gap, behind which a start would look for the queue's beginning.
	for last := stop - fileBytes; last >= start; last -= fileBytes {
		q.store.cold.drop(fileKey{queue: q, start: last})
		if err := r.s.fsys.Remove(q.filePath(last)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// correctMin sets each queue's first readable offset.
func (r *recovery) correctMin() error {
	minPhy := r.s.log.MinPhy()
	return r.eachQueue(func(q *Queue) error {
		_, _, err := q.correctMin(minPhy)
		return err
	})
}
