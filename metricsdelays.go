package main

import (
	"fmt"

	"peregrine/broker"
	"peregrine/broker/delay"
	"peregrine/perf"
)

// registerDelays shows the delay levels and the retries. Levels that were never used have no series.
func (s *service) registerDelays(r *perf.Registry, snap *snapshot) {
	byLevel := func(name, help string, total bool, read func(l *delay.LevelStats) float64) {
		r.Series("peregrine_"+name, help, total, func(add func(labels string, value float64)) {
			levels := snap.get().Delays.Levels
			for i := range levels {
				if levels[i].Max > 0 {
					add(fmt.Sprintf("level=\"%d\"", levels[i].Level), read(&levels[i]))
				}
			}
		})
	}
	byLevel("delayed_pending", "delayed messages that wait, by level", false, func(l *delay.LevelStats) float64 { return float64(l.Pending()) })
	byLevel("delayed_delivered_total", "delayed messages delivered, by level", true, func(l *delay.LevelStats) float64 { return float64(l.Delivered) })
	byLevel("delayed_late_seconds_total", "how late they were, added up, by level", true, func(l *delay.LevelStats) float64 { return float64(l.LatenessSumMs) / 1000 })
	byLevel("delayed_undeliverable_total", "delayed messages passed over because they can never be delivered, by level", true,
		func(l *delay.LevelStats) float64 { return float64(l.Undeliverable) })
	byLevel("delayed_expired_total", "delayed messages that retention deleted before they were due, by level", true, func(l *delay.LevelStats) float64 { return float64(l.Expired) })
	byLevel("delayed_retries_total", "deliveries that could not be made and are tried again (limits retryPauseMin, retryPauseMax), by level", true,
		func(l *delay.LevelStats) float64 { return float64(l.Failures) })

	bounds := make([]float64, len(delay.LatenessBounds))
	for i, ms := range delay.LatenessBounds {
		bounds[i] = float64(ms) / 1000
	}
	r.Histogram("peregrine_delayed_lateness_seconds", "time from when a delayed message was due until it was stored in its topic, all levels", bounds, func(counts []uint64) float64 {
		sum := uint64(0)
		for _, l := range snap.get().Delays.Levels {
			for class, n := range l.Lateness {
				counts[class] += n
			}
			sum += l.LatenessSumMs
		}
		return float64(sum) / 1000
	})
	counter := func(name, help string, read func(*broker.Stats) uint64) {
		r.Counter("peregrine_"+name, help, func() uint64 { return read(snap.get()) })
	}
	counter("delay_offsets_corrected_total", "stored offsets of delay levels that lay outside of their queue", func(s *broker.Stats) uint64 { return s.Delays.Corrected })
	counter("delayed_found_total", "delayed messages found delivered after a crash, and not delivered again", func(s *broker.Stats) uint64 { return s.Delays.Found })
	counter("sent_back_total", "messages that consumers sent back (code 36)", func(s *broker.Stats) uint64 { return s.SentBack })
	counter("dead_letters_total", "messages that went to a dead letter queue", func(s *broker.Stats) uint64 { return s.DeadLetters })
}
