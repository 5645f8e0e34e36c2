package control

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/netio"
	"peregrine/wire"
)

func TestTheTableOfServedCodesIsTrue(t *testing.T) {
	b := newBench(t)
	elsewhere := map[wire.RequestCode]bool{wire.RequestSendMessage: true, wire.RequestSendMessageV2: true, wire.RequestSendBatchMessage: true,
		wire.RequestSendReplyMessage: true, wire.RequestSendReplyMessageV2: true, wire.RequestPullMessage: true, wire.RequestLitePullMessage: true}
	served := map[wire.RequestCode]bool{}
	for _, row := range wire.SupportedCodes() {
		if row.Role == wire.RoleBroker && !elsewhere[row.Code] {
			served[row.Code] = true
			if b.processors[row.Code] == nil {
				t.Errorf("%s has no processor", row.Name)
			}
		}
	}
	for code := range b.processors {
		if !served[code] {
			t.Errorf("code %d is not in the table", code)
		}
	}
}

// Whatever arrives, an answer comes, and never code 3 for a code that is served (code 25 apart, of which only a part is).
func TestEveryCodeSurvivesNonsense(t *testing.T) {
	b := newBench(t)
	bodies := []string{"", "{", "[]", "null", "{}", `{"a":`, "\x00\xff", `{"consumerDataSet":[null,{}],"producerDataSet":[null]}`, `{"topicConfigList":[{}]}`, `{"groupConfigList":[null]}`}
	for code := range b.processors {
		for _, body := range bodies {
			for _, ext := range [][]string{nil, {"topic", "", "group", "", "consumerGroup", "", "queueId", "-1", "timestamp", "-1"}, {"queueId", "x", "topic", "T", "consumerGroup", "g"}} {
				if r := b.ask(code, body, ext...); r.Code == wire.ResponseRequestCodeNotSupported {
					t.Errorf("code %d with %q answers 3", code, body)
				}
			}
		}
	}
}

func TestMissingFieldsAreNamed(t *testing.T) {
	b := newBench(t)
	for code, field := range map[wire.RequestCode]string{14: "consumerGroup", 15: "consumerGroup", 17: "topic", 29: "topic", 30: "topic", 31: "topic", 32: "topic",
		38: "consumerGroup", 35: "clientID", 202: "topic", 203: "consumerGroup", 204: "producerGroup", 207: "groupName", 300: "topic", 351: "topic", 352: "group", 353: "group",
		200070: "clientId", 200075: "topic", 200076: "parentTopic", 200077: "parentTopic", 200078: "group", 200079: "group"} {
		b.expect(fmt.Sprint(code), b.ask(code, ""), 1, field, "")
	}
}

// What the original has no error for is an answer with its code, and a remark that names the field (the interop suite compares all).
func TestEmptyFieldsOfQueriesAreNamed(t *testing.T) {
	b := newBench(t)
	for _, q := range []struct {
		code  wire.RequestCode
		ext   []string
		want  wire.ResponseCode
		field string
	}{
		{12, []string{"topic", "", "key", "k", "maxNum", "1", "beginTimestamp", "0", "endTimestamp", "1"}, wire.ResponseQueryNotFound, "topic"},
		{12, []string{"key", "k", "maxNum", "1", "beginTimestamp", "0", "endTimestamp", "1"}, wire.ResponseQueryNotFound, "topic"},
		{12, []string{"topic", "T", "key", "", "maxNum", "1", "beginTimestamp", "0", "endTimestamp", "1"}, wire.ResponseQueryNotFound, "key"},
		{12, []string{"topic", "T", "maxNum", "1", "beginTimestamp", "0", "endTimestamp", "1"}, wire.ResponseQueryNotFound, "key"},
		{12, []string{"topic", "T", "key", "k", "beginTimestamp", "0", "endTimestamp", "1"}, wire.ResponseSystemError, "maxNum"},
		{29, []string{"topic", "", "queueId", "0", "timestamp", "0"}, wire.ResponseSuccess, "topic"},
		{29, []string{"topic", "T", "queueId", "-1", "timestamp", "0"}, wire.ResponseSuccess, "queueId"},
		{30, []string{"topic", "", "queueId", "0"}, wire.ResponseSuccess, "topic"},
		{30, []string{"topic", "T", "queueId", "-1"}, wire.ResponseSuccess, "queueId"},
		{31, []string{"topic", "", "queueId", "0"}, wire.ResponseSuccess, "topic"},
		{32, []string{"topic", "", "queueId", "0"}, wire.ResponseSuccess, "topic"},
		{32, []string{"topic", "T", "queueId", ""}, wire.ResponseSystemError, "queueId"},
		{33, []string{"topic", "T", "offset", ""}, wire.ResponseSystemError, "offset"},
	} {
		b.expect(fmt.Sprint(q.code, q.ext), b.ask(q.code, "", q.ext...), q.want, q.field, "")
	}
}

