package interop

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

const (
	// crossSegment makes a phase of writing fill several files, each with a blank end.
	crossSegment   = 1 << 20
	crossBodyMax   = 512 << 10
	crossPerPhase  = 120
	crossDiffsMax  = 20
	crossDelay     = "18" // two hours: not within the test
	sysFlagHalf    = 4
	crossTimerSecs = "7200"
)

// crossSettings are those of both brokers. Small files of queues and index, so that these roll over, too; nothing expires and nothing
// is checked while the test runs.
func crossSettings(more map[string]string) map[string]string {
	all := map[string]string{"mappedFileSizeCommitLog": strconv.Itoa(crossSegment), "mappedFileSizeConsumeQueue": "1000", "maxMessageSize": strconv.Itoa(crossBodyMax),
		"maxHashSlotNum": "200", "maxIndexNum": "250", "fileReservedTime": "720", "cleanFileForciblyEnable": "false",
		// The original loses the keys of its newest index file with a crash unless it is told not to.
		"messageIndexSafe": "true", "transactionTimeOut": "3600000", "transactionCheckInterval": "3600000"}
	maps.Copy(all, more)
	return all
}

// crossTopics are the topics with settings of their own.
var crossTopics = []wire.CreateTopicRequestHeader{
	{Topic: "CrossPlain", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6},
	{Topic: "CrossKeyed", ReadQueueNums: 3, WriteQueueNums: 2, Perm: 6, Order: true},
	{Topic: "CrossBatch", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, Attributes: new("+message.type=NORMAL")},
	{Topic: "CrossLarge", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 6, TopicSysFlag: new(int32(1))},
}

// crossing is a directory that goes from broker to broker, and what it has to hold.
type crossing struct {
	t       *testing.T
	dir     string
	v6      string // the other address to listen on and to store
	phase   int
	sent    map[string]string // the name of a message's fact: what its text has to contain
	written int               // messages that the last phase added, those of brokers too
	known   facts
}

// Issue of cross-opening: what one broker wrote the other serves as it was, in both directions, after a clean stop and after kill -9:
// messages byte for byte, offsets, topics, groups, consumer offsets, keys, searches by time; and nothing is there twice.
func TestDirectoryGoesBackAndForth(t *testing.T) {
	if bed.apache {
		t.Skip("both brokers take part")
	}
	t.Parallel()
	need(t, "cross-open", func() (string, error) { return bed.tools.ServerClassPath(apacheVersion) })
	v6 := "::1"
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		l.Close()
	} else {
		t.Logf("this machine has no IPv6 (%v): all of it over IPv4", err)
		v6 = loopback
	}
	x := &crossing{t: t, v6: v6, dir: t.TempDir(), sent: map[string]string{}}
	x.with("peregrine, new", x.peregrine(v6, loopback), syscall.SIGTERM, func(addr string) {
		x.create(addr)
		x.write(addr, false, true)
		x.dieAndComeBack(addr)
	})
	state := x.read("peregrine.state")
	x.with("the original after a clean stop of peregrine", x.apache(v6), syscall.SIGTERM, func(addr string) {
		x.write(addr, true, true)
		x.writeSpecial(addr)
		x.dieAndComeBack(addr)
	})
	if !bytes.Equal(state, x.read("peregrine.state")) || len(x.read("peregrine.deleted")) == 0 {
		t.Error("the original touched peregrine's own files")
	}
	x.with("peregrine after a clean stop of the original", x.peregrine(loopback, v6), syscall.SIGKILL, func(addr string) {
		x.write(addr, false, true)
		x.makeAgain(addr, "CrossNobody2")
	})
	x.with("the original after kill -9 of peregrine", x.apache(loopback), syscall.SIGKILL, func(addr string) {
		x.write(addr, true, false)
		x.writeSpecial(addr)
	})
	x.with("peregrine after kill -9 of the original", x.peregrine(v6, v6), syscall.SIGTERM, func(addr string) { x.write(addr, false, false) })
	x.with("the original, which adds nothing to the log", x.apache(loopback), syscall.SIGTERM, func(addr string) { x.forget(addr, "CrossDoomed1") })
	x.with("peregrine over a log of the length that it left", x.peregrine(loopback, loopback), syscall.SIGTERM, func(addr string) { x.makeAgain(addr, "CrossDoomed1") })
	x.with("peregrine after itself", x.peregrine(loopback, loopback), syscall.SIGTERM, func(string) {})
	t.Logf("%d facts about %d messages in %d files of the log", len(x.known), x.known.count("message"), len(logFiles(t, x.dir)))
}

func logFiles(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "store", "commitlog", "0*"))
	if err != nil || len(files) < 4 {
		t.Errorf("%d files of the log, %v", len(files), err)
	}
	return files
}

