// Package topics is the table of the broker's topics: which exist, their configuration, how they come into being, and the
// state file topics.json.
//
// It mirrors TopicConfigManager and TopicValidator of RocketMQ 5.5.0. It knows nothing of requests, connections or name
// servers; a Registrar is told of every change before the call that made it returns, so that a topic made by a send can be
// routed as soon as that send is answered.
//
// Goroutines: Lookup, Topic.Config and Topic.Queue are for event loops. Everything that changes the table writes topics.json
// and is for control workers. Lock order: change (one change at a time, waited for at most 3 s) → mu (the map; never held
// during I/O or a call out). The state file has its own lock, taken after change was given back, so that creations that
// come together share one write.
package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/broker/attribute"
	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

// QueueOpener gives the handle of a queue, making it in memory when it was never seen (*store.Store does).
type QueueOpener interface {
	Queue(topic string, id message.QueueID) *store.Queue
	// Queues calls yield with the queues that were seen until it returns false.
	Queues(yield func(*store.Queue) bool)
}

// Registrar is told what changed, in order of the data versions, before the change is answered. Its methods must not call
// back into the table's changing methods and must return quickly.
type Registrar interface {
	TopicsChanged(changed []wire.TopicConfig, version wire.DataVersion)
	TopicDeleted(name string, version wire.DataVersion)
}

// Settings are the parts of the configuration that topics depend on.
type Settings struct {
	Cluster, Broker     string
	AutoCreate          bool  // autoCreateTopicEnable
	DefaultQueueNums    int32 // defaultTopicQueueNums: queues of TBW102
	ClusterTopic        bool  // clusterTopicEnable
	BrokerTopic         bool  // brokerTopicEnable
	Trace               bool  // traceTopicEnable
	TraceTopic          string
	TimerWheel          bool // timerWheelEnable
	ReviveQueueNums     int32
	ProtectSystemTopics bool // validateSystemTopicWhenUpdateTopic
	MixedMessageType    bool // enableMixedMessageType
	Permission          int32
}

// Options are what a Table is made of. All fields but Registrar are required.
type Options struct {
	FS        sysio.FS
	Path      string // of topics.json; its directory exists
	Settings  Settings
	Queues    QueueOpener
	Registrar Registrar // nil: nobody is told
	Logger    *slog.Logger
	Now       func() message.Millis
}

// Table holds the topics of a broker.
type Table struct {
	settings   atomic.Pointer[Settings]
	queues     QueueOpener
	logger     *slog.Logger
	now        func() message.Millis
	file       *statefile.File
	source     sysio.Source // which copy of it the table was read from; immutable after Open
	attributes attribute.Set
	system     map[string]bool // immutable after Open

	change     chan struct{} // holds one token: who has it may change the table
	registrar  Registrar     // guarded by change
	generation atomic.Uint64 // +1 with every change; published after the map shows it

	mu        sync.RWMutex // guards the fields below
	byName    map[string]*Topic
	version   wire.DataVersion
	restExtra statefile.Extra // unknown members of topics.json
}

