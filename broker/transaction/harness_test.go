package transaction

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"peregrine/broker/clients"
	"peregrine/broker/offsets"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// bench is a Service on a real store, with a clock of its own and producers that answer what the test wants.
type bench struct {
	t     *testing.T
	fs    sysio.FS
	cfg   *config.Config
	clock message.Millis
	store *store.Store
	table *offsets.Table
	*Service
	settings Settings

	online map[string]int             // connections of each producer group
	dead   map[netio.ConnRef]bool     // connections that Push does not reach
	checks []check                    // sent and not looked at yet
	refuse func(*store.Message) error // set: what the log says to a record
}

// check is one CHECK_TRANSACTION_STATE.
type check struct {
	header wire.CheckTransactionStateRequestHeader
	record message.View
	frame  []byte
	ref    netio.ConnRef
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBench(t *testing.T, settings Settings) *bench {
	t.Helper()
	cfg, _, err := config.Load([]string{"storePathRootDir=data", "brokerName=broker-a", "brokerIP1=127.0.0.1", "mappedFileSizeCommitLog=1048576",
		"mappedFileSizeConsumeQueue=4000", "maxHashSlotNum=100", "maxIndexNum=1000"}, func(string) string { return "" }, os.ReadFile)
	must(t, err)
	cfg.Resolve(config.ThisMachine())
	b := &bench{t: t, fs: sysio.NewFaultFS(), cfg: cfg, clock: 1_700_000_000_000, settings: settings, online: map[string]int{"p": 1}, dead: map[netio.ConnRef]bool{}}
	b.open()
	t.Cleanup(func() { must(t, b.store.Close(true)) })
	return b
}

func (b *bench) open() {
	t := b.t
	st, err := store.Open(store.Options{FS: b.fs, Config: b.cfg, Now: b.now})
	must(t, err)
	b.store = st
	must(t, b.fs.MkdirAll("data/config", 0o755))
	quiet := slog.New(slog.DiscardHandler)
	b.table, err = offsets.Open(offsets.Options{FS: b.fs, Path: "data/config/consumerOffset.json", Logger: quiet, Now: b.now})
	must(t, err)
	b.Service = New(Options{Settings: b.settings, Store: st, Log: b, Progress: b.table, Producers: b, Pusher: b, CaughtUp: func(message.PhyOffset, time.Time) error { return nil },
		DiscardTopic: func() *wire.Refusal { return nil }, Host: message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911")), Logger: quiet, Now: b.now})
	b.Recover()
}

// restart ends the service, with its last op messages if it is a clean end, and opens everything again.
func (b *bench) restart(clean bool) {
	if clean {
		must(b.t, b.flushOps())
		must(b.t, b.table.Persist())
	}
	must(b.t, b.store.Close(true))
	b.open()
}

func (b *bench) now() message.Millis { return b.clock }

// Append stores records and makes them visible at once, as dispatch would.
func (b *bench) Append(batch []store.Message) (message.PhyOffset, error) {
	for i := range batch {
		m := &batch[i]
		if b.refuse != nil {
			if m.Err = b.refuse(m); m.Err != nil {
				continue
			}
		}
		m.Queue = b.store.Queue(string(m.Topic), m.QueueID)
		m.StoreHost = message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))
		b.store.Append(batch[i : i+1])
		if m.Err == nil {
			must(b.t, m.Queue.AppendUnits(m.QueueOffset, []store.Unit{{Phy: m.PhyOffset, Size: int32(m.Size())}}))
		}
	}
	return b.store.Wrote(), nil
}

func (b *bench) Await(message.PhyOffset) error { return nil }

func (b *bench) Send(m *store.Message, _ bool) error {
	batch := []store.Message{*m}
	_, err := b.Append(batch)
	*m = batch[0]
	return errors.Join(err, m.Err)
}

func (b *bench) Producers(group string) ([]clients.Client, bool) {
	var members []clients.Client
	for i := range b.online[group] {
		members = append(members, clients.Client{Ref: netio.ConnRef{Slot: uint32(i + 1), Gen: 1}})
	}
	return members, len(members) > 0
}

func (b *bench) Push(ref netio.ConnRef, frame []byte) bool {
	if b.dead[ref] {
		return false
	}
	c := check{frame: append([]byte(nil), frame...), ref: ref}
	var d wire.Decoder
	var cmd wire.Command
	must(b.t, d.Decode(c.frame[4:], &cmd))
	if !cmd.IsOneway() || wire.RequestCode(cmd.Code) != wire.RequestCheckTransactionState {
		b.t.Fatalf("pushed %+v", cmd)
	}
	must(b.t, wire.DecodeHeader(&cmd, &c.header))
	must(b.t, message.ParseView(cmd.Body, &c.record))
	b.checks = append(b.checks, c)
	return true
}

// place says where a half or a copy of it lies.
type place struct {
	offset message.QueueOffset
	phy    message.PhyOffset
}

// half sends one half message of group with further properties.
func (b *bench) half(group, body string, more ...string) place {
	b.t.Helper()
	var p message.PropertyMap
	text := message.AppendProperty(nil, message.PropertyUniqKey, "KEY"+body)
	all := append([]string{message.PropertyTransactionPrepared, "true", message.PropertyProducerGroup, group}, more...)
	for i := 0; i < len(all); i += 2 {
		text = message.AppendProperty(text, all[i], all[i+1])
	}
	p.Parse(text)
	_, properties := AppendHalfProperties(nil, &p, []byte("T"), 1)
	m := store.Message{Record: message.Record{Topic: halfTopic, Body: []byte(body), BodyCRC: message.BodyCRC([]byte(body)), Properties: properties, BornTimestamp: b.clock, Flag: 5,
		BornHost: message.HostOf(netip.MustParseAddrPort("10.0.0.9:4000"))}}
	must(b.t, b.Send(&m, false))
	return place{m.QueueOffset, m.PhyOffset}
}

func (b *bench) end(group string, at place, state int32, fromCheck bool) wire.Reply {
	return b.End(&wire.EndTransactionRequestHeader{ProducerGroup: group, TranStateTableOffset: int64(at.offset), CommitLogOffset: int64(at.phy), CommitOrRollback: state,
		FromTransactionCheck: &fromCheck, MsgID: "m"})
}

func (b *bench) mustEnd(at place, state int32) {
	b.t.Helper()
	if r := b.end("p", at, state, false); r.Code != 0 || r.None {
		b.t.Fatalf("end: %+v", r)
	}
}

const (
	commit   = message.SysFlagTransactionCommit
	rollback = message.SysFlagTransactionRollback
)

// takeChecks gives the checks since the last call.
func (b *bench) takeChecks() []check {
	c := b.checks
	b.checks = nil
	return c
}

func (c *check) place() place {
	return place{message.QueueOffset(c.header.TranStateTableOffset), message.PhyOffset(c.header.CommitLogOffset)}
}

// read gives the records of a queue.
func (b *bench) read(topic string, id message.QueueID) (views []message.View) {
	b.t.Helper()
	q := b.store.LookupQueue([]byte(topic), id)
	if q == nil {
		return nil
	}
	u := units{queue: q}
	for at := q.Min(); at < q.Max(); at++ {
		unit, err := u.at(at, q.Max())
		must(b.t, err)
		var v message.View
		_, err = b.store.ReadRecord(nil, unit.Phy, &v)
		must(b.t, err)
		views = append(views, v)
	}
	return views
}

func (b *bench) bodies(topic string, id message.QueueID) string {
	var list []string
	for _, v := range b.read(topic, id) {
		list = append(list, string(v.Body))
	}
	return fmt.Sprint(list)
}

// progressed gives the stored progress on half and op topic.
func (b *bench) progressed() (half, op message.QueueOffset) {
	half, _ = b.table.Query(groupBytes, halfTopic, 0)
	op, _ = b.table.Query(groupBytes, opTopic, 0)
	return half, op
}

func property(v *message.View, name string) string {
	value, _ := message.GetProperty(v.Properties, name)
	return string(value)
}

// defaults are the original's, with a clock that tests move.
func defaults() Settings {
	return Settings{BrokerName: "broker-a", TimeOut: 6000, Interval: 30 * time.Second, CheckMax: 15, OpBytesMax: 4096, OpInterval: 3000, ReservedTime: 72 * 3600_000}
}
