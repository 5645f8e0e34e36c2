package interop

import (
	"fmt"
	"slices"
	"testing"
)

// inOrder is what the scenario "orderly" sees when all goes well: queues 0 and 1 of A go to B after the message at offset 24.
func inOrder() (events []Event) {
	share := func(when, by string, queues ...int) {
		events = append(events, Event{E: "assigned", When: when, By: by, Ms: 3, Queues: queues})
	}
	share("both", "A", 0, 1)
	share("both", "B", 2, 3)
	for offset := range int64(50) {
		if offset == 20 {
			events = append(events, Event{E: "phase", Name: "busy"})
		}
		if offset == 25 {
			share("after A left", "B", 0, 1, 2, 3)
		}
		for queue := range 4 {
			sent, got := pair(fmt.Sprint(queue, "-", offset), queue, offset)
			if got.By = "B"; queue < 2 && offset < 25 {
				got.By = "A"
			}
			events = append(events, sent)
			for again := 0; ; again++ {
				got.Again = again
				finished := Event{E: "finished", By: got.By, Queue: got.Queue, Offset: got.Offset, Status: "SUCCESS"}
				if suspend := offset%5 == 0 && again < 2; suspend {
					finished.Status = "SUSPEND"
				}
				events = append(events, got, finished)
				if finished.Status == "SUCCESS" {
					break
				}
			}
		}
	}
	return events
}

func TestOrderIsKeptByOneOwner(t *testing.T) {
	right := inOrder()
	at := func(name string, queue int, offset int64) int {
		return slices.IndexFunc(right, func(e Event) bool { return e.E == name && *e.Queue == queue && *e.Offset == offset })
	}
	without := func(from, to int) []Event { return slices.Delete(slices.Clone(right), from, to) }
	accepts(t, "right", orderly(right))

	skipped := at("got", 1, 7)
	rejects(t, "skipped", "where offset 7 is due", orderly(without(skipped, skipped+2)))
	rejects(t, "lost", "lost", orderly(without(skipped, skipped+2)))
	twice := slices.Insert(slices.Clone(right), skipped+2, right[skipped], right[skipped+1])
	rejects(t, "repeated", "where offset 8 is due", orderly(twice))
	both := slices.Insert(slices.Clone(right), skipped+1, spoiled(right, skipped, func(e *Event) { e.By = "B" })[skipped])
	rejects(t, "two at a time", "two owners", orderly(both))
	rejects(t, "wanders", "nobody left", orderly(spoiled(spoiled(right, skipped, func(e *Event) { e.By = "B" }), skipped+1, func(e *Event) { e.By = "B" })))
	rejects(t, "ended by another", "finished 7", orderly(spoiled(right, skipped+1, func(e *Event) { e.By = "B" })))
	suspended := at("got", 1, 5)
	rejects(t, "not counted", "it was suspended 1 times", orderly(spoiled(right, suspended+2, func(e *Event) { e.Again = 0 })))
	overtaken := slices.Clone(right)
	overtaken[skipped], overtaken[skipped+1], overtaken[suspended], overtaken[suspended+1] = overtaken[suspended], overtaken[suspended+1], overtaken[skipped], overtaken[skipped+1]
	rejects(t, "overtaken while suspended", "where offset 5 is due", orderly(overtaken))

	// At the hand-over the next owner may repeat what the last one had not committed, with its own count of retries, but skip nothing.
	take := at("got", 0, 25)
	repeat := right[at("got", 0, 24)]
	repeat.By = "B"
	again := Event{E: "finished", By: "B", Queue: repeat.Queue, Offset: repeat.Offset, Status: "SUCCESS"}
	accepts(t, "repeats at the hand-over", orderly(slices.Insert(slices.Clone(right), take, repeat, again)))
	end := at("got", 0, 26)
	rejects(t, "skips at the hand-over", "where offset 25 is due", orderly(without(take, end)))
	rejects(t, "unfinished", "still by", orderly(right[:len(right)-1]))

	left := slices.IndexFunc(right, func(e Event) bool { return e.When == "after A left" })
	rejects(t, "late", "at most 5000", orderly(spoiled(right, left, func(e *Event) { e.Ms = announcedMs + 1 })))
	rejects(t, "unshared", "2 expected", orderly(spoiled(right, 0, func(e *Event) { e.Queues = []int{0} })))
	rejects(t, "nobody leaves", "A never left", orderly(where(right, func(e Event) bool { return e.E != "phase" })))
	rejects(t, "too few", "200 expected", orderly(right[:100]))
	calm := where(right, func(e Event) bool { return e.Status != "SUSPEND" && (e.E != "got" || e.Again == 0) })
	rejects(t, "nothing suspended", "at least 40 expected", orderly(calm))
}

