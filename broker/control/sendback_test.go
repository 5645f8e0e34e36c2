package control

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"peregrine/broker/delay"
	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/store/storetest"
	"peregrine/wire"
)

// Send makes a bench the Sender: what is sent lies in sent.
func (b *bench) Send(m *store.Message, wait bool) error {
	if b.refuseSend != nil {
		return b.refuseSend
	}
	m.Queue = b.deps.Store.Queue(string(m.Topic), m.QueueID)
	batch := []store.Message{*m}
	b.deps.Store.Append(batch)
	b.sent = append(b.sent, batch[0])
	return batch[0].Err
}

func (b *bench) Append(batch []store.Message) (message.PhyOffset, error) {
	return b.deps.Store.Append(batch), nil
}
func (b *bench) Durable(message.PhyOffset) error { return nil }

// stored puts a message into the log as if a consumer had got it from there and returns its position.
func (b *bench) stored(topic string, reconsumeTimes int32, properties string) string {
	b.t.Helper()
	text := strings.NewReplacer("=", "\x01", "|", "\x02").Replace(properties)
	batch := []store.Message{{Record: message.Record{Topic: []byte(topic), QueueID: 1, Body: []byte("body"), BodyCRC: message.BodyCRC([]byte("body")), Flag: 7,
		ReconsumeTimes: reconsumeTimes, BornTimestamp: 5, BornHost: message.Host{IPLen: 4, Port: 1}, StoreHost: message.Host{IPLen: 4, Port: 2}, Properties: []byte(text),
		SysFlag: message.SysFlagTransactionCommit, PreparedTransactionOffset: 3}, Queue: b.deps.Store.Queue(topic, 1)}}
	b.deps.Store.Append(batch)
	must(b.t, batch[0].Err)
	return strconv.FormatInt(int64(batch[0].PhyOffset), 10)
}

func (b *bench) lastSent() (m store.Message, properties string) {
	b.t.Helper()
	m = b.sent[len(b.sent)-1]
	return m, strings.NewReplacer("\x01", "=", "\x02", "|").Replace(string(m.Properties))
}

// The rules of CONSUMER_SEND_MSG_BACK: which level, which topic, when it is dead.
func TestSentBackGoesToTheRetryTopicOrTheDeadLetters(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name           string
		version        int32
		reconsumeTimes int32
		level          string
		max            string // maxReconsumeTimes, empty: none
		topic, props   string
	}{
		{"first", 513, 0, "0", "16", message.ScheduleTopic + " 2", "DELAY=3|REAL_TOPIC=%RETRY%G|"},
		{"third", 513, 2, "0", "16", message.ScheduleTopic + " 4", "DELAY=5|"},
		{"given level", 513, 2, "7", "16", message.ScheduleTopic + " 6", "DELAY=7|"},
		{"level beyond the table", 513, 2, "77", "16", message.ScheduleTopic + " 17", "DELAY=18|"},
		{"last", 513, 15, "0", "16", message.ScheduleTopic + " 17", "DELAY=18|"},
		{"used up", 513, 16, "0", "16", "%DLQ%G 0", "DELAY=0|"},
		{"used up although a level is given", 513, 2, "2", "2", "%DLQ%G 0", "DELAY=0|"},
		{"negative level", 513, 0, "-1", "16", "%DLQ%G 0", "DELAY=0|"},
		{"no number of its own", 513, 16, "0", "", "%DLQ%G 0", "DELAY=0|"},
		{"an old client's number does not count", 120, 3, "0", "2", message.ScheduleTopic + " 5", "DELAY=6|"},
		{"unlimited", 513, 100, "0", "2147483647", message.ScheduleTopic + " 17", "DELAY=18|"},
	} {
		position := b.stored("T", c.reconsumeTimes, "UNIQ_KEY=U|TAGS=a|WAIT=true|")
		ext := []string{"offset", position, "group", "G", "delayLevel", c.level, "originMsgId", "x", "originTopic", "T", "unitMode", "false"}
		if c.max != "" {
			ext = append(ext, "maxReconsumeTimes", c.max)
		}
		before := len(b.sent)
		b.version = c.version
		b.expect(c.name, b.ask(36, "", ext...), 0, "", "")
		if len(b.sent) != before+1 {
			t.Fatalf("%s: %d records", c.name, len(b.sent)-before)
		}
		m, text := b.lastSent()
		if got := string(m.Topic) + " " + strconv.Itoa(int(m.QueueID)); got != c.topic {
			t.Errorf("%s: in %s, want %s", c.name, got, c.topic)
		}
		for _, part := range append(strings.SplitAfter(c.props, "|"), "RETRY_TOPIC=T|", "WAIT=false|", "UNIQ_KEY=U|", "TAGS=a|", "ORIGIN_MESSAGE_ID=0000000000000002") { // store host 0.0.0.0:2
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s lacks %s", c.name, text, part)
			}
		}
		if m.ReconsumeTimes != c.reconsumeTimes+1 || m.BornTimestamp != 5 || m.Flag != 7 || m.PreparedTransactionOffset != 0 || m.SysFlag != message.SysFlagTransactionCommit {
			t.Errorf("%s: %+v", c.name, m.Record)
		}
	}
	for name, queues := range map[string]int32{"%RETRY%G": 1, "%DLQ%G": 1} {
		if topic := b.deps.Topics.Find(name); topic == nil || topic.Config().Perm != 6 || topic.Config().WriteQueueNums != queues || topic.Config().ReadQueueNums != queues {
			t.Errorf("%s: %+v", name, topic)
		}
	}
	if b.deps.Retries.SentBack.Load() != 11 || b.deps.Retries.DeadLetters.Load() != 4 {
		t.Errorf("%d sent back, %d dead", b.deps.Retries.SentBack.Load(), b.deps.Retries.DeadLetters.Load())
	}
}

