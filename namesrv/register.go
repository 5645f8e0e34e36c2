package namesrv

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

// Embedded is the broker of the same process.
type Embedded struct {
	Cluster, Broker, Addr, HAAddr string
	ID                            int64
}

type embedded struct {
	Embedded
	topics  map[string]wire.TopicConfig
	version wire.DataVersion
	renewed message.Millis
}

// RegisterEmbedded registers the broker of the same process with all its topics. Call it before the port opens.
func (s *Server) RegisterEmbedded(e Embedded, topics []wire.TopicConfig, version wire.DataVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.embedded = &embedded{Embedded: e, topics: make(map[string]wire.TopicConfig, len(topics)), version: version}
	for _, config := range topics {
		s.embedded.topics[config.TopicName] = config
	}
	s.renewEmbedded(topics, s.now())
}

// TopicsChanged is an increment of the embedded broker's registration.
func (s *Server) TopicsChanged(changed []wire.TopicConfig, version wire.DataVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.embedded == nil {
		return
	}
	for _, config := range changed {
		s.embedded.topics[config.TopicName] = config
	}
	s.embedded.version = version
	s.renewEmbedded(changed, s.embedded.renewed)
}

// TopicDeleted takes a topic of the embedded broker out of the routes. The original's broker leaves that to the tool (code
// 216); a route to a topic that is gone would only make clients create it again.
func (s *Server) TopicDeleted(name string, version wire.DataVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.embedded == nil {
		return
	}
	delete(s.embedded.topics, name)
	s.embedded.version = version
	s.routes.dropRoute(name, s.embedded.Broker)
	s.renewEmbedded(nil, s.embedded.renewed)
}

func (s *Server) renewEmbedded(topics []wire.TopicConfig, renewed message.Millis) {
	e := s.embedded
	if s.routes.live[liveKey{e.Cluster, e.Addr}] == nil {
		topics = slices.Collect(maps.Values(e.topics)) // gone by a 104: an increment would be refused
	}
	e.renewed = renewed
	acting := false
	s.routes.register(&registration{cluster: e.Cluster, broker: e.Broker, addr: e.Addr, haAddr: e.HAAddr, id: e.ID, actingMaster: &acting,
		topics: topics, version: e.version}, s.now())
}

// Scan forgets brokers that are silent for too long, and renews the embedded registration as an ordinary broker does
// every 30 s. Call it every ScanEvery.
func (s *Server) Scan(at time.Time) {
	now := message.Millis(at.UnixMilli())
	var closing []any
	s.mu.Lock()
	for key, live := range s.routes.live {
		if live.conn == nil || now-live.lastUpdate <= live.timeout {
			continue
		}
		s.logger.Warn("a broker registered here is silent for too long, its routes are removed", "cluster", key.cluster, "broker", key.addr,
			"silent", (now-live.lastUpdate)/1000)
		closing = append(closing, live.conn)
		s.drop(key)
	}
	if e := s.embedded; e != nil && now-e.renewed >= embeddedEvery {
		s.renewEmbedded(slices.Collect(maps.Values(e.topics)), now)
	}
	s.mu.Unlock()
	if s.close == nil {
		return
	}
	for _, conn := range closing {
		s.close(conn, "the broker sent no registration in time")
	}
}

// ConnClosed forgets the brokers that registered on a connection.
func (s *Server) ConnClosed(conn any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, live := range s.routes.live {
		if live.conn == nil || live.conn != conn {
			continue
		}
		s.logger.Info("the connection of a registered broker ended, its routes are removed", "cluster", key.cluster, "broker", key.addr)
		s.drop(key)
	}
}

func (s *Server) drop(key liveKey) {
	name, ok := s.routes.brokerAt(key.cluster, key.addr)
	if !ok {
		delete(s.routes.live, key)
		return
	}
	s.routes.unregister(key.cluster, name, key.addr)
}