func heartbeat(group, topic, more string) string {
	return `{"clientID":"c1","producerDataSet":[{"groupName":"P"}],"consumerDataSet":[{"groupName":"` + group + `","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",` +
		`"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":"` + topic + `","subString":"A","tagsSet":["A"],"codeSet":["65"],"subVersion":3}]` + more + `}]}`
}

func TestAHeartbeatMakesEverythingItsGroupNeeds(t *testing.T) {
	b := newBench(t)
	r := b.ask(34, heartbeat("g", "T", `,"unitMode":true`))
	b.expect("heartbeat", r, 0, "", "")
	if h := r.Header.(wire.HeartbeatResponseHeader); !h.SupportHeartbeatV2 || !h.SubChange {
		t.Errorf("%+v", h)
	}
	b.expect("the own id is listed at once", b.ask(38, "", "consumerGroup", "g"), 0, "", `{"consumerIdList":["c1"]}`)
	b.expect("group", b.ask(352, "", "group", "g"), 0, "", `"groupName":"g"`)
	b.expect("retry topic", b.ask(351, "", "topic", "%RETRY%g"), 0, "",
		`{"attributes":{},"order":false,"perm":6,"readQueueNums":1,"topicFilterType":"SINGLE_TAG","topicName":"%RETRY%g","topicSysFlag":2,"writeQueueNums":1}`)
	b.expect("connection", b.ask(203, "", "consumerGroup", "g"), 0, "",
		`{"connectionSet":[{"clientAddr":"10.0.0.9:40000","clientId":"c1","language":"JAVA","version":513}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",`+
			`"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"T":{"classFilterMode":false,"codeSet":[65],`+
			`"expressionType":"TAG","subString":"A","subVersion":3,"tagsSet":["A"],"topic":"T"}}}`)
	b.expect("producer", b.ask(204, "", "producerGroup", "P"), 0, "", `{"connectionSet":[{"clientAddr":"10.0.0.9:40000","clientId":"c1","language":"JAVA","version":513}]}`)
	b.expect("all producers", b.ask(328, ""), 0, "", `{"data":{"P":[{"clientId":"c1","language":"JAVA","lastUpdateTimestamp":1700000000000,"remoteIP":"/10.0.0.9:40000","version":513}]}}`)
	b.expect("who consumes", b.ask(300, "", "topic", "T"), 0, "", `{"groupList":["g"]}`)
	b.expect("subscription", b.ask(345, "", "group", "g", "topic", "T"), 0, "", `"subscriptionData":{"classFilterMode":false`)
	b.expect("no subscription", b.ask(345, "", "group", "no", "topic", "T"), 0, "", `{"group":"no","topic":"T"}`)
	if !slices.Contains(b.told, netio.ConnRef{Slot: 1, Gen: 1}) {
		t.Error("the new member was not told to rebalance")
	}
	b.expect("unregister", b.ask(35, "", "clientID", "c1", "consumerGroup", "g", "producerGroup", "P"), 0, "", "")
	b.expect("nobody", b.ask(38, "", "consumerGroup", "g"), 1, "no consumer for this group, g", "")
	b.expect("offline", b.ask(203, "", "consumerGroup", "g"), 206, "the consumer group[g] not online", "")
	b.expect("no producer", b.ask(204, "", "producerGroup", "P"), 1, "the producer group[P] not exist", "")
	b.expect("the group stays", b.ask(352, "", "group", "g"), 0, "", `"groupName":"g"`)
}

func TestHeartbeatsOfImpossibleGroupsAreSkipped(t *testing.T) {
	b := newBench(t, "autoCreateSubscriptionGroup=false", "rejectPullConsumerEnable=true", "enableRegisterProducer=false")
	b.expect("unknown group", b.ask(34, heartbeat("g", "T", "")), 0, "", "")
	b.expect("not listed", b.ask(38, "", "consumerGroup", "g"), 1, "no consumer", "")
	b.expect("no retry topic", b.ask(351, "", "topic", "%RETRY%g"), 17, "No topic in this broker. topic: %RETRY%g", "")
	b.expect("no producers", b.ask(204, "", "producerGroup", "P"), 1, "not exist", "")
	pull := strings.ReplaceAll(heartbeat("TOOLS_CONSUMER", "T", ""), "CONSUME_PASSIVELY", "CONSUME_ACTIVELY")
	b.expect("pull consumer", b.ask(34, pull), 0, "", "")
	b.expect("rejected", b.ask(38, "", "consumerGroup", "TOOLS_CONSUMER"), 1, "no consumer", "")
	b.expect("push consumer", b.ask(34, heartbeat("TOOLS_CONSUMER", "T", "")), 0, "", "")
	b.expect("accepted", b.ask(38, "", "consumerGroup", "TOOLS_CONSUMER"), 0, "", "c1")
	b.expect("nonsense", b.ask(34, "{bad"), 1, "does not parse", "")
	b.expect("no name", b.ask(34, strings.Replace(heartbeat("g", "T", ""), `"groupName":"g"`, `"groupName":null`, 1)), 1, "groupName", "")
}

