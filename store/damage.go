package store

import (
	"fmt"
	"sync"
	"sync/atomic"

	"peregrine/internal/message"
)

// damageNotes holds what readers met that is damaged although the start took the directory as it was: a clean stop, or a kill on the
// same boot, promises that nobody but peregrine wrote, not that no disk forgot and nobody overwrote anything.
type damageNotes struct {
	found atomic.Int64
	mu    sync.Mutex // leaf
	// noted bounds reports to one a place. Full, further places are read as well as before but not noted any more.
	noted map[damagedPlace]struct{}
}

// damagedPlace is where a queue cannot show what it should.
type damagedPlace struct {
	queue *Queue
	at    message.QueueOffset
}

// DamageNoted returns how many damaged records and queue entries readers met since the start, at most damagedListMax. Any goroutine.
func (s *Store) DamageNoted() int64 { return s.damage.found.Load() }

// noteDamaged notes that what the queue has at offset cannot be shown: its entry u or the record that it names is damaged, or they do
// not belong together. It returns ErrNoRecord with why. From the first place on the state file says that the next start may trust
// nothing (also one after kill -9): it looks at every record, and mends what can be.
func (q *Queue) noteDamaged(offset message.QueueOffset, u Unit, why error) error {
	s := q.store
	if n := s.damage.note(damagedPlace{q, offset}); n > 0 {
		file := ""
		if f := s.log.files.Load().at(u.Phy); f != nil {
			file = f.path
		}
		at := int64(offset) * unitBytes
		s.logger.Warn("a queue entry or its record is damaged and stepped over; dump --verify lists what else is, the next start looks at every record",
			"topic", q.topic, "queue", q.id, "offset", offset, "file", file, "position", int64(u.Phy), "bytes", u.Size,
			"entry", q.filePath(at-at%s.set.queueFileBytes), "at", at%s.set.queueFileBytes, "reason", why.Error())
		if n == 1 {
			s.saveState(true)
		}
	}
	return fmt.Errorf("%w: %w", ErrNoRecord, why)
}

// note remembers a place and returns how many there are now, 0 when it was noted before.
func (d *damageNotes) note(p damagedPlace) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.noted[p]; known || len(d.noted) >= damagedListMax {
		return 0
	}
	if d.noted == nil {
		d.noted = map[damagedPlace]struct{}{}
	}
	d.noted[p] = struct{}{}
	return d.found.Add(1)
}
