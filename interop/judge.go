package interop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Judgements are pure functions from events to problems; no problem is an empty list. problemsMax bounds each list: the first
// few say it all.
const problemsMax = 12

type problems []string

func (p *problems) addf(format string, arguments ...any) {
	if len(*p) < problemsMax {
		*p = append(*p, fmt.Sprintf(format, arguments...))
	}
}

func (p *problems) all(more problems) {
	for _, problem := range more {
		p.addf("%s", problem)
	}
}

// ended: the scenario ran to its end, no client call failed, nothing that it waited for stayed away.
func ended(events []Event) (found problems) {
	if len(named(events, "done")) != 1 {
		found.addf("the scenario did not end well")
	}
	for _, event := range events {
		switch event.E {
		case "failed":
			found.addf("failed: %s", firstLines(event.Error, 12))
		case "missing":
			found.addf("%s waited in vain: %d of %d arrived", event.By, event.Arrived, event.Expected)
		}
	}
	for _, event := range named(events, "sent") {
		if event.How != "oneway" && event.Status != "SEND_OK" {
			found.addf("send of %s: status %s", label(event), event.Status)
		}
	}
	return found
}

// index finds what was sent by what arrived. The offset id is the stronger name, but a one-way send knows none; the id of the
// client is missing where a client has none.
type index struct {
	byOffsetID, byID map[string]Event
}

func indexOf(sent []Event) index {
	x := index{map[string]Event{}, map[string]Event{}}
	for _, event := range sent {
		if event.OffsetID != "" {
			x.byOffsetID[event.OffsetID] = event
		}
		if event.ID != "" {
			x.byID[event.ID] = event
		}
	}
	return x
}

func (x index) find(got Event) (Event, bool) {
	if event, ok := x.byOffsetID[got.OffsetID]; ok {
		return event, true
	}
	event, ok := x.byID[got.ID]
	return event, ok
}

// sameContent: each arrival is a message that was sent, byte for byte, at the place the send answer named.
func sameContent(sent, got []Event) (found problems) {
	x := indexOf(sent)
	for _, arrival := range got {
		original, ok := x.find(arrival)
		if !ok {
			found.addf("%s got %s, which nobody sent", arrival.By, label(arrival))
			continue
		}
		found.all(differences(original, arrival))
	}
	return found
}

func differences(sent, got Event) (found problems) {
	if got.SHA256 != sent.SHA256 || got.SizeBytes != sent.SizeBytes {
		found.addf("body of %s: sent %d bytes %s, got %d bytes %s", label(got), sent.SizeBytes, sent.SHA256, got.SizeBytes, got.SHA256)
	}
	if got.Topic != sent.Topic {
		found.addf("topic of %s: sent to %q, got from %q", label(got), sent.Topic, got.Topic)
	}
	if got.Tag != sent.Tag || got.Keys != sent.Keys || got.Flag != sent.Flag {
		found.addf("%s: sent tag %q, keys %q, flag %d; got %q, %q, %d", label(got), sent.Tag, sent.Keys, sent.Flag, got.Tag, got.Keys, got.Flag)
	}
	if !maps.Equal(got.Props, sent.Props) {
		found.addf("properties of %s: sent %q, got %q", label(got), sent.Props, got.Props)
	}
	if sent.OffsetID != "" && got.OffsetID != sent.OffsetID {
		found.addf("%s: the answer named offset id %s, delivered with %s", label(got), sent.OffsetID, got.OffsetID)
	}
	if sent.Queue != nil && sent.Offset == nil && *got.Queue != *sent.Queue { // the answer to a half message names no offset of the real queue
		found.addf("%s: the answer named queue %d, delivered from queue %d", label(got), *sent.Queue, *got.Queue)
	}
	if sent.Queue == nil && sent.Offset != nil && *got.Offset != *sent.Offset { // Python
		found.addf("%s: the answer named offset %d, delivered from offset %d", label(got), *sent.Offset, *got.Offset)
	}
	if sent.Queue != nil && sent.Offset != nil && (*got.Queue != *sent.Queue || *got.Offset != *sent.Offset) {
		found.addf("%s: the answer named queue %d offset %d, delivered from queue %d offset %d", label(got), *sent.Queue, *sent.Offset, *got.Queue, *got.Offset)
	}
	return found
}

