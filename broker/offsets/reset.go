package offsets

import "peregrine/internal/message"

// Reset commits an offset that an administrator chose and keeps it for the group's next pull of the queue
// (ConsumerOffsetManager.assignResetOffset). Until that pull came, commits of clients do not count: they do not know of it yet.
// ok is false when a limit was reached and nothing was done.
func (t *Table) Reset(group, topic string, id message.QueueID, offset message.QueueOffset) (ok bool) {
	if !t.Commit([]byte(group), []byte(topic), id, offset) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resets == nil {
		t.resets = make(map[string]map[string]map[message.QueueID]message.QueueOffset)
	}
	topics := t.resets[group]
	if topics == nil {
		topics = make(map[string]map[message.QueueID]message.QueueOffset)
		t.resets[group] = topics
	}
	queues := topics[topic]
	if queues == nil {
		queues = make(map[message.QueueID]message.QueueOffset)
		topics[topic] = queues
	}
	if _, had := queues[id]; !had {
		if t.waiting.Load() >= ResetsMax {
			return true
		}
		t.waiting.Add(1)
	}
	queues[id] = offset
	return true
}

// ResetWaits says whether a reset of the queue waits for its pull.
//
// hot: one atomic load while no reset waits.
func (t *Table) ResetWaits(group, topic []byte, id message.QueueID) bool {
	if t.waiting.Load() == 0 {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, waits := t.resets[string(group)][string(topic)][id]
	return waits
}

// TakeReset hands out a reset, once (ConsumerOffsetManager.queryThenEraseResetOffset).
//
// hot: one atomic load while no reset waits, else 0 allocs.
func (t *Table) TakeReset(group, topic []byte, id message.QueueID) (offset message.QueueOffset, ok bool) {
	if !t.ResetWaits(group, topic, id) {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	queues := t.resets[string(group)][string(topic)]
	if offset, ok = queues[id]; ok {
		delete(queues, id)
		t.waiting.Add(-1)
	}
	if len(queues) == 0 {
		delete(t.resets[string(group)], string(topic))
		if len(t.resets[string(group)]) == 0 {
			delete(t.resets, string(group))
		}
	}
	return offset, ok
}

// forgetResets drops what waits for a topic of a group, "" for all of its topics. The caller holds mu.
func (t *Table) forgetResets(group, topic string) {
	for name, queues := range t.resets[group] {
		if topic == "" || name == topic {
			t.waiting.Add(-int64(len(queues)))
			delete(t.resets[group], name)
		}
	}
	if len(t.resets[group]) == 0 {
		delete(t.resets, group)
	}
}

// Clone gives a group the offsets that another one has of a topic (ConsumerOffsetManager.cloneOffset).
func (t *Table) Clone(from, to, topic string) {
	t.mu.RLock()
	p := t.groups[from][topic]
	t.mu.RUnlock()
	if p == nil {
		return
	}
	Pair{Group: from, Topic: topic, offsets: p}.Each(func(id message.QueueID, offset message.QueueOffset) {
		t.Commit([]byte(to), []byte(topic), id, offset)
	})
}
