package repair

import (
	"encoding/binary"
	"testing"

	"peregrine/internal/message"
	"peregrine/store/inspect"
)

// checkLayout checks what has to hold of every layout: fills lie one behind the other in the stretch, each of them can be written, all
// but what is reported as left is covered, and each queue's offsets are in order, none twice, all of them lost ones.
func checkLayout(t *testing.T, s stretch) []Fill {
	t.Helper()
	fills, left, offsets := layOut(s)
	lost := map[*inspect.Queue]map[message.QueueOffset]bool{}
	byName := map[string]*inspect.Queue{}
	for _, u := range s.lost {
		if lost[u.Queue] == nil {
			lost[u.Queue] = map[message.QueueOffset]bool{}
		}
		lost[u.Queue][u.Offset] = true
		byName[u.Queue.Topic] = u.Queue
	}
	last := map[string]message.QueueOffset{}
	pos, covered, placed := s.from, int64(0), 0
	for i := range fills {
		f := &fills[i]
		if f.Phy < pos || f.end() > s.end || f.EndMark && (f.end() != s.end || !s.endsFile || f.Bytes < message.BlankBytes) {
			t.Fatalf("%s ends at %d, the one before at %d, all at %d", f, f.end(), pos, s.end)
		}
		if !f.EndMark && f.Bytes < int64(message.FillerBytesMin(f.Topic)) {
			t.Fatalf("%s is too short", f)
		}
		if !f.EndMark && s.endsFile && f.end() > s.end-message.BlankBytes {
			t.Fatalf("%s leaves no room for an end-of-file mark at %d", f, s.end)
		}
		if f.Topic != "" {
			before, met := last[f.Topic]
			if met && before >= f.Offset || !lost[byName[f.Topic]][f.Offset] {
				t.Fatalf("%s follows offset %d", f, before)
			}
			last[f.Topic] = f.Offset
			placed++
		}
		pos, covered = f.end(), covered+f.Bytes
	}
	if covered+left != int64(s.end-s.from) {
		t.Fatalf("%d bytes are filled and %d left of %d", covered, left, s.end-s.from)
	}
	if placed+offsets != len(s.lost) {
		t.Fatalf("%d offsets have a place and %d have none, of %d", placed, offsets, len(s.lost))
	}
	return fills
}

func TestLayouts(t *testing.T) {
	a, b := &inspect.Queue{Topic: "A"}, &inspect.Queue{Topic: "BB"}
	lost := func(q *inspect.Queue, off message.QueueOffset, phy message.PhyOffset, size int32) inspect.LostUnit {
		return inspect.LostUnit{Queue: q, Offset: off, Phy: phy, Size: size}
	}
	for _, c := range []struct {
		name  string
		s     stretch
		fills int
	}{
		{"nothing is known", stretch{from: 100, end: 1100}, 1},
		{"one unit names all", stretch{from: 100, end: 400, lost: []inspect.LostUnit{lost(a, 5, 100, 300)}}, 1},
		{"a gap on both sides", stretch{from: 100, end: 1100, lost: []inspect.LostUnit{lost(a, 5, 300, 300)}}, 3},
		{"a gap too small", stretch{from: 100, end: 450, lost: []inspect.LostUnit{lost(a, 5, 150, 300)}}, 1},
		{"two queues", stretch{from: 0, end: 600, lost: []inspect.LostUnit{lost(a, 5, 300, 300), lost(b, 9, 0, 300)}}, 2},
		{"an offset without a place", stretch{from: 0, end: 600, lost: []inspect.LostUnit{lost(a, 5, -1, 0), lost(b, 9, 0, 300)}}, 3},
		{"offsets in order around a known one", stretch{from: 0, end: 900, lost: []inspect.LostUnit{lost(a, 5, -1, 0), lost(a, 6, 300, 300), lost(a, 7, -1, 0)}}, 5},
		{"a unit that overlaps", stretch{from: 0, end: 600, lost: []inspect.LostUnit{lost(a, 5, 0, 300), lost(b, 1, 200, 200)}}, 3},
		{"units out of order", stretch{from: 0, end: 600, lost: []inspect.LostUnit{lost(a, 5, 300, 300), lost(a, 6, 0, 300)}}, 2},
		{"the end of a file", stretch{from: 0, end: 65536, endsFile: true, lost: []inspect.LostUnit{lost(a, 5, 0, 300)}}, 2},
		{"the end mark alone", stretch{from: 65528, end: 65536, endsFile: true}, 1},
		{"too little for an end mark", stretch{from: 65530, end: 65536, endsFile: true}, 0},
		{"a long one", stretch{from: 0, end: 5<<20 + 17}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			if fills := checkLayout(t, c.s); len(fills) != c.fills {
				t.Errorf("%d fills, want %d: %v", len(fills), c.fills, fills)
			}
		})
	}
}

// Whatever units say, a layout keeps its promises, and is the same again.
func FuzzLayout(f *testing.F) {
	f.Add(uint16(0), uint16(1000), false, []byte{0, 0, 100, 1, 44, 0, 1, 0, 50, 0})
	f.Add(uint16(100), uint16(65535), true, []byte{1, 255, 255, 0, 0, 2, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, from, length uint16, endsFile bool, units []byte) {
		queues := []*inspect.Queue{{Topic: "A"}, {Topic: "BB"}, {Topic: "SCHEDULE_TOPIC_XXXX"}}
		s := stretch{from: message.PhyOffset(from), end: message.PhyOffset(from) + message.PhyOffset(length), endsFile: endsFile}
		byQueue := make([][]inspect.LostUnit, len(queues))
		for ; len(units) >= 5; units = units[5:] {
			q := int(units[0]) % len(queues)
			u := inspect.LostUnit{Queue: queues[q], Offset: message.QueueOffset(len(byQueue[q])), Phy: message.PhyOffset(binary.BigEndian.Uint16(units[1:])) - 1,
				Size: int32(binary.BigEndian.Uint16(units[3:]))}
			byQueue[q] = append(byQueue[q], u)
		}
		for _, all := range byQueue {
			s.lost = append(s.lost, all...)
		}
		first := checkLayout(t, s)
		second := checkLayout(t, s)
		for i := range first {
			if first[i] != second[i] {
				t.Fatalf("%s, then %s", &first[i], &second[i])
			}
		}
	})
}