func (x *crossing) read(name string) []byte {
	x.t.Helper()
	b, err := os.ReadFile(filepath.Join(x.dir, "store", name))
	if err != nil {
		x.t.Error(err)
	}
	return b
}

// peregrine listens on one address and stores the other as its own.
func (x *crossing) peregrine(listen, own string) func() (Broker, error) {
	return func() (Broker, error) {
		binary, err := bed.tools.PeregrineBinary(bed.dir)
		if err != nil {
			return nil, err
		}
		return StartPeregrine(PeregrineOptions{Binary: binary, Dir: x.dir, Settings: crossSettings(map[string]string{"bindAddress": listen, "brokerIP1": own})})
	}
}

// apache listens on both kinds of addresses.
func (x *crossing) apache(own string) func() (Broker, error) {
	return func() (Broker, error) { return startApache(x.dir, crossSettings(map[string]string{"brokerIP1": own})) }
}

// with opens the directory with a broker, compares what it answers with what the one before answered, lets it write, and stops it.
func (x *crossing) with(name string, start func() (Broker, error), signal syscall.Signal, write func(addr string)) {
	t := x.t
	t.Helper()
	began := time.Now()
	x.phase++
	b, err := start()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	stopped := false
	defer func() {
		if t.Failed() {
			t.Logf("%s:\n%s", name, b.Logs())
		}
		if !stopped {
			_ = b.Stop(syscall.SIGKILL)
		}
	}()
	started := time.Since(began)
	now, err := observe(b.Addr())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if x.known != nil {
		for i, difference := range factsDiffer(x.known, now) {
			if i == crossDiffsMax {
				t.Fatalf("%s: and more", name)
			}
			t.Errorf("%s: %s", name, difference)
		}
	}
	x.known, x.written = now, 0
	write(b.Addr())
	if t.Failed() {
		t.FailNow()
	}
	x.settle(name, b, signal)
	if err := b.Stop(signal); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	stopped = true
	if !t.Failed() {
		t.Logf("%s: started in %v, %d messages then, %d written, all in %v", name, started.Round(time.Millisecond), now.count("message"), x.written, time.Since(began).Round(time.Millisecond))
	}
}