// twoQueues is so many messages in each of two queues; the store time is 10 times the offset, starting at 1000.
func twoQueues(by, tag string, from, to int64) (sent, got []Event) {
	for offset := from; offset < to; offset++ {
		for queue := range 2 {
			s, g := pair(fmt.Sprint(queue, "-", offset), queue, offset)
			s.Tag, g.Tag, g.By, g.StoredMs = tag, tag, by, 1_000+10*offset
			sent, got = append(sent, s), append(got, g)
		}
	}
	return sent, got
}

func searchOf(queue int, time, answer int64) Event {
	q, o := place(queue, answer)
	return Event{E: "search", Queue: q, Offset: o, TimeMs: time}
}

func TestASeekGoesWhereItSays(t *testing.T) {
	sent, begin := twoQueues("begin", "t", 0, 20)
	_, middle := twoQueues("middle", "t", 17, 20)
	more, end := twoQueues("end", "t", 20, 25)
	_, tail := twoQueues("time", "t", 12, 25)
	sent = append(sent, more...)
	searches := []Event{searchOf(0, 1_120, 12), searchOf(1, 1_115, 12)}
	all := func(parts ...[]Event) []Event { return slices.Concat(parts...) }
	accepts(t, "right", sought(searches, sent, all(begin, middle, end, tail)))
	rejects(t, "not from the begin", "offset 1 where 0", sought(searches, sent, all(begin[2:], middle, end, tail)))
	rejects(t, "too far back", "offset 16 where 17", sought(searches, sent, all(begin, begin[32:], relabel("middle", begin[32:34]), middle, end, tail)))
	rejects(t, "old ones after the end", "offset 19 where 20", sought(searches, sent, all(begin, middle, relabel("end", begin[38:]), end, tail)))
	rejects(t, "new ones missing", "offsets end at 24", sought(searches, sent, all(begin, middle, end[:8], tail)))
	rejects(t, "not from that time", "offset 13 where 12", sought(searches, sent, all(begin, middle, end, tail[2:])))
	wrong := []Event{searchOf(0, 1_121, 12), searches[1]}
	rejects(t, "another offset", "want 13", sought(wrong, sent, all(begin, middle, end, tail)))
	rejects(t, "one search", "2 queues expected", sought(searches[:1], sent, all(begin, middle, end, tail)))
	rejects(t, "strangers", "nobody sent", sought(searches, sent[2:], all(begin, middle, end, tail)))
}

func relabel(by string, list []Event) []Event {
	list = slices.Clone(list)
	for i := range list {
		list[i].By = by
	}
	return list
}

func TestAResetReachesAWorkingConsumer(t *testing.T) {
	early, gotEarly := twoQueues("A", "early", 0, 20)
	late, gotLate := twoQueues("A", "late", 20, 25)
	fresh, gotFresh := twoQueues("A", "new", 25, 30)
	phase := []Event{{E: "phase", Name: "reset"}}
	searches := []Event{searchOf(0, 1_195, 20), searchOf(1, 1_195, 20)}
	run := func(before, searches, again, after []Event) []Event {
		return slices.Concat(early, late, before, phase, searches, again, fresh, after)
	}
	calm := slices.Concat(gotEarly, gotLate)
	accepts(t, "right", resetOnline(run(calm, searches, gotLate, gotFresh)))
	rejects(t, "ignored", "lost", resetOnline(run(calm, searches, nil, gotFresh)))
	rejects(t, "too far", "nobody sent", resetOnline(run(calm, searches, slices.Concat(gotEarly[38:], gotLate), gotFresh)))
	rejects(t, "twice", "2 times", resetOnline(run(calm, searches, slices.Concat(gotLate, gotLate), gotFresh)))
	rejects(t, "stops", "lost", resetOnline(run(calm, searches, gotLate, nil)))
	rejects(t, "early repeat", "2 times", resetOnline(run(slices.Concat(calm, gotLate), searches, gotLate, gotFresh)))
	wrong := []Event{searchOf(0, 1_195, 19), searches[1]}
	rejects(t, "another offset", "want 20", resetOnline(run(calm, wrong, gotLate, gotFresh)))
	rejects(t, "never", "no reset", resetOnline(slices.Concat(early, calm)))
	rejects(t, "nothing behind it", "20 expected", resetOnline(slices.Concat(early, gotEarly, phase, searches)))
}

func TestNewGroupsBeginWhereTheOriginalSays(t *testing.T) {
	sent, got := twoQueues("", "t", 0, 30)
	all := func(first, last, timestamp []Event) []Event {
		return slices.Concat(relabel("FIRST", first), relabel("LAST", last), relabel("TIMESTAMP", timestamp))
	}
	accepts(t, "right", newGroups(sent, all(got, got, got)))
	rejects(t, "FIRST", "2 lost", newGroups(sent, all(got[2:], got, got)))
	rejects(t, "LAST", "50 lost", newGroups(sent, all(got, got[50:], got)))
	rejects(t, "TIMESTAMP", "40 lost", newGroups(sent, all(got, got, got[40:])))
}

