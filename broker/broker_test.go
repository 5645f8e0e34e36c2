package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

const smallFiles = "mappedFileSizeCommitLog=1048576"

// A message comes back as it was sent, whichever header form and send code was used.
func TestSentIsPulledUnchanged(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		c := dial(t, b.addr, enc)
		topic := "Plain" + enc.String()
		properties := "KEYS\x01k1 ключ\x02TAGS\x01TagA\x02UNIQ_KEY\x01ABC\x02WAIT\x01true\x02"
		cmd := c.mustSend(sendHeader(topic, 1, properties), []byte("hällo"))
		for _, name := range []string{"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON", "transactionId"} {
			if _, ok := cmd.GetExt(name); !ok {
				t.Errorf("%v: the answer lacks %s", enc, name)
			}
		}
		if cmd.Version != wire.Version {
			t.Errorf("version %d", cmd.Version)
		}
		h := pullHeader(topic, 1, 0, "*")
		h.SysFlag |= wire.PullSysFlagSuspend
		h.SuspendTimeoutMillis = 5000
		got := records(t, c.pull(h).Body)
		if len(got) != 1 || string(got[0].Body) != "hällo" || string(got[0].Topic) != topic || got[0].QueueID != 1 || got[0].QueueOffset != 0 {
			t.Fatalf("%v: got %+v", enc, got)
		}
		want := properties + "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
		if string(got[0].Properties) != want {
			t.Errorf("%v: properties %q, want %q", enc, got[0].Properties, want)
		}
	}
}