// What 5.5.0 answers when a name is missing or empty, and what it knows afterwards.
func TestHeartbeatsWithoutNames(t *testing.T) {
	b := newBench(t)
	b.expect("null", b.ask(34, "null"), 1, "the heartbeat is null", "")
	for i, entry := range []string{`{}`, `{"groupName":null}`, `null`} {
		group := fmt.Sprint("g", i)
		b.expect(entry, b.ask(34, strings.Replace(heartbeat(group, "T", ""), `{"groupName":"P"}`, entry, 1)), 1, "a producer of the heartbeat has no groupName", "")
		b.expect("its consumer", b.ask(38, "", "consumerGroup", group), 0, "", `{"consumerIdList":["c1"]}`)
	}
	b.expect("no producers", b.ask(328, ""), 0, "", `{"data":{}}`)
	b.expect("empty consumer", b.ask(34, strings.Replace(heartbeat("e", "T", ""), `"consumerDataSet":[`, `"consumerDataSet":[{"groupName":""},`, 1)), 0, "", "")
	b.expect("the entry beside it", b.ask(38, "", "consumerGroup", "e"), 0, "", `{"consumerIdList":["c1"]}`)
	b.expect("its producer", b.ask(204, "", "producerGroup", "P"), 0, "", `"clientId":"c1"`)
	b.expect("not listed", b.ask(38, "", "consumerGroup", ""), 1, "no consumer for this group, ", "")
	b.expect("no group", b.ask(352, "", "group", ""), 26, "No group", "")
	b.expect("no retry topic", b.ask(351, "", "topic", "%RETRY%"), 17, "No topic", "")
	b.expect("empty producer", b.ask(34, strings.Replace(heartbeat("e", "T", ""), `"groupName":"P"`, `"groupName":""`, 1)), 0, "", "")
	b.expect("listed", b.ask(204, "", "producerGroup", ""), 0, "", `"clientId":"c1"`)
}

func TestRetryTopicsFollowTheGroupsSettings(t *testing.T) {
	b := newBench(t)
	b.expect("five queues", b.ask(200, `{"groupName":"g5","retryQueueNums":5}`), 0, "", "")
	b.expect("no queue", b.ask(200, `{"groupName":"g0","retryQueueNums":0}`), 0, "", "")
	b.expect("ordered topic", b.ask(17, "", "topic", "O",
		"defaultTopic", "TBW102", "readQueueNums", "4", "writeQueueNums", "4", "perm", "6", "topicFilterType", "SINGLE_TAG", "order", "true"), 0, "", "")
	b.ask(34, heartbeat("g5", "O", ""))
	b.ask(34, heartbeat("g0", "T", ""))
	b.expect("five", b.ask(351, "", "topic", "%RETRY%g5"), 0, "", `"order":true,"perm":6,"readQueueNums":5`)
	b.expect("none", b.ask(351, "", "topic", "%RETRY%g0"), 17, "No topic", "")
	b.expect("but a member", b.ask(38, "", "consumerGroup", "g0"), 0, "", "c1")
}

