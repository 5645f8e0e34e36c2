package broker

import (
	"slices"
	"strings"
	"testing"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// A pull that is held while an administrator resets the group's offset is told at once, and only once.
func TestAHeldPullIsToldOfAReset(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir())
	admin, consumer := dial(t, b.addr, wire.EncodingBinary), dial(t, b.addr, wire.EncodingBinary)
	admin.makeTopic("Reset", 1)
	for range 3 {
		admin.mustSend(sendHeader("Reset", 0, ""), []byte("m"))
	}
	consumer.drain("Reset", 0, 0, 3)
	h := pullHeader("Reset", 0, 3, "*")
	h.SysFlag |= wire.PullSysFlagSuspend | wire.PullSysFlagCommitOffset
	h.CommitOffset = 3
	h.SuspendTimeoutMillis = 60_000
	consumer.write(wire.AppendPullRequest(nil, wire.EncodingBinary, wire.RequestPullMessage, 77, h))
	waitUntil(t, func() bool { return b.polls.Held() > 0 })
	if cmd := admin.call(wire.RequestInvokeBrokerToResetOffset, wire.ResetOffsetRequestHeader{Topic: "Reset", Group: string(h.ConsumerGroup), Timestamp: 0}, nil); cmd.Code != 0 {
		t.Fatalf("%d %s", cmd.Code, cmd.Remark)
	}
	cmd := consumer.receive()
	next, _ := cmd.GetExt("nextBeginOffset")
	if wire.ResponseCode(cmd.Code) != wire.ResponsePullOffsetMoved || string(next) != "0" || string(cmd.Remark) != "OFFSET_RESET" {
		t.Errorf("the held pull: %d %s, next %s", cmd.Code, cmd.Remark, next)
	}
	if offset, _ := b.offsets.Query(h.ConsumerGroup, h.Topic, 0); offset != 0 {
		t.Errorf("the group stands at %d", offset)
	}
	h.QueueOffset = 0
	if cmd := consumer.pull(h); cmd.Code != 0 {
		t.Errorf("the next pull: %d %s", cmd.Code, cmd.Remark)
	}
}

// A request that waits for a client is answered with what the client says, through both connections' loops.
func TestACallGoesToTheClientAndBack(t *testing.T) {
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), settings...)
		admin, consumer := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
		beat := []byte(`{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING"}]}`)
		consumer.write(wire.AppendRequest(nil, wire.EncodingJSON, wire.RequestHeartBeat, 1, 0, wire.LanguageJava, wire.Version, nil, beat))
		for cmd := consumer.receive(); !cmd.IsResponse(); cmd = consumer.receive() { // the group is told of its own change
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			request := consumer.receive()
			for wire.RequestCode(request.Code) == wire.RequestNotifyConsumerIDsChanged {
				request = consumer.receive()
			}
			answer := &wire.Command{Encoding: wire.EncodingJSON, Code: 0, Opaque: request.Opaque, Flag: 1, Version: wire.Version, Body: []byte(`{"it":"is me"}`)}
			consumer.write(wire.AppendCommand(nil, answer))
		}()
		header := wire.GetConsumerRunningInfoRequestHeader{ConsumerGroup: "g", ClientID: "c"}
		if cmd := admin.call(wire.RequestGetConsumerRunningInfo, header, nil); cmd.Code != 0 || string(cmd.Body) != `{"it":"is me"}` {
			t.Errorf("%d %s %s", cmd.Code, cmd.Remark, cmd.Body)
		}
		<-done
		consumer.conn.Close()
		waitUntil(t, func() bool { return b.Stats().ClientConnections == 0 })
		if cmd := admin.call(wire.RequestGetConsumerRunningInfo, header, nil); cmd.Code != 1 {
			t.Errorf("of a client that is gone: %d %s", cmd.Code, cmd.Remark)
		}
		if s := b.relay.Stats(); s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// replyHeader is the header of a reply (code 324) to the reply topic.
func replyHeader(properties string) any {
	return struct {
		ProducerGroup string `wire:"producerGroup"`
		Topic         string `wire:"topic"`
		DefaultTopic  string `wire:"defaultTopic"`
		QueueNums     int32  `wire:"defaultTopicQueueNums"`
		QueueID       int32  `wire:"queueId"`
		SysFlag       int32  `wire:"sysFlag"`
		Born          int64  `wire:"bornTimestamp"`
		Flag          int32  `wire:"flag"`
		Properties    string `wire:"properties"`
	}{"p", "DefaultCluster_REPLY_TOPIC", "TBW102", 4, 0, 0, 5, 7, properties}
}

