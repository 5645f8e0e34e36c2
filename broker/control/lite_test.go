package control

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"peregrine/netio"
	"peregrine/wire"
	"peregrine/wire/wiretest"
)

// replay asks everything that an original 5.5.0 with its default settings was asked, in that order and beginning with as
// little, and compares the answers: code, remark, ext fields and body. The client of an exchange is its connection.
func replay(t *testing.T, path string) map[wire.RequestCode]int {
	t.Helper()
	exchanges, err := wiretest.Load(path)
	must(t, err)
	b := newBench(t)
	compared := map[wire.RequestCode]int{}
	for _, e := range exchanges {
		code := wire.RequestCode(e.Code)
		request, err := wiretest.Decode(e.Request)
		must(t, err)
		if code == wire.RequestSendMessageV2 {
			b.send(fieldOf(request)("b"), 0, string(request.Body))
			continue
		}
		reply := wire.Reply{Code: wire.ResponseRequestCodeNotSupported, Remark: " request type " + strconv.Itoa(int(e.Code)) + " not supported"} // what the broker says
		if process := b.processors[code]; process != nil {
			reply = b.run(process, &Request{Cmd: request, Ref: netio.ConnRef{Slot: uint32(e.Client[len(e.Client)-1]), Gen: 1}, Remote: netip.MustParseAddrPort("127.0.0.1:40000")})
		}
		answer, err := wiretest.Decode(wire.AppendReply(nil, request.Encoding, request.Opaque, &reply))
		must(t, err)
		want, err := wiretest.Decode(e.Response)
		must(t, err)
		if code == wire.RequestHeartBeat {
			continue // made the members, compared elsewhere
		}
		compared[code]++
		if got, want := said(answer), said(want); got != want {
			t.Errorf("code %d %s%s\n got %s\nwant %s", e.Code, extOf(request), request.Body, got, want)
		}
	}
	return compared
}

// said describes an answer in full. Left out are the time, the number of queues that an idle broker has, and the remarks that
// say nothing or are a Java exception.
func said(c *wire.Command) string {
	remark := string(c.Remark)
	if c.Code == int32(wire.ResponseSystemError) && !strings.HasSuffix(remark, "is not exist!") || remark == "not set any response code" {
		remark = ""
	}
	body := string(c.Body)
	if standard, err := wire.StandardJSON(c.Body); err == nil && len(c.Body) > 0 {
		var v any
		if json.Unmarshal(standard, &v) == nil {
			if object, ok := v.(map[string]any); ok {
				delete(object, "cqTableSize")
				if set, ok := object["messageQueueAssignments"].([]any); ok { // of a hash set
					slices.SortFunc(set, func(a, b any) int { return strings.Compare(asJSON(a), asJSON(b)) })
				}
			}
			body = asJSON(v)
		}
	}
	return strconv.Itoa(int(c.Code)) + " " + remark + " " + extOf(c) + body
}

func extOf(c *wire.Command) string {
	fields := map[string]string{}
	for it := c.Ext(); ; {
		key, value, ok := it.Next()
		if !ok {
			break
		}
		if fields[string(key)] = string(value); string(key) == "popTime" && len(value) > 1 {
			fields["popTime"] = "now"
		}
	}
	return asJSON(fields)
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func TestLiteTopicsAreAnsweredAsByAnOriginalThatHasThemOff(t *testing.T) {
	compared := replay(t, "testdata/lite.jsonl")
	for code := wire.RequestPopLiteMessage; code <= wire.RequestTriggerLiteDispatch; code++ {
		if compared[code] == 0 && code != 200072 && code != 200073 {
			t.Errorf("code %d was not compared", code)
		}
	}
}

// What the original does in memory and this broker does not do at all is refused, whatever stands before it in the list.
func TestLiteSubscriptionsAreRefusedNotForgotten(t *testing.T) {
	b := newBench(t)
	add := `{"action":"PARTIAL_ADD","clientId":"c","group":"G","topic":"TL","liteTopicSet":["l"]}`
	remove := strings.Replace(add, "PARTIAL_ADD", "PARTIAL_REMOVE", 1)
	for _, list := range []string{add, remove + "," + add, strings.Replace(add, "PARTIAL", "COMPLETE", 1)} {
		b.expect(list, b.ask(wire.RequestLiteSubscriptionCtl, `{"subscriptionSet":[`+list+`]}`), wire.ResponseIllegalOperation, "lite subscriptions are not kept", "")
	}
	b.expect(remove, b.ask(wire.RequestLiteSubscriptionCtl, `{"subscriptionSet":[`+remove+`]}`), wire.ResponseSuccess, "", "")
}

// A client that polls a lite topic would ask again and again if it were answered at once.
func TestPopsOfLiteTopicsWait(t *testing.T) {
	b := newBench(t, "shortPollingTimeMills=1")
	b.expect("topic", b.ask(wire.RequestUpdateAndCreateTopic, "", "topic", "TL", "defaultTopic", "", "readQueueNums", "1", "writeQueueNums", "1", "perm", "6",
		"topicFilterType", "SINGLE_TAG", "order", "false", "attributes", "+message.type=LITE"), 0, "", "")
	b.expect("group", b.ask(wire.RequestUpdateAndCreateSubscriptionGroup, `{"groupName":"GL","consumeEnable":true,"attributes":{"+lite.bind.topic":"TL"}}`), 0, "", "")
	for pollTime, waits := range map[string]bool{"0": false, "600000": true} {
		var answers chan wire.Reply
		reply := b.processors[wire.RequestPopLiteMessage](&Request{Cmd: b.command(wire.RequestPopLiteMessage, "", "clientId", "c", "consumerGroup", "GL", "topic", "TL",
			"pollTime", pollTime), Later: func() func(wire.Reply) {
			answers = make(chan wire.Reply, 1)
			return func(reply wire.Reply) { answers <- reply }
		}})
		if reply.None != waits || waits != (answers != nil) {
			t.Errorf("pollTime %s: %+v", pollTime, reply)
		}
		if waits {
			reply = <-answers
		}
		b.expect(pollTime, reply, wire.ResponsePollingTimeout, "NO_MESSAGE_IN_QUEUE", "")
	}
	closed := newBench(t, "brokerPermission=2")
	closed.expect("closed", closed.ask(wire.RequestPopLiteMessage, "", "clientId", "c", "consumerGroup", "GL", "topic", "TL"), wire.ResponseNoPermission,
		"the broker[127.0.0.1] pop message is forbidden", "")
}
