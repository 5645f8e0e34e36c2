package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"peregrine/broker/stats"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// withQueue makes topic T of two queues with three messages in queue 0, and a group that consumed two of them.
func withQueue(t *testing.T, settings ...string) *bench {
	b := newBench(t, settings...)
	b.ask(17, "", "topic", "T", "defaultTopic", "TBW102", "readQueueNums", "2", "writeQueueNums", "2", "perm", "6", "topicFilterType", "SINGLE_TAG")
	b.ask(200, `{"groupName":"g"}`)
	for i := range 3 {
		b.send("T", 0, fmt.Sprint("body ", i))
		b.clock.Add(1000)
	}
	b.expect("commit", b.ask(15, "", "consumerGroup", "g", "topic", "T", "queueId", "0", "commitOffset", "2"), 0, "", "")
	return b
}

const mq0, mq1 = `{"brokerName":"broker-a","queueId":0,"topic":"T"}`, `{"brokerName":"broker-a","queueId":1,"topic":"T"}`

func TestConsumeStats(t *testing.T) {
	b := withQueue(t)
	b.deps.Pulled.Commit([]byte("g"), []byte("T"), 0, 3)
	second := int64(b.deps.Now()) - 2000
	want := fmt.Sprintf(`{"consumeTps":0.0,"offsetTable":{%s:{"brokerOffset":3,"consumerOffset":2,"lastTimestamp":%d,"pullOffset":3},`+
		`%s:{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}`, mq0, second, mq1)
	for name, ext := range map[string][]string{"all topics": nil, "one topic": {"topic", "T"}, "a list": {"topicList", "T;U"}} {
		if r := b.ask(208, "", append([]string{"consumerGroup", "g"}, ext...)...); string(r.Body) != want {
			t.Errorf("%s: %s\nwant %s", name, r.Body, want)
		}
	}
	if r := b.ask(208, "", "consumerGroup", "nobody"); string(r.Body) != `{"consumeTps":0.0,"offsetTable":{}}` {
		t.Errorf("an unknown group: %s", r.Body)
	}
	b.expect("no group", b.ask(208, ""), wire.ResponseSystemError, "consumerGroup", "")

	// The original leaves pullOffset at 0 here and sums it up nevertheless.
	r := b.ask(317, "", "isOrder", "false")
	part := strings.Replace(want, `"pullOffset":3`, `"pullOffset":0`, 1)
	if !strings.Contains(string(r.Body), `{"g":[`+part+`]}`) || !strings.HasSuffix(string(r.Body), `"totalDiff":1,"totalInflightDiff":-2}`) ||
		!strings.Contains(string(r.Body), `{"TOOLS_CONSUMER":[]}`) {
		t.Errorf("%s", r.Body)
	}
	if r := b.ask(317, "", "isOrder", "true"); !strings.Contains(string(r.Body), `{"g":[]}`) {
		t.Errorf("only ordered topics: %s", r.Body)
	}

	b.askFrom(7, 34, heartbeat("g", "U", "")) // online, for another topic
	if r := b.ask(208, "", "consumerGroup", "g"); string(r.Body) != `{"consumeTps":0.0,"offsetTable":{}}` {
		t.Errorf("a topic that is not subscribed: %s", r.Body)
	}

	b.deps.Stats.Add(stats.GroupGetNums, []byte("T@g"), 60)
	b.deps.Stats.Add(stats.TopicPutNums, []byte("T"), 30)
	b.clock.Add(10_000)
	b.deps.Stats.Sample(b.now())
	if r := b.ask(202, "", "topic", "T"); !strings.HasSuffix(string(r.Body), `"topicPutTps":3.0}`) {
		t.Errorf("%s", r.Body)
	}
	b.expect("stats", b.ask(315, "", "statsName", "GROUP_GET_NUMS", "statsKey", "T@g"), 0, "", `"statsMinute":{"avgpt":60.0,"sum":60,"tps":6.0}`)
	b.expect("no such key", b.ask(315, "", "statsName", "TOPIC_PUT_NUMS", "statsKey", "U"), 1, "The stats <TOPIC_PUT_NUMS> <U> not exist", "")
	b.expect("no such kind", b.ask(315, "", "statsName", "X", "statsKey", "U"), 1, "The stats <X> <U> not exist", "")
	b.ask(215, "", "topic", "T")
	b.expect("a deleted topic", b.ask(315, "", "statsName", "GROUP_GET_NUMS", "statsKey", "T@g"), 1, "not exist", "")
}

