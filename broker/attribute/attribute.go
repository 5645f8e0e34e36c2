// Package attribute knows the attributes of topics and subscription groups: which keys exist, which values they take,
// whether they may change later, and how a list of changes is written.
//
// It mirrors AttributeParser, AttributeUtil, TopicAttributes and SubscriptionGroupAttributes of RocketMQ 5.5.0; error texts
// are the original's, because mqadmin shows them to its user. Stored attributes carry no sign; changes do: `+key=value`
// sets, `-key` removes. All functions are pure and may be called from any goroutine.
package attribute

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ListBytesMax bounds the text of a list of changes, which arrives in a request header.
const ListBytesMax = 64 << 10

// Definition is one attribute.
type Definition struct {
	Changeable bool // may be changed after the topic or group was made
	verify     func(value string) error
}

// Set is the attributes of one kind of object by key.
type Set map[string]Definition

// TopicSet returns the attributes of topics.
func TopicSet() Set {
	return Set{
		"queue.type":            {verify: oneOf("SimpleCQ", "BatchCQ")},
		"cleanup.policy":        {verify: oneOf("DELETE", "COMPACTION")},
		"message.type":          {Changeable: true, verify: oneOf("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL")},
		"reserve.time":          {Changeable: true, verify: within(-1, math.MaxInt64)},
		"lite.topic.expiration": {Changeable: true, verify: within(-1, 43200)},
	}
}

// GroupSet returns the attributes of subscription groups.
func GroupSet() Set {
	anyText := func(string) error { return nil }
	return Set{
		"priority.factor":                   {Changeable: true, verify: within(0, 100)},
		"lite.bind.topic":                   {Changeable: true, verify: anyText},
		"lite.sub.model":                    {Changeable: true, verify: oneOf("Shared", "Exclusive")},
		"lite.sub.reset.offset.exclusive":   {Changeable: true, verify: anyText},
		"lite.sub.reset.offset.unsubscribe": {Changeable: true, verify: anyText},
		"lite.sub.client.quota":             {Changeable: true, verify: within(math.MinInt64, math.MaxInt64)},
		"lite.sub.client.max.event.cnt":     {Changeable: true, verify: within(math.MinInt64, math.MaxInt64)},
		"lite.sub.wildcard":                 {Changeable: true, verify: anyText},
	}
}

func oneOf(values ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(values, v) {
			return nil
		}
		return fmt.Errorf("value is not in set: [%s]", strings.Join(values, ", "))
	}
}

func within(low, high int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return remark(fmt.Sprintf("For input string: %q", v))
		}
		if n < low || n > high {
			return fmt.Errorf("value is not in range(%d, %d)", low, high)
		}
		return nil
	}
}

// ParseList reads a comma separated list of changes into a map whose keys carry the sign; a removed key has an empty value.
func ParseList(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > ListBytesMax {
		return nil, fmt.Errorf("attributes text has %d bytes, at most %d", len(text), ListBytesMax)
	}
	changes := make(map[string]string)
	// Java's split drops empty texts at the end, and only there.
	items := strings.Split(text, ",")
	for len(items) > 0 && items[len(items)-1] == "" {
		items = items[:len(items)-1]
	}
	for _, item := range items {
		key, value := item, ""
		if strings.Contains(item, "=") {
			key, value, _ = strings.Cut(item, "=")
			value, _, _ = strings.Cut(value, "=")
			if !strings.Contains(key, "+") {
				return nil, fmt.Errorf("add/alter attribute format is wrong: %s", key)
			}
			if value == "" {
				return nil, fmt.Errorf("add/alter attribute format is wrong: %s", item)
			}
		} else if !strings.Contains(item, "-") {
			return nil, fmt.Errorf("delete attribute format is wrong: %s", item)
		}
		if _, twice := changes[key]; twice {
			return nil, fmt.Errorf("key duplication: %s", key)
		}
		changes[key] = value
	}
	return changes, nil
}

// remark is an error whose text goes to the client as it is, capitals and full stops of the original included.
type remark string

func (r remark) Error() string { return string(r) }

const errKey = remark("kv string format wrong.")

// Alter applies changes (keys with signs) to current and returns the new attributes, never nil; neither argument is
// changed. create says that the object is being made, when only additions are legal.
func (s Set) Alter(create bool, current, changes map[string]string) (map[string]string, error) {
	result := make(map[string]string, len(current)+len(changes))
	maps.Copy(result, current)
	seen := make(map[string]bool, len(changes))
	for _, signed := range slices.Sorted(maps.Keys(changes)) {
		key := ""
		if signed != "" {
			key = signed[1:]
		}
		if key == "" || strings.ContainsAny(key, "+-") {
			return nil, errKey
		}
		if seen[key] {
			return nil, fmt.Errorf("alter duplication key. key: %s", key)
		}
		seen[key] = true
		definition, known := s[key]
		switch {
		case create && signed[0] != '+':
			return nil, fmt.Errorf("only add attribute is supported while creating topic. key: %s", key)
		case signed[0] == '+':
			if !known {
				return nil, fmt.Errorf("unsupported key: %s", key)
			}
			if !create && !definition.Changeable {
				return nil, fmt.Errorf("attempt to update an unchangeable attribute. key: %s", key)
			}
			if err := definition.verify(changes[signed]); err != nil {
				return nil, err
			}
			result[key] = changes[signed]
		case signed[0] == '-':
			if _, there := current[key]; !there {
				return nil, fmt.Errorf("attempt to delete a nonexistent key: %s", key)
			}
			if !known {
				return nil, fmt.Errorf("unsupported key: %s", key)
			}
			if !create && !definition.Changeable {
				return nil, fmt.Errorf("attempt to update an unchangeable attribute. key: %s", key)
			}
			delete(result, key)
		default:
			return nil, fmt.Errorf("wrong format key: %s", key)
		}
	}
	return result, nil
}
