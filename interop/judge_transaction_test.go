package interop

import (
	"fmt"
	"slices"
	"testing"
)

// ends is what the scenario "transaction" sees when all goes well: 9 transactions, a third of each kind, over one queue.
func ends() (events []Event) {
	var offset int64
	for i := range 9 {
		sent, got := pair(fmt.Sprint("t", i), 0, offset)
		sent.How = []string{"commit", "rollback", "check"}[i%3]
		sent.OffsetID, sent.Tag, got.Tag = "half-"+sent.OffsetID, sent.How, sent.How
		events = append(events, sent)
		if sent.How == "check" {
			events = append(events, Event{E: "checked", ID: sent.ID})
		}
		if sent.How != "rollback" {
			events = append(events, got)
			offset++
		}
	}
	return events
}

func TestTransactionsEndAsTheySay(t *testing.T) {
	right := ends()
	judge := func(events []Event) problems { return transacted(events, 9, "commit", "check") }
	at := func(name, id string) int {
		return slices.IndexFunc(right, func(e Event) bool { return e.E == name && e.ID == id })
	}
	without := func(i int) []Event { return slices.Delete(slices.Clone(right), i, i+1) }
	with := func(e Event) []Event { return append(slices.Clone(right), e) }
	accepts(t, "right", judge(right))
	// Another kind of end is not asked for by name: those that the checks refuse are open, too, and never seen.
	refused := slices.Clone(right)
	for i, e := range refused {
		if e.E == "sent" && e.How == "rollback" {
			refused[i].How = "refuse"
		}
	}
	accepts(t, "refused when checked", judge(append(refused, Event{E: "checked", ID: "t1"})))

	_, rolledBack := pair("t1", 0, 6)
	rolledBack.Tag = "rollback"
	rejects(t, "a rollback is seen", "nobody sent", judge(with(rolledBack)))
	rejects(t, "a commit is lost", "1 lost", judge(without(at("got", "t0"))))
	rejects(t, "a checked one is lost", "1 lost", judge(without(at("got", "t2"))))
	rejects(t, "a commit comes twice", "2 times", judge(with(right[at("got", "t0")])))
	rejects(t, "another body", "body", judge(spoiled(right, at("got", "t3"), func(e *Event) { e.SHA256 = "other" })))
	rejects(t, "another queue", "queue", judge(spoiled(right, at("got", "t3"), func(e *Event) { e.Queue, _ = place(1, 0) })))
	rejects(t, "a gap", "is due", judge(spoiled(right, at("got", "t8"), func(e *Event) { _, e.Offset = place(0, 9) })))
	rejects(t, "a committed one is checked", `ended by "commit", was checked`, judge(with(Event{E: "checked", ID: "t0"})))
	rejects(t, "a rolled back one is checked", `ended by "rollback", was checked`, judge(with(Event{E: "checked", ID: "t1"})))
	rejects(t, "a stranger is checked", `ended by "", was checked`, judge(with(Event{E: "checked", ID: "x"})))
	rejects(t, "no check at all", "nothing was checked", judge(where(right, func(e Event) bool { return e.E != "checked" })))
	rejects(t, "too few", "9 expected", judge(without(at("sent", "t1"))))
	rejects(t, "nothing", "9 expected", judge(nil))
}
