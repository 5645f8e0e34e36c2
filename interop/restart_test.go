package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// persistMax covers the broker's first persist of consumer offsets (10 s after start) and one more interval (5 s), doubled.
const persistMax = 30 * time.Second

// A broker restart between two runs loses nothing (case C03): a topic that nobody read is complete, a group that had consumed
// and committed gets only what is new, and clients that live through the restart go on.
func TestBrokerRestart(t *testing.T) {
	t.Parallel()
	current, old, golang := threeClients(t, "restart")
	rows := matrix()
	first, last := rows[0], rows[len(rows)-1]
	for _, test := range []struct {
		client client
		name   string
		signal syscall.Signal
		settings
	}{
		{current, "SIGTERM", syscall.SIGTERM, first},
		{current, "SIGKILL", syscall.SIGKILL, last},
		{old, "SIGTERM", syscall.SIGTERM, last},
		{old, "SIGKILL", syscall.SIGKILL, first},
		{golang, "SIGTERM", syscall.SIGTERM, first},
		{golang, "SIGKILL", syscall.SIGKILL, last},
	} {
		t.Run(test.client.name+"/"+test.name+"/"+test.settings.name, func(t *testing.T) {
			t.Parallel()
			restart(t, test.client, test.signal, startBroker(t, test.settings, true))
		})
	}
}

func restart(t *testing.T, c client, signal syscall.Signal, broker Broker) {
	run := newRun()
	survive := c.start(t, broker, run, "survive")
	before := c.start(t, broker, run, "before")
	before.finish()
	survive.awaitReady("survive")
	if signal == syscall.SIGKILL {
		// What was committed in the last seconds before a kill may be repeated; what is on disk may not. So wait for that.
		for _, group := range []string{"consumed-" + run + "@G-consumed-" + run, "survive-t-" + run + "@G-survive-g-" + run} {
			if err := awaitPersisted(broker.StoreDir(), group, 50); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := broker.Stop(signal); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("back after %v", time.Since(start).Round(time.Millisecond))
	after := c.start(t, broker, run, "after")
	if err := survive.process.Say("continue"); err != nil {
		t.Error(err)
	}
	after.finish()
	survive.finish()
	complain(t, afterRestart(before.Of("before"), after.Of("after")))
	complain(t, survived(survive.Of("survive"), false))
	record("restart", c.name, !t.Failed())
	for _, r := range []*running{before, survive, after} {
		r.explain()
	}
}

// awaitPersisted polls config/consumerOffset.json, which both brokers write in the same form, until the committed offsets of a
// "topic@group" add up to total.
func awaitPersisted(storeDir, key string, total int64) error {
	file := filepath.Join(storeDir, "config", "consumerOffset.json")
	deadline := time.Now().Add(persistMax)
	for {
		sum, err := persisted(file, key)
		if err == nil && sum == total {
			return nil
		}
		if time.Now().After(deadline) {
			return &os.PathError{Op: "waiting for offsets in", Path: file, Err: os.ErrDeadlineExceeded}
		}
		// A file that another process replaces tells nobody when it does.
		time.Sleep(100 * time.Millisecond)
	}
}

func persisted(file, key string) (sum int64, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var table struct {
		OffsetTable map[string]map[string]int64 `json:"offsetTable"`
	}
	if err := json.Unmarshal(quoteBareKeys(text), &table); err != nil {
		return 0, err
	}
	for _, offset := range table.OffsetTable[key] {
		sum += offset
	}
	return sum, nil
}
