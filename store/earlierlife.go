package store

import (
	"maps"
	"slices"

	"peregrine/internal/message"
)

// A topic that the original deleted leaves its records in the log, and tells nobody. When a topic of that name was made again, its
// queues count from 0 once more: the log then has two records of one queue with one offset, and the units name the newer. In a
// queue offsets and positions grow together, which tells them apart: a record that claims a place behind a unit, or that unit's own,
// and lies before the record of the unit, is of an earlier life. What recovery learns so is kept in the list of deleted topics.
// The original has a similar rule, by the position alone (ConsumeQueue.putMessagePositionInfo, 5.5.0).

// ofEarlierLife tells whether a record has no place in its queue at or behind its maximum, though its offset says so: it is of an
// earlier life, or it is the record of the newest unit, which the original has shifted.
func (r *recovery) ofEarlierLife(q *Queue, v *message.View) (bool, error) {
	for o := min(v.QueueOffset, q.Max()) - 1; o >= q.Min(); o-- {
		u, err := r.windows.at(q, o)
		switch {
		case err != nil:
			return false, err
		case u.IsPreBlank():
			continue
		case !u.valid() || u.Phy < v.PhyOffset:
			return false, nil
		}
		named, err := names(r.probe, q, u)
		if err != nil || !named || u.Phy == v.PhyOffset {
			return named, err
		}
		if r.probe.view.QueueOffset == o {
			r.diedBehind(q, v)
			return true, nil
		}
		return false, nil
	}
	return false, nil
}

// death is a deletion that records of an earlier life tell of: the one that the newest of them tells, and what those before it do.
type death struct {
	deletion
	before  deletion
	records int64
}

// diedBehind notes that the topic was deleted after the record.
func (r *recovery) diedBehind(q *Queue, v *message.View) {
	if r.died == nil {
		r.died = map[string]death{}
	}
	if d := r.died[q.topic]; d.at <= v.PhyOffset {
		r.died[q.topic] = death{deletion{at: v.PhyOffset + 1, time: v.StoreTimestamp}, d.deletion, d.records + 1}
	}
}

// livedOn takes back what a record told whose head turned out to be damaged.
func (r *recovery) livedOn(phy message.PhyOffset) {
	for topic, d := range r.died {
		switch {
		case d.at != phy+1:
		case d.before.at == 0:
			delete(r.died, topic)
		default:
			r.died[topic] = death{deletion: d.before, records: d.records - 1}
		}
	}
}

// settleDeleted brings the list of deleted topics up to date, durably, before a unit is cut or an append gets a place: with topics
// that another broker deleted, and without places that the log does not have. What is appended there must count.
func (r *recovery) settleDeleted(end message.PhyOffset) error {
	marks, changed := maps.Clone(r.lay.deleted), len(r.died) > 0 || r.lowered || r.lay.deletedLost
	for topic, mark := range r.died {
		if mark.at > marks[topic].at {
			marks[topic] = mark.deletion
			r.logger.Warn("a topic was deleted and made again: the log has older records with offsets that its queues gave out anew; those are not shown",
				"topic", topic, "before", int64(mark.at), "records", mark.records)
		}
	}
	for topic, mark := range marks {
		if mark.at > end {
			marks[topic], changed = deletion{at: end, time: mark.time}, true
		}
	}
	if !changed {
		return nil
	}
	if r.lay.deletedLost {
		if err := r.keepDamagedList(); err != nil {
			return err
		}
	}
	if len(marks) > deletedTopicsMax {
		r.logger.Warn("too many topics were deleted; messages of earlier ones may come back", "topics", len(marks), "most", deletedTopicsMax)
		return nil
	}
	if err := r.s.writeDeleted(marks); err != nil {
		return err
	}
	r.s.queues.each(func(q *Queue) bool {
		q.bornAt = marks[q.topic].at
		return true
	})
	return nil
}

// passNamed drops the leading units of records that a queue has already, at other offsets: the original has shifted their units.
// Only records that recovery found can be such; the caller holds writeMu.
func (q *Queue) passNamed(first message.QueueOffset, units []Unit) (message.QueueOffset, []Unit, error) {
	for o := q.Max() - 1; o >= q.Min(); o-- {
		var one [1]Unit
		if _, err := q.ReadUnits(one[:], o); err != nil { // from memory, mostly
			return first, units, err
		}
		if one[0].IsPreBlank() {
			continue
		}
		for len(units) > 0 && units[0].Phy <= one[0].Phy {
			first, units = first+1, units[1:]
		}
		break
	}
	return first, units, nil
}

// withoutFolder returns the topics that only the log knows: of no queue of theirs there was a folder. In a directory that has
// folders of other topics, or that lost its list of deleted ones, such a topic was deleted, or somebody took its queues away.
func (r *recovery) withoutFolder() []string {
	if r.trust != trustNothing || len(r.lay.queues) == 0 && !r.lay.deletedLost {
		return nil
	}
	found := map[string]bool{}
	for i := range r.lay.queues {
		found[r.lay.queues[i].topic] = true
	}
	lost := map[string]bool{}
	for q := range r.seen {
		if !found[q.topic] {
			lost[q.topic] = true
		}
	}
	return slices.Sorted(maps.Keys(lost))
}
