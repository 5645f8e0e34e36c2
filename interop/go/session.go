package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	// sendTimeout is far above the usual 3 s, so that a busy machine does not cause retries, which are duplicates.
	sendTimeout = 20 * time.Second
	// calmTime is how long to listen for one message too many.
	calmTime = 1500 * time.Millisecond
	// patience covers one heartbeat (30 s) plus one rebalance (20 s) of the client.
	patience = 75 * time.Second
)

// session is what one scenario needs: names of its own, clients, messages with known content and its report.
type session struct {
	report
	out     *lineWriter
	options map[string]string
	gate    <-chan struct{}

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced at each arrival
	unique     map[string]bool
	tagged     map[string]int // arrivals by tag, repeats counted as well
	deliveries int
	shares     map[string][]int // consumer name -> queues that its last rebalance gave it
	members    int              // of the group, as the last rebalance saw it
	waitFor    int              // nobody takes a queue before the group has so many members
	closers    []func()
	clients    int
}

func newSession(scenario string, options map[string]string, gate <-chan struct{}, out *lineWriter) *session {
	return &session{report: report{scenario}, out: out, options: options, gate: gate, changed: make(chan struct{}),
		unique: map[string]bool{}, tagged: map[string]int{}, shares: map[string][]int{}}
}

func (s *session) run() string                { return s.options["run"] }
func (s *session) topic(suffix string) string { return s.scenario + "-" + suffix + "-" + s.run() }
func (s *session) group(suffix string) string {
	return "G-" + s.scenario + "-" + suffix + "-" + s.run()
}

func (s *session) number(option string, fallback int) int {
	if n, err := strconv.Atoi(s.options[option]); err == nil {
		return n
	}
	return fallback
}

func (s *session) servers() primitive.NamesrvAddr { return primitive.NamesrvAddr{s.options["namesrv"]} }

func (s *session) closeAll() {
	for _, closer := range s.closers {
		closer()
	}
}

func (s *session) producer(more ...producer.Option) (rocketmq.Producer, error) {
	s.clients++
	name := fmt.Sprintf("p%d-%s", s.clients, s.scenario)
	p, err := rocketmq.NewProducer(append([]producer.Option{
		producer.WithNameServer(s.servers()),
		producer.WithGroupName(s.group(name)),
		producer.WithInstanceName(name + "-" + s.run()),
		producer.WithSendMsgTimeout(sendTimeout),
	}, more...)...)
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = p.Shutdown() })
	return p, nil
}

// listenFunc is what an application does with messages.
type listenFunc = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// consumer starts a push consumer that takes everything.
func (s *session) consumer(name, group, topic, expression string, more ...consumer.Option) (rocketmq.PushConsumer, error) {
	return s.pushConsumer(name, group, topic, expression, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			s.got(name, message)
		}
		return consumer.ConsumeSuccess, nil
	}, more...)
}

// pushConsumer starts a push consumer with the client's usual strategy.
func (s *session) pushConsumer(name, group, topic, expression string, listen listenFunc, more ...consumer.Option) (rocketmq.PushConsumer, error) {
	c, err := rocketmq.NewPushConsumer(append([]consumer.Option{
		consumer.WithNameServer(s.servers()),
		consumer.WithGroupName(group),
		consumer.WithInstance(name + "-" + s.scenario + "-" + s.run()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithStrategy(s.watch(name, topic, consumer.AllocateByAveragely)),
	}, more...)...)
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}, listen); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() { _ = c.Shutdown() })
	return c, nil
}

// watch is that strategy, wrapped only to see what it decided.
func (s *session) watch(name, topic string, strategy consumer.AllocateStrategy) consumer.AllocateStrategy {
	return func(group, self string, all []*primitive.MessageQueue, members []string) []*primitive.MessageQueue {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(members) < s.waitFor {
			return nil
		}
		share := strategy(group, self, all, members)
		if len(all) > 0 && all[0].Topic == topic {
			ids := []int{}
			for _, queue := range share {
				ids = append(ids, queue.QueueId)
			}
			sort.Ints(ids)
			s.shares[name] = ids
			s.members = len(members)
		}
		return share
	}
}

// createTopic asks the broker named in the options: the client's admin wants its address.
func (s *session) createTopic(topic string, queues int) error {
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(s.servers())))
	if err != nil {
		return err
	}
	defer a.Close()
	return a.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(s.options["broker"]),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
}

// message has content that is a function of its number, so that a wrong body cannot be right by chance.
func (s *session) message(topic, tag string, number, sizeBytes int) *primitive.Message {
	body := make([]byte, sizeBytes)
	rand.New(rand.NewSource(int64(31*number + sizeBytes))).Read(body)
	m := primitive.NewMessage(topic, body)
	if tag != "" {
		m.WithTag(tag)
	}
	m.WithKeys([]string{fmt.Sprintf("key-%d", number), fmt.Sprintf("键-é-%d", number)})
	m.Flag = int32(number)
	m.WithProperty("名字", fmt.Sprintf("值 é ñ %d", number))
	m.WithProperty("emoji", "\U0001F426 peregrine")
	m.WithProperty("json", "{\"a\":\"b\\c\"}\t\n/\x7f")
	m.WithProperty("Ключ с пробелом", " leading, trailing ")
	return m
}

