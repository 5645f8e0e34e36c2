package topics

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

// fakeQueues hands out queue handles like the store.
type fakeQueues struct {
	mu     sync.Mutex
	queues map[string]*store.Queue
	calls  int
}

func (f *fakeQueues) Queue(topic string, id message.QueueID) *store.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	key := fmt.Sprintf("%s/%d", topic, id)
	if f.queues == nil {
		f.queues = make(map[string]*store.Queue)
	}
	if f.queues[key] == nil {
		f.queues[key] = &store.Queue{}
	}
	return f.queues[key]
}

// Queues: the store has nothing.
func (f *fakeQueues) Queues(func(*store.Queue) bool) {}

// recorder is a registrar that keeps what it was told.
type recorder struct {
	mu       sync.Mutex
	perms    map[string]int32
	counters []int64
}

func (r *recorder) TopicsChanged(changed []wire.TopicConfig, version wire.DataVersion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perms == nil {
		r.perms = make(map[string]int32)
	}
	for _, config := range changed {
		r.perms[config.TopicName] = config.Perm
	}
	r.counters = append(r.counters, version.Counter)
}

func (r *recorder) TopicDeleted(name string, version wire.DataVersion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.perms, name)
	r.counters = append(r.counters, version.Counter)
}

func (r *recorder) knows(topic string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.perms[topic]
	return ok
}

func stock() Settings {
	return Settings{Cluster: "DefaultCluster", Broker: "broker-a", AutoCreate: true, DefaultQueueNums: 8, ClusterTopic: true, BrokerTopic: true,
		TraceTopic: TraceTopic, TimerWheel: true, ReviveQueueNums: 8, ProtectSystemTopics: true, Permission: 6}
}

func options(fsys sysio.FS, registrar Registrar) Options {
	clock := new(atomic.Int64)
	clock.Store(1_700_000_000_000)
	return Options{FS: fsys, Path: "topics.json", Settings: stock(), Queues: &fakeQueues{}, Registrar: registrar,
		Logger: slog.New(slog.DiscardHandler), Now: func() message.Millis { return message.Millis(clock.Add(1)) }}
}