// The answers of 5.5.0 to the same requests.
func TestOffsetsAreCommittedAndAskedFor(t *testing.T) {
	b := newBench(t)
	b.ask(200, `{"groupName":"g"}`)
	b.ask(17, "", "topic", "T", "defaultTopic", "TBW102", "readQueueNums", "4", "writeQueueNums", "4", "perm", "6", "topicFilterType", "SINGLE_TAG")
	commit := func(group, topic string, more ...string) wire.Reply {
		return b.ask(15, "", append([]string{"consumerGroup", group, "topic", topic}, more...)...)
	}
	b.expect("commit", commit("g", "T", "queueId", "0", "commitOffset", "5"), 0, "", "")
	b.expect("no group", commit("nog", "T", "queueId", "0", "commitOffset", "5"), 26, "Group nog not exist!", "")
	b.expect("no topic", commit("g", "nope", "queueId", "0", "commitOffset", "5"), 17, "Topic nope not exist!", "")
	b.expect("no queue", commit("g", "T", "commitOffset", "5"), 29, "QueueId is null, topic is T", "")
	b.expect("no offset", commit("g", "T", "queueId", "0"), 29, "Offset is null, topic is T", "")
	b.expect("a queue beyond", commit("g", "T", "queueId", "99", "commitOffset", "5"), 0, "", "")
	b.expect("far beyond", commit("g", "T", "queueId", "2000000000", "commitOffset", "5"), 29, "queue id out of range", "")
	query := func(queue string, more ...string) wire.Reply {
		return b.ask(14, "", append([]string{"consumerGroup", "g", "topic", "T", "queueId", queue}, more...)...)
	}
	if r := query("0"); r.Code != 0 || r.Header.(wire.OffsetResponseHeader).Offset != 5 {
		t.Errorf("%+v", r)
	}
	b.expect("down", commit("g", "T", "queueId", "0", "commitOffset", "2"), 0, "", "")
	if r := query("0"); r.Header.(wire.OffsetResponseHeader).Offset != 2 {
		t.Errorf("%+v", r)
	}
	b.expect("negative", commit("g", "T", "queueId", "0", "commitOffset", "-5"), 0, "", "")
	b.expect("counts as none", query("0"), 22, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first", "")
	b.expect("empty queue", query("1"), 22, "Not found, V3_0_6_SNAPSHOT", "")
	b.send("T", 1, "x")
	if r := query("1"); r.Code != 0 || r.Header.(wire.OffsetResponseHeader).Offset != 0 {
		t.Errorf("a young queue: %+v", r)
	}
	b.expect("not to zero", query("1", "setZeroIfNotFound", "false"), 22, "Not found, do not set to zero, maybe this group boot first", "")
	b.deps.MemoryWindow = func() int64 { return 10 }
	b.processors = Processors(b.deps)
	b.send("T", 2, strings.Repeat("x", 1000))
	b.expect("begins too far back", query("1"), 22, "Not found", "")
	b.expect("all", b.ask(43, ""), 0, "", `"T@g":{"0":-5,"99":5}`)
	b.expect("topics", b.ask(343, "", "group", "g"), 0, "", `{"brokerAddr":"127.0.0.1:10911","topicList":["T"]}`)
}

// Why a new group begins where it begins stands in the log (case C01), where that is asked for.
func TestTheLogSaysWhereANewGroupBegins(t *testing.T) {
	b := newBench(t)
	b.ask(200, `{"groupName":"g"}`)
	b.send("T", 0, "x")
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"queueId", "0"}, `msg="a group without an offset begins at offset 0, whatever its client asked for" because="the queue still begins at 0`},
		{[]string{"queueId", "0", "setZeroIfNotFound", "false"}, `begins where its client decides" because="the client asked for that"`},
		{[]string{"queueId", "1"}, `begins where its client decides" because="the queue is empty`},
	} {
		for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
			var log strings.Builder
			b.deps.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
			b.processors = Processors(b.deps)
			b.ask(14, "", append([]string{"consumerGroup", "g", "topic", "T"}, c.fields...)...)
			if got := log.String(); level == slog.LevelInfo && got != "" || level == slog.LevelDebug && (!strings.Contains(got, c.want) || !strings.Contains(got, "group=g topic=T queue=")) {
				t.Errorf("%v at %v: %q", c.fields, level, got)
			}
		}
	}
}

func TestQueueBoundsAndSearchByTime(t *testing.T) {
	b := newBench(t)
	begin := b.clock.Load()
	offsetOf := func(code wire.RequestCode, more ...string) int64 {
		t.Helper()
		r := b.ask(code, "", append([]string{"topic", "T"}, more...)...)
		if r.Code != 0 {
			t.Fatalf("%d: %+v", code, r)
		}
		return r.Header.(wire.OffsetResponseHeader).Offset
	}
	for _, queue := range []string{"0", "99", "-1"} {
		if got := []int64{offsetOf(30, "queueId", queue), offsetOf(31, "queueId", queue), offsetOf(29, "queueId", queue, "timestamp", "0")}; !slices.Equal(got, []int64{0, 0, 0}) {
			t.Errorf("queue %s without messages: %v", queue, got)
		}
		if r := b.ask(32, "", "topic", "T", "queueId", queue); r.Header.(wire.GetEarliestMsgStoretimeResponseHeader).Timestamp != -1 {
			t.Errorf("queue %s: %+v", queue, r)
		}
	}
	// Store times 0, 10, 10, 10, 20, 30, …, 990 after the begin; more messages than one look at the queue takes.
	times := []int64{0, 10, 10, 10}
	for i := int64(20); i < 1000; i += 10 {
		times = append(times, i)
	}
	for _, at := range times {
		b.clock.Store(begin + at)
		b.send("T", 0, "x")
	}
	n := int64(len(times))
	if lowest, highest := offsetOf(31, "queueId", "0"), offsetOf(30, "queueId", "0", "committed", "true"); lowest != 0 || highest != n {
		t.Errorf("bounds %d to %d", lowest, highest)
	}
	if r := b.ask(32, "", "topic", "T", "queueId", "0"); r.Header.(wire.GetEarliestMsgStoretimeResponseHeader).Timestamp != begin {
		t.Errorf("%+v", r)
	}
	for at := int64(-5); at < 1005; at++ {
		lower, upper := n, int64(0)
		for i, stored := range times {
			if stored >= at && int64(i) < lower {
				lower = int64(i)
			}
			if stored <= at {
				upper = int64(i)
			}
		}
		stamp := strconv.FormatInt(begin+at, 10)
		if got := offsetOf(29, "queueId", "0", "timestamp", stamp); got != lower {
			t.Errorf("at %d: %d, want %d", at, got, lower)
		}
		if got := offsetOf(29, "queueId", "0", "timestamp", stamp, "boundaryType", "upper"); got != upper {
			t.Errorf("at %d, upper: %d, want %d", at, got, upper)
		}
	}
	b.ask(17, "", "topic", "T", "defaultTopic", "TBW102", "readQueueNums", "2", "writeQueueNums", "1", "perm", "6", "topicFilterType", "SINGLE_TAG")
	b.expect("stats", b.ask(202, "", "topic", "T"), 0, "", fmt.Sprintf(
		`{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":%d,"maxOffset":%d,"minOffset":0},`+
			`{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.0}`, begin+990, n))
	b.expect("no stats", b.ask(202, "", "topic", "nope"), 17, "topic[nope] not exist", "")
}