func TestConsumeTimeSpan(t *testing.T) {
	b := withQueue(t)
	now := int64(b.deps.Now())
	b.expect("span", b.ask(303, "", "topic", "T", "group", "g"), 0, "", fmt.Sprintf(
		`{"consumeTimeSpanSet":[{"consumeTimeStamp":%d,"delayTime":1000,"maxTimeStamp":%d,"messageQueue":%s,"minTimeStamp":%d},`, now-2000, now-1000, mq0, now-3000))
	b.expect("no topic", b.ask(303, "", "topic", "nope", "group", "g"), 17, "topic[nope] not exist", "")
}

func TestResetOffset(t *testing.T) {
	b := withQueue(t)
	begin := int64(b.deps.Now()) - 3000
	committed := func(id message.QueueID) message.QueueOffset {
		o, _ := b.deps.Offsets.Query([]byte("g"), []byte("T"), id)
		return o
	}
	reset := func(ext ...string) wire.Reply {
		return b.ask(222, "", append([]string{"topic", "T", "group", "g", "isForce", "true"}, ext...)...)
	}
	r := reset("timestamp", fmt.Sprint(begin+1000))
	if string(r.Body) != `{"offsetTable":{`+mq0+`:1,`+mq1+`:0}}` || committed(0) != 1 || !slices.Equal(slices.Sorted(slices.Values(b.woken)), []message.QueueID{0, 1}) {
		t.Errorf("by time: %s, committed %d, woken %v", r.Body, committed(0), b.woken)
	}
	b.expect("a commit of who does not know yet", b.ask(15, "", "consumerGroup", "g", "topic", "T", "queueId", "0", "commitOffset", "3"), 0, "Offset has been previously reset", "")
	if committed(0) != 1 {
		t.Errorf("committed %d", committed(0))
	}
	if o, ok := b.deps.Offsets.TakeReset([]byte("g"), []byte("T"), 0); !ok || o != 1 {
		t.Errorf("the pull gets %d, %v", o, ok)
	}
	if _, ok := b.deps.Offsets.TakeReset([]byte("g"), []byte("T"), 0); ok {
		t.Error("handed out twice")
	}
	b.expect("a commit after it", b.ask(15, "", "consumerGroup", "g", "topic", "T", "queueId", "0", "commitOffset", "3"), 0, "", "")
	for name, c := range map[string]struct {
		ext  []string
		want string
	}{
		"to the end":             {[]string{"timestamp", "-1", "queueId", "-1", "offset", "-1"}, `{"offsetTable":{` + mq0 + `:3,` + mq1 + `:0}}`},
		"to an offset":           {[]string{"timestamp", "-1", "queueId", "0", "offset", "2"}, `{"offsetTable":{` + mq0 + `:2}}`},
		"one queue by time":      {[]string{"timestamp", fmt.Sprint(begin), "queueId", "0"}, `{"offsetTable":{` + mq0 + `:0}}`},
		"behind all":             {[]string{"timestamp", fmt.Sprint(begin + 99_000), "queueId", "0"}, `{"offsetTable":{` + mq0 + `:3}}`},
		"one behind the maximum": {[]string{"timestamp", "0", "queueId", "0", "offset", "4"}, `{"offsetTable":{` + mq0 + `:4}}`},
	} {
		if r := reset(c.ext...); string(r.Body) != c.want {
			t.Errorf("%s: %d %s %s", name, r.Code, r.Remark, r.Body)
		}
	}
	b.expect("out of range", reset("timestamp", "0", "queueId", "0", "offset", "5"), 1, "Target offset 5 not in consume queue range [0-3]", "")
	b.expect("no topic", b.ask(222, "", "topic", "nope", "group", "g", "timestamp", "0"), 17, "Topic nope does not exist", "")
	b.expect("no group", b.ask(222, "", "topic", "T", "group", "nope", "timestamp", "0"), 26, "Group nope does not exist", "")
	b.expect("no time", b.ask(222, "", "topic", "T", "group", "g"), 1, "timestamp", "")
}

