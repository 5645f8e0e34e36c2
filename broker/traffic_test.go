package broker

import (
	"strings"
	"testing"

	"peregrine/broker/stats"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// What brokerStatus, statsAll and code 315 count of messages that take more than one step is what 5.5.0 counted of the same requests:
// each stored record for the topic that it lies in, sums without system topics.
func TestTrafficIsCountedWhereTheRecordsLie(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", append([]string{"messageDelayLevel=1s 2h"}, quickChecks...)...)
	c := transactional{dial(t, b.addr, wire.EncodingJSON)}
	for _, topic := range []string{"Plain", "Soon", "Later", "Open", "Done", "Undone"} {
		c.makeTopic(topic, 1)
	}
	value := func(kind stats.Kind, key string) int64 {
		if item := b.stats.Find(kind, key); item != nil {
			return item.Value()
		}
		return 0
	}
	c.mustSend(sendHeader("Plain", 0, ""), []byte("0"))
	c.mustSend(sendHeader("Plain", 0, ""), []byte("1"))
	c.mustSend(sendHeader("Soon", 0, "DELAY\x011\x02"), []byte("soon"))
	c.mustSend(sendHeader("Later", 0, "DELAY\x012\x02"), []byte("later"))
	c.begin("Open", 0, "open", "CHECK_IMMUNITY_TIME_IN_SECONDS\x013600\x02")
	c.end(c.begin("Done", 0, "done", ""), message.SysFlagTransactionCommit)
	c.end(c.begin("Undone", 0, "undone", ""), message.SysFlagTransactionRollback)
	back := func(v message.View, level int32) {
		t.Helper()
		h := wire.ConsumerSendMsgBackRequestHeader{Offset: int64(v.PhyOffset), Group: "G", OriginTopic: "Plain", DelayLevel: level}
		if cmd := c.call(wire.RequestConsumerSendMsgBack, &h, nil); cmd.Code != 0 {
			t.Fatalf("code %d %s", cmd.Code, cmd.Remark)
		}
	}
	back(c.at("Plain", 0, 0), 1)
	back(c.at("Plain", 0, 1), -1)
	back(c.first("%RETRY%G", 0), 1)
	c.first("Soon", 0)
	c.first("Done", 0)
	c.at("%RETRY%G", 0, 1)
	waitUntil(t, func() bool { return value(stats.TopicPutNums, "RMQ_SYS_TRANS_OP_HALF_TOPIC") > 0 })
	if cmd := c.call(wire.RequestSendReplyMessage, replyHeader("REPLY_TO_CLIENT\x01nobody\x02"), []byte("r")); cmd.Code != 1 {
		t.Fatalf("reply to nobody: %d %s", cmd.Code, cmd.Remark)
	}
	for topic, want := range map[string]int64{"Plain": 2, "Soon": 1, "Later": 0, "Open": 0, "Done": 1, "Undone": 0, "%RETRY%G": 2, "%DLQ%G": 0,
		message.ScheduleTopic: 4, "DefaultCluster_REPLY_TOPIC": 1} {
		if got := value(stats.TopicPutNums, topic); got != want {
			t.Errorf("%s: %d, want %d", topic, got, want)
		}
		if size := value(stats.TopicPutSize, topic); size > 0 != (want > 0) {
			t.Errorf("%s: %d bytes", topic, size)
		}
	}
	if got := value(stats.TopicPutNums, "RMQ_SYS_TRANS_HALF_TOPIC"); got < 3 { // copies of the open one come with the rounds
		t.Errorf("halves: %d", got)
	}
	if got := value(stats.SendBackNums, "Plain@G"); got != 3 {
		t.Errorf("sent back: %d, want 3", got)
	}
	// Plain, Soon, Done, two retries; the reply topic is one of the system's.
	if got := b.userPuts.Value(); got != 6 {
		t.Errorf("messages of users: %d, want 6", got)
	}
	if all, users := b.brokerPuts.Value(), b.userPuts.Value(); all < users+2+3+1 {
		t.Errorf("all messages: %d, those of users %d", all, users)
	}
	info := string(c.call(wire.RequestGetBrokerRuntimeInfo, nil, nil).Body)
	if !strings.Contains(info, `"msgPutTotalTodayNow":"6"`) {
		t.Errorf("brokerStatus says: %s", info)
	}
}
