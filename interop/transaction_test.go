package interop

import (
	"fmt"
	"maps"
	"syscall"
	"testing"
)

// quickTransactions shortens what would make the suites wait; the original's op messages are written soon, so that it does not
// check what has ended.
func quickTransactions(s settings) settings {
	values := map[string]string{"transactionTimeOut": "3000", "transactionCheckInterval": "2000", "transactionOpBatchInterval": "200"}
	maps.Copy(values, s.values)
	return settings{s.name, values}
}

// Case D07: unmodified transaction producers; what is committed, at once or when checked, is seen once, the rest never.
func TestTransactions(t *testing.T) {
	t.Parallel()
	current, old, golang := threeClients(t, "transactions")
	for _, row := range matrix() {
		for _, c := range []client{current, old, golang} {
			t.Run(row.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				broker := startBroker(t, quickTransactions(row), true)
				const count = 999
				r := c.start(t, broker, newRun(), fmt.Sprintf("transactions=%d", count), "transaction")
				r.finish()
				complain(t, ended(r.Of("transaction")))
				complain(t, transacted(r.Of("transaction"), count, "commit", "check"))
				record("transaction", c.name, !t.Failed())
				r.explain()
			})
		}
	}
}

// Case D13: halves that nobody decided about survive a kill of the broker; a later process of the group decides.
func TestTransactionsSurviveAKill(t *testing.T) {
	t.Parallel()
	c := javaClient("5.5.0", need(t, "transactions-kill", func() (string, error) { return bed.tools.ClientClassPath("5.5.0") }))
	rows := matrix()
	broker := startBroker(t, quickTransactions(rows[len(rows)-1]), true)
	run := newRun()
	before := c.start(t, broker, run, "undecided")
	before.finish()
	if err := broker.Stop(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	after := c.start(t, broker, run, "decided")
	after.finish()
	events := append(before.Of("undecided"), after.Of("decided")...)
	complain(t, ended(before.Of("undecided")))
	complain(t, ended(after.Of("decided")))
	complain(t, transacted(events, 101, "check", "commit"))
	before.explain()
	after.explain()
}

// transacted judges transactions by their ends, which stand in how: what ended as one of visible arrives once, in the real
// queue without gaps, and nothing else does. Only those that were left open are asked for.
func transacted(events []Event, count int, visible ...string) (found problems) {
	sent, got, checked := named(events, "sent"), named(events, "got"), named(events, "checked")
	if len(sent) != count {
		found.addf("%d transactions were begun, %d expected", len(sent), count)
	}
	seen, open := []Event{}, map[string]string{}
	for _, e := range sent {
		e.Offset, e.OffsetID = nil, "" // of the half message
		for _, how := range visible {
			if e.How == how {
				seen = append(seen, e)
			}
		}
		open[e.ID] = e.How
	}
	found.all(once(seen, got))
	found.all(noGaps(got))
	for _, e := range checked {
		if how := open[e.ID]; how != "check" && how != "refuse" {
			found.addf("%s, which ended by %q, was checked", e.ID, how)
		}
	}
	if len(checked) == 0 {
		found.addf("nothing was checked")
	}
	return found
}
