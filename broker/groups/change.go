package groups

import (
	"maps"
	"reflect"
	"strings"

	"peregrine/broker/names"
	"peregrine/wire"
)

// CheckName tests the name of a new group by the rules of TopicValidator.validateGroup (5.5.0): nil, or the refusal with
// code 29 and the original's text.
func CheckName(name string) *wire.Refusal {
	switch {
	case strings.TrimSpace(name) == "":
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified group is blank.")
	case !names.Legal(name):
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified group: "+names.Quote(name)+", contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
	case len(name) > NameBytesMax:
		return wire.Refuse(wire.ResponseInvalidParameter, "The specified group: "+names.Quote(name)+", is longer than group max length: 120")
	}
	return nil
}

// Update is code 200: Attributes holds signed changes, not values.
func (t *Table) Update(config wire.SubscriptionGroupConfig) *wire.Refusal {
	return t.UpdateAll([]wire.SubscriptionGroupConfig{config})
}

// UpdateAll is code 225. Unlike the original, which stores the groups before a bad one, it changes all or none.
func (t *Table) UpdateAll(configs []wire.SubscriptionGroupConfig) *wire.Refusal {
	if len(configs) > listMax {
		return wire.Refuse(wire.ResponseInvalidParameter, "too many groups in one request")
	}
	changed, refusal := t.change(configs)
	if changed {
		t.persist()
	}
	return refusal
}

func (t *Table) change(configs []wire.SubscriptionGroupConfig) (changed bool, refusal *wire.Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var result []wire.SubscriptionGroupConfig
	added := 0
	for _, config := range configs {
		current := t.byName[config.GroupName]
		// A name that is too long for a new group is honoured where the table has it.
		if current == nil {
			added++
			if refusal := CheckName(config.GroupName); refusal != nil {
				return false, refusal
			}
		}
		var attributes map[string]string
		if current != nil {
			attributes = current.Config().Attributes
		}
		var err error
		if config.Attributes, err = t.attributes.Alter(current == nil, attributes, config.Attributes); err != nil {
			return false, wire.Refuse(wire.ResponseSystemError, err.Error())
		}
		if current == nil || !reflect.DeepEqual(*current.Config(), config) {
			result = append(result, config)
		}
	}
	if len(t.byName)+added > CountMax {
		return false, wire.Refuse(wire.ResponseSystemError, "the table of subscription groups is full")
	}
	for _, config := range result {
		t.insert(config, nil)
	}
	if len(result) == 0 {
		return false, nil
	}
	t.bumpLocked()
	return true, nil
}

// Delete is the table's part of code 207. An unknown group is fine.
func (t *Table) Delete(name string) {
	t.mu.Lock()
	_, there := t.byName[name]
	if there {
		delete(t.byName, name)
		if (*t.forbidden.Load())[name] != nil {
			t.setForbiddenLocked(name, nil)
		}
		t.bumpLocked()
	}
	t.mu.Unlock()
	if there {
		t.logger.Info("subscription group deleted", "group", name)
		t.persist()
	}
}

// SetReadForbidden is the changing form of code 353.
func (t *Table) SetReadForbidden(group, topic string, forbid bool) *wire.Refusal {
	t.mu.Lock()
	current := (*t.forbidden.Load())[group]
	bits := current[topic] &^ readForbiddenBit
	if forbid {
		bits |= readForbiddenBit
	}
	if bits == current[topic] {
		t.mu.Unlock()
		return nil
	}
	pairs := 0
	for _, topics := range *t.forbidden.Load() {
		pairs += len(topics)
	}
	if pairs >= forbiddenMax && forbid {
		t.mu.Unlock()
		return wire.Refuse(wire.ResponseSystemError, "the forbidden table is full")
	}
	topics := maps.Clone(current)
	if topics == nil {
		topics = make(map[string]int32)
	}
	topics[topic] = bits
	if bits == 0 {
		delete(topics, topic)
	}
	t.setForbiddenLocked(group, topics)
	t.bumpLocked()
	t.mu.Unlock()
	t.persist()
	return nil
}

func (t *Table) setForbiddenLocked(group string, topics map[string]int32) {
	all := maps.Clone(*t.forbidden.Load())
	all[group] = topics
	if len(topics) == 0 {
		delete(all, group)
	}
	t.forbidden.Store(&all)
}
