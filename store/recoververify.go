package store

import (
	"container/heap"
	"errors"
	"io/fs"

	"peregrine/internal/message"
)

// unitWindows keeps a few units of each queue in memory, for looks in the order of the log: within a queue that is the order of
// its units, so most looks find what an earlier read brought.
type unitWindows struct {
	byQueue map[*Queue]*unitWindow
}

type unitWindow struct {
	from  message.QueueOffset
	count int
	units [unitWindowUnits]Unit
}

// at returns the unit at an offset below the queue's maximum, with the tags code of its ext unit if that can be read.
func (w *unitWindows) at(q *Queue, offset message.QueueOffset) (Unit, error) {
	win := w.byQueue[q]
	if win == nil {
		if w.byQueue == nil || len(w.byQueue) >= unitWindowsMax {
			w.byQueue = map[*Queue]*unitWindow{}
		}
		win = &unitWindow{}
		w.byQueue[q] = win
	}
	if offset < win.from || offset >= win.from+message.QueueOffset(win.count) {
		n, err := q.readUnits(win.units[:], offset, q.Max())
		q.resolve(win.units[:n])
		win.from, win.count = offset, n
		if err != nil || n == 0 {
			return Unit{}, err
		}
	}
	return win.units[offset-win.from], nil
}

// forget is for queues whose units change.
func (w *unitWindows) forget(q *Queue) { delete(w.byQueue, q) }

// verify compares a good record with its unit. A record without a unit is dispatched anew, and everything behind it is looked
// at by dispatch. A unit that is none, or names no record of its queue, ends the queue there; one that names another record of its
// queue stays: the original has shifted it, and it serves it so.
func (r *recovery) verify(q *Queue, v *message.View) error {
	if v.QueueOffset >= q.Max() {
		r.missing = min(r.missing, v.PhyOffset)
		return nil
	}
	if int64(v.QueueOffset)*unitBytes < q.firstFile {
		return r.verifyBelow(q, v)
	}
	u, err := r.windows.at(q, v.QueueOffset)
	if err != nil {
		return err
	}
	// Only a unit in two sectors, or the last one, of which a write may have brought a part, can be right but for its tags code.
	whole := !tearable(v.QueueOffset, r.s.set.queueFileBytes) && v.QueueOffset+1 < q.Max()
	if u.Phy == v.PhyOffset && u.Size == v.Size && v.IsFiller() {
		if u.Tags == message.TagsCodeFiller {
			return nil
		}
		// The unit of the damaged record, or what the original made: readers would not step over it.
		return r.replaceUnit(q, v.QueueOffset, Unit{Phy: u.Phy, Size: u.Size, Tags: message.TagsCodeFiller})
	}
	if u.Phy == v.PhyOffset && u.Size == v.Size && (whole && !r.s.extThere || tagsFit(q, u, v)) {
		return nil
	}
	if u.valid() && !u.IsPreBlank() && u.Phy != v.PhyOffset {
		named, err := names(r.probe, q, u)
		if named || err != nil {
			if named && u.Phy > v.PhyOffset && r.probe.view.QueueOffset == v.QueueOffset {
				r.diedBehind(q, v)
			}
			return err
		}
	}
	if earlier, err := r.ofEarlierLife(q, v); earlier || err != nil {
		return err
	}
	r.logger.Warn("a queue entry does not name its record; the queue is filled again from there", "topic", q.topic, "queue", int32(q.id),
		"offset", int64(v.QueueOffset), "position", int64(v.PhyOffset))
	r.missing = min(r.missing, v.PhyOffset)
	r.report.UnitsCut += int64(q.Max() - v.QueueOffset)
	r.endAt(q, v.QueueOffset)
	return nil
}

// endAt ends the queue at keep for the rest of the scan, and leaves its files as they are: see clearTails.
func (r *recovery) endAt(q *Queue, keep message.QueueOffset) {
	perFile := q.store.unitsPerFile()
	r.windows.forget(q)
	r.noteTail(q, (q.Max()+perFile-1)/perFile*perFile)
	synced := q.synced
	r.setEnd(q, keep)
	q.synced = min(synced, keep)
	q.next.Store(int64(max(keep, r.seen[q].next))) // records of the log that have no unit yet keep their offsets
}

// belowFiles is the newest record of a queue that was met although the file of its unit is gone, and the first one of its run.
type belowFiles struct {
	offset message.QueueOffset
	first  message.PhyOffset
}

