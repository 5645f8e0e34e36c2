package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

const configFolder = "/s/config/"

// stateFiles are the files of the config folder that hold more than the store knows.
func stateFiles() []string {
	return []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"}
}

// keptStore is a directory with three topics, a group with an offset and a delivered delayed message, closed cleanly.
func keptStore(t *testing.T) *sysio.FaultFS {
	t.Helper()
	disk := sysio.NewFaultFS()
	b := startBroker(t, disk, "/s", smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	c.makeTopic("Kept", 8)
	c.makeTopic("One", 1)
	c.makeTopic("Empty", 4)
	c.mustSend(sendHeader("Kept", 0, ""), []byte("first"))
	c.mustSend(sendHeader("Kept", 5, ""), []byte("sixth"))
	c.mustSend(sendHeader("One", 0, "DELAY\x011\x02"), []byte("delayed"))
	c.drain("One", 0, 0, 1)
	b.groups.LookupOrCreate("g")
	if cmd := c.call(wire.RequestUpdateConsumerOffset, &wire.UpdateConsumerOffsetRequestHeader{ConsumerGroup: "g", Topic: "Kept", QueueID: 5, CommitOffset: 1}, nil); cmd.Code != 0 {
		t.Fatalf("commit: %d %s", cmd.Code, cmd.Remark)
	}
	if !b.stop() {
		t.Fatal("the stop was not clean")
	}
	return disk
}

// overwrite replaces a file by what a crash may leave of it; nil removes it.
func overwrite(t *testing.T, disk *sysio.FaultFS, path string, content []byte) {
	t.Helper()
	err := disk.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil && content != nil {
		err = sysio.AtomicWriteFile(disk, path, content, false)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Case S05: whatever becomes of a state file, with and without its backup, the broker starts, serves what the store holds, names the
// file, and the next start finds nothing wrong.
func TestLostStateFilesCostNoMessages(t *testing.T) {
	kept := keptStore(t)
	wrecks := map[string]func(good []byte) []byte{
		"empty":  func([]byte) []byte { return []byte{} },
		"half":   func(good []byte) []byte { return good[:len(good)/2] },
		"zeros":  func(good []byte) []byte { return make([]byte, len(good)) },
		"gone":   func([]byte) []byte { return nil },
		"object": func([]byte) []byte { return []byte("{}") },
	}
	backups := map[string]func(good []byte) []byte{
		"good": func(good []byte) []byte { return good }, "none": wrecks["gone"], "half": wrecks["half"],
	}
	for _, name := range stateFiles() {
		good, err := sysio.ReadFile(kept, configFolder+name)
		if err != nil {
			t.Fatal(err)
		}
		for wreck, damage := range wrecks {
			for backup, rest := range backups {
				if testing.Short() && (wreck != "half" || backup == "half") && (wreck != "gone" || backup != "none") {
					continue
				}
				t.Run(fmt.Sprintf("%s %s, backup %s", name, wreck, backup), func(t *testing.T) {
					disk := kept.Kill()
					overwrite(t, disk, configFolder+name, damage(good))
					overwrite(t, disk, configFolder+name+".bak", rest(good))
					b := startBroker(t, disk, "/s", smallFiles, "autoCreateTopicEnable=false", "autoCreateSubscriptionGroup=false")
					if text := b.lines.String(); !strings.Contains(text, configFolder+name) {
						t.Errorf("the log does not name the file: %s", text)
					}
					c := dial(t, b.addr, wire.EncodingJSON)
					if got := c.drain("Kept", 5, 0, 1); got[0] != "sixth" {
						t.Errorf("queue 5 holds %q", got)
					}
					c.mustSend(sendHeader("Kept", 5, ""), []byte("next"))
					c.mustSend(sendHeader("One", 0, ""), []byte("behind the delayed one"))
					if got := c.drain("One", 0, 0, 2); got[1] != "behind the delayed one" {
						t.Errorf("the delayed message came again: %q", got)
					}
					if b.groups.Find("g") == nil {
						t.Error("the group is not known any more")
					}
					_, known := b.offsets.Query([]byte("g"), []byte("Kept"), 5)
					if known != (name != "consumerOffset.json" || backup == "good") {
						t.Errorf("an offset is known: %v", known)
					}
					if config := b.topics.Find("Kept").Config(); config.Perm != 6 || config.ReadQueueNums < 6 || config.WriteQueueNums < 6 {
						t.Errorf("%+v", config)
					}
					if config := b.topics.Find("SCHEDULE_TOPIC_XXXX").Config(); config.WriteQueueNums != 18 {
						t.Errorf("%+v", config)
					}
					b.stop()
					b = startBroker(t, disk, "/s", smallFiles)
					if text := b.lines.String(); strings.Contains(text, configFolder) {
						t.Errorf("the start behind that says %s", text)
					}
					b.stop()
				})
			}
		}
	}
}

// A start with everything in its place, and the first start of all, say nothing about state files.
func TestStateFilesThatWereNeverThereAreNoLoss(t *testing.T) {
	disk := keptStore(t)
	b := startBroker(t, disk, "/s", smallFiles)
	if text := b.lines.String(); text != "" {
		t.Errorf("after a clean stop: %s", text)
	}
	b.stop()
	disk = sysio.NewFaultFS()
	b = startBroker(t, disk, "/s", smallFiles)
	c := dial(t, b.addr, wire.EncodingJSON)
	c.mustSend(sendHeader("Kept", 0, ""), []byte("first"))
	if text := b.lines.String(); text != "" {
		t.Errorf("the first start: %s", text)
	}
	for _, name := range stateFiles() { // kill -9 from here on finds all of them
		for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := disk.Stat(configFolder + name); err == nil {
				break
			} else if time.Now().After(until) {
				t.Fatal(err)
			}
		}
	}
}

// A topic deleted by the original leaves its records in the log; without topics.json nobody can tell it from one that was lost.
func TestOnlyTopicsFileTellsDeletedTopics(t *testing.T) {
	for _, lost := range []bool{false, true} {
		disk := keptStore(t)
		for _, name := range []string{"peregrine.state", "consumequeue/One/0/00000000000000000000"} {
			if err := disk.Remove("/s/" + name); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(disk.Remove("/s/consumequeue/One/0"), disk.Remove("/s/consumequeue/One")); err != nil {
			t.Fatal(err)
		}
		good, err := sysio.ReadFile(disk, configFolder+"topics.json")
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, disk, configFolder+"topics.json.bak", nil)
		if lost {
			overwrite(t, disk, configFolder+"topics.json", nil)
		} else {
			overwrite(t, disk, configFolder+"topics.json", []byte(strings.ReplaceAll(string(good), `"One"`, `"Other"`)))
		}
		b := startBroker(t, disk, "/s", smallFiles)
		if there := b.topics.Find("One") != nil; there != lost {
			t.Errorf("topics.json lost: %v; the topic is there: %v", lost, there)
		}
		b.stop()
	}
}

// Numbers that no topic can have are replaced and named: the original serves a topic with them, but nobody can send to it.
func TestImpossibleNumbersOfTopicsAreReplaced(t *testing.T) {
	disk := keptStore(t)
	good, err := sysio.ReadFile(disk, configFolder+"topics.json")
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	for _, topic := range []struct{ name, from, to string }{
		{"Kept", `"readQueueNums":8`, `"readQueueNums":-4`}, {"Kept", `"writeQueueNums":8`, `"writeQueueNums":2000000000`},
		{"Empty", `"perm":6`, `"perm":-1`}, {"One", `"writeQueueNums":1`, `"writeQueueNums":0`}, // 0 is possible
	} {
		at := strings.Index(text, `"`+topic.name+`":{`)
		text = text[:at] + strings.Replace(text[at:], topic.from, topic.to, 1)
	}
	overwrite(t, disk, configFolder+"topics.json", []byte(text))
	b := startBroker(t, disk, "/s", smallFiles)
	lines := b.lines.String()
	for _, want := range []string{"topic=Kept field=readQueueNums stored=-4 taken=16", "topic=Kept field=writeQueueNums stored=2000000000 taken=65536",
		"topic=Empty field=perm stored=-1 taken=6", "file=" + configFolder + "topics.json"} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line says %s:\n%s", want, lines)
		}
	}
	if strings.Count(lines, "impossible") != 3 {
		t.Error(lines)
	}
	c := dial(t, b.addr, wire.EncodingJSON)
	if got := c.drain("Kept", 5, 0, 1); got[0] != "sixth" {
		t.Errorf("queue 5 holds %q", got)
	}
	for field, h := range map[string]wire.CreateTopicRequestHeader{
		"readQueueNums": {ReadQueueNums: -4, WriteQueueNums: 1, Perm: 6}, "writeQueueNums": {ReadQueueNums: 1, WriteQueueNums: 65537, Perm: 6},
		"perm": {ReadQueueNums: 1, WriteQueueNums: 1, Perm: 64},
	} {
		h.Topic, h.DefaultTopic, h.TopicFilterType = "Made", "TBW102", "SINGLE_TAG"
		if cmd := c.call(wire.RequestUpdateAndCreateTopic, &h, nil); wire.ResponseCode(cmd.Code) != wire.ResponseInvalidParameter || !strings.Contains(string(cmd.Remark), field) {
			t.Errorf("%s: code %d %s", field, cmd.Code, cmd.Remark)
		}
	}
	b.stop()
	b = startBroker(t, disk, "/s", smallFiles)
	if lines := b.lines.String(); lines != "" {
		t.Errorf("the start behind that says %s", lines)
	}
}

