package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ErrBody is what every error about an unreadable body matches with errors.Is. The connection stays usable.
var ErrBody = errors.New("wire: malformed body")

func bodyError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBody}, args...)...)
}

// StandardJSON turns JSON as Java programs write it with fastjson into standard JSON without white space:
//   - integer keys without quotes become texts: {0:"a"} → {"0":"a"}
//   - object keys become texts that hold the object: {{"queueId":0}:1} → {"{\"queueId\":0}":1}
//   - {"$ref":"$.a.b[0]"} becomes a copy of what it points to
//   - the member @type of an object is dropped
//
// Standard JSON comes out as it is, white space aside. Depth, size and work are bounded (limits.go); a reference to
// something that contains it is an error. All errors match ErrBody. src is borrowed, the result is new memory.
func StandardJSON(src []byte) ([]byte, error) {
	s := standardizer{src: src, out: make([]byte, 0, len(src)+len(src)/8), outMax: max(2*len(src), StandardJSONBytesMax)}
	if err := s.value(0); err != nil {
		return nil, err
	}
	if s.peek() != 0 {
		return nil, s.fail("text behind the value")
	}
	return s.out, nil
}

// standardizer copies a body to out, value by value.
type standardizer struct {
	src     []byte
	pos     int
	out     []byte
	outMax  int
	inKey   bool // inside an object key; those do not nest, as their escapes would double at each level
	scanned int  // bytes looked at to resolve references
}

func (s *standardizer) fail(what string) error { return bodyError("%s at byte %d", what, s.pos) }

// peek skips white space and shows the next byte, 0 at the end.
func (s *standardizer) peek() byte {
	for ; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		case 0:
			return 1 // not the end, and nothing that may come here
		default:
			return c
		}
	}
	return 0
}

// value copies the value that comes next.
func (s *standardizer) value(depth int) error {
	if len(s.out) > s.outMax {
		return s.fail("the body grows too large")
	}
	if depth > JSONDepthMax {
		return s.fail("nested too deeply, or a reference to what contains it")
	}
	switch c := s.peek(); c {
	case '{':
		return s.object(depth)
	case '[':
		s.pos++
		s.out = append(s.out, '[')
		if s.peek() == ']' {
			s.pos++
			s.out = append(s.out, ']')
			return nil
		}
		for {
			if err := s.value(depth + 1); err != nil {
				return err
			}
			switch s.peek() {
			case ',':
				s.pos++
				s.out = append(s.out, ',')
			case ']':
				s.pos++
				s.out = append(s.out, ']')
				return nil
			default:
				return s.fail("neither comma nor bracket")
			}
		}
	case '"':
		return s.text()
	default:
		return s.literal()
	}
}

// object copies the object whose brace comes next.
func (s *standardizer) object(depth int) error {
	begin := s.pos
	s.pos++
	s.out = append(s.out, '{')
	if s.peek() == '}' {
		s.pos++
		s.out = append(s.out, '}')
		return nil
	}
	for empty := true; ; {
		mark := len(s.out)
		if !empty {
			s.out = append(s.out, ',')
		}
		keyAt := len(s.out)
		if err := s.key(depth); err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.fail("no colon behind a key")
		}
		s.pos++
		s.out = append(s.out, ':')
		switch key := string(s.out[keyAt : len(s.out)-1]); {
		case key == `"$ref"` && empty && s.peek() == '"':
			s.out = s.out[:mark-1]
			return s.reference(begin, depth)
		case key == `"@type"`:
			if err := s.value(depth + 1); err != nil {
				return err
			}
			s.out = s.out[:mark]
		default:
			if err := s.value(depth + 1); err != nil {
				return err
			}
			empty = false
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.out = append(s.out, '}')
			return nil
		default:
			return s.fail("neither comma nor brace")
		}
	}
}

// key copies a key as a text.
func (s *standardizer) key(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '{':
		if s.inKey {
			return s.fail("an object key inside an object key")
		}
		at := len(s.out)
		s.inKey = true
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.inKey = false
		object := bytes.Clone(s.out[at:])
		s.out = append(s.out[:at], '"')
		s.out = append(appendEscaped(s.out, object), '"')
		return nil
	case c == '-' || c >= '0' && c <= '9':
		start := s.pos
		for s.pos++; s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9'; s.pos++ {
		}
		if s.src[s.pos-1] == '-' {
			return s.fail("a key that is no number")
		}
		s.out = append(s.out, '"')
		s.out = append(s.out, s.src[start:s.pos]...)
		s.out = append(s.out, '"')
		return nil
	}
	return s.fail("a key that is neither text nor number nor object")
}

// text copies a text. Its escapes are checked, raw control characters become escapes.
func (s *standardizer) text() error {
	src := s.src
	s.out = append(s.out, '"')
	start := s.pos + 1
	for i := start; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"':
			s.out = append(s.out, src[start:i]...)
			s.out = append(s.out, '"')
			s.pos = i + 1
			return nil
		case c == '\\':
			i++
			if i >= len(src) || src[i] != 'u' && unescape[src[i]] == 0 || src[i] == 'u' && hex4(src, i+1) < 0 {
				return s.fail("a wrong escape in a text")
			}
		case c < 0x20:
			s.out = append(s.out, src[start:i]...)
			s.out = append(s.out, '\\', 'u', '0', '0', hexLower[c>>4], hexLower[c&15])
			start = i + 1
		}
	}
	return s.fail("a text without end")
}

