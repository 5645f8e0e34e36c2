package namesrv

import (
	"maps"
	"slices"

	"peregrine/wire"
)

const faqHint = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."

func (s *Server) routeInfo(c *call) wire.Reply {
	var h wire.GetRouteInfoRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.RLock()
	route, ok := s.routes.route(h.Topic)
	if ok && s.settings["orderMessageEnable"] == "true" {
		route.OrderTopicConf = s.kv[orderNamespace][h.Topic]
	}
	s.mu.RUnlock()
	if !ok {
		topic := h.Topic
		if len(topic) > nameBytesMax {
			topic = topic[:nameBytesMax]
		}
		return failure(wire.ResponseTopicNotExist, "No topic route info in name server for the topic: "+topic+faqHint)
	}
	if mode, _ := c.cmd.GetExt("__ZONE_MODE"); string(mode) == "true" {
		if zone, _ := c.cmd.GetExt("__ZONE_NAME"); len(zone) > 0 {
			keepZone(&route, string(zone))
		}
	}
	standard := c.cmd.Version >= wire.VersionStandardJSON || h.AcceptStandardJSONOnly != nil && *h.AcceptStandardJSONOnly
	return success(nil, route.Append(nil, standard))
}

// keepZone drops the brokers of other zones, except those without a master, which nobody could reach otherwise
// (ZoneRouteRPCHook, 5.5.0).
func keepZone(route *wire.TopicRouteData, zone string) {
	kept := make(map[string]bool)
	route.BrokerDatas = slices.DeleteFunc(route.BrokerDatas, func(b wire.BrokerData) bool {
		keep := b.ZoneName == zone || b.BrokerAddrs[0] == ""
		kept[b.BrokerName] = keep
		return !keep
	})
	route.QueueDatas = slices.DeleteFunc(route.QueueDatas, func(q wire.QueueData) bool {
		keep, known := kept[q.BrokerName]
		return known && !keep
	})
}

func (s *Server) clusterInfo(*call) wire.Reply {
	s.mu.RLock()
	info := wire.ClusterInfo{BrokerAddrTable: make(map[string]wire.BrokerData, len(s.routes.brokers)),
		ClusterAddrTable: make(map[string][]string, len(s.routes.clusters))}
	for name, data := range s.routes.brokers {
		info.BrokerAddrTable[name] = cloneBroker(data)
	}
	for cluster, brokers := range s.routes.clusters {
		info.ClusterAddrTable[cluster] = slices.Sorted(maps.Keys(brokers))
	}
	s.mu.RUnlock()
	return success(nil, wire.EncodeBody(info))
}

func (s *Server) brokerMemberGroup(c *call) wire.Reply {
	var h wire.GetBrokerMemberGroupRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	group := wire.BrokerMemberGroup{BrokerAddrs: map[int64]string{}, BrokerName: h.BrokerName, Cluster: h.ClusterName}
	s.mu.RLock()
	if data := s.routes.brokers[h.BrokerName]; data != nil {
		group.BrokerAddrs = maps.Clone(data.BrokerAddrs)
	}
	s.mu.RUnlock()
	return success(nil, wire.EncodeBody(wire.BrokerMemberGroupBody{BrokerMemberGroup: group}))
}

func (s *Server) wipeWritePerm(c *call) wire.Reply {
	count, refused := s.changePerm(c, func(perm int32) int32 { return perm &^ wire.PermWrite })
	if refused != nil {
		return *refused
	}
	return success(wire.WipeWritePermOfBrokerResponseHeader{WipeTopicCount: count}, nil)
}

func (s *Server) addWritePerm(c *call) wire.Reply {
	count, refused := s.changePerm(c, func(int32) int32 { return wire.PermRead | wire.PermWrite })
	if refused != nil {
		return *refused
	}
	return success(wire.AddWritePermOfBrokerResponseHeader{AddTopicCount: count}, nil)
}

func (s *Server) changePerm(c *call, change func(int32) int32) (count int32, refused *wire.Reply) {
	var h wire.BrokerNameRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		reply := wire.ReplyOf(err)
		return 0, &reply
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, byBroker := range s.routes.topics {
		if data, has := byBroker[h.BrokerName]; has {
			data.Perm = change(data.Perm)
			byBroker[h.BrokerName] = data
			count++
		}
	}
	s.logger.Info("write permission of a broker changed", "broker", h.BrokerName, "topics", count, "code", c.cmd.Code, "remote", c.remote)
	return count, nil
}