func open(t *testing.T, o Options) *Table {
	t.Helper()
	table, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func config(t *testing.T, table *Table, name string) wire.TopicConfig {
	t.Helper()
	topic := table.Find(name)
	if topic == nil {
		t.Fatalf("no topic %s", name)
	}
	return *topic.Config()
}

// The texts were asked of a running 5.5.0 broker.
func TestNamesAreRefusedWithTheOriginalsTexts(t *testing.T) {
	long := strings.Repeat("x", 128)
	cases := []struct{ name, remark string }{
		{"T", ""}, {"%RETRY%g|h-1_2", ""}, {long[:127], ""},
		{"", "The specified topic is blank."}, {"  ", "The specified topic is blank."},
		{"a b", "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"},
		{"a.b", "The specified topic: a.b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"},
		{"../x", "The specified topic: ../x, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"},
		{long, "The specified topic: " + long + ", is longer than topic max length: 127"},
		{"%RETRY%" + strings.Repeat("x", 248), ""}, {"%DLQ%" + strings.Repeat("x", 250), ""},
		{"%RETRY%" + strings.Repeat("x", 249), "The specified topic is DLQ or Retry topic: %RETRY%" + strings.Repeat("x", 249) + ", and it's longer than topic max length: 255"},
	}
	for _, c := range cases {
		refusal := CheckName(c.name)
		if c.remark == "" && refusal == nil {
			continue
		}
		if refusal == nil || refusal.Remark != c.remark || refusal.Code != wire.ResponseInvalidParameter {
			t.Errorf("%.40q: %v", c.name, refusal)
		}
	}
}

func TestAFreshBrokerHasTheOriginalsTopics(t *testing.T) {
	want := map[string][2]int32{
		SelfTestTopic: {1, 6}, AutoCreateTopic: {8, 7}, BenchmarkTopic: {1024, 6}, "DefaultCluster": {16, 7}, "broker-a": {1, 7},
		OffsetMovedTopic: {1, 6}, ScheduleTopic: {18, 6}, "DefaultCluster_REPLY_TOPIC": {1, 6}, "rmq_sys_REVIVE_LOG_DefaultCluster": {8, 6},
		"rmq_sys_SYNC_BROKER_MEMBER_broker-a": {1, 1}, HalfTopic: {1, 6}, OpHalfTopic: {1, 6}, rocksHalfTopic: {1, 6}, rocksOpHalfTopic: {1, 6}, TimerTopic: {1, 6},
	}
	table := open(t, options(sysio.NewFaultFS(), nil))
	topics, version := table.Snapshot()
	got := map[string][2]int32{}
	for _, topic := range topics {
		c := topic.Config()
		if c.ReadQueueNums != c.WriteQueueNums {
			t.Errorf("%s: %d read, %d write queues", topic.Name(), c.ReadQueueNums, c.WriteQueueNums)
		}
		got[topic.Name()] = [2]int32{c.ReadQueueNums, c.Perm}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if version.Counter != 0 {
		t.Errorf("counter %d without a change", version.Counter)
	}
	for name := range want {
		if !table.IsSystem(name) {
			t.Errorf("%s is no system topic", name)
		}
	}
	if !table.IsSystem("rmq_sys_anything") || table.IsSystem("T") {
		t.Error("the test for system topics is wrong")
	}
	o := options(sysio.NewFaultFS(), nil)
	o.Settings.AutoCreate, o.Settings.TimerWheel, o.Settings.Trace, o.Settings.ClusterTopic = false, false, true, false
	table = open(t, o)
	if table.Find(AutoCreateTopic) != nil || table.Find(TimerTopic) != nil || table.Find(TraceTopic) == nil || config(t, table, "DefaultCluster").Perm != 1 {
		t.Error("the conditions do not hold")
	}
}

// What 5.5.0 made of the same sends.
func TestSendsCreateTopicsAsTheOriginalDoes(t *testing.T) {
	told := &recorder{}
	table := open(t, options(sysio.NewFaultFS(), told))
	cases := []struct {
		creation    SendCreation
		queues      int32
		perm, flags int32
		code        wire.ResponseCode
	}{
		{SendCreation{"AC1", AutoCreateTopic, 4, false}, 4, 6, 0, 0},
		{SendCreation{"AC1", "NODEF", 4, false}, 4, 6, 0, 0}, // it is there by now
		{SendCreation{"AC2", "NODEF", 4, false}, 0, 0, 0, wire.ResponseTopicNotExist},
		{SendCreation{"AC3", "AC1", 4, false}, 0, 0, 0, wire.ResponseTopicNotExist},
		{SendCreation{"AC4", "DefaultCluster", 40, false}, 16, 6, 0, 0},
		{SendCreation{"AC5", AutoCreateTopic, -3, false}, 0, 6, 0, 0},
		{SendCreation{"AC6", AutoCreateTopic, 4, true}, 4, 6, 1, 0},
		{SendCreation{"%RETRY%GZZ", "NODEF", 4, false}, 1, 6, 0, 0},
		{SendCreation{"%RETRY%GZX", "NODEF", 4, true}, 1, 6, 2, 0},
		{SendCreation{"%RETRY%GZY", AutoCreateTopic, 4, false}, 4, 6, 0, 0},
		{SendCreation{"a b", AutoCreateTopic, 4, false}, 0, 0, 0, wire.ResponseInvalidParameter},
	}
	for _, c := range cases {
		before := table.Version()
		topic, refusal := table.CreateOnSend(c.creation)
		if c.code != 0 {
			if topic != nil || refusal == nil || refusal.Code != c.code {
				t.Errorf("%v: %v, %v", c.creation, topic, refusal)
			}
			if table.Version() != before {
				t.Errorf("%v changed the table", c.creation)
			}
			continue
		}
		if refusal != nil {
			t.Errorf("%v: %v", c.creation, refusal)
			continue
		}
		got := topic.Config()
		if got.ReadQueueNums != c.queues || got.WriteQueueNums != c.queues || got.Perm != c.perm || got.TopicSysFlag != c.flags || got.TopicFilterType != wire.TopicFilterSingleTag {
			t.Errorf("%v: %+v", c.creation, got)
		}
		if !told.knows(c.creation.Topic) {
			t.Errorf("%v: the registrar was not told before the answer", c.creation)
		}
		if table.Lookup([]byte(c.creation.Topic)) != topic {
			t.Errorf("%v: Lookup finds another topic", c.creation)
		}
	}
	if _, refusal := table.CreateOnSend(SendCreation{Topic: "no", DefaultTopic: "no"}); refusal.Remark !=
		"topic[no] not exist, apply first please!\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details." {
		t.Errorf("remark %q", refusal.Remark)
	}
}

func TestAutoCreationSwitchedOffClosesAnOldTemplate(t *testing.T) {
	x := sysio.NewFaultFS()
	must(t, open(t, options(x, nil)).Save())
	o := options(x, nil)
	o.Settings.AutoCreate = false
	table := open(t, o)
	if _, refusal := table.CreateOnSend(SendCreation{"T", AutoCreateTopic, 4, false}); refusal == nil || refusal.Code != wire.ResponseTopicNotExist {
		t.Errorf("got %v", refusal)
	}
	if got := config(t, table, AutoCreateTopic).Perm; got != 6 {
		t.Errorf("the template has perm %d", got)
	}
}

func TestUpdatesFollowTheOriginal(t *testing.T) {
	told := &recorder{}
	table := open(t, options(sysio.NewFaultFS(), told))
	topic := func(name string, attributes ...string) wire.TopicConfig {
		c := wire.TopicConfig{TopicName: name, ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: wire.TopicFilterSingleTag, Attributes: map[string]string{}}
		for _, a := range attributes {
			key, value, _ := strings.Cut(a, "=")
			c.Attributes[key] = value
		}
		return c
	}
	cases := []struct {
		config wire.TopicConfig
		code   wire.ResponseCode
		remark string
		bumps  int64
	}{
		{topic("T1"), 0, "", 1},
		{topic("T1"), 0, "", 0},
		{topic("T1", "+message.type=FIFO"), 0, "", 1},
		{topic("T1"), 0, "", 0}, // no change of attributes asked for
		{topic("T1", "-message.type"), 0, "", 1},
		{topic("T1", "-message.type"), 1, "attempt to delete a nonexistent key: message.type", 0},
		{topic("T3", "-message.type"), 1, "only add attribute is supported while creating topic. key: message.type", 0},
		{topic("T4", "+message.type=MIXED"), 29, "MIXED message type is not supported.", 0},
		{topic(AutoCreateTopic), 29, "The topic[TBW102] is conflict with system topic.", 0},
		{topic("rmq_sys_foo"), 29, "The topic[rmq_sys_foo] is conflict with system topic.", 0},
		{topic("a b"), 29, "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$", 0},
		{topic("T5", "+queue.type=SimpleCQ"), 0, "", 1},
		{topic("T5", "+queue.type=BatchCQ"), 1, "attempt to update an unchangeable attribute. key: queue.type", 0},
		// Where peregrine differs: the original stores these and changes its storage.
		{topic("T6", "+queue.type=BatchCQ"), 1, "attribute queue.type=BatchCQ is not supported", 0},
		{topic("T6", "+cleanup.policy=COMPACTION"), 1, "attribute cleanup.policy=COMPACTION is not supported", 0},
	}
	for i, c := range cases {
		before := table.DataVersion()
		refusal := table.UpdateOrCreate(c.config)
		after := table.DataVersion()
		if c.remark == "" && refusal != nil || c.remark != "" && (refusal == nil || refusal.Code != c.code || refusal.Remark != c.remark) {
			t.Errorf("case %d: %v", i, refusal)
		}
		if after.Counter-before.Counter != c.bumps {
			t.Errorf("case %d: the counter went from %d to %d", i, before.Counter, after.Counter)
		}
		if c.remark != "" && c.config.TopicName == "T6" && table.Find("T6") != nil {
			t.Errorf("case %d: a refused topic is there", i)
		}
	}
	if !slices.IsSorted(told.counters) {
		t.Errorf("registrations out of order: %v", told.counters)
	}
}

func TestAListIsTakenAsAWholeOrNotAtAll(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS(), nil))
	list := []wire.TopicConfig{{TopicName: "L1", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 6}, {TopicName: "L 2"}}
	if refusal := table.UpdateOrCreateAll(list); refusal == nil || table.Find("L1") != nil {
		t.Errorf("%v, L1 there: %v", refusal, table.Find("L1") != nil)
	}
	list[1].TopicName = "L2"
	before := table.DataVersion().Counter
	if refusal := table.UpdateOrCreateAll(list); refusal != nil || table.Find("L2") == nil || table.DataVersion().Counter != before+1 {
		t.Errorf("%v, L2 there: %v", refusal, table.Find("L2") != nil)
	}
}

