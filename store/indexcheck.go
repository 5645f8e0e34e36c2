package store

import (
	"bytes"
	"io"
	"slices"

	"peregrine/internal/message"
)

// itemCheck tells whether index items name records that have their key. Items are in the order of the log, so it is read once, from
// front to back. Only the goroutine of Index.Recover uses it.
type itemCheck struct {
	x       *Index
	damaged []DamagedRange // not passed yet
	buf     []byte
	from    message.PhyOffset // buf[:filled] is the log from here on
	filled  int
	at      message.PhyOffset // of hashes; -1: none
	hashes  []int32           // of the keys of the record there
	good    bool              // there is one
}

func newItemCheck(x *Index) *itemCheck {
	return &itemCheck{x: x, damaged: x.s.Recovery().Damaged, at: -1}
}

// fits tells whether an item is believed. What it names may be gone or damaged: then nothing speaks against it.
func (c *itemCheck) fits(it indexItem) (bool, error) {
	if it.phy < c.x.s.MinPhy() {
		return true, nil
	}
	for len(c.damaged) > 0 && c.damaged[0].Phy+message.PhyOffset(c.damaged[0].Bytes) <= it.phy {
		c.damaged = c.damaged[1:]
	}
	if len(c.damaged) > 0 && c.damaged[0].Phy <= it.phy {
		return true, nil
	}
	if it.phy != c.at {
		var v message.View
		var err error
		if c.good, err = c.record(it.phy, &v); err != nil {
			return false, err
		}
		if c.at = it.phy; c.good {
			c.hashes = append(c.hashes[:0], c.x.keysOf(&IndexRecord{Phy: it.phy, Topic: v.Topic, Properties: v.Properties})...)
		}
	}
	return c.good && slices.Contains(c.hashes, it.hash) || !c.good && it.phy < c.x.s.MinPhy(), nil // retention may have come first
}

// record reads the record at a position; false where there is none. The view aliases buf.
func (c *itemCheck) record(phy message.PhyOffset, v *message.View) (bool, error) {
	for need := message.PhyOffset(indexGapBytes); ; {
		b := c.buf[:0]
		if phy >= c.from && phy < c.from+message.PhyOffset(c.filled) {
			b = c.buf[phy-c.from : c.filled]
		}
		err := message.ParseView(b, v)
		if err == nil {
			return v.PhyOffset == phy, nil
		}
		size := sizeOfTorn(b, err)
		if len(b) > 0 && len(b) >= int(need) || size > need && !namesPosition(b, phy) {
			return false, nil
		}
		if len(b) >= message.BlankBytes && size == 0 {
			return false, nil // no record begins there
		}
		need = max(need, size)
		segment := message.PhyOffset(c.x.s.SegmentBytes())
		left := phy - phy%segment + segment - phy
		if size > left {
			return false, nil
		}
		if want := int(min(need, left)); len(c.buf) < want {
			c.buf = make([]byte, want)
		}
		n, err := c.x.s.ReadAt(c.buf[:min(need, left)], phy)
		if n == 0 && err != nil && phy >= c.x.s.MinPhy() {
			return false, err
		}
		if n <= len(b) {
			return false, nil // there is no more
		}
		c.from, c.filled = phy, n
	}
}

// wholeFile compares what a file of which all items are believed says of them, its header and its slots, and writes what is wrong.
func (x *Index) wholeFile(f *indexFile, walk *indexWalk) error {
	header, err := x.headerOf(walk)
	if err != nil {
		return err
	}
	same, err := walk.slotsFit()
	if err != nil {
		return err
	}
	size, err := walk.file.Size()
	if err != nil || same && header == f.header && size == x.geo.fileBytes() {
		return err
	}
	x.logger.Warn("header or slots of an index file do not fit its items; they are written again", "file", f.path, "items", header.count-1)
	f.header = header
	return walk.write(header)
}

// slotsFit tells whether the slots on disk are those that the items make.
func (w *indexWalk) slotsFit() (bool, error) {
	block := min(len(w.slots), indexWalkItems) * indexSlotBytes
	old, now := make([]byte, block), make([]byte, 0, block)
	for at := 0; at < len(w.slots); at += indexWalkItems {
		now = encodeSlots(now[:0], w.slots[at:min(at+indexWalkItems, len(w.slots))])
		if _, err := w.file.ReadAt(old[:len(now)], int64(indexHeaderBytes+at*indexSlotBytes)); err != nil && err != io.EOF {
			return false, err
		}
		if !bytes.Equal(old[:len(now)], now) {
			return false, nil
		}
	}
	return true, nil
}

func encodeSlots(b []byte, slots []int32) []byte {
	for _, n := range slots {
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return b
}
