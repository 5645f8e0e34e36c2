package message

import (
	"hash/crc32"
	"unicode/utf8"
)

// JavaHash is String.hashCode of the text whose UTF-8 form is s: h = 31*h + unit over the UTF-16 units, wrapping. A byte
// that is not part of valid UTF-8 counts as U+FFFD.
//
// hot: 0 allocs.
func JavaHash(s []byte) int32 { return JavaHashOn(0, s) }

// JavaHashOn goes on with the hash of a text behind which s stands: JavaHashOn(JavaHash(a), b) is JavaHash of a and b
// together, as long as no character is cut in two.
//
// hot: 0 allocs.
func JavaHashOn(h int32, s []byte) int32 {
	i := 0
	// Four characters with one step of the chain of multiplications, which is what the loop below waits for.
	for ; len(s)-i >= 4; i += 4 {
		a, b, c, d := s[i], s[i+1], s[i+2], s[i+3]
		if a|b|c|d >= utf8.RuneSelf {
			break
		}
		h = h*(31*31*31*31) + (int32(a)*(31*31*31) + int32(b)*(31*31) + int32(c)*31 + int32(d))
	}
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		i += n
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + (0xD800 + r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + r
	}
	return h
}

// TagsCodeOf is MessageExtBrokerInner.tagsString2tagsCode: the hash of the whole TAGS text, 0 when there is none.
//
// hot: 0 allocs.
func TagsCodeOf(tags []byte) TagsCode {
	return TagsCode(JavaHash(tags))
}

// BodyCRC is UtilAll.crc32: CRC-32 (IEEE) with the sign bit cleared, 0 for an empty body.
//
// hot: 0 allocs.
func BodyCRC(b []byte) uint32 {
	return crc32.ChecksumIEEE(b) & 0x7FFFFFFF
}
