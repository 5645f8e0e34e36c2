package topics

import (
	"sync"
	"sync/atomic"

	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

// Perm bits of a topic (PermName, 5.5.0).
const (
	PermInherit = wire.PermInherit
	PermWrite   = wire.PermWrite
	PermRead    = wire.PermRead
)

// Topic is one topic of this broker. It may be kept as long as Table.Version does not change; a deleted topic stays usable
// for whoever still holds it but takes part in nothing any more.
type Topic struct {
	name      string
	nameBytes []byte
	forbidden bool
	opener    QueueOpener
	config    atomic.Pointer[wire.TopicConfig]
	extra     statefile.Extra // JSON members of the state file that this version does not know; immutable

	queues atomic.Pointer[[]*store.Queue] // copy-on-write, at most cachedQueuesMax; publishes handles that were opened
	mu     sync.Mutex                     // serialises growth of queues; innermost
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// NameBytes returns the topic's name as bytes. They are shared and must not be changed.
//
// hot: 0 allocs.
func (t *Topic) NameBytes() []byte { return t.nameBytes }

// Config returns the current configuration. It is shared and must not be changed; a later update publishes another one.
//
// hot: 0 allocs.
func (t *Topic) Config() *wire.TopicConfig { return t.config.Load() }

// SendForbidden says that producers may not send to this topic (answer 16).
//
// hot: 0 allocs.
func (t *Topic) SendForbidden() bool { return t.forbidden }

// Queue returns the store's handle of a queue. The caller has checked the id against the configuration; a negative id
// gives nil.
//
// hot: 0 allocs once the queue was asked for.
func (t *Topic) Queue(id message.QueueID) *store.Queue {
	if known := t.queues.Load(); known != nil && uint32(id) < uint32(len(*known)) {
		if q := (*known)[id]; q != nil {
			return q
		}
	}
	return t.openQueue(id)
}

func (t *Topic) openQueue(id message.QueueID) *store.Queue {
	if id < 0 {
		return nil
	}
	q := t.opener.Queue(t.name, id)
	if q == nil || id >= cachedQueuesMax {
		return q
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var grown []*store.Queue
	if known := t.queues.Load(); known != nil {
		grown = append(grown, *known...)
	}
	for len(grown) <= int(id) {
		grown = append(grown, nil)
	}
	grown[id] = q
	t.queues.Store(&grown)
	return q
}