// once: what arrived is exactly what was sent, each message one time.
func once(sent, got []Event) (found problems) {
	found.all(sameContent(sent, got))
	x := indexOf(sent)
	times := map[string]int{}
	for _, arrival := range got {
		if original, ok := x.find(arrival); ok {
			times[key(original)]++
		}
	}
	lost, repeated := 0, 0
	for _, original := range sent {
		switch n := times[key(original)]; {
		case n == 0:
			lost++
			found.addf("lost: %s", label(original))
		case n > 1:
			repeated++
			found.addf("%d times: %s", n, label(original))
		}
	}
	if lost+repeated > 0 {
		found = append(problems{fmt.Sprintf("of %d sent: %d lost, %d repeated", len(sent), lost, repeated)}, found...)
	}
	return found
}

// atLeastOnce: nothing is lost and nothing is wrong; repeats are allowed.
func atLeastOnce(sent, got []Event) (found problems) {
	found.all(sameContent(sent, got))
	x := indexOf(sent)
	seen := map[string]bool{}
	for _, arrival := range got {
		if original, ok := x.find(arrival); ok {
			seen[key(original)] = true
		}
	}
	for _, original := range sent {
		if !seen[key(original)] {
			found.addf("lost: %s", label(original))
		}
	}
	return found
}

// noGaps: the queue offsets of a topic that was consumed completely are 0, 1, 2 … in each queue, each one time.
func noGaps(got []Event) (found problems) {
	type queue struct {
		topic string
		id    int
	}
	offsets := map[queue][]int64{}
	for _, arrival := range got {
		q := queue{arrival.Topic, *arrival.Queue}
		offsets[q] = append(offsets[q], *arrival.Offset)
	}
	for q, list := range offsets {
		slices.Sort(list)
		for want, offset := range list {
			if offset != int64(want) {
				found.addf("queue %d of %s: offset %d where %d is due", q.id, q.topic, offset, want)
				break
			}
		}
	}
	return found
}

// fair: the consumers of a moment hold disjoint queues, so many each, and got them in time.
func fair(events []Event, when string, share int, withinMs int64, consumers ...string) (found problems) {
	held := map[int]string{}
	for _, name := range consumers {
		about := where(events, func(e Event) bool { return e.E == "assigned" && e.When == when && e.By == name })
		if len(about) != 1 {
			found.addf("%s: nothing known of consumer %s", when, name)
			continue
		}
		if about[0].Ms < 0 || about[0].Ms > withinMs {
			found.addf("%s: queues took %d ms (-1: never), at most %d allowed", when, about[0].Ms, withinMs)
		}
		if len(about[0].Queues) != share {
			found.addf("%s: consumer %s holds queues %v, %d expected", when, name, about[0].Queues, share)
		}
		for _, queue := range about[0].Queues {
			if other, taken := held[queue]; taken {
				found.addf("%s: queue %d is held by %s and %s", when, queue, other, name)
			}
			held[queue] = name
		}
	}
	return found
}

// value: the named value was reported once and is that.
func value(events []Event, name string, want int64) (found problems) {
	reported := where(events, func(e Event) bool { return e.E == "value" && e.Name == name })
	if len(reported) != 1 {
		found.addf("%s: reported %d times", name, len(reported))
	} else if reported[0].Value != want {
		found.addf("%s: %d, want %d", name, reported[0].Value, want)
	}
	return found
}

func key(sent Event) string {
	if sent.OffsetID != "" {
		return sent.OffsetID
	}
	return sent.ID
}

func label(event Event) string {
	place := ""
	if event.Queue != nil && event.Offset != nil {
		place = fmt.Sprintf(" (queue %d offset %d)", *event.Queue, *event.Offset)
	}
	return fmt.Sprintf("%s %s%s of %s", event.Keys, key(event), place, event.Topic)
}

func firstLines(text string, count int) string {
	lines := strings.SplitN(text, "\n", count+1)
	return strings.Join(lines[:min(count, len(lines))], "\n")
}
