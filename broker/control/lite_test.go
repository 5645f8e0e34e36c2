package control

import (
	"strings"
	"testing"

	"peregrine/wire"
)

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
