package main

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// puller starts a pull consumer that is subscribed to the topic.
func (s *session) puller(group, topic string) (rocketmq.PullConsumer, error) {
	s.clients++
	c, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(s.servers()),
		consumer.WithGroupName(group),
		consumer.WithInstance(fmt.Sprintf("puller%d-%s-%s", s.clients, s.scenario, s.run())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		// This client leaves the batch size of a pull consumer 0 unless told, and asks the broker for 0 messages then.
		consumer.WithPullBatchSize(32),
	)
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = c.Shutdown() })
	return c, nil
}

// pull: by hand with offsets of the caller's, then a subscribed consumer that polls and acknowledges, then its successor.
func pull(s *session) error {
	const perQueue = 20
	topic := s.topic("t")
	if err := s.createTopic(topic, 2); err != nil {
		return err
	}
	p, err := s.producer(producer.WithQueueSelector(producer.NewRoundRobinQueueSelector()))
	if err != nil {
		return err
	}
	if err := s.sendMany(p, topic, "t", 0, 2*perQueue); err != nil {
		return err
	}
	hand, err := s.puller(s.group("hand"), topic)
	if err != nil {
		return err
	}
	queues, err := hand.GetTopicRouteInfo(topic)
	if err != nil {
		return err
	}
	s.event("value", fields{"name": "subscribed queues", "value": len(queues)})
	for _, queue := range queues {
		for offset := int64(0); offset < perQueue; {
			r, err := hand.PullFrom(context.Background(), queue, offset, 7)
			if err != nil {
				return err
			}
			s.pulled("all", queue.QueueId, offset, r)
			if r.NextBeginOffset <= offset {
				break
			}
			offset = r.NextBeginOffset
		}
	}
	r, err := hand.PullFrom(context.Background(), queues[0], perQueue, 32)
	if err != nil {
		return err
	}
	s.pulled("at the end", queues[0].QueueId, perQueue, r)
	if r, err = hand.PullFrom(context.Background(), queues[0], perQueue+100, 32); err != nil {
		return err
	}
	s.pulled("beyond the end", queues[0].QueueId, perQueue+100, r)

	first, err := s.puller(s.group("poll"), topic)
	if err != nil {
		return err
	}
	if err := s.poll(first, "polled", 2*perQueue); err != nil {
		return err
	}
	if err := first.PersistOffset(context.Background(), topic); err != nil {
		return err
	}
	if err := first.Shutdown(); err != nil {
		return err
	}
	s.event("phase", fields{"name": "restarted"})
	if err := s.sendMany(p, topic, "second", 2*perQueue, 2*perQueue+10); err != nil {
		return err
	}
	second, err := s.puller(s.group("poll"), topic)
	if err != nil {
		return err
	}
	return s.poll(second, "polled later", 10)
}

func (s *session) poll(c rocketmq.PullConsumer, by string, count int) error {
	end := time.Now().Add(patience)
	calmUntil := time.Time{}
	for seen := 0; time.Now().Before(end); {
		request, err := c.Poll(context.Background(), 500*time.Millisecond)
		if err != nil && !consumer.IsNoNewMsgError(err) {
			return err
		}
		if request != nil {
			for _, m := range request.GetMsgList() {
				s.got(by, m)
				seen++
			}
			c.ACK(context.Background(), request, consumer.ConsumeSuccess)
		}
		if seen >= count && calmUntil.IsZero() {
			calmUntil = time.Now().Add(calmTime)
		}
		if !calmUntil.IsZero() && time.Now().After(calmUntil) {
			return nil
		}
	}
	s.event("missing", fields{"expected": count, "by": by})
	return nil
}

// pulled names the statuses as the Java client does.
func (s *session) pulled(by string, queue int, from int64, r *primitive.PullResult) {
	names := map[primitive.PullStatus]string{primitive.PullFound: "FOUND", primitive.PullNoNewMsg: "NO_NEW_MSG",
		primitive.PullNoMsgMatched: "NO_MATCHED_MSG", primitive.PullOffsetIllegal: "OFFSET_ILLEGAL"}
	s.event("pulled", fields{"by": by, "q": queue, "from": from, "status": names[r.Status], "next": r.NextBeginOffset, "min": r.MinOffset,
		"max": r.MaxOffset})
	for _, m := range r.GetMessageExts() {
		s.got(by, m)
	}
}
