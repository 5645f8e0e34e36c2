package wire

import (
	"net/netip"
	"testing"

	"peregrine/internal/message"
)

// sampleSend is what a Java client sends, as the header of SEND_MESSAGE_V2.
func sampleSend() *SendMessageHeader {
	return &SendMessageHeader{
		ProducerGroup: []byte("PGWjava550"), Topic: []byte("Wirejava550"), DefaultTopic: []byte("TBW102"),
		DefaultTopicQueueNums: 4, QueueID: 2, BornTimestamp: 1795984496992,
		Properties: []byte("KEYS\x01key1 key2\x02UNIQ_KEY\x01FD0000000000000000000000000000020F0C5FFD2B27949CB1600007\x02WAIT\x01true\x02TAGS\x01TagA\x02"),
		BrokerName: []byte("broker-a"),
	}
}

func samplePull() *PullMessageHeader {
	return &PullMessageHeader{
		ConsumerGroup: []byte("GWjava550Conc"), Topic: []byte("Wirejava550"), QueueID: 1, QueueOffset: 123456, MaxMsgNums: 32,
		SysFlag: PullSysFlagSuspend | PullSysFlagCommitOffset, CommitOffset: 123455, SuspendTimeoutMillis: 15000,
		SubVersion: 1795984777442, Subscription: []byte("TagA || TagB"), ExpressionType: []byte("TAG"), BrokerName: []byte("broker-a"),
	}
}

func sampleV1(enc Encoding) []byte {
	type v1 struct {
		ProducerGroup string `wire:"producerGroup"`
		Topic         string `wire:"topic"`
		DefaultTopic  string `wire:"defaultTopic"`
		QueueNums     int32  `wire:"defaultTopicQueueNums"`
		QueueID       int32  `wire:"queueId"`
		SysFlag       int32  `wire:"sysFlag"`
		Born          int64  `wire:"bornTimestamp"`
		Flag          int32  `wire:"flag"`
		Properties    string `wire:"properties"`
		Reconsume     int32  `wire:"reconsumeTimes"`
		UnitMode      bool   `wire:"unitMode"`
		Max           int32  `wire:"maxReconsumeTimes"`
		Batch         bool   `wire:"batch"`
	}
	h := sampleSend()
	return AppendRequest(nil, enc, RequestSendMessage, 7, 0, LanguageGo, 317, v1{ProducerGroup: string(h.ProducerGroup),
		Topic: string(h.Topic), DefaultTopic: string(h.DefaultTopic), QueueNums: 4, QueueID: 2, Born: h.BornTimestamp,
		Properties: string(h.Properties)}, make([]byte, 128))
}

var bothEncodings = []Encoding{EncodingJSON, EncodingBinary}

// TestHotFunctionsDoNotAllocate covers every function marked hot, in both encodings.
func TestHotFunctionsDoNotAllocate(t *testing.T) {
	var d Decoder
	var c Command
	var send SendMessageHeader
	var pull PullMessageHeader
	var pullResponse PullMessageResponse
	dst := make([]byte, 0, 8192)
	body := make([]byte, 128)
	host := message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))
	sendAnswer := &SendMessageResponse{StoreHost: host, PhyOffsets: []message.PhyOffset{1, 2}, QueueID: 1, QueueOffset: 99,
		TransactionID: []byte("FD0000000000000000000000000000020F0C5FFD2B27949CB1600007"), Region: "DefaultRegion", TraceOn: "true"}
	pullAnswer := &PullMessageResponse{NextBeginOffset: 7, MaxOffset: 7}
	for _, enc := range bothEncodings {
		sendFrame := AppendSendRequestV2(nil, enc, 1, 0, sampleSend(), body)[4:]
		v1Frame := sampleV1(enc)[4:]
		pullFrame := AppendPullRequest(nil, enc, RequestPullMessage, 1, samplePull())[4:]
		answerFrame := AppendPullResponse(nil, enc, 1, ResponseSuccess, "FOUND", pullAnswer, 0)[4:]
		for name, f := range map[string]func() error{
			"send V2": func() error {
				if err := d.Decode(sendFrame, &c); err != nil {
					return err
				}
				return send.DecodeV2(&c)
			},
			"send V1": func() error {
				if err := d.Decode(v1Frame, &c); err != nil {
					return err
				}
				return send.DecodeV1(&c)
			},
			"pull": func() error {
				if err := d.Decode(pullFrame, &c); err != nil {
					return err
				}
				return pull.Decode(&c)
			},
			"pull answer": func() error {
				if err := d.Decode(answerFrame, &c); err != nil {
					return err
				}
				return pullResponse.Decode(&c)
			},
			"iterate": func() error {
				if err := d.Decode(sendFrame, &c); err != nil {
					return err
				}
				for it := c.Ext(); ; {
					if _, _, ok := it.Next(); !ok {
						break
					}
				}
				c.GetExt("b")
				return nil
			},
			"AppendSendResponse": func() error {
				AppendSendResponse(dst, enc, 1, ResponseSuccess, "", sendAnswer)
				return nil
			},
			"AppendPullResponse": func() error {
				AppendPullResponse(dst, enc, 1, ResponseSuccess, "FOUND", pullAnswer, 100)
				return nil
			},
			"AppendSendRequestV2": func() error {
				AppendSendRequestV2(dst, enc, 1, 0, &send, body)
				return nil
			},
			"AppendPullRequest": func() error {
				AppendPullRequest(dst, enc, RequestPullMessage, 1, &pull)
				return nil
			},
		} {
			var err error
			if n := testing.AllocsPerRun(200, func() { err = f() }); n != 0 || err != nil {
				t.Errorf("%v %s: %v allocations, %v", enc, name, n, err)
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	body := make([]byte, 128)
	for _, enc := range bothEncodings {
		sendFrame := AppendSendRequestV2(nil, enc, 1, 0, sampleSend(), body)[4:]
		pullFrame := AppendPullRequest(nil, enc, RequestPullMessage, 1, samplePull())[4:]
		var d Decoder
		var c Command
		b.Run("send/"+enc.String(), func(b *testing.B) {
			var h SendMessageHeader
			b.ReportAllocs()
			for b.Loop() {
				_ = d.Decode(sendFrame, &c)
				_ = h.DecodeV2(&c)
			}
		})
		b.Run("pull/"+enc.String(), func(b *testing.B) {
			var h PullMessageHeader
			for b.Loop() {
				_ = d.Decode(pullFrame, &c)
				_ = h.Decode(&c)
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	dst := make([]byte, 0, 8192)
	answer := &SendMessageResponse{StoreHost: message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911")),
		PhyOffsets: []message.PhyOffset{77}, QueueOffset: 99, Region: "DefaultRegion", TraceOn: "true",
		TransactionID: []byte("FD0000000000000000000000000000020F0C5FFD2B27949CB1600007")}
	send, body := sampleSend(), make([]byte, 128)
	for _, enc := range bothEncodings {
		b.Run("sendResponse/"+enc.String(), func(b *testing.B) {
			for b.Loop() {
				AppendSendResponse(dst, enc, 1, ResponseSuccess, "", answer)
			}
		})
		b.Run("sendRequest/"+enc.String(), func(b *testing.B) {
			for b.Loop() {
				AppendSendRequestV2(dst, enc, 1, 0, send, body)
			}
		})
	}
}