// settle waits until the broker has dispatched and indexed what was written and has persisted its consumer offsets, and checks that the
// writes added what they should to what was there before.
func (x *crossing) settle(name string, b Broker, signal syscall.Signal) {
	t := x.t
	t.Helper()
	deadline := time.Now().Add(persistMax)
	for {
		now, err := observe(b.Addr())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		problem := x.grown(x.known, now)
		if problem == "" {
			x.known = now
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", name, problem)
		}
		time.Sleep(50 * time.Millisecond) // dispatch and index announce nothing to a client
	}
	if signal != syscall.SIGKILL {
		return
	}
	for fact, want := range x.known {
		if key, found := strings.CutPrefix(fact, "consumer offsets "); found {
			var sum int64
			for _, part := range strings.FieldsFunc(want, func(r rune) bool { return r == ',' || r == '{' || r == '}' }) {
				_, number, _ := strings.Cut(part, ":")
				n, err := strconv.ParseInt(number, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			if err := awaitPersisted(b.StoreDir(), key, sum); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// grown says what is wrong with the facts after a phase of writing, "" when nothing is.
func (x *crossing) grown(before, now facts) string {
	if had, has := before.count("message"), now.count("message"); has != had+x.written {
		return fmt.Sprintf("%d messages and %d written make %d", had, x.written, has)
	}
	for name, was := range before {
		if is := now[name]; is != was && (strings.HasPrefix(name, "message ") || strings.HasPrefix(name, "key ") && !strings.HasPrefix(is, strings.TrimSuffix(was, "]"))) {
			return fmt.Sprintf("%s: %s; it was %s", name, is, was)
		}
	}
	for name, part := range x.sent {
		if is := now[name]; !strings.Contains(is, part) {
			return fmt.Sprintf("%s: %s; sent was %s", name, is, part)
		}
	}
	for name, is := range now {
		if strings.HasPrefix(name, "key ") && !strings.HasPrefix(is, "answer 0: [") || strings.HasSuffix(is, "[]") {
			return fmt.Sprintf("%s: %s", name, is)
		}
	}
	return ""
}

func (x *crossing) dial(addr string) *RawClient {
	x.t.Helper()
	c, err := DialRaw(addr)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(c.Close)
	return c
}

// ask sends one request that has to succeed.
func (x *crossing) ask(c *RawClient, code wire.RequestCode, header any, body string) {
	x.t.Helper()
	cmd, err := c.Call(code, header, []byte(body))
	if err != nil || cmd.Code != 0 {
		x.t.Fatalf("request %d %+v: %v %v", code, header, cmd, err)
	}
}

// create makes topics and groups with settings.
func (x *crossing) create(addr string) {
	c := x.dial(addr)
	for _, h := range crossTopics {
		x.makeTopic(c, h)
	}
	for i := range 3 {
		x.ask(c, wire.RequestUpdateAndCreateSubscriptionGroup, nil, fmt.Sprintf(`{"groupName":"CrossGroup%d","consumeEnable":true,"consumeFromMinEnable":false,`+
			`"consumeBroadcastEnable":%v,"consumeMessageOrderly":false,"retryQueueNums":%d,"retryMaxTimes":%d,"brokerId":0,"whichBrokerWhenConsumeSlowly":1,`+
			`"notifyConsumerIdsChangedEnable":true,"groupSysFlag":0,"consumeTimeoutMinute":%d}`, i, i == 1, 1+i, 5+i, 20+i))
	}
}

// write sends messages of all kinds, over both kinds of addresses where the broker listens on both, and lets groups commit offsets.
func (x *crossing) write(addr string, both, commit bool) {
	x.t.Helper()
	clients := []*RawClient{x.dial(addr), x.dial(addr)}
	clients[1].Enc = wire.EncodingBinary
	if host, port, _ := net.SplitHostPort(addr); both {
		other := x.v6
		if host == x.v6 {
			other = loopback
		}
		clients[1] = x.dial(net.JoinHostPort(other, port))
	}
	for i := range crossPerPhase {
		c, name := clients[i%2], fmt.Sprintf("%d-%d", x.phase, i)
		switch i % 6 {
		case 0:
			x.send(c, "CrossPlain", i/6%4, "", strings.Repeat("plain ", i)+name)
		case 1:
			x.send(c, "CrossPlain", i/6%4, properties("UNIQ_KEY", "U"+name, "TAGS", "TagA", "a", "b"), "tagged "+name)
		case 2:
			x.send(c, "CrossKeyed", i/6%2, properties("KEYS", "order-"+name, "WAIT", "true"), "keyed "+name)
		case 3:
			x.send(c, "CrossKeyed", i/6%2, properties("KEYS", "first-"+name+" 订单-"+name+" every-"+strconv.Itoa(i%5), "TAGS", "é", "UNIQ_KEY", "U"+name), "several keys "+name)
		case 4:
			if i%24 == 4 {
				x.sendBatch(c, 7, name)
			}
		case 5:
			if i%30 == 5 {
				x.send(c, "CrossLarge", i%2, properties("KEYS", "large-"+name), string(bytes.Repeat([]byte{byte(i)}, crossBodyMax)))
			}
		}
	}
	for i := range 3 {
		if !commit {
			break
		}
		for queue := range 2 {
			x.ask(clients[0], wire.RequestUpdateConsumerOffset, &wire.UpdateConsumerOffsetRequestHeader{ConsumerGroup: fmt.Sprint("CrossGroup", i), Topic: "CrossKeyed",
				QueueID: int32(queue), CommitOffset: int64(x.phase*3 + i + queue)}, "")
		}
	}
}

func properties(pairs ...string) string {
	var text []byte
	for i := 0; i < len(pairs); i += 2 {
		text = message.AppendProperty(text, pairs[i], pairs[i+1])
	}
	return string(text)
}

// send sends one message and remembers where it has to be.
func (x *crossing) send(c *RawClient, topic string, queue int, properties, body string) {
	x.t.Helper()
	x.note(c, SendHeader(topic, int32(queue), properties), []byte(body), 1)
}

func (x *crossing) sendBatch(c *RawClient, count int, name string) {
	x.t.Helper()
	var body []byte
	for i := range count {
		body = message.AppendBatchElement(body, int32(i), fmt.Appendf(nil, "element %d of %s", i, name),
			[]byte(properties("UNIQ_KEY", fmt.Sprintf("B%s-%d", name, i), "KEYS", "batch-"+name)))
	}
	h := SendHeader("CrossBatch", 0, "")
	h.Batch = true
	x.note(c, h, body, count)
}

// note sends and keeps what the answer promised.
func (x *crossing) note(c *RawClient, h *wire.SendMessageHeader, body []byte, count int) {
	x.t.Helper()
	cmd, err := c.Send(h, body)
	if err != nil || cmd.Code != 0 {
		x.t.Fatalf("send to %s: %v %v", h.Topic, cmd, err)
	}
	var answer wire.SendMessageResponseHeader
	if err := wire.DecodeHeader(cmd, &answer); err != nil {
		x.t.Fatal(err)
	}
	x.written += count
	for i, id := range strings.Split(answer.MsgID, ",") {
		_, phy, err := message.ParseOffsetMsgID([]byte(id))
		if err != nil {
			x.t.Fatalf("message id %q: %v", id, err)
		}
		x.sent[fmt.Sprintf("message %s-%d at %d", h.Topic, answer.QueueID, answer.QueueOffset+int64(i))] = fmt.Sprintf("PhyOffset:%d ", phy)
	}
}

// dieAndComeBack fills two topics and deletes them; one is made again and gets fewer messages than it had.
func (x *crossing) dieAndComeBack(addr string) {
	c := x.dial(addr)
	doomed := wire.CreateTopicRequestHeader{Topic: fmt.Sprint("CrossDoomed", x.phase), ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}
	nobody := doomed
	nobody.Topic = fmt.Sprint("CrossNobody", x.phase)
	before, sent := x.written, maps.Clone(x.sent)
	for _, h := range []wire.CreateTopicRequestHeader{doomed, nobody} {
		x.makeTopic(c, h)
		for i := range 9 {
			x.send(c, h.Topic, 0, "", fmt.Sprintf("of an earlier life, %d-%d", x.phase, i))
		}
		x.ask(c, wire.RequestDeleteTopicInBroker, &wire.TopicRequestHeader{Topic: h.Topic}, "")
	}
	x.written, x.sent = before, sent
	x.makeTopic(c, doomed)
	for i := range 4 {
		x.send(c, doomed.Topic, 0, "", fmt.Sprintf("of a new life, %d-%d", x.phase, i))
	}
}

// makeAgain makes a topic that the broker before deleted: it begins at 0, whatever the log has of it.
func (x *crossing) makeAgain(addr, topic string) {
	c := x.dial(addr)
	x.makeTopic(c, wire.CreateTopicRequestHeader{Topic: topic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6})
	for i := range 2 {
		x.send(c, topic, 0, "", "made again")
		if name := fmt.Sprintf("message %s-0 at %d", topic, i); x.sent[name] == "" {
			x.t.Errorf("there is no %s: it went elsewhere", name)
		}
	}
}

// forget deletes a topic and what is known of it.
func (x *crossing) forget(addr, topic string) {
	x.ask(x.dial(addr), wire.RequestDeleteTopicInBroker, &wire.TopicRequestHeader{Topic: topic}, "")
	for fact := range x.sent {
		if strings.Contains(fact, " "+topic) {
			delete(x.sent, fact)
		}
	}
	for fact := range x.known {
		if strings.Contains(fact, " "+topic) {
			delete(x.known, fact)
		}
	}
}

func (x *crossing) makeTopic(c *RawClient, h wire.CreateTopicRequestHeader) {
	x.t.Helper()
	h.DefaultTopic, h.TopicFilterType = templateTopic, "SINGLE_TAG"
	x.ask(c, wire.RequestUpdateAndCreateTopic, &h, "")
}

// writeSpecial makes the original write what peregrine has to keep, whatever it does with it: a delayed message, a timer message, a
// half message, a retry, and a message that was sent back.
func (x *crossing) writeSpecial(addr string) {
	x.t.Helper()
	c := x.dial(addr)
	half := SendHeader("CrossPlain", 0, properties("TRAN_MSG", "true", "PGROUP", "CrossProducers", "UNIQ_KEY", fmt.Sprint("H", x.phase)))
	half.SysFlag = sysFlagHalf
	for _, h := range []*wire.SendMessageHeader{half, SendHeader("CrossPlain", 1, properties("DELAY", crossDelay, "KEYS", fmt.Sprint("delayed-", x.phase))),
		SendHeader("CrossPlain", 1, properties("TIMER_DELAY_SEC", crossTimerSecs)), SendHeader("%RETRY%CrossGroup0", 0, properties("RETRY_TOPIC", "CrossPlain"))} {
		if cmd, err := c.Send(h, []byte("special")); err != nil || cmd.Code != 0 {
			x.t.Fatalf("send %s: %v %v", h.Properties, cmd, err)
		}
		x.written++
	}
	back, err := call(addr, int(wire.RequestConsumerSendMsgBack), map[string]string{"group": "CrossGroup1", "offset": x.anyPosition(), "delayLevel": crossDelay,
		"originTopic": "CrossKeyed", "originMsgId": "", "unitMode": "false", "maxReconsumeTimes": "16"}, nil)
	if err != nil || back.Code != 0 {
		x.t.Fatalf("send back: %+v %v", back, err)
	}
	x.written++
}

// anyPosition is the position of a message that is known.
func (x *crossing) anyPosition() string {
	text := x.known["message CrossKeyed-0 at 0"]
	_, rest, _ := strings.Cut(text, "PhyOffset:")
	position, _, _ := strings.Cut(rest, " ")
	return position
}
