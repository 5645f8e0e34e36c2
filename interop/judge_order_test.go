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
