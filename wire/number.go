package wire

// parseInt32 reads a decimal 32-bit integer as Integer.parseInt does; ok is false for anything else.
//
// hot: 0 allocs.
func parseInt32(b []byte) (n int32, ok bool) {
	v, ok := parseInt64(b)
	if !ok || v != int64(int32(v)) {
		return 0, false
	}
	return int32(v), true
}

// parseInt64 reads a decimal 64-bit integer as Long.parseLong does; ok is false for anything else.
//
// hot: 0 allocs.
func parseInt64(b []byte) (n int64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var v uint64
	if len(b) <= 18 { // cannot overflow
		for _, c := range b {
			c -= '0'
			if c > 9 {
				return 0, false
			}
			v = v*10 + uint64(c)
		}
	} else {
		for _, c := range b {
			c -= '0'
			if c > 9 || v > (1<<63)/10 {
				return 0, false
			}
			v = v*10 + uint64(c)
			if v > 1<<63 {
				return 0, false
			}
		}
		if v == 1<<63 && !negative {
			return 0, false
		}
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
}

// parseBool reads a boolean: true in any case, or 1 as the C++ client may write it. Everything else is false, as in
// Boolean.parseBoolean.
//
// hot: 0 allocs.
func parseBool(b []byte) bool {
	switch len(b) {
	case 1:
		return b[0] == '1'
	case 4:
		return b[0]|0x20 == 't' && b[1]|0x20 == 'r' && b[2]|0x20 == 'u' && b[3]|0x20 == 'e'
	}
	return false
}
