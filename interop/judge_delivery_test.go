package interop

import (
	"fmt"
	"slices"
	"testing"
)

// stream is so many messages over one queue, sent at 1000 and delivered at once.
func stream(count int, change func(i int, sent, got *Event)) (sent, got []Event) {
	for i := range count {
		s, g := pair(fmt.Sprint("m", i), 0, int64(i))
		s.Flag, g.Flag = i, i
		g.BornMs, g.StoredMs, g.AtMs = 1_000, 1_000, 1_000
		if change != nil {
			change(i, &s, &g)
		}
		sent, got = append(sent, s), append(got, g)
	}
	return sent, got
}

// spoiled is a copy of a list with one event changed.
func spoiled(list []Event, at int, change func(*Event)) []Event {
	list = slices.Clone(list)
	change(&list[at])
	return list
}

func TestADelayMustNotBeShort(t *testing.T) {
	sent, got := stream(40, func(i int, sent, got *Event) {
		sent.Tag = fmt.Sprint("level", i%4)
		got.Tag = sent.Tag
		got.StoredMs = 1_000 + levelMs[sent.Tag]
		got.AtMs = got.StoredMs
	})
	accepts(t, "on time", delayed(sent, got))
	rejects(t, "before its time", "1 ms too early", delayed(sent, spoiled(got, 2, func(e *Event) { e.AtMs-- })))
	rejects(t, "stored before its time", "1 ms too early", delayed(sent, spoiled(got, 3, func(e *Event) { e.StoredMs-- })))
	rejects(t, "no level", `level "t"`, delayed(sent, spoiled(got, 3, func(e *Event) { e.Tag = "t" })))
	rejects(t, "no time", "sent at 0", delayed(sent, spoiled(got, 3, func(e *Event) { e.BornMs = 0 })))
	rejects(t, "another body", "body", delayed(sent, spoiled(got, 3, func(e *Event) { e.SHA256 = "other" })))
	rejects(t, "twice", "2 times", delayed(sent, append(got, got[1])))
	rejects(t, "lost", "1 lost", delayed(sent, got[:39]))
	rejects(t, "too few", "40 expected", delayed(sent[:39], got[:39]))
}

// failing is what the scenario "retry" sees when all goes well.
func failing() (sent, got []Event) {
	sent, got = stream(60, func(i int, sent, got *Event) {
		if i%6 == 0 {
			sent.Tag, got.Tag = "fails", "fails"
		}
	})
	for again := 1; again <= 2; again++ {
		for _, event := range got[:60] {
			if event.Tag == "fails" {
				event.Origin, event.RetryOf, event.Again = event.OffsetID, "T", again
				event.OffsetID = fmt.Sprint("copy ", again, event.OffsetID)
				event.StoredMs += int64(again) * 1_000
				event.AtMs = event.StoredMs
				got = append(got, event)
			}
		}
	}
	return sent, got
}

func TestRetriesAreCountedAndNamed(t *testing.T) {
	sent, got := failing()
	accepts(t, "right", retried(sent, got))
	const first, second = 60, 70 // the places of the first retries
	rejects(t, "a retry missing", "delivered 2 times, 3 expected", retried(sent, got[:79]))
	rejects(t, "one more", "delivered 2 times, 1 expected", retried(sent, append(slices.Clone(got), got[1])))
	rejects(t, "not counted", "says that it is retry 0", retried(sent, spoiled(got, first, func(e *Event) { e.Again = 0 })))
	rejects(t, "another origin", "comes from message", retried(sent, spoiled(got, second, func(e *Event) { e.Origin = got[first].OffsetID })))
	rejects(t, "no topic", `of topic ""`, retried(sent, spoiled(got, second, func(e *Event) { e.RetryOf = "" })))
	rejects(t, "early", "1 ms too early", retried(sent, spoiled(got, first, func(e *Event) { e.AtMs-- })))
	rejects(t, "another body", "body", retried(sent, spoiled(got, second, func(e *Event) { e.SHA256 = "other" })))
	rejects(t, "too few", "60 expected", retried(nil, nil))
	blocked := append(append(slices.Clone(got[:59]), got[60:]...), got[59])
	rejects(t, "blocked", "waited for a message that failed", retried(sent, blocked))
}

