package store

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	if err == nil {
		err = recordFault(v, phy)
	}
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrNoRecord, err)
	}
	return b[:len(dst)+int(v.Size)], nil
}

// ReadRecord appends the record that unit u of the queue, at offset, names to dst and decodes it into v, which aliases the result.
// Whoever shows what an earlier run wrote reads it this way: a start that takes the directory as peregrine left it looks at no
// record. It takes that record only, whole and undamaged. Otherwise dst is returned as it was, with
//   - ErrOutOfRange: retention deleted it,
//   - ErrNoRecord: it, or its unit, is damaged, which is noted; the reader steps over it,
//   - or what reading failed with.
//
// Any goroutine; it may wait for the disk.
func (q *Queue) ReadRecord(dst []byte, offset message.QueueOffset, u Unit, v *message.View) ([]byte, error) {
	s := q.store
	if u.valid() && u.Phy < s.MinPhy() {
		return dst, ErrOutOfRange
	}
	if end := s.Confirmed(); !u.valid() || u.Phy >= end || int64(u.Size) > min(int64(end-u.Phy), s.set.segmentBytes) {
		return dst, q.noteDamaged(offset, u, errors.New("no record can be there"))
	}
	n := min(int(u.Size), recordFirstBytes)
	b, err := s.readAtMost(dst, u.Phy, n)
	if err == nil && n < int(u.Size) && namesPosition(b[len(dst):], u.Phy) && binary.BigEndian.Uint32(b[len(dst):]) == uint32(u.Size) {
		b, err = s.readAtMost(dst, u.Phy, int(u.Size)) // a damaged length does not cost memory
	}
	if err != nil {
		return dst, err
	}
	if err = message.ParseView(b[len(dst):], v); err == nil {
		err = recordFault(v, u.Phy)
	}
	switch {
	case errors.Is(err, message.ErrTornTail) && namesPosition(b[len(dst):], u.Phy), err == nil && v.Size != u.Size:
		return dst, q.noteDamaged(offset, u, errors.New("the record there has another length"))
	case err != nil:
		return dst, q.noteDamaged(offset, u, err)
	case v.QueueOffset != offset || v.QueueID != q.id || string(v.Topic) != q.topic:
		return dst, q.noteDamaged(offset, u, fmt.Errorf("the record there says that it is number %d of queue %d of topic %.127q", v.QueueOffset, v.QueueID, v.Topic))
	}
	return b, nil
}

// recordFault tells why a record that could be parsed is not one to show.
func recordFault(v *message.View, phy message.PhyOffset) error {
	switch {
	case v.PhyOffset != phy:
		return fmt.Errorf("a record that belongs to position %d", v.PhyOffset)
	case !v.CheckCRC():
		return errors.New("the body does not match its CRC")
	case tornProperties(v.Properties):
		return errors.New("the properties are torn")
	}
	return nil
}

// readAtMost appends up to n bytes of the log to dst, fewer where the file or the log ends. What is taken to be in memory costs no system
// call: consumers that are further behind than the units in memory reach still read the newest part of the log.
func (s *Store) readAtMost(dst []byte, phy message.PhyOffset, n int) ([]byte, error) {
	if s.IsHot(phy) {
		if b := s.Slice(phy, n); b != nil {
			return append(dst, b...), nil
		}
	}
	b := slices.Grow(dst, n)[:len(dst)+n]
	got, err := s.ReadAt(b[len(dst):], phy)
	return b[:len(dst)+got], err
}

// phyFieldEnd is where the position ends that a record says of itself.
const phyFieldEnd = 36

// namesPosition tells whether the first bytes of a record claim that it belongs to phy: only then is a length that they say believed,
// so that a damaged one does not cost memory.
func namesPosition(b []byte, phy message.PhyOffset) bool {
	return len(b) >= phyFieldEnd && message.PhyOffset(binary.BigEndian.Uint64(b[phyFieldEnd-8:])) == phy
}
