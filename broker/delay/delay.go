// Package delay delivers messages with a delay level: they wait in the queues of SCHEDULE_TOPIC_XXXX, level n in queue n-1,
// and are stored once more under their own topic when they are due. It mirrors ScheduleMessageService of RocketMQ 5.5.0 in
// what a client and a directory see, not in how: nothing is polled.
//
// # How a level works
//
// Each level has one goroutine. A level's queue is in the order of its due times (up to changes of the table and of the
// clock), so the goroutine looks at the next unit only: it sleeps until that is due, or, at the end of the queue, until
// dispatch announces a unit. Due messages are delivered one by one, in order; what cannot be delivered now is tried again
// after a pause, what can never be delivered is dropped with a line in the log. A level that waits does not hold up others.
//
// # What survives
//
// delayOffset.json holds the next offset of each level. It is written every flushDelayOffsetInterval and at the stop, and
// only after everything is durable that the offsets call delivered: no message is lost to a power cut. Beside the offsets
// it says from which position of the log on copies may lie that the offsets do not count (peregrineLogPosition, a member that
// the original ignores and drops). A start reads the log from there and counts them, so that a crash delivers nothing twice;
// in a directory that the original left behind a crash, the search begins at the oldest message that was due. So it is when the file,
// or its newest version, is lost.
//
// # Goroutines and locks
//
// One goroutine a level, one that persists. Any goroutine may call Arrived, Stats, Body and Persist. Lock order: persistMu →
// the levels' mu, in order → the locks of the store. A level's mu is held while one record is appended.
package delay

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

// Appender takes records into the log.
type Appender interface {
	// Append appends records; each one's Err says whether it is stored. An error means that nothing was tried: later.
	Append(batch []store.Message) (end message.PhyOffset, err error)
	// Durable returns when everything below end is durable, or with the reason why it is not known to be.
	Durable(end message.PhyOffset) error
}

// Options are what a Service is made of.
type Options struct {
	FS       sysio.FS
	Path     string // of delayOffset.json; its directory exists
	Store    *store.Store
	Appender Appender
	Levels   Levels
	// PersistInterval is flushDelayOffsetInterval; VersionStep (delayOffsetUpdateVersionStep) is after how many deliveries
	// the data version grows.
	PersistInterval time.Duration
	VersionStep     int64
	Logger          *slog.Logger
	Now             func() message.Millis
	// Crashed says that the last run of the broker did not end cleanly.
	Crashed bool
}

// Service delivers delayed messages.
type Service struct {
	Levels
	opts   Options
	logger *slog.Logger
	levels []*level // by queue id

	file      *statefile.File
	source    sysio.Source  // which copy of it was read; immutable after Open
	persistMu sync.Mutex    // one write at a time; guards saved
	saved     uint64        // generation that is on disk
	changes   atomic.Uint64 // generation: +1 with each change of an offset
	counted   atomic.Bool   // all deliveries in the log are in the offsets: before that, no file may say that the rest lies behind its end
	updates   atomic.Int64  // advances of offsets since the start
	corrected atomic.Uint64 // stored offsets that lay outside of their queue
	found     atomic.Uint64 // deliveries of before a crash that the offsets did not count
	position  atomic.Int64  // peregrineLogPosition as read or written last, -1 if the file has none

	// outside says that there are messages of levels that the table does not have. What a level delivered before a crash and no
	// offset counts is found behind position once the table has the level again: it stays where it is. Set by Start.
	outside bool

	mu      sync.Mutex // guards the rest; leaf
	version wire.DataVersion
	unknown map[int]message.QueueOffset // levels in the file that the table does not have
	extra   statefile.Extra

	quit     chan struct{}
	quitOnce sync.Once
	done     sync.WaitGroup
}

