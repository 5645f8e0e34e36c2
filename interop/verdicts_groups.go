package interop

import "slices"

// settledMs: how fast members settle is not what these scenarios are about; a client that starts on a busy machine may miss a round.
const settledMs = 80_000

// shared: dealt in turn by the one strategy, by the other somehow, but each queue has one owner, who gets its messages.
func shared(events, sent, got []Event) (found problems) {
	found.all(once(sent, got))
	found.all(noGaps(got))
	found.all(fair(events, "circle", 4, settledMs, "A", "B"))
	owner := map[string]map[int]string{"circle": {}, "hash": {}}
	for _, share := range named(events, "assigned") {
		for i, queue := range share.Queues {
			if share.When == "circle" && queue != share.Queues[0]+2*i {
				found.addf("circle: %s holds %v, every second one expected", share.By, share.Queues)
			}
			if other, taken := owner[share.When][queue]; taken {
				found.addf("%s: queue %d is held by %s and %s", share.When, queue, other, share.By)
			}
			owner[share.When][queue] = share.By
		}
		if len(share.Queues) == 0 || share.Ms < 0 {
			found.addf("%s: %s holds %v after %d ms", share.When, share.By, share.Queues, share.Ms)
		}
	}
	for when, queues := range map[string]int{"circle": 8, "hash": 32} {
		if len(owner[when]) != queues {
			found.addf("%s: %d of %d queues have an owner", when, len(owner[when]), queues)
		}
	}
	for _, e := range got {
		if owner[e.Tag][*e.Queue] != e.By {
			found.addf("%s got %s, but the queue was %q's", e.By, label(e), owner[e.Tag][*e.Queue])
		}
	}
	return found
}

// lastSaid: the broker lets pass what the member wants that spoke last. The other one drops that in its queue, so each gets what it wants
// of its own queue while it is the last, and nothing else.
func lastSaid(events []Event) (found problems) {
	found.all(fair(events, "both", 1, settledMs, "A", "B"))
	owned := map[string]int{}
	for _, share := range named(events, "assigned") {
		if len(share.Queues) == 1 {
			owned[share.By] = share.Queues[0]
		}
	}
	begin := func(phase string) int {
		return slices.IndexFunc(events, func(e Event) bool { return e.E == "phase" && e.Name == phase })
	}
	blue, red := begin("blue last"), begin("red last")
	if blue < 0 || red < blue {
		found.addf("the members never spoke")
		return found
	}
	for _, turn := range []struct {
		by, tag string
		events  []Event
	}{{"B", "blue", events[blue:red]}, {"A", "red", events[red:]}} {
		found.all(told(turn.events, turn.tag+" last", turn.tag))
		wanted := where(turn.events, func(e Event) bool { return e.E == "sent" && e.Tag == turn.tag && *e.Queue == owned[turn.by] })
		if len(wanted) != 10 {
			found.addf("%d %s messages for %s, 10 expected", len(wanted), turn.tag, turn.by)
		}
		arrived := named(turn.events, "got")
		found.all(once(wanted, arrived))
		for _, e := range arrived {
			if e.By != turn.by {
				found.addf("%s got %s while %s was the last", e.By, label(e), turn.by)
			}
		}
	}
	return found
}

// fingerprinted: heartbeats without subscriptions keep them, changes of them arrive, and leaving is leaving.
func fingerprinted(events []Event) (found problems) {
	found.all(once(named(events, "sent"), named(events, "got")))
	found.all(told(events, "brokers that know fingerprints", "1"))
	found.all(told(events, "subscribed", "[t]"))
	found.all(told(events, "subscribed to another", "[other, t]"))
	found.all(told(events, "unsubscribed", "[t]"))
	found.all(toldNo(events, "unregistered", 206, "not online"))
	return found
}

// configChecked: tags are fine; expressions are refused while their filters are off, right or wrong.
func configChecked(events []Event) (found problems) {
	found.all(told(events, "tags", "accepted"))
	for _, expression := range []string{"a > 1", "a > > 1"} {
		found.all(toldNo(events, expression, 1, "The broker does not support consumer to filter message by SQL92"))
	}
	return found
}

// light: messages with the properties of light queues and lite topics are like any others, and nothing else comes of them.
func light(events, sent, got []Event) (found problems) {
	found.all(once(sent, got))
	found.all(noGaps(got))
	found.all(value(events, "with offsets in light queues", 0))
	found.all(toldNo(events, "pull of a light queue", 17, "topic[%LMQ%", "not exist"))
	found.all(told(events, "end of a light queue", "{offset=0}"))
	return found
}
