package broker

import (
	"errors"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// internalSender appends records that the broker makes itself: delayed messages that are due, messages sent back, ends of
// transactions. Packages below broker get it as an interface that they declare. It is for goroutines that may block, never
// for an event loop.
type internalSender struct{ *Broker }

// Append appends the records of batch under one hold of the append lock, asks for the sync that makes them visible in
// SYNC_FLUSH, and returns the end of the log behind them. It fills in StoreHost and, from Topic and QueueID, Queue; topics
// need no configuration here, as in the original's store. Err of each element says whether it is stored (see storeRefusal
// for the causes); an element whose topic was deleted a moment ago goes into the new queue of that name.
//
// A returned error is a *wire.Refusal that a send would get now (overload): nothing was tried, try again later.
// Everything in batch is borrowed until Append returns.
func (s internalSender) Append(batch []store.Message) (end message.PhyOffset, err error) {
	if refusal := s.lagging(); refusal != nil {
		return 0, refusal
	}
	for i := range batch {
		s.address(&batch[i])
	}
	end = s.store.Append(batch)
	for i := range batch {
		if m := &batch[i]; errors.Is(m.Err, store.ErrQueueGone) && !m.Joined {
			s.address(m)
			end = s.store.Append(batch[i : i+1])
		}
		if batch[i].Err == nil {
			s.countMade(&batch[i])
		}
	}
	s.announce(end)
	return end, nil
}

func (s internalSender) address(m *store.Message) {
	m.Queue, m.StoreHost = s.queueOf(m), s.storeHost
}

// Await is Durable in SYNC_FLUSH and returns at once in ASYNC_FLUSH.
func (s internalSender) Await(end message.PhyOffset) error {
	if !s.syncFlush {
		return nil
	}
	return s.Durable(end)
}

// Durable returns when everything below end is durable; in ASYNC_FLUSH it asks for the sync. Errors: flush.ErrFlushTimeout
// after syncFlushTimeout (the records are stored and may become durable yet), anything else means that they are lost.
func (s internalSender) Durable(end message.PhyOffset) error {
	return s.flusher.Wait(end, time.Now().Add(s.set.Load().syncFlushTimeout))
}

// Send is Append and, if wait is set, Await of one record. The error is the refusal, or the failure of the sync.
func (s internalSender) Send(m *store.Message, wait bool) error {
	batch := []store.Message{*m}
	end, err := s.Append(batch)
	*m = batch[0]
	switch {
	case err != nil:
		return err
	case m.Err != nil:
		return storeRefusal(m.Err)
	case wait:
		return s.Await(end)
	}
	return nil
}
