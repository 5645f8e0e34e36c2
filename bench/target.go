package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sort"
	"strconv"
	"strings"

	"peregrine/wire"
)

// templateTopic is the topic whose settings a broker copies when it creates a topic on its first message.
const templateTopic = "TBW102"

// target is one broker that takes part of the load.
type target struct {
	addr       string // as asked for or as the name server says
	ap         netip.AddrPort
	brokerName string
	queues     int // queues 0 … queues-1 are sent to and pulled from

	begins, ends []int64 // offsets of its queues before the load; set where somebody consumes
}

// The request headers of the few questions.
type (
	routeHeader struct {
		Topic    string `wire:"topic"`
		Standard bool   `wire:"acceptStandardJsonOnly"`
	}
	topicHeader struct {
		Topic string `wire:"topic"`
	}
	createTopicHeader struct {
		Topic           string `wire:"topic"`
		DefaultTopic    string `wire:"defaultTopic"`
		ReadQueueNums   int32  `wire:"readQueueNums"`
		WriteQueueNums  int32  `wire:"writeQueueNums"`
		Perm            int32  `wire:"perm"`
		TopicFilterType string `wire:"topicFilterType"`
		TopicSysFlag    int32  `wire:"topicSysFlag"`
		Order           bool   `wire:"order"`
	}
	offsetHeader struct {
		Topic   string `wire:"topic"`
		QueueID int32  `wire:"queueId"`
	}
	offsetAnswer struct {
		Offset int64 `wire:"offset,required"`
	}
)

func resolve(addr string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not host:port", addr)
	}
	tcp, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: %w", addr, err)
	}
	ap := tcp.AddrPort()
	if !ap.Addr().IsValid() { // ":10911" means this machine
		ap = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port())
	}
	return ap, nil
}

// directTarget is the broker behind --addr.
func directTarget(addr string, queues int) (*target, error) {
	ap, err := resolve(addr)
	if err != nil {
		return nil, err
	}
	return &target{addr: addr, ap: ap, queues: queues}, nil
}

// lookUpTargets asks the name servers, in order, who serves the topic; a topic that does not exist yet goes where the
// template topic is, with the number of queues asked for.
func lookUpTargets(namesrvs string, topic string, queues int) (targets []*target, exists bool, err error) {
	var failed error
	for _, addr := range strings.FieldsFunc(namesrvs, func(r rune) bool { return r == ';' || r == ',' }) {
		targets, exists, err = lookUpAt(strings.TrimSpace(addr), topic, queues)
		if err == nil {
			return targets, exists, nil
		}
		failed = err
	}
	if failed == nil {
		failed = errors.New("no name server given")
	}
	return nil, false, failed
}

func lookUpAt(addr, topic string, queues int) ([]*target, bool, error) {
	c, err := dialControl(addr)
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	for _, name := range []string{topic, templateTopic} {
		res, err := c.ask(wire.RequestGetRouteInfoByTopic, routeHeader{Topic: name, Standard: true})
		if err != nil {
			return nil, false, err
		}
		if res.Code == int32(wire.ResponseTopicNotExist) {
			continue
		}
		if res.Code != 0 {
			return nil, false, answerError("route of "+name, res)
		}
		targets, err := targetsOf(res.Body, name == topic, queues)
		return targets, name == topic, err
	}
	return nil, false, fmt.Errorf("name server %s knows neither topic %s nor %s: no broker would create it", addr, topic, templateTopic)
}

// targetsOf takes the writable masters out of a route.
func targetsOf(body []byte, exists bool, queues int) ([]*target, error) {
	text, err := wire.StandardJSON(body)
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	var route struct {
		QueueDatas []struct {
			BrokerName     string `json:"brokerName"`
			Perm           int    `json:"perm"`
			WriteQueueNums int    `json:"writeQueueNums"`
		} `json:"queueDatas"`
		BrokerDatas []struct {
			BrokerName  string            `json:"brokerName"`
			BrokerAddrs map[string]string `json:"brokerAddrs"`
		} `json:"brokerDatas"`
	}
	if err := json.Unmarshal(text, &route); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	masters := map[string]string{}
	for _, b := range route.BrokerDatas {
		if addr, ok := b.BrokerAddrs["0"]; ok {
			masters[b.BrokerName] = addr
		}
	}
	var targets []*target
	for _, q := range route.QueueDatas {
		addr, ok := masters[q.BrokerName]
		if !ok || q.Perm&2 == 0 || q.WriteQueueNums < 1 {
			continue
		}
		n := queues
		if exists {
			n = min(q.WriteQueueNums, queues)
		}
		t, err := directTarget(addr, n)
		if err != nil {
			return nil, err
		}
		t.brokerName = q.BrokerName
		targets = append(targets, t)
	}
	if len(targets) == 0 || len(targets) > targetsMax {
		return nil, fmt.Errorf("the route names %d writable masters; 1 to %d are of use", len(targets), targetsMax)
	}
	sort.Slice(targets, func(i, j int) bool { return targets[i].brokerName < targets[j].brokerName })
	return targets, nil
}

