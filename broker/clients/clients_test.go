package clients

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/wire"
)

// fakePusher records what reaches which connection.
type fakePusher struct {
	mu     sync.Mutex
	told   map[netio.ConnRef][]string // groups of NOTIFY_CONSUMER_IDS_CHANGED
	closed []netio.ConnRef
	dead   map[netio.ConnRef]bool
	bad    []string
}

func (p *fakePusher) Push(ref netio.ConnRef, frame []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var d wire.Decoder
	var c wire.Command
	if err := d.Decode(frame[4:], &c); err != nil {
		p.bad = append(p.bad, err.Error())
		return false
	}
	group, _ := c.GetExt("consumerGroup")
	if wire.RequestCode(c.Code) != wire.RequestNotifyConsumerIDsChanged || !c.IsOneway() || c.Encoding != wire.EncodingJSON || c.Version != wire.Version {
		p.bad = append(p.bad, fmt.Sprintf("%+v", c))
	}
	if p.told == nil {
		p.told = make(map[netio.ConnRef][]string)
	}
	p.told[ref] = append(p.told[ref], string(group))
	return !p.dead[ref]
}

func (p *fakePusher) Close(ref netio.ConnRef, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = append(p.closed, ref)
}

// take returns who was told of a group since the last call, sorted by slot.
func (p *fakePusher) take(t *testing.T, group string) []uint32 {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bad) > 0 {
		t.Fatal(p.bad)
	}
	var slots []uint32
	for ref, groups := range p.told {
		for _, g := range groups {
			if g == group {
				slots = append(slots, ref.Slot)
			}
		}
		p.told[ref] = slices.DeleteFunc(groups, func(g string) bool { return g == group })
	}
	slices.Sort(slots)
	return slots
}

func registry(p *fakePusher) *Registry {
	return NewRegistry(Options{Pusher: p, Logger: slog.New(slog.DiscardHandler), Notify: func(g string) bool { return !strings.HasPrefix(g, "quiet") }, RealTime: true})
}

func client(slot uint32, id string, seen message.Millis) Client {
	return Client{Ref: netio.ConnRef{Slot: slot, Gen: 1}, Remote: netip.MustParseAddrPort("10.0.0.1:1000"), ID: id, Version: 513, LastSeen: seen}
}

func subscription(topic, expression string, version int64) wire.SubscriptionData {
	data, err := wire.BuildSubscription(topic, expression, "")
	if err != nil {
		panic(err)
	}
	data.SubVersion = version
	return data
}

func consumer(group string, subscriptions ...wire.SubscriptionData) wire.ConsumerData {
	return wire.ConsumerData{GroupName: group, ConsumeType: wire.ConsumePassively, MessageModel: wire.ModelClustering,
		ConsumeFromWhere: wire.ConsumeFromLastOffset, SubscriptionDataSet: subscriptions}
}

func beat(c Client, consumers ...wire.ConsumerData) *Beat {
	return &Beat{Client: c, Consumers: consumers}
}

