package broker

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"peregrine/internal/sysio"
)

// Case S17: killed at any moment of a start, with all intervals of saving as short as they get, the state files say no less than
// before.
func TestStartNeverEmptiesAStateFile(t *testing.T) {
	fsys := sysio.NewFaultFS()
	startBroker(t, fsys, "/s").stop()
	files := map[string]string{
		"consumerOffset.json": `{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1},"offsetTable":{"Elsewhere@G":{0:7}}}`,
		"subscriptionGroup.json": `{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1},"subscriptionGroupTable":{"G":{"groupName":"G",` +
			`"consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16}}}`,
		"delayOffset.json": `{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1},"offsetTable":{1:9,30:4}}`, // 1 is corrected, 30 is no level of this table
	}
	for name, text := range files {
		if err := sysio.AtomicWriteFile(fsys, filepath.Join("/s/config", name), []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	files["topics.json"] = "SELF_TEST_TOPIC"
	says := map[string]string{"consumerOffset.json": ":7", "subscriptionGroup.json": `"G"`, "delayOffset.json": ":4", "topics.json": "SELF_TEST_TOPIC"}

	look := func(when string) {
		for name := range files {
			loaded := sysio.ReadFileWithBackup(fsys, filepath.Join("/s/config", name), nil)
			if text := strings.ReplaceAll(string(loaded.Data), " ", ""); !strings.Contains(text, says[name]) {
				t.Errorf("killed at %s: %s says %q, %v", when, name, loaded.Data, loaded.MainErr)
			}
		}
	}
	var steps atomic.Int64
	var looking atomic.Bool // a look is made of steps, too
	fsys.Observe(func(e sysio.Event) {
		if strings.HasPrefix(e.Path, "/s/config/") && looking.CompareAndSwap(false, true) {
			steps.Add(1)
			look(e.Op.String() + " " + e.Path)
			looking.Store(false)
		}
	})
	b := startBroker(t, fsys, "/s", "flushConsumerOffsetInterval=10", "flushDelayOffsetInterval=10")
	waitUntil(t, func() bool { return steps.Load() >= 20 })
	b.stop()
	fsys.Observe(nil)
	look("the end")
}
