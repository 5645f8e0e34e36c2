package broker

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"peregrine/broker/offsets"
	"peregrine/internal/message"
	"peregrine/store"
)

// losses counts, per group, the messages that retention deleted before the group consumed them (case R05). Groups without a
// committed offset of the queue are not known to have wanted them.
type losses struct {
	offsets *offsets.Table
	logger  *slog.Logger
	now     func() time.Time

	mu     sync.Mutex // guards the rest; leaf
	groups map[string]*groupLoss
	total  uint64
}

type groupLoss struct {
	lost   uint64
	told   uint64    // of these, named in the log
	toldAt time.Time // zero: never
}

func newLosses(table *offsets.Table, logger *slog.Logger) *losses {
	return &losses{offsets: table, logger: logger, now: time.Now, groups: map[string]*groupLoss{}}
}

// trimmed is called by the store's cleaner after it deleted files of the log.
func (l *losses) trimmed(_ message.PhyOffset, trims []store.Trim) {
	groupsOf := map[string][]string{}
	lost := map[string]uint64{}
	for _, t := range trims {
		topic := t.Queue.Topic()
		groups, known := groupsOf[topic]
		if !known {
			groups = l.offsets.GroupsOf(topic)
			groupsOf[topic] = groups
		}
		for _, group := range groups {
			offset, ok := l.offsets.Query([]byte(group), []byte(topic), t.Queue.ID())
			if ok && offset < t.To {
				lost[group] += uint64(t.To - max(offset, t.From))
			}
		}
	}
	l.count(lost)
}

// count adds what groups lost and names them in the log, each not more often than every lossRepeatInterval.
func (l *losses) count(lost map[string]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, lines := l.now(), 0
	for _, group := range slices.Sorted(maps.Keys(lost)) {
		l.total += lost[group]
		g := l.groups[group]
		if g == nil {
			g = &groupLoss{}
			l.groups[group] = g
		}
		g.lost += lost[group]
		if lines == lossLinesMax || (!g.toldAt.IsZero() && now.Sub(g.toldAt) < lossRepeatInterval) {
			continue
		}
		lines++
		l.logger.Warn("retention deleted messages that a group has not consumed; it goes on behind them", "group", group,
			"messages", g.lost-g.told, "sinceStart", g.lost)
		g.told, g.toldAt = g.lost, now
	}
}

// series returns the losses by group, those of the most at the top of the alphabet, and how many groups are left out. Groups
// that exists does not know any more are forgotten.
func (l *losses) series(exists func(group string) bool) (series []GroupSeries, leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.groups, func(group string, _ *groupLoss) bool { return !exists(group) })
	for _, group := range slices.Sorted(maps.Keys(l.groups)) {
		if len(series) == groupSeriesMax {
			return series, len(l.groups) - groupSeriesMax
		}
		series = append(series, GroupSeries{Group: group, Value: float64(l.groups[group].lost)})
	}
	return series, 0
}

func (l *losses) sum() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