// When 5.5.0 sends NOTIFY_CONSUMER_IDS_CHANGED, observed on a running one.
func TestMembersAreToldOfChanges(t *testing.T) {
	p := &fakePusher{}
	r := registry(p)
	check := func(what string, want ...uint32) {
		t.Helper()
		if got := p.take(t, "g"); !slices.Equal(got, want) {
			t.Errorf("%s: %v were told, want %v", what, got, want)
		}
	}
	r.Heartbeat(beat(client(1, "a", 1), consumer("g", subscription("T", "*", 1))))
	check("first member", 1)
	r.Heartbeat(beat(client(1, "a", 2), consumer("g", subscription("T", "*", 1))))
	check("the same again")
	r.Heartbeat(beat(client(1, "a", 3), consumer("g", subscription("T", "A", 2))))
	check("a newer expression")
	if s := r.LookupGroup([]byte("g")).Subscription([]byte("T")); s.SubString != "A" || s.Match(66) || !s.Match(65) {
		t.Errorf("the newer expression does not count: %+v", s)
	}
	r.Heartbeat(beat(client(1, "a", 4), consumer("g", subscription("T", "B", 1))))
	if s := r.LookupGroup([]byte("g")).Subscription([]byte("T")); s.SubString != "A" {
		t.Errorf("an older expression counts: %+v", s)
	}
	check("an older expression")
	r.Heartbeat(beat(client(2, "a", 5), consumer("g", subscription("T", "A", 2))))
	check("a second connection of the same client id", 1, 2)
	r.Heartbeat(beat(client(1, "a", 6), consumer("g", subscription("T", "A", 2), subscription("U", "*", 1))))
	check("a new topic", 1, 2)
	r.Heartbeat(beat(client(1, "a", 7), consumer("g", subscription("T", "A", 2))))
	check("a topic less", 1, 2)
	if r.LookupGroup([]byte("g")).Subscription([]byte("U")) != nil {
		t.Error("U is still subscribed")
	}
	r.Unregister(client(2, "a", 0).Ref, "", "g")
	check("one unregisters", 1)
	r.Heartbeat(beat(client(3, "b", 8), consumer("g", subscription("T", "A", 2))))
	check("another joins", 1, 3)
	r.ConnClosed(client(1, "a", 0).Ref)
	check("a connection ends", 3)
	r.ConnClosed(client(3, "b", 0).Ref)
	check("the last one goes")
	if r.LookupGroup([]byte("g")) != nil || len(r.ConsumerIDs("g")) != 0 || r.registrations != 0 {
		t.Errorf("something is left: %d registrations", r.registrations)
	}
}

func TestSomeGroupsAreNotTold(t *testing.T) {
	p := &fakePusher{}
	r := registry(p)
	broadcast := consumer("g", subscription("T", "*", 1))
	broadcast.MessageModel = "BroadCasting" // the Go client's own name for it
	r.Heartbeat(beat(client(1, "a", 1), broadcast, consumer("quiet", subscription("T", "*", 1))))
	if len(p.take(t, "g"))+len(p.take(t, "quiet")) != 0 {
		t.Error("they were told")
	}
	if !r.LookupGroup([]byte("g")).Broadcasting() || r.LookupGroup([]byte("quiet")).Broadcasting() {
		t.Error("the model is not understood")
	}
}

func TestWithoutRealTimeTheScanTells(t *testing.T) {
	p := &fakePusher{}
	r := NewRegistry(Options{Pusher: p, Logger: slog.New(slog.DiscardHandler), Notify: func(string) bool { return true }})
	r.Heartbeat(beat(client(1, "a", 1), consumer("g", subscription("T", "*", 1))))
	r.Heartbeat(beat(client(2, "b", 1), consumer("g", subscription("T", "*", 1))))
	if got := p.take(t, "g"); len(got) != 0 {
		t.Errorf("%v were told at once", got)
	}
	r.Scan(2)
	if got := p.take(t, "g"); !slices.Equal(got, []uint32{1, 2}) {
		t.Errorf("%v were told by the scan", got)
	}
}