func TestTopicsByAdministrators(t *testing.T) {
	b := newBench(t)
	update := func(topic string, more ...string) wire.Reply {
		return b.ask(17, "", append([]string{"topic", topic, "defaultTopic", "TBW102", "readQueueNums", "4", "writeQueueNums", "4", "perm", "6", "topicSysFlag", "0", "order", "false"}, more...)...)
	}
	b.expect("create", update("T", "topicFilterType", "SINGLE_TAG"), 0, "", "")
	b.expect("filter type", update("T", "topicFilterType", "FOO"), 1, "topicFilterType = [FOO] value invalid", "")
	b.expect("system", update("TBW102", "topicFilterType", "SINGLE_TAG"), 29, "The topic[TBW102] is conflict with system topic.", "")
	b.expect("attributes", update("T", "topicFilterType", "SINGLE_TAG", "attributes", "+message.type=FIFO"), 0, "", "")
	b.expect("wrong list", update("T", "topicFilterType", "SINGLE_TAG", "attributes", "message.type=FIFO"), 1, "add/alter attribute format is wrong: message.type", "")
	b.expect("config", b.ask(351, "", "topic", "T"), 0, "", `"attributes":{"message.type":"FIFO"}`)
	b.expect("list", b.ask(18, `{"topicConfigList":[{"topicName":"L1"},{"topicName":"L2","attributes":{"+message.type":"DELAY"},"perm":4}]}`), 0, "", "")
	b.expect("L1", b.ask(351, "", "topic", "L1"), 0, "", `"perm":6,"readQueueNums":16`)
	b.expect("L2", b.ask(351, "", "topic", "L2"), 0, "", `"attributes":{"message.type":"DELAY"},"order":false,"perm":4`)
	b.expect("bad list", b.ask(18, `{"topicConfigList":[{"topicName":"L3"},{"topicName":"L 4"}]}`), 29, "The specified topic: L 4, contains illegal characters", "")
	b.expect("none of it", b.ask(351, "", "topic", "L3"), 17, "No topic", "")

	r := b.ask(21, "")
	var all wire.TopicConfigSerializeWrapper
	must(t, wire.DecodeBody(r.Body, &all))
	total := int(*r.Header.(wire.GetAllTopicConfigResponseHeader).TotalTopicNum)
	if len(all.TopicConfigTable) != total || all.TopicConfigTable["L2"].Perm != 4 || all.DataVersion.Counter != 3 {
		t.Errorf("%d of %d topics at %+v", len(all.TopicConfigTable), total, all.DataVersion)
	}
	// As mqadmin pages: the version of the first answer goes with the next requests.
	paged, version := map[string]bool{}, ""
	for seq := 0; seq < total; seq += 5 {
		r := b.ask(21, "", "topicSeq", fmt.Sprint(seq), "maxTopicNum", "5", "dataVersion", version)
		var page wire.TopicConfigSerializeWrapper
		must(t, wire.DecodeBody(r.Body, &page))
		for name := range page.TopicConfigTable {
			paged[name] = true
		}
		version = string(wire.EncodeBody(page.DataVersion))
	}
	if len(paged) != total {
		t.Errorf("the pages have %d of %d topics", len(paged), total)
	}
	r = b.ask(21, "", "topicSeq", "5", "maxTopicNum", "2", "dataVersion", `{"counter":1,"timestamp":1}`)
	first := b.ask(21, "", "topicSeq", "0", "maxTopicNum", "2", "dataVersion", "")
	if string(r.Body) != string(first.Body) {
		t.Error("a page of an old table is not begun anew")
	}

	b.ask(200, `{"groupName":"g"}`)
	b.ask(15, "", "consumerGroup", "g", "topic", "T", "queueId", "0", "commitOffset", "5")
	b.send("T", 0, "old")
	b.send("Unknown", 0, "without a topic")
	b.ask(17, "", "topic", "%RETRY%g+T", "defaultTopic", "TBW102", "readQueueNums", "1", "writeQueueNums", "1", "perm", "6", "topicFilterType", "SINGLE_TAG")
	b.expect("delete", b.ask(215, "", "topic", "T"), 0, "", "")
	if b.deps.Store.LookupQueue([]byte("T"), 0) != nil {
		t.Error("the deleted topic has a queue")
	}
	b.expect("its retry topic", b.ask(351, "", "topic", "%RETRY%g+T"), 17, "No topic", "")
	b.send("BenchmarkTest", 0, "a system topic")
	b.expect("clean unused topics", b.ask(316, ""), 0, "", "")
	if got := strings.Join(b.deps.Store.Topics(), " "); got != "BenchmarkTest" {
		t.Errorf("topics with queues: %s", got)
	}
	b.expect("clean expired queues", b.ask(306, ""), 0, "", "")
	b.expect("delete expired files", b.ask(329, ""), 0, "", "")
	b.expect("gone", b.ask(351, "", "topic", "T"), 17, "No topic", "")
	b.expect("offsets gone", b.ask(343, "", "group", "g"), 0, "", `"topicList":[]`)
	b.expect("unknown", b.ask(215, "", "topic", "nope"), 0, "", "")
	b.expect("blank", b.ask(215, "", "topic", " "), 29, "The specified topic is blank.", "")
	b.expect("absent", b.ask(215, ""), 29, "The specified topic is blank.", "")
	b.expect("system topics", b.ask(305, ""), 0, "", `{"topicList":["BenchmarkTest","CHECKPOINT_TOPIC","DefaultCluster"`)
}

