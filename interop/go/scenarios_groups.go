package main

import (
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// strategies: two members under each of two other strategies than the usual one.
func strategies(s *session) error {
	p, err := s.producer(producer.WithQueueSelector(producer.NewRoundRobinQueueSelector()))
	if err != nil {
		return err
	}
	s.waitFor = 2
	sent := 0
	// So many queues for the hash that hardly any pair of names leaves a member without one.
	for _, kind := range []struct {
		name     string
		queues   int
		strategy consumer.AllocateStrategy
		members  []string
	}{
		{"circle", 8, consumer.AllocateByAveragelyCircle, []string{"A", "B"}},
		{"hash", 32, consumer.AllocateByConsistentHash(10), []string{"C", "D"}},
	} {
		topic, group := s.topic(kind.name), s.group(kind.name)
		if err := s.createTopic(topic, kind.queues); err != nil {
			return err
		}
		for _, name := range kind.members {
			if _, err := s.consumer(name, group, topic, "*", consumer.WithStrategy(s.watch(name, topic, kind.strategy))); err != nil {
				return err
			}
		}
		first, second := kind.members[0], kind.members[1]
		ms := until(patience, func() bool {
			return len(s.share(first)) > 0 && len(s.share(second)) > 0 && len(s.share(first))+len(s.share(second)) == kind.queues
		})
		s.assigned(kind.name, ms, first, second)
		if err := s.sendMany(p, topic, kind.name, 0, 2*kind.queues); err != nil {
			return err
		}
		sent += 2 * kind.queues
		s.awaitArrivals(sent)
	}
	s.calm()
	return nil
}
