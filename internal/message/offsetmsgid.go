package message

import (
	"encoding/binary"
	"slices"
)

const hexUpper = "0123456789ABCDEF"

// hexPairs are the two digits of every byte.
var hexPairs = func() (t [256][2]byte) {
	for c := range t {
		t[c] = [2]byte{hexUpper[c>>4], hexUpper[c&15]}
	}
	return t
}()

// appendHex appends b in upper-case hex.
func appendHex(dst, b []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, 2*len(b))[:at+2*len(b)]
	for _, c := range b {
		copy(dst[at:at+2], hexPairs[c][:])
		at += 2
	}
	return dst
}

// AppendOffsetMsgID appends the offset message id (MessageDecoder.createMessageId): upper-case hex of the store host's
// address, its port as int32 and the physical offset. 32 characters with an IPv4 host, 56 with IPv6.
//
// hot: 0 allocs when dst has room.
func AppendOffsetMsgID(dst []byte, storeHost Host, phy PhyOffset) []byte {
	return storeHost.AppendMsgID(dst, phy)
}

// AppendMsgID is AppendOffsetMsgID of a store host that is not copied.
//
// hot: 0 allocs when dst has room.
func (h *Host) AppendMsgID(dst []byte, phy PhyOffset) []byte {
	var raw [OffsetMsgIDBytesMax / 2]byte
	at := h.put(raw[:], 0)
	binary.BigEndian.PutUint64(raw[at:], uint64(phy))
	return appendHex(dst, raw[:at+8])
}

// ParseOffsetMsgID is the inverse of AppendOffsetMsgID (MessageDecoder.decodeMessageId); lower-case digits are accepted.
// It returns ErrBadMessageID for anything else.
func ParseOffsetMsgID(text []byte) (storeHost Host, phy PhyOffset, err error) {
	if len(text) != OffsetMsgIDBytesMax && len(text) != 32 {
		return Host{}, 0, ErrBadMessageID
	}
	var raw [OffsetMsgIDBytesMax / 2]byte
	for i := 0; i < len(text); i += 2 {
		hi, lo := hexDigit(text[i]), hexDigit(text[i+1])
		if hi > 15 || lo > 15 {
			return Host{}, 0, ErrBadMessageID
		}
		raw[i/2] = hi<<4 | lo
	}
	at := storeHost.get(raw[:], 0, len(text)/2-12)
	return storeHost, PhyOffset(binary.BigEndian.Uint64(raw[at:])), nil
}

// hexDigit is the value of a hex digit, or 255.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}