// Open reads topics.json (or its backup), adds the topics that every broker has, and refuses what it cannot serve. It
// changes nothing on disk. Settle follows when the store is complete.
func Open(o Options) (_ *Table, err error) {
	t := &Table{
		queues: o.Queues, logger: o.Logger, now: o.Now, registrar: o.Registrar,
		file: statefile.New(o.FS, o.Path, o.Logger), attributes: attribute.TopicSet(),
		change: make(chan struct{}, 1), byName: make(map[string]*Topic),
	}
	t.settings.Store(&o.Settings)
	t.change <- struct{}{}
	var loaded content
	t.source, err = t.file.Load(func(data []byte) (err error) {
		loaded, err = parse(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	if t.source == sysio.SourceNone {
		t.version = wire.DataVersion{Timestamp: int64(t.now())}
	} else if err := t.adopt(loaded); err != nil {
		return nil, err
	}
	t.addSystemTopics()
	t.generation.Store(1)
	return t, nil
}

// content is what topics.json holds.
type content struct {
	version wire.DataVersion
	configs map[string]wire.TopicConfig
	extras  map[string]statefile.Extra // by topic
	rest    statefile.Extra
}

type fileLayout struct {
	DataVersion      *wire.DataVersion          `json:"dataVersion,omitempty"`
	TopicConfigTable map[string]json.RawMessage `json:"topicConfigTable"`
}

func parse(data []byte) (content, error) {
	c := content{configs: map[string]wire.TopicConfig{}, extras: map[string]statefile.Extra{}}
	standard, err := statefile.Standard(data)
	if err != nil {
		return c, err
	}
	var layout fileLayout
	if err := json.Unmarshal(standard, &layout); err != nil {
		return c, err
	}
	if layout.TopicConfigTable == nil {
		return c, errors.New("there is no topicConfigTable in it")
	}
	if layout.DataVersion != nil {
		c.version = *layout.DataVersion
	}
	for name, raw := range layout.TopicConfigTable {
		var config wire.TopicConfig
		if err := wire.DecodeBody(raw, &config); err != nil {
			return c, fmt.Errorf("topic %q: %w", name, err)
		}
		config.TopicName = name
		c.configs[name] = config
		if extra := statefile.Unknown(raw, config); extra != nil {
			c.extras[name] = extra
		}
	}
	c.rest = statefile.Unknown(standard, layout)
	return c, nil
}

func (t *Table) adopt(c content) error {
	for name, config := range c.configs {
		if err := servable(&config); err != nil {
			return fmt.Errorf("%s: topic %s: %w; nothing was changed", t.file.Path(), name, err)
		}
		t.insert(config, c.extras[name])
	}
	t.version, t.restExtra = c.version, c.rest
	return nil
}

// servable refuses the kinds of topics whose storage is another one.
func servable(config *wire.TopicConfig) error {
	for key, plain := range map[string]string{"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"} {
		if v, set := config.Attributes[key]; set && v != plain {
			return fmt.Errorf("attribute %s=%s is not supported", key, v)
		}
	}
	return nil
}

// insert adds or replaces a topic in the map. The caller has the change token, or nobody else knows the table yet.
func (t *Table) insert(config wire.TopicConfig, extra statefile.Extra) *Topic {
	if config.Attributes == nil {
		config.Attributes = map[string]string{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	topic := t.byName[config.TopicName]
	if topic == nil {
		topic = &Topic{name: config.TopicName, nameBytes: []byte(config.TopicName), forbidden: SendForbidden(config.TopicName), opener: t.queues, extra: extra}
		t.byName[config.TopicName] = topic
	}
	topic.setConfig(config)
	return topic
}

func (t *Table) addSystemTopics() {
	s := t.settings.Load()
	t.system = alwaysSystem()
	add := func(when bool, name string, queues, perm int32) {
		t.system[name] = true
		if when && t.Lookup([]byte(name)) == nil {
			config := defaultConfig(name)
			config.ReadQueueNums, config.WriteQueueNums, config.Perm = queues, queues, perm
			t.insert(config, nil)
		}
	}
	const readWrite = PermRead | PermWrite
	named := func(enabled bool) int32 {
		if enabled {
			return PermInherit | readWrite
		}
		return PermInherit
	}
	add(true, SelfTestTopic, 1, readWrite)
	add(s.AutoCreate, AutoCreateTopic, s.DefaultQueueNums, PermInherit|readWrite)
	add(true, BenchmarkTopic, 1024, readWrite)
	add(true, s.Cluster, 16, named(s.ClusterTopic))
	add(true, s.Broker, 1, named(s.BrokerTopic))
	add(true, OffsetMovedTopic, 1, readWrite)
	add(true, ScheduleTopic, scheduleQueueNums, readWrite)
	add(s.Trace, s.TraceTopic, 1, readWrite)
	add(true, s.Cluster+replySuffix, 1, readWrite)
	add(true, revivePrefix+s.Cluster, s.ReviveQueueNums, readWrite)
	add(true, syncMemberPrefix+s.Broker, 1, PermInherit)
	add(true, HalfTopic, 1, readWrite)
	add(true, OpHalfTopic, 1, readWrite)
	add(true, rocksHalfTopic, 1, readWrite)
	add(true, rocksOpHalfTopic, 1, readWrite)
	add(s.TimerWheel, TimerTopic, 1, readWrite)
}

// Lookup returns the topic of that name, nil when there is none.
//
// hot: 0 allocs, one read lock.
func (t *Table) Lookup(name []byte) *Topic {
	t.mu.RLock()
	topic := t.byName[string(name)]
	t.mu.RUnlock()
	return topic
}

// Find is Lookup for a string.
func (t *Table) Find(name string) *Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

// Version is a number that grows with every change. Who keeps *Topic values compares it to know when to look them up again.
//
// hot: 0 allocs.
func (t *Table) Version() uint64 { return t.generation.Load() }

// IsSystem tells the topics that administrators may not change.
func (t *Table) IsSystem(name string) bool {
	return t.system[name] || strings.HasPrefix(name, systemPrefix)
}

// IsSystemName is IsSystem of bytes.
//
// hot: 0 allocs.
func (t *Table) IsSystemName(name []byte) bool {
	return t.system[string(name)] || bytes.HasPrefix(name, systemPrefixBytes)
}

var systemPrefixBytes = []byte(systemPrefix)

// IsOrder says that a topic exists and is marked as ordered.
func (t *Table) IsOrder(name string) bool {
	topic := t.Find(name)
	return topic != nil && topic.Config().Order
}

// SystemNames returns the names that IsSystem knows without a prefix, sorted.
func (t *Table) SystemNames() []string { return slices.Sorted(maps.Keys(t.system)) }

// Count returns how many topics there are.
func (t *Table) Count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byName)
}

// Snapshot returns all topics, sorted by name, with the data version that they belong to.
func (t *Table) Snapshot() ([]*Topic, wire.DataVersion) {
	t.mu.RLock()
	topics := slices.Collect(maps.Values(t.byName))
	version := t.version
	t.mu.RUnlock()
	slices.SortFunc(topics, func(a, b *Topic) int { return strings.Compare(a.name, b.name) })
	return topics, version
}

// Configs returns the configurations of all topics as they are registered with a name server, with their data version.
func (t *Table) Configs() ([]wire.TopicConfig, wire.DataVersion) {
	topics, version := t.Snapshot()
	configs := make([]wire.TopicConfig, len(topics))
	for i, topic := range topics {
		configs[i] = t.registered(*topic.Config())
	}
	return configs, version
}

// registered applies brokerPermission as BrokerController.registerBrokerAll does: routes never promise more than the broker allows.
func (t *Table) registered(config wire.TopicConfig) wire.TopicConfig {
	if allowed := t.settings.Load().Permission; allowed&(PermRead|PermWrite) != PermRead|PermWrite {
		config.Perm &= allowed
	}
	return config
}

// Configure puts settings into effect that can change at run time. With another Permission all topics are registered again.
func (t *Table) Configure(s Settings) {
	<-t.change
	old := t.settings.Swap(&s)
	if old.Permission != s.Permission && t.registrar != nil {
		configs, version := t.Configs()
		t.registrar.TopicsChanged(configs, version)
	}
	t.change <- struct{}{}
}

// SetRegistrar replaces the registrar. Register the whole table (Configs) with it first.
func (t *Table) SetRegistrar(r Registrar) {
	<-t.change
	t.registrar = r
	t.change <- struct{}{}
}

// acquire takes the change token, or gives up when it is not free for the original's 3 seconds.
func (t *Table) acquire() bool {
	select {
	case <-t.change:
		return true
	default:
	}
	timer := time.NewTimer(createWaitMax)
	defer timer.Stop()
	select {
	case <-t.change:
		return true
	case <-timer.C:
		t.logger.Warn("the topic table is busy, a change is given up", "waited", createWaitMax)
		return false
	}
}

func (t *Table) release() { t.change <- struct{}{} }

// bump gives the change just made its data version and tells the registrar. The caller has the change token.
func (t *Table) bump(changed []wire.TopicConfig, deleted string) (generation uint64) {
	t.mu.Lock()
	t.version.Timestamp = int64(t.now())
	t.version.Counter++
	version := t.version
	t.mu.Unlock()
	generation = t.generation.Add(1)
	if t.registrar == nil {
		return generation
	}
	if deleted != "" {
		t.registrar.TopicDeleted(deleted, version)
		return generation
	}
	told := make([]wire.TopicConfig, len(changed))
	for i, config := range changed {
		told[i] = t.registered(config)
	}
	t.registrar.TopicsChanged(told, version)
	return generation
}

// persist writes the table if generation is not on disk yet. A failure is logged and left to the next save: the topic
// works, and a full disk must not refuse what needs no space.
func (t *Table) persist(generation uint64) {
	if err := t.file.Save(generation, t.encode); err != nil {
		t.logger.Error("topics are not saved; the next change or the shutdown tries again", "error", err)
	}
}

// Save writes topics.json if something changed since the last write.
func (t *Table) Save() error { return t.file.Save(t.generation.Load(), t.encode) }

func (t *Table) encode() ([]byte, uint64) {
	// The generation is read before the topics: what is written may be newer than it says, never older.
	generation := t.generation.Load()
	topics, version := t.Snapshot()
	t.mu.RLock()
	rest := t.restExtra
	t.mu.RUnlock()
	frame := fileLayout{DataVersion: &version, TopicConfigTable: map[string]json.RawMessage{}}
	text := statefile.AppendPretty(nil, statefile.Merge(frame, rest))
	if len(topics) == 0 {
		return text, generation
	}
	// The table's place is the one member of that name with a single tab before it; the texts of its entries are ready.
	const table = "\n\t\"topicConfigTable\":{"
	at := bytes.Index(text, []byte(table+"}")) + len(table)
	size := len(text)
	for _, topic := range topics {
		size += len(topic.name) + len(topic.state.Load().text) + 8
	}
	file := append(make([]byte, 0, size), text[:at]...)
	for i, topic := range topics {
		if i > 0 {
			file = append(file, ',')
		}
		file = append(file, "\n\t\t"...)
		file = append(wire.AppendBody(file, topic.name), ':')
		file = append(file, topic.state.Load().text...)
	}
	file = append(file, "\n\t"...)
	return append(file, text[at:]...), generation
}

// DataVersion returns the version of the table.
func (t *Table) DataVersion() wire.DataVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.version
}
