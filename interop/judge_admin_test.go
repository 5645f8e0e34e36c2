package interop

import (
	"slices"
	"testing"
)

func TestWhatAConsumerSaysIsRelayed(t *testing.T) {
	sent, got := twoQueues("A", "t", 0, 10)
	right := slices.Concat(sent, got, []Event{
		saying("running: type", "CONSUME_PASSIVELY"), saying("running: queues", "2"), saying("running: subscribed", "true"),
		saying("running: threads", "true"), saying("running without threads", "null"), refusal("running: nobody", 1, "The Consumer <g> <nobody> not online"),
		saying("status", "[{0=10, 1=10}]"), saying("status of one", "[{0=10, 1=10}]"), saying("status of nobody", "[]"),
		{E: "phase", Name: "directly"}, {E: "value", Name: "directly: number", Value: 7}, saying("directly", "CR_SUCCESS orderly false"),
		refusal("directly: nobody", 1, "The Consumer <g> <nobody> not online"), refusal("running: offline", 1, "The Consumer <g> <c> not online"),
		refusal("status: offline", 1, "No Any Consumer online"),
	})
	phase := position(t, right, "phase", "directly")
	again := got[0]
	again.Flag = 7
	right = slices.Insert(right, phase+1, again)
	accepts(t, "right", relayed(right))
	for at, e := range right {
		if e.E == "told" {
			rejects(t, e.Name, e.Name, relayed(spoiled(right, at, func(e *Event) { e.Out += "?" })))
		}
	}
	rejects(t, "not consumed", "0 arrived", relayed(slices.Delete(slices.Clone(right), phase+1, phase+2)))
	rejects(t, "another one", "directly: number", relayed(spoiled(right, phase+1, func(e *Event) { e.Flag = 8 })))
	rejects(t, "twice", "2 arrived", relayed(slices.Insert(slices.Clone(right), phase+1, again)))
	rejects(t, "before", "2 times", relayed(slices.Insert(slices.Clone(right), phase, got[0])))
	rejects(t, "never", "nothing was consumed directly", relayed(slices.Delete(slices.Clone(right), phase, phase+1)))
}

func TestTimeSpansAreThoseOfTheQueue(t *testing.T) {
	_, got := twoQueues("A", "t", 0, 15) // stored at 1000 + 10 times the offset
	span := func(queue int) Event {
		q, _ := place(queue, 0)
		return Event{E: "span", Queue: q, Min: 1_000, Max: 1_140, TimeMs: 1_090, Ms: 905, From: 2_000, AtMs: 2_010}
	}
	right := append(got, span(0), span(1))
	for what, change := range map[string]func(*Event){
		"the oldest": func(e *Event) { e.Min = -1 }, "the newest": func(e *Event) { e.Max = 1_130 }, "the consumed": func(e *Event) { e.TimeMs = 1_100 },
	} {
		rejects(t, what, "stored are", timeSpans(spoiled(right, len(got), change)))
	}
	accepts(t, "right", timeSpans(right))
	rejects(t, "too late", "900 to 910 is right", timeSpans(spoiled(right, len(got), func(e *Event) { e.Ms = 911 })))
	rejects(t, "too early", "900 to 910 is right", timeSpans(spoiled(right, len(got), func(e *Event) { e.Ms = 0 })))
	rejects(t, "one queue", "2 expected", timeSpans(right[:len(right)-1]))
}

func TestCloneBeginsWhereTheOtherStopped(t *testing.T) {
	first, gotFirst := twoQueues("A", "first", 0, 10)
	second, gotSecond := twoQueues("T", "second", 10, 15)
	said := []Event{refusal("to an unknown group", 26, "Group g not exist!"), saying("by the tool", "done"), saying("by the broker", "done")}
	run := func(tool, broker []Event) []Event {
		return slices.Concat(first, gotFirst, said, second, relabel("T", tool), relabel("B", broker))
	}
	accepts(t, "right", cloned(run(gotSecond, gotSecond)))
	rejects(t, "from the begin", "nobody sent", cloned(run(slices.Concat(gotFirst, gotSecond), gotSecond)))
	rejects(t, "from the end", "10 lost", cloned(run(gotSecond, nil)))
	rejects(t, "a little too far", "1 lost", cloned(run(gotSecond, gotSecond[1:])))
	said[0] = saying("to an unknown group", "done")
	rejects(t, "made a group", "want code 26", cloned(run(gotSecond, gotSecond)))
	said = said[:1]
	rejects(t, "not done", "by the broker", cloned(run(gotSecond, gotSecond)))
}

func TestABacklogIsSkipped(t *testing.T) {
	backlog, gotBacklog := twoQueues("A", "backlog", 0, 10)
	fresh, gotFresh := twoQueues("A", "new", 10, 15)
	run := func(before, after []Event, to string) []Event {
		return slices.Concat(backlog, before, []Event{saying("skipped to", to)}, fresh, after)
	}
	const end = "[{0=10, 1=10}]"
	accepts(t, "right", skipped(run(gotBacklog[:2], gotFresh, end)))
	rejects(t, "not skipped", "2 expected", skipped(run(gotBacklog, gotFresh, end)))
	rejects(t, "never began", "2 expected", skipped(run(nil, gotFresh, end)))
	rejects(t, "stops", "lost", skipped(run(gotBacklog[:2], nil, end)))
	rejects(t, "new ones skipped", "2 lost", skipped(run(gotBacklog[:2], gotFresh[2:], end)))
	rejects(t, "repeats", "2 times", skipped(run(gotBacklog[:2], slices.Concat(gotFresh, gotFresh[:1]), end)))
	rejects(t, "elsewhere", "want", skipped(run(gotBacklog[:2], gotFresh, "[{0=10, 1=9}]")))
	rejects(t, "nothing", "20 expected", skipped(nil))
}

func TestAMessageLeavesItsTrace(t *testing.T) {
	sent, got := pair("a", 0, 0)
	right := []Event{sent, saying("trace", "true DefaultRegion"), got, {E: "traced", Name: "Pub", Group: "G-trace-p-1", Topic: "T", ID: "a"},
		{E: "traced", Name: "SubBefore", Group: "G-trace-g-1", ID: "a"}, {E: "traced", Name: "SubAfter", ID: "a"}}
	accepts(t, "right", traced(right))
	for at := 3; at < 6; at++ {
		name := right[at].Name
		rejects(t, "no "+name, "0 records "+name, traced(slices.Delete(slices.Clone(right), at, at+1)))
		rejects(t, "two "+name, "2 records "+name, traced(append(slices.Clone(right), right[at])))
		rejects(t, "another message", name+" is about", traced(spoiled(right, at, func(e *Event) { e.ID = "b" })))
	}
	rejects(t, "another topic", "topic U", traced(spoiled(right, 3, func(e *Event) { e.Topic = "U" })))
	rejects(t, "another group", "SubBefore: group", traced(spoiled(right, 4, func(e *Event) { e.Group = "G-trace-p-1" })))
	rejects(t, "another kind", "other records", traced(append(slices.Clone(right), Event{E: "traced", Name: "EndTransaction", ID: "a"})))
	rejects(t, "off", "trace:", traced(spoiled(right, 1, func(e *Event) { e.Out = "false DefaultRegion" })))
	rejects(t, "lost", "lost", traced(slices.Delete(slices.Clone(right), 2, 3)))
}