// literal copies a number, true, false or null.
func (s *standardizer) literal() error {
	scan := jsonScanner{src: s.src, pos: s.pos}
	if !scan.skipLiteral() {
		return s.fail("no value")
	}
	word := s.src[s.pos:scan.pos]
	if c := word[0]; (c < 'a' || c > 'z') && !json.Valid(word) {
		return s.fail("a wrong number")
	}
	s.out = append(s.out, word...)
	s.pos = scan.pos
	return nil
}

// reference copies what the path in the text that comes next points to. begin is where the object around it starts.
func (s *standardizer) reference(begin, depth int) error {
	at := len(s.out)
	if err := s.text(); err != nil {
		return err
	}
	path := unquote(s.out[at:])
	s.out = s.out[:at]
	if s.peek() != '}' {
		return s.fail("a reference with more members")
	}
	s.pos++
	behind := s.pos
	target, ok := s.find(path)
	if !ok || target == begin {
		return s.fail("a reference to nothing, to itself or too many of them")
	}
	s.pos = target
	if err := s.value(depth + 1); err != nil {
		return err
	}
	s.pos = behind
	return nil
}

// unquote is the content of a JSON text.
func unquote(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	scan := jsonScanner{src: text, out: make([]byte, len(text)+wordBytes)}
	content, err := scan.text()
	if err != nil {
		return ""
	}
	return string(content)
}

// find walks a path of fastjson ("$", "$.name.name[2]", names with backslashes before special characters, also
// ["name"]) and gives the position of its target.
func (s *standardizer) find(path string) (position int, ok bool) {
	if path == "" || path[0] != '$' {
		return 0, false // ".." and "@" only ever point to something around the reference
	}
	scan := jsonScanner{src: s.src}
	for path = path[1:]; path != ""; {
		name, index, rest, ok := pathStep(path)
		if !ok || !s.enter(&scan, name, index) {
			return 0, false
		}
		path = rest
	}
	scan.peek()
	return scan.pos, true
}

// pathStep cuts the first step off a path: a name, or an index when name is empty.
func pathStep(path string) (name string, index int, rest string, ok bool) {
	if path[0] == '.' {
		var b []byte
		i := 1
		for ; i < len(path) && path[i] != '.' && path[i] != '['; i++ {
			if path[i] == '\\' && i+1 < len(path) {
				i++
			}
			b = append(b, path[i])
		}
		return string(b), -1, path[i:], len(b) > 0
	}
	end := bytes.IndexByte([]byte(path), ']')
	if path[0] != '[' || end < 2 {
		return "", 0, "", false
	}
	inside := path[1:end]
	if c := inside[0]; (c == '"' || c == '\'') && len(inside) > 2 && inside[len(inside)-1] == c {
		return inside[1 : len(inside)-1], -1, path[end+1:], true
	}
	index, err := strconv.Atoi(inside)
	return "", index, path[end+1:], err == nil && index >= 0
}

// enter moves scan, which stands before an object or a list, to the member called name, or to the item at index.
func (s *standardizer) enter(scan *jsonScanner, name string, index int) bool {
	open, shut := byte('{'), byte('}')
	if index >= 0 {
		open, shut = '[', ']'
	}
	if !scan.open(open) {
		return false
	}
	for i := 0; ; i++ {
		before := scan.pos
		if scan.peek() == shut {
			return false
		}
		if index < 0 {
			keyAt := scan.pos
			if scan.skipValue() != nil {
				return false
			}
			key := s.src[keyAt:scan.pos]
			if !scan.open(':') {
				return false
			}
			if key[0] == '"' && unquote(key) == name || string(key) == name {
				return true
			}
		} else if i == index {
			return true
		}
		if scan.skipValue() != nil {
			return false
		}
		if !scan.open(',') {
			return false
		}
		if s.scanned += scan.pos - before; s.scanned > RefScanBytesMax {
			return false
		}
	}
}

// AppendBareIntKeys copies compact standard JSON to dst and takes the quotes off all object keys that are integers, as
// Java writes them. Only name server routes for clients below VersionStandardJSON want this. src is borrowed.
func AppendBareIntKeys(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		quote := bytes.IndexByte(src[i:], '"')
		if quote < 0 {
			return append(dst, src[i:]...)
		}
		start := i + quote
		dst = append(dst, src[i:start]...)
		scan := jsonScanner{src: src, pos: start}
		if scan.skipText() != nil {
			return append(dst, src[start:]...)
		}
		i = scan.pos
		inside := src[start+1 : i-1]
		if _, isInt := parseInt64(inside); isInt && inside[0] != '+' && i < len(src) && src[i] == ':' {
			dst = append(dst, inside...)
		} else {
			dst = append(dst, src[start:i]...)
		}
	}
	return dst
}
