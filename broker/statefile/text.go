package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"peregrine/wire"
)

// Extra holds the members of a JSON object that this version has no field for, so that a file of a newer broker keeps them.
type Extra map[string]json.RawMessage

// Unknown returns the members of the object raw whose names are not JSON fields of the struct type of known (a struct or a
// pointer to one); nil when there are none or raw is no object.
func Unknown(raw json.RawMessage, known any) Extra {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, name := range fieldNames(known) {
		delete(all, name)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Merge returns the JSON object text of v with the members of extra added, keys in alphabetical order as the original
// writes them. v wins where both have a member.
func Merge(v any, extra Extra) json.RawMessage {
	text := json.RawMessage(wire.EncodeBody(v))
	if len(extra) == 0 {
		return text
	}
	all := maps.Clone(map[string]json.RawMessage(extra))
	var own map[string]json.RawMessage
	if err := json.Unmarshal(text, &own); err != nil {
		panic(fmt.Sprintf("BUG: %T is no JSON object: %v", v, err))
	}
	maps.Copy(all, own)
	return wire.EncodeBody(all) // map entries come sorted
}

// Standard returns the content of a file as standard JSON. Files of peregrine are that already, of any size; those of the
// original have bare integer keys and are converted within wire.StandardJSONBytesMax.
func Standard(data []byte) (json.RawMessage, error) {
	if json.Valid(data) && !bytes.Contains(data, []byte(`"$ref"`)) {
		return data, nil
	}
	return wire.StandardJSON(data)
}

func fieldNames(v any) []string {
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name != "":
			names = append(names, name)
		case field.Anonymous:
			names = append(names, fieldNames(reflect.New(field.Type).Interface())...)
		default:
			names = append(names, field.Name)
		}
	}
	return names
}

// AppendPretty appends compact JSON text in the layout of the original's files: one member a line, indented by tabs, no
// blank behind a colon, empty objects and lists on one line (fastjson2's PrettyFormat, 5.5.0). src must be valid JSON.
func AppendPretty(dst, src []byte) []byte { return AppendPrettyAt(dst, src, 0) }

// AppendPrettyAt is AppendPretty for a value that lies depth objects deep in a file.
func AppendPrettyAt(dst, src []byte, depth int) []byte {
	dst = slices.Grow(dst, len(src)*2)
	inText := false
	for i := 0; i < len(src); i++ {
		c := src[i]
		if inText {
			dst = append(dst, c)
			switch c {
			case '\\':
				i++
				dst = append(dst, src[i])
			case '"':
				inText = false
			}
			continue
		}
		switch c {
		case ' ', '\t', '\n', '\r':
		case '"':
			inText = true
			dst = append(dst, c)
		case '{', '[':
			dst = append(dst, c)
			if rest := bytes.TrimLeft(src[i+1:], " \t\r\n"); len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') {
				dst = append(dst, rest[0])
				i = len(src) - len(rest)
				continue
			}
			depth++
			dst = appendLine(dst, depth)
		case '}', ']':
			depth--
			dst = appendLine(dst, depth)
			dst = append(dst, c)
		case ',':
			dst = append(dst, c)
			dst = appendLine(dst, depth)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func appendLine(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, '\t')
	}
	return dst
}