// The answers of 5.5.0 to the same heartbeats, but for the last two: the original says false there and the group would have
// no subscription.
func TestSecondKindOfHeartbeats(t *testing.T) {
	r := registry(&fakePusher{})
	one := consumer("GV2", subscription("T", "*", 1))
	short := consumer("GV2")
	cases := []struct {
		what string
		beat Beat
		want bool
	}{
		{"first kind", Beat{Consumers: []wire.ConsumerData{consumer("G1")}}, true},
		{"first kind ignores withoutSub", Beat{Consumers: []wire.ConsumerData{consumer("G1")}, WithoutSub: true}, true},
		{"unknown group", Beat{Consumers: []wire.ConsumerData{one}, Fingerprint: 77}, false},
		{"same fingerprint", Beat{Consumers: []wire.ConsumerData{short}, Fingerprint: 77, WithoutSub: true}, false},
		{"other fingerprint", Beat{Consumers: []wire.ConsumerData{short}, Fingerprint: 78, WithoutSub: true}, true},
		{"producers only", Beat{Producers: []string{"p"}, Fingerprint: 78}, false},
		{"one of two changed", Beat{Consumers: []wire.ConsumerData{one, consumer("GV9", subscription("T", "*", 1))}, Fingerprint: 79}, true},
		{"no subscription known", Beat{Consumers: []wire.ConsumerData{consumer("GV3")}, Fingerprint: 78, WithoutSub: true}, true},
		{"still none", Beat{Consumers: []wire.ConsumerData{consumer("GV3")}, Fingerprint: 78, WithoutSub: true}, true},
	}
	for _, c := range cases {
		c.beat.Client = client(1, "a", 1)
		if got := r.Heartbeat(&c.beat); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	if s := r.LookupGroup([]byte("GV2")).Subscription([]byte("T")); s == nil {
		t.Error("a heartbeat without subscriptions removed them")
	}
}

func TestSilentClientsGoWithoutWord(t *testing.T) {
	p := &fakePusher{}
	r := registry(p)
	r.Heartbeat(&Beat{Client: client(1, "a", 1000), Consumers: []wire.ConsumerData{consumer("g")}, Producers: []string{"p"}})
	r.Heartbeat(&Beat{Client: client(2, "b", 50_000), Consumers: []wire.ConsumerData{consumer("g")}, Producers: []string{"p"}})
	p.take(t, "g")
	r.Scan(121_000)
	if got := r.ConsumerIDs("g"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after exactly 120 s: %v", got)
	}
	r.Scan(121_001)
	if got := r.ConsumerIDs("g"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after 120 s: %v", got)
	}
	if producers, _ := r.Producers("p"); len(producers) != 1 || producers[0].ID != "b" {
		t.Errorf("producers: %v", producers)
	}
	if len(p.closed) != 1 || p.closed[0].Slot != 1 || len(p.take(t, "g")) != 0 {
		t.Errorf("closed %v", p.closed)
	}
	r.ConnClosed(client(1, "a", 0).Ref) // what the close brings
	if len(p.take(t, "g")) != 0 {
		t.Error("the end of an expired connection was told")
	}
}

func TestTheLastHeartbeatSpeaksForTheGroup(t *testing.T) {
	r := registry(&fakePusher{})
	r.Heartbeat(beat(client(1, "a", 1), consumer("g", subscription("T", "*", 1))))
	other := consumer("g", subscription("T", "*", 1))
	other.ConsumeType, other.ConsumeFromWhere = wire.ConsumeActively, wire.ConsumeFromFirstOffset
	r.Heartbeat(beat(client(2, "b", 2), other))
	want := Scalars{ConsumeType: wire.ConsumeActively, MessageModel: wire.ModelClustering, ConsumeFromWhere: wire.ConsumeFromFirstOffset}
	if got := r.LookupGroup([]byte("g")).Scalars(); got != want {
		t.Errorf("%+v", got)
	}
}

func TestDifferentSubscriptionsAreNoticed(t *testing.T) {
	var log strings.Builder
	r := NewRegistry(Options{Pusher: &fakePusher{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Notify: func(string) bool { return true }, RealTime: true})
	for i := range message.Millis(100) {
		r.Heartbeat(beat(client(1, "member-1", i), consumer("g", subscription("T", "tag1", 1))))
		r.Heartbeat(beat(client(2, "member-2", i), consumer("g", subscription("T", "tag2", 2))))
	}
	if got := r.Conflicting(); !slices.Equal(got, []Conflict{{"g", 2}}) {
		t.Errorf("conflicts: %v", got)
	}
	if n := strings.Count(log.String(), "subscribe differently"); n != 1 {
		t.Errorf("%d warnings in 100 ms", n)
	}
	for _, part := range []string{"group=g", "member-1", "member-2", "T:tag1", "T:tag2"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the warning does not name %s: %s", part, log.String())
		}
	}
	r.Heartbeat(beat(client(2, "member-2", 200), consumer("g", subscription("T", "tag1", 3))))
	if got := r.Conflicting(); len(got) != 0 {
		t.Errorf("still conflicts: %v", got)
	}
}

func TestHostileHeartbeatsAreBounded(t *testing.T) {
	r := registry(&fakePusher{})
	b := &Beat{Client: client(1, strings.Repeat("x", 1<<20), 1)}
	for i := range 2 * GroupsPerConnectionMax {
		b.Consumers = append(b.Consumers, consumer(fmt.Sprint("c", i)))
		b.Producers = append(b.Producers, fmt.Sprint("p", i))
	}
	r.Heartbeat(b)
	if r.registrations != GroupsPerConnectionMax {
		t.Errorf("%d registrations", r.registrations)
	}
	many := consumer("c0")
	for i := range 2 * TopicsPerGroupMax {
		many.SubscriptionDataSet = append(many.SubscriptionDataSet, subscription(fmt.Sprint("t", i), "*", 1))
	}
	r.Heartbeat(beat(client(1, "a", 2), many))
	if n := len(r.LookupGroup([]byte("c0")).Subscriptions()); n != TopicsPerGroupMax {
		t.Errorf("%d topics", n)
	}
	r.ConnClosed(client(1, "", 0).Ref)
	if r.registrations != 0 || len(r.consumers)+len(r.producers)+len(r.connections) != 0 {
		t.Errorf("%d registrations are left", r.registrations)
	}
	r.registrations = RegistrationsMax
	r.Heartbeat(beat(client(2, "b", 3), consumer("g")))
	if r.LookupGroup([]byte("g")) != nil {
		t.Error("one registration too many")
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	r := registry(&fakePusher{})
	r.Heartbeat(beat(client(1, "a", 1), consumer("g", subscription("T", "A||B", 1))))
	group, topic := []byte("g"), []byte("T")
	if n := testing.AllocsPerRun(1000, func() {
		g := r.LookupGroup(group)
		if g.Broadcasting() || !g.Subscription(topic).Match(66) {
			t.Fatal("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Heartbeats, ends of connections, scans and lookups from many goroutines; nothing is left at the end.
func TestConcurrentLife(t *testing.T) {
	p := &fakePusher{}
	r := registry(p)
	var wg sync.WaitGroup
	for w := range uint32(8) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range uint32(60) {
				c := client(w*1000+i, fmt.Sprint(w), message.Millis(i))
				group := fmt.Sprint("g", i%5)
				r.Heartbeat(&Beat{Client: c, Consumers: []wire.ConsumerData{consumer(group, subscription("T", "*", int64(i)))}, Producers: []string{group}})
				if !slices.Contains(r.ConsumerIDs(group), c.ID) {
					t.Errorf("%s is not in its own list", c.ID)
				}
				if g := r.LookupGroup([]byte(group)); g != nil {
					g.Subscription([]byte("T"))
					g.Broadcasting()
				}
				r.Scan(message.Millis(i))
				r.GroupsOf("T")
				if i%2 == 0 {
					r.Unregister(c.Ref, group, group)
				}
				r.ConnClosed(c.Ref)
			}
		}()
	}
	wg.Wait()
	consumers, producers, connections := r.Counts()
	if consumers+producers+connections+r.registrations != 0 {
		t.Errorf("left: %d consumer groups, %d producer groups, %d connections, %d registrations", consumers, producers, connections, r.registrations)
	}
}

// modelGroup is what a group is, written the simplest way.
type modelGroup struct {
	members map[uint32]message.Millis // slot → last seen
	topics  map[string]int64          // topic → version
}

// Random heartbeats, ends and scans against the simplest model: who is in which list, what is subscribed, who is told.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &fakePusher{}
		r := registry(p)
		groups := map[string]*modelGroup{}
		producers := map[string]map[uint32]message.Millis{}
		now := message.Millis(0)
		told := map[string][]uint32{}
		tell := func(group string) {
			if g := groups[group]; g != nil {
				told[group] = append(told[group], slices.Collect(maps.Keys(g.members))...)
			}
		}
		remove := func(group string, slot uint32) (was bool) {
			g := groups[group]
			if g == nil {
				return false
			}
			if _, was = g.members[slot]; was {
				delete(g.members, slot)
				if len(g.members) == 0 {
					delete(groups, group)
				}
			}
			return was
		}
		slots := rapid.Uint32Range(1, 4)
		names := rapid.SampledFrom([]string{"g", "h"})
		topics := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"T", "U", "V"}), 0, 3, rapid.ID[string])
		rt.Repeat(map[string]func(*rapid.T){
			"heartbeat": func(rt *rapid.T) {
				slot, name := slots.Draw(rt, "slot"), names.Draw(rt, "group")
				data := consumer(name)
				version := rapid.Int64Range(1, 3).Draw(rt, "version")
				for _, topic := range topics.Draw(rt, "topics") {
					data.SubscriptionDataSet = append(data.SubscriptionDataSet, subscription(topic, "*", version))
				}
				g := groups[name]
				if g == nil {
					g = &modelGroup{map[uint32]message.Millis{}, map[string]int64{}}
					groups[name] = g
				}
				_, known := g.members[slot]
				g.members[slot] = now
				fresh := map[string]int64{}
				for _, s := range data.SubscriptionDataSet {
					fresh[s.Topic] = max(version, g.topics[s.Topic])
				}
				changed := !known || !maps.EqualFunc(fresh, g.topics, func(int64, int64) bool { return true })
				g.topics = fresh
				if changed {
					tell(name)
				}
				r.Heartbeat(beat(client(slot, fmt.Sprint(slot), now), data))
			},
			"producer": func(rt *rapid.T) {
				slot, name := slots.Draw(rt, "slot"), names.Draw(rt, "group")
				if producers[name] == nil {
					producers[name] = map[uint32]message.Millis{}
				}
				producers[name][slot] = now
				r.Heartbeat(&Beat{Client: client(slot, fmt.Sprint(slot), now), Producers: []string{name}})
			},
			"unregister": func(rt *rapid.T) {
				slot, name := slots.Draw(rt, "slot"), names.Draw(rt, "group")
				if remove(name, slot) {
					tell(name)
				}
				r.Unregister(client(slot, "", 0).Ref, "", name)
			},
			"close": func(rt *rapid.T) {
				slot := slots.Draw(rt, "slot")
				for _, name := range []string{"g", "h"} {
					if remove(name, slot) {
						tell(name)
					}
					delete(producers[name], slot)
				}
				r.ConnClosed(client(slot, "", 0).Ref)
			},
			"scan": func(rt *rapid.T) {
				now += message.Millis(rapid.IntRange(0, 90_000).Draw(rt, "passed"))
				for _, name := range []string{"g", "h"} {
					if g := groups[name]; g != nil {
						for slot, seen := range maps.Clone(g.members) {
							if now-seen > expiredAfter {
								remove(name, slot)
							}
						}
					}
					for slot, seen := range maps.Clone(producers[name]) {
						if now-seen > expiredAfter {
							delete(producers[name], slot)
						}
					}
				}
				r.Scan(now)
			},
			"": func(rt *rapid.T) {
				for _, name := range []string{"g", "h"} {
					slices.Sort(told[name])
					if got := p.take(t, name); !slices.Equal(got, told[name]) {
						rt.Fatalf("%s: %v were told, want %v", name, got, told[name])
					}
					told[name] = nil
					var ids []string
					want := map[string]int64{}
					if g := groups[name]; g != nil {
						for slot := range g.members {
							ids = append(ids, fmt.Sprint(slot))
						}
						want = g.topics
					}
					slices.Sort(ids)
					if got := r.ConsumerIDs(name); !slices.Equal(got, ids) {
						rt.Fatalf("%s: members %v, want %v", name, got, ids)
					}
					got := map[string]int64{}
					if g := r.LookupGroup([]byte(name)); g != nil {
						for topic, s := range g.Subscriptions() {
							got[topic] = s.SubVersion
						}
					}
					if !maps.Equal(got, want) {
						rt.Fatalf("%s: subscriptions %v, want %v", name, got, want)
					}
					if members, _ := r.Producers(name); len(members) != len(producers[name]) {
						rt.Fatalf("%s: %d producers, want %d", name, len(members), len(producers[name]))
					}
				}
			},
		})
	})
}
