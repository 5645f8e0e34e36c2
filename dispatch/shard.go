package dispatch

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"peregrine/store"
)

// shard appends the units of its queues. The channels move the same few batches round and round.
type shard struct {
	d       *Dispatcher
	index   int
	in      chan *batch // capacity batchesPerShard; closed by the reader when it ends
	free    chan *batch // capacity batchesPerShard; empty ones
	scratch []store.Unit

	counters shardCounters
}

// shardCounters are written by the shard, once per batch, and read by Stats.
type shardCounters struct {
	_                                      [cacheLinePad]byte
	batches, runs, units, retries, refused atomic.Int64
}

func newShard(d *Dispatcher, index int) *shard {
	s := &shard{d: d, index: index, in: make(chan *batch, batchesPerShard), free: make(chan *batch, batchesPerShard)}
	for range batchesPerShard {
		s.free <- &batch{}
	}
	return s
}

// run is the shard's goroutine.
func (s *shard) run() {
	for b := range s.in {
		if !s.process(b) {
			return
		}
		s.d.progress.done(s.index)
		if s.d.keeper != nil {
			s.d.keeper.dirtied()
		}
		s.d.lowMoved()
		s.counters.batches.Add(1)
		s.counters.runs.Add(int64(len(b.groups)))
		s.counters.units.Add(int64(len(b.units)))
		b.reset()
		s.free <- b
	}
}

// process appends and announces everything in b. False: the dispatcher ends.
//
// hot: 0 allocs, one AppendUnits and one Arrived per queue.
func (s *shard) process(b *batch) bool {
	var units []store.Unit
	units, s.scratch = b.sorted(s.scratch)
	for i := range b.groups {
		g := &b.groups[i]
		run := units[:g.count]
		units = units[g.count:]
		if err := g.queue.AppendUnits(g.first, run); err != nil {
			if s.passOver(g, run, err) {
				continue
			}
			if !s.retry(g, run, err) {
				return false
			}
		}
		if a := s.d.opts.Announcer; a != nil {
			a.Arrived(g.queue, g.first, run)
		}
	}
	return true
}

// passOver decides about units that their queue will never take. A record that recovery found may have a header that names an
// impossible place (no CRC covers it); one message is then not shown, and the broker starts. Above that it is our mistake.
func (s *shard) passOver(g *group, run []store.Unit, err error) bool {
	if !hopeless(err) || run[len(run)-1].Phy >= s.d.recovered {
		return false
	}
	s.counters.refused.Add(int64(len(run)))
	s.d.logger.Error("records of the log name a place in a queue that cannot be theirs; they are not shown", "topic", g.queue.Topic(),
		"queue", int32(g.queue.ID()), "offset", int64(g.first), "records", len(run), "position", int64(run[0].Phy), "error", err)
	return true
}

// hopeless tells errors that come again however often the append is tried.
func hopeless(err error) bool {
	return errors.Is(err, store.ErrQueueGap) || errors.Is(err, store.ErrBadTopic) || errors.Is(err, store.ErrShutdown)
}

// retry tries again what failed with err, until it succeeds, the dispatcher ends (false), or nothing can come of it (false).
// AppendUnits passes over what an earlier attempt has written, so nothing is there twice.
func (s *shard) retry(g *group, run []store.Unit, err error) bool {
	d := s.d
	topic, id := g.queue.Topic(), g.queue.ID()
	d.logger.Warn("a queue cannot be written, trying again", "topic", topic, "queue", int32(id), "error", err)
	since := time.Now()
	pause := retryPauseMin
	raised := false
	for {
		full := diskFull(err)
		if hopeless(err) || time.Since(since) >= retryTimeMax && !(full && raised) {
			failure := &QueueError{Topic: topic, QueueID: id, First: g.first, Cause: err}
			if !full {
				d.fail(failure)
				d.endNow()
				return false
			}
			raised = true
			d.logger.Error("the disk is full: messages do not become visible, sends have to be refused", "error", failure)
			d.alarm.raise(failure)
		}
		if !d.pause(pause) {
			return false
		}
		pause = min(2*pause, retryPauseMax)
		s.counters.retries.Add(1)
		if err = g.queue.AppendUnits(g.first, run); err == nil {
			if raised {
				d.alarm.clear()
			}
			d.logger.Info("the queue can be written again", "topic", topic, "queue", int32(id), "afterMs", time.Since(since).Milliseconds())
			return true
		}
	}
}

// diskFull tells errors that go away by themselves once somebody has made room.
func diskFull(err error) bool {
	return errors.Is(err, store.ErrDiskFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
