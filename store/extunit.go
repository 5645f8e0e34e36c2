package store

import (
	"encoding/binary"

	"peregrine/internal/message"
)

// A unit of an ext file (ConsumeQueueExt.CqExtUnit, 5.5.0), big endian:
//
//	offset  size  name      meaning
//	0       2     size      of the whole unit; below 1 = nothing more in this file, -1 where the original says so itself
//	2       8     tagsCode  what the ConsumeQueue unit would hold without ext files
//	10      8     storeTime of the record, in ms
//	18      2     bitMap    how many bytes follow
//	20      n     bits      which consumers of SQL filters want it; only with enableCalcFilterBitMap
//
// A ConsumeQueue unit names it by its position over all files of its queue, counted from the smallest 64-bit number on. At least
// extBlankBytes of a file stay free behind its last unit.
type extUnit struct {
	tags   message.TagsCode
	stored message.Millis
	size   int
}

// extBase is the tags field that names position 0.
const extBase = -1 << 63

// extPosition returns the position that a tags field names. The caller knows that it is an address.
func extPosition(t message.TagsCode) int64 { return int64(t) - extBase }

func extAddress(pos int64) message.TagsCode { return message.TagsCode(pos + extBase) }

// encodeExt writes a unit without a bit map.
func encodeExt(dst []byte, tags message.TagsCode, stored message.Millis) {
	binary.BigEndian.PutUint16(dst, extUnitBytes)
	binary.BigEndian.PutUint64(dst[2:], uint64(tags))
	binary.BigEndian.PutUint64(dst[10:], uint64(stored))
	binary.BigEndian.PutUint16(dst[18:], 0)
}

// decodeExt reads the unit at the front of b; false if there is none. room is how much of its file lies behind its begin. A bit
// map is not looked at and need not be in b.
func decodeExt(b []byte, room int64) (u extUnit, ok bool) {
	if len(b) < extUnitBytes {
		return u, false
	}
	size, bits := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[18:]))
	if bits < 0 || int(size) != extUnitBytes+int(bits) || int64(size) > room-extBlankBytes {
		return u, false
	}
	return extUnit{
		tags:   message.TagsCode(binary.BigEndian.Uint64(b[2:])),
		stored: message.Millis(binary.BigEndian.Uint64(b[10:])),
		size:   int(size),
	}, true
}