// Without useServerSideResetOffset the members are told, and only forced resets go forward.
func TestResetOffsetByClients(t *testing.T) {
	b := withQueue(t, "useServerSideResetOffset=false")
	end := fmt.Sprint(int64(b.deps.Now()) + 99_000)
	b.expect("a queue without an offset", b.ask(222, "", "topic", "T", "group", "g", "timestamp", end), 1, "not exist", "")
	b.ask(15, "", "consumerGroup", "g", "topic", "T", "queueId", "1", "commitOffset", "0")
	b.expect("nobody there", b.ask(222, "", "topic", "T", "group", "g", "timestamp", end), 206, "not online", "")
	b.askFrom(7, 34, heartbeat("g", "T", ""))
	var bodies []string
	b.client = func(_ netio.ConnRef, request *wire.Command) *wire.Command {
		if wire.RequestCode(request.Code) != wire.RequestResetConsumerClientOffset || !request.IsOneway() {
			t.Errorf("%+v", request)
		}
		bodies = append(bodies, string(request.Body))
		return nil
	}
	back, forward := `{"offsetTable":{`+mq0+`:2,`+mq1+`:0}}`, `{"offsetTable":{`+mq0+`:3,`+mq1+`:0}}`
	b.expect("not forced", b.ask(222, "", "topic", "T", "group", "g", "timestamp", end, "isForce", "false"), 0, "", back)
	b.expect("forced", b.ask(222, "", "topic", "T", "group", "g", "timestamp", end, "isForce", "true"), 0, "", forward)
	if !slices.Equal(bodies, []string{back, forward}) {
		t.Error(bodies)
	}
}

func TestCloneOffset(t *testing.T) {
	b := withQueue(t)
	b.expect("clone", b.ask(314, "", "srcGroup", "g", "destGroup", "h"), 0, "", "")
	if o, ok := b.deps.Offsets.Query([]byte("h"), []byte("T"), 0); !ok || o != 2 {
		t.Errorf("%d %v", o, ok)
	}
}

func TestQueryConsumeQueue(t *testing.T) {
	b := withQueue(t)
	b.expect("all", b.ask(321, "", "topic", "T", "queueId", "0", "index", "1", "count", "5", "consumerGroup", "g"), 0, "",
		`{"filterData":"g@T is not online!","maxQueueIndex":3,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":`)
	b.askFrom(7, 34, heartbeat("g", "T", ""))
	r := b.ask(321, "", "topic", "T", "queueId", "0", "index", "0", "count", "1", "consumerGroup", "g")
	if strings.Count(string(r.Body), "physicSize") != 1 || !strings.HasPrefix(string(r.Body), `{"filterData":"null",`) || !strings.Contains(string(r.Body), `"subscriptionData":{"classFilterMode"`) {
		t.Errorf("%s", r.Body)
	}
	b.expect("none", b.ask(321, "", "topic", "T", "queueId", "9", "index", "0", "count", "1"), 1, "9@T is not exist!", "")
}

func TestUnitsOfAQueueAreAnsweredAsByTheOriginal(t *testing.T) {
	if compared := replay(t, "testdata/units.jsonl"); compared[wire.RequestQueryConsumeQueue] != 10 {
		t.Errorf("compared: %v", compared)
	}
}

