package namesrv

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"peregrine/wire"
	"peregrine/wire/wiretest"
)

// Every captured request of clients, mqadmin and brokers to a 5.5.0 name server gets an answer of the same shape.
func TestAnswersHaveTheShapeOfTheOriginals(t *testing.T) {
	exchanges, err := wiretest.Load("testdata/frames.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	tables := []string{"table", "brokerAddrTable", "clusterAddrTable", "brokerAddrs", "filterServerTable"}
	// Unregistrations last: the captures are not in the order of their time.
	slices.SortStableFunc(exchanges, func(a, b wiretest.Exchange) int { return isUnregister(a) - isUnregister(b) })
	servers := map[string]*Server{}
	compared := 0
	for _, e := range exchanges {
		if e.Response == nil {
			continue
		}
		s := servers[e.Client]
		if s == nil {
			s = newServer(t, nil)
			s.RegisterEmbedded(Embedded{Cluster: "DefaultCluster", Broker: "broker-a", Addr: "127.0.0.1:11911", HAAddr: "127.0.0.1:11912"},
				routedTopics(t, exchanges, e.Client), wire.DataVersion{Counter: 1})
			servers[e.Client] = s
		}
		request, err := wiretest.Decode(e.Request)
		if err != nil {
			t.Fatal(err)
		}
		reply := s.Process(request, e.Client, netip.MustParseAddrPort("127.0.0.1:40000"))
		answer, err := wiretest.Decode(wire.AppendReply(nil, request.Encoding, request.Opaque, &reply))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Encoding != request.Encoding || answer.Opaque != request.Opaque || !answer.IsResponse() {
			t.Errorf("%s, code %d: the answer is no answer to the request", e.Client, e.Code)
		}
		want, err := wiretest.Decode(e.Response)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		if got, want := wiretest.Shape(answer, tables...), wiretest.Shape(want, tables...); got != want {
			t.Errorf("%s, code %d:\n got %s\nwant %s", e.Client, e.Code, got, want)
		}
	}
	if compared < 40 {
		t.Errorf("only %d exchanges", compared)
	}
}

func isUnregister(e wiretest.Exchange) int {
	if wire.RequestCode(e.Code) == wire.RequestUnregisterBroker {
		return 1
	}
	return 0
}

// routedTopics are the topics that the captured server knew.
func routedTopics(t *testing.T, exchanges []wiretest.Exchange, client string) []wire.TopicConfig {
	topics := []wire.TopicConfig{{TopicName: "broker-a", Perm: 7, ReadQueueNums: 1, WriteQueueNums: 1}, {TopicName: "DefaultCluster", Perm: 7, ReadQueueNums: 16, WriteQueueNums: 16}}
	for _, e := range exchanges {
		if e.Client != client || e.Response == nil || wire.RequestCode(e.Code) != wire.RequestGetRouteInfoByTopic {
			continue
		}
		request, err := wiretest.Decode(e.Request)
		if err != nil {
			t.Fatal(err)
		}
		want, err := wiretest.Decode(e.Response)
		if err != nil {
			t.Fatal(err)
		}
		if topic, ok := request.GetExt("topic"); ok && want.Code == 0 {
			topics = append(topics, wire.TopicConfig{TopicName: strings.Clone(string(topic)), Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4})
		}
	}
	return topics
}

func TestTheTableOfServedCodesIsTrue(t *testing.T) {
	var want []wire.RequestCode
	for _, row := range wire.SupportedCodes() {
		if row.Role == wire.RoleNamesrv {
			want = append(want, row.Code)
		}
	}
	got := newServer(t, nil).Codes()
	if len(got) != len(want) {
		t.Fatalf("serves %v, the table has %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("serves %v, the table has %v", got, want)
			break
		}
	}
}