func TestChainsStayInTheirQueue(t *testing.T) {
	var sent, got []Event
	for i := range 60 {
		s, g := pair(fmt.Sprint(i), i%5, int64(i/5))
		s.How, s.Tag, s.Queue = "ordered", fmt.Sprint("chain", i%5), nil
		if i%4 == 3 {
			s.How, s.Offset, s.OffsetID = "oneway", nil, ""
		}
		g.Tag = s.Tag
		sent, got = append(sent, s), append(got, g)
	}
	swapped := func(i, j int) []Event {
		list := slices.Clone(got)
		list[i], list[j] = list[j], list[i]
		return list
	}
	replaced := func(i, j int) []Event { // one stands where the other is due
		list := swapped(i, j)
		list[i].Offset, list[j].Offset = list[j].Offset, list[i].Offset
		return list
	}
	accepts(t, "right", chained(sent, got))
	overtaken := spoiled(sent, 8, func(e *Event) { _, e.Offset = place(3, 0) })
	accepts(t, "one-way is overtaken", chained(overtaken, replaced(3, 8)))
	rejects(t, "lost", "1 lost", chained(sent, got[:59]))
	rejects(t, "late", "where offset 0 is due", chained(sent, swapped(0, 5)))
	sentOtherwise := slices.Clone(sent)
	sentOtherwise[0], sentOtherwise[5] = sentOtherwise[5], sentOtherwise[0]
	rejects(t, "another order", "due of chain0", chained(sentOtherwise, got))
	rejects(t, "another queue", "the others are in queue 0", chained(sent, spoiled(got, 5, func(e *Event) { e.Queue, e.Offset = place(7, 0) })))
	rejects(t, "another offset", "the answer named offset 0", chained(sent, spoiled(got, 0, func(e *Event) { e.Queue, e.Offset = place(0, 9) })))
	rejects(t, "too few", "60 expected", chained(sent[:59], got[:59]))
}

func TestPullsGoOn(t *testing.T) {
	var sent, got []Event
	for i := range 120 {
		s, g := pair(fmt.Sprint(i), 0, int64(i))
		g.By = []string{"first", "second", "even"}[i/40]
		if i >= 80 && i%2 == 0 {
			s.Tag, g.Tag = "even", "even"
		}
		if sent = append(sent, s); i < 80 || i%2 == 0 {
			got = append(got, g)
		}
	}
	accepts(t, "right", pullAll(sent, got))
	rejects(t, "lost", "1 lost", pullAll(sent, got[1:]))
	rejects(t, "from the begin again", "nobody sent", pullAll(sent, append(slices.Clone(got), spoiled(got, 0, func(e *Event) { e.By = "second" })[0])))
	rejects(t, "another tag", "nobody sent", pullAll(sent, append(slices.Clone(got), spoiled(got, 0, func(e *Event) { e.By = "even" })[0])))
	rejects(t, "too few", "120 expected", pullAll(sent[1:], got))
}

func TestEveryWayOfSendingIsUsed(t *testing.T) {
	events, expect := []Event{{E: "done"}, {E: "batch", Stored: 8, IDs: -1, OffsetIDs: -1}}, Expectation{BatchOne: true}
	for i := range 32 {
		s, g := pair(fmt.Sprint(i), 0, int64(i))
		s.How = []string{"sync", "async", "oneway", "batch"}[i/8]
		events = append(events, s, g)
	}
	accepts(t, "right", verdict("send", events, expect))
	accepts(t, "ids are told", verdict("send", spoiled(events, 1, func(e *Event) { e.IDs, e.OffsetIDs = 8, 8 }), expect))
	rejects(t, "too few ids", "must name 8 ids", verdict("send", spoiled(events, 1, func(e *Event) { e.IDs, e.OffsetIDs = 7, 8 }), expect))
	rejects(t, "too small", "must name 8 ids", verdict("send", spoiled(events, 1, func(e *Event) { e.Stored = 7 }), expect))
	rejects(t, "a way too few", "7 messages sent async", verdict("send", spoiled(events, 18, func(e *Event) { e.How = "sync" }), expect))
	// The last eight as one.
	_, whole := pair("", 0, 24)
	whole.Keys = ""
	asOne := append(slices.Clone(events[:50]), whole)
	for i := 50; i < 66; i += 2 {
		asOne = append(asOne, events[i])
	}
	accepts(t, "a batch as one, the original", verdict("send", asOne, Expectation{}))
	rejects(t, "a batch as one", "nobody sent", verdict("send", asOne, expect))
	rejects(t, "a batch as eight, the original", "one that holds the batch", verdict("send", events, Expectation{}))
}
