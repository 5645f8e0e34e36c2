package broker

import (
	"bytes"
	"sync/atomic"

	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/store"
)

// countPull notes where the group will go on and what it got.
//
// hot: 0 allocs once key has grown and the group is known.
func (b *Broker) countPull(key *[]byte, r *pullRequest, found *lookup) {
	b.pulled.Commit(r.group.NameBytes(), r.topic.NameBytes(), r.queue.ID(), found.next)
	if found.messages == 0 {
		return
	}
	*key = append(append(append((*key)[:0], r.topic.NameBytes()...), '@'), r.group.NameBytes()...)
	b.stats.Add(stats.GroupGetNums, *key, int64(found.messages))
	b.stats.Add(stats.GroupGetSize, *key, int64(found.bytes))
	b.brokerGets.Add(int64(found.messages))
	if !b.topics.IsSystemName(r.topic.NameBytes()) {
		b.userGets.Add(int64(found.messages))
	}
}

// topicRun sums the sends of one topic that follow each other in a turn, so that a turn with one topic counts once. The topic is the one
// that the records lie in: a delayed message counts for the schedule topic now and for its own when it is due, a half for its own when it
// is committed.
type topicRun struct {
	topic       []byte
	count, size int64
}

// add counts one stored send.
//
// hot: 0 allocs.
func (t *topicRun) add(b *Broker, topic []byte, count, size int64) {
	if len(t.topic) != len(topic) || len(topic) > 0 && &t.topic[0] != &topic[0] {
		t.flush(b)
		t.topic = topic
	}
	t.count += count
	t.size += size
}

// flush hands what was summed to the statistics.
//
// hot: 0 allocs once the topic is known.
func (t *topicRun) flush(b *Broker) {
	if t.count > 0 {
		b.stats.Add(stats.TopicPutNums, t.topic, t.count)
		b.stats.Add(stats.TopicPutSize, t.topic, t.size)
		b.brokerPuts.Add(t.count)
		if !b.topics.IsSystemName(t.topic) {
			b.userPuts.Add(t.count)
		}
	}
	*t = topicRun{}
}

// wakePulls runs the held pulls of a queue again.
func (b *Broker) wakePulls(topic string, id message.QueueID) {
	if q := b.store.LookupQueue([]byte(topic), id); q != nil {
		b.polls.Wake(q)
	}
}

// wakeAllPulls runs the held pulls of a topic again: what a group wants of it has changed.
func (b *Broker) wakeAllPulls(topic string) {
	if t := b.topics.Find(topic); t != nil {
		for id := range min(t.Config().ReadQueueNums, topics.QueueNumsMax) {
			b.wakePulls(topic, message.QueueID(id))
		}
	}
}

// slowCounters are what loops count of sends, for those that control workers carried out.
type slowCounters struct {
	sent, sentBytes, storedBytes, failed atomic.Uint64
}

// countSlowSend counts a send that a control worker carried out.
func (b *Broker) countSlowSend(t *sendTurn, p *pendingSend) {
	if t.messages[p.first].Err != nil {
		b.slow.failed.Add(uint64(p.n))
		return
	}
	var run topicRun
	for i := p.first; i < p.first+p.n; i++ {
		m := &t.messages[i]
		b.slow.sentBytes.Add(uint64(len(m.Body)))
		b.slow.storedBytes.Add(uint64(m.Size()))
		run.add(b, m.Topic, 1, int64(m.Size()))
	}
	b.slow.sent.Add(uint64(p.n))
	run.flush(b)
}

// madeCounters are the records that the broker made itself.
type madeCounters struct {
	records, bytes atomic.Uint64
}

var dlqPrefix = []byte(topics.DLQPrefix)

// countMade counts a record that the broker made, as the original does: dead letters of messages that were sent back and transactions
// that are given up count for no topic, what is sent back with a delay counts for the schedule topic only.
func (b *Broker) countMade(m *store.Message) {
	size := int64(m.Size())
	b.made.records.Add(1)
	b.made.bytes.Add(uint64(size))
	switch {
	case bytes.HasPrefix(m.Topic, dlqPrefix), string(m.Topic) == topics.CheckMaxTimeTopic:
	case string(m.Topic) == topics.ScheduleTopic:
		b.stats.Add(stats.TopicPutNums, m.Topic, 1)
		b.stats.Add(stats.TopicPutSize, m.Topic, size)
	default:
		run := topicRun{topic: m.Topic, count: 1, size: size}
		run.flush(b)
	}
}
