package interop

import (
	"maps"
	"slices"
	"strings"
)

// levelMs is what the delay levels that are used here mean.
var levelMs = map[string]int64{"level0": 0, "level1": 1_000, "level2": 5_000, "level3": 10_000}

// A dead letter asks for a delay of a minute (level 5). Less than half of that was no detour through the schedule topic, on any machine.
const deadLetterMs = 30_000

// unplaced are messages as their sender knows them, without the place that the answer named: a message that is stored again, after a
// delay or a failure, gets another one.
func unplaced(sent []Event) []Event {
	list := slices.Clone(sent)
	for i := range list {
		list[i].OffsetID, list[i].Queue, list[i].Offset = "", nil, nil
	}
	return list
}

// delayed judges the scenario "delay": each message once, as sent, and none before its time.
func delayed(sent, got []Event) (found problems) {
	if len(sent) != 40 {
		found.addf("%d messages sent, 40 expected", len(sent))
	}
	found.all(once(unplaced(sent), got))
	found.all(noGaps(got))
	for _, event := range got {
		level, known := levelMs[event.Tag]
		if !known || event.BornMs == 0 {
			found.addf("%s: level %q, sent at %d", label(event), event.Tag, event.BornMs)
		} else if early := event.BornMs + level - min(event.AtMs, event.StoredMs); early > 0 {
			found.addf("%s: %d ms too early for %s", label(event), early, event.Tag)
		}
	}
	return found
}

// deliveries sorts what arrived by the message that it is, in the order of arrival.
func deliveries(sent, got []Event) map[string][]Event {
	x, list := indexOf(unplaced(sent)), map[string][]Event{}
	for _, event := range got {
		if original, known := x.find(event); known {
			list[original.ID] = append(list[original.ID], event)
		}
	}
	return list
}

// again: a message was delivered so many times: counted up, with the id of its first record, not before its delay of a second.
func again(original Event, list []Event, times int) (found problems) {
	if len(list) != times {
		found.addf("%s: delivered %d times, %d expected", label(original), len(list), times)
		return found
	}
	for i, event := range list {
		if event.Again != i {
			found.addf("%s: delivery %d says that it is retry %d", label(original), i, event.Again)
		}
		if i == 0 {
			continue
		}
		if event.Origin != original.OffsetID || event.RetryOf != original.Topic {
			found.addf("%s: retry %d comes from message %q of topic %q", label(original), i, event.Origin, event.RetryOf)
		}
		if early := list[i-1].AtMs + levelMs["level1"] - min(event.AtMs, event.StoredMs); early > 0 {
			found.addf("%s: retry %d came %d ms too early", label(original), i, early)
		}
	}
	return found
}

// retried judges the scenario "retry": what fails twice comes three times, the rest once, and waits for nobody.
func retried(sent, got []Event) (found problems) {
	if len(sent) != 60 {
		found.addf("%d messages sent, 60 expected", len(sent))
	}
	found.all(sameContent(unplaced(sent), got))
	all := deliveries(sent, got)
	for _, original := range sent {
		times := 1
		if original.Tag == "fails" {
			times = 3
		}
		found.all(again(original, all[original.ID], times))
	}
	last := slices.IndexFunc(got, func(e Event) bool { return e.Again == 2 })
	for _, event := range got[max(last, 0):] {
		if event.Again == 0 {
			found.addf("%s waited for a message that failed before it", label(event))
		}
	}
	return found
}

// deadLettered judges the scenario "dead-letter": after one retry a message is in the group's dead-letter topic, at once and as it was.
func deadLettered(sent, failed, dead []Event) (found problems) {
	if len(sent) != 8 {
		found.addf("%d messages sent, 8 expected", len(sent))
	}
	found.all(sameContent(unplaced(sent), failed))
	failures, buried := deliveries(sent, failed), deliveries(sent, dead)
	for _, original := range sent {
		found.all(again(original, failures[original.ID], 2))
		list := buried[original.ID]
		if len(list) != 1 {
			found.addf("%s: %d times among the dead letters", label(original), len(list))
			continue
		}
		letter := list[0]
		if group, isDead := strings.CutPrefix(letter.Topic, "%DLQ%"); !isDead || group == "" || *letter.Queue != 0 {
			found.addf("%s: a dead letter in queue %d of topic %s", label(original), *letter.Queue, letter.Topic)
		}
		if letter.Origin != original.OffsetID || letter.RetryOf != original.Topic {
			found.addf("%s: a dead letter comes from message %q of topic %q", label(original), letter.Origin, letter.RetryOf)
		}
		if waited := letter.StoredMs - lastAt(failures[original.ID]); waited > deadLetterMs {
			found.addf("%s: a dead letter after %d ms", label(original), waited)
		}
		letter.Topic = original.Topic
		found.all(sameContent(unplaced([]Event{original}), []Event{letter}))
	}
	if len(dead) != len(sent) {
		found.addf("%d dead letters, %d expected", len(dead), len(sent))
	}
	return found
}

func lastAt(list []Event) int64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].AtMs
}

// clockMs is how far two readings of a clock of whole milliseconds, which the Java client counts its limit with, are from the true time.
const clockMs = 1

// replied judges the scenario "request-reply": each request gets the reply to its own body, once; the one that nobody answers ends
// at its time limit.
func replied(events []Event) (found problems) {
	requests := map[string]int{}
	for _, asked := range named(events, "asked") {
		requests[asked.Name]++
		about := func(name string) []Event {
			return where(events, func(e Event) bool { return e.E == name && e.Flag == asked.Flag })
		}
		arrived, replies, unanswered := about("got"), about("reply"), about("unanswered")
		if len(arrived) != 1 || arrived[0].SHA256 != asked.SHA256 || arrived[0].SizeBytes != asked.SizeBytes {
			found.addf("request %d: arrived %d times, or with another body", asked.Flag, len(arrived))
		}
		if asked.Name == "silent" {
			if len(replies) != 0 || len(unanswered) != 1 || unanswered[0].Ms < int64(unanswered[0].Limit)-clockMs {
				found.addf("request %d, which nobody answers: replies %+v, unanswered %+v", asked.Flag, replies, unanswered)
			}
			continue
		}
		answered := about("answered")
		if len(answered) != 1 {
			found.addf("request %d: %d answers were accepted", asked.Flag, len(answered))
		}
		for _, event := range events {
			if event.E == "answered" && event.Flag == asked.Flag && event.Status != "SEND_OK" {
				found.addf("request %d: the answer got status %s", asked.Flag, event.Status)
			}
		}
		if len(replies) != 1 || replies[0].Remark != "reply to "+asked.SHA256 {
			found.addf("request %d for %s: replies %+v", asked.Flag, asked.SHA256, replies)
		}
	}
	if want := map[string]int{"alone": 1, "at once": 8, "silent": 1}; !maps.Equal(requests, want) {
		found.addf("requests %v, want %v", requests, want)
	}
	return found
}
