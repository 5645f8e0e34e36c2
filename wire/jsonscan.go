package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// wordBytes is how many bytes the scanner looks at in one step; its scratch is that much longer than needed, because text is
// copied in whole words.
const wordBytes = 8

// jsonScanner reads one JSON text front to back. Texts without escapes alias src, others are unescaped into out, which
// must have room for len(src)+wordBytes bytes. It is a little more tolerant than the standard: raw control characters in
// texts and any digits in numbers pass; it never accepts less.
type jsonScanner struct {
	src []byte
	pos int
	out []byte
	use int // bytes of out that are taken
}

func (s *jsonScanner) start(src, out []byte) {
	*s = jsonScanner{src: src, out: out}
}

// peek skips white space and shows the next byte, 0 at the end.
func (s *jsonScanner) peek() byte {
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if c > ' ' || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

// open consumes c if it comes next.
func (s *jsonScanner) open(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// atEnd tells that only white space is left.
func (s *jsonScanner) atEnd() bool {
	s.peek()
	return s.pos >= len(s.src)
}

// nextKey reads up to the value of the next member of an object whose brace is consumed; more is false behind the last.
func (s *jsonScanner) nextKey(first bool) (key []byte, more bool, err error) {
	c := s.peek()
	if c == '}' {
		s.pos++
		return nil, false, nil
	}
	if !first {
		if c != ',' {
			return nil, false, ErrHeaderJSON
		}
		s.pos++
		c = s.peek()
	}
	if c != '"' {
		return nil, false, ErrHeaderJSON
	}
	if key, err = s.text(); err != nil {
		return nil, false, err
	}
	if s.peek() != ':' {
		return nil, false, ErrHeaderJSON
	}
	s.pos++
	return key, true, nil
}

// letterKey reads up to the value of the next member if it is not the first one, its key is a letter and its value a text, as the fields
// of sends come: ,"a":"text". Otherwise it reads nothing and returns nil.
func (s *jsonScanner) letterKey() []byte {
	h := s.src[s.pos:]
	if len(h) < 6 || h[0] != ',' || h[1] != '"' || h[2] < 'a' || h[2] > 'z' || h[3] != '"' || h[4] != ':' || h[5] != '"' {
		return nil
	}
	s.pos += 5
	return h[2:3:3]
}

// special marks the highest bit of the first byte of w that is a quote or a backslash. Bytes above that one may be marked
// wrongly; only the lowest mark counts.
func special(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	q := w ^ '"'*ones
	b := w ^ '\\'*ones
	return ((q-ones)&^q | (b-ones)&^b) & highs
}

// text reads the text whose opening quote comes next.
func (s *jsonScanner) text() ([]byte, error) {
	src, start := s.src, s.pos+1
	i := start
	for {
		if i+wordBytes <= len(src) {
			if m := special(binary.LittleEndian.Uint64(src[i:])); m == 0 {
				i += wordBytes
				continue
			} else {
				i += bits.TrailingZeros64(m) >> 3
			}
		} else {
			for i < len(src) && src[i] != '"' && src[i] != '\\' {
				i++
			}
			if i == len(src) {
				return nil, ErrHeaderJSON
			}
		}
		if src[i] == '"' {
			s.pos = i + 1
			return src[start:i:i], nil
		}
		return s.escapedText(start, i)
	}
}

// escapedText goes on from the first backslash, at i, of the text that starts at start.
func (s *jsonScanner) escapedText(start, i int) ([]byte, error) {
	src, out := s.src, s.out
	begin := s.use
	at := begin + copy(out[begin:], src[start:i])
	for {
		// src[i] is a backslash.
		if i+1 >= len(src) {
			return nil, ErrHeaderJSON
		}
		if c := src[i+1]; c != 'u' {
			c = unescape[c]
			if c == 0 {
				return nil, ErrHeaderJSON
			}
			out[at] = c
			at, i = at+1, i+2
		} else {
			r := hex4(src, i+2)
			if r < 0 {
				return nil, ErrHeaderJSON
			}
			i += 6
			if r < utf8.RuneSelf {
				out[at] = byte(r)
				at++
			} else {
				if r >= 0xD800 && r < 0xE000 {
					// Half a pair alone is U+FFFD, as everything that is not Unicode.
					low := rune(-1)
					if r < 0xDC00 && i+1 < len(src) && src[i] == '\\' && src[i+1] == 'u' {
						low = hex4(src, i+2)
					}
					if low >= 0xDC00 && low < 0xE000 {
						r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
						i += 6
					} else {
						r = utf8.RuneError
					}
				}
				at += utf8.EncodeRune(out[at:at+utf8.UTFMax], r)
			}
		}
		// Copy up to the next special byte, a word at a time.
		for i+wordBytes <= len(src) {
			w := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(out[at:], w)
			if m := special(w); m != 0 {
				n := bits.TrailingZeros64(m) >> 3
				at, i = at+n, i+n
				goto stop
			}
			at, i = at+wordBytes, i+wordBytes
		}
		for i < len(src) && src[i] != '"' && src[i] != '\\' {
			out[at] = src[i]
			at, i = at+1, i+1
		}
		if i == len(src) {
			return nil, ErrHeaderJSON
		}
	stop:
		if src[i] == '"' {
			s.pos, s.use = i+1, at
			return out[begin:at:at], nil
		}
	}
}

// unescape maps the character behind a backslash to what it stands for, 0 for none.
var unescape = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexValue is 1 + the value of a hex digit, 0 for other bytes.
var hexValue = [256]uint8{'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8, '8': 9, '9': 10,
	'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16, 'A': 11, 'B': 12, 'C': 13, 'D': 14, 'E': 15, 'F': 16}

// hex4 reads four hex digits at src[at:], -1 when they are not there.
func hex4(src []byte, at int) rune {
	if at+4 > len(src) {
		return -1
	}
	h := src[at : at+4]
	c, d := rune(hexValue[h[2]]), rune(hexValue[h[3]])
	a, b := rune(1), rune(1)
	if h[0] != '0' || h[1] != '0' { // what separates properties begins with zeros
		a, b = rune(hexValue[h[0]]), rune(hexValue[h[1]])
	}
	if a == 0 || b == 0 || c == 0 || d == 0 {
		return -1
	}
	return (a-1)<<12 | (b-1)<<8 | (c-1)<<4 | (d - 1)
}

// textValue reads a value as text: texts unescaped, numbers, booleans, lists and objects in their own spelling.
func (s *jsonScanner) textValue() (value []byte, null bool, err error) {
	if s.peek() == '"' {
		value, err = s.text()
		return value, false, err
	}
	start := s.pos
	if err = s.skipValue(); err != nil {
		return nil, false, err
	}
	value = s.src[start:s.pos:s.pos]
	if string(value) == "null" {
		return nil, true, nil
	}
	return value, false, nil
}

// int32Value reads a number, or a number in a text; null is 0.
func (s *jsonScanner) int32Value(dst *int32) error {
	// Nearly always a few digits without a sign come next.
	n, i := int32(0), s.pos
	for ; i < len(s.src) && i-s.pos < 9 && s.src[i]-'0' <= 9; i++ {
		n = n*10 + int32(s.src[i]-'0')
	}
	if i > s.pos && i < len(s.src) && (s.src[i] == ',' || s.src[i] == '}') {
		s.pos, *dst = i, n
		return nil
	}
	value, null, err := s.textValue()
	if err != nil {
		return err
	}
	*dst = 0
	if null {
		return nil
	}
	var ok bool
	if *dst, ok = parseInt32(value); !ok {
		return ErrHeaderNumber
	}
	return nil
}

// languageValue reads the name of a language, or its number.
func (s *jsonScanner) languageValue(dst *Language) error {
	isText := s.peek() == '"'
	value, null, err := s.textValue()
	switch {
	case err != nil:
		return err
	case null:
		*dst = LanguageUnknown
	case isText:
		*dst = languageOf(value)
	default:
		*dst = LanguageUnknown
		if n, ok := parseInt32(value); ok && n >= 0 && n < int32(len(languageNames)) {
			*dst = Language(n)
		}
	}
	return nil
}

// skipValue passes over one value. Lists and objects are only matched bracket by bracket.
func (s *jsonScanner) skipValue() error {
	var objects [JSONDepthMax/8 + 1]byte // a bit for each open bracket: set for objects
	for depth := 0; ; {
		switch c := s.peek(); c {
		case 0:
			return ErrHeaderJSON
		case '"':
			if err := s.skipText(); err != nil {
				return err
			}
		case '{', '[':
			if depth == JSONDepthMax {
				return ErrDepth
			}
			objects[depth>>3] &^= 1 << (depth & 7)
			if c == '{' {
				objects[depth>>3] |= 1 << (depth & 7)
			}
			depth++
			s.pos++
		case '}', ']':
			depth--
			if depth < 0 || (c == '}') != (objects[depth>>3]&(1<<(depth&7)) != 0) {
				return ErrHeaderJSON
			}
			s.pos++
		case ',', ':':
			if depth == 0 {
				return ErrHeaderJSON
			}
			s.pos++
			continue
		default:
			if !s.skipLiteral() {
				return ErrHeaderJSON
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// skipText passes over a text without unescaping it.
func (s *jsonScanner) skipText() error {
	src := s.src
	for i := s.pos + 1; i < len(src); i++ {
		switch src[i] {
		case '"':
			s.pos = i + 1
			return nil
		case '\\':
			i++
		}
	}
	return ErrHeaderJSON
}

// skipLiteral passes over a number, true, false or null.
func (s *jsonScanner) skipLiteral() bool {
	start := s.pos
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E':
			s.pos++
			continue
		}
		break
	}
	if s.pos == start {
		return false
	}
	if c := s.src[start]; c >= 'a' && c <= 'z' {
		switch string(s.src[start:s.pos]) {
		case "true", "false", "null":
		default:
			return false
		}
	}
	return true
}
