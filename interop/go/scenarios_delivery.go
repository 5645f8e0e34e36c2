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

// delay: levels 1, 2 and 3 mean 1, 5 and 10 seconds; the tag names the level. Without one in between, so that both kinds mix.
func delay(s *session) error {
	topic := s.topic("t")
	if err := s.createTopic(topic, 4); err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	for i := range 40 {
		m := s.message(topic, fmt.Sprint("level", i%4), i, 64+i)
		if i%4 > 0 {
			m.WithDelayTimeLevel(i % 4)
		}
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
	}
	s.awaitArrivals(40)
	s.calm()
	return nil
}

// retryTopic makes a group's retry topic ahead of its consumer: this client looks for a new one every half minute only.
func (s *session) retryTopic(group string) error { return s.createTopic("%RETRY%"+group, 1) }

// retry: messages with the tag "fails" succeed at their third delivery only.
func retry(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	if err := s.createTopic(topic, 4); err != nil {
		return err
	}
	if err := s.retryTopic(group); err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	for i := range 60 {
		tag := "works"
		if i%6 == 0 {
			tag = "fails"
		}
		if err := s.sendMany(p, topic, tag, i, i+1); err != nil {
			return err
		}
	}
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if c, known := primitive.GetConcurrentlyCtx(ctx); known {
			c.DelayLevelWhenNextConsume = 1
		}
		m := messages[0] // one at a time unless told otherwise
		s.got("A", m)
		if m.GetTags() == "fails" && m.ReconsumeTimes < 2 {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}
	if _, err := s.pushConsumer("A", group, topic, "*", listen); err != nil {
		return err
	}
	s.awaitDeliveries(60 + 2*10)
	s.calm()
	return nil
}

// deadLetter: a group that fails always and gives up after one retry. Its last failure asks for a delay of a minute: a dead letter
// must not wait for it.
func deadLetter(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	if err := s.retryTopic(group); err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, topic, "t", 0, 8); err != nil {
		return err
	}
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		m := messages[0]
		if c, known := primitive.GetConcurrentlyCtx(ctx); known && m.ReconsumeTimes == 0 {
			c.DelayLevelWhenNextConsume = 1
		} else if known {
			c.DelayLevelWhenNextConsume = 5
		}
		s.got("A", m)
		return consumer.ConsumeRetryLater, nil
	}
	if _, err := s.pushConsumer("A", group, topic, "*", listen, consumer.WithMaxReconsumeTimes(1)); err != nil {
		return err
	}
	s.awaitDeliveries(16)
	s.calm() // the last answer has to be on its way before its topic is there for sure
	if _, err := s.consumer("D", s.group("dead"), "%DLQ%"+group, "*"); err != nil {
		return err
	}
	s.awaitDeliveries(24)
	s.calm()
	return nil
}

