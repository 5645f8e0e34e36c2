package control

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
	"peregrine/wire/wiretest"
)

// Every captured request of the Java and Go clients and of mqadmin to a 5.5.0 broker gets an answer of the same shape, where
// the state that the captured broker had can be made here.
func TestAnswersHaveTheShapeOfTheOriginals(t *testing.T) {
	exchanges, err := wiretest.Load("testdata/frames.jsonl")
	must(t, err)
	tables := []string{"table", "topicConfigTable", "subscriptionGroupTable", "forbiddenTable", "subscriptionTable", "offsetTable", "data", "attributes",
		"topicQueueMappingDetailMap", "topicQueueMappingInfoMap"}
	benches := map[string]*bench{}
	compared := 0
	for _, e := range exchanges {
		b := benches[e.Client]
		if b == nil {
			b = newBench(t)
			benches[e.Client] = b
			prepare(t, b, exchanges, e.Client)
		}
		request, err := wiretest.Decode(e.Request)
		must(t, err)
		reply := b.run(b.processors[wire.RequestCode(e.Code)], &Request{Cmd: request, Ref: netio.ConnRef{Slot: 1, Gen: 1}, Remote: netip.MustParseAddrPort("127.0.0.1:40000")})
		answer, err := wiretest.Decode(wire.AppendReply(nil, request.Encoding, request.Opaque, &reply))
		must(t, err)
		if e.Response == nil || differs(wire.RequestCode(e.Code)) {
			continue
		}
		want, err := wiretest.Decode(e.Response)
		must(t, err)
		compared++
		if got, want := trim(e, wiretest.Shape(answer, tables...)), trim(e, wiretest.Shape(want, tables...)); got != want {
			t.Errorf("%s, code %d:\n got %s\nwant %s", e.Client, e.Code, got, want)
		}
	}
	if compared < 100 {
		t.Errorf("only %d exchanges", compared)
	}
}

// differs names the codes that are answered otherwise here for a reason: the captured broker had SQL92 filters switched on,
// and took changes of its settings.
func differs(code wire.RequestCode) bool {
	return code == wire.RequestCheckClientConfig || code == wire.RequestUpdateBrokerConfig
}

// trim leaves out what is known to differ, see the processors.
func trim(e wiretest.Exchange, shape string) string {
	if wire.RequestCode(e.Code) == wire.RequestGetTopicStatsInfo {
		shape = strings.Replace(shape, " topicPutTps number", "", 1)
	}
	return shape
}

// prepare makes what the captured broker had: topics, groups, members, offsets and messages that answers speak of.
func prepare(t *testing.T, b *bench, exchanges []wiretest.Exchange, client string) {
	for _, e := range exchanges {
		if e.Client != client {
			continue
		}
		request, err := wiretest.Decode(e.Request)
		must(t, err)
		field := func(name string) string {
			value, _ := request.GetExt(name)
			return string(value)
		}
		answered := int32(-1)
		found := true
		if e.Response != nil {
			want, err := wiretest.Decode(e.Response)
			must(t, err)
			answered = want.Code
			offset, ok := want.GetExt("offset")
			found = ok && string(offset) != "0"
		}
		code := wire.RequestCode(e.Code)
		if topic := field("topic"); topic != "" && code != wire.RequestUpdateAndCreateTopic {
			b.deps.Topics.CreateOnSend(topics.SendCreation{Topic: topic, DefaultTopic: topics.AutoCreateTopic, QueueNums: 4})
		}
		group := field("consumerGroup")
		if group != "" {
			b.deps.Groups.LookupOrCreate(group)
		}
		switch {
		case code == wire.RequestQueryConsumerOffset && answered == 0 && found:
			b.deps.Offsets.Commit([]byte(group), []byte(field("topic")), queueID(field("queueId")), 3)
		case code == wire.RequestQueryConsumerOffset && answered == 0, code == wire.RequestGetTopicStatsInfo:
			b.send(field("topic"), max(queueID(field("queueId")), 0), "x")
		case code == wire.RequestGetConsumerListByGroup && answered == 0, code == wire.RequestGetConsumerConnectionList && answered == 0:
			b.askFrom(7, wire.RequestHeartBeat, heartbeat(group, "T", ""))
		case code == wire.RequestGetProducerConnectionList && answered == 0:
			b.askFrom(7, wire.RequestHeartBeat, strings.Replace(heartbeat("g", "T", ""), `"P"`, `"`+field("producerGroup")+`"`, 1))
		case code == wire.RequestQueryTopicConsumeByWho:
			b.deps.Offsets.Commit([]byte("g"), []byte(field("topic")), 0, 1)
		case code == wire.RequestGetAllProducerInfo:
			b.askFrom(7, wire.RequestHeartBeat, heartbeat("g", "T", ""))
		}
	}
}

func queueID(text string) message.QueueID {
	id := slices.Index([]string{"0", "1", "2", "3", "4", "5", "6", "7"}, text)
	return message.QueueID(id)
}
