package broker

import (
	"fmt"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
	"peregrine/wire/wiretest"
)

// Captured sends and pulls of the Java and Go clients and of mqadmin to a 5.5.0 broker get answers of the same shape. What is there
// to pull is made as the captured answer says. (All other codes: broker/control. Left out: pulls by SQL92, and those that would be held.)
func TestSendsAndPullsAreAnsweredAsByTheOriginal(t *testing.T) {
	exchanges, err := wiretest.Load("testdata/frames.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if len(exchanges) < 50 {
		t.Fatalf("%d exchanges", len(exchanges))
	}
	for i, e := range exchanges {
		request, err := wiretest.Decode(e.Request)
		if err != nil {
			t.Fatal(err)
		}
		want, err := wiretest.Decode(e.Response)
		if err != nil {
			t.Fatal(err)
		}
		b := startBroker(t, sysio.NewFaultFS(), fmt.Sprint("store", i), "mappedFileSizeCommitLog=65536", "maxMessageSize=16384")
		c := dial(t, b.addr, request.Encoding)
		switch wire.RequestCode(e.Code) {
		case wire.RequestPullMessage:
			c.makeWhatIsPulled(b, request, want)
		case wire.RequestSendBatchMessage:
			var h wire.SendMessageHeader
			if err := h.DecodeV2(request); err != nil {
				t.Fatal(err)
			}
			c.makeTopic(string(h.Topic), 8)
		case wire.RequestSendReplyMessageV2:
			takeReply(t, b, request)
		}
		c.write(e.Request)
		answer := c.receive()
		for !answer.IsResponse() {
			answer = c.receive()
		}
		got, expected := wiretest.Shape(answer, "table"), wiretest.Shape(want, "table")
		if wire.RequestCode(e.Code) == wire.RequestPullMessage && answer.Code != int32(wire.ResponseSubscriptionNotLatest) {
			got, expected = got+" "+string(answer.Remark), expected+" "+string(want.Remark)
		}
		if got != expected || answer.Opaque != request.Opaque {
			t.Errorf("%s, code %d:\n got %s\nwant %s", e.Client, e.Code, got, expected)
		}
		c.conn.Close()
		b.stop()
	}
}

// takeReply connects the client that a reply is for, and takes the reply.
func takeReply(t *testing.T, b *testBroker, reply *wire.Command) {
	t.Helper()
	var h wire.SendMessageHeader
	if err := h.DecodeV2(reply); err != nil {
		t.Fatal(err)
	}
	var properties message.PropertyMap
	properties.Parse(h.Properties)
	requester := dial(t, b.addr, wire.EncodingJSON)
	requester.request(wire.RequestHeartBeat, fmt.Appendf(nil, `{"clientID":%q,"producerDataSet":[{"groupName":"p"}]}`, properties.Get(message.PropertyReplyToClient)))
	go func() {
		if pushed, err := requester.tryReceive(waitMax); err == nil {
			_, _ = requester.conn.Write(wire.AppendCommand(nil, &wire.Command{Encoding: wire.EncodingJSON, Opaque: pushed.Opaque, Flag: 1}))
		}
	}()
}

// makeWhatIsPulled makes the topic, the group and the messages of a pull that was answered so.
func (c *client) makeWhatIsPulled(b *testBroker, request, answer *wire.Command) {
	c.t.Helper()
	var h wire.PullMessageHeader
	if err := h.Decode(request); err != nil {
		c.t.Fatal(err)
	}
	topic := string(h.Topic)
	c.makeTopic(topic, 8)
	b.groups.LookupOrCreate(string(h.ConsumerGroup))
	tag, version := "TagA", int(h.SubVersion)
	count := int64(1)
	switch status := string(answer.Remark); {
	case wire.ResponseCode(answer.Code) == wire.ResponseSubscriptionNotLatest:
		version--
	case status == statusNames[statusFound]:
		count = h.QueueOffset + 1
	case status == "NO_MATCHED_MESSAGE":
		tag, count = "Other", h.QueueOffset+1
	case status == "OFFSET_OVERFLOW_ONE":
		count = h.QueueOffset
	case status == "NO_MESSAGE_IN_QUEUE":
		count = 0
	}
	if h.SysFlag&wire.PullSysFlagSubscription == 0 {
		c.join(string(h.ConsumerGroup), "member", topic, "TagA", version)
	}
	for range count {
		c.mustSend(sendHeader(topic, h.QueueID, "TAGS\x01"+tag+"\x02"), []byte("m"))
	}
	if count > 0 {
		waitUntil(c.t, func() bool {
			q := b.store.LookupQueue(h.Topic, message.QueueID(h.QueueID))
			return q != nil && int64(q.Max()) == count
		})
	}
}