func TestGroupsByAdministrators(t *testing.T) {
	b := newBench(t)
	b.expect("create", b.ask(200, `{"groupName":"g","retryMaxTimes":3,"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2}}}`), 0, "", "")
	b.expect("config", b.ask(352, "", "group", "g"), 0, "",
		`"groupRetryPolicy":{"exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2},"type":"EXPONENTIAL"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,`)
	b.expect("no body", b.ask(200, ""), 0, "", "")
	b.expect("blank", b.ask(200, "{}"), 29, "The specified group is blank.", "")
	b.expect("list", b.ask(225, `{"groupConfigList":[{"groupName":"l1"},{"groupName":"l2"}]}`), 0, "", "")
	b.expect("made by asking", b.ask(352, "", "group", "new"), 0, "", `"groupName":"new"`)
	b.expect("not made", b.ask(352, "", "group", "b ad"), 26, "No group in this broker", "")
	b.expect("forbid", b.ask(353, "", "group", "g", "topic", "T", "readable", "false"), 0, "", `{"group":"g","readable":false,"topic":"T"}`)
	b.expect("forbidden", b.ask(353, "", "group", "g", "topic", "T"), 0, "", `"readable":false`)
	r := b.ask(201, "")
	var all wire.SubscriptionGroupWrapper
	must(t, wire.DecodeBody(r.Body, &all))
	if total := int(*r.Header.(wire.GetAllSubscriptionGroupResponseHeader).TotalGroupNum); total != 12 || len(all.SubscriptionGroupTable) != total || all.ForbiddenTable["g"]["T"] != 4 {
		t.Errorf("%d groups, forbidden %v", total, all.ForbiddenTable)
	}
	b.ask(17, "", "topic", "T", "defaultTopic", "TBW102", "readQueueNums", "4", "writeQueueNums", "4", "perm", "6", "topicFilterType", "SINGLE_TAG")
	b.ask(15, "", "consumerGroup", "g", "topic", "T", "queueId", "0", "commitOffset", "5")
	b.deps.Pulled.Commit([]byte("g"), []byte("T"), 0, 9)
	b.expect("delete, keep offsets", b.ask(207, "", "groupName", "g"), 0, "", "")
	if _, kept := b.deps.Pulled.Query([]byte("g"), []byte("T"), 0); !kept {
		t.Error("where its pulls begin is forgotten")
	}
	b.expect("kept", b.ask(343, "", "group", "g"), 0, "", `"topicList":["T"]`)
	b.expect("offsets too", b.ask(207, "", "groupName", "g", "cleanOffset", "true"), 0, "", "")
	if _, kept := b.deps.Pulled.Query([]byte("g"), []byte("T"), 0); kept {
		t.Error("where its pulls begin is kept")
	}
	b.expect("gone", b.ask(343, "", "group", "g"), 0, "", `"topicList":[]`)
	b.expect("unknown", b.ask(207, "", "groupName", "nog"), 0, "", "")
}

