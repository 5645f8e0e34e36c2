package dispatch

import (
	"sync/atomic"

	"peregrine/internal/message"
)

// readerCounters are written by the reader, once per handing-out or rarer, and read by Stats.
type readerCounters struct {
	_                                                            [cacheLinePad]byte
	records, skipped, coldBytes, expiredBytes, handOuts, starved atomic.Int64
	parks, damagedBytes                                          atomic.Int64
}

func (c *readerCounters) add(records, skipped, coldBytes int64) {
	c.records.Add(records)
	c.skipped.Add(skipped)
	c.coldBytes.Add(coldBytes)
	c.handOuts.Add(1)
}

// Stats is a snapshot for metrics. The fields are read one after the other, not at one instant.
type Stats struct {
	Confirmed message.PhyOffset // what may become visible
	LowWater  message.PhyOffset // what is dispatched by every shard
	// BehindBytes is Confirmed less LowWater (dispatchBehindBytes); BehindMs the age of the newest dispatched record while
	// something is behind it.
	BehindBytes, BehindMs int64

	Records      int64 // that entered a batch
	Skipped      int64 // prepared and rolled-back ones, which no queue shows
	HandOuts     int64 // times batches were given to the shards
	Parks        int64 // times the reader went to sleep
	Starved      int64 // times the reader waited for a shard
	ColdBytes    int64 // read with pread because they were not mapped
	ExpiredBytes int64 // removed by retention before they were dispatched
	DamagedBytes int64 // stepped over because recovery had done so
	Failed       bool  // see Dispatcher.Err

	Shards []ShardStats
}

// ShardStats is a shard's part of Stats.
type ShardStats struct {
	Batches int64 // done
	Runs    int64 // calls of AppendUnits that succeeded
	Units   int64 // appended, or found to be there
	Retries int64 // attempts after a failed append
	Refused int64 // units that no queue will ever take, of records found by recovery
	Queued  int   // batches that wait
}

// Stats returns the counters. Any goroutine.
func (d *Dispatcher) Stats() Stats {
	s := Stats{
		LowWater:     d.LowWater(),
		BehindMs:     d.BehindMs(),
		Records:      d.counters.records.Load(),
		Skipped:      d.counters.skipped.Load(),
		HandOuts:     d.counters.handOuts.Load(),
		Parks:        d.counters.parks.Load(),
		Starved:      d.counters.starved.Load(),
		ColdBytes:    d.counters.coldBytes.Load(),
		ExpiredBytes: d.counters.expiredBytes.Load(),
		DamagedBytes: d.counters.damagedBytes.Load(),
		Failed:       d.Err() != nil,
		Shards:       make([]ShardStats, len(d.shards)),
	}
	s.Confirmed = d.log.Confirmed()
	s.BehindBytes = max(0, int64(s.Confirmed-s.LowWater))
	for i, sh := range d.shards {
		s.Shards[i] = ShardStats{
			Batches: sh.counters.batches.Load(),
			Runs:    sh.counters.runs.Load(),
			Units:   sh.counters.units.Load(),
			Retries: sh.counters.retries.Load(),
			Refused: sh.counters.refused.Load(),
			Queued:  len(sh.in),
		}
	}
	return s
}
