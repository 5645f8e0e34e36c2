package interop

import (
	"slices"
)

// orderly judges the scenario "orderly": in each queue one message at a time, in order, with retries in place; no message is worked on
// by two members at once; what a leaver had comes to the other within its announced rebalance.
func orderly(events []Event) (found problems) {
	sent := named(events, "sent")
	if len(sent) != 200 {
		found.addf("%d messages sent, 200 expected", len(sent))
	}
	found.all(atLeastOnce(sent, named(events, "got")))
	found.all(fair(events, "both", 2, lockedMs, "A", "B"))
	found.all(fair(events, "after A left", 4, announcedMs, "B"))
	busy := slices.IndexFunc(events, func(e Event) bool { return e.E == "phase" && e.Name == "busy" })
	if busy < 0 {
		found.addf("A never left")
		return found
	}
	type queue struct {
		working string // who works on the message at next
		owner   string // who worked last
		next    int64  // the offset that is due
		again   int    // how often it was suspended
	}
	queues := map[int]*queue{}
	for i, event := range events {
		if event.E != "got" && event.E != "finished" {
			continue
		}
		q := queues[*event.Queue]
		if q == nil {
			q = &queue{}
			queues[*event.Queue] = q
		}
		if event.E == "finished" {
			if q.working != event.By || q.next != *event.Offset {
				found.addf("%s finished %d of queue %d, where %q works on %d", event.By, *event.Offset, *event.Queue, q.working, q.next)
			}
			q.working = ""
			if event.Status == "SUCCESS" {
				q.next, q.again = q.next+1, 0
			} else {
				q.again++
			}
			continue
		}
		if q.working != "" {
			found.addf("queue %d has two owners: %s got %s while %s works on %d", *event.Queue, event.By, label(event), q.working, q.next)
		}
		if q.owner != "" && q.owner != event.By {
			if i < busy {
				found.addf("queue %d went from %s to %s although nobody left", *event.Queue, q.owner, event.By)
			}
			// The next owner goes on where the last one had committed; it may repeat some, never skip. Its count of retries is its own.
			q.next, q.again = min(q.next, *event.Offset), 0
		}
		if *event.Offset != q.next {
			found.addf("%s got %s where offset %d is due", event.By, label(event), q.next)
			q.next = *event.Offset
		}
		if event.Again != q.again {
			found.addf("%s got %s as retry %d, it was suspended %d times", event.By, label(event), event.Again, q.again)
		}
		q.working, q.owner = event.By, event.By
	}
	if len(queues) != 4 {
		found.addf("%d queues had messages, 4 expected", len(queues))
	}
	for id, q := range queues {
		if q.next != 50 || q.working != "" || q.owner != "B" {
			found.addf("queue %d ends at %d of 50, last worked on by %s, still by %q", id, q.next, q.owner, q.working)
		}
	}
	if suspended := len(where(events, func(e Event) bool { return e.E == "finished" && e.Status == "SUSPEND" })); suspended < 40 {
		found.addf("%d times a queue was suspended, at least 40 expected", suspended)
	}
	return found
}

// inEachQueue: the named consumer's arrivals in both queues are from..to, in order.
func inEachQueue(got []Event, from, to int64) (found problems) {
	for queue := range 2 {
		found.all(offsetsFrom(where(got, func(e Event) bool { return *e.Queue == queue }), from, to))
	}
	return found
}

// sought judges the scenario "seek" over two queues of 20 and later 25 messages.
func sought(events, sent, got []Event) (found problems) {
	by := func(name string) []Event { return where(got, func(e Event) bool { return e.By == name }) }
	found.all(sameContent(sent, got))
	found.all(inEachQueue(by("begin"), 0, 20))
	found.all(inEachQueue(by("middle"), 17, 20))
	found.all(inEachQueue(by("end"), 20, 25))
	searches := named(events, "search")
	found.all(foundByTime(searches, append(by("begin"), by("end")...)))
	for _, search := range searches {
		found.all(offsetsFrom(where(by("time"), func(e Event) bool { return *e.Queue == *search.Queue }), *search.Offset, 25))
	}
	return found
}