func TestDeadLettersAreDirect(t *testing.T) {
	sent, failed := stream(8, nil)
	var dead []Event
	for _, event := range failed[:8] {
		event.Origin, event.RetryOf, event.Again, event.OffsetID = event.OffsetID, "T", 1, "copy "+event.OffsetID
		event.StoredMs, event.AtMs = 2_000, 2_000
		failed = append(failed, event)
		event.Topic, event.OffsetID, event.By = "%DLQ%G", "letter "+event.OffsetID, "D"
		dead = append(dead, event)
	}
	accepts(t, "right", deadLettered(sent, failed, dead))
	for because, change := range map[string]func(*Event){
		"in queue 1":                     func(e *Event) { e.Queue, e.Offset = place(1, 0) },
		"topic %RETRY%G":                 func(e *Event) { e.Topic = "%RETRY%G" },
		`from message "copy off-m3"`:     func(e *Event) { e.Origin = "copy off-m3" },
		`of topic "%RETRY%G"`:            func(e *Event) { e.RetryOf = "%RETRY%G" },
		"a dead letter after 60000 ms":   func(e *Event) { e.StoredMs += 60_000 },
		"body of":                        func(e *Event) { e.SHA256 = "other" },
		"0 times among the dead letters": func(e *Event) { e.ID = "stranger" },
	} {
		rejects(t, because, because, deadLettered(sent, failed, spoiled(dead, 3, change)))
	}
	rejects(t, "lost", "0 times among", deadLettered(sent, failed, dead[:7]))
	rejects(t, "twice", "2 times among", deadLettered(sent, failed, append(slices.Clone(dead), dead[0])))
	rejects(t, "stranger", "9 dead letters", deadLettered(sent, failed, append(slices.Clone(dead), spoiled(dead, 0, func(e *Event) { e.ID = "x" })[0])))
	rejects(t, "a third delivery", "delivered 3 times", deadLettered(sent, append(slices.Clone(failed), failed[9]), dead))
	rejects(t, "too few", "8 expected", deadLettered(nil, nil, nil))
}

func TestEachRequestGetsItsOwnReply(t *testing.T) {
	var right []Event
	names := []string{"alone", "at once", "at once", "at once", "at once", "at once", "at once", "at once", "at once", "silent"}
	for i, name := range names {
		sum := fmt.Sprint("sum", i)
		right = append(right, Event{E: "asked", Name: name, Flag: i, SHA256: sum, SizeBytes: 7}, Event{E: "got", Flag: i, SHA256: sum, SizeBytes: 7})
		if name == "silent" {
			right = append(right, Event{E: "unanswered", Flag: i, Ms: 3_000, Limit: 3_000})
		} else {
			right = append(right, Event{E: "answered", Flag: i, Status: "SEND_OK"}, Event{E: "reply", Flag: i, Remark: "reply to " + sum})
		}
	}
	at := func(name string, flag int) int {
		return slices.IndexFunc(right, func(e Event) bool { return e.E == name && e.Flag == flag })
	}
	without := func(i int) []Event { return slices.Delete(slices.Clone(right), i, i+1) }
	accepts(t, "right", replied(right))
	rejects(t, "no reply", "request 3 for sum3", replied(without(at("reply", 3))))
	rejects(t, "another's reply", "request 3 for sum3", replied(spoiled(right, at("reply", 3), func(e *Event) { e.Remark = "reply to sum4" })))
	rejects(t, "two replies", "request 3 for sum3", replied(append(slices.Clone(right), right[at("reply", 3)])))
	rejects(t, "answer refused", "got status", replied(spoiled(right, at("answered", 3), func(e *Event) { e.Status = "FLUSH_DISK_TIMEOUT" })))
	rejects(t, "no answer", "0 answers were accepted", replied(without(at("answered", 3))))
	rejects(t, "request lost", "arrived 0 times", replied(without(at("got", 3))))
	rejects(t, "request changed", "with another body", replied(spoiled(right, at("got", 3), func(e *Event) { e.SHA256 = "x" })))
	rejects(t, "not asked", "requests", replied(without(at("asked", 3))))
	rejects(t, "silence ends early", "nobody answers", replied(spoiled(right, at("unanswered", 9), func(e *Event) { e.Ms -= clockMs + 1 })))
	rejects(t, "silence never ends", "nobody answers", replied(without(at("unanswered", 9))))
	rejects(t, "a reply out of silence", "nobody answers", replied(append(slices.Clone(right), Event{E: "reply", Flag: 9})))
}