// Open reads delayOffset.json. It changes nothing on disk and delivers nothing.
func Open(o Options) (*Service, error) {
	s := &Service{Levels: o.Levels, opts: o, logger: o.Logger, file: statefile.New(o.FS, o.Path, o.Logger), quit: make(chan struct{})}
	for i, wait := range o.Levels {
		s.levels = append(s.levels, newLevel(s, message.QueueID(i), wait))
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// Found says which copy of delayOffset.json was read.
func (s *Service) Found() sysio.Source { return s.source }

// Start begins to deliver. The queues of the store are complete: dispatch has caught up.
func (s *Service) Start() {
	for _, l := range s.levels {
		l.correct()
	}
	s.outside = s.warnUnknown()
	// A clean end leaves a position in front of the log's end when there were messages outside of the table.
	uncounted := s.position.Load() >= 0 && message.PhyOffset(s.position.Load()) < s.opts.Store.Wrote()
	s.done.Go(func() {
		if s.opts.Crashed || s.source != sysio.SourceMain || uncounted {
			s.countDelivered()
			if s.stopping() {
				return // perhaps in the middle of it
			}
		}
		s.counted.Store(true)
		for _, l := range s.levels {
			s.done.Go(l.run)
		}
		s.persistAgain()
	})
}

// Stop ends all goroutines. The offsets are written by Persist, when everything delivered is durable.
func (s *Service) Stop() {
	s.quitOnce.Do(func() { close(s.quit) })
	s.done.Wait()
}

// Arrived says that a queue of the schedule topic has new units. It does not block.
//
// hot: one atomic load.
func (s *Service) Arrived(id message.QueueID) {
	if id >= 0 && int(id) < len(s.levels) {
		s.levels[id].rouse()
	}
}

// warnUnknown names messages that no level delivers, and tells whether there are any: the original leaves them where they are, too.
func (s *Service) warnUnknown() (any bool) {
	s.opts.Store.Queues(func(q *store.Queue) bool {
		if q.Topic() == message.ScheduleTopic && int(q.ID()) >= len(s.levels) && s.unknown[int(q.ID())+1] < q.Max() {
			any = true
			s.logger.Warn("messages wait for a delay level that messageDelayLevel does not have; they stay until it does", "level", q.ID()+1,
				"messages at most", q.Max()-max(s.unknown[int(q.ID())+1], q.Min()))
		}
		return true
	})
	return any
}

// stopping tells whether Stop was called.
func (s *Service) stopping() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// advanced counts n offsets that moved on.
func (s *Service) advanced(n int64) {
	s.changes.Add(1)
	step := max(s.opts.VersionStep, 1)
	if after := s.updates.Add(n); after/step != (after-n)/step {
		s.mu.Lock()
		s.version.Counter++
		s.version.Timestamp = int64(s.opts.Now())
		s.mu.Unlock()
	}
}

// persistAgain is the goroutine that writes the offsets.
func (s *Service) persistAgain() {
	persist := time.NewTicker(s.opts.PersistInterval)
	defer persist.Stop()
	look := time.NewTicker(logLookInterval)
	defer look.Stop()
	for {
		if err := s.Persist(); err != nil {
			s.logger.Error("delayOffset.json could not be written", "err", err)
		}
		for due := false; !due; {
			select {
			case <-s.quit:
				return
			case <-look.C:
				due = !s.outside && int64(s.opts.Store.Wrote())-s.position.Load() >= scanDistanceMax
			case <-persist.C:
				due = true
			}
		}
	}
}

// Persist writes delayOffset.json if an offset changed since the last write, as soon as all that it calls delivered is
// durable. It waits for the disk. While a start still counts what was delivered before a crash it writes nothing: the file that is
// there tells the next start where to begin with that.
func (s *Service) Persist() error {
	if !s.counted.Load() {
		return nil
	}
	s.persistMu.Lock()
	defer s.persistMu.Unlock()
	shot := s.snapshot()
	if shot.generation == s.saved {
		return nil
	}
	if err := s.opts.Appender.Durable(shot.wrote); err != nil {
		return fmt.Errorf("waiting for delivered messages to be durable: %w", err)
	}
	err := s.file.Save(shot.generation, func() ([]byte, uint64) { return shot.encode(true), shot.generation })
	if err != nil {
		return err
	}
	s.saved = shot.generation
	s.position.Store(int64(shot.position))
	return nil
}
