package transaction

import (
	"errors"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// round is one pass over the halves from the progress on.
type round struct {
	*Service
	started   message.Millis
	halves    *store.Queue
	begin, at message.QueueOffset
	end       message.QueueOffset // halves from here on came later, or are the copies that this round makes
	bits      []uint64            // halves that have ended, from begin on
	ops       opOrder
	opBegin   message.QueueOffset
	units     units
	buf       []byte
	batch     []move
	size      int // bytes of batch
	early     bool
}

// move is one half on its way to the end of the half queue, or out of it.
type move struct {
	half
	offset message.QueueOffset
	record message.Record
	id     identity
	kind   moveKind
}

type moveKind uint8

const (
	moveCheck  moveKind = iota // copy, then ask its producer
	moveImmune                 // copy only
	moveGiveUp
)

// Round makes one round and says whether the next one should follow at once, because a limit ended this one. For the checker,
// and for tests that did not call Start.
func (s *Service) Round() (again bool) {
	r := &round{Service: s, started: s.now()}
	if !r.prepare() {
		return false
	}
	progress := r.run()
	s.save(halfTopic, r.begin, progress)
	s.save(opTopic, r.opBegin, r.ops.doneBelow(progress, r.opBegin))
	if err := s.progress.Persist(); err != nil {
		s.logger.Error("the progress of transaction checks could not be written", "err", err)
	}
	s.ledger.passed(progress)
	s.stats.rounds.Add(1)
	s.goesOn = r.early && progress > r.begin
	return s.goesOn
}

// prepare gets all ends so far into the op queue and reads it.
func (r *round) prepare() bool {
	known := r.ledger.startRound()
	err := r.flushOps()
	if err == nil {
		err = r.caughtUp(r.store.Wrote(), time.Now().Add(dispatchWait))
	}
	if err != nil {
		// Without the op messages, halves that have ended would be checked.
		r.ledger.merge(known)
		if !r.stopped() {
			r.logger.Warn("no transactions are checked in this round", "err", err)
		}
		return false
	}
	if r.halves = r.store.LookupQueue(halfTopic, 0); r.halves == nil || r.halves.Gone() {
		return false
	}
	r.begin = r.progressOf(halfTopic, r.halves)
	r.at = r.begin
	if r.cycleEnd < r.begin || !r.goesOn {
		r.cycleEnd = r.halves.Max()
	}
	r.end = min(r.cycleEnd, r.halves.Max(), r.begin+windowMax)
	r.early = r.end < r.cycleEnd
	r.units.queue = r.halves
	r.bits = make([]uint64, (r.end-r.begin+63)/64)
	r.readOps()
	return !r.stopped()
}

// progressOf is the stored offset of a queue, corrected into what the queue has; without one the begin.
func (s *Service) progressOf(topic []byte, q *store.Queue) message.QueueOffset {
	offset, ok := s.progress.Query(groupBytes, topic, 0)
	if !ok {
		return q.Min()
	}
	return max(q.Min(), min(offset, q.Max()))
}

func (s *Service) save(topic []byte, before, now message.QueueOffset) {
	stored, ok := s.progress.Query(groupBytes, topic, 0)
	if ok && stored == now || !ok && now == before {
		return
	}
	s.progress.Commit(groupBytes, topic, 0, now)
}

// readOps marks the halves that op messages name.
func (r *round) readOps() {
	q := r.store.LookupQueue(opTopic, 0)
	if q == nil || q.Gone() {
		return
	}
	r.opBegin = r.progressOf(opTopic, q)
	end := q.Max()
	r.ops.end = r.opBegin
	units := units{queue: q}
	for op := r.opBegin; op < end && !r.stopped(); op++ {
		last := message.QueueOffset(-1)
		var v message.View
		if u, err := units.at(op, end); err == nil && !u.Hidden() {
			if r.buf, err = q.ReadRecord(r.buf[:0], op, u, &v); err == nil {
				if tag, _ := message.GetProperty(v.Properties, message.PropertyTags); string(tag) == opTag {
					eachOp(v.Body, func(half message.QueueOffset) { last = max(last, r.mark(half)) })
				}
			} else {
				r.stats.damaged.Add(1)
			}
		}
		r.ops.add(op, last)
	}
}

// mark notes that a half has ended. It returns the offset if the op message is still needed for it: not for halves behind the
// progress, nor for those that do not exist.
func (r *round) mark(offset message.QueueOffset) message.QueueOffset {
	if offset < r.begin || offset >= r.halves.Max() {
		return -1
	}
	if offset < r.end {
		i := offset - r.begin
		r.bits[i/64] |= 1 << (i % 64)
	}
	return offset
}

// run goes over the halves and returns the progress: everything below has ended, was given up, or has a copy.
func (r *round) run() (progress message.QueueOffset) {
	for ; r.at < r.end; r.at++ {
		if r.stopped() {
			break
		}
		if r.now()-r.started > roundTimeMax || r.ledger.full() {
			r.early = true
			break
		}
		if r.marked(r.at) {
			continue
		}
		if !r.look() {
			break
		}
		if len(r.batch) >= batchMax || r.size >= batchBytesMax {
			if failed, ok := r.flush(); !ok {
				return failed
			}
		}
	}
	if failed, ok := r.flush(); !ok {
		return failed
	}
	return r.at
}

func (r *round) marked(offset message.QueueOffset) bool {
	i := offset - r.begin
	return r.bits[i/64]>>(i%64)&1 != 0
}

// look decides about the half at r.at. false ends the round in front of it.
func (r *round) look() bool {
	m := move{offset: r.at}
	if found, stop := r.read(&m.half); !found {
		return !stop
	}
	m.props.Parse(m.Properties)
	m.id = m.identity()
	if r.ledger.hasEnded(r.at) || r.ledger.superseded(m.id, r.at) {
		return true
	}
	now := r.now()
	age := now - m.BornTimestamp
	immunity, own := m.immunity(r.settings.Load().TimeOut)
	times, checked := m.checkTimes()
	switch {
	case checked && times >= int64(r.settings.Load().CheckMax), age > r.settings.Load().ReservedTime:
		m.kind, m.record = moveGiveUp, m.givenUp()
	case own && age <= immunity:
		// The original counts a check here, so that a long immunity ends in the discard topic without one.
		m.notePrepared()
		m.kind, m.record = moveImmune, m.renewed()
	case !own && age >= 0 && age <= immunity:
		return false // younger ones follow
	default:
		m.countCheck()
		m.kind, m.record = moveCheck, m.renewed()
	}
	r.batch = append(r.batch, m)
	r.size += m.record.Size()
	return true
}

// read reads the half at r.at into its own memory. What is damaged or gone is stepped over; what the disk does not give stops
// the round, and is stepped over when a few rounds did not get it.
func (r *round) read(h *half) (found, stop bool) {
	u, err := r.units.at(r.at, r.end)
	if err == nil && u.Hidden() {
		err = store.ErrNoRecord
	}
	if err == nil {
		if _, err = r.units.queue.ReadRecord(nil, r.at, u, &h.View); err == nil {
			return true, false
		}
	}
	if !errors.Is(err, store.ErrNoRecord) && !errors.Is(err, store.ErrOutOfRange) {
		if r.unread != r.at {
			r.unread, r.readFails = r.at, 0
		}
		if r.readFails++; r.readFails < readTriesMax {
			r.logger.Warn("a half message cannot be read, trying again in the next round", "offset", r.at, "err", err)
			return false, true
		}
	}
	r.stats.damaged.Add(1)
	r.logger.Error("a half message is damaged or gone, its transaction cannot be finished", "offset", r.at, "err", err)
	return false, false
}

// flush appends the batch, then asks the producers. ok is false when the round has to end; progress is where.
func (r *round) flush() (progress message.QueueOffset, ok bool) {
	if len(r.batch) == 0 {
		return 0, true
	}
	defer func() { clear(r.batch); r.batch, r.size = r.batch[:0], 0 }()
	messages := make([]store.Message, len(r.batch))
	for i := range r.batch {
		messages[i].Record = r.batch[i].record
		if r.batch[i].kind == moveGiveUp {
			if refusal := r.discardTopic(); refusal != nil {
				r.logger.Warn("transactions wait: the topic of those that are given up cannot be made", "err", refusal)
				return r.batch[0].offset, false
			}
		}
	}
	end, err := r.log.Append(messages)
	if err != nil {
		r.logger.Warn("transactions wait: half messages cannot be moved on", "err", err)
		return r.batch[0].offset, false
	}
	// A producer may answer at once, and its answer needs the copy readable. Copies that no sync confirmed in time are asked for
	// in the next round.
	durable := r.log.Await(end) == nil
	progress, ok = 0, true
	for i := range r.batch {
		m := &r.batch[i]
		if err := messages[i].Err; err != nil {
			if err = r.moveFailed(m, err); err != nil && ok {
				r.logger.Warn("transactions wait: a half message cannot be moved on", "offset", m.offset, "err", err)
				progress, ok = m.offset, false
			}
			continue
		}
		switch m.kind {
		case moveGiveUp:
			r.gaveUp(m)
		case moveImmune:
			r.ledger.copied(m.id, messages[i].QueueOffset)
		case moveCheck:
			r.ledger.copied(m.id, messages[i].QueueOffset)
			if durable {
				r.ask(&m.half, &messages[i].Record)
			}
		}
	}
	return progress, ok
}

func (r *round) gaveUp(m *move) {
	r.stats.givenUp.Add(1)
	r.logger.Warn("a transaction is given up, its message goes to "+string(discardTopic), "offset", m.offset, "topic", string(m.props.Get(message.PropertyRealTopic)),
		"producerGroup", string(m.props.Get(message.PropertyProducerGroup)), "uniqKey", m.id.uniqKey)
}

// moveFailed sees to a half that the store does not take. One that it can never take (a copy has more properties than the half)
// is given up as it is; nothing blocks the halves behind it. An error means: later.
func (r *round) moveFailed(m *move, err error) error {
	if !errors.Is(err, store.ErrTooLarge) && !errors.Is(err, store.ErrProperties) && !errors.Is(err, store.ErrBadTopic) {
		return err
	}
	if refusal := r.discardTopic(); refusal != nil {
		return refusal
	}
	whole := store.Message{Record: m.View.Record()}
	whole.Topic, whole.QueueID = discardTopic, 0
	if failed := r.log.Send(&whole, false); failed != nil {
		if whole.Err == nil {
			return failed
		}
		r.stats.damaged.Add(1)
		r.logger.Error("a half message cannot be stored again, its transaction cannot be finished", "offset", m.offset, "err", failed)
		return nil
	}
	r.gaveUp(m)
	return nil
}

// opOrder knows up to where op messages are needed: from each of its steps on, the largest half offset named before.
type opOrder struct {
	steps         []opStep
	stride, since int
	named         message.QueueOffset // largest so far
	end           message.QueueOffset // behind the last one read
}

type opStep struct {
	next, named message.QueueOffset
}

// add takes the next op message; last is the largest half offset in it that matters, -1 for none.
func (o *opOrder) add(op, last message.QueueOffset) {
	if o.stride == 0 {
		o.stride, o.named = 1, -1
	}
	o.named, o.end = max(o.named, last), op+1
	if o.since++; o.since < o.stride {
		return
	}
	o.since = 0
	if o.steps = append(o.steps, opStep{op + 1, o.named}); len(o.steps) < opStepsMax {
		return
	}
	for i := range opStepsMax / 2 {
		o.steps[i] = o.steps[2*i+1]
	}
	o.steps, o.stride = o.steps[:opStepsMax/2], o.stride*2
}

// doneBelow is the first op message that may name a half at or behind progress.
func (o *opOrder) doneBelow(progress, begin message.QueueOffset) message.QueueOffset {
	if o.end == 0 || o.named < progress {
		return max(o.end, begin)
	}
	done := begin
	for _, s := range o.steps {
		if s.named >= progress {
			break
		}
		done = s.next
	}
	return done
}

// units reads ConsumeQueue entries some at a time.
type units struct {
	queue *store.Queue
	have  []store.Unit
	first message.QueueOffset
	room  [64]store.Unit
}

// at returns the entry at offset, which is below end.
func (u *units) at(offset, end message.QueueOffset) (store.Unit, error) {
	if i := offset - u.first; i < 0 || i >= message.QueueOffset(len(u.have)) {
		u.have = u.have[:0]
		n, err := u.queue.ReadUnits(u.room[:min(message.QueueOffset(len(u.room)), end-offset)], offset)
		if n == 0 && err == nil {
			err = store.ErrNoRecord
		}
		if n == 0 {
			return store.Unit{}, err
		}
		u.have, u.first = u.room[:n], offset
	}
	return u.have[offset-u.first], nil
}