// What a client says goes back as it is; one that is not there, too old or silent has an answer of its own.
func TestCallsToClients(t *testing.T) {
	b := withQueue(t)
	b.expect("offline", b.ask(307, "", "consumerGroup", "g", "clientId", "c1"), 1, "The Consumer <g> <c1> not online", "")
	b.expect("nobody", b.ask(223, "", "topic", "T", "group", "g"), 1, "No Any Consumer online", "")
	b.askFrom(7, 34, heartbeat("g", "T", ""))
	var asked *wire.Command
	var body string
	b.client = func(ref netio.ConnRef, request *wire.Command) *wire.Command {
		if ref.Slot != 7 {
			t.Errorf("asked %v", ref)
		}
		asked, body = request, string(request.Body)
		return &wire.Command{Code: 0, Remark: []byte("said"), Body: []byte(`{"mqTable":{` + mq0 + `:{}}}`)}
	}
	b.expect("running info", b.ask(307, "", "consumerGroup", "g", "clientId", "c1", "jstackEnable", "true"), 0, "said", `{"mqTable":{`+mq0+`:{}}}`)
	if jstack, _ := asked.GetExt("jstackEnable"); string(jstack) != "true" || asked.IsOneway() {
		t.Errorf("%+v", asked)
	}
	id := string(message.AppendOffsetMsgID(nil, message.Host{IPLen: 4}, 0))
	b.expect("consume directly", b.ask(309, "", "consumerGroup", "g", "clientId", "c1", "topic", "T", "msgId", id), 0, "said", "mqTable")
	name, _ := asked.GetExt("brokerName")
	flag, _ := asked.GetExt("topicSysFlag")
	if !strings.Contains(body, "body 0") || string(name) != "broker-a" || string(flag) != "0" {
		t.Errorf("%+v", asked)
	}
	b.expect("a broken id", b.ask(309, "", "consumerGroup", "g", "clientId", "c1", "msgId", "xyz"), 1, "msgId", "")
	b.expect("an id of nothing", b.ask(309, "", "consumerGroup", "g", "clientId", "c1", "msgId", string(message.AppendOffsetMsgID(nil, message.Host{IPLen: 4}, 1<<40))), 1, "no message", "")

	b.client = func(netio.ConnRef, *wire.Command) *wire.Command {
		return &wire.Command{Body: []byte(`{"messageQueueTable":{` + mq0 + `:17}}`)}
	}
	b.expect("status", b.ask(223, "", "topic", "T", "group", "g"), 0, "", `{"consumerTable":{"c1":{`+mq0+`:17}},"messageQueueTable":{}}`)
	b.expect("status of another", b.ask(223, "", "topic", "T", "group", "g", "clientAddr", "c2"), 0, "", `{"consumerTable":{},`)
	b.client = func(netio.ConnRef, *wire.Command) *wire.Command { return &wire.Command{Body: []byte(`rubbish`)} }
	b.expect("rubbish", b.ask(223, "", "topic", "T", "group", "g"), 0, "", `{"consumerTable":{},`)
	b.client = func(ref netio.ConnRef, _ *wire.Command) *wire.Command {
		go b.deps.Relay.ConnClosed(ref)
		return nil
	}
	b.expect("gone meanwhile", b.ask(307, "", "consumerGroup", "g", "clientId", "c1"), 1, "invoke consumer <g> <c1> Exception", "")
}

// A list that is not there is no empty list: the original answers with code 1, too.
func TestListsThatAreMissingAreNamed(t *testing.T) {
	b := newBench(t)
	for code, field := range map[wire.RequestCode]string{wire.RequestUpdateAndCreateTopicList: "topicConfigList",
		wire.RequestUpdateAndCreateSubscriptionGroupList: "groupConfigList"} {
		for _, body := range []string{"null", "{}"} {
			b.expect(body, b.ask(code, body), wire.ResponseSystemError, field, "")
		}
		b.expect("empty", b.ask(code, `{"`+field+`":[]}`), wire.ResponseSuccess, "", "")
	}
}
