package namesrv

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peregrine/internal/message"
	"peregrine/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Storage without a file.
type memory struct {
	data []byte
	err  error
}

func (m *memory) Load(valid func([]byte) error) ([]byte, error) {
	if m.data == nil {
		return nil, m.err
	}
	if err := valid(m.data); err != nil {
		return nil, err
	}
	return m.data, m.err
}

func (m *memory) Save(data []byte) error {
	if m.err == nil {
		m.data = data
	}
	return m.err
}

type fixture struct {
	kv, settings memory
	now          message.Millis
	closed       []any
}

func newServer(t *testing.T, f *fixture) *Server {
	t.Helper()
	if f == nil {
		f = &fixture{}
	}
	s, err := New(Options{KV: &f.kv, Settings: &f.settings, Facts: map[string]string{"listenPort": "9876", "kvConfigPath": "namesrv/kvConfig.json"},
		Close: func(conn any, _ string) { f.closed = append(f.closed, conn) }, Logger: slog.New(slog.DiscardHandler), Now: func() message.Millis { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a request with ext fields given as name, value, name, value …
func ask(t *testing.T, s *Server, conn any, code wire.RequestCode, body string, ext ...string) wire.Reply {
	t.Helper()
	return askAs(t, s, conn, wire.Version, code, body, ext...)
}

func askAs(t *testing.T, s *Server, conn any, version int32, code wire.RequestCode, body string, ext ...string) wire.Reply {
	t.Helper()
	var fields strings.Builder
	for i := 0; i < len(ext); i += 2 {
		if i > 0 {
			fields.WriteByte(',')
		}
		fmt.Fprintf(&fields, "%q:%q", ext[i], ext[i+1])
	}
	header := fmt.Sprintf(`{"code":%d,"extFields":{%s},"flag":0,"language":"JAVA","opaque":1,"version":%d}`, code, fields.String(), version)
	frame := append([]byte{0, byte(len(header) >> 16), byte(len(header) >> 8), byte(len(header))}, header...)
	var d wire.Decoder
	var c wire.Command
	if err := d.Decode(append(frame, body...), &c); err != nil {
		t.Fatal(err)
	}
	reply := s.Process(&c, conn, netip.MustParseAddrPort("10.0.0.9:1"))
	wire.AppendReply(nil, wire.EncodingJSON, 1, &reply) // it must be writable
	return reply
}

func expect(t *testing.T, what string, r wire.Reply, code wire.ResponseCode, remark, body string) {
	t.Helper()
	if r.Code != code || !strings.Contains(r.Remark, remark) || remark == "" && r.Remark != "" || !strings.Contains(string(r.Body), body) {
		t.Errorf("%s: %d %q %s", what, r.Code, r.Remark, r.Body)
	}
}

func register(t *testing.T, s *Server, conn any, broker, addr string, id int, version int64, topics []string, more ...string) wire.Reply {
	t.Helper()
	table := map[string]wire.TopicConfig{}
	for _, topic := range topics {
		table[topic] = wire.TopicConfig{TopicName: topic, Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}
	}
	body := wire.EncodeBody(wire.RegisterBrokerBody{TopicConfigSerializeWrapper: wire.TopicConfigSerializeWrapper{
		DataVersion: wire.DataVersion{Counter: version, Timestamp: 5}, TopicConfigTable: table}})
	ext := append([]string{"brokerName", broker, "brokerAddr", addr, "clusterName", "C2", "haServerAddr", "1.1.1.1:9", "brokerId", fmt.Sprint(id),
		"compressed", "false", "bodyCrc32", "0"}, more...)
	return ask(t, s, conn, wire.RequestRegisterBroker, string(body), ext...)
}

func embeddedServer(t *testing.T, f *fixture) *Server {
	s := newServer(t, f)
	s.RegisterEmbedded(Embedded{Cluster: "DefaultCluster", Broker: "broker-a", Addr: "10.0.0.1:10911", HAAddr: "10.0.0.1:10912"},
		[]wire.TopicConfig{{TopicName: "T1", Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}, {TopicName: "TBW102", Perm: 7, ReadQueueNums: 8, WriteQueueNums: 8},
			{TopicName: "Unit", Perm: 6, TopicSysFlag: 3}, {TopicName: "Sub", Perm: 6, TopicSysFlag: 2}}, wire.DataVersion{Counter: 1})
	return s
}

// Bodies as 5.5.0 writes them; clients below 4.9.4 get bare keys unless they ask otherwise.
func TestRoutesAreWrittenForTheirReader(t *testing.T) {
	s := embeddedServer(t, nil)
	form := `{"brokerDatas":[{"brokerAddrs":{%s:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],` +
		`"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`
	cases := []struct {
		version int32
		key     string
		ext     []string
	}{
		{513, `"0"`, nil}, {401, `"0"`, nil}, {400, `0`, nil}, {317, `0`, nil}, {317, `"0"`, []string{"acceptStandardJsonOnly", "true"}}, {317, `0`, []string{"acceptStandardJsonOnly", "false"}},
	}
	for _, c := range cases {
		r := askAs(t, s, 1, c.version, wire.RequestGetRouteInfoByTopic, "", append([]string{"topic", "T1"}, c.ext...)...)
		if want := fmt.Sprintf(form, c.key); r.Code != 0 || string(r.Body) != want {
			t.Errorf("version %d: %d %s\nwant %s", c.version, r.Code, r.Body, want)
		}
	}
	expect(t, "unknown topic", ask(t, s, 1, 105, "", "topic", "nope"), 17,
		"No topic route info in name server for the topic: nope\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.", "")
	expect(t, "no topic", ask(t, s, 1, 105, ""), 1, "topic", "")
}

func TestATopicIsRoutedWhenItsChangeReturns(t *testing.T) {
	s := embeddedServer(t, nil)
	s.TopicsChanged([]wire.TopicConfig{{TopicName: "New", Perm: 6, ReadQueueNums: 2, WriteQueueNums: 3}}, wire.DataVersion{Counter: 2})
	expect(t, "created", ask(t, s, 1, 105, "", "topic", "New"), 0, "", `"writeQueueNums":3`)
	s.TopicsChanged([]wire.TopicConfig{{TopicName: "New", Perm: 4, ReadQueueNums: 2, WriteQueueNums: 3}}, wire.DataVersion{Counter: 3})
	expect(t, "changed", ask(t, s, 1, 105, "", "topic", "New"), 0, "", `"perm":4`)
	s.TopicDeleted("New", wire.DataVersion{Counter: 4})
	expect(t, "deleted", ask(t, s, 1, 105, "", "topic", "New"), 17, "No topic route info", "")
	// A wiped permission lives until the topic's next change, not until any change.
	expect(t, "wipe", ask(t, s, 1, 205, "", "brokerName", "broker-a"), 0, "", "")
	s.TopicsChanged([]wire.TopicConfig{{TopicName: "Other", Perm: 6}}, wire.DataVersion{Counter: 5})
	expect(t, "still wiped", ask(t, s, 1, 105, "", "topic", "T1"), 0, "", `"perm":4`)
	expect(t, "add", ask(t, s, 1, 327, "", "brokerName", "broker-a"), 0, "", "")
	expect(t, "writable", ask(t, s, 1, 105, "", "topic", "T1"), 0, "", `"perm":6`)
	expect(t, "absolute", ask(t, s, 1, 105, "", "topic", "TBW102"), 0, "", `"perm":6`)
}

func TestTheEmbeddedBrokerStays(t *testing.T) {
	f := &fixture{}
	s := embeddedServer(t, f)
	f.now = 1_000_000_000
	s.Scan(time.UnixMilli(int64(f.now)))
	s.ConnClosed(nil)
	expect(t, "after a long time", ask(t, s, 1, 105, "", "topic", "T1"), 0, "", "10.0.0.1:10911")
	ask(t, s, 1, 104, "", "brokerName", "broker-a", "brokerAddr", "10.0.0.1:10911", "clusterName", "DefaultCluster", "brokerId", "0")
	expect(t, "unregistered", ask(t, s, 1, 105, "", "topic", "T1"), 17, "No topic", "")
	// The next renewal brings it back, as a real broker's would, and so does a change: with all topics, not only the changed one.
	s.TopicsChanged([]wire.TopicConfig{{TopicName: "New", Perm: 6}}, wire.DataVersion{Counter: 9})
	expect(t, "after a change", ask(t, s, 1, 105, "", "topic", "T1"), 0, "", "10.0.0.1:10911")
	ask(t, s, 1, 216, "", "topic", "T1")
	expect(t, "deleted by a tool", ask(t, s, 1, 105, "", "topic", "T1"), 17, "No topic", "")
	f.now += embeddedEvery
	s.Scan(time.UnixMilli(int64(f.now)))
	expect(t, "after a renewal", ask(t, s, 1, 105, "", "topic", "T1"), 0, "", "10.0.0.1:10911")
}

// The same registrations as sent to a running 5.5.0 name server.
func TestForeignBrokersRegister(t *testing.T) {
	s := embeddedServer(t, nil)
	expect(t, "one topic first", register(t, s, "c", "bb", "1.1.1.1:1", 0, 1, []string{"X1"}), 1, "register broker failed", "")
	if strings.Contains(string(ask(t, s, 1, 106, "").Body), "bb") {
		t.Error("a refused broker is in the cluster")
	}
	expect(t, "two", register(t, s, "c", "bb", "1.1.1.1:1", 0, 1, []string{"X1", "X2"}), 0, "", "")
	r := register(t, s, "d", "bb", "1.1.1.2:1", 1, 1, nil)
	expect(t, "a slave", r, 0, "", "")
	if h := r.Header.(wire.RegisterBrokerResponseHeader); h.MasterAddr == nil || *h.MasterAddr != "1.1.1.1:1" || *h.HAServerAddr != "1.1.1.1:9" {
		t.Errorf("the slave learns %+v", h)
	}
	expect(t, "both addresses", ask(t, s, 1, 105, "", "topic", "X1"), 0, "", `{"0":"1.1.1.1:1","1":"1.1.1.2:1"}`)
	expect(t, "another address of the master", register(t, s, "e", "bb", "1.1.1.3:1", 0, 0, []string{"X1", "X2"}), 0, "", "")
	expect(t, "takes over", ask(t, s, 1, 105, "", "topic", "X1"), 0, "", `{"0":"1.1.1.3:1","1":"1.1.1.2:1"}`)
	expect(t, "an increment", register(t, s, "e", "bb", "1.1.1.3:1", 0, 2, []string{"X3"}), 0, "", "")
	expect(t, "its topic", ask(t, s, 1, 105, "", "topic", "X3"), 0, "", `"brokerName":"bb"`)
	expect(t, "lists by cluster", ask(t, s, 1, 224, "", "cluster", "C2"), 0, "", `{"topicList":["X1","X2","X3"]}`)
	expect(t, "system topics", ask(t, s, 1, 304, ""), 0, "", `"topicList":["C2","DefaultCluster","bb","broker-a"]`)
	expect(t, "member group", ask(t, s, 1, 901, "", "clusterName", "C2", "brokerName", "bb"), 0, "",
		`{"brokerMemberGroup":{"brokerAddrs":{"0":"1.1.1.3:1","1":"1.1.1.2:1"},"brokerName":"bb","cluster":"C2"}}`)
	ask(t, s, 1, 104, "", "brokerName", "bb", "brokerAddr", "1.1.1.2:1", "clusterName", "C2", "brokerId", "1")
	expect(t, "slave gone", ask(t, s, 1, 105, "", "topic", "X1"), 0, "", `{"0":"1.1.1.3:1"}`)
	ask(t, s, 1, 104, "", "brokerName", "bb", "brokerAddr", "1.1.1.3:1", "clusterName", "C2", "brokerId", "0")
	expect(t, "all gone", ask(t, s, 1, 105, "", "topic", "X1"), 17, "No topic", "")
	if got := ask(t, s, 1, 106, "").Body; bytes.Contains(got, []byte("C2")) {
		t.Errorf("the cluster is left: %s", got)
	}
	if s.routes.pairs != 4 {
		t.Errorf("%d routes are counted", s.routes.pairs)
	}
}

func TestBadRegistrationsAreRefused(t *testing.T) {
	s := newServer(t, nil)
	good := []string{"brokerName", "b", "brokerAddr", "1.1.1.1:1", "clusterName", "C", "haServerAddr", "1.1.1.1:2", "brokerId", "0"}
	expect(t, "crc", ask(t, s, 1, 103, "{}", append(good, "bodyCrc32", "3")...), 1, "crc32 not match", "")
	expect(t, "body", ask(t, s, 1, 103, "{bad", good...), 1, "Failed to decode RegisterBrokerBody", "")
	expect(t, "packed", ask(t, s, 1, 103, "not zlib", append(good, "compressed", "true")...), 1, "Failed to decode RegisterBrokerBody", "")
	expect(t, "field", ask(t, s, 1, 103, "{}", good[2:]...), 1, "brokerName", "")
	expect(t, "endless", ask(t, s, 1, 103, "{}", append([]string{"brokerName", strings.Repeat("x", 2000)}, good[2:]...)...), 29, "longer than", "")
	if len(s.routes.brokers)+len(s.routes.live) != 0 {
		t.Errorf("refused registrations left %v", s.routes.brokers)
	}
}

func TestPackedRegistrationsAreRead(t *testing.T) {
	s := newServer(t, nil)
	body := wire.AppendRegistration(nil, &wire.RegisterBrokerBody{TopicConfigSerializeWrapper: wire.TopicConfigSerializeWrapper{DataVersion: wire.DataVersion{Counter: 3},
		TopicConfigTable: map[string]wire.TopicConfig{"P1": {TopicName: "P1", Perm: 6, ReadQueueNums: 2, WriteQueueNums: 2, TopicFilterType: "SINGLE_TAG"},
			"P2": {TopicName: "P2", Perm: 4, ReadQueueNums: 1, WriteQueueNums: 1, TopicFilterType: "SINGLE_TAG"}}}}, true, wire.Version)
	r := ask(t, s, 1, 103, string(body), "brokerName", "b", "brokerAddr", "1.1.1.1:1", "clusterName", "C", "haServerAddr", "1.1.1.1:2", "brokerId", "0",
		"compressed", "true", "bodyCrc32", fmt.Sprint(wire.RegistrationCRC(body)))
	expect(t, "packed", r, 0, "", "")
	expect(t, "route", ask(t, s, 1, 105, "", "topic", "P2"), 0, "", `"perm":4`)
}

func TestSilentAndClosedBrokersGo(t *testing.T) {
	f := &fixture{}
	s := newServer(t, f)
	register(t, s, "quick", "b1", "1.1.1.1:1", 0, 1, []string{"X1", "X2"}, "heartbeatTimeoutMillis", "10000")
	register(t, s, "slow", "b2", "1.1.1.2:1", 0, 1, []string{"X1", "X2"})
	register(t, s, "open", "b3", "1.1.1.3:1", 0, 1, []string{"X1", "X2"})
	f.now = 10_001
	s.Scan(time.UnixMilli(int64(f.now)))
	body := string(ask(t, s, 1, 106, "").Body)
	if strings.Contains(body, "b1") || !strings.Contains(body, "b2") || len(f.closed) != 1 || f.closed[0] != "quick" {
		t.Errorf("after 10 s: %s, closed %v", body, f.closed)
	}
	f.now = 100_000
	ask(t, s, "slow", 904, "", "brokerName", "b2", "brokerAddr", "1.1.1.2:1", "clusterName", "C2")
	r := ask(t, s, "open", 322, `{"counter":1,"stateVersion":0,"timestamp":5}`, "brokerName", "b3", "brokerAddr", "1.1.1.3:1", "clusterName", "C2", "brokerId", "0")
	if r.Header.(wire.QueryDataVersionResponseHeader).Changed || string(r.Body) != `{"counter":1,"stateVersion":0,"timestamp":5}` {
		t.Errorf("%+v %s", r.Header, r.Body)
	}
	f.now = 200_000
	s.Scan(time.UnixMilli(int64(f.now)))
	if body = string(ask(t, s, 1, 106, "").Body); !strings.Contains(body, "b2") || !strings.Contains(body, "b3") {
		t.Errorf("heartbeats do not count: %s", body)
	}
	s.ConnClosed("open")
	if body = string(ask(t, s, 1, 106, "").Body); strings.Contains(body, "b3") {
		t.Errorf("b3 outlives its connection: %s", body)
	}
	f.now = 220_001
	s.Scan(time.UnixMilli(int64(f.now)))
	if body = string(ask(t, s, 1, 106, "").Body); strings.Contains(body, "b2") || len(s.routes.live) != 0 {
		t.Errorf("after 120 s: %s", body)
	}
}

func TestKeyValues(t *testing.T) {
	f := &fixture{}
	s := newServer(t, f)
	expect(t, "put", ask(t, s, 1, 100, "", "namespace", "NS", "key", "k", "value", "v"), 0, "", "")
	expect(t, "no key", ask(t, s, 1, 100, "", "namespace", "NS", "value", "v"), 1, "namespace or key is null", "")
	r := ask(t, s, 1, 101, "", "namespace", "NS", "key", "k")
	if r.Code != 0 || *r.Header.(wire.GetKVConfigResponseHeader).Value != "v" {
		t.Errorf("get: %+v", r)
	}
	expect(t, "get none", ask(t, s, 1, 101, "", "namespace", "NS", "key", "x"), 22, "No config item, Namespace: NS Key: x", "")
	expect(t, "list", ask(t, s, 1, 219, "", "namespace", "NS"), 0, "", `{"table":{"k":"v"}}`)
	expect(t, "list none", ask(t, s, 1, 219, "", "namespace", "NSX"), 22, "No config item, Namespace: NSX", "")
	if string(f.kv.data) != `{"configTable":{"NS":{"k":"v"}}}` {
		t.Errorf("the file holds %s", f.kv.data)
	}
	again := newServer(t, f)
	expect(t, "after a restart", ask(t, again, 1, 219, "", "namespace", "NS"), 0, "", `{"table":{"k":"v"}}`)
	f.kv.err = errors.New("disk full")
	expect(t, "disk full", ask(t, s, 1, 100, "", "namespace", "NS", "key", "k2", "value", "v"), 1, "disk full", "")
	expect(t, "undone", ask(t, s, 1, 101, "", "namespace", "NS", "key", "k2"), 22, "No config item", "")
	f.kv.err = nil
	expect(t, "delete", ask(t, s, 1, 102, "", "namespace", "NS", "key", "k"), 0, "", "")
	expect(t, "again", ask(t, s, 1, 102, "", "namespace", "NS", "key", "k"), 0, "", "")
	expect(t, "empty", ask(t, s, 1, 219, "", "namespace", "NS"), 0, "", `{"table":{}}`)
	if string(f.kv.data) != `{"configTable":{"NS":{}}}` {
		t.Errorf("the file holds %s", f.kv.data)
	}
	huge := strings.Repeat("x", KVBytesMax/2)
	expect(t, "half", ask(t, s, 1, 100, "", "namespace", "NS", "key", "a", "value", huge), 0, "", "")
	expect(t, "full", ask(t, s, 1, 100, "", "namespace", "NS", "key", "b", "value", huge), 1, "full", "")
	f.kv.data = []byte("{")
	if _, err := New(Options{KV: &f.kv, Settings: &f.settings, Logger: slog.New(slog.DiscardHandler), Now: func() message.Millis { return 0 }}); err == nil {
		t.Error("a broken file counts as an empty one")
	}
}

func TestOrderedTopics(t *testing.T) {
	s := embeddedServer(t, nil)
	ask(t, s, 1, 100, "", "namespace", orderNamespace, "key", "T1", "value", "broker-a:4")
	if got := ask(t, s, 1, 105, "", "topic", "T1").Body; bytes.Contains(got, []byte("orderTopicConf")) {
		t.Errorf("by default: %s", got)
	}
	expect(t, "a registering broker learns them", register(t, s, "c", "bb", "1.1.1.1:1", 0, 1, []string{"X1", "X2"}), 0, "", `{"table":{"T1":"broker-a:4"}}`)
	expect(t, "switch on", ask(t, s, 1, 318, "orderMessageEnable=true\n"), 0, "", "")
	expect(t, "in the route", ask(t, s, 1, 105, "", "topic", "T1"), 0, "", `"orderTopicConf":"broker-a:4"`)
}

func TestSettings(t *testing.T) {
	f := &fixture{}
	s := newServer(t, f)
	expect(t, "show", ask(t, s, 1, 319, ""), 0, "", "enableTopicList=true\nkvConfigPath=namesrv/kvConfig.json\nlistenPort=9876\norderMessageEnable=false\n")
	for _, key := range forbiddenSettings() {
		expect(t, key, ask(t, s, 1, 318, "enableTopicList=false\n"+key+" = /x\n"), 16, "Can not update config in black list.", "")
	}
	expect(t, "untouched", ask(t, s, 1, 319, ""), 0, "", "enableTopicList=true")
	expect(t, "empty", ask(t, s, 1, 318, ""), 0, "", "")
	expect(t, "unknown", ask(t, s, 1, 318, "foo=bar\nlistenPort=1\n"), 0, "", "")
	expect(t, "a fact", ask(t, s, 1, 319, ""), 0, "", "listenPort=9876")
	expect(t, "lists off", ask(t, s, 1, 318, "enableAllTopicList = FALSE\n"), 0, "", "")
	expect(t, "206", ask(t, s, 1, 206, ""), 1, "disable", "")
	again := newServer(t, f)
	expect(t, "after a restart", ask(t, again, 1, 206, ""), 1, "disable", "")
}

func TestTopicLists(t *testing.T) {
	s := embeddedServer(t, nil)
	for code, want := range map[wire.RequestCode]string{206: `{"topicList":["Sub","T1","TBW102","Unit"]}`, 311: `{"topicList":["Unit"]}`,
		312: `{"topicList":["Sub","Unit"]}`, 313: `{"topicList":["Sub"]}`} {
		if r := ask(t, s, 1, code, ""); string(r.Body) != want {
			t.Errorf("%d: %s", code, r.Body)
		}
	}
	expect(t, "unknown cluster", ask(t, s, 1, 224, "", "cluster", "x"), 0, "", `{"topicList":[]}`)
	expect(t, "register", ask(t, s, 1, 217, `{"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":1,"writeQueueNums":1},{"brokerName":"nobody","perm":6}]}`, "topic", "R"), 0, "", "")
	if got := ask(t, s, 1, 105, "", "topic", "R").Body; !bytes.Contains(got, []byte("broker-a")) || bytes.Contains(got, []byte("nobody")) {
		t.Errorf("%s", got)
	}
	expect(t, "other cluster", ask(t, s, 1, 216, "", "topic", "R", "clusterName", "x"), 0, "", "")
	expect(t, "still there", ask(t, s, 1, 105, "", "topic", "R"), 0, "", "broker-a")
	expect(t, "own cluster", ask(t, s, 1, 216, "", "topic", "R", "clusterName", "DefaultCluster"), 0, "", "")
	expect(t, "gone", ask(t, s, 1, 105, "", "topic", "R"), 17, "No topic", "")
}

func TestZones(t *testing.T) {
	s := newServer(t, nil)
	register(t, s, "a", "near", "1.1.1.1:1", 0, 1, []string{"X1", "X2"}, "__ZONE_NAME", "z1")
	register(t, s, "b", "far", "1.1.1.2:1", 0, 1, []string{"X1", "X2"}, "__ZONE_NAME", "z2")
	both := string(ask(t, s, 1, 105, "", "topic", "X1", "__ZONE_NAME", "z1").Body)
	mine := string(ask(t, s, 1, 105, "", "topic", "X1", "__ZONE_NAME", "z1", "__ZONE_MODE", "true").Body)
	if !strings.Contains(both, "far") || strings.Contains(mine, "far") || !strings.Contains(mine, "near") {
		t.Errorf("without mode %s\nwith %s", both, mine)
	}
}

func TestEveryOtherCodeIsNotSupported(t *testing.T) {
	s := newServer(t, nil)
	for _, code := range []wire.RequestCode{10, 11, 34, 0, -1, 9999, 200050} {
		expect(t, fmt.Sprint(code), ask(t, s, 1, code, ""), 3, fmt.Sprintf(" request type %d not supported", code), "")
	}
	for _, code := range s.Codes() {
		if r := ask(t, s, 1, code, ""); r.Code == 3 {
			t.Errorf("%d is served and answers 3", code)
		}
		if r := ask(t, s, 1, code, "\xff\x00{"); r.Code == 3 {
			t.Errorf("%d is served and answers 3", code)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	s := embeddedServer(t, nil)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 60 {
				name := fmt.Sprintf("T%d-%d", w, i)
				s.TopicsChanged([]wire.TopicConfig{{TopicName: name, Perm: 6}}, wire.DataVersion{Counter: int64(i)})
				if r := ask(t, s, w, 105, "", "topic", name); r.Code != 0 {
					t.Errorf("%s is not routed", name)
				}
				register(t, s, w, fmt.Sprint("b", w), fmt.Sprintf("1.1.1.%d:1", w), 0, int64(i), []string{"X", name})
				ask(t, s, w, 100, "", "namespace", "n", "key", name, "value", "v")
				ask(t, s, w, 219, "", "namespace", "n")
				ask(t, s, w, 106, "")
				s.Scan(time.UnixMilli(0))
				s.ConnClosed(w)
			}
		}()
	}
	wg.Wait()
	if len(s.routes.brokers) != 1 {
		t.Errorf("%d brokers are left", len(s.routes.brokers))
	}
}
