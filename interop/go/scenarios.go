package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// rebalanceTime: the client rebalances every 20 s by itself; what the broker announces must be much faster.
const rebalanceTime = 25 * time.Second

// send: synchronous, asynchronous, one-way and batch into a topic that the first send creates.
func send(s *session) error {
	const each = 8
	topic := s.topic("t")
	p, err := s.producer()
	if err != nil {
		return err
	}
	number := 0
	next := func(tag string, size int) *primitive.Message {
		number++
		return s.message(topic, tag, number-1, size+number)
	}
	for range each {
		m := next("sync", 100)
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
	}
	var answered sync.WaitGroup
	for range each {
		m := next("async", 200)
		answered.Add(1)
		err := p.SendAsync(context.Background(), func(_ context.Context, r *primitive.SendResult, err error) {
			defer answered.Done()
			if err != nil {
				s.event("refused", fields{"what": "async send", "remark": err.Error()})
				return
			}
			s.sent("async", m, r)
		}, m)
		if err != nil {
			return err
		}
	}
	answered.Wait()
	for range each {
		m := next("oneway", 300)
		if err := p.SendOneWay(context.Background(), m); err != nil {
			return err
		}
		s.sent("oneway", m, nil)
	}
	var batch []*primitive.Message
	for range each {
		batch = append(batch, next("batch", 400))
	}
	r, err := p.SendSync(context.Background(), batch...)
	if err != nil {
		return err
	}
	s.sentBatch(batch, r)
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(number)
	s.calm()
	return nil
}

// topics: what auto-creation and explicit creation give, as another client sees it.
func topics(s *session) error {
	automatic, explicit := s.topic("auto"), s.topic("explicit")
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, automatic, "t", 1, 2); err != nil {
		return err
	}
	queues := func(topic string) int {
		c, err := s.puller(s.group("look-"+topic), topic)
		if err != nil {
			return -1
		}
		found, err := c.GetTopicRouteInfo(topic)
		if err != nil {
			return -1
		}
		return len(found)
	}
	s.event("value", fields{"name": "queues of an auto-created topic", "value": queues(automatic)})
	if err := s.createTopic(explicit, 6); err != nil {
		return err
	}
	if err := s.sendMany(p, explicit, "t", 2, 3); err != nil {
		return err
	}
	s.event("value", fields{"name": "queues of a topic created with 6", "value": queues(explicit)})
	return nil
}

// refusal is how this client words an error answer of the broker.
var refusal = regexp.MustCompile(`(?s)^CODE: (\d+), DESC: (.*)$`)

// bodies: 1 B, 4 KiB, 1 MiB, exactly the broker's limit, one byte over it, and one more on the same connection.
func bodies(s *session) error {
	limit := s.number("limit", 4<<20)
	topic := s.topic("t")
	p, err := s.producer(producer.WithCompressMsgBodyOverHowmuch(1 << 30))
	if err != nil {
		return err
	}
	accepted := 0
	for _, size := range []int{1, 4096, 1 << 20, limit} {
		if size > limit {
			continue
		}
		m := s.message(topic, "ok", accepted, size)
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
		accepted++
	}
	m := s.message(topic, "over", 99, limit+1)
	r, err := p.SendSync(context.Background(), m)
	if err == nil {
		s.sent("sync", m, r)
	} else if parts := refusal.FindStringSubmatch(err.Error()); parts != nil {
		code, _ := strconv.Atoi(parts[1])
		s.event("refused", fields{"what": "one over", "code": code, "remark": parts[2], "n": limit + 1, "limit": limit})
	} else {
		return err
	}
	m = s.message(topic, "after", accepted, 10)
	if r, err = p.SendSync(context.Background(), m); err != nil {
		return err
	}
	s.sent("sync", m, r)
	accepted++
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(accepted)
	s.calm()
	return nil
}

func compressed(s *session) error {
	topic := s.topic("t")
	p, err := s.producer()
	if err != nil {
		return err
	}
	sizes := []int{100, 4096, 1 << 20, 6_000_000} // all but the first are compressed
	for number, size := range sizes {
		m := s.message(topic, "z", number, 0)
		m.Body = text(size, number)
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
	}
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(len(sizes))
	s.calm()
	return nil
}

// text is a body that compresses well.
func text(sizeBytes, number int) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("body %d: a peregrine stoops at prey\n", number), sizeBytes/34+1)[:sizeBytes])
}

func pushOne(s *session) error {
	topic := s.topic("t")
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, topic, "t", 0, 100); err != nil {
		return err
	}
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(100)
	// Now the pulls are held by the broker: these must wake them.
	if err := s.sendMany(p, topic, "t", 100, 200); err != nil {
		return err
	}
	s.awaitArrivals(200)
	s.calm()
	return nil
}