// foundByTime: both queues were searched, and each answer is the first message stored at or after the time.
func foundByTime(searches, stored []Event) (found problems) {
	if len(searches) != 2 || *searches[0].Queue == *searches[1].Queue {
		found.addf("%d searches, one in each of 2 queues expected", len(searches))
	}
	for _, search := range searches {
		var first int64
		for _, event := range stored {
			if *event.Queue == *search.Queue && event.StoredMs < search.TimeMs {
				first = max(first, *event.Offset+1)
			}
		}
		if *search.Offset != first || first == 0 {
			found.addf("time %d in queue %d: offset %d, want %d", search.TimeMs, *search.Queue, *search.Offset, first)
		}
	}
	return found
}

// resetOnline judges the scenario "reset": before it everything once, after it once more what lies behind the reset, then what is new.
func resetOnline(events []Event) (found problems) {
	reset := slices.IndexFunc(events, func(e Event) bool { return e.E == "phase" && e.Name == "reset" })
	if reset < 0 {
		found.addf("there was no reset")
		return found
	}
	before, after := events[:reset], events[reset:]
	found.all(once(named(before, "sent"), named(before, "got")))
	found.all(foundByTime(named(after, "search"), named(before, "got")))
	var due []Event
	for _, event := range named(events, "sent") {
		if event.Tag != "early" {
			due = append(due, event)
		}
	}
	if len(due) != 20 {
		found.addf("%d messages lie behind the reset, 20 expected", len(due))
	}
	found.all(once(due, named(after, "got")))
	return found
}

// newGroups judges the scenario "where". The topic's queues begin at 0 and what they hold is recent, so the broker knows better than
// the client: every new group begins at 0, as the original has it.
func newGroups(sent, got []Event) (found problems) {
	for _, name := range []string{"FIRST", "LAST", "TIMESTAMP"} {
		found.all(once(sent, where(got, func(e Event) bool { return e.By == name })))
	}
	return found
}

// chained judges the scenario "ordered": a chain of messages, which the tag names, lies in one queue and arrives as it was sent. What was
// sent one-way may be overtaken: its sender did not wait.
func chained(sent, got []Event) (found problems) {
	if len(sent) != 60 {
		found.addf("%d messages sent, 60 expected", len(sent))
	}
	found.all(once(sent, got))
	x, queues := indexOf(sent), map[string]int{}
	next, due := map[int]int64{}, map[string][]string{}
	for _, event := range sent {
		if event.How != "oneway" {
			due[event.Tag] = append(due[event.Tag], event.ID)
		}
	}
	for _, event := range got {
		if queue, seen := queues[event.Tag]; seen && queue != *event.Queue {
			found.addf("%s of %s, the others are in queue %d", label(event), event.Tag, queue)
		}
		queues[event.Tag] = *event.Queue
		if *event.Offset != next[*event.Queue] {
			found.addf("%s arrived where offset %d is due", label(event), next[*event.Queue])
		}
		next[*event.Queue] = *event.Offset + 1
		original, _ := x.find(event)
		if original.How == "oneway" {
			continue
		}
		if rest := due[event.Tag]; len(rest) == 0 || rest[0] != event.ID {
			found.addf("%s arrived, due of %s are %q", label(event), event.Tag, rest)
		} else {
			due[event.Tag] = rest[1:]
		}
	}
	if len(queues) != 5 {
		found.addf("%d chains arrived, 5 expected", len(queues))
	}
	return found
}

// pullAll judges the scenario "pull-all": a pull hands over the whole topic, the next one only what is new, the last one only one tag.
func pullAll(sent, got []Event) (found problems) {
	if len(sent) != 120 {
		found.addf("%d messages sent, 120 expected", len(sent))
		return found
	}
	even := where(sent, func(e Event) bool { return e.Tag == "even" })
	for name, want := range map[string][]Event{"first": sent[:40], "second": sent[40:80], "even": even} {
		found.all(once(want, where(got, func(e Event) bool { return e.By == name })))
	}
	return found
}
