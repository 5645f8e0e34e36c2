package main

import (
	"context"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// fill fills both queues of a topic with messages from..to.
func (s *session) fill(p rocketmq.Producer, topic, tag string, from, to int) error {
	for i := from; i < to; i++ {
		for queue := range 2 {
			m := s.message(topic, tag, 2*i+queue, 64)
			m.Queue = &primitive.MessageQueue{QueueId: queue}
			r, err := p.SendSync(context.Background(), m)
			if err != nil {
				return err
			}
			s.sent("sync", m, r)
		}
		time.Sleep(2 * time.Millisecond) // store times must differ
	}
	return nil
}

// where: new groups on an old topic. The time of ConsumeFromTimestamp is in whole seconds.
func where(s *session) error {
	topic := s.topic("t")
	if err := s.createTopic(topic, 2); err != nil {
		return err
	}
	p, err := s.producer(producer.WithQueueSelector(chosenQueue{}))
	if err != nil {
		return err
	}
	begin, err := s.fillOld(p, topic, 0)
	if err != nil {
		return err
	}
	return s.newGroups(p, topic, begin)
}

// fillOld makes an old topic: what is early from that offset to 20, and later five more. It returns a time between the two.
func (s *session) fillOld(p rocketmq.Producer, topic string, from int) (begin string, err error) {
	if err := s.fill(p, topic, "early", from, 20); err != nil {
		return "", err
	}
	time.Sleep(1100 * time.Millisecond)
	begin = time.Now().Format("20060102150405")
	return begin, s.fill(p, topic, "late", 20, 25)
}

// trimmed is the same on a topic whose oldest messages are gone: the harness sees to that, while the broker is stopped.
func trimmed(s *session) error {
	topic := s.topic("t")
	for name, queues := range map[string]int{topic: 2, s.topic("filler"): 1} {
		if err := s.createTopic(name, queues); err != nil {
			return err
		}
	}
	p, err := s.producer(producer.WithQueueSelector(chosenQueue{}), producer.WithCompressMsgBodyOverHowmuch(1<<30))
	if err != nil {
		return err
	}
	if err := s.fill(p, topic, "gone", 0, 10); err != nil {
		return err
	}
	for range 48 {
		m := primitive.NewMessage(s.topic("filler"), make([]byte, 64<<10))
		m.Queue = &primitive.MessageQueue{QueueId: 0}
		if _, err := p.SendSync(context.Background(), m); err != nil {
			return err
		}
	}
	begin, err := s.fillOld(p, topic, 10)
	if err != nil {
		return err
	}
	if err := s.pauseForRestart(); err != nil {
		return err
	}
	return s.newGroups(p, topic, begin)
}

func (s *session) newGroups(p rocketmq.Producer, topic, begin string) error {
	for name, from := range map[string]consumer.ConsumeFromWhere{"FIRST": consumer.ConsumeFromFirstOffset, "LAST": consumer.ConsumeFromLastOffset,
		"TIMESTAMP": consumer.ConsumeFromTimestamp} {
		if _, err := s.consumer(name, s.group(name), topic, "*", consumer.WithConsumeFromWhere(from), consumer.WithConsumeTimestamp(begin)); err != nil {
			return err
		}
	}
	// Which offset a consumer begins at is asked when it gets its queues.
	until(patience, func() bool {
		return len(s.share("FIRST")) == 2 && len(s.share("LAST")) == 2 && len(s.share("TIMESTAMP")) == 2
	})
	s.calm()
	if err := s.fill(p, topic, "new", 25, 30); err != nil {
		return err
	}
	s.awaitTagged("new", 3*2*5)
	s.calm()
	return nil
}

// reset: the harness, as an administrator, sends a group back in time while its consumer works: it goes on from there by itself.
func reset(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	if err := s.createTopic(topic, 2); err != nil {
		return err
	}
	p, err := s.producer(producer.WithQueueSelector(chosenQueue{}))
	if err != nil {
		return err
	}
	if err := s.fill(p, topic, "early", 0, 20); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond)
	begin := time.Now().UnixMilli()
	time.Sleep(50 * time.Millisecond)
	if err := s.fill(p, topic, "late", 20, 25); err != nil {
		return err
	}
	if _, err := s.consumer("A", group, topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(2 * 25)
	s.calm()
	s.event("phase", fields{"name": "reset", "topic": topic, "group": group, "t": begin})
	s.awaitDeliveries(2*25 + 2*5)
	// It goes on as usual: what is new comes once.
	if err := s.fill(p, topic, "new", 25, 30); err != nil {
		return err
	}
	s.awaitArrivals(2 * 30)
	s.calm()
	return nil
}
