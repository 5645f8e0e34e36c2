package transaction

import (
	"errors"
	"fmt"
	"strings"

	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// End is END_TRANSACTION (EndTransactionProcessor). The state "unknown" is not answered at all.
// A commit is answered when the message is appended; like the original it does not wait for the flush.
func (s *Service) End(h *wire.EndTransactionRequestHeader) wire.Reply {
	commit := h.CommitOrRollback == message.SysFlagTransactionCommit
	switch {
	case h.CommitOrRollback == 0:
		s.stats.unknown.Add(1)
		return wire.Reply{None: true}
	case !commit && h.CommitOrRollback != message.SysFlagTransactionRollback:
		s.stats.refused.Add(1)
		return wire.Reply{Code: wire.ResponseSystemError, Remark: fmt.Sprintf("commitOrRollback field wrong: %d", h.CommitOrRollback)}
	}
	reply := s.end(h, commit)
	if reply.Code != wire.ResponseSuccess {
		s.stats.refused.Add(1)
	}
	return reply
}

var notFound = wire.Reply{Code: wire.ResponseSystemError, Remark: "Find prepared transaction message failed"}

func (s *Service) end(h *wire.EndTransactionRequestHeader, commit bool) wire.Reply {
	var m half
	if _, err := s.store.ReadRecord(nil, message.PhyOffset(h.CommitLogOffset), &m.View); err != nil || string(m.Topic) != string(halfTopic) {
		// The original takes any record that lies there. Only halves have an end.
		if err != nil && !errors.Is(err, store.ErrNoRecord) && !errors.Is(err, store.ErrOutOfRange) {
			s.logger.Error("a half message cannot be read", "position", h.CommitLogOffset, "err", err)
		}
		return notFound
	}
	m.props.Parse(m.Properties)
	fromCheck := h.FromTransactionCheck != nil && *h.FromTransactionCheck
	if !fromCheck && m.endsTooLate(s.now(), s.settings.Load().TimeOut) {
		return wire.Reply{Code: wire.ResponseIllegalOperation}
	}
	switch {
	case string(m.props.Get(message.PropertyProducerGroup)) != h.ProducerGroup:
		return wire.Reply{Code: wire.ResponseSystemError, Remark: "The producer group wrong"}
	case int64(m.QueueOffset) != h.TranStateTableOffset:
		return wire.Reply{Code: wire.ResponseSystemError, Remark: "The transaction state table offset wrong"}
	}
	id, offset := m.identity(), m.QueueOffset
	s.ledger.begin(offset)
	var refusal *wire.Refusal
	if commit {
		refusal = s.commit(&m)
	}
	if s.ledger.done(offset, id, refusal == nil, s.now(), s.settings.Load().OpBytesMax) {
		s.wakeOpWriter()
	}
	switch {
	case refusal != nil:
		return refusal.Reply()
	case commit:
		s.stats.commits.Add(1)
	default:
		s.stats.rollbacks.Add(1)
	}
	return wire.Reply{}
}

// commit appends the message to its real queue.
func (s *Service) commit(m *half) *wire.Refusal {
	record, ok := m.committed()
	if !ok {
		return wire.Refuse(wire.ResponseSystemError, "the half message does not say where it belongs (REAL_TOPIC, REAL_QID)")
	}
	return s.append(&store.Message{Record: record})
}

// append appends one record that nobody waits for.
func (s *Service) append(m *store.Message) *wire.Refusal {
	err := s.log.Send(m, false)
	if err == nil {
		return nil
	}
	var refusal *wire.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return wire.Refuse(wire.ResponseSystemError, err.Error())
}

// Resume is RESUME_CHECK_HALF_MESSAGE: the message with the offset id, which was given up, becomes a half that was never
// checked. The original takes any message; here it has to be one of TRANS_CHECK_MAX_TIME_TOPIC.
func (s *Service) Resume(offsetID string) *wire.Refusal {
	_, at, err := message.ParseOffsetMsgID([]byte(strings.TrimSpace(offsetID)))
	if err != nil {
		return wire.Refuse(wire.ResponseSystemError, resumeFailed+": "+err.Error())
	}
	var m half
	if _, err := s.store.ReadRecord(nil, at, &m.View); err != nil {
		return wire.Refuse(wire.ResponseSystemError, resumeFailed+": "+err.Error())
	}
	if string(m.Topic) != string(discardTopic) {
		return wire.Refuse(wire.ResponseSystemError, resumeFailed+": it is not a message of "+string(discardTopic))
	}
	m.props.Parse(m.Properties)
	m.props.Set(nameCheckTimes, []byte("0"))
	record := m.renewed()
	record.Topic, record.QueueID = halfTopic, 0
	return s.append(&store.Message{Record: record})
}

const resumeFailed = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
