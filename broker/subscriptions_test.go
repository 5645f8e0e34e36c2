package broker

import (
	"fmt"
	"strings"
	"testing"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// join makes the connection a member of a consumer group that subscribes one topic.
func (c *client) join(group, id, topic, expression string, version int) {
	c.t.Helper()
	body := fmt.Sprintf(`{"clientID":%q,"consumerDataSet":[{"groupName":%q,"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",`+
		`"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":%q,"subString":%q,"tagsSet":[%q],"codeSet":[],"subVersion":%d}]}]}`,
		id, group, topic, expression, expression, version)
	c.request(wire.RequestHeartBeat, []byte(body))
}

// request sends a request without a header and reads until its answer: the broker may tell this client something in between.
func (c *client) request(code wire.RequestCode, body []byte) {
	c.t.Helper()
	c.write(wire.AppendRequest(nil, c.enc, code, c.next(), 0, wire.LanguageJava, wire.Version, nil, body))
	for {
		cmd := c.receive()
		if !cmd.IsResponse() {
			continue
		}
		if cmd.Code != 0 || cmd.Opaque != c.opaque {
			c.t.Fatalf("code %d: answer %d %s", code, cmd.Code, cmd.Remark)
		}
		return
	}
}

// Members of one group that want different things (case C09): as in the original the last heartbeat speaks for all, so one of them
// loses messages. The group is warned about and listed until they agree, or one is gone.
func TestGroupsWithDifferentSubscriptionsAreListed(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	one, two, producer := dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON), dial(t, b.addr, wire.EncodingJSON)
	producer.makeTopic("T", 1)
	for _, tag := range []string{"tag1", "tag2"} {
		producer.mustSend(sendHeader("T", 0, "TAGS\x01"+tag+"\x02"), []byte(tag))
	}
	producer.drain("T", 0, 0, 2)
	listed := func(want string) {
		t.Helper()
		if got := fmt.Sprint(b.GroupStats().Conflicts); got != want {
			t.Errorf("listed: %s, want %s", got, want)
		}
	}
	one.join("g", "member-1", "T", "tag1", 1)
	listed("[]")
	two.join("g", "member-2", "T", "tag2", 2)
	listed("[{g  2}]")
	for _, part := range []string{"group=g", "member-1", "member-2", "T:tag1", "T:tag2"} {
		if !strings.Contains(b.lines.String(), part) {
			t.Errorf("the warning does not name %s: %s", part, b.lines.String())
		}
	}
	h := pullHeader("T", 0, 0, "")
	h.ConsumerGroup, h.SysFlag, h.Subscription = []byte("g"), 0, nil
	one.write(wire.AppendPullRequest(nil, one.enc, wire.RequestPullMessage, one.next(), h))
	cmd := one.receive()
	for !cmd.IsResponse() {
		cmd = one.receive()
	}
	if got := records(t, cmd.Body); len(got) != 1 || string(got[0].Body) != "tag2" {
		t.Errorf("member 1 gets %d messages, as the original it gets what member 2 wants", len(got))
	}
	three := dial(t, b.addr, wire.EncodingJSON)
	three.join("g", "member-3", "U", "*", 3)
	listed("[{g  3}]")
	three.conn.Close()
	two.join("g", "member-2", "T", "tag1", 3)
	waitUntil(t, func() bool { return len(b.GroupStats().Conflicts) == 0 })
}
