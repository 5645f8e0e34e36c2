package store

import (
	"peregrine/internal/message"
)

// sectorBytes is what a disk writes as a whole.
const sectorBytes = 512

// cutUntrusted takes away the units of everything that is dispatched anew after a crash: those that name a record at or behind
// RedispatchFrom, and what a power cut made of them. They may be missing or torn (a unit does not always lie in one sector)
// or, after kill -9, whole but not durable, in a file whose name is not either. Dispatch would pass over them because they
// are there, and the checkpoint would then move past what the next power cut takes away. What lies in front of
// them was synced, with its names, before the checkpoint moved there.
func (r *recovery) cutUntrusted() error {
	return r.eachQueue(r.cutUntrustedUnits)
}

// cutUntrustedUnits walks back from the end of the queue to the newest unit that can be trusted; so can all before it.
func (r *recovery) cutUntrustedUnits(q *Queue) error {
	buf := make([]Unit, unitChunk)
	perFile := q.store.unitsPerFile()
	keep := q.Max()
	for keep > q.Min() {
		from := max(keep-unitChunk, q.Min(), (keep-1)-(keep-1)%perFile)
		n, err := q.readUnits(buf[:keep-from], from, keep)
		if err != nil {
			return err
		}
		for n > 0 {
			ordered := n < 2 || buf[n-2].IsPreBlank() || buf[n-2].Phy < buf[n-1].Phy
			ok, err := r.trusted(q, from+message.QueueOffset(n-1), buf[n-1], ordered)
			if err != nil {
				return err
			}
			if ok {
				break
			}
			n--
		}
		if keep = from + message.QueueOffset(n); n > 0 {
			break
		}
	}
	if keep == q.Max() {
		return nil
	}
	return r.cutAt(q, keep)
}

// trusted tells whether a unit was durable at the last checkpoint. One that lies in two sectors, of which one may have stayed
// behind, has to be confirmed by the record that it names; so has one that does not lie behind the unit before it, of which a
// start that failed may have cleared a part.
func (r *recovery) trusted(q *Queue, offset message.QueueOffset, u Unit, ordered bool) (bool, error) {
	if !u.valid() || u.IsPreBlank() || u.Phy >= r.durableTo {
		return false, nil
	}
	if ordered && !tearable(offset, q.store.set.queueFileBytes) {
		return true, nil
	}
	table := r.s.log.files.Load()
	if table.at(u.Phy) == nil {
		return len(table.files) > 0 && u.Phy < table.files[0].start, nil // its file was deleted when it was old enough
	}
	sc := &logScanner{fsys: r.s.fsys, table: table}
	defer sc.close()
	v, err := sc.look(u.Phy)
	if err != nil || v == recordNone || v == recordBlank {
		return false, err
	}
	return sc.view.QueueOffset == offset && sc.view.QueueID == q.id && string(sc.view.Topic) == q.topic && sc.view.Size == u.Size &&
		tagsTrusted(q, u, &sc.view), nil
}

// tagsTrusted tells whether a unit's tags code, or the ext unit that it names, is that of the record. An ext unit that cannot be
// read proves nothing: then the rest of the unit has to do, and the message goes to whoever may want it.
func tagsTrusted(q *Queue, u Unit, v *message.View) bool {
	if u.Tags.IsExtAddress() {
		ext, ok := q.extAt(extPosition(u.Tags))
		if !ok {
			return true
		}
		if ext.stored != v.StoreTimestamp {
			return false
		}
		u.Tags = ext.tags
	}
	return v.TagsCode() == u.Tags || q.topic == message.ScheduleTopic
}

// cutAt ends the queue at keep.
func (r *recovery) cutAt(q *Queue, keep message.QueueOffset) error {
	perFile := q.store.unitsPerFile()
	return r.cutFiles(q, keep, (q.Max()+perFile-1)/perFile*perFile)
}

// cutFiles ends the queue at keep and clears its files up to limit. They, and their names, which kill -9 may have kept from being
// synced, are synced with the next flush of the queues, thus before the checkpoint moves: units that came back after a power
// cut would name whatever record lies at their position by then.
func (r *recovery) cutFiles(q *Queue, keep, limit message.QueueOffset) error {
	synced := q.synced // a unit in front of keep may have been replaced
	r.setEnd(q, keep)
	q.next.Store(int64(max(keep, r.seen[q].next))) // records of the log that have no unit yet keep their offsets
	q.synced = min(synced, max(message.QueueOffset(q.firstFile/unitBytes), keep-1))
	q.newNames = true
	if !q.dirty {
		q.dirty = true
		q.store.noteDirty(q)
	}
	if err := r.clearUnits(q, keep, limit); err != nil {
		return err
	}
	if keep > q.synced {
		return nil
	}
	return q.syncFile(fileKey{queue: q, start: q.firstFile}) // nothing is left in it, so the flush would pass it over
}