// The first topic and the first id stay through all retries.
func TestSentBackAgainKeepsItsOrigin(t *testing.T) {
	b := newBench(t)
	position := b.stored("%RETRY%G", 1, "RETRY_TOPIC=T|ORIGIN_MESSAGE_ID=FIRST|DELAY=3|REAL_TOPIC=%RETRY%G|REAL_QID=0|WAIT=false|")
	b.expect("again", b.ask(36, "", "offset", position, "group", "G", "delayLevel", "0", "originTopic", "T"), 0, "", "")
	if _, text := b.lastSent(); text != "ORIGIN_MESSAGE_ID=FIRST|RETRY_TOPIC=T|DELAY=4|WAIT=false|REAL_TOPIC=%RETRY%G|REAL_QID=0|" {
		t.Error(text)
	}
}

func TestSendBackIsRefusedAsByTheOriginal(t *testing.T) {
	b := newBench(t)
	position := b.stored("T", 0, "")
	ask := func(group string) wire.Reply {
		return b.ask(36, "", "offset", position, "group", group, "delayLevel", "0")
	}
	if r := b.ask(36, "", "group", "G"); r.Code != wire.ResponseSystemError || !strings.Contains(r.Remark, "offset") {
		t.Errorf("no header: %d %q", r.Code, r.Remark)
	}
	b.expect("missing message", b.ask(36, "", "offset", "999999", "group", "G", "delayLevel", "0"), wire.ResponseSystemError, "look message by offset failed, 999999", "")
	b.expect("illegal group", ask("no good"), wire.ResponseSubscriptionGroupNotExist, "subscription group not exist, no good "+"See", "")

	config := *b.deps.Groups.LookupOrCreate("NoRetry").Config()
	config.RetryQueueNums = 0
	if r := b.deps.Groups.Update(config); r != nil {
		t.Fatal(r)
	}
	b.expect("a group without retry queues", ask("NoRetry"), 0, "", "")
	b.expect("first", ask("G"), 0, "", "")
	if r := b.deps.Topics.UpdateOrCreate(wire.TopicConfig{TopicName: "%RETRY%G", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 4, TopicFilterType: wire.TopicFilterSingleTag}); r != nil {
		t.Fatal(r)
	}
	b.expect("a retry topic that nobody may write", ask("G"), wire.ResponseNoPermission, "the topic[%RETRY%G] sending message is forbidden", "")
	b.deps.Config.Get().BrokerPermission = 4
	b.expect("a broker that may not be written", ask("H"), wire.ResponseNoPermission, "the broker[127.0.0.1] sending message is forbidden", "")
	b.deps.Config.Get().BrokerPermission = 6
	b.refuseSend = wire.Refuse(wire.ResponseServiceNotAvailable, "disk full")
	b.expect("a full disk", ask("H"), wire.ResponseSystemError, "disk full", "")
	if len(b.sent) != 1 {
		t.Errorf("%d records", len(b.sent))
	}
}

// What a 5.5.0 broker stored for messages that were sent back: the record of the original, read at the position that the id
// in ORIGIN_MESSAGE_ID names, becomes the record of the schedule topic; that one's copy becomes the dead letter.
func TestSentBackRecordsAreTheOriginals(t *testing.T) {
	b := newBench(t)
	s := &service{Deps: b.deps}
	byPosition := map[message.PhyOffset]message.View{}
	var order []message.View
	storetest.Walk(t, filepath.Join("..", "..", "store", "testdata", "clean-5.5.0.tar.gz"), func(path string, content []byte) error {
		for log := content; strings.Contains(path, "/commitlog/") && len(log) > 0; {
			var v message.View
			if message.ParseView(log, &v) != nil {
				break
			}
			byPosition[v.PhyOffset] = v
			order = append(order, v)
			log = log[v.Size:]
		}
		return nil
	})
	compare := func(m store.Message, want *message.View) {
		t.Helper()
		x := want.Record()
		m.StoreHost, x.StoreHost = want.StoreHost, want.StoreHost
		one, other := make([]byte, m.Size()), make([]byte, x.Size())
		m.EncodeTo(one)
		x.EncodeTo(other)
		if !bytes.Equal(one, other) {
			t.Errorf("got  %q\nwant %q", one, other)
		}
	}
	scheduled, dead := 0, 0
	for i := range order {
		v := &order[i]
		origin, _ := message.GetProperty(v.Properties, message.PropertyOriginMessageID)
		if origin == nil {
			continue
		}
		switch topic := string(v.Topic); {
		case topic == message.ScheduleTopic:
			_, phy, err := message.ParseOffsetMsgID(origin)
			must(t, err)
			was := byPosition[phy]
			level, _ := message.GetProperty(v.Properties, message.PropertyDelay)
			n, _ := delay.ParseLevel(level)
			compare(s.retryOf(&was, []byte("%RETRY%GRetry"), 0, n), v)
			scheduled++
		case strings.HasPrefix(topic, "%DLQ%"):
			for j := range order[:i] {
				if string(order[j].Topic) == "%RETRY%GRetry" && bytes.Equal(order[j].Body, v.Body) {
					compare(s.retryOf(&order[j], v.Topic, 0, 0), v)
					dead++
				}
			}
		}
	}
	if scheduled != 6 || dead != 4 {
		t.Errorf("%d scheduled, %d dead", scheduled, dead)
	}
}

func TestDelayOffsetsAreTold(t *testing.T) {
	b := newBench(t)
	b.expect("45", b.ask(45, ""), 0, "", `"offsetTable":{}`)
}
