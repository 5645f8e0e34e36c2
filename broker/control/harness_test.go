package control

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"peregrine/broker/clients"
	"peregrine/broker/delay"
	"peregrine/broker/groups"
	"peregrine/broker/locks"
	"peregrine/broker/offsets"
	"peregrine/broker/relay"
	"peregrine/broker/stats"
	"peregrine/broker/topics"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// bench is the processors with everything behind them but the network.
type bench struct {
	t          *testing.T
	deps       Deps
	processors map[wire.RequestCode]Processor
	clock      atomic.Int64
	counters   Counters

	indexBehind  int64
	indexMending bool
	version      int32 // of the client
	sent         []store.Message
	refuseSend   error

	woken []message.QueueID // queues whose held pulls were run again

	mu     sync.Mutex
	told   []netio.ConnRef
	client func(ref netio.ConnRef, request *wire.Command) *wire.Command // what a client answers; nil: nothing
}

func (b *bench) Push(ref netio.ConnRef, frame []byte) bool {
	b.mu.Lock()
	b.told = append(b.told, ref)
	client := b.client
	b.mu.Unlock()
	if client == nil {
		return true
	}
	var d wire.Decoder
	var request wire.Command
	must(b.t, d.Decode(frame[4:], &request))
	if answer := client(ref, &request); answer != nil {
		answer.Opaque = request.Opaque
		go b.deps.Relay.Answered(ref, answer)
	}
	return true
}

func (b *bench) Close(netio.ConnRef, string) {}

func (b *bench) now() message.Millis { return message.Millis(b.clock.Load()) }

func newBench(t *testing.T, settings ...string) *bench {
	t.Helper()
	b := &bench{t: t, version: 513}
	b.clock.Store(1_700_000_000_000)
	args := append([]string{"storePathRootDir=data", "brokerName=broker-a", "brokerIP1=127.0.0.1", "mappedFileSizeCommitLog=1048576",
		"maxHashSlotNum=100", "maxIndexNum=1000"}, settings...)
	cfg, _, err := config.Load(args, func(string) string { return "" }, os.ReadFile)
	must(t, err)
	cfg.Resolve(config.ThisMachine())
	x := sysio.NewFaultFS()
	st, err := store.Open(store.Options{FS: x, Config: cfg, Now: b.now})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close(true)) })
	must(t, x.MkdirAll("data/config", 0o755))
	quiet := slog.New(slog.DiscardHandler)
	topicTable, err := topics.Open(topics.Options{FS: x, Path: "data/config/topics.json", Queues: st, Logger: quiet, Now: b.now, Settings: topics.Settings{
		Cluster: "DefaultCluster", Broker: "broker-a", AutoCreate: true, DefaultQueueNums: 8, ClusterTopic: true, BrokerTopic: true,
		TraceTopic: topics.TraceTopic, TimerWheel: true, ReviveQueueNums: 8, ProtectSystemTopics: true, Permission: 6}})
	must(t, err)
	groupTable, err := groups.Open(groups.Options{FS: x, Path: "data/config/subscriptionGroup.json", Logger: quiet, Now: b.now, AutoCreate: cfg.AutoCreateSubscriptionGroup})
	must(t, err)
	offsetTable, err := offsets.Open(offsets.Options{FS: x, Path: "data/config/consumerOffset.json", Logger: quiet, Now: b.now})
	must(t, err)
	registry := clients.NewRegistry(clients.Options{Pusher: b, Logger: quiet, Notify: func(string) bool { return true }, RealTime: true})
	b.deps = Deps{Config: config.NewLive(cfg, nil), FS: x, Store: st, Topics: topicTable, Groups: groupTable, Clients: registry, Offsets: offsetTable,
		Locks: locks.New(locks.Options{}), Relay: relay.New(b), Stats: stats.New(b.now()), Pulled: offsets.NewPositions(),
		WakePulls: func(_ string, id message.QueueID) { b.woken = append(b.woken, id) }, Pusher: b,

		Rates: NewRates(func() Counters { return b.counters }), Addr: "127.0.0.1:10911", Dispatched: st.Wrote, IndexBehind: func() (int64, bool) { return b.indexBehind, b.indexMending },
		MemoryWindow: func() int64 { return 1 << 30 },
		Boot:         b.now(), Logger: quiet, Now: b.now}
	levels, err := config.ParseDelayLevels(cfg.MessageDelayLevel)
	must(t, err)
	b.deps.Sender, b.deps.Retries = b, &Retries{}
	b.deps.Delays, err = delay.Open(delay.Options{FS: x, Path: "data/config/delayOffset.json", Store: st, Appender: b, Levels: delay.NewLevels(levels), Logger: quiet, Now: b.now})
	must(t, err)
	b.processors = Processors(b.deps)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends a request of connection 1 with ext fields given as name, value, name, value …
