package interop

import (
	"slices"
	"strings"
)

// told: the question of that name was answered once, with that text.
func told(events []Event, name, want string) (found problems) {
	answers := where(events, func(e Event) bool { return e.E == "told" && e.Name == name })
	if len(answers) != 1 {
		found.addf("%s: answered %d times", name, len(answers))
	} else if a := answers[0]; a.Code != 0 || a.Out != want {
		found.addf("%s: %q (code %d %s), want %q", name, a.Out, a.Code, a.Remark, want)
	}
	return found
}

// toldNo: the question of that name was refused with that code and a remark that has all of the parts.
func toldNo(events []Event, name string, code int, parts ...string) (found problems) {
	answers := where(events, func(e Event) bool { return e.E == "told" && e.Name == name })
	if len(answers) != 1 {
		found.addf("%s: answered %d times", name, len(answers))
		return found
	}
	a := answers[0]
	if a.Code != code || a.Out != "" {
		found.addf("%s: code %d %s%s, want code %d", name, a.Code, a.Remark, a.Out, code)
	}
	for _, part := range parts {
		if !strings.Contains(a.Remark, part) {
			found.addf("%s: %q lacks %q", name, a.Remark, part)
		}
	}
	return found
}

// relayed: what a consumer says of itself reaches the administrator, and the message that he has it consume comes once more.
func relayed(events []Event) (found problems) {
	found.all(told(events, "running: type", "CONSUME_PASSIVELY"))
	found.all(told(events, "running: queues", "2"))
	found.all(told(events, "running: subscribed", "true"))
	found.all(told(events, "running: threads", "true"))
	found.all(told(events, "running without threads", "null"))
	found.all(toldNo(events, "running: nobody", 1, "nobody", "not online"))
	found.all(told(events, "status", "[{0=10, 1=10}]"))
	found.all(told(events, "status of one", "[{0=10, 1=10}]"))
	found.all(told(events, "status of nobody", "[]"))
	found.all(told(events, "directly", "CR_SUCCESS orderly false"))
	found.all(toldNo(events, "directly: nobody", 1, "nobody", "not online"))
	found.all(toldNo(events, "running: offline", 1, "not online"))
	found.all(toldNo(events, "status: offline", 1))
	at := slices.IndexFunc(events, func(e Event) bool { return e.E == "phase" && e.Name == "directly" })
	if at < 0 {
		found.addf("nothing was consumed directly")
		return found
	}
	found.all(once(named(events, "sent"), named(events[:at], "got")))
	again := named(events[at:], "got")
	if len(again) != 1 {
		found.addf("consuming one message directly: %d arrived", len(again))
		return found
	}
	found.all(value(events, "directly: number", int64(again[0].Flag)))
	return found
}

// timeSpans: of each queue the store times of its oldest message, its newest, the last that the group consumed, and how long the first
// that it did not has been waiting. All of them were consumed in the end, which shows their store times.
func timeSpans(events []Event) (found problems) {
	spans := named(events, "span")
	if len(spans) != 2 {
		found.addf("%d queues answered, 2 expected", len(spans))
	}
	for _, span := range spans {
		stored := map[int64]int64{}
		for _, e := range named(events, "got") {
			if *e.Queue == *span.Queue {
				stored[*e.Offset] = e.StoredMs
			}
		}
		if span.Min != stored[0] || span.TimeMs != stored[9] || span.Max != stored[14] {
			found.addf("queue %d: from %d to %d, consumed up to %d; stored are %d, %d, %d", *span.Queue, span.Min, span.Max, span.TimeMs, stored[0], stored[14], stored[9])
		}
		if shortest, longest := span.From-stored[10], span.AtMs-stored[10]; span.Ms < shortest || span.Ms > longest {
			found.addf("queue %d: %d ms behind, %d to %d is right", *span.Queue, span.Ms, shortest, longest)
		}
	}
	return found
}

// cloned: the new groups begin where the old one had stopped.
func cloned(events []Event) (found problems) {
	found.all(toldNo(events, "to an unknown group", 26))
	found.all(told(events, "by the tool", "done"))
	found.all(told(events, "by the broker", "done"))
	for by, tag := range map[string]string{"A": "first", "T": "second", "B": "second"} {
		found.all(once(where(events, func(e Event) bool { return e.E == "sent" && e.Tag == tag }),
			where(events, func(e Event) bool { return e.E == "got" && e.By == by })))
	}
	return found
}

// skipped: of the backlog come only those that its two threads had begun with, and all that is new.
func skipped(events []Event) (found problems) {
	found.all(told(events, "skipped to", "[{0=10, 1=10}]"))
	tagged := func(name, tag string) []Event {
		return where(events, func(e Event) bool { return e.E == name && e.Tag == tag })
	}
	if n := len(tagged("sent", "backlog")); n != 20 {
		found.addf("a backlog of %d, 20 expected", n)
	}
	if n := len(tagged("got", "backlog")); n != 2 {
		found.addf("%d of the backlog arrived, 2 expected", n)
	}
	found.all(once(tagged("sent", "new"), tagged("got", "new")))
	return found
}

// traced: the message left one record of its sending and two of its consumption.
func traced(events []Event) (found problems) {
	found.all(told(events, "trace", "true DefaultRegion"))
	sent := named(events, "sent")
	found.all(once(sent, named(events, "got")))
	records := map[string]int{}
	for _, r := range named(events, "traced") {
		records[r.Name]++
		if len(sent) != 1 || r.ID != sent[0].ID {
			found.addf("%s is about message %s", r.Name, r.ID)
		}
		if r.Name == "Pub" && (!strings.Contains(r.Group, "-p-") || len(sent) == 1 && r.Topic != sent[0].Topic) {
			found.addf("Pub: group %s, topic %s", r.Group, r.Topic)
		}
		if r.Name == "SubBefore" && !strings.Contains(r.Group, "-g-") {
			found.addf("SubBefore: group %s", r.Group)
		}
	}
	for _, name := range []string{"Pub", "SubBefore", "SubAfter"} {
		if records[name] != 1 {
			found.addf("%d records %s, 1 expected", records[name], name)
		}
		delete(records, name)
	}
	if len(records) > 0 {
		found.addf("other records: %v", records)
	}
	return found
}