// prepareTopic sees to it that the topic has the queues that are sent to. An existing topic is never changed. A broker that
// cannot say whether it exists is asked to create it only if create is set, which the caller does for topics of our own.
func prepareTopic(c *control, t *target, topic string, create bool) (note string, err error) {
	res, err := c.ask(wire.RequestGetTopicConfig, topicHeader{Topic: topic})
	if err != nil {
		return "", err
	}
	if res.Code == 0 {
		var config struct {
			WriteQueueNums int `json:"writeQueueNums"`
		}
		text, err := wire.StandardJSON(res.Body)
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil || config.WriteQueueNums < 1 {
			return "", fmt.Errorf("%s: the settings of topic %s make no sense: %s", t.addr, topic, text)
		}
		if config.WriteQueueNums < t.queues {
			note = fmt.Sprintf("topic %s on %s has %d queues; the load uses these", topic, t.addr, config.WriteQueueNums)
			t.queues = config.WriteQueueNums
		}
		return note, nil
	}
	if !create {
		return "", nil // the broker creates it on the first message, or refuses that message
	}
	res, err = c.ask(wire.RequestUpdateAndCreateTopic, createTopicHeader{
		Topic: topic, DefaultTopic: templateTopic, ReadQueueNums: int32(t.queues), WriteQueueNums: int32(t.queues), Perm: 6, TopicFilterType: "SINGLE_TAG",
	})
	if err != nil {
		return "", err
	}
	if res.Code != 0 {
		return fmt.Sprintf("%s would not create topic %s (code %s); left to the first message", t.addr, topic, codeName(res.Code)), nil
	}
	return "", nil
}

// offsets asks for the minimum or maximum offsets that consumers can see, of all queues of the topic that are sent to. A topic that is not there has zeros.
func offsets(c *control, t *target, topic string, code wire.RequestCode) ([]int64, error) {
	all := make([]int64, t.queues)
	for q := range all {
		res, err := c.ask(code, offsetHeader{Topic: topic, QueueID: int32(q)})
		if err != nil {
			return nil, err
		}
		if res.Code == int32(wire.ResponseTopicNotExist) {
			return all, nil
		}
		if res.Code != 0 {
			return nil, answerError("offset of queue "+strconv.Itoa(q), res)
		}
		var a offsetAnswer
		if err := wire.DecodeHeader(res, &a); err != nil {
			return nil, err
		}
		all[q] = a.Offset
	}
	return all, nil
}

// maxOffsets is the sum of the maximum offsets.
func maxOffsets(c *control, t *target, topic string) (sum int64, err error) {
	all, err := offsets(c, t, topic, wire.RequestGetMaxOffset)
	for _, offset := range all {
		sum += offset
	}
	return sum, err
}

// brokerFacts asks a broker who it is and how it is set. What it does not tell stays empty.
func brokerFacts(c *control) (version string, settings map[string]string) {
	answered, info, err := runtimeInfo(c)
	if answered == nil {
		return "", nil
	}
	version = fmt.Sprintf("protocol version %d", answered.Version)
	if err == nil && info["brokerVersionDesc"] != "" {
		version = info["brokerVersionDesc"]
	}
	all, err := brokerSettings(c)
	if err != nil {
		return version, nil
	}
	for _, key := range []string{"brokerName", "brokerRole", "flushDiskType", "mappedFileSizeCommitLog", "mapedFileSizeCommitLog", "transientStorePoolEnable",
		"writeWithoutMmap", "useTLS", "messageIndexEnable"} {
		if value, ok := all[key]; ok {
			if settings == nil {
				settings = map[string]string{}
			}
			settings[key] = value
		}
	}
	return version, settings
}

// runtimeInfo asks for what a broker tells of its state. The answer is nil if none came; it is valid until the next question.
func runtimeInfo(c *control) (answer *wire.Command, table map[string]string, err error) {
	if answer, err = c.ask(wire.RequestGetBrokerRuntimeInfo, nil); err != nil {
		return nil, nil, err
	}
	if answer.Code != 0 {
		return answer, nil, answerError("runtime info", answer)
	}
	var info struct {
		Table map[string]string `json:"table"`
	}
	text, err := wire.StandardJSON(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if err != nil {
		return answer, nil, fmt.Errorf("runtime info: %w", err)
	}
	return answer, info.Table, nil
}

// brokerSettings asks for a broker's configuration; a broker that does not tell it has none.
func brokerSettings(c *control) (settings map[string]string, err error) {
	res, err := c.ask(wire.RequestGetBrokerConfig, nil)
	if err != nil || res.Code != 0 {
		return nil, err
	}
	settings = map[string]string{}
	for line := range strings.Lines(string(res.Body)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			settings[key] = value
		}
	}
	return settings, nil
}