func (b *bench) ask(code wire.RequestCode, body string, ext ...string) wire.Reply {
	b.t.Helper()
	return b.askFrom(1, code, body, ext...)
}

// command is a request with ext fields given as name, value, name, value …
func (b *bench) command(code wire.RequestCode, body string, ext ...string) *wire.Command {
	b.t.Helper()
	fields := make([]string, 0, len(ext)/2)
	for i := 0; i < len(ext); i += 2 {
		fields = append(fields, fmt.Sprintf("%q:%q", ext[i], ext[i+1]))
	}
	header := fmt.Sprintf(`{"code":%d,"extFields":{%s},"flag":0,"language":"JAVA","opaque":1,"version":%d}`, code, strings.Join(fields, ","), b.version)
	frame := append([]byte{0, byte(len(header) >> 16), byte(len(header) >> 8), byte(len(header))}, header...)
	var d wire.Decoder
	c := new(wire.Command)
	must(b.t, d.Decode(append(frame, body...), c))
	return c
}

func (b *bench) askFrom(slot uint32, code wire.RequestCode, body string, ext ...string) wire.Reply {
	b.t.Helper()
	process := b.processors[code]
	if process == nil {
		b.t.Fatalf("code %d is not served", code)
	}
	reply := b.run(process, &Request{Cmd: b.command(code, body, ext...), Ref: netio.ConnRef{Slot: slot, Gen: 1}, Remote: netip.MustParseAddrPort("10.0.0.9:40000")})
	wire.AppendReply(nil, wire.EncodingJSON, 1, &reply) // it must be writable
	return reply
}

// run waits for a reply that comes later.
func (b *bench) run(process Processor, r *Request) wire.Reply {
	later := make(chan wire.Reply, 1)
	asked := false
	r.Later = func() func(wire.Reply) {
		asked = true
		return func(reply wire.Reply) { later <- reply }
	}
	reply := process(r)
	if !asked {
		return reply
	}
	return <-later
}

func (b *bench) expect(what string, r wire.Reply, code wire.ResponseCode, remark, body string) {
	b.t.Helper()
	if r.Code != code || !strings.Contains(r.Remark, remark) || remark == "" && r.Remark != "" || !strings.Contains(string(r.Body), body) {
		b.t.Errorf("%s: %d %q %s", what, r.Code, r.Remark, r.Body)
	}
}

// send stores a message at the bench's time and makes it visible, as dispatch would.
func (b *bench) send(topic string, id message.QueueID, body string) {
	b.t.Helper()
	q := b.deps.Store.Queue(topic, id)
	batch := []store.Message{{Queue: q, Record: message.Record{Topic: []byte(topic), QueueID: id, Body: []byte(body), BodyCRC: message.BodyCRC([]byte(body))}}}
	b.deps.Store.Append(batch)
	must(b.t, batch[0].Err)
	must(b.t, q.AppendUnits(batch[0].QueueOffset, []store.Unit{{Phy: batch[0].PhyOffset, Size: int32(batch[0].Size())}}))
}
