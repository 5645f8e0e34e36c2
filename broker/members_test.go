package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// A client that is gone without a word (case C20) leaves the list of its group when it was silent for too long. The pulls that it
// left behind swallow nothing: they go with it, and the next message comes to who is still there.
func TestAVanishedClientSwallowsNothing(t *testing.T) {
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, smallFiles, "channelExpiredTimeout=1000")...)
		gone, there, producer := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
		producer.makeTopic("T", 1)
		gone.join("g", "gone", "T", "*", 1)
		joined := time.Now()
		pull := heldPullHeader("T", 0, 0, "*")
		pull.ConsumerGroup = []byte("g")
		for i := range int32(3) {
			gone.write(wire.AppendPullRequest(nil, gone.enc, wire.RequestPullMessage, 100+i, pull))
		}
		waitUntil(t, func() bool { return b.polls.Held() == 3 })
		b.clients.Scan(now())
		if ids := b.clients.ConsumerIDs("g"); !slices.Equal(ids, []string{"gone"}) {
			t.Fatalf("before its time: %v", ids)
		}
		waitUntil(t, func() bool { return time.Since(joined) > 1100*time.Millisecond })
		there.join("g", "there", "T", "*", 1)
		b.clients.Scan(now())
		if ids := b.clients.ConsumerIDs("g"); !slices.Equal(ids, []string{"there"}) {
			t.Errorf("members: %v", ids)
		}
		waitUntil(t, func() bool { return b.polls.Held() == 0 })
		there.write(wire.AppendPullRequest(nil, there.enc, wire.RequestPullMessage, 200, pull))
		waitUntil(t, func() bool { return b.polls.Held() == 1 })
		producer.mustSend(sendHeader("T", 0, ""), []byte("m"))
		for {
			cmd := there.receive()
			if !cmd.IsResponse() {
				continue // the group's change
			}
			if got := records(t, cmd.Body); cmd.Opaque != 200 || len(got) != 1 {
				t.Errorf("answer to %d: code %d, %d messages", cmd.Opaque, cmd.Code, len(got))
			}
			break
		}
		// What the vanished one gets to see, should it come back, is the end of its connection and no message.
		for {
			cmd, err := gone.tryReceive(waitMax)
			if err != nil {
				break
			}
			if cmd.IsResponse() {
				t.Errorf("its pull %d was answered: code %d", cmd.Opaque, cmd.Code)
			}
		}
	})
}

// Queue locks over connections (case C11): who is killed or unlocks makes way at once, who is silent does not.
func TestQueueLocksChangeHandsAtOnce(t *testing.T) {
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, smallFiles)...)
		one, two := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
		one.makeTopic("T", 8)
		var queues []string
		for i := range 8 {
			queues = append(queues, fmt.Sprintf(`{"brokerName":"test","queueId":%d,"topic":"T"}`, i))
		}
		body := func(id string) []byte {
			return []byte(`{"clientId":"` + id + `","consumerGroup":"g","mqSet":[` + strings.Join(queues, ",") + `]}`)
		}
		lock := func(c *client, id string) int {
			cmd := c.call(wire.RequestLockBatchMQ, nil, body(id))
			if cmd.Code != 0 {
				t.Fatalf("%d %s", cmd.Code, cmd.Remark)
			}
			return strings.Count(string(cmd.Body), "queueId")
		}
		if n := lock(one, "one"); n != 8 {
			t.Fatalf("one got %d of 8", n)
		}
		for range 3 {
			if n := lock(two, "two"); n != 0 {
				t.Fatalf("two got %d queues of one", n)
			}
		}
		one.conn.Close()
		closed := time.Now()
		waitUntil(t, func() bool { return lock(two, "two") == 8 })
		if took := time.Since(closed); took > 10*time.Second {
			t.Errorf("two waited %v after the connection was closed", took)
		}
		three := dial(t, b.addr, wire.EncodingJSON)
		if n := lock(three, "three"); n != 0 {
			t.Fatalf("three got %d queues of two", n)
		}
		if cmd := two.call(wire.RequestUnlockBatchMQ, nil, body("two")); cmd.Code != 0 {
			t.Fatalf("%d %s", cmd.Code, cmd.Remark)
		}
		if n := lock(three, "three"); n != 8 {
			t.Errorf("three got %d of 8 at the first try after the unlock", n)
		}
	})
}

// A client in a language that nobody has heard of is served like any other (case W09), in both header forms.
func TestEveryLanguageIsServed(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	dial(t, b.addr, wire.EncodingJSON).makeTopic("T", 1)
	sent := int64(0)
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		for _, language := range []wire.Language{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 99, 255} {
			c := dial(t, b.addr, enc)
			id := fmt.Sprintf("%v-%d", enc, language)
			ask := func(code wire.RequestCode, header any, body []byte) *wire.Command {
				c.write(wire.AppendRequest(nil, enc, code, c.next(), 0, language, wire.Version, header, body))
				for {
					if cmd := c.receive(); cmd.IsResponse() {
						if cmd.Code != 0 || cmd.Opaque != c.opaque {
							t.Fatalf("%s, code %d: %d %s", id, code, cmd.Code, cmd.Remark)
						}
						return cmd
					}
				}
			}
			ask(wire.RequestHeartBeat, nil, []byte(`{"clientID":"`+id+`","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY",`+
				`"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":"T","subString":"*","subVersion":1}]}]}`))
			list := ask(wire.RequestGetConsumerConnectionList, wire.ConsumerGroupRequestHeader{ConsumerGroup: "g"}, nil)
			if !strings.Contains(string(list.Body), `"clientId":"`+id+`"`) {
				t.Errorf("%s is not in %s", id, list.Body)
			}
			ask(wire.RequestSendMessageV2, struct {
				Group    string `wire:"a"`
				Topic    string `wire:"b"`
				Template string `wire:"c"`
				Queues   int32  `wire:"d"`
				QueueID  int32  `wire:"e"`
				SysFlag  int32  `wire:"f"`
				Born     int64  `wire:"g"`
				Flag     int32  `wire:"h"`
			}{"p", "T", "TBW102", 4, 0, 0, 1, 0}, []byte(id))
			if got := c.drain("T", 0, sent, 1); got[0] != id {
				t.Errorf("%s gets %q", id, got[0])
			}
			sent++
			c.conn.Close()
		}
	}
	// A name that is no language at all.
	c := dial(t, b.addr, wire.EncodingJSON)
	header := `{"code":30,"extFields":{"topic":"T","queueId":"0"},"flag":0,"language":"KLINGON","opaque":7,"version":1}`
	c.write(append([]byte{0, 0, 0, byte(4 + len(header)), 0, 0, 0, byte(len(header))}, header...))
	if cmd := c.receive(); cmd.Code != 0 || cmd.Opaque != 7 {
		t.Errorf("%d %s", cmd.Code, cmd.Remark)
	}
}