// pushTwo: eight queues, two members: four each. One leaves: eight for the other. One joins: four each again.
func pushTwo(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	if err := s.createTopic(topic, 8); err != nil {
		return err
	}
	p, err := s.producer(producer.WithQueueSelector(producer.NewRoundRobinQueueSelector()))
	if err != nil {
		return err
	}
	a, err := s.consumer("A", group, topic, "*")
	if err != nil {
		return err
	}
	b, err := s.consumer("B", group, topic, "*")
	if err != nil {
		return err
	}
	ms := until(rebalanceTime, func() bool { return len(s.share("A")) == 4 && len(s.share("B")) == 4 })
	s.assigned("both", ms, "A", "B")
	s.event("value", fields{"name": "members", "value": s.members})
	if err := s.sendMany(p, topic, "calm", 0, 160); err != nil {
		return err
	}
	s.awaitArrivals(160)
	s.calm()

	s.event("phase", fields{"name": "A leaves"})
	if err := a.Shutdown(); err != nil {
		return err
	}
	ms = until(rebalanceTime, func() bool { return len(s.share("B")) == 8 })
	s.assigned("after A left", ms, "B")
	if err := s.sendMany(p, topic, "calm", 160, 240); err != nil {
		return err
	}
	s.awaitArrivals(240)
	s.calm()

	s.event("phase", fields{"name": "C joins"})
	if _, err := s.consumer("C", group, topic, "*"); err != nil {
		return err
	}
	ms = until(rebalanceTime, func() bool { return len(s.share("B")) == 4 && len(s.share("C")) == 4 })
	s.assigned("after C joined", ms, "B", "C")

	// A member leaves while messages keep coming: nothing may be lost (repeats are allowed then).
	s.event("phase", fields{"name": "busy"})
	for i := range 20 {
		if err := s.sendMany(p, topic, "busy", 240+10*i, 250+10*i); err != nil {
			return err
		}
		if i == 8 {
			if err := b.Shutdown(); err != nil {
				return err
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	until(patience, func() bool { return s.differentIDs() >= 440 })
	s.calm()
	return nil
}

func broadcast(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	if err := s.createTopic(topic, 4); err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	for _, name := range []string{"A", "B"} {
		if _, err := s.consumer(name, group, topic, "*", consumer.WithConsumerModel(consumer.BroadCasting)); err != nil {
			return err
		}
	}
	if err := s.sendMany(p, topic, "t", 0, 40); err != nil {
		return err
	}
	s.awaitArrivals(80)
	s.calm()
	return nil
}

// tags: the broker compares hashes, the client texts; "Aa" and "BB" have the same hash. A subscription to a tag outside ASCII
// is left out: this client hashes the tag's UTF-8 bytes, not its UTF-16 units, so no broker can match it.
func tags(s *session) error {
	topic := s.topic("t")
	p, err := s.producer()
	if err != nil {
		return err
	}
	number := 0
	sendTags := func(list ...string) error {
		for _, tag := range list {
			if err := s.sendMany(p, topic, tag, number, number+1); err != nil {
				return err
			}
			number++
		}
		return nil
	}
	for range 6 {
		if err := sendTags("A", "B", "C", "", "Aa", "BB", "D", "标签"); err != nil {
			return err
		}
	}
	s.event("subscribed", fields{"by": "ab", "wanted": []string{"A", "B"}})
	s.event("subscribed", fields{"by": "twin", "wanted": []string{"Aa", "D"}})
	if _, err := s.consumer("ab", s.group("ab"), topic, "A || B"); err != nil {
		return err
	}
	if _, err := s.consumer("twin", s.group("twin"), topic, "Aa||D"); err != nil {
		return err
	}
	s.awaitArrivals(12 + 12)
	// With the pulls held: unmatched ones must not disturb, matched ones must wake.
	if err := sendTags("C", "BB", "", "标签", "A", "D"); err != nil {
		return err
	}
	s.awaitArrivals(12 + 12 + 2)
	s.calm()
	return nil
}

func consumerRestart(s *session) error {
	topic, group := s.topic("t"), s.group("g")
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, topic, "first", 0, 50); err != nil {
		return err
	}
	first, err := s.consumer("A", group, topic, "*")
	if err != nil {
		return err
	}
	s.awaitArrivals(50)
	s.calm()
	if err := first.Shutdown(); err != nil {
		return err
	}
	s.event("phase", fields{"name": "restarted"})
	if err := s.sendMany(p, topic, "second", 50, 80); err != nil {
		return err
	}
	if _, err := s.consumer("B", group, topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(80)
	s.calm()
	return nil
}

// exchange: several processes with different clients share one topic; each has a group of its own.
func exchange(s *session) error {
	topic, self := "exchange-"+s.run(), s.options["self"]
	if _, err := s.consumer(self, "G-exchange-"+self+"-"+s.run(), topic, "*"); err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	for i := range 30 {
		m := s.message(topic, self, i, 64)
		m.WithProperty("from", self)
		if i%10 == 9 {
			m.Body = text(5<<10, i) // travels compressed
		}
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
	}
	s.awaitArrivals(30 * s.number("peers", 1))
	s.calm()
	return nil
}
