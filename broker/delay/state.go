package delay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"peregrine/broker/statefile"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// layout is delayOffset.json (DelayOffsetSerializeWrapper, 5.5.0; 4.9.4 has no dataVersion). Offsets are by level, from 1.
type layout struct {
	DataVersion *wire.DataVersion           `json:"dataVersion"`
	OffsetTable map[int]message.QueueOffset `json:"offsetTable"`
	// LogPosition is peregrine's own: the copies of all messages that OffsetTable does not count as delivered begin here or
	// behind it. The original ignores it and writes the file without.
	LogPosition *message.PhyOffset `json:"peregrineLogPosition,omitempty"`
}

func parse(data []byte) (l layout, extra statefile.Extra, err error) {
	standard, err := statefile.Standard(data)
	if err != nil {
		return l, nil, err
	}
	if err := json.Unmarshal(standard, &l); err != nil {
		return l, nil, err
	}
	if l.OffsetTable == nil {
		return l, nil, errors.New("there is no offsetTable in it")
	}
	if len(l.OffsetTable) > levelsInFileMax {
		return l, nil, fmt.Errorf("%d delay levels", len(l.OffsetTable))
	}
	return l, statefile.Unknown(standard, layout{}), nil
}

func (s *Service) load() error {
	var l layout
	var err error
	s.source, err = s.file.Load(func(data []byte) (err error) {
		l, s.extra, err = parse(data)
		return err
	})
	if err != nil {
		return err
	}
	if s.source == sysio.SourceNone {
		l, s.extra = layout{}, nil // not what a damaged file says
	}
	s.changes.Store(1) // so that there is a file soon
	s.version = wire.DataVersion{Timestamp: int64(s.opts.Now())}
	if l.DataVersion != nil {
		s.version = *l.DataVersion
	}
	s.position.Store(-1)
	if l.LogPosition != nil {
		s.position.Store(int64(*l.LogPosition))
	}
	s.unknown = map[int]message.QueueOffset{}
	for number, offset := range l.OffsetTable {
		if number < 1 || number > len(s.levels) {
			s.unknown[number] = offset
			continue
		}
		level := s.levels[number-1]
		level.next, level.known = offset, true
		level.shown.Store(int64(offset))
	}
	return nil
}

// snapshot is the state at one instant.
type snapshot struct {
	layout     layout
	extra      statefile.Extra
	generation uint64
	wrote      message.PhyOffset // the copies of what it calls delivered lie below
	position   message.PhyOffset // layout.LogPosition
}

func (s *Service) snapshot() *snapshot {
	shot := &snapshot{generation: s.changes.Load()}
	s.mu.Lock()
	version := s.version
	shot.layout = layout{DataVersion: &version, OffsetTable: maps.Clone(s.unknown), LogPosition: &shot.position}
	shot.extra = s.extra
	s.mu.Unlock()
	// With all levels held no copy is on its way into the log: those that the offsets count lie below its end, others behind.
	for _, l := range s.levels {
		l.mu.Lock()
	}
	shot.wrote = s.opts.Store.Wrote()
	if shot.position = shot.wrote; s.outside {
		shot.position = message.PhyOffset(max(s.position.Load(), 0))
	}
	for _, l := range s.levels {
		if l.known {
			shot.layout.OffsetTable[int(l.id)+1] = l.next
		}
		l.mu.Unlock()
	}
	return shot
}

func (shot *snapshot) encode(pretty bool) []byte {
	text := statefile.Merge(shot.layout, shot.extra)
	if pretty {
		return statefile.AppendPretty(nil, text)
	}
	return text
}

// Body is the answer of GET_ALL_DELAY_OFFSET: the same as the file, compact.
func (s *Service) Body() []byte { return s.snapshot().encode(false) }
