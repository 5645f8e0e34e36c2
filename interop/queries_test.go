package interop

import (
	"fmt"
	"maps"
	"math"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/wire"
)

// question is one request of the query family with the fields that a client sends.
type question struct {
	code    int
	fields  map[string]string
	numbers []string // the fields that hold one
}

// questions are right requests about a topic that has messages in queue 0.
func questions(topic string) []question {
	return []question{
		{12, map[string]string{"topic": topic, "key": "k1", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9223372036854775807"}, []string{"maxNum", "beginTimestamp", "endTimestamp"}},
		{29, map[string]string{"topic": topic, "queueId": "0", "timestamp": "0", "boundaryType": "LOWER"}, []string{"queueId", "timestamp"}},
		{30, map[string]string{"topic": topic, "queueId": "0", "committed": "true"}, []string{"queueId"}},
		{31, map[string]string{"topic": topic, "queueId": "0"}, []string{"queueId"}},
		{32, map[string]string{"topic": topic, "queueId": "0"}, []string{"queueId"}},
		{33, map[string]string{"topic": topic, "offset": "0"}, []string{"offset"}},
	}
}

// variant is a request with one field that is not as it should be.
type variant struct {
	name, field string
	fields      map[string]string
}

// variants returns the request as it is, without each field, and with values that mean nothing.
func (q question) variants() []variant {
	all := []variant{{"as it should be", "", q.fields}}
	vary := func(field, value string) {
		fields := maps.Clone(q.fields)
		fields[field] = value
		all = append(all, variant{fmt.Sprintf("%s %q", field, value), field, fields})
	}
	for field := range q.fields {
		fields := maps.Clone(q.fields)
		delete(fields, field)
		all = append(all, variant{"without " + field, field, fields})
		vary(field, "")
	}
	for _, field := range q.numbers {
		for _, value := range []string{"x", "1.5", "-1", "-9", "0", "99", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", " 1"} {
			vary(field, value)
		}
	}
	vary("topic", "NoSuchTopic")
	vary("topic", "a b/../c")
	vary("boundaryType", "x")
	vary("key", "nobody")
	return all
}

// answered is what one broker said to one request: the parts that do not depend on when and where its messages were stored.
type answered struct {
	code   int
	fields string
	empty  bool // no body
	remark string
}

// askQuestions sends all variants of all questions over one connection. The answers are by code and name of the variant.
func askQuestions(addr, topic string) (map[string]answered, error) {
	conn, err := net.DialTimeout("tcp", addr, callTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answers := map[string]answered{}
	opaque := 0
	for _, q := range questions(topic) {
		for _, v := range q.variants() {
			opaque++
			frame, err := header{encoding: jsonHeader, code: q.code, opaque: opaque, fields: v.fields}.frame()
			if err != nil {
				return nil, err
			}
			_ = conn.SetDeadline(time.Now().Add(callTimeout))
			if _, err := conn.Write(frame); err != nil {
				return nil, err
			}
			a, err := readAnswer(conn)
			if err != nil {
				return nil, fmt.Errorf("code %d, %s: %w", q.code, v.name, err)
			}
			for _, field := range []string{"indexLastUpdatePhyoffset", "indexLastUpdateTimestamp", "timestamp"} {
				if n, err := strconv.ParseInt(a.fields[field], 10, 64); err == nil && n > 0 {
					a.fields[field] = "some"
				}
			}
			answers[fmt.Sprintf("%d %s", q.code, v.name)] = answered{a.code, fmt.Sprint(a.fields), len(a.body) == 0, a.remark}
		}
	}
	return answers, nil
}

// lacks tells whether the variant's field is one that nothing can be without, and is not there, empty or below what it can be.
func (v variant) lacks(code int) bool {
	switch v.field {
	case "", "boundaryType", "committed":
		return false
	case "topic":
		return v.fields["topic"] == "" && code != 33
	case "queueId", "maxNum":
		return v.fields[v.field] == "" || v.fields[v.field][0] == '-'
	}
	return v.fields[v.field] == ""
}

// Queries with missing, unreadable or impossible parameters get the code and the fields of the original; where that is an error of
// a field, or what nothing can be without is not there, the remark names it.
func TestWrongQueriesAreAnsweredAsByTheOriginal(t *testing.T) {
	t.Parallel()
	const topic = "Asked"
	need(t, "queries", func() (string, error) { return bed.tools.ServerClassPath(apacheVersion) })
	original, err := startApache(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = original.Stop(syscall.SIGKILL) })
	var answers [2]map[string]answered
	for i, broker := range []Broker{startBroker(t, matrix()[0], true), original} {
		if err := createTopic(broker.Addr(), topic, 2); err != nil {
			t.Fatal(err)
		}
		c, err := DialRaw(broker.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for n := range 3 {
			if cmd, err := c.Send(SendHeader(topic, 0, properties("KEYS", "k"+strconv.Itoa(n))), []byte("body")); err != nil || cmd.Code != 0 {
				t.Fatalf("send %d: %v %+v", n, err, cmd)
			}
		}
		if err := eventually(indexMax, func() error { // until queue and index have all three
			cmd, err := c.Call(wire.RequestQueryMessage, &wire.QueryMessageRequestHeader{Topic: topic, Key: "k2", MaxNum: 1, EndTimestamp: math.MaxInt64}, nil)
			if err == nil && len(cmd.Body) == 0 {
				err = fmt.Errorf("answer %d %s", cmd.Code, cmd.Remark)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if answers[i], err = askQuestions(broker.Addr(), topic); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range questions(topic) {
		for _, v := range q.variants() {
			name := fmt.Sprintf("%d %s", q.code, v.name)
			ours, theirs := answers[0][name], answers[1][name]
			if ours.code != theirs.code || ours.code == 0 && (ours.fields != theirs.fields || ours.empty != theirs.empty) {
				t.Errorf("%s: here %+v, there %+v", name, ours, theirs)
			}
			if (ours.code == 1 || v.lacks(q.code)) && !strings.Contains(ours.remark, v.field) {
				t.Errorf("%s: the remark does not name the field: %s", name, ours.remark)
			}
		}
	}
}