// What the broker sets itself cannot be forged, what Java's map would drop is dropped, and a missing UNIQ_KEY is made.
func TestPropertiesAreEditedAsTheOriginalDoes(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	cmd := c.mustSend(sendHeader("Edit", 0, "CLUSTER\x01evil\x02A\x011\x02junk\x02A\x012\x02POP_CK\x01x\x02E\x01\x02LAST\x01end"), []byte("x"))
	id, _ := cmd.GetExt("transactionId")
	if len(id) != 32 {
		t.Errorf("made UNIQ_KEY %q", id)
	}
	uniq := string(id)
	c.drain("Edit", 0, 0, 1)
	text := records(t, c.pull(pullHeader("Edit", 0, 0, "*")).Body)[0].Properties
	want := map[string]string{"CLUSTER": "DefaultCluster", "A": "2", "LAST": "end", "UNIQ_KEY": uniq, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
	it := message.Properties(text)
	n := 0
	for name, value, ok := it.Next(); ok; name, value, ok = it.Next() {
		n++
		if want[string(name)] != string(value) {
			t.Errorf("property %s=%s, want %q", name, value, want[string(name)])
		}
	}
	if n != len(want) || text[len(text)-1] != message.PropertySeparator {
		t.Errorf("properties %q", text)
	}
}

// A priority is the number of the queue, or the last one; a half, delayed or ordered message has none (TopicMessageType of 5.5.0).
func TestPriorityChoosesTheQueue(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	c := dial(t, b.addr, wire.EncodingBinary)
	c.makeTopic("Ranks", 4)
	for properties, want := range map[string]string{
		"_SYS_MSG_PRIORITY_\x010\x02":                       "0",
		"_SYS_MSG_PRIORITY_\x012\x02":                       "2",
		"_SYS_MSG_PRIORITY_\x018\x02":                       "3",
		"_SYS_MSG_PRIORITY_\x01-1\x02":                      "1",
		"_SYS_MSG_PRIORITY_\x01x\x02":                       "1",
		"_SYS_MSG_PRIORITY_\x010\x02__SHARDINGKEY\x01a\x02": "1",
		"DELAY\x010\x02_SYS_MSG_PRIORITY_\x013\x02":         "1",
	} {
		got, _ := c.mustSend(sendHeader("Ranks", 1, properties), []byte("x")).GetExt("queueId")
		if string(got) != want {
			t.Errorf("%q: queue %s, not %s", properties, got, want)
		}
	}
	c.drain("Ranks", 1, 0, 4)
	c.drain("Ranks", 3, 0, 1)
	for _, v := range records(t, c.pull(pullHeader("Ranks", 1, 0, "*")).Body) {
		priority, _ := message.GetProperty(v.Properties, message.PropertyPriority)
		if n := string(priority); n != "-1" && n != "x" && n != "" {
			t.Errorf("a priority that counts for nothing is kept: %q", v.Properties)
		}
	}
	if v := records(t, c.pull(pullHeader("Ranks", 3, 0, "*")).Body); len(v) != 1 || !strings.Contains(string(v[0].Properties), "_SYS_MSG_PRIORITY_\x018") || v[0].QueueID != 3 {
		t.Errorf("the last queue has %+v", v)
	}
}

func TestBatchBecomesSingleRecords(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	c := dial(t, b.addr, wire.EncodingBinary)
	var body []byte
	for i := range 5 {
		body = message.AppendBatchElement(body, int32(i), fmt.Appendf(nil, "m%d", i), []byte("TAGS\x01A\x02"))
	}
	h := sendHeader("Batch", 2, "")
	h.Batch = true
	cmd := c.mustSend(h, body)
	ids, _ := cmd.GetExt("msgId")
	if n := strings.Count(string(ids), ",") + 1; n != 5 {
		t.Errorf("%d message ids in %q", n, ids)
	}
	if got := fmt.Sprint(c.drain("Batch", 2, 0, 5)); got != "[m0 m1 m2 m3 m4]" {
		t.Errorf("got %s", got)
	}
	for i, v := range records(t, c.pull(pullHeader("Batch", 2, 0, "*")).Body) {
		if v.Flag != int32(i) || string(v.Properties) != "TAGS\x01A\x02" {
			t.Errorf("record %d: flag %d, properties %q", i, v.Flag, v.Properties)
		}
	}
	if cmd := c.send(h, body[:len(body)-1]); wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal {
		t.Errorf("a torn batch: code %d %s", cmd.Code, cmd.Remark)
	}
	if got := len(c.drain("Batch", 2, 0, 5)); got != 5 {
		t.Errorf("%d messages after a refused batch", got)
	}
}

// Case W05: the limits are the configured ones, the refusal names them, and the connection lives on.
func TestBodyLimitIsExactAndNamed(t *testing.T) {
	for _, limit := range []int{4194304, 65536} {
		b := startBroker(t, sysio.OS{}, t.TempDir(), "mappedFileSizeCommitLog=16777216", fmt.Sprintf("maxMessageSize=%d", limit))
		c := dial(t, b.addr, wire.EncodingJSON)
		body := []byte(strings.Repeat("x", limit+1))
		c.mustSend(sendHeader("Large", 0, ""), body[:limit])
		cmd := c.send(sendHeader("Large", 0, ""), body)
		if wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal || !strings.Contains(string(cmd.Remark), fmt.Sprint(limit)) || !strings.Contains(string(cmd.Remark), fmt.Sprint(limit+1)) {
			t.Errorf("one over %d: code %d %s", limit, cmd.Code, cmd.Remark)
		}
		c.mustSend(sendHeader("Large", 0, ""), []byte("small"))
		if got := c.drain("Large", 0, 0, 2); got[0] != string(body[:limit]) || got[1] != "small" {
			t.Errorf("limit %d: bodies of %d and %d bytes", limit, len(got[0]), len(got[1]))
		}
		b.stop()
	}
}

// Compressed bodies (case W07): what the broker stores and hands out are the bytes and the flags that were sent. Flags of hosts are
// the broker's own, as the addresses are.
func TestCompressedBodiesAreUntouched(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), "mappedFileSizeCommitLog=16777216")
	random := newRand(7)
	n := int64(0)
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		c := dial(t, b.addr, enc)
		for _, kind := range []int32{0, message.SysFlagCompressionZLIB, message.SysFlagCompressionLZ4, message.SysFlagCompressionZSTD} {
			for _, more := range []int32{0, message.SysFlagCompressed, message.SysFlagCompressed | message.SysFlagMultiTags | message.SysFlagNeedUnwrap,
				message.SysFlagCompressed | message.SysFlagInnerBatch, message.SysFlagCompressed | message.SysFlagBornHostV6 | message.SysFlagStoreHostV6} {
				for _, size := range []int{100, 5 << 10, 1 << 20} {
					body := make([]byte, size)
					for i := range body {
						body[i] = byte(random.Uint32())
					}
					h := sendHeader("Packed", 0, "")
					h.SysFlag = kind | more
					c.mustSend(h, body)
					v := c.at("Packed", 0, n)
					n++
					want := h.SysFlag &^ (message.SysFlagBornHostV6 | message.SysFlagStoreHostV6)
					if v.SysFlag != want || string(v.Body) != string(body) {
						t.Errorf("flags %#x became %#x, want %#x; %d bytes are the same: %v", h.SysFlag, v.SysFlag, want, size, string(v.Body) == string(body))
					}
				}
			}
		}
	}
}

