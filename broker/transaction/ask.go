package transaction

import (
	"math/rand/v2"

	"peregrine/internal/message"
	"peregrine/wire"
)

// ask sends CHECK_TRANSACTION_STATE for a half whose copy was stored to one connection of its producer group, the next one
// if the first cannot be reached (AbstractTransactionalMessageCheckListener.sendCheckMessage). Nobody there: the next round
// asks again.
func (s *Service) ask(h *half, copied *message.Record) {
	topic, id, ok := h.realPlace()
	group := h.props.Get(message.PropertyProducerGroup)
	if !ok || len(group) == 0 {
		s.stats.unaskable.Add(1)
		s.logger.Warn("a half message cannot be checked: it does not say where it belongs or whose it is", "offset", copied.QueueOffset)
		return
	}
	producers, _ := s.producers.Producers(string(group))
	if len(producers) == 0 {
		s.stats.unasked.Add(1)
		return
	}
	frame := s.checkFrame(h, copied, topic, id)
	first := rand.IntN(len(producers))
	for i := range min(len(producers), producersAskedMax) {
		if s.pusher.Push(producers[(first+i)%len(producers)].Ref, frame) {
			s.stats.checks.Add(1)
			return
		}
	}
	s.stats.unasked.Add(1)
}

// checkFrame is the request: the message as its consumers would see it, at the place of the copy.
func (s *Service) checkFrame(h *half, copied *message.Record, topic []byte, id message.QueueID) []byte {
	record := *copied
	record.Topic, record.QueueID = topic, id
	record.StoreTimestamp, record.StoreHost = h.StoreTimestamp, h.StoreHost
	body := make([]byte, record.Size())
	record.EncodeTo(body)
	uniqKey, half, name := string(h.props.Get(message.PropertyUniqKey)), string(halfTopic), s.settings.Load().BrokerName
	offsetID := string(message.AppendOffsetMsgID(nil, copied.StoreHost, copied.PhyOffset))
	return wire.AppendRequest(nil, wire.EncodingJSON, wire.RequestCheckTransactionState, s.opaque.Add(1), wire.FlagOneway, wire.LanguageJava, wire.Version,
		wire.CheckTransactionStateRequestHeader{Topic: &half, TranStateTableOffset: int64(copied.QueueOffset), CommitLogOffset: int64(copied.PhyOffset),
			MsgID: &uniqKey, TransactionID: &uniqKey, OffsetMsgID: &offsetID, BrokerName: &name}, body)
}
