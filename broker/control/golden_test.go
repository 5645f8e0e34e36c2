package control

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"peregrine/broker/stats"
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
		request, err := wiretest.Decode(e.Request)
		must(t, err)
		b := benches[e.Client]
		if makeWorld := worlds[wire.RequestCode(e.Code)]; makeWorld != nil {
			b = indexed(t)
			makeWorld(b, fieldOf(request), e)
		} else if b == nil {
			b = newBench(t)
			benches[e.Client] = b
			prepare(t, b, exchanges, e.Client)
		}
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
	if compared < 150 {
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

// fieldOf reads ext fields of a request, "" where one is missing.
func fieldOf(request *wire.Command) func(name string) string {
	return func(name string) string {
		value, _ := request.GetExt(name)
		return string(value)
	}
}

// worlds make what requests of a code speak of, in a bench of their own: places in the log and what is told of all topics and groups.
var worlds = map[wire.RequestCode]func(b *bench, field func(string) string, e wiretest.Exchange){
	wire.RequestQueryMessage: func(b *bench, field func(string) string, e wiretest.Exchange) {
		if answeredWith(b, e) != wire.ResponseSuccess {
			return
		}
		begin, _ := strconv.ParseInt(field("beginTimestamp"), 10, 64)
		b.clock.Store(max(begin, b.clock.Load()))
		if field("_UNIQUE_KEY_QUERY") == "true" {
			b.keyed(field("topic"), field("key"), "", "")
		} else {
			b.keyed(field("topic"), "U", field("key"), "")
		}
	},
	wire.RequestViewMessageByID: func(b *bench, field func(string) string, _ wiretest.Exchange) {
		b.recordAt(field("offset"))
	},
	wire.RequestConsumerSendMsgBack: func(b *bench, field func(string) string, _ wiretest.Exchange) {
		b.recordAt(field("offset"))
	},
	wire.RequestGetConsumeStats: func(b *bench, field func(string) string, _ wiretest.Exchange) {
		b.consumed(cmp.Or(field("topic"), "T"), field("consumerGroup"))
	},
	wire.RequestGetBrokerConsumeStats: func(b *bench, _ func(string) string, e wiretest.Exchange) {
		// The answer is a list of groups by name: the only one here has the name of the captured one that comes first.
		all, _, _ := b.deps.Groups.Snapshot()
		for _, group := range all {
			b.deps.Groups.Delete(group.Name())
		}
		_, rest, _ := strings.Cut(string(e.Response), `"consumeStatsList":[{"`)
		name, _, _ := strings.Cut(rest, `"`)
		b.consumed("T", name)
	},
	wire.RequestInvokeBrokerToResetOffset: func(b *bench, field func(string) string, _ wiretest.Exchange) {
		b.consumed(field("topic"), field("group"))
	},
	wire.RequestQueryConsumeQueue: func(b *bench, field func(string) string, _ wiretest.Exchange) {
		b.consumed(field("topic"), field("consumerGroup"))
		b.askFrom(7, wire.RequestHeartBeat, heartbeat(field("consumerGroup"), field("topic"), ""))
	},
	wire.RequestViewBrokerStatsData: func(b *bench, field func(string) string, e wiretest.Exchange) {
		if answeredWith(b, e) == wire.ResponseSuccess {
			b.deps.Stats.Item(stats.TopicPutNums, []byte(field("statsKey"))).Add(1)
		}
	},
	wire.RequestGetConsumerRunningInfo: func(b *bench, field func(string) string, e wiretest.Exchange) {
		b.askFrom(7, wire.RequestHeartBeat, strings.Replace(heartbeat(field("consumerGroup"), "T", ""), `"c1"`, strconv.Quote(field("clientId")), 1))
		want, err := wiretest.Decode(e.Response)
		must(b.t, err)
		b.client = func(_ netio.ConnRef, request *wire.Command) *wire.Command {
			if wire.RequestCode(request.Code) != wire.RequestGetConsumerRunningInfo {
				return nil
			}
			return &wire.Command{Flag: 1, Body: want.Body}
		}
	},
	wire.RequestCleanUnusedTopic: func(*bench, func(string) string, wiretest.Exchange) {},
}

func answeredWith(b *bench, e wiretest.Exchange) wire.ResponseCode {
	answer, err := wiretest.Decode(e.Response)
	must(b.t, err)
	return wire.ResponseCode(answer.Code)
}

// recordAt makes a record begin at a position of an empty log.
func (b *bench) recordAt(position string) {
	b.t.Helper()
	at, err := strconv.Atoi(position)
	must(b.t, err)
	if at > 0 {
		b.send("T", 0, "")
		b.send("T", 0, strings.Repeat("x", at-2*int(b.deps.Store.Wrote())))
	}
	if int(b.deps.Store.Wrote()) != at {
		b.t.Fatalf("the log ends at %d instead of %d", b.deps.Store.Wrote(), at)
	}
	b.send("T", 0, "the record")
}

// consumed makes a topic with a message that a group has consumed.
func (b *bench) consumed(topic, group string) {
	b.t.Helper()
	b.deps.Topics.CreateOnSend(topics.SendCreation{Topic: topic, DefaultTopic: topics.AutoCreateTopic, QueueNums: 4})
	b.deps.Groups.LookupOrCreate(group)
	for id := range message.QueueID(4) {
		b.send(topic, id, "x")
		b.deps.Offsets.Commit([]byte(group), []byte(topic), id, 1)
	}
}

// prepare makes what the captured broker had: topics, groups, members, offsets and messages that answers speak of.
func prepare(t *testing.T, b *bench, exchanges []wiretest.Exchange, client string) {
	for _, e := range exchanges {
		if e.Client != client {
			continue
		}
		request, err := wiretest.Decode(e.Request)
		must(t, err)
		field := fieldOf(request)
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
