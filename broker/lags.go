package broker

import (
	"time"

	"peregrine/internal/message"
)

// GroupSeries is one value of a metric by group, or by group and topic.
type GroupSeries struct {
	Group, Topic string // Topic is empty for a metric by group
	Value        float64
}

// GroupStats is what a scrape shows about groups. It is made for each scrape, so that deleted groups vanish with the next.
type GroupStats struct {
	Lag       []GroupSeries // messages that are there and not consumed, by group and topic
	Age       []GroupSeries // of the oldest of them, in seconds; only where there is one
	Lost      []GroupSeries // messages that retention deleted before they were consumed, by group
	Conflicts []GroupSeries // different subscriptions of the members, by group; only where there are several
	LeftOut   int           // series over groupSeriesMax, and ages for which lagAgesTime was too short
}

// GroupStats looks at the committed offsets of all groups. It may read the disk: not for event loops.
func (b *Broker) GroupStats() GroupStats {
	var s GroupStats
	pairs, total := b.offsets.Pairs(lagPairsMax)
	s.LeftOut = total - len(pairs)
	if len(pairs) > groupSeriesMax {
		s.LeftOut += len(pairs) - groupSeriesMax
		pairs = pairs[:groupSeriesMax]
	}
	deadline := time.Now().Add(lagAgesTime)
	for _, pair := range pairs {
		lag, oldest, all := int64(0), message.Millis(-1), true
		pair.Each(func(id message.QueueID, offset message.QueueOffset) {
			q := b.store.LookupQueue([]byte(pair.Topic), id)
			if q == nil {
				return
			}
			offset = max(offset, q.Min())
			if offset >= q.Max() {
				return
			}
			lag += int64(q.Max() - offset)
			if time.Now().After(deadline) {
				all = false
			} else if stored, _ := q.StoreTimeAt(offset); stored >= 0 && (oldest < 0 || stored < oldest) {
				oldest = stored
			}
		})
		s.Lag = append(s.Lag, GroupSeries{pair.Group, pair.Topic, float64(lag)})
		switch {
		case !all:
			s.LeftOut++
		case oldest >= 0:
			s.Age = append(s.Age, GroupSeries{pair.Group, pair.Topic, max(0, float64(now()-oldest)/1000)})
		}
	}
	lost, leftOut := b.losses.series(func(group string) bool { return b.groups.Find(group) != nil })
	s.Lost = lost
	s.LeftOut += leftOut
	conflicts := b.clients.Conflicting()
	for _, c := range conflicts[:min(len(conflicts), groupSeriesMax)] {
		s.Conflicts = append(s.Conflicts, GroupSeries{Group: c.Group, Value: float64(c.Subscriptions)})
	}
	s.LeftOut += len(conflicts) - len(s.Conflicts)
	return s
}
