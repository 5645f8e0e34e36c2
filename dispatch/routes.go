package dispatch

import (
	"peregrine/internal/message"
	"peregrine/store"
)

// queueIDDenseMax is below which a topic's routes are found by index; RocketMQ's own topics have up to 1024 queues.
const queueIDDenseMax = 1024

// route is where the records of one queue go. Only the reader touches it.
type route struct {
	queue  *store.Queue
	shard  int
	group  int32  // its newest group in the batch with this serial
	serial uint64 // 0: in no batch
}

// topicRoutes are the routes of one topic.
type topicRoutes struct {
	name   string
	kind   topicKind
	dense  []*route // by queue id
	sparse map[message.QueueID]*route
}

// topicKind says how a topic's tags codes are made.
type topicKind uint8

const (
	ordinary topicKind = iota
	scheduled
)

// routeTable finds routes without allocating and, for runs of one topic, without hashing. It holds no more than the
// store's own table of queues. Only the reader touches it.
type routeTable struct {
	store  *store.Store
	shards int
	topics map[string]*topicRoutes
	last   *topicRoutes
}

func newRouteTable(s *store.Store, shards int) routeTable {
	return routeTable{store: s, shards: shards, topics: make(map[string]*topicRoutes), last: &topicRoutes{}}
}

// find returns the route and its topic. Both stay valid until the table is dropped. A queue that was deleted is asked for
// again: the store may have made another one of its name.
//
// hot: 0 allocs except for the first record of a queue.
func (t *routeTable) find(topic []byte, id message.QueueID) (*route, *topicRoutes) {
	tr := t.last
	if tr.name != string(topic) {
		var known bool
		if tr, known = t.topics[string(topic)]; !known {
			tr = t.addTopic(topic)
		}
		t.last = tr
	}
	if uint32(id) < uint32(len(tr.dense)) {
		if r := tr.dense[id]; r != nil && !r.queue.Gone() {
			return r, tr
		}
	} else if r := tr.sparse[id]; r != nil && !r.queue.Gone() {
		return r, tr
	}
	return t.addRoute(tr, id), tr
}

func (t *routeTable) addTopic(topic []byte) *topicRoutes {
	tr := &topicRoutes{name: string(topic)}
	if tr.name == message.ScheduleTopic {
		tr.kind = scheduled
	}
	t.topics[tr.name] = tr
	return tr
}

func (t *routeTable) addRoute(tr *topicRoutes, id message.QueueID) *route {
	r := &route{queue: t.store.Queue(tr.name, id), shard: shardOf(tr.name, id, t.shards)}
	if id >= 0 && id < queueIDDenseMax {
		for int(id) >= len(tr.dense) {
			tr.dense = append(tr.dense, nil)
		}
		tr.dense[id] = r
		return r
	}
	if tr.sparse == nil {
		tr.sparse = make(map[message.QueueID]*route)
	}
	tr.sparse[id] = r
	return r
}

// shardOf spreads queues over shards by FNV-1a of topic and queue id: the same queue always has the same shard, and the
// queues of one topic, often all there is, are spread as well.
func shardOf(topic string, id message.QueueID, shards int) int {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(topic) {
		h = (h ^ uint32(topic[i])) * prime
	}
	// The id is added, not hashed: consecutive queues of a topic go to consecutive shards.
	return int((h%uint32(shards) + uint32(id)%uint32(shards)) % uint32(shards))
}