func TestDeleting(t *testing.T) {
	told := &recorder{}
	table := open(t, options(sysio.NewFaultFS(), told))
	table.CreateOnSend(SendCreation{"T", AutoCreateTopic, 4, false})
	for name, remark := range map[string]string{"": "The specified topic is blank.", AutoCreateTopic: "The topic[TBW102] is conflict with system topic.", "unknown": "", "T": ""} {
		refusal := table.Delete(name)
		if remark == "" && refusal != nil || remark != "" && (refusal == nil || refusal.Remark != remark || refusal.Code != 29) {
			t.Errorf("%q: %v", name, refusal)
		}
	}
	if table.Find("T") != nil || told.knows("T") {
		t.Error("T is still there")
	}
}

func TestRetryTopicsFollowTheirGroup(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS(), nil))
	topic, refusal := table.CreateRetryTopic("g", 3, false, true)
	if refusal != nil || topic.Name() != "%RETRY%g" || topic.Config().ReadQueueNums != 3 || topic.Config().TopicSysFlag != 2 || topic.Config().Perm != 6 {
		t.Fatalf("%+v, %v", topic, refusal)
	}
	version := table.Version()
	again, _ := table.CreateRetryTopic("g", 5, false, false)
	if again != topic || table.Version() != version || again.Config().ReadQueueNums != 3 {
		t.Error("an existing retry topic was changed")
	}
	if again, _ = table.CreateRetryTopic("g", 5, true, false); !again.Config().Order || again.Config().ReadQueueNums != 3 {
		t.Errorf("the order flag does not follow: %+v", again.Config())
	}
	if topic, refusal := table.CreateRetryTopic(strings.Repeat("g", 249), 1, false, false); topic != nil || refusal == nil {
		t.Error("an endless name was taken")
	}
}

