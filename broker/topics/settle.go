package topics

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

// Settle makes the table agree with what the store holds, and writes it if that changes it: numbers of topics.json that no topic can
// have are replaced, and where topics.json is lost, or its newest version, topics that the store has messages of are made again:
// as many queues as have messages, to read and write. It says so in the log. To be called once, before anybody but the caller knows
// the table, when every record of the log is in its queue.
func (t *Table) Settle() {
	stored := t.storedQueues()
	changed := t.replaceNumbers(stored)
	if t.source != sysio.SourceMain {
		changed = append(changed, t.addStored(stored)...)
	}
	if len(changed) > 0 {
		t.persist(t.bump(changed, ""))
	}
}

// GroupsNamed returns the groups that have a retry or a dead-letter topic.
func (t *Table) GroupsNamed() (groups []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name := range t.byName {
		for _, prefix := range []string{RetryPrefix, DLQPrefix} {
			if group, found := strings.CutPrefix(name, prefix); found && group != "" {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// Found says which copy of topics.json was read.
func (t *Table) Found() sysio.Source { return t.source }

// storedQueues returns for each topic one more than the highest queue that ever had a message.
func (t *Table) storedQueues() map[string]int32 {
	stored := map[string]int32{}
	t.queues.Queues(func(q *store.Queue) bool {
		if q.ID() >= 0 && q.Next() > 0 {
			stored[q.Topic()] = max(stored[q.Topic()], int32(q.ID())+1)
		}
		return true
	})
	return stored
}

// checkNumbers calls report with each number of a topic that no topic can have, with the place of it and what a topic has without
// it. The original takes any.
func checkNumbers(config *wire.TopicConfig, report func(field string, number *int32, otherwise int32)) {
	normal := defaultConfig(config.TopicName)
	for _, n := range []struct {
		field     string
		number    *int32
		most      int32
		otherwise int32
	}{
		{"readQueueNums", &config.ReadQueueNums, QueueNumsMax, normal.ReadQueueNums},
		{"writeQueueNums", &config.WriteQueueNums, QueueNumsMax, normal.WriteQueueNums},
		{"perm", &config.Perm, permMax, normal.Perm},
	} {
		if *n.number < 0 || *n.number > n.most {
			report(n.field, n.number, n.otherwise)
		}
	}
}

func (t *Table) replaceNumbers(stored map[string]int32) (changed []wire.TopicConfig) {
	topics, _ := t.Snapshot()
	for _, topic := range topics {
		config := *topic.Config()
		wrong := false
		checkNumbers(&config, func(field string, number *int32, otherwise int32) {
			if field != "perm" {
				if *number > 0 {
					otherwise = QueueNumsMax
				}
				otherwise = max(otherwise, stored[topic.name])
			}
			if *number == otherwise {
				return // that many queues have messages, whatever a new topic may have
			}
			t.logger.Warn("a number of a topic is impossible and replaced", "file", t.file.Path(), "topic", topic.name, "field", field, "stored", *number, "taken", otherwise)
			*number, wrong = otherwise, true
		})
		if wrong {
			t.insert(config, nil)
			changed = append(changed, config)
		}
	}
	return changed
}

func (t *Table) addStored(stored map[string]int32) (made []wire.TopicConfig) {
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if t.Find(name) != nil || strings.HasPrefix(name, LightQueuePrefix) {
			continue
		}
		config := defaultConfig(name)
		config.ReadQueueNums, config.WriteQueueNums = stored[name], stored[name]
		t.insert(config, nil)
		made = append(made, config)
	}
	if len(made) == 0 {
		return nil
	}
	var shown []string
	for _, config := range made[:min(len(made), namesShownMax)] {
		shown = append(shown, config.TopicName)
	}
	t.logger.Warn("topics that topics.json lacks are made again from the queues that have messages; check their number of queues and their permissions",
		"file", t.file.Path(), "used instead", t.source.String(), "topics", len(made), "names", shown)
	return made
}

// refuseNumbers is the answer to an administrator who wants a topic with impossible numbers, nil if they are possible.
func refuseNumbers(config wire.TopicConfig) (refusal *wire.Refusal) {
	checkNumbers(&config, func(field string, number *int32, _ int32) {
		if refusal == nil {
			refusal = wire.Refuse(wire.ResponseInvalidParameter, field+" "+strconv.Itoa(int(*number))+" is out of range")
		}
	})
	return refusal
}