// Consumer offsets that the original keeps and peregrine cannot use stop no start, and stay in the file.
func TestImpossibleConsumerOffsetsStay(t *testing.T) {
	disk := sysio.NewFaultFS()
	if err := disk.MkdirAll("/s/config", os.ModePerm); err != nil {
		t.Fatal(err)
	}
	overwrite(t, disk, configFolder+"consumerOffset.json", []byte(`{"offsetTable":{"T@g":{-1:3,0:7,70000:5},"nogroup":{0:9}}}`))
	for range 2 {
		b := startBroker(t, disk, "/s", smallFiles)
		for _, want := range []string{"queue=-1", "queue=70000", "entry=nogroup"} {
			if lines := b.lines.String(); !strings.Contains(lines, want) {
				t.Errorf("no line says %s: %s", want, lines)
			}
		}
		if offset, ok := b.offsets.Query([]byte("g"), []byte("T"), 0); !ok || offset != 7 {
			t.Errorf("offset %d %v", offset, ok)
		}
		b.stop()
		data, err := sysio.ReadFile(disk, configFolder+"consumerOffset.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"-1":3`, `"0":7`, `"70000":5`, `"nogroup":{`} {
			if !strings.Contains(string(data), want) {
				t.Errorf("the file lacks %s: %s", want, data)
			}
		}
	}
}