func TestBothBrokersFilesLoad(t *testing.T) {
	for _, version := range []string{"5.5.0", "4.9.4"} {
		data, err := os.ReadFile(filepath.Join("testdata", "topics-"+version+".json"))
		must(t, err)
		x := sysio.NewFaultFS()
		must(t, sysio.AtomicWriteFile(x, "topics.json", data, false))
		table := open(t, options(x, nil))
		var file struct {
			DataVersion      wire.DataVersion            `json:"dataVersion"`
			TopicConfigTable map[string]wire.TopicConfig `json:"topicConfigTable"`
		}
		must(t, json.Unmarshal(data, &file))
		if table.DataVersion() != file.DataVersion {
			t.Errorf("%s: version %v, want %v", version, table.DataVersion(), file.DataVersion)
		}
		for name, want := range file.TopicConfigTable {
			got := config(t, table, name)
			if want.Attributes == nil {
				want.Attributes = map[string]string{}
			}
			if !equalConfigs(&got, &want) {
				t.Errorf("%s: %s is %+v, want %+v", version, name, got, want)
			}
		}
		if table.Find(OpHalfTopic) == nil {
			t.Errorf("%s: no %s", version, OpHalfTopic)
		}
		must(t, table.Save())
		second := open(t, options(x, nil))
		a, _ := table.Configs()
		b, _ := second.Configs()
		if !slices.EqualFunc(a, b, func(a, b wire.TopicConfig) bool { return equalConfigs(&a, &b) }) || second.DataVersion() != table.DataVersion() {
			t.Errorf("%s: saved and loaded again it is another table", version)
		}
	}
}