// What is not built yet is refused, never stored as if it were an ordinary message.
func TestUnbuiltFeaturesAreRefused(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	c.mustSend(sendHeader("Later", 0, ""), []byte("first"))
	half := sendHeader("Later", 0, "")
	half.SysFlag = message.SysFlagTransactionPrepared
	for name, h := range map[string]*wire.SendMessageHeader{
		"timer": sendHeader("Later", 0, "TIMER_DELAY_SEC\x0110\x02"), "half by flag only": half,
	} {
		if cmd := c.send(h, []byte("x")); wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal || len(cmd.Remark) == 0 {
			t.Errorf("%s: code %d %s", name, cmd.Code, cmd.Remark)
		}
	}
	if cmd := c.send(sendHeader("Later", 0, "DELAY\x010\x02"), []byte("second")); cmd.Code != 0 {
		t.Errorf("DELAY 0 is no delay: code %d %s", cmd.Code, cmd.Remark)
	}
	if cmd := c.send(sendHeader("Later", 0, ""), nil); wire.ResponseCode(cmd.Code) != wire.ResponseMessageIllegal {
		t.Errorf("empty body: code %d", cmd.Code)
	}
	if got := fmt.Sprint(c.drain("Later", 0, 0, 2)); got != "[first second]" {
		t.Errorf("stored: %s", got)
	}
}

// Case W03: every code answers; none is met with silence or a close.
func TestEveryCodeAnswers(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	served := map[wire.RequestCode]bool{}
	for _, row := range wire.SupportedCodes() {
		if row.Role == wire.RoleBroker {
			served[row.Code] = true
			switch row.Code {
			case wire.RequestSendMessage, wire.RequestSendMessageV2, wire.RequestSendBatchMessage, wire.RequestPullMessage, wire.RequestLitePullMessage,
				wire.RequestSendReplyMessage, wire.RequestSendReplyMessageV2:
			default:
				if b.processors[row.Code] == nil {
					t.Errorf("%s is in the table of served codes but has no processor", row.Name)
				}
			}
		}
	}
	for code := range b.processors {
		if !served[code] {
			t.Errorf("code %d has a processor but is not in the table of served codes", code)
		}
	}
	for code := wire.RequestCode(1); code < 200160; code++ {
		if code == 1100 {
			code = 200040
		}
		cmd := c.call(code, nil, nil)
		if unknown := wire.ResponseCode(cmd.Code) == wire.ResponseRequestCodeNotSupported; unknown == served[code] {
			t.Errorf("code %d: answer %d %s, served %v", code, cmd.Code, cmd.Remark, served[code])
		} else if unknown && string(cmd.Remark) != fmt.Sprintf(" request type %d not supported", code) {
			t.Errorf("code %d: remark %q", code, cmd.Remark)
		}
	}
	for _, code := range []wire.RequestCode{99999, -7} {
		if cmd := c.call(code, nil, nil); wire.ResponseCode(cmd.Code) != wire.ResponseRequestCodeNotSupported {
			t.Errorf("code %d: answer %d", code, cmd.Code)
		}
	}
	fast := dial(t, b.server.Addrs()[1].String(), wire.EncodingJSON)
	for code := range served {
		pops := code == wire.RequestPullMessage || code == wire.RequestLitePullMessage || code == wire.RequestPopLiteMessage
		if cmd := fast.call(code, nil, nil); pops != (wire.ResponseCode(cmd.Code) == wire.ResponseRequestCodeNotSupported) {
			t.Errorf("code %d on the VIP port: answer %d", code, cmd.Code)
		}
	}
}

