package interop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/wire"
)

// startKillTopics times 8 are the queues of the directory (case S17 has 10,000: INTEROP_START_KILL_TOPICS=1250), startKillStep is
// how much later each start is killed than the one before it.
const (
	startKillTopics = 40
	startKillStep   = 10 * time.Millisecond
	startKillSteps  = 20
)

// stateTexts returns what the state files of a store say, by name.
func stateTexts(store string) (map[string]string, error) {
	texts := map[string]string{}
	for _, name := range []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"} {
		data, err := os.ReadFile(filepath.Join(store, "config", name))
		if err != nil {
			return nil, err
		}
		texts[name] = string(data)
	}
	return texts, nil
}

// Case S17: kill -9 at any moment of a start, with all intervals of saving at a second, leaves no state file that says less than before.
func TestKillsDuringStartsEmptyNoStateFile(t *testing.T) {
	if bed.apache {
		t.Skip("the crash harness is for peregrine")
	}
	t.Parallel()
	topics := startKillTopics
	step := startKillStep
	if n, err := strconv.Atoi(os.Getenv("INTEROP_START_KILL_TOPICS")); err == nil {
		topics, step = n, 500*time.Millisecond
	}
	s := settings{"start kills", map[string]string{"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "4000", "defaultTopicQueueNums": "8",
		"flushConsumerOffsetInterval": "1000", "flushDelayOffsetInterval": "1000", "maxHashSlotNum": "1000", "maxIndexNum": "20000"}}
	maps.Copy(s.values, matrix()[0].values)
	broker := startBroker(t, s, true).(*Peregrine)
	c, err := DialRaw(broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range topics {
		topic := fmt.Sprintf("StartKill%d", i)
		for queue := range int32(8) {
			if cmd, err := c.Send(SendHeader(topic, queue, ""), []byte("x")); err != nil || cmd.Code != 0 {
				t.Fatalf("send: %v %+v", err, cmd)
			}
		}
		if i == 0 {
			if cmd, err := c.Send(SendHeader(topic, 0, "DELAY\x0118\x02"), []byte("later")); err != nil || cmd.Code != 0 {
				t.Fatalf("send: %v %+v", err, cmd)
			}
			if cmd, err := c.Call(wire.RequestUpdateAndCreateSubscriptionGroup, nil, []byte(`{"groupName":"GStartKill"}`)); err != nil || cmd.Code != 0 {
				t.Fatalf("group: %v %+v", err, cmd)
			}
		}
		h := &wire.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "GStartKill", Topic: topic, QueueID: 0, CommitOffset: 1}
		if cmd, err := c.Call(wire.RequestUpdateConsumerOffset, h, nil); err != nil || cmd.Code != 0 {
			t.Fatalf("commit: %v %+v", err, cmd)
		}
	}
	if err := broker.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	before, err := stateTexts(broker.StoreDir())
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"serve", "--store", broker.StoreDir(), "--http", "off"}
	for key, value := range s.values {
		arguments = append(arguments, key+"="+value)
	}
	arguments = append(arguments, "listenPort="+strconv.Itoa(broker.ports.broker), "bindAddress="+loopback, "brokerIP1="+loopback, "peregrine.namesrvListen="+broker.NameServer())
	for i := range startKillSteps {
		p, err := StartProcess("peregrine", filepath.Join(t.TempDir(), "peregrine.log"), command(t.TempDir(), broker.options.Binary, arguments...), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i+1) * step) // the moment of death is what is looked at here
		if err := p.Stop(syscall.SIGKILL, killGrace); err != nil {
			t.Fatal(err)
		}
		now, err := stateTexts(broker.StoreDir())
		if err != nil {
			t.Fatalf("killed after %v: %v", time.Duration(i+1)*step, err)
		}
		for name, text := range now {
			if len(text) < len(before[name]) {
				t.Errorf("killed after %v: %s has %d bytes, it had %d", time.Duration(i+1)*step, name, len(text), len(before[name]))
			}
			if name == "topics.json" && strings.Count(text, `"StartKill`) < topics || name == "consumerOffset.json" && strings.Count(text, `"StartKill`) < topics {
				t.Errorf("killed after %v: %s has lost topics", time.Duration(i+1)*step, name)
			}
		}
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
}
