package interop

import (
	"fmt"
	"slices"
	"testing"
)

func saying(name, text string) Event { return Event{E: "told", Name: name, Out: text} }

func refusal(name string, code int, remark string) Event {
	return Event{E: "told", Name: name, Code: code, Remark: remark}
}

// position finds the event of that kind and name.
func position(t *testing.T, events []Event, kind, name string) int {
	t.Helper()
	at := slices.IndexFunc(events, func(e Event) bool { return e.E == kind && e.Name == name })
	if at < 0 {
		t.Fatalf("no event %s of the name %s", kind, name)
	}
	return at
}

func TestAnAnswerIsCompared(t *testing.T) {
	events := []Event{saying("a", "yes"), refusal("b", 1, "the host is not online")}
	accepts(t, "right", told(events, "a", "yes"))
	rejects(t, "another", "want \"no\"", told(events, "a", "no"))
	rejects(t, "missing", "answered 0 times", told(events, "c", ""))
	rejects(t, "twice", "answered 2 times", told(append(events, events[0]), "a", "yes"))
	rejects(t, "refused", "not online", told(events, "b", ""))
	accepts(t, "refused", toldNo(events, "b", 1, "host", "not online"))
	rejects(t, "another code", "want code 2", toldNo(events, "b", 2))
	rejects(t, "another remark", "lacks", toldNo(events, "b", 1, "offline"))
	rejects(t, "not refused", "want code 1", toldNo(events, "a", 1))
	rejects(t, "not asked", "answered 0 times", toldNo(events, "c", 1))
}

// strategies is what the scenario sees when all goes well.
func strategies() (events []Event) {
	for when, members := range map[string][2]string{"circle": {"A", "B"}, "hash": {"C", "D"}} {
		queues, owner := 8, func(queue int) int { return queue % 2 }
		if when == "hash" {
			queues, owner = 32, func(queue int) int { return min(1, queue/12) }
		}
		shares := [2]Event{}
		for i, by := range members {
			shares[i] = Event{E: "assigned", When: when, By: by, Ms: 3}
		}
		for queue := range queues {
			shares[owner(queue)].Queues = append(shares[owner(queue)].Queues, queue)
		}
		events = append(events, shares[:]...)
		for queue := range queues {
			sent, got := pair(fmt.Sprint(when, queue), queue, 0)
			sent.Topic, got.Topic, sent.Tag, got.Tag, got.By = when, when, when, when, members[owner(queue)]
			events = append(events, sent, got)
		}
	}
	return events
}

func TestQueuesAreSharedAsTheStrategySays(t *testing.T) {
	right := strategies()
	judge := func(events []Event) problems { return shared(events, named(events, "sent"), named(events, "got")) }
	share := func(by string) int {
		return slices.IndexFunc(right, func(e Event) bool { return e.E == "assigned" && e.By == by })
	}
	got := slices.IndexFunc(right, func(e Event) bool { return e.E == "got" && e.By == "C" })
	accepts(t, "right", judge(right))
	averaged := spoiled(spoiled(right, share("A"), func(e *Event) { e.Queues = []int{0, 1, 2, 3} }), share("B"), func(e *Event) { e.Queues = []int{4, 5, 6, 7} })
	rejects(t, "averaged", "every second one", judge(averaged))
	rejects(t, "two owners", "held by", judge(spoiled(right, share("D"), func(e *Event) { e.Queues = append([]int{3}, e.Queues...) })))
	rejects(t, "no owner", "31 of 32", judge(spoiled(right, share("D"), func(e *Event) { e.Queues = e.Queues[1:] })))
	rejects(t, "nothing for one", "holds []", judge(spoiled(right, share("D"), func(e *Event) { e.Queues = nil })))
	rejects(t, "never", "-1 ms", judge(spoiled(right, share("D"), func(e *Event) { e.Ms = -1 })))
	rejects(t, "another's", `the queue was "C"'s`, judge(spoiled(right, got, func(e *Event) { e.By = "D" })))
	rejects(t, "lost", "1 lost", judge(slices.Delete(slices.Clone(right), got, got+1)))
	rejects(t, "nothing", "nothing known", judge(nil))
}