// Case C17: pulls outside of a queue.
func TestPullOffsetsAnswerAsTheOriginal(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	for range 3 {
		c.mustSend(sendHeader("Bounds", 0, ""), []byte("x"))
	}
	c.drain("Bounds", 0, 0, 3)
	for _, tc := range []struct {
		queue  int32
		offset int64
		code   wire.ResponseCode
		next   string
	}{
		{0, 0, wire.ResponseSuccess, "3"}, {0, 2, wire.ResponseSuccess, "3"}, {0, 3, wire.ResponsePullNotFound, "3"},
		{0, 4, wire.ResponsePullOffsetMoved, "3"}, {0, 1003, wire.ResponsePullOffsetMoved, "3"}, {0, -1, wire.ResponsePullOffsetMoved, "0"},
		{0, 1 << 62, wire.ResponsePullOffsetMoved, "3"}, {1, 0, wire.ResponsePullNotFound, "0"}, {1, 5, wire.ResponsePullOffsetMoved, "0"},
	} {
		cmd := c.pull(pullHeader("Bounds", tc.queue, tc.offset, "*"))
		next, _ := cmd.GetExt("nextBeginOffset")
		if wire.ResponseCode(cmd.Code) != tc.code || string(next) != tc.next {
			t.Errorf("queue %d at %d: code %d next %s, want %d next %s", tc.queue, tc.offset, cmd.Code, next, tc.code, tc.next)
		}
	}
	if cmd := c.pull(pullHeader("Bounds", 99, 0, "*")); wire.ResponseCode(cmd.Code) != wire.ResponseInvalidParameter {
		t.Errorf("queue 99: code %d", cmd.Code)
	}
	if cmd := c.pull(pullHeader("Unknown", 0, 0, "*")); wire.ResponseCode(cmd.Code) != wire.ResponseTopicNotExist {
		t.Errorf("unknown topic: code %d", cmd.Code)
	}
}

// Tags are compared by hash: the matching ones and their hash twins come, the offset moves over the others.
func TestTagFilterSkipsAndMovesOn(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	for i := range 1000 {
		tag := "Other"
		switch i {
		case 10:
			tag = "Aa"
		case 20:
			tag = "BB" // the same hash
		case 990:
			tag = "Want"
		}
		c.mustSend(sendHeader("Tags", 0, "TAGS\x01"+tag+"\x02"), []byte(tag))
	}
	c.drain("Tags", 0, 0, 1000)
	var got []string
	offset, rounds := int64(0), 0
	for ; offset < 1000; rounds++ {
		cmd := c.pull(pullHeader("Tags", 0, offset, "Aa || Want"))
		for _, v := range records(t, cmd.Body) {
			got = append(got, string(v.Body))
		}
		next, _ := cmd.GetExt("nextBeginOffset")
		if _, err := fmt.Sscan(string(next), &offset); err != nil || rounds > 20 {
			t.Fatalf("next %q after %d rounds", next, rounds)
		}
	}
	if fmt.Sprint(got) != "[Aa BB Want]" {
		t.Errorf("got %v in %d pulls", got, rounds)
	}
}

