package main

import (
	"context"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func (s *session) differentIDs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]bool{}
	for key := range s.unique {
		ids[key[1:]] = true // names of consumers are one letter here
	}
	return len(ids)
}

// survive: producer and consumer stay while the broker goes away and comes back.
func survive(s *session) error {
	topic := s.topic("t")
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, topic, "early", 0, 50); err != nil {
		return err
	}
	if _, err := s.consumer("A", s.group("g"), topic, "*"); err != nil {
		return err
	}
	s.awaitArrivals(50)
	s.calm()
	if err := s.pauseForRestart(); err != nil {
		return err
	}
	for i := 50; i < 100; i++ {
		m := s.message(topic, "late", i, 64+i)
		r, err := s.stubborn(p, m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
	}
	s.awaitArrivals(100)
	s.calm()
	return nil
}

// before: 100 messages for nobody yet, and a group that consumed its 50 and left.
func before(s *session) error {
	waiting, consumed := "waiting-"+s.run(), "consumed-"+s.run()
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, waiting, "w", 0, 100); err != nil {
		return err
	}
	if err := s.sendMany(p, consumed, "c", 100, 150); err != nil {
		return err
	}
	c, err := s.consumer("before", "G-consumed-"+s.run(), consumed, "*")
	if err != nil {
		return err
	}
	s.awaitArrivals(50)
	s.calm()
	return c.Shutdown()
}

// after: another process, the broker restarted: all of the one topic, only what is new of the other.
func after(s *session) error {
	waiting, consumed := "waiting-"+s.run(), "consumed-"+s.run()
	if _, err := s.consumer("waiting", "G-waiting-"+s.run(), waiting, "*"); err != nil {
		return err
	}
	if _, err := s.consumer("after", "G-consumed-"+s.run(), consumed, "*"); err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	if err := s.sendMany(p, consumed, "c", 150, 170); err != nil {
		return err
	}
	s.awaitArrivals(100 + 20)
	s.calm()
	return nil
}

// stubborn is an application that must not lose its message: it sends until the broker says it has it.
func (s *session) stubborn(p rocketmq.Producer, m *primitive.Message) (*primitive.SendResult, error) {
	end := time.Now().Add(patience)
	for failures := 1; ; failures++ {
		r, err := p.SendSync(context.Background(), m)
		if err == nil {
			return r, nil
		}
		if time.Now().After(end) {
			return nil, err
		}
		s.event("retry", fields{"failures": failures, "error": err.Error()})
		time.Sleep(250 * time.Millisecond)
	}
}