func TestTheLastSubscriptionCounts(t *testing.T) {
	right := []Event{{E: "assigned", When: "both", By: "A", Queues: []int{0}}, {E: "assigned", When: "both", By: "B", Queues: []int{1}}}
	for turn, by := range []string{"B", "A"} {
		tags := [][2]string{{"red", "blue"}, {"blue", "red"}}[turn]
		last := tags[1]
		right = append(right, Event{E: "phase", Name: last + " last"}, saying(last+" last", last))
		for i := range 40 {
			sent, got := pair(fmt.Sprint(last, i), i/2%2, int64(20*turn+i/2))
			sent.Tag = tags[i%2]
			got.Tag, got.By = sent.Tag, by
			right = append(right, sent)
			if *got.Queue == 1-turn && got.Tag == last {
				right = append(right, got)
			}
		}
	}
	got := slices.IndexFunc(right, func(e Event) bool { return e.E == "got" && e.Tag == "red" })
	stray := slices.IndexFunc(right, func(e Event) bool { return e.E == "sent" && e.ID == "red1" })
	late := func(change func(*Event)) []Event {
		e := right[stray]
		e.E, e.By = "got", "A"
		change(&e)
		return append(slices.Clone(right), e)
	}
	accepts(t, "right", lastSaid(right))
	rejects(t, "lost", "1 lost", lastSaid(slices.Delete(slices.Clone(right), got, got+1)))
	rejects(t, "twice", "2 times", lastSaid(append(slices.Clone(right), right[got])))
	rejects(t, "another member", "while A was the last", lastSaid(spoiled(right, got, func(e *Event) { e.By = "B" })))
	blue := slices.IndexFunc(right, func(e Event) bool { return e.E == "sent" && e.ID == "red2" })
	rejects(t, "the other's wish", "nobody sent", lastSaid(late(func(e *Event) { e.ID, e.OffsetID, e.Tag, e.By = right[blue].ID, right[blue].OffsetID, "blue", "B" })))
	rejects(t, "what was skipped", "nobody sent", lastSaid(late(func(e *Event) { e.ID, e.OffsetID = "blue0", "off-blue0" })))
	rejects(t, "the first one counts", `want "red"`, lastSaid(spoiled(right, position(t, right, "told", "red last"), func(e *Event) { e.Out = "blue" })))
	rejects(t, "too few", "10 expected", lastSaid(where(right, func(e Event) bool { return e.ID != "red1" && e.ID != "blue3" })))
	rejects(t, "unshared", "1 expected", lastSaid(spoiled(right, 0, func(e *Event) { e.Queues = []int{0, 1} })))
	rejects(t, "nothing", "never spoke", lastSaid(nil))
}

func TestFingerprintsKeepSubscriptions(t *testing.T) {
	sent, got := pair("a", 0, 0)
	right := []Event{sent, got, saying("brokers that know fingerprints", "1"), saying("subscribed", "[t]"), saying("subscribed to another", "[other, t]"),
		saying("unsubscribed", "[t]"), refusal("unregistered", 206, "the consumer group[g] not online")}
	accepts(t, "right", fingerprinted(right))
	for at := 2; at < 6; at++ {
		rejects(t, right[at].Name, right[at].Name, fingerprinted(spoiled(right, at, func(e *Event) { e.Out = "[]" })))
	}
	rejects(t, "still there", "want code 206", fingerprinted(spoiled(right, 6, func(e *Event) { *e = saying("unregistered", "[t]") })))
	rejects(t, "lost", "lost", fingerprinted(slices.Delete(slices.Clone(right), 1, 2)))
}

func TestOnlyTagsPassTheCheck(t *testing.T) {
	const off = "The broker does not support consumer to filter message by SQL92"
	right := []Event{saying("tags", "accepted"), refusal("a > 1", 1, off), refusal("a > > 1", 1, off)}
	accepts(t, "right", configChecked(right))
	rejects(t, "no tags", "want \"accepted\"", configChecked(spoiled(right, 0, func(e *Event) { *e = refusal("tags", 1, "") })))
	rejects(t, "an expression", "want code 1", configChecked(spoiled(right, 1, func(e *Event) { *e = saying("a > 1", "accepted") })))
	rejects(t, "looked into", "want code 1", configChecked(spoiled(right, 2, func(e *Event) { e.Code = 23 })))
}

func TestLightMessagesAreLikeAnyOthers(t *testing.T) {
	sent, got := pair("a", 0, 0)
	right := []Event{sent, got, {E: "value", Name: "with offsets in light queues"}, refusal("pull of a light queue", 17, "topic[%LMQ%x] not exist"), saying("end of a light queue", "{offset=0}")}
	judge := func(events []Event) problems { return light(events, named(events, "sent"), named(events, "got")) }
	accepts(t, "right", judge(right))
	rejects(t, "lost", "lost", judge(slices.Delete(slices.Clone(right), 1, 2)))
	rejects(t, "numbered", "want 0", judge(spoiled(right, 2, func(e *Event) { e.Value = 1 })))
	rejects(t, "pulled", "want code 17", judge(spoiled(right, 3, func(e *Event) { *e = saying("pull of a light queue", "{}") })))
	rejects(t, "dispatched", "offset=10", judge(spoiled(right, 4, func(e *Event) { e.Out = "{offset=10}" })))
}