// orderly: four queues, two members: two each. Then messages keep coming while A leaves: all four for B. Every tenth message
// suspends its queue twice.
func orderly(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	if err := s.createTopic(topic, 4); err != nil {
		return err
	}
	p, err := s.producer(producer.WithQueueSelector(chosenQueue{}))
	if err != nil {
		return err
	}
	member := func(name string) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		return func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			m := messages[0]
			s.got(name, m)
			time.Sleep(5 * time.Millisecond)
			status, result := "SUCCESS", consumer.ConsumeSuccess
			if m.Flag%10 == 0 && m.ReconsumeTimes < 2 {
				status, result = "SUSPEND", consumer.SuspendCurrentQueueAMoment
			}
			if c, known := primitive.GetOrderlyCtx(ctx); known {
				c.SuspendCurrentQueueTimeMillis = 100
			}
			s.event("finished", fields{"by": name, "q": m.Queue.QueueId, "o": m.QueueOffset, "status": status, "at": time.Now().UnixMilli()})
			return result, nil
		}
	}
	// A queue that this client gives away without shutting down stays locked for a minute, so both have to be there first.
	s.waitForMembers(2)
	a, err := s.pushConsumer("A", group, topic, "*", member("A"), consumer.WithConsumerOrder(true))
	if err != nil {
		return err
	}
	if _, err := s.pushConsumer("B", group, topic, "*", member("B"), consumer.WithConsumerOrder(true)); err != nil {
		return err
	}
	s.assigned("both", until(patience, func() bool { return len(s.share("A")) == 2 && len(s.share("B")) == 2 }), "A", "B")
	send := func(from, to int) error {
		for i := from; i < to; i++ {
			m := s.message(topic, "t", i, 64)
			m.Queue = &primitive.MessageQueue{QueueId: i % 4}
			r, err := p.SendSync(context.Background(), m)
			if err != nil {
				return err
			}
			s.sent("sync", m, r)
		}
		return nil
	}
	if err := send(0, 80); err != nil {
		return err
	}
	s.awaitArrivals(80)
	s.calm()

	s.event("phase", fields{"name": "busy"})
	s.waitForMembers(1)
	left := make(chan error, 1)
	for i := range 10 {
		if err := send(80+8*i, 88+8*i); err != nil {
			return err
		}
		if i == 4 {
			go func() { left <- a.Shutdown() }()
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := <-left; err != nil {
		return err
	}
	s.assigned("after A left", until(patience, func() bool { return len(s.share("B")) == 4 }), "B")
	if err := send(160, 200); err != nil {
		return err
	}
	until(patience, func() bool { return s.differentIDs() >= 200 })
	s.calm()
	return nil
}

// requestReply: one request by itself, eight at once from two producers, one that nobody answers.
func requestReply(s *session) error {
	const nobody, heartbeat = 3 * time.Second, 30 * time.Second
	topic := s.topic("t")
	if err := s.createTopic(topic, 4); err != nil {
		return err
	}
	replier, err := s.producer()
	if err != nil {
		return err
	}
	listen := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			s.got("A", m)
			if m.GetTags() == "silent" {
				continue
			}
			answer, err := consumer.CreateReplyMessage(m, nil)
			if err != nil {
				s.event("failed", fields{"error": "reply: " + err.Error()})
				continue
			}
			answer.Body = []byte("reply to " + digest(m.Body)) // this client forgets the body
			r, err := replier.SendSync(context.Background(), answer)
			if err != nil || r.Status != primitive.SendOK {
				s.event("failed", fields{"error": fmt.Sprint("reply: ", r, err)})
				continue
			}
			s.event("answered", fields{"flag": m.Flag, "status": "SEND_OK"})
		}
		return consumer.ConsumeSuccess, nil
	}
	if _, err := s.pushConsumer("A", s.group("g"), topic, "*", listen); err != nil {
		return err
	}
	ask := func(p rocketmq.Producer, tag string, number int) {
		m := s.message(topic, tag, number, 100+number)
		limit := sendTimeout
		if tag == "silent" {
			limit = nobody
		}
		s.event("asked", fields{"name": tag, "flag": number, "n": len(m.Body), "sha": digest(m.Body)})
		start := time.Now()
		answer, err := p.Request(context.Background(), limit, m)
		switch {
		case err == nil:
			s.event("reply", fields{"flag": number, "remark": string(answer.Body)})
		case tag == "silent":
			s.event("unanswered", fields{"flag": number, "ms": time.Since(start).Milliseconds(), "limit": nobody.Milliseconds(), "remark": err.Error()})
		default:
			s.event("failed", fields{"error": fmt.Sprint("request ", number, ": ", err)})
		}
	}
	var askers []rocketmq.Producer
	for range 2 {
		p, err := s.producer()
		if err != nil {
			return err
		}
		askers = append(askers, p)
	}
	for _, p := range askers {
		if err := s.sendMany(p, s.topic("other"), "t", 0, 1); err != nil {
			return err
		}
	}
	// A producer of this client tells only brokers that it knows of itself: a second after its start, and every 30 s.
	time.Sleep(heartbeat + 2*time.Second)
	ask(askers[0], "alone", 0)
	done := make(chan struct{})
	for i := 1; i <= 8; i++ {
		go func() {
			ask(askers[i%2], "at once", i)
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	ask(askers[0], "silent", 9)
	s.awaitArrivals(10)
	s.calm()
	return nil
}