func TestClientConfigChecks(t *testing.T) {
	b := newBench(t)
	b.expect("tags", b.ask(46, `{"clientId":"c","group":"g","subscriptionData":{"topic":"T","subString":"A"}}`), 0, "", "")
	b.expect("SQL", b.ask(46, `{"subscriptionData":{"topic":"T","subString":"a > 1","expressionType":"SQL92"}}`), 1, "The broker does not support consumer to filter message by SQL92", "")
	b.expect("nothing", b.ask(46, ""), 0, "", "")
}

func TestSettingsOverTheWire(t *testing.T) {
	b := newBench(t)
	// Case X01.
	for _, key := range []string{"rocketmqHome", "brokerConfigPath", "configBlackList"} {
		b.expect(key, b.ask(25, "maxMessageSize=1\n"+key+"=/tmp/$(x)\n"), 16, "Can not update config in black list.", "")
	}
	b.expect("nothing", b.ask(25, "# remark\n\n"), 0, "", "")
	before := *b.deps.Config.Get()
	for body, remark := range map[string]string{
		"maxMessageSize=0":                        "nothing was changed: maxMessageSize=0: expected a whole number",
		"maxMessageSize=much":                     "nothing was changed: maxMessageSize=much: expected a whole number",
		"deleteWhen=25":                           "nothing was changed: deleteWhen=25: expected hours",
		"traceOn=false\ndeleteWhen=25":            "nothing was changed: deleteWhen=25: expected hours",
		"traceOn=false\nlistenPort=1":             "nothing was changed: listenPort: cannot be changed at run time",
		"traceOn=false\nmessageIndexEnable=false": "nothing was changed: messageIndexEnable: cannot be changed at run time",
		"waitTimeMillsInSendQueue=500":            "nothing was changed: waitTimeMillsInSendQueue: has no effect yet",
		"sendMessageThreadPoolNums=16":            "nothing was changed: sendMessageThreadPoolNums: has no effect here: there are no thread pools",
		"traceOff=true":                           "nothing was changed: traceOff: no such key; did you mean traceOn?",
		"traceOn=\\u12":                           "line 1: not a line of a properties file",
	} {
		b.expect(body, b.ask(25, body), wire.ResponseInvalidParameter, remark, "")
	}
	if now := *b.deps.Config.Get(); now != before || b.deps.Config.Changes() != 0 {
		t.Error("a refused change changed something")
	}
	b.expect("in memory only", b.ask(25, "maxMessageSize=5000\ntraceOn = false\n"), 0, "kept in memory only until the next start", "")
	if now := b.deps.Config.Get(); now.MaxMessageSize != 5000 || now.TraceOn || before.MaxMessageSize == 5000 {
		t.Error("the change is not in effect, or the old configuration was written to")
	}
	r := b.ask(26, "")
	b.expect("the change", r, 0, "", "\nmaxMessageSize=5000\n")
	b.expect("get", r, 0, "", "\nbrokerName=broker-a\n")
	lines := strings.Split(strings.TrimSuffix(string(r.Body), "\n"), "\n")
	if !slices.IsSorted(lines) || len(lines) < 100 {
		t.Errorf("%d lines", len(lines))
	}
	var version wire.DataVersion
	must(t, json.Unmarshal([]byte(r.Header.(wire.GetBrokerConfigResponseHeader).Version), &version))
	if version.Counter != 1 {
		t.Errorf("after one change: %+v", version)
	}
}

// What is changed at run time is in broker.conf before it is in effect, and what else stands there stays.
func TestSettingsAreWrittenIntoTheFile(t *testing.T) {
	b := newBench(t)
	b.deps.ConfigFile = b.deps.Config.Get().StorePathRootDir + "/broker.conf"
	b.processors = Processors(b.deps)
	must(t, sysio.AtomicWriteFile(b.deps.FS, b.deps.ConfigFile, []byte("# ours\r\nfileReservedTime = 48\r\nmine=1"), false))
	b.expect("change", b.ask(25, "fileReservedTime=50\ndeleteWhen=05\n"), 0, "", "")
	text, err := sysio.ReadFile(b.deps.FS, b.deps.ConfigFile)
	must(t, err)
	if want := "# ours\r\nfileReservedTime=50\r\nmine=1\r\ndeleteWhen=05\r\n"; string(text) != want {
		t.Errorf("broker.conf is %q, want %q", text, want)
	}
	// A crash of somebody who writes the file in place left its backup only: that is what is changed.
	must(t, b.deps.FS.Rename(b.deps.ConfigFile, b.deps.ConfigFile+".bak"))
	b.expect("change", b.ask(25, "deleteWhen=06\n"), 0, "", "")
	text, err = sysio.ReadFile(b.deps.FS, b.deps.ConfigFile)
	must(t, err)
	if want := "# ours\r\nfileReservedTime=50\r\nmine=1\r\ndeleteWhen=06\r\n"; string(text) != want {
		t.Errorf("broker.conf is %q, want %q", text, want)
	}
	b.deps.ConfigFile += "/nowhere"
	b.processors = Processors(b.deps)
	b.expect("a file that cannot be written", b.ask(25, "fileReservedTime=60"), wire.ResponseSystemError, "nothing was changed: broker.conf: ", "")
	if got := b.deps.Config.Get().FileReservedTime; got != 50 {
		t.Errorf("fileReservedTime is %d though it could not be saved", got)
	}
}

