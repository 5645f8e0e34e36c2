// Package clients knows who is connected: consumers and producers by group, as their heartbeats say, with what each
// consumer group subscribes. It mirrors ConsumerManager, ConsumerGroupInfo and ProducerManager of RocketMQ 5.5.0.
//
// A member is a connection, not a client id: instances of one host may share an id. The scalars of a group and its
// subscriptions follow the last heartbeat, whoever sent it. When the members of a group change, or the topics it subscribes,
// every member is sent NOTIFY_CONSUMER_IDS_CHANGED and rebalances at once.
//
// Goroutines: LookupGroup and the methods of ConsumerGroup are for event loops and read copy-on-write snapshots. Heartbeat,
// Unregister, ConnClosed and Scan may be called from anywhere. Lock order: Registry.change (one change at a time, never held
// during a push) → Registry.mu (the map of consumer groups).
package clients

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"peregrine/broker/filter"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// Pusher reaches connections. Both methods return at once and may be called from any goroutine.
type Pusher interface {
	// Push sends a whole frame; the frame is borrowed until Push returns. false when the connection is gone or its loop too busy.
	Push(ref netio.ConnRef, frame []byte) bool
	// Close ends a connection.
	Close(ref netio.ConnRef, reason string)
}

// Options are what a Registry is made of.
type Options struct {
	Pusher Pusher
	Logger *slog.Logger
	// Notify says whether changes of a group are told to its members: notifyConsumerIdsChangedEnable of broker and group.
	Notify func(group string) bool
	// Resubscribed hears of a topic that a group wants other messages of than before; nil: nobody asks. No lock is held.
	Resubscribed func(topic string)
	// RealTime is realTimeNotifyConsumerChange: tell at once, else with the next Scan.
	RealTime bool
	// ExpiredAfter is channelExpiredTimeout in ms; 0 means the default of 120 s.
	ExpiredAfter message.Millis
}

// Client is one connection that sent a heartbeat.
type Client struct {
	Ref      netio.ConnRef
	Remote   netip.AddrPort
	ID       string
	Language wire.Language
	Version  int32
	LastSeen message.Millis
}

// Registry holds the clients of a broker.
type Registry struct {
	pusher       Pusher
	logger       *slog.Logger
	notify       func(group string) bool
	resubscribed func(topic string)
	realTime     atomic.Bool
	expiry       message.Millis
	opaque       atomic.Int32 // of the requests that the broker starts

	change        sync.Mutex // guards the fields below and the member tables of groups
	producers     map[string]map[netio.ConnRef]*Client
	producerIDs   map[string]netio.ConnRef // by client id: the connection that came last
	connections   map[netio.ConnRef]*membership
	registrations int
	pending       map[string]bool // groups whose change is told at the next scan
	full          warning

	mu        sync.RWMutex // guards consumers
	consumers map[string]*ConsumerGroup
}

// membership lists the groups of one connection.
type membership struct {
	consumers, producers map[string]bool
}

// ConsumerGroup is the live state of a group with at least one member. Its exported methods read snapshots.
type ConsumerGroup struct {
	name          string
	subscriptions atomic.Pointer[map[string]*filter.Subscription] // copy-on-write; publishes the whole set
	scalars       atomic.Pointer[Scalars]

	// Guarded by Registry.change.
	members     map[netio.ConnRef]*member
	fingerprint int32 // of heartbeats V2; 0 means none was seen
	conflict    warning
}

type member struct {
	Client
	declared string // canonical text of the subscriptions it last named; "" when it named none yet
}

// Scalars are what the last heartbeat said of a group as a whole.
type Scalars struct {
	ConsumeType      string // CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP
	MessageModel     string // CLUSTERING, BROADCASTING
	ConsumeFromWhere string
}

// NewRegistry makes an empty registry.
func NewRegistry(o Options) *Registry {
	expiry := o.ExpiredAfter
	if expiry <= 0 {
		expiry = expiredAfter
	}
	r := &Registry{
		pusher: o.Pusher, logger: o.Logger, notify: o.Notify, resubscribed: o.Resubscribed, expiry: expiry,
		producers: make(map[string]map[netio.ConnRef]*Client), producerIDs: make(map[string]netio.ConnRef), connections: make(map[netio.ConnRef]*membership),
		pending: make(map[string]bool), consumers: make(map[string]*ConsumerGroup),
	}
	r.Configure(o.RealTime)
	return r
}

