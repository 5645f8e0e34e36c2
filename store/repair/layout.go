package repair

import (
	"fmt"
	"math"
	"slices"

	"peregrine/internal/message"
	"peregrine/store/inspect"
)

// Fill is what takes the place of a part of the log.
type Fill struct {
	Phy   message.PhyOffset `json:"position"`
	Bytes int64             `json:"bytes"`
	// EndMark: an end-of-file mark, 8 bytes that say how long the rest of the file is. Else a filler: of Topic, Queue and Offset, or
	// of no queue where Topic is "".
	EndMark bool                `json:"endMark,omitempty"`
	Topic   string              `json:"topic,omitempty"`
	Queue   message.QueueID     `json:"queue"`
	Offset  message.QueueOffset `json:"offset"`
}

func (f *Fill) end() message.PhyOffset { return f.Phy + message.PhyOffset(f.Bytes) }

// String says what it is.
func (f *Fill) String() string {
	switch {
	case f.EndMark:
		return fmt.Sprintf("the end-of-file mark at %d", f.Phy)
	case f.Topic == "":
		return fmt.Sprintf("a filler of %d bytes at %d that belongs to no queue", f.Bytes, f.Phy)
	}
	return fmt.Sprintf("a filler of %d bytes at %d for %s queue %d offset %d", f.Bytes, f.Phy, inspect.Printable(f.Topic), f.Queue, f.Offset)
}

// stretch is a part of one file of the log, to be filled.
type stretch struct {
	from, end message.PhyOffset
	endsFile  bool // the file ends there: an end-of-file mark does
	lost      []inspect.LostUnit
}

// slot is a lost queue offset between the known ones of its queue.
type slot struct {
	inspect.LostUnit
	low, high message.PhyOffset // it must lie in here
	placed    bool
}

// layOut fills a stretch. left is how many bytes stay as they are, being too few for a record, and offsets how many queue offsets
// found no room.
func layOut(s stretch) (fills []Fill, left int64, offsets int) {
	known, open := sortOut(&s)
	pos := s.from
	for _, f := range append(known, Fill{Phy: s.end}) {
		gap, n := fillGap(&s, pos, f.Phy, open)
		fills, left = append(fills, gap...), left+n
		if pos = f.end(); f.Bytes > 0 {
			fills = append(fills, f)
		}
	}
	for i := range open {
		if !open[i].placed {
			offsets++
		}
	}
	return fills, left, offsets
}

// sortOut separates the lost units whose place and length can be right from the others.
func sortOut(s *stretch) (known []Fill, open []slot) {
	limit := s.end
	if s.endsFile {
		limit -= message.BlankBytes
	}
	order := make([]int, 0, len(s.lost))
	for i := range s.lost {
		if u := &s.lost[i]; u.Phy >= s.from && u.Size <= recordBytesMax && int(u.Size) >= message.FillerBytesMin(u.Queue.Topic) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return int(min(max(s.lost[a].Phy-s.lost[b].Phy, -1), 1))
	})
	taken := make([]bool, len(s.lost))
	last := map[*inspect.Queue]message.QueueOffset{}
	pos := s.from
	for _, i := range order {
		u := &s.lost[i]
		before, met := last[u.Queue]
		if u.Phy < pos || u.Phy+message.PhyOffset(u.Size) > limit || met && before >= u.Offset {
			continue
		}
		known = append(known, Fill{Phy: u.Phy, Bytes: int64(u.Size), Topic: u.Queue.Topic, Queue: u.Queue.ID, Offset: u.Offset})
		pos, taken[i], last[u.Queue] = u.Phy+message.PhyOffset(u.Size), true, u.Offset
	}
	// Each queue's offsets are in order in s.lost.
	low := map[*inspect.Queue]message.PhyOffset{}
	for i := range s.lost {
		u := &s.lost[i]
		if taken[i] {
			low[u.Queue] = u.Phy + message.PhyOffset(u.Size)
		} else {
			open = append(open, slot{LostUnit: *u, low: low[u.Queue], high: math.MaxInt64})
		}
	}
	high := map[*inspect.Queue]message.PhyOffset{}
	k := len(open) - 1
	for i := len(s.lost) - 1; i >= 0; i-- {
		u := &s.lost[i]
		if taken[i] {
			high[u.Queue] = u.Phy
			continue
		}
		if h, ok := high[u.Queue]; ok {
			open[k].high = h
		}
		k--
	}
	return known, open
}

// fillGap fills [from, end): with the open queue offsets that may lie there, as many as there is room for, and then with what
// belongs to no queue. It returns how many bytes it could not fill.
func fillGap(s *stretch, from, end message.PhyOffset, open []slot) (fills []Fill, left int64) {
	room := int64(end - from)
	mark := s.endsFile && end == s.end
	if mark {
		room -= message.BlankBytes
	}
	pos := from
	for i := range open {
		o := &open[i]
		n := int64(message.FillerBytesMin(o.Queue.Topic))
		if o.placed || o.low > from || o.high < end || n > room {
			continue
		}
		o.placed = true
		fills = append(fills, Fill{Phy: pos, Bytes: n, Topic: o.Queue.Topic, Queue: o.Queue.ID, Offset: o.Offset})
		pos, room = pos+message.PhyOffset(n), room-n
	}
	shortest := int64(message.FillerBytesMin(""))
	switch {
	case mark && room >= 0:
		return append(fills, Fill{Phy: pos, Bytes: int64(end - pos), EndMark: true}), 0
	case mark:
		return fills, int64(end - from) // less than a mark
	case room == 0:
		return fills, 0
	case room < shortest && len(fills) > 0:
		fills[len(fills)-1].Bytes += room
		return fills, 0
	case room < shortest:
		return nil, room
	}
	for room > 0 {
		n := min(room, fillerBytesMax)
		if room > n && room-n < shortest {
			n -= shortest
		}
		fills = append(fills, Fill{Phy: pos, Bytes: n})
		pos, room = pos+message.PhyOffset(n), room-n
	}
	return fills, 0
}