func userProperties(m *primitive.Message) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{"名字", "emoji", "json", "Ключ с пробелом", "from"} {
		if value := m.GetProperty(key); value != "" {
			kept[key] = value
		}
	}
	return kept
}

func (s *session) sent(how string, m *primitive.Message, r *primitive.SendResult) {
	f := sentFields(how, m)
	if r != nil {
		status := "SEND_OK"
		if r.Status != primitive.SendOK {
			status = fmt.Sprint("status ", int(r.Status))
		}
		f["id"], f["mid"], f["q"], f["o"], f["status"] = r.MsgID, r.OffsetMsgID, r.MessageQueue.QueueId, r.QueueOffset, status
	}
	s.event("sent", f)
}

// sentBatch: this client gives the elements of a batch no id of their own, so the broker's offset ids are all there is.
func (s *session) sentBatch(batch []*primitive.Message, r *primitive.SendResult) {
	ids := strings.Split(r.OffsetMsgID, ",")
	s.event("batch", fields{"size": len(batch), "ids": len(ids), "offsetIds": len(ids), "o": r.QueueOffset})
	for i, m := range batch {
		f := sentFields("batch", m)
		if i < len(ids) {
			f["id"], f["mid"] = ids[i], ids[i]
		}
		f["q"], f["o"], f["status"] = r.MessageQueue.QueueId, r.QueueOffset+int64(i), "SEND_OK"
		s.event("sent", f)
	}
}

func sentFields(how string, m *primitive.Message) fields {
	return fields{"how": how, "topic": m.Topic, "id": m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex), "n": len(m.Body),
		"sha": digest(m.Body), "tags": m.GetTags(), "keys": m.GetKeys(), "flag": m.Flag, "props": userProperties(m)}
}

func (s *session) got(by string, m *primitive.MessageExt) {
	s.event("got", fields{"by": by, "topic": m.Topic, "id": m.MsgId, "mid": m.OffsetMsgId, "q": m.Queue.QueueId, "o": m.QueueOffset,
		"n": len(m.Body), "sha": digest(m.Body), "tags": m.GetTags(), "keys": m.GetKeys(), "flag": m.Flag, "props": userProperties(&m.Message),
		"born": m.BornHost, "st": m.StoreTimestamp, "sys": m.SysFlag, "size": m.StoreSize, "again": m.ReconsumeTimes,
		"bt": m.BornTimestamp, "at": time.Now().UnixMilli(), "origin": m.GetProperty("ORIGIN_MESSAGE_ID"), "retryOf": m.GetProperty("RETRY_TOPIC")})
	s.mu.Lock()
	s.deliveries++
	s.tagged[m.GetTags()]++
	s.unique[by+m.MsgId] = true
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

func (s *session) arrivals() (count int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unique), s.changed
}

// awaitArrivals waits until count different messages arrived (per consumer name, summed) and says so if they do not.
func (s *session) awaitArrivals(count int) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		have, changed := s.arrivals()
		if have >= count {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			s.event("missing", fields{"expected": count, "arrived": have})
			return
		}
	}
}

func (s *session) waitForMembers(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitFor = count
}

// awaitDeliveries waits until count messages arrived, repeats counted as well.
func (s *session) awaitDeliveries(count int) {
	s.await("deliveries", count, func() int { return s.deliveries })
}

// awaitTagged is the same for the messages of one tag.
func (s *session) awaitTagged(tag string, count int) {
	s.await(tag, count, func() int { return s.tagged[tag] })
}

func (s *session) await(what string, count int, have func() int) {
	locked := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return have()
	}
	if until(patience, func() bool { return locked() >= count }) < 0 {
		s.event("missing", fields{"by": what, "expected": count, "arrived": locked()})
	}
}

func (s *session) calm() { time.Sleep(calmTime) }

// until polls a condition of the client that nothing announces; it returns the milliseconds it took, or -1.
func until(within time.Duration, holds func() bool) int64 {
	start := time.Now()
	for !holds() {
		if time.Since(start) > within {
			return -1
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(start).Milliseconds()
}

func (s *session) share(name string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares[name]
}

func (s *session) assigned(when string, ms int64, names ...string) {
	for _, name := range names {
		s.event("assigned", fields{"by": name, "when": when, "ms": ms, "queues": s.share(name)})
	}
}

// chosenQueue sends into the queue whose number the message names.
type chosenQueue struct{}

func (chosenQueue) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	for _, queue := range queues {
		if queue.QueueId == m.Queue.QueueId {
			return queue
		}
	}
	return nil
}

func (s *session) sendMany(p rocketmq.Producer, topic, tag string, from, to int) error {
	for i := from; i < to; i++ {
		m := s.message(topic, tag, i, 64+i)
		r, err := p.SendSync(context.Background(), m)
		if err != nil {
			return err
		}
		s.sent("sync", m, r)
	}
	return nil
}

// pauseForRestart tells the harness that the broker may be restarted now, and waits for its word that it was.
func (s *session) pauseForRestart() error {
	s.event("ready", nil)
	select {
	case <-s.gate:
		return nil
	case <-time.After(180 * time.Second):
		return errors.New("nobody said continue")
	}
}