func TestRuntimeInfoTellsTheTruth(t *testing.T) {
	b := newBench(t)
	begin := b.now()
	b.deps.Rates.Sample(begin)
	for i := range 20 {
		b.send("T", 0, "x")
		b.clock.Add(1000)
		b.counters.Puts++
		b.counters.PutBytes += 100
		b.counters.Gets += 2
		b.counters.GetsFound++
		b.counters.UserGets++
		if i%2 == 0 {
			b.counters.UserPuts++ // every second one is in a system topic
		}
		if i < 19 {
			b.deps.Rates.Sample(b.now())
		}
	}
	r := b.ask(28, "")
	var body wire.KVTable
	must(t, wire.DecodeBody(r.Body, &body))
	for key, want := range map[string]string{
		"putTps": "1.0 1.0 1.0", "getTransferredTps": "2.0 2.0 2.0", "getFoundTps": "1.0 1.0 1.0", "getMissTps": "0.0 0.0 0.0", "getTotalTps": "1.0 1.0 1.0",
		"runtime": "[ 0 days, 0 hours, 0 minutes, 20 seconds ]", "bootTimestamp": "1700000000000", "putMessageTimesTotal": "20", "putMessageAverageSize": "100.0",
		"msgPutTotalTodayNow": "10", "msgGetTotalTodayNow": "20", "msgPutTotalTodayMorning": "0", "brokerVersionDesc": "V5_5_0", "brokerActive": "true",
		"earliestMessageTimeStamp": "1700000000000", "commitLogMinOffset": "0", "commitLogMaxOffset": fmt.Sprint(b.deps.Store.Wrote()), "dispatchBehindBytes": "0",
		"sendThreadPoolQueueSize": "0", "timerReadBehind": "0",
	} {
		if body.Table[key] != want {
			t.Errorf("%s is %q, want %q", key, body.Table[key], want)
		}
	}
	for key, value := range body.Table {
		if value == "" || strings.Contains(value, "NaN") || strings.Contains(value, "-1") && key != "earliestMessageTimeStamp" {
			t.Errorf("%s is %q", key, value)
		}
	}
	if ratio, err := strconv.ParseFloat(body.Table["commitLogDiskRatio"], 64); err != nil || ratio < 0 || ratio > 1 {
		t.Errorf("commitLogDiskRatio is %q", body.Table["commitLogDiskRatio"])
	}
	if empty := newBench(t); !strings.Contains(string(empty.ask(28, "").Body), `"earliestMessageTimeStamp":"-1"`) {
		t.Error("an empty log has an earliest message")
	}
}

func TestRatesLookAtTheirWindow(t *testing.T) {
	var c Counters
	r := NewRates(func() Counters { return c })
	start := message.Millis(time.Date(2024, 3, 1, 12, 0, 0, 0, time.Local).UnixMilli())
	// 1,000 s: 10 a second, and 100 a second in the last 30 s.
	for i := range message.Millis(1001) {
		r.Sample(start + i*1000)
		r.Sample(start + i*1000 + 1) // too soon, dropped
		c.Puts += 10
		if i >= 970 {
			c.Puts += 90
		}
	}
	got := r.triple(start+1000*1000, &Counters{Puts: c.Puts - 100}, func(c *Counters) uint64 { return c.Puts })
	if got != "100.0 55.0 14.5" {
		t.Errorf("rates %s", got)
	}
	if len(r.samples) != samplesMax {
		t.Errorf("%d samples", len(r.samples))
	}
}

func TestCountersOfTheDay(t *testing.T) {
	var c Counters
	r := NewRates(func() Counters { return c })
	noon := message.Millis(time.Date(2024, 3, 1, 12, 0, 0, 0, time.Local).UnixMilli())
	const day = 24 * 3600 * 1000
	r.Sample(noon)
	c.Puts = 10
	r.Sample(noon + day)
	c.Puts = 25
	r.Sample(noon + day + 2000)
	if yesterday, today := r.mornings(); yesterday.Puts != 0 || today.Puts != 10 {
		t.Errorf("%d, %d", yesterday.Puts, today.Puts)
	}
	r.Sample(noon + 2*day)
	if yesterday, today := r.mornings(); yesterday.Puts != 10 || today.Puts != 25 {
		t.Errorf("%d, %d", yesterday.Puts, today.Puts)
	}
}

func TestSizesReadAsTheOriginalWritesThem(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1843: "1.8 KiB", 252 << 30: "252.0 GiB"} {
		if got := byteText(n); got != want {
			t.Errorf("%v is %q", n, got)
		}
	}
}