// A held pull is answered by the message it waits for, and at its deadline when none comes.
func TestHeldPullWakesAndExpires(t *testing.T) {
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, smallFiles)...)
		c, producer := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
		producer.mustSend(sendHeader("Held", 0, ""), []byte("first"))
		c.drain("Held", 0, 0, 1)
		h := pullHeader("Held", 0, 1, "Want")
		h.SysFlag |= wire.PullSysFlagSuspend
		h.SuspendTimeoutMillis = 300
		began := time.Now()
		if cmd := c.pull(h); wire.ResponseCode(cmd.Code) != wire.ResponsePullNotFound {
			t.Fatalf("code %d", cmd.Code)
		}
		if took := time.Since(began); took < 300*time.Millisecond || took > 800*time.Millisecond { // 50 ms are promised
			t.Errorf("answered after %v", took)
		}
		h.SuspendTimeoutMillis = 20000
		c.write(wire.AppendPullRequest(nil, c.enc, wire.RequestPullMessage, c.next(), h))
		waitUntil(t, func() bool { return b.polls.Held() > 0 }) // the pull is on its way through a socket
		producer.mustSend(sendHeader("Held", 0, "TAGS\x01No\x02"), []byte("no"))
		producer.mustSend(sendHeader("Held", 0, "TAGS\x01Want\x02"), []byte("yes"))
		cmd := c.receive()
		if got := records(t, cmd.Body); cmd.Code != 0 || len(got) != 1 || string(got[0].Body) != "yes" {
			t.Errorf("code %d, %d records", cmd.Code, len(got))
		}
		// A connection that closes takes its held pulls along.
		c.write(wire.AppendPullRequest(nil, c.enc, wire.RequestPullMessage, c.next(), pullHeaderAt(h, 3)))
		waitUntil(t, func() bool { return b.polls.Held() > 0 })
		c.conn.Close()
		waitUntil(t, func() bool { return b.polls.Held() == 0 })
	})
}

func pullHeaderAt(h *wire.PullMessageHeader, offset int64) *wire.PullMessageHeader {
	moved := *h
	moved.QueueOffset = offset
	return &moved
}

// A stop after which the next start needs no recovery keeps everything: messages, topics, groups, offsets.
func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, sysio.OS{}, dir, smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	c.makeTopic("Kept", 4)
	for i := range 400 {
		c.mustSend(sendHeader("Kept", int32(i%4), ""), fmt.Appendf(nil, "m%d", i))
	}
	b.groups.LookupOrCreate("g")
	if cmd := c.call(wire.RequestUpdateConsumerOffset, &wire.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "g", Topic: "Kept", QueueID: 1, CommitOffset: 7}, nil); cmd.Code != 0 {
		t.Fatalf("commit: %d %s", cmd.Code, cmd.Remark)
	}
	if !b.stop() {
		t.Fatal("the stop was not clean")
	}
	b = startBroker(t, sysio.OS{}, dir, smallFiles)
	if !b.store.Recovery().Clean {
		t.Error("the start does not count as one after a clean stop")
	}
	c = dial(t, b.addr, wire.EncodingJSON)
	for q := range int32(4) {
		if got := c.drain("Kept", q, 0, 100); got[99] != fmt.Sprintf("m%d", 396+q) {
			t.Errorf("queue %d ends with %s", q, got[99])
		}
	}
	if off, ok := b.offsets.Query([]byte("g"), []byte("Kept"), 1); !ok || off != 7 {
		t.Errorf("offset %d %v", off, ok)
	}
	cmd := c.mustSend(sendHeader("Kept", 0, ""), []byte("next"))
	if off, _ := cmd.GetExt("queueOffset"); string(off) != "100" {
		t.Errorf("the next offset is %s", off)
	}
}