func TestUnknownMembersOfTheFileSurvive(t *testing.T) {
	x := sysio.NewFaultFS()
	must(t, sysio.AtomicWriteFile(x, "topics.json", []byte(`{"future":{"a":[1]},"dataVersion":{"counter":5,"timestamp":7},`+
		`"topicConfigTable":{"T":{"perm":"6","colour":"red","writeQueueNums":3}}}`), false))
	table := open(t, options(x, nil))
	if got := config(t, table, "T"); got.WriteQueueNums != 3 || got.ReadQueueNums != 16 || got.Perm != 6 || got.TopicFilterType != wire.TopicFilterSingleTag {
		t.Errorf("%+v", got)
	}
	if refusal := table.UpdateOrCreate(wire.TopicConfig{TopicName: "T", Perm: 4, ReadQueueNums: 3, WriteQueueNums: 3}); refusal != nil {
		t.Fatal(refusal)
	}
	data, err := sysio.ReadFile(x, "topics.json")
	must(t, err)
	var file struct {
		Future           json.RawMessage                       `json:"future"`
		TopicConfigTable map[string]map[string]json.RawMessage `json:"topicConfigTable"`
	}
	must(t, json.Unmarshal(data, &file))
	if string(file.TopicConfigTable["T"]["colour"]) != `"red"` || string(file.TopicConfigTable["T"]["perm"]) != "4" || !strings.Contains(string(file.Future), "1") {
		t.Errorf("%s", data)
	}
}

func TestTopicsWithAnotherStorageStopTheStart(t *testing.T) {
	x := sysio.NewFaultFS()
	text := `{"topicConfigTable":{"T":{"topicName":"T","attributes":{"queue.type":"BatchCQ"}}}}`
	must(t, sysio.AtomicWriteFile(x, "topics.json", []byte(text), false))
	if _, err := Open(options(x, nil)); err == nil || !strings.Contains(err.Error(), "topics.json: topic T: attribute queue.type=BatchCQ is not supported") {
		t.Errorf("got %v", err)
	}
	if data, _ := sysio.ReadFile(x, "topics.json"); string(data) != text {
		t.Error("the file was changed")
	}
}

func TestRoutesPromiseNoMoreThanTheBroker(t *testing.T) {
	told := &recorder{}
	o := options(sysio.NewFaultFS(), told)
	o.Settings.Permission = 4
	table := open(t, o)
	topic, _ := table.CreateOnSend(SendCreation{"T", AutoCreateTopic, 4, false})
	if told.perms["T"] != 4 || topic.Config().Perm != 6 {
		t.Errorf("registered %d, stored %d", told.perms["T"], topic.Config().Perm)
	}
	configs, _ := table.Configs()
	for _, c := range configs {
		if c.Perm&PermWrite != 0 {
			t.Errorf("%s is registered writable", c.TopicName)
		}
	}
}

// kill -9 and power cuts at every step of creations: what was answered is there after the next start.
func TestCreatedTopicsSurviveCrashes(t *testing.T) {
	for seed := range uint64(2) {
		x := sysio.NewFaultFS()
		r := rand.New(rand.NewPCG(seed, 2))
		table := open(t, options(x, nil))
		answered := 0
		check := func(y *sysio.FaultFS) {
			after := open(t, options(y, nil))
			for i := range answered {
				if after.Find(fmt.Sprintf("T%d", i)) == nil {
					t.Fatalf("seed %d: T%d was answered and is lost", seed, i)
				}
			}
		}
		x.Observe(func(sysio.Event) { check(x.Kill()); check(x.PowerCut(r)) })
		for range 4 {
			if _, refusal := table.CreateOnSend(SendCreation{fmt.Sprintf("T%d", answered), AutoCreateTopic, 4, false}); refusal != nil {
				t.Fatal(refusal)
			}
			answered++
		}
		x.Observe(nil)
	}
}

