package offsets

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/wire"
)

// content is what consumerOffset.json holds.
type content struct {
	version *wire.DataVersion
	offsets map[string]map[message.QueueID]message.QueueOffset // by topic@group
	rest    statefile.Extra
}

// layout is the file's top level. groupTopicMap is derived and ignored when read, as in the original; a pullOffsetTable is
// kept as it was found until peregrine has one of its own.
type layout struct {
	DataVersion   *wire.DataVersion                                  `json:"dataVersion"`
	GroupTopicMap map[string][]string                                `json:"groupTopicMap"`
	OffsetTable   map[string]map[message.QueueID]message.QueueOffset `json:"offsetTable"`
}

func parse(data []byte) (content, error) {
	standard, err := statefile.Standard(data)
	if err != nil {
		return content{}, err
	}
	var l struct {
		DataVersion *wire.DataVersion                                  `json:"dataVersion"`
		OffsetTable map[string]map[message.QueueID]message.QueueOffset `json:"offsetTable"`
	}
	if err := json.Unmarshal(standard, &l); err != nil {
		return content{}, err
	}
	if l.OffsetTable == nil {
		return content{}, errors.New("there is no offsetTable in it")
	}
	return content{version: l.DataVersion, offsets: l.OffsetTable, rest: statefile.Unknown(standard, layout{})}, nil
}

// Persist writes consumerOffset.json if anything was committed or removed since the last write. It does file I/O.
func (t *Table) Persist() error { return t.file.Save(t.changes.Load(), t.encode) }

func (t *Table) encode() ([]byte, uint64) {
	// Read before the offsets: what is written may be newer than this says, never older.
	generation := t.changes.Load()
	l, rest := t.snapshot()
	return statefile.AppendPretty(nil, statefile.Merge(l, rest)), generation
}

// Body is the answer of GET_ALL_CONSUMER_OFFSET: the same as the file, compact.
func (t *Table) Body() []byte {
	l, rest := t.snapshot()
	return statefile.Merge(l, rest)
}

func (t *Table) snapshot() (layout, statefile.Extra) {
	t.mu.RLock()
	version := t.version
	rest := t.rest
	l := layout{DataVersion: &version, GroupTopicMap: make(map[string][]string, len(t.groups)),
		OffsetTable: make(map[string]map[message.QueueID]message.QueueOffset, t.pairs)}
	type held struct {
		key string
		p   *pair
	}
	all := make([]held, 0, t.pairs)
	for group, topics := range t.groups {
		l.GroupTopicMap[group] = slices.Sorted(maps.Keys(topics))
		for topic, p := range topics {
			all = append(all, held{topic + "@" + group, p})
		}
	}
	t.mu.RUnlock()
	for _, h := range all {
		offsets := *h.p.offsets.Load()
		queues := make(map[message.QueueID]message.QueueOffset)
		for id := range offsets {
			if o := offsets[id].Load(); o != absent {
				queues[message.QueueID(id)] = message.QueueOffset(o)
			}
		}
		l.OffsetTable[h.key] = queues
	}
	for key, queues := range t.unused {
		if l.OffsetTable[key] == nil {
			l.OffsetTable[key] = make(map[message.QueueID]message.QueueOffset, len(queues))
		}
		maps.Copy(l.OffsetTable[key], queues)
	}
	if rest["pullOffsetTable"] == nil {
		rest = maps.Clone(rest)
		if rest == nil {
			rest = statefile.Extra{}
		}
		rest["pullOffsetTable"] = json.RawMessage("{}")
	}
	return l, rest
}