func (s *Server) registerBroker(c *call) wire.Reply {
	var h wire.RegisterBrokerRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	for _, name := range []string{h.BrokerName, h.BrokerAddr, h.ClusterName, h.HAServerAddr} {
		if len(name) > nameBytesMax {
			return failure(wire.ResponseInvalidParameter, "a name of the registration is longer than 1024 bytes")
		}
	}
	if h.BodyCRC32 != 0 && h.BodyCRC32 != wire.RegistrationCRC(c.cmd.Body) {
		return wire.Reply{Code: wire.ResponseSystemError, Remark: "crc32 not match", Header: wire.RegisterBrokerResponseHeader{}}
	}
	body, err := wire.DecodeRegistration(c.cmd.Body, h.Compressed)
	if err != nil {
		return failure(wire.ResponseSystemError, "Failed to decode RegisterBrokerBody: "+err.Error())
	}
	r := registration{cluster: h.ClusterName, broker: h.BrokerName, addr: h.BrokerAddr, haAddr: h.HAServerAddr, id: h.BrokerID,
		actingMaster: h.EnableActingMaster, timeout: brokerExpiry, conn: c.conn, version: body.TopicConfigSerializeWrapper.DataVersion}
	if h.HeartbeatTimeoutMillis != nil {
		r.timeout = min(max(message.Millis(*h.HeartbeatTimeoutMillis), 0), brokerExpiryMax)
	}
	if h.ZoneName != nil {
		r.zone = *h.ZoneName
	}
	for name, config := range body.TopicConfigSerializeWrapper.TopicConfigTable {
		config.TopicName = name
		r.topics = append(r.topics, config)
	}
	s.mu.Lock()
	r.deleteMissing = s.settings["deleteTopicWithBrokerRegistration"] == "true"
	isNew := s.routes.live[liveKey{r.cluster, r.addr}] == nil
	result := s.routes.register(&r, s.now())
	order := s.orderConfigsLocked()
	s.mu.Unlock()
	header := wire.RegisterBrokerResponseHeader{}
	if !result.accepted {
		return wire.Reply{Code: wire.ResponseSystemError, Remark: "register broker failed", Header: header}
	}
	if isNew {
		s.logger.Info("a broker registered", "cluster", r.cluster, "broker", r.broker, "id", r.id, "address", r.addr, "topics", len(r.topics), "remote", c.remote)
	}
	if result.masterAddr != "" {
		header.MasterAddr, header.HAServerAddr = &result.masterAddr, &result.haAddr
	}
	return success(header, order)
}

func (s *Server) unregisterBroker(c *call) wire.Reply {
	var h wire.UnregisterBrokerRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes.unregister(h.ClusterName, h.BrokerName, h.BrokerAddr)
	s.logger.Info("a broker unregistered", "cluster", h.ClusterName, "broker", h.BrokerName, "id", h.BrokerID, "address", h.BrokerAddr, "remote", c.remote)
	return success(nil, nil)
}

func (s *Server) brokerHeartbeat(c *call) wire.Reply {
	var h wire.BrokerHeartbeatRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes.touch(h.ClusterName, h.BrokerAddr, s.now())
	return success(nil, nil)
}

func (s *Server) queryDataVersion(c *call) wire.Reply {
	var h wire.QueryDataVersionRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	var theirs wire.DataVersion
	if err := wire.DecodeBody(c.cmd.Body, &theirs); err != nil {
		return failure(wire.ResponseSystemError, fmt.Sprintf("the data version does not parse: %v", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.routes.changed(h.ClusterName, h.BrokerAddr, theirs)
	if !changed {
		s.routes.touch(h.ClusterName, h.BrokerAddr, s.now())
	}
	var body []byte
	if live := s.routes.live[liveKey{h.ClusterName, h.BrokerAddr}]; live != nil {
		body = wire.EncodeBody(live.version)
	}
	return success(wire.QueryDataVersionResponseHeader{Changed: changed}, body)
}
