package message

import "encoding/binary"

// StoreTimePrefixBytes is how many bytes of a record StoreTimeOf may need.
const StoreTimePrefixBytes = offBornTimestamp + 8 + 20 + 8

// StoreTimeOf reads the store time out of the first StoreTimePrefixBytes of a record, for searches by time that have no
// use for the rest. ok is false when the bytes do not begin a record or are too few.
func StoreTimeOf(prefix []byte) (stored Millis, ok bool) {
	if len(prefix) < offBornTimestamp+8 {
		return 0, false
	}
	be := binary.BigEndian
	if magic := int32(be.Uint32(prefix[offMagic:])); magic != MagicV1 && magic != MagicV2 {
		return 0, false
	}
	at := offBornTimestamp + 8 + 8
	if int32(be.Uint32(prefix[offSysFlag:]))&SysFlagBornHostV6 != 0 {
		at = offBornTimestamp + 8 + 20
	}
	if len(prefix) < at+8 {
		return 0, false
	}
	return Millis(be.Uint64(prefix[at:])), true
}
