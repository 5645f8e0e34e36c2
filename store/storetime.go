package store

import "peregrine/internal/message"

// StoreTimeAt returns the store time of the first record at or behind an offset, and its offset; −1 and the queue's end when
// there is none. Units without a record, which only keep their offset occupied, are stepped over, and so are records whose
// bytes are gone. It may wait for the disk.
func (q *Queue) StoreTimeAt(from message.QueueOffset) (message.Millis, message.QueueOffset) {
	var units [64]Unit
	var prefix [message.StoreTimePrefixBytes]byte
	end := q.Max()
	for from = max(from, q.Min()); from < end; {
		n, hot := q.Units(units[:], from)
		if !hot {
			var err error
			if n, err = q.ReadUnits(units[:], from); err != nil {
				break
			}
		}
		if n == 0 {
			break
		}
		for i, unit := range units[:n] {
			if unit.IsPreBlank() {
				continue
			}
			if m, err := q.store.ReadAt(prefix[:], unit.Phy); err == nil || m > 0 {
				if stored, ok := message.StoreTimeOf(prefix[:m]); ok && namesPosition(prefix[:m], unit.Phy) {
					return stored, from + message.QueueOffset(i)
				}
			}
		}
		from += message.QueueOffset(n)
	}
	return -1, end
}

// OffsetAtTime finds, without upper, the first message stored at or after t (the queue's end when all are older); with upper, the last
// one stored at or before t (the queue's begin when all are younger). Store times do not fall within a queue. It may wait for the
// disk (ConsumeQueueStore.getOffsetInQueueByTime, 5.5.0).
func (q *Queue) OffsetAtTime(t message.Millis, upper bool) message.QueueOffset {
	first := q.Min()
	low, high := first, q.Max() // the answer of the lower form lies in [low, high]
	for low < high {
		middle := low + (high-low)/2
		stored, at := q.StoreTimeAt(middle)
		if at >= high {
			// Nothing readable from the middle on: look before it.
			high = middle
			continue
		}
		if stored < t || upper && stored == t {
			low = at + 1
		} else {
			high = middle
		}
	}
	if !upper {
		return low
	}
	return max(low-1, first) // low is behind the last message at or before t
}

// OldestStoreTime returns the store time of the first record of the log, -1 without one. It may wait for the disk.
func (s *Store) OldestStoreTime() message.Millis {
	var prefix [message.StoreTimePrefixBytes]byte
	n, err := s.ReadAt(prefix[:], s.MinPhy())
	if stored, ok := message.StoreTimeOf(prefix[:n]); err == nil && ok {
		return stored
	}
	return -1
}
