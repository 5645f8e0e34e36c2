package namesrv

import (
	"maps"
	"slices"

	"peregrine/internal/message"
	"peregrine/wire"
)

// routeTable is RouteInfoManager's tables. It has no lock: Server.mu guards it.
type routeTable struct {
	topics   map[string]map[string]wire.QueueData // topic → broker name → its queues
	brokers  map[string]*wire.BrokerData          // broker name → addresses
	clusters map[string]map[string]bool           // cluster → broker names
	live     map[liveKey]*liveBroker
	pairs    int // entries in topics
}

// liveKey is one broker process.
type liveKey struct{ cluster, addr string }

type liveBroker struct {
	lastUpdate message.Millis
	timeout    message.Millis
	version    wire.DataVersion
	conn       any // nil for the embedded broker, which never expires
	haAddr     string
}

func newRouteTable() routeTable {
	return routeTable{topics: make(map[string]map[string]wire.QueueData), brokers: make(map[string]*wire.BrokerData),
		clusters: make(map[string]map[string]bool), live: make(map[liveKey]*liveBroker)}
}

// registration is what a broker says of itself.
type registration struct {
	cluster, broker, addr, haAddr, zone string
	id                                  int64
	actingMaster                        *bool // nil from brokers before 5.0
	timeout                             message.Millis
	conn                                any
	topics                              []wire.TopicConfig
	version                             wire.DataVersion
	deleteMissing                       bool // deleteTopicWithBrokerRegistration
}

// outcome is what a registering slave learns of its master.
type outcome struct {
	masterAddr, haAddr string
	accepted           bool // false: answer "register broker failed"
}

// register mirrors RouteInfoManager.registerBroker (5.5.0).
func (t *routeTable) register(r *registration, now message.Millis) outcome {
	data := t.brokers[r.broker]
	known := data != nil
	oldAddr := ""
	if known {
		oldAddr = data.BrokerAddrs[r.id]
		if oldAddr != "" && oldAddr != r.addr {
			// Somebody else has this id: the one with the later state of the controller stays.
			if old := t.live[liveKey{r.cluster, oldAddr}]; old != nil && old.version.StateVersion > r.version.StateVersion {
				delete(t.live, liveKey{r.cluster, r.addr})
				return outcome{accepted: true}
			}
		}
	}
	if oldAddr == "" && len(r.topics) == 1 {
		// The increment of a broker that has not said what it has: clients would take this one topic for all of it.
		return outcome{}
	}
	if t.live[liveKey{r.cluster, r.addr}] == nil && len(t.live) >= BrokersMax {
		return outcome{}
	}
	if !known {
		data = &wire.BrokerData{BrokerAddrs: make(map[int64]string), BrokerName: r.broker}
		t.brokers[r.broker] = data
	}
	data.Cluster, data.ZoneName = r.cluster, r.zone
	data.EnableActingMaster = r.actingMaster != nil && *r.actingMaster
	if t.clusters[r.cluster] == nil {
		t.clusters[r.cluster] = make(map[string]bool)
	}
	t.clusters[r.cluster][r.broker] = true
	maps.DeleteFunc(data.BrokerAddrs, func(id int64, addr string) bool { return addr == r.addr && id != r.id })
	data.BrokerAddrs[r.id] = r.addr
	isMaster := r.id == 0
	primeSlave := r.actingMaster != nil && !isMaster && r.id == slices.Min(slices.Collect(maps.Keys(data.BrokerAddrs)))
	if isMaster || primeSlave {
		t.mergeTopics(r, oldAddr == "", primeSlave && *r.actingMaster)
	}
	t.live[liveKey{r.cluster, r.addr}] = &liveBroker{lastUpdate: now, timeout: r.timeout, version: r.version, conn: r.conn, haAddr: r.haAddr}
	result := outcome{accepted: true}
	if !isMaster {
		if master := data.BrokerAddrs[0]; master != "" {
			if live := t.live[liveKey{r.cluster, master}]; live != nil {
				result.masterAddr, result.haAddr = master, live.haAddr
			}
		}
	}
	return result
}