// topicList answers with the topics that pass, unless lists are switched off.
func (s *Server) topicList(enabledBy string, pass func(topic string, byBroker map[string]wire.QueueData) bool) wire.Reply {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.settings[enabledBy] != "true" {
		return failure(wire.ResponseSystemError, "disable")
	}
	list := wire.TopicList{TopicList: []string{}}
	for topic, byBroker := range s.routes.topics {
		if pass == nil || pass(topic, byBroker) {
			list.TopicList = append(list.TopicList, topic)
		}
	}
	slices.Sort(list.TopicList)
	return success(nil, wire.EncodeBody(list))
}

func (s *Server) allTopics(*call) wire.Reply { return s.topicList("enableAllTopicList", nil) }

func (s *Server) topicsByCluster(c *call) wire.Reply {
	var h wire.GetTopicsByClusterRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	return s.topicList("enableTopicList", func(_ string, byBroker map[string]wire.QueueData) bool {
		for broker := range byBroker {
			if s.routes.clusters[h.Cluster][broker] {
				return true
			}
		}
		return false
	})
}

func (s *Server) systemTopics(*call) wire.Reply {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := wire.TopicList{TopicList: []string{}}
	for cluster, brokers := range s.routes.clusters {
		list.TopicList = append(list.TopicList, cluster)
		for broker := range brokers {
			list.TopicList = append(list.TopicList, broker)
		}
	}
	slices.Sort(list.TopicList)
	list.TopicList = slices.Compact(list.TopicList)
	for _, name := range slices.Sorted(maps.Keys(s.routes.brokers)) {
		addrs := s.routes.brokers[name].BrokerAddrs
		if len(addrs) > 0 {
			list.BrokerAddr = addrs[slices.Min(slices.Collect(maps.Keys(addrs)))]
			break
		}
	}
	return success(nil, wire.EncodeBody(list))
}

// sysFlagOf is the topicSysFlag of one of a topic's brokers: the original looks at the first, whichever that is.
func sysFlagOf(byBroker map[string]wire.QueueData) int32 {
	return byBroker[slices.Min(slices.Collect(maps.Keys(byBroker)))].TopicSysFlag
}

func (s *Server) unitTopics(*call) wire.Reply {
	return s.topicList("enableTopicList", func(_ string, b map[string]wire.QueueData) bool {
		return sysFlagOf(b)&wire.TopicSysFlagUnit != 0
	})
}

func (s *Server) unitSubTopics(*call) wire.Reply {
	return s.topicList("enableTopicList", func(_ string, b map[string]wire.QueueData) bool {
		return sysFlagOf(b)&wire.TopicSysFlagUnitSub != 0
	})
}

func (s *Server) unitSubUnUnitTopics(*call) wire.Reply {
	return s.topicList("enableTopicList", func(_ string, b map[string]wire.QueueData) bool {
		return sysFlagOf(b)&(wire.TopicSysFlagUnit|wire.TopicSysFlagUnitSub) == wire.TopicSysFlagUnitSub
	})
}

func (s *Server) deleteTopic(c *call) wire.Reply {
	var h wire.DeleteTopicFromNamesrvRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for broker := range maps.Clone(s.routes.topics[h.Topic]) {
		if h.ClusterName == nil || *h.ClusterName == "" || s.routes.clusters[*h.ClusterName][broker] {
			s.routes.dropRoute(h.Topic, broker)
		}
	}
	return success(nil, nil)
}

func (s *Server) registerTopic(c *call) wire.Reply {
	var h wire.TopicRequestHeader
	if err := wire.DecodeHeader(c.cmd, &h); err != nil {
		return wire.ReplyOf(err)
	}
	var route wire.TopicRouteData
	if len(c.cmd.Body) > 0 {
		if err := wire.DecodeBody(c.cmd.Body, &route); err != nil {
			return wire.ReplyOf(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, data := range route.QueueDatas {
		if s.routes.brokers[data.BrokerName] != nil {
			s.routes.setRoute(h.Topic, data)
		}
	}
	return success(nil, nil)
}