// Configure changes realTimeNotifyConsumerChange. Any goroutine.
func (r *Registry) Configure(realTime bool) { r.realTime.Store(realTime) }

// LookupGroup returns a consumer group that has members, nil when there is none.
//
// hot: 0 allocs, one read lock.
func (r *Registry) LookupGroup(group []byte) *ConsumerGroup {
	r.mu.RLock()
	g := r.consumers[string(group)]
	r.mu.RUnlock()
	return g
}

// Subscription returns what the group wants of a topic, nil when it does not subscribe it.
//
// hot: 0 allocs.
func (g *ConsumerGroup) Subscription(topic []byte) *filter.Subscription {
	return (*g.subscriptions.Load())[string(topic)]
}

// Broadcasting says that every member reads every queue.
//
// hot: 0 allocs.
func (g *ConsumerGroup) Broadcasting() bool {
	return g.scalars.Load().MessageModel == wire.ModelBroadcasting
}

// Name returns the group's name.
func (g *ConsumerGroup) Name() string { return g.name }

// Scalars returns what the last heartbeat said of the group.
func (g *ConsumerGroup) Scalars() Scalars { return *g.scalars.Load() }

// Subscriptions returns what the group subscribes, by topic. The map is shared and must not be changed.
func (g *ConsumerGroup) Subscriptions() map[string]*filter.Subscription {
	return *g.subscriptions.Load()
}

func (r *Registry) find(group string) *ConsumerGroup {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.consumers[group]
}

// ConsumerIDs returns the client ids of a group's members, one per connection.
func (r *Registry) ConsumerIDs(group string) []string {
	r.change.Lock()
	defer r.change.Unlock()
	g := r.find(group)
	if g == nil {
		return nil
	}
	ids := make([]string, 0, len(g.members))
	for _, m := range g.members {
		if m.ID != "" {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Consumers returns the members of a consumer group, nil when it has none.
func (r *Registry) Consumers(group string) []Client {
	r.change.Lock()
	defer r.change.Unlock()
	g := r.find(group)
	if g == nil {
		return nil
	}
	list := make([]Client, 0, len(g.members))
	for _, m := range g.members {
		list = append(list, m.Client)
	}
	return list
}

// Producers returns the members of a producer group and whether the group is known.
func (r *Registry) Producers(group string) ([]Client, bool) {
	r.change.Lock()
	defer r.change.Unlock()
	clients, known := r.producers[group]
	list := make([]Client, 0, len(clients))
	for _, c := range clients {
		list = append(list, *c)
	}
	return list, known
}

// FindConsumer returns the member of a consumer group with a client id (ConsumerManager.findChannel).
func (r *Registry) FindConsumer(group, clientID string) (Client, bool) {
	r.change.Lock()
	defer r.change.Unlock()
	if g := r.find(group); g != nil {
		for _, m := range g.members {
			if m.ID == clientID {
				return m.Client, true
			}
		}
	}
	return Client{}, false
}

// FindProducer returns the connection of the producer with a client id (ProducerManager.findChannel).
func (r *Registry) FindProducer(clientID string) (netio.ConnRef, bool) {
	r.change.Lock()
	defer r.change.Unlock()
	ref, ok := r.producerIDs[clientID]
	return ref, ok
}

// AllProducers returns the members of every producer group.
func (r *Registry) AllProducers() map[string][]Client {
	r.change.Lock()
	defer r.change.Unlock()
	list := make(map[string][]Client, len(r.producers))
	for group, clients := range r.producers {
		for _, c := range clients {
			list[group] = append(list[group], *c)
		}
	}
	return list
}

// Subscribes says whether a group that is online subscribes a topic; online is false for a group without subscriptions.
func (r *Registry) Subscribes(group, topic string) (subscribes, online bool) {
	g := r.find(group)
	if g == nil {
		return false, false
	}
	all := g.Subscriptions()
	return all[topic] != nil, len(all) > 0
}

// GroupsOf returns the consumer groups with members that subscribe a topic, sorted.
func (r *Registry) GroupsOf(topic string) []string {
	r.mu.RLock()
	groups := slices.Collect(maps.Values(r.consumers))
	r.mu.RUnlock()
	var names []string
	for _, g := range groups {
		if (*g.subscriptions.Load())[topic] != nil {
			names = append(names, g.name)
		}
	}
	slices.Sort(names)
	return names
}

// Counts returns how many consumer groups, producer groups and connections are registered.
func (r *Registry) Counts() (consumerGroups, producerGroups, connections int) {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.consumers), len(r.producers), len(r.connections)
}