// The reply is at its requester before the replier has its answer; it is stored either way.
func TestReplies(t *testing.T) {
	for _, mode := range []string{"flushDiskType=ASYNC_FLUSH", syncFlush} {
		b := startBroker(t, sysio.NewFaultFS(), "store", mode)
		requester, replier := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingBinary)
		if cmd := requester.call(wire.RequestHeartBeat, nil, []byte(`{"clientID":"asks","producerDataSet":[{"groupName":"p"}]}`)); cmd.Code != 0 {
			t.Fatal(cmd.Code)
		}
		const properties = "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01asks\x02UNIQ_KEY\x01FD00\x02CORRELATION_ID\x01c\x02"
		got := make(chan string, 1)
		go func() {
			request := requester.receive()
			text, _ := request.GetExt("properties")
			flag, _ := request.GetExt("flag")
			got <- string(text) + "|" + string(flag) + "|" + string(request.Body)
			requester.write(wire.AppendCommand(nil, &wire.Command{Encoding: wire.EncodingJSON, Opaque: request.Opaque, Flag: 1}))
		}()
		cmd := replier.call(wire.RequestSendReplyMessage, replyHeader(properties), []byte("the reply"))
		id, _ := cmd.GetExt("msgId")
		if cmd.Code != 0 || len(id) != 32 {
			t.Errorf("%s: %d %s id %s", mode, cmd.Code, cmd.Remark, id)
		}
		select {
		case pushed := <-got:
			for _, part := range []string{"PUSH_REPLY_TIME\x01", "CORRELATION_ID\x01c", "MSG_REGION\x01DefaultRegion", "TRACE_ON\x01true", "|7|the reply"} {
				if !strings.Contains(pushed, part) {
					t.Errorf("%s: the requester got %q, which lacks %q", mode, pushed, part)
				}
			}
		default:
			t.Errorf("%s: the answer came before the requester had the reply", mode)
		}
		cmd = replier.call(wire.RequestSendReplyMessage, replyHeader(strings.Replace(properties, "asks", "nobody", 1)), []byte("to nobody"))
		if cmd.Code != 1 || string(cmd.Remark) != "push reply message fail, channel of <nobody> not found." {
			t.Errorf("%s: %d %s", mode, cmd.Code, cmd.Remark)
		}
		cmd = replier.call(wire.RequestSendReplyMessage, replyHeader("MSG_TYPE\x01reply\x02"), []byte("to whom"))
		if cmd.Code != 1 || string(cmd.Remark) != "reply message properties[REPLY_TO_CLIENT] is null" {
			t.Errorf("%s: %d %s", mode, cmd.Code, cmd.Remark)
		}
		if stored := replier.drain("DefaultCluster_REPLY_TOPIC", 0, 0, 3); !slices.Equal(stored, []string{"the reply", "to nobody", "to whom"}) {
			t.Errorf("%s: stored %q", mode, stored)
		}
		// What 5.5.0 stores of the same properties.
		for i, c := range [][2]string{
			{"MSG_TYPE=reply|REPLY_TO_CLIENT=gone|", "MSG_REGION=DefaultRegion|MSG_TYPE=reply|REPLY_TO_CLIENT=gone|TRACE_ON=true|"},
			{"MSG_TYPE=reply|REPLY_TO_CLIENT=gone|UNIQ_KEY=FD00|CORRELATION_ID=c|",
				"MSG_REGION=DefaultRegion|UNIQ_KEY=FD00|CORRELATION_ID=c|MSG_TYPE=reply|REPLY_TO_CLIENT=gone|TRACE_ON=true|"},
			{"MSG_TYPE=reply|REPLY_TO_CLIENT=nobody|A=1|A=2|MSG_REGION=x|CLUSTER=y|TRACE_ON=false|POP_CK=z|",
				"MSG_REGION=DefaultRegion|CLUSTER=y|MSG_TYPE=reply|POP_CK=z|A=2|REPLY_TO_CLIENT=nobody|TRACE_ON=true|"},
			{"", "MSG_REGION=DefaultRegion|TRACE_ON=true|"},
		} {
			sent := strings.NewReplacer("=", "\x01", "|", "\x02").Replace(c[0])
			replier.call(wire.RequestSendReplyMessage, replyHeader(sent), []byte("like"))
			replier.drain("DefaultCluster_REPLY_TOPIC", 0, int64(3+i), 1)
			cmd := replier.pull(pullHeader("DefaultCluster_REPLY_TOPIC", 0, int64(3+i), "*"))
			if got := plain(records(t, cmd.Body)[0].Properties); got != c[1] {
				t.Errorf("%s: stored %s, want %s", mode, got, c[1])
			}
		}
		if failed := b.Stats().RepliesFailed; failed != 6 {
			t.Errorf("%s: %d failed", mode, failed)
		}
	}
}
