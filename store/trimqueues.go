package store

import (
	"errors"
	"io/fs"

	"peregrine/internal/message"
)

// Trim says that a queue lost its oldest messages: those from From up to To, which is its minimum now.
type Trim struct {
	Queue    *Queue
	From, To message.QueueOffset
}

// OnTrim sets who is told, after files of the log were deleted and the queues' minima were moved: the new begin of the log
// and the queues that lost messages. It is called on the cleaner's goroutine, which may wait in it; the list is borrowed.
func (s *Store) OnTrim(told func(minPhy message.PhyOffset, trims []Trim)) {
	s.cleaner.onTrim.Store(&told)
}

// trim makes the queues follow the begin of the log: first all minima, so that pulls know at once, then files, with a pause
// behind each queue that lost some. The caller holds passMu.
func (c *cleaner) trim() {
	minPhy := c.s.log.MinPhy()
	if minPhy <= c.trimmed && !c.leftovers {
		return
	}
	var queues []*Queue
	c.s.queues.each(func(q *Queue) bool { queues = append(queues, q); return true })
	if minPhy > c.trimmed {
		var trims []Trim
		failed := false
		for _, q := range queues {
			from, to, err := q.correctMin(minPhy)
			if err != nil {
				c.s.logger.Warn("find the first readable entry of a queue", "topic", q.topic, "queue", int32(q.id), "error", err)
				failed = true
				continue
			}
			if to > from {
				trims = append(trims, Trim{q, from, to})
			}
		}
		if !failed {
			c.trimmed = minPhy
		}
		if x := c.s.index; x != nil {
			if _, err := x.DeleteExpired(minPhy); err != nil {
				c.s.logger.Warn("delete the oldest index files", "error", err)
			}
		}
		if told := c.onTrim.Load(); told != nil {
			(*told)(minPhy, trims)
		}
	}
	c.leftovers = false
	if x := c.s.index; x != nil {
		if _, err := x.DeleteExpired(minPhy); err != nil {
			c.s.logger.Warn("delete the oldest index files", "error", err)
			c.leftovers = true
		}
	}
	for _, q := range queues {
		n, err := q.deleteBelowMin()
		if err == nil {
			var ext int
			ext, err = q.deleteExtBelowMin()
			n += ext
		}
		if err != nil {
			c.s.logger.Warn("delete the oldest files of a queue", "topic", q.topic, "queue", int32(q.id), "error", err)
			c.leftovers = true
		}
		c.counts.queueFiles.Add(int64(n))
		if n > 0 && !c.pause(c.set().queuePause) {
			c.leftovers = true
			return
		}
	}
}

// finish makes up for what a pass could not do: a start after a clean stop takes the queues' minima as they are.
func (c *cleaner) finish() error {
	c.passMu.Lock()
	defer c.passMu.Unlock()
	minPhy := c.s.log.MinPhy()
	if c.trimmed >= minPhy {
		return nil
	}
	var failed error
	c.s.queues.each(func(q *Queue) bool {
		_, _, err := q.correctMin(minPhy)
		failed = errors.Join(failed, err)
		return true
	})
	return failed
}

// correctMin moves the queue's minimum to the first unit whose record lies at or behind minPhy, and returns the minimum
// before and now (ConsumeQueue.correctMinOffset, 5.5.0). Pre-blank units, which the original takes for records at 0, count
// as gone where nothing readable lies in front of them. A queue without a readable unit keeps its end: offsets go on from
// there. One goroutine at a time; dispatch may append meanwhile.
func (q *Queue) correctMin(minPhy message.PhyOffset) (from, to message.QueueOffset, err error) {
	from, end := q.Min(), q.Max()
	if from >= end {
		return from, from, nil
	}
	first, at, err := q.realUnit(from, end)
	if err == nil && at == from && first.Phy >= minPhy {
		return from, from, nil
	}
	if err == nil {
		to, err = q.firstReadable(from, end, minPhy)
	}
	if err != nil {
		return from, from, err
	}
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	if q.gone.Load() || q.Min() != from {
		return from, from, nil
	}
	q.min.Store(int64(to))
	return from, to, nil
}

// firstReadable returns the first offset in [low, end) whose record lies at or behind minPhy, end if there is none.
func (q *Queue) firstReadable(low, end message.QueueOffset, minPhy message.PhyOffset) (message.QueueOffset, error) {
	// Positions grow within a queue. A pre-blank unit counts like the next real one.
	high := end
	for low < high {
		mid := low + (high-low)/2
		u, at, err := q.realUnit(mid, end)
		if err != nil {
			return 0, err
		}
		if at >= end || u.Phy >= minPhy {
			high = mid
		} else {
			low = at + 1
		}
	}
	_, at, err := q.realUnit(low, end)
	return at, err
}

// realUnit returns the first unit in [from, end) that names a record, and its offset; end when there is none.
func (q *Queue) realUnit(from, end message.QueueOffset) (Unit, message.QueueOffset, error) {
	var buf [64]Unit
	for n := 1; from < end; n = len(buf) { // one first: mostly that is enough
		got, err := q.readUnits(buf[:n], from, end)
		if err != nil {
			return Unit{}, 0, err
		}
		for i := range got {
			if !buf[i].IsPreBlank() {
				return buf[i], from + message.QueueOffset(i), nil
			}
		}
		from += message.QueueOffset(got)
	}
	return Unit{}, end, nil
}

// deleteBelowMin deletes the files that lie below the queue's minimum, oldest first, and returns how many. The file of the
// newest unit stays: it keeps the queue's offsets over a restart. Each file is deleted under a lock of its own, so that an
// append waits for one at most.
func (q *Queue) deleteBelowMin() (n int, err error) {
	for {
		deleted, err := q.deleteOldest()
		if !deleted {
			return n, err
		}
		n++
	}
}

func (q *Queue) deleteOldest() (bool, error) {
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	fileBytes := q.store.set.queueFileBytes
	start := q.firstFile
	if start < 0 || q.gone.Load() || start+fileBytes > int64(q.Min())*unitBytes || start+fileBytes > (int64(q.Max())-1)*unitBytes {
		return false, nil
	}
	if err := q.removeFile(start); err != nil {
		return false, err
	}
	q.firstFile = start + fileBytes
	return true, nil
}

// removeFile deletes one file of the queue and sees to it that no descriptor of it stays in the cache. The caller holds
// writeMu.
func (q *Queue) removeFile(start int64) error {
	q.goneBelow.Store(max(q.goneBelow.Load(), start+q.store.set.queueFileBytes)) // before the name goes, see keepOpen
	if err := q.store.fsys.Remove(q.filePath(start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	q.store.cold.drop(fileKey{queue: q, start: start})
	return nil
}
