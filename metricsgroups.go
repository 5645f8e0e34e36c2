package main

import (
	"fmt"
	"sync"
	"time"

	"peregrine/broker"
	"peregrine/perf"
)

// groupSnapshot takes what is known about groups once a scrape: it may cost reads of the disk.
type groupSnapshot struct {
	service *service
	mu      sync.Mutex // guards the fields below
	taken   time.Time
	stats   broker.GroupStats
}

func (s *groupSnapshot) get() broker.GroupStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.service.running.Load() && time.Since(s.taken) > statsKeep {
		s.stats = s.service.broker.GroupStats()
		s.taken = time.Now()
	}
	return s.stats
}

// registerRetention names what retention does, and what groups have not consumed yet or cannot any more.
func (s *service) registerRetention(r *perf.Registry, snap *snapshot) {
	r.Gauge("peregrine_oldest_message_age_seconds", "age of the oldest message in the log: the real retention", func() float64 {
		if stored := snap.get().OldestStored; stored > 0 {
			return max(0, float64(time.Now().UnixMilli()-int64(stored))/1000)
		}
		return 0
	})
	r.Series("peregrine_disk_used_percent", "used share of the fuller one of the store's partitions, rounded up; left out when it does not tell", false, func(add func(string, float64)) {
		if percent := snap.get().Retention.UsedPercent; percent >= 0 {
			add("", float64(percent))
		}
	})
	r.Gauge("peregrine_retention_pending_bytes", "deleted from the log, not given back to the disk: somebody may still read it", func() float64 {
		return float64(snap.get().Retention.PendingBytes)
	})
	for _, c := range []struct {
		name, help string
		read       func(*broker.Stats) int64
	}{
		{"retention_log_files_total", "files of the log deleted", func(s *broker.Stats) int64 { return s.Retention.Files }},
		{"retention_forced_files_total", "of these, younger than fileReservedTime: the disk was nearly full", func(s *broker.Stats) int64 { return s.Retention.Forced }},
		{"retention_queue_files_total", "files of queues deleted", func(s *broker.Stats) int64 { return s.Retention.QueueFiles }},
		{"messages_lost_total", "messages that retention deleted before a group consumed them", func(s *broker.Stats) int64 { return int64(s.Lost) }},
	} {
		r.Counter("peregrine_"+c.name, c.help, func() uint64 { return uint64(c.read(snap.get())) })
	}

	groups := &groupSnapshot{service: s}
	series := func(name, help string, total bool, read func(broker.GroupStats) []broker.GroupSeries) {
		r.Series("peregrine_group_"+name, help, total, func(add func(string, float64)) {
			for _, v := range read(groups.get()) {
				labels := fmt.Sprintf("group=%q", v.Group)
				if v.Topic != "" {
					labels += fmt.Sprintf(",topic=%q", v.Topic)
				}
				add(labels, v.Value)
			}
		})
	}
	series("lag_messages", "messages that a group has not consumed", false, func(s broker.GroupStats) []broker.GroupSeries { return s.Lag })
	series("oldest_unconsumed_seconds", "age of the oldest of them", false, func(s broker.GroupStats) []broker.GroupSeries { return s.Age })
	series("messages_lost_total", "messages that retention deleted before the group consumed them", true, func(s broker.GroupStats) []broker.GroupSeries { return s.Lost })
	series("different_subscriptions", "different subscriptions of a group's members; only groups that have several, which loses them messages", false,
		func(s broker.GroupStats) []broker.GroupSeries { return s.Conflicts })
	r.Gauge("peregrine_group_series_left_out", "series by group that are not shown (limits groupSeriesMax, lagPairsMax, lagAgesTime)", func() float64 {
		return float64(groups.get().LeftOut)
	})
}