// mergeTopics takes over the topics of a registration that are new, or all when the data version says that something changed.
func (t *routeTable) mergeTopics(r *registration, first, readOnly bool) {
	changed := first || t.changed(r.cluster, r.addr, r.version)
	if r.deleteMissing && changed && len(r.topics) > 0 {
		keep := make(map[string]bool, len(r.topics))
		for i := range r.topics {
			keep[r.topics[i].TopicName] = true
		}
		for topic, byBroker := range t.topics {
			if _, has := byBroker[r.broker]; has && !keep[topic] {
				t.dropRoute(topic, r.broker)
			}
		}
	}
	for i := range r.topics {
		config := &r.topics[i]
		if _, has := t.topics[config.TopicName][r.broker]; has && !changed {
			continue
		}
		perm := config.Perm
		if readOnly {
			perm &^= wire.PermWrite
		}
		t.setRoute(config.TopicName, wire.QueueData{BrokerName: r.broker, Perm: perm, ReadQueueNums: config.ReadQueueNums,
			WriteQueueNums: config.WriteQueueNums, TopicSysFlag: config.TopicSysFlag})
	}
}

func (t *routeTable) setRoute(topic string, data wire.QueueData) {
	byBroker := t.topics[topic]
	_, has := byBroker[data.BrokerName]
	if !has {
		if t.pairs >= RoutesMax || len(topic) > nameBytesMax {
			return
		}
		if byBroker == nil {
			byBroker = make(map[string]wire.QueueData)
			t.topics[topic] = byBroker
		}
		t.pairs++
	}
	byBroker[data.BrokerName] = data
}

func (t *routeTable) dropRoute(topic, broker string) {
	byBroker := t.topics[topic]
	if _, has := byBroker[broker]; !has {
		return
	}
	delete(byBroker, broker)
	t.pairs--
	if len(byBroker) == 0 {
		delete(t.topics, topic)
	}
}

// changed says whether a broker's topics differ from what is known of it.
func (t *routeTable) changed(cluster, addr string, version wire.DataVersion) bool {
	live := t.live[liveKey{cluster, addr}]
	return live == nil || live.version != version
}

// touch counts as a sign of life.
func (t *routeTable) touch(cluster, addr string, now message.Millis) {
	if live := t.live[liveKey{cluster, addr}]; live != nil {
		live.lastUpdate = now
	}
}

// unregister forgets one broker process, and its broker name with all routes when no address remains.
func (t *routeTable) unregister(cluster, broker, addr string) {
	delete(t.live, liveKey{cluster, addr})
	data := t.brokers[broker]
	if data == nil {
		return
	}
	maps.DeleteFunc(data.BrokerAddrs, func(_ int64, a string) bool { return a == addr })
	if len(data.BrokerAddrs) > 0 {
		return
	}
	delete(t.brokers, broker)
	for name, brokers := range t.clusters {
		delete(brokers, broker)
		if len(brokers) == 0 {
			delete(t.clusters, name)
		}
	}
	for topic := range t.topics {
		t.dropRoute(topic, broker)
	}
}

// brokerAt finds the broker name behind an address.
func (t *routeTable) brokerAt(cluster, addr string) (name string, ok bool) {
	for name, data := range t.brokers {
		if data.Cluster != cluster {
			continue
		}
		for _, a := range data.BrokerAddrs {
			if a == addr {
				return name, true
			}
		}
	}
	return "", false
}

// route is the answer for one topic, ok false when no broker has it. The result shares nothing with the table.
func (t *routeTable) route(topic string) (data wire.TopicRouteData, ok bool) {
	byBroker := t.topics[topic]
	data = wire.TopicRouteData{FilterServerTable: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(byBroker)) {
		data.QueueDatas = append(data.QueueDatas, byBroker[name])
		if broker := t.brokers[name]; broker != nil {
			data.BrokerDatas = append(data.BrokerDatas, cloneBroker(broker))
		}
	}
	return data, len(data.QueueDatas) > 0 && len(data.BrokerDatas) > 0
}

func cloneBroker(b *wire.BrokerData) wire.BrokerData {
	clone := *b
	clone.BrokerAddrs = maps.Clone(b.BrokerAddrs)
	return clone
}