func TestAFullDiskDoesNotStopCreation(t *testing.T) {
	x := sysio.NewFaultFS()
	table := open(t, options(x, nil))
	lift := x.Inject(sysio.Fault{Op: sysio.OpWrite, Err: syscall.ENOSPC})
	if topic, refusal := table.CreateOnSend(SendCreation{"T", AutoCreateTopic, 4, false}); topic == nil {
		t.Fatal(refusal)
	}
	if err := table.Save(); !sysio.IsNoSpace(err) {
		t.Errorf("got %v", err)
	}
	lift()
	must(t, table.Save())
	if open(t, options(x, nil)).Find("T") == nil {
		t.Error("T is not in the file")
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS(), nil))
	name := []byte(BenchmarkTopic)
	table.Lookup(name).Queue(7)
	if n := testing.AllocsPerRun(1000, func() {
		topic := table.Lookup(name)
		if topic.Queue(7) == nil || topic.Config().Perm != 6 || topic.SendForbidden() || table.Version() == 0 || CheckName("abc") != nil {
			t.Fatal("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestQueuesAreAskedForOnce(t *testing.T) {
	o := options(sysio.NewFaultFS(), nil)
	queues := &fakeQueues{}
	o.Queues = queues
	topic := open(t, o).Find(BenchmarkTopic)
	first := topic.Queue(1023)
	for range 10 {
		if topic.Queue(1023) != first || topic.Queue(0) == nil || topic.Queue(0) == first {
			t.Fatal("another handle")
		}
	}
	if queues.calls != 2 {
		t.Errorf("the store was asked %d times", queues.calls)
	}
	far := topic.Queue(1 << 30)
	if topic.Queue(-1) != nil || far == nil || topic.Queue(1<<30) != far {
		t.Error("ids at the edges")
	}
	if known := topic.queues.Load(); len(*known) > cachedQueuesMax {
		t.Errorf("%d handles are kept", len(*known))
	}
}

// Concurrent sends to the same unknown topics, lookups and administrators: one topic each, every change registered in order.
func TestConcurrentCreation(t *testing.T) {
	told := &recorder{}
	x := sysio.NewFaultFS()
	table := open(t, options(x, told))
	const names, senders = 20, 8
	var wg sync.WaitGroup
	for range senders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range names {
				name := fmt.Sprintf("C%d", i)
				topic, refusal := table.CreateOnSend(SendCreation{name, AutoCreateTopic, 4, false})
				if refusal != nil || table.Find(name) != topic || topic.Queue(message.QueueID(i%4)) == nil {
					t.Errorf("%s: %v", name, refusal)
				}
				if !told.knows(name) {
					t.Errorf("%s is answered before it is registered", name)
				}
				if refusal := table.UpdateOrCreate(wire.TopicConfig{TopicName: "A", ReadQueueNums: int32(i), WriteQueueNums: 1, Perm: 6}); refusal != nil {
					t.Error(refusal)
				}
			}
		}()
	}
	wg.Wait()
	for i, counter := range told.counters {
		if counter != int64(i+1) {
			t.Fatalf("registration %d has counter %d", i, counter)
		}
	}
	after := open(t, options(x.PowerCut(nil), nil))
	if after.Count() != table.Count() || after.DataVersion() != table.DataVersion() {
		t.Errorf("%d topics at %v in the file, %d at %v in the table", after.Count(), after.DataVersion(), table.Count(), table.DataVersion())
	}
}

func TestPagesCoverTheTable(t *testing.T) {
	table := open(t, options(sysio.NewFaultFS(), nil))
	all, total, _ := table.Page(0, 0)
	if len(all) != total || total != table.Count() {
		t.Fatalf("%d of %d", len(all), total)
	}
	var paged []string
	for from := 0; from < total; from += 4 {
		page, _, _ := table.Page(from, 4)
		for _, c := range page {
			paged = append(paged, c.TopicName)
		}
	}
	if len(paged) != total || !slices.IsSorted(paged) {
		t.Errorf("pages have %d topics", len(paged))
	}
	if page, _, _ := table.Page(1<<30, 5); len(page) != 0 {
		t.Errorf("%d topics behind the end", len(page))
	}
}