// verifyBelow is verify for a record that belongs into a file in front of the queue's oldest. Retention deletes the log first, so
// somebody took the file away: the queue is made again from the log. One record alone may have a damaged offset; two in a
// row, or one that joins the queue, have not.
func (r *recovery) verifyBelow(q *Queue, v *message.View) error {
	before, known := r.below[q]
	if !known || before.offset+1 != v.QueueOffset {
		before.first = v.PhyOffset
	}
	joins := int64(v.QueueOffset+1)*unitBytes == q.firstFile
	if (known && before.offset+1 == v.QueueOffset) || joins {
		r.logger.Warn("the oldest files of a queue are missing; it is filled again", "topic", q.topic, "queue", int32(q.id), "offset", int64(v.QueueOffset))
		r.missing = min(r.missing, before.first)
		delete(r.below, q)
		r.windows.forget(q)
		return r.emptyQueue(q)
	}
	if r.below == nil {
		r.below = map[*Queue]belowFiles{}
	}
	r.below[q] = belowFiles{v.QueueOffset, before.first}
	return nil
}

// emptyQueue deletes a queue's files. Its next offset stays.
func (r *recovery) emptyQueue(q *Queue) error {
	next := q.Next()
	limit := max(r.tails[q], q.Max()-q.Max()%q.store.unitsPerFile()+q.store.unitsPerFile())
	delete(r.tails, q)
	r.loose = looseNames{}
	for start := q.firstFile; start < int64(limit)*unitBytes; start += r.s.set.queueFileBytes {
		q.store.cold.drop(fileKey{queue: q, start: start})
		if err := r.s.fsys.Remove(q.filePath(start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	q.firstFile = -1
	r.setEnd(q, 0)
	q.min.Store(0)
	q.next.Store(int64(next))
	return r.s.fsys.SyncDir(q.dir())
}

// cutForeign takes away what a queue holds beyond its records in the log: units that name nothing of it. All of the log was
// looked at.
func (r *recovery) cutForeign(q *Queue) error {
	offset := r.seen[q].next
	if _, known := r.seen[q]; !known {
		var err error
		if offset, err = q.firstReadable(q.Min(), q.Max(), r.s.log.MinPhy()); err != nil {
			return err
		}
	}
	probe := &logScanner{fsys: r.s.fsys, table: r.probe.table, checkCRC: r.probe.checkCRC, block: probeBlockBytes}
	defer probe.close()
	var one [1]Unit
	for ; offset < q.Max(); offset++ {
		if _, err := q.readUnits(one[:], offset, q.Max()); err != nil {
			return err
		}
		if one[0].IsPreBlank() {
			continue
		}
		if named, err := names(probe, q, one[0]); err != nil {
			return err
		} else if !named {
			r.logger.Warn("a queue has entries that name none of its records; they are cut", "topic", q.topic, "queue", int32(q.id),
				"offset", int64(offset), "entries", int64(q.Max()-offset))
			return r.cutAt(q, offset)
		}
	}
	return nil
}

// tearable tells whether the unit at an offset lies in two sectors, of which one may be older than the other.
func tearable(offset message.QueueOffset, fileBytes int64) bool {
	return int64(offset)*unitBytes%fileBytes%sectorBytes+unitBytes > sectorBytes
}

// tagsFit compares the tags code where it is the hash of the tags, not a time of delivery. An address that is left, of an ext unit
// that cannot be read, does not fit: the queue is filled again from there, with ext units or without.
func tagsFit(q *Queue, u Unit, v *message.View) bool {
	return u.Tags == v.TagsCode() || q.topic == message.ScheduleTopic && !u.Tags.IsExtAddress()
}

// names tells whether a unit names a good record of its queue.
func names(probe *logScanner, q *Queue, u Unit) (bool, error) {
	v, err := probe.look(u.Phy)
	if err != nil || v != recordGood {
		return false, err
	}
	return probe.view.QueueID == q.id && probe.view.Size == u.Size && string(probe.view.Topic) == q.topic, nil
}

// namedUnit is the next unit of a queue behind a damaged place.
type namedUnit struct {
	q      *Queue
	offset message.QueueOffset
	unit   Unit
}

type namedHeap []namedUnit

func (h namedHeap) Len() int           { return len(h) }
func (h namedHeap) Less(i, k int) bool { return h[i].unit.Phy < h[k].unit.Phy }
func (h namedHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *namedHeap) Push(x any)        { *h = append(*h, x.(namedUnit)) }
func (h *namedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// nextNamed returns the first good record behind pos and before limit that a queue entry names, -1 if there is none. It must
// say itself that it is what the entry means: bodies can hold bytes that look like records, so nothing is searched for.
func (r *recovery) nextNamed(pos, limit message.PhyOffset) (message.PhyOffset, error) {
	var h namedHeap
	var failed error
	r.s.queues.each(func(q *Queue) bool {
		var offset message.QueueOffset
		if offset, failed = q.firstReadable(q.Min(), q.Max(), pos+1); failed != nil {
			return false
		}
		failed = r.pushNamed(&h, q, offset, limit)
		return failed == nil
	})
	for failed == nil && len(h) > 0 {
		n := heap.Pop(&h).(namedUnit)
		v, err := r.probe.look(n.unit.Phy)
		if err != nil {
			return 0, err
		}
		view := &r.probe.view
		if v == recordGood && view.QueueOffset == n.offset && view.QueueID == n.q.id && view.Size == n.unit.Size && string(view.Topic) == n.q.topic {
			return n.unit.Phy, nil
		}
		failed = r.pushNamed(&h, n.q, n.offset+1, limit)
	}
	return -1, failed
}

// pushNamed adds the queue's first real unit at or behind offset, if it names something before limit.
func (r *recovery) pushNamed(h *namedHeap, q *Queue, offset message.QueueOffset, limit message.PhyOffset) error {
	for ; offset < q.Max(); offset++ {
		u, err := r.windows.at(q, offset)
		if err != nil {
			return err
		}
		if u.IsPreBlank() {
			continue
		}
		if u.valid() && u.Phy < limit {
			heap.Push(h, namedUnit{q, offset, u})
		}
		return nil
	}
	return nil
}

// hideRange puts pre-blank units in the place of those that name something in a damaged part of the log, and keeps their offsets
// from being given out again.
func (r *recovery) hideRange(d DamagedRange) error {
	end := d.Phy + message.PhyOffset(d.Bytes)
	var failed error
	r.s.queues.each(func(q *Queue) bool {
		var offset message.QueueOffset
		for offset, failed = q.firstReadable(q.Min(), q.Max(), d.Phy); failed == nil && offset < q.Max(); offset++ {
			var u Unit
			if u, failed = r.windows.at(q, offset); failed != nil || (!u.IsPreBlank() && u.Phy >= end) {
				break
			}
			if !u.IsPreBlank() {
				failed = r.hideUnit(q, offset, u.Phy)
				r.keepOffset(q, offset)
			}
		}
		r.windows.forget(q)
		return failed == nil
	})
	return failed
}

// keepOffset notes that a queue offset was given out, though no record shows it.
func (r *recovery) keepOffset(q *Queue, offset message.QueueOffset) {
	seen, known := r.seen[q]
	if !known {
		seen.first = offset
	}
	seen.first, seen.next = min(seen.first, offset), max(seen.next, offset+1)
	r.seen[q] = seen
	if q.Next() <= offset {
		q.next.Store(int64(offset) + 1)
	}
}

// rewriteUnits writes the units once more that name something at or behind from, and the pre-blank ones in front of them: the kernel
// may hold their pages for clean after a sync that failed. They become durable with the next flush, before the checkpoint moves.
func (r *recovery) rewriteUnits(q *Queue, from message.PhyOffset) error {
	offset, err := q.firstReadable(q.Min(), q.Max(), from)
	if err == nil {
		offset, err = r.frontOfBlanks(q, offset)
	}
	if err != nil || offset >= q.Max() {
		return err
	}
	q.synced = min(q.synced, offset)
	q.newNames = true
	if !q.dirty {
		q.dirty = true
		q.store.noteDirty(q)
	}
	units := make([]Unit, unitChunk)
	for offset < q.Max() {
		n, err := q.readUnits(units, offset, q.Max())
		if err == nil {
			err = q.rewriteExt(units[:n])
		}
		if err == nil {
			err = q.write(offset, units[:n], n)
		}
		if err != nil {
			return err
		}
		offset += message.QueueOffset(n)
	}
	return nil
}

// frontOfBlanks returns where the run of pre-blank units begins that ends in front of offset, offset if there is none.
func (r *recovery) frontOfBlanks(q *Queue, offset message.QueueOffset) (message.QueueOffset, error) {
	buf := make([]Unit, unitWindowUnits)
	perFile := q.store.unitsPerFile()
	for offset > q.Min() {
		from := max(q.Min(), offset-unitWindowUnits, (offset-1)-(offset-1)%perFile)
		n, err := q.readUnits(buf[:offset-from], from, offset)
		if err != nil {
			return 0, err
		}
		for n > 0 && buf[n-1].IsPreBlank() {
			n--
		}
		if offset = from + message.QueueOffset(n); n > 0 {
			break
		}
	}
	return offset, nil
}
