package main

import (
	"context"
	"fmt"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// listener ends transactions as their tag says: at once, or when the broker asks.
type listener struct{ *session }

func (l listener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch m.GetTags() {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

func (l listener) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	l.event("checked", fields{"topic": m.Topic, "tags": m.GetTags(), "id": m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex), "sha": digest(m.Body)})
	return primitive.CommitMessageState
}

// transaction: a third is committed, a third rolled back, a third committed when checked.
func transaction(s *session) error {
	count, topic := s.number("transactions", 300), s.topic("t")
	if err := s.createTopic(topic, 4); err != nil {
		return err
	}
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	p, err := rocketmq.NewTransactionProducer(listener{s}, producer.WithNameServer(s.servers()), producer.WithGroupName("G-transactions-"+s.run()),
		producer.WithInstanceName("transactions-"+s.run()), producer.WithSendMsgTimeout(sendTimeout))
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = p.Shutdown() })
	for i := range count {
		tag := [...]string{"commit", "rollback", "check"}[i%3]
		m := s.message(topic, tag, i, 64+i)
		m.Flag = 0 // the original's copies of half messages lose it
		r, err := p.SendMessageInTransaction(context.Background(), m)
		if err != nil {
			return fmt.Errorf("transaction %d: %w", i, err)
		}
		s.sent(tag, m, r.SendResult)
	}
	s.awaitArrivals(count / 3 * 2)
	s.calm()
	return nil
}
