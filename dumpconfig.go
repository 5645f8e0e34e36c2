package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// configFileLine is a file of config/.
type configFileLine struct {
	Kind  string `json:"kind"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	State string `json:"state"`
}

// What is read of the files; unknown fields are passed over.
type (
	topicsFile struct {
		TopicConfigTable map[string]topicLine `json:"topicConfigTable"`
	}
	topicLine struct {
		Kind       string            `json:"kind"`
		Topic      string            `json:"topic"`
		Read       int               `json:"readQueueNums"`
		Write      int               `json:"writeQueueNums"`
		Perm       int               `json:"perm"`
		Order      bool              `json:"order"`
		Attributes map[string]string `json:"attributes,omitempty"`
	}
	groupsFile struct {
		SubscriptionGroupTable map[string]groupLine `json:"subscriptionGroupTable"`
	}
	groupLine struct {
		Kind      string `json:"kind"`
		Group     string `json:"group"`
		Enabled   bool   `json:"consumeEnable"`
		Broadcast bool   `json:"consumeBroadcastEnable"`
		Orderly   bool   `json:"consumeMessageOrderly"`
		Retries   int    `json:"retryMaxTimes"`
	}
	offsetsFile struct {
		OffsetTable map[string]map[string]int64 `json:"offsetTable"`
	}
	delaysFile struct {
		OffsetTable map[string]int64 `json:"offsetTable"`
	}
	offsetLine struct {
		Kind   string `json:"kind"`
		Group  string `json:"group"`
		Topic  string `json:"topic"`
		Queue  int    `json:"queue"`
		Offset int64  `json:"offset"`
	}
	delayLine struct {
		Kind   string `json:"kind"`
		Level  int    `json:"level"`
		Offset int64  `json:"offset"`
	}
)

// dumpConfig prints the state files of a broker.
func dumpConfig(fsys sysio.FS, root string, o *dumpOptions, p *dumpPrinter) error {
	dir := filepath.Join(root, "config")
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		p.line("config: there is no such directory")
		return nil
	}
	if err != nil {
		return err
	}
	content := map[string][]byte{}
	p.columns("file", "bytes", "state")
	for _, e := range entries {
		if e.Dir {
			continue
		}
		line := configFileLine{Kind: "file", File: e.Name, Bytes: e.Size}
		content[e.Name], line.State = readState(fsys, filepath.Join(dir, e.Name))
		p.row(line, line.File, line.Bytes, line.State)
	}
	// load decodes a file into v, its .bak when the file is missing or damaged, as a start does.
	load := func(name string, v any) {
		for _, n := range []string{name, name + ".bak"} {
			if data := content[n]; data != nil && json.Unmarshal(data, v) == nil {
				return
			}
		}
	}
	room := o.limited(p)
	var topics topicsFile
	load("topics.json", &topics)
	p.columns("topic", "read queues", "write queues", "perm", "order")
	for _, name := range slices.Sorted(maps.Keys(topics.TopicConfigTable)) {
		t := topics.TopicConfigTable[name]
		t.Kind, t.Topic = "topic", name
		if (o.topic == "" || o.topic == name) && (!room() || !p.row(t, name, t.Read, t.Write, t.Perm, t.Order)) {
			return nil
		}
	}
	var groups groupsFile
	load("subscriptionGroup.json", &groups)
	p.columns("group", "may consume", "broadcast", "orderly", "retries")
	for _, name := range slices.Sorted(maps.Keys(groups.SubscriptionGroupTable)) {
		g := groups.SubscriptionGroupTable[name]
		g.Kind, g.Group = "group", name
		if o.topic == "" && (!room() || !p.row(g, name, g.Enabled, g.Broadcast, g.Orderly, g.Retries)) {
			return nil
		}
	}
	var offsets offsetsFile
	load("consumerOffset.json", &offsets)
	p.columns("group", "topic", "queue", "next offset")
	for _, key := range slices.Sorted(maps.Keys(offsets.OffsetTable)) {
		topic, group, _ := strings.Cut(key, "@")
		queues := offsets.OffsetTable[key]
		for _, id := range slices.SortedFunc(maps.Keys(queues), byNumber) {
			n, _ := strconv.Atoi(id)
			if o.topic != "" && o.topic != topic || o.queueSet && int(o.queue) != n {
				continue
			}
			if !room() || !p.row(offsetLine{"offset", group, topic, n, queues[id]}, group, topic, n, queues[id]) {
				return nil
			}
		}
	}
	var delays delaysFile
	load("delayOffset.json", &delays)
	p.columns("delay level", "next offset")
	for _, level := range slices.SortedFunc(maps.Keys(delays.OffsetTable), byNumber) {
		n, _ := strconv.Atoi(level)
		if o.topic == "" && (!room() || !p.row(delayLine{"delay", n, delays.OffsetTable[level]}, n, delays.OffsetTable[level])) {
			return nil
		}
	}
	return nil
}

// byNumber orders texts of numbers.
func byNumber(a, b string) int {
	x, _ := strconv.ParseInt(a, 10, 64)
	y, _ := strconv.ParseInt(b, 10, 64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return strings.Compare(a, b)
}

// readState reads a state file and says what it is; nil when it is not JSON.
func readState(fsys sysio.FS, path string) ([]byte, string) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, "unreadable: " + err.Error()
	}
	defer f.Close()
	size, err := f.Size()
	switch {
	case err != nil:
		return nil, "unreadable: " + err.Error()
	case size == 0:
		return nil, "empty: a start takes the .bak"
	case size > sysio.WholeFileMax:
		return nil, "too large to be read"
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, "unreadable: " + err.Error()
	}
	if b = b[:n]; b[0] != '{' && !strings.HasSuffix(strings.TrimSuffix(path, ".bak"), ".json") {
		return nil, "not JSON"
	}
	standard, err := wire.StandardJSON(b)
	if err != nil {
		return nil, "damaged: " + err.Error()
	}
	return standard, "good"
}
