package inspect

import (
	"container/heap"
	"errors"
	"io"
	"io/fs"
	"sort"

	"peregrine/internal/message"
)

// named is a place that a unit names (q), or an index item (file), or where a file of the log begins.
type named struct {
	phy  message.PhyOffset
	q    *Queue
	off  message.QueueOffset
	end  message.QueueOffset
	file int   // of the index, counted from 1
	hash int32 // of the item's key
}

// holds tells whether the record that was found is the one that was named.
func (n *named) holds(view *message.View) bool {
	if n.q != nil {
		return view.QueueOffset == n.off && view.QueueID == n.q.ID && string(view.Topic) == n.q.Topic
	}
	fits := n.file == 0
	if !fits {
		indexKeys(view, nil, func(key []byte, _ bool) { fits = fits || IndexHash(key) == n.hash })
	}
	return fits
}

type namedHeap []named

func (h namedHeap) Len() int           { return len(h) }
func (h namedHeap) Less(i, k int) bool { return h[i].phy < h[k].phy }
func (h namedHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *namedHeap) Push(x any)        { *h = append(*h, x.(named)) }
func (h *namedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// resume returns the first place behind pos that a unit or an index item names and that holds its record, or where a file
// begins with one.
func (v *verifier) resume(pos message.PhyOffset) (message.PhyOffset, bool, error) {
	var names namedHeap
	if f := v.d.nextLogFile(pos); f != nil {
		names = append(names, named{phy: message.PhyOffset(f.Start)})
	}
	for _, q := range v.d.Queues {
		end, err := v.units.lastWritten(q)
		if err != nil {
			return 0, false, err
		}
		off, err := v.units.lowerBound(q, pos+1, end)
		if err != nil {
			return 0, false, err
		}
		if names, err = v.pushName(names, named{q: q, off: off, end: end}); err != nil {
			return 0, false, err
		}
	}
	names, err := v.pushItem(names, pos)
	if err != nil {
		return 0, false, err
	}
	heap.Init(&names)
	for len(names) > 0 {
		n := heap.Pop(&names).(named)
		if v.d.Held && n.phy >= v.unitsEnd {
			return 0, false, nil
		}
		if n.phy > pos { // a queue out of order may name anything
			verdict, err := v.peek.look(n.phy)
			if err != nil {
				return 0, false, err
			}
			if (verdict == isGood || verdict == isDamaged) && n.holds(&v.peek.view) {
				return n.phy, true, nil
			}
		}
		var more namedHeap
		switch {
		case n.q != nil:
			n.off++
			more, err = v.pushName(nil, n)
		case n.file > 0:
			more, err = v.pushItem(nil, n.phy)
		default:
			if f := v.d.nextLogFile(n.phy); f != nil {
				more = namedHeap{{phy: message.PhyOffset(f.Start)}}
			}
		}
		if err != nil {
			return 0, false, err
		}
		for _, m := range more {
			heap.Push(&names, m)
		}
	}
	return 0, false, nil
}

// pushItem appends the first index item behind a position: items stand in the order of the log.
func (v *verifier) pushItem(names namedHeap, pos message.PhyOffset) (namedHeap, error) {
	for i, f := range v.d.Index {
		count := min(f.Head.Next, f.Items)
		if f.Slots == 0 || count <= 1 || f.Head.EndPhy <= pos {
			continue
		}
		var failed error
		at := func(n int32) IndexItem {
			var b [indexItemBytes]byte
			if _, err := v.d.readFile(f.Path, b[:], f.itemAt(n)); err != nil && err != io.EOF && !errors.Is(err, fs.ErrNotExist) {
				failed = err
			}
			return parseIndexItem(b[:])
		}
		n := 1 + int32(sort.Search(int(count)-1, func(n int) bool { return at(int32(n)+1).Phy > pos }))
		if n < count {
			item := at(n)
			names = append(names, named{phy: item.Phy, file: i + 1, hash: item.Hash})
		}
		if failed != nil || n < count {
			return names, failed
		}
	}
	return names, nil
}

// pushName appends the first real unit at or behind n.off.
func (v *verifier) pushName(names namedHeap, n named) (namedHeap, error) {
	u, off, err := v.units.real(n.q, n.off, n.end)
	if err != nil || off >= n.end {
		return names, err
	}
	n.phy, n.off = u.Phy, off
	return append(names, n), nil
}
