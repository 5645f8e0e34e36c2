package transaction

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/broker/clients"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// Group is the "consumer" whose offsets are the progress of the checks (TransactionalMessageUtil.buildConsumerGroup).
const Group = "CID_RMQ_SYS_TRANS"

var groupBytes = []byte(Group)

// Log takes the records that the broker makes itself.
type Log interface {
	Append(batch []store.Message) (end message.PhyOffset, err error)
	Await(end message.PhyOffset) error
	Send(m *store.Message, wait bool) error
}

// Progress keeps offsets of consumers.
type Progress interface {
	Query(group, topic []byte, id message.QueueID) (offset message.QueueOffset, ok bool)
	Commit(group, topic []byte, id message.QueueID, offset message.QueueOffset) (ok bool)
	Persist() error
}

// Producers knows who is connected.
type Producers interface {
	Producers(group string) (members []clients.Client, known bool)
}

// Pusher reaches connections.
type Pusher interface {
	Push(ref netio.ConnRef, frame []byte) bool
}

// Settings are the configured values.
type Settings struct {
	BrokerName   string
	TimeOut      message.Millis // transactionTimeOut: age of a half at its first check
	Interval     time.Duration  // transactionCheckInterval
	CheckMax     int            // transactionCheckMax
	OpBytesMax   int            // transactionOpMsgMaxSize
	OpInterval   message.Millis // transactionOpBatchInterval
	ReservedTime message.Millis // fileReservedTime: older halves are given up unchecked
}

// Options are what a Service is made of.
type Options struct {
	Settings  Settings
	Store     *store.Store
	Log       Log
	Progress  Progress
	Producers Producers
	Pusher    Pusher
	// CaughtUp waits until everything below a position of the log is in its queue.
	CaughtUp func(target message.PhyOffset, deadline time.Time) error
	// DiscardTopic makes TRANS_CHECK_MAX_TIME_TOPIC if it is missing.
	DiscardTopic func() *wire.Refusal
	Host         message.Host // of this broker
	Logger       *slog.Logger
	Now          func() message.Millis
}

// Service is the transactions of a broker.
type Service struct {
	settings     atomic.Pointer[Settings]
	store        *store.Store
	log          Log
	progress     Progress
	producers    Producers
	pusher       Pusher
	caughtUp     func(message.PhyOffset, time.Time) error
	discardTopic func() *wire.Refusal
	host         message.Host
	logger       *slog.Logger
	now          func() message.Millis

	ledger  *ledger
	opWrite sync.Mutex // held while ops are taken and appended, so that a round knows them written
	wakeOps chan struct{}
	opaque  atomic.Int32
	stats   counters

	// Of the checker only.
	goesOn    bool                // the last round ended early
	cycleEnd  message.QueueOffset // rounds that go on do not look at halves behind it: those are copies of before
	unread    message.QueueOffset // half that could not be read, readFails times
	readFails int

	stop chan struct{}
	done sync.WaitGroup
}

type counters struct {
	commits, rollbacks, unknown, refused, checks, unasked, unaskable, givenUp, damaged, rounds atomic.Uint64
}

// Stats is a snapshot for metrics.
type Stats struct {
	Commits, Rollbacks, Unknown, EndsRefused uint64
	Checks, Unasked, GivenUp, Damaged        uint64
	EndsForgotten                            uint64 // over opPendingBytesMax: such halves are checked once more
	Pending                                  int64  // halves that the checks have not passed: undecided, or ended since the last round
	OpBytes                                  int    // op text that is not written yet
}

// New makes a Service; Start begins its work.
func New(o Options) *Service {
	s := &Service{store: o.Store, log: o.Log, progress: o.Progress, producers: o.Producers, pusher: o.Pusher, caughtUp: o.CaughtUp,
		discardTopic: o.DiscardTopic, host: o.Host, logger: o.Logger, now: o.Now, ledger: newLedger(), wakeOps: make(chan struct{}, 1), stop: make(chan struct{}), unread: -1}
	s.Configure(o.Settings)
	return s
}

// Configure changes the settings; a new interval counts from the next round on. Any goroutine.
func (s *Service) Configure(settings Settings) { s.settings.Store(&settings) }

