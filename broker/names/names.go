// Package names tests and quotes the names that clients give to topics and groups. All functions are pure.
package names

import "strings"

// Legal tells whether a name holds nothing but the characters of ^[%|a-zA-Z0-9_-]+$ (TopicValidator); the empty name is the
// caller's to refuse.
func Legal(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '%', c == '|', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Quote keeps a remark that quotes a hostile name within a line: at most 1024 bytes of it, valid UTF-8.
func Quote(name string) string {
	const quotedMax = 1024
	if len(name) > quotedMax {
		return strings.ToValidUTF8(name[:quotedMax], "") + "…"
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
