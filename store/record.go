package store

import (
	"encoding/binary"
	"errors"
	"slices"

	"peregrine/internal/message"
)

// ErrNoRecord says that no undamaged record begins at a position.
var ErrNoRecord = errors.New("store: no record begins there")

// ReadRecord appends the record that begins at phy to dst and decodes it into v, which aliases the result. Only what may be
// shown is read: confirmed, at its own place, body and properties undamaged. Otherwise dst is returned as it was, with
// ErrOutOfRange, ErrNoRecord, or what reading failed with. Any goroutine; it may wait for the disk.
func (s *Store) ReadRecord(dst []byte, phy message.PhyOffset, v *message.View) ([]byte, error) {
	end := s.Confirmed()
	if phy < s.MinPhy() || phy >= end {
		return dst, ErrOutOfRange
	}
	b, err := s.readAtMost(dst, phy, int(min(recordFirstBytes, int64(end-phy))))
	if err != nil {
		return dst, err
	}
	record := b[len(dst):]
	err = message.ParseView(record, v)
	if errors.Is(err, message.ErrTornTail) && len(record) >= blankBytes {
		// Longer than the first read. A length is believed only if it can be one and the record claims this place.
		size := int64(int32(binary.BigEndian.Uint32(record)))
		if size <= s.set.segmentBytes && size <= int64(end-phy) && namesPosition(record, phy) {
			if b, err = s.readAtMost(dst, phy, int(size)); err != nil {
				return dst, err
			}
			err = message.ParseView(b[len(dst):], v)
		}
	}
	if err != nil || v.PhyOffset != phy || !v.CheckCRC() || tornProperties(v.Properties) {
		return dst, ErrNoRecord
	}
	return b[:len(dst)+int(v.Size)], nil
}

// readAtMost appends up to n bytes of the log to dst, fewer where the file or the log ends.
func (s *Store) readAtMost(dst []byte, phy message.PhyOffset, n int) ([]byte, error) {
	b := slices.Grow(dst, n)[:len(dst)+n]
	got, err := s.ReadAt(b[len(dst):], phy)
	return b[:len(dst)+got], err
}

// namesPosition tells whether the first bytes of a record claim that it belongs to phy.
func namesPosition(b []byte, phy message.PhyOffset) bool {
	const phyField = 28
	return len(b) >= phyField+8 && message.PhyOffset(binary.BigEndian.Uint64(b[phyField:])) == phy
}