// Recover looks for the copies that earlier runs made and whose halves are open: a run that was killed left copies behind its
// saved progress, and an end may name an older copy. Call it after recovery of the queues and before the first request.
func (s *Service) Recover() {
	q := s.store.LookupQueue(halfTopic, 0)
	if q == nil {
		return
	}
	units := units{queue: q}
	end := q.Max()
	var buf []byte
	for at := max(s.progressOf(halfTopic, q), end-recoverMax); at < end; at++ {
		u, err := units.at(at, end)
		if err != nil || u.Hidden() {
			continue
		}
		var h half
		if buf, err = q.ReadRecord(buf[:0], at, u, &h.View); err != nil {
			continue // the round that comes to it says so
		}
		_, checked := message.GetProperty(h.Properties, message.PropertyTransactionCheckTimes)
		_, immune := message.GetProperty(h.Properties, message.PropertyTranPreparedQueueOffset)
		if checked || immune {
			h.props.Parse(h.Properties)
			s.ledger.copied(h.identity(), at)
		}
	}
}

// Start begins the rounds of checks and the writing of op messages.
func (s *Service) Start() {
	s.done.Add(2)
	go s.writeOps()
	go s.check()
}

// Stop ends both and writes the op messages that wait. Ends that come later are written by nobody: the ports are closed.
func (s *Service) Stop() error {
	close(s.stop)
	s.done.Wait()
	return s.flushOps()
}

func (s *Service) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// Stats may be called by any goroutine.
func (s *Service) Stats() Stats {
	c := &s.stats
	out := Stats{Commits: c.commits.Load(), Rollbacks: c.rollbacks.Load(), Unknown: c.unknown.Load(), EndsRefused: c.refused.Load(),
		Checks: c.checks.Load(), Unasked: c.unasked.Load() + c.unaskable.Load(), GivenUp: c.givenUp.Load(), Damaged: c.damaged.Load()}
	if q := s.store.LookupQueue(halfTopic, 0); q != nil {
		out.Pending = max(0, int64(q.Max()-s.progressOf(halfTopic, q)))
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	out.EndsForgotten, out.OpBytes = s.ledger.lost, len(s.ledger.ops)
	return out
}

// check makes a round every interval.
func (s *Service) check() {
	defer s.done.Done()
	timer := time.NewTimer(s.settings.Load().Interval)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		}
		pause := s.settings.Load().Interval
		if s.Round() && !s.stopped() {
			pause = 0
		}
		timer.Reset(pause)
	}
}

// writeOps writes an op message when the first of its offsets is old enough, or enough of them wait.
func (s *Service) writeOps() {
	defer s.done.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.wakeOps:
		case <-timer.C:
		}
		bytes, since := s.ledger.waiting()
		if bytes == 0 {
			continue
		}
		if left := since + s.settings.Load().OpInterval - s.now(); bytes <= s.settings.Load().OpBytesMax && left > 0 {
			timer.Reset(time.Duration(left) * time.Millisecond)
			continue
		}
		if err := s.flushOps(); err != nil {
			s.logger.Warn("op messages of ended transactions cannot be written, trying again", "err", err)
			timer.Reset(retryPause)
		}
	}
}

func (s *Service) wakeOpWriter() {
	select {
	case s.wakeOps <- struct{}{}:
	default:
	}
}

// flushOps appends the op messages for everything that waits; what cannot be appended waits on.
func (s *Service) flushOps() error {
	s.opWrite.Lock()
	defer s.opWrite.Unlock()
	for ops := s.ledger.takeOps(); len(ops) > 0; {
		body, rest := cutOps(ops, s.settings.Load().OpBytesMax)
		now := s.now()
		m := store.Message{Record: message.Record{Topic: opTopic, Body: body, BodyCRC: message.BodyCRC(body), Properties: opProperties, BornTimestamp: now}}
		m.BornHost = s.host
		if err := s.log.Send(&m, false); err != nil {
			s.ledger.putBack(ops, now)
			return errors.Join(errOpNotWritten, err)
		}
		ops = rest
	}
	return nil
}

var errOpNotWritten = errors.New("transaction: op message not written")
