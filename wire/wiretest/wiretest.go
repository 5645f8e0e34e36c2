// Package wiretest helps tests to compare answers with frames that the real servers sent: code, names of the ext fields,
// and the names in the body. Values differ between runs. Only tests import it.
package wiretest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"peregrine/wire"
)

// Exchange is a captured request and the real server's answer to it; Response is nil for a one-way request.
type Exchange struct {
	Client            string // which program was captured
	Code              int32
	Request, Response []byte // whole frames, with their length words
}

// Load reads a file with one exchange a line.
func Load(path string) ([]Exchange, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Exchange
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var line struct {
			Client, Request, Response string
			Code                      int32
		}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return nil, err
		}
		e := Exchange{Client: line.Client, Code: line.Code}
		if e.Request, err = hex.DecodeString(line.Request); err != nil {
			return nil, err
		}
		if line.Response != "" {
			if e.Response, err = hex.DecodeString(line.Response); err != nil {
				return nil, err
			}
		}
		list = append(list, e)
	}
	return list, scan.Err()
}

// Decode reads a whole frame. The result aliases it.
func Decode(frame []byte) (*wire.Command, error) {
	var d wire.Decoder
	c := new(wire.Command)
	if len(frame) < 4 {
		return nil, fmt.Errorf("a frame of %d bytes", len(frame))
	}
	return c, d.Decode(frame[4:], c)
}

// Shape describes an answer: code, sorted names of its ext fields, names in its JSON body. Objects named in tables have
// entries of any name; their shape is that of one entry.
func Shape(c *wire.Command, tables ...string) string {
	var ext []string
	for it := c.Ext(); ; {
		key, _, ok := it.Next()
		if !ok {
			break
		}
		ext = append(ext, string(key))
	}
	slices.Sort(ext)
	body := "none"
	if len(c.Body) > 0 {
		body = "text"
		if standard, err := wire.StandardJSON(c.Body); err == nil {
			var v any
			if json.Unmarshal(standard, &v) == nil {
				var b bytes.Buffer
				shape(&b, v, "", tables)
				body = b.String()
			}
		}
	}
	return fmt.Sprintf("code %d, ext %s, body %s", c.Code, strings.Join(ext, " "), body)
}

func shape(b *bytes.Buffer, v any, name string, tables []string) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if slices.Contains(tables, name) {
			// Objects as keys became texts that hold them; their names are part of the shape.
			b.WriteString("table of ")
			if len(keys) == 0 {
				b.WriteString("nothing")
				return
			}
			var key any
			if strings.HasPrefix(keys[0], "{") && json.Unmarshal([]byte(keys[0]), &key) == nil {
				shape(b, key, "", tables)
				b.WriteString(": ")
			}
			shape(b, v[keys[0]], "", tables)
			return
		}
		b.WriteByte('{')
		for _, key := range keys {
			fmt.Fprintf(b, "%s ", key)
			shape(b, v[key], key, tables)
			b.WriteByte(' ')
		}
		b.WriteByte('}')
	case []any:
		// Lists of plain values are often empty; what matters is what objects in a list are made of.
		b.WriteByte('[')
		if len(v) > 0 {
			if _, object := v[0].(map[string]any); object {
				shape(b, v[0], "", tables)
			}
		}
		b.WriteByte(']')
	case string:
		b.WriteString("text")
	case float64:
		b.WriteString("number")
	case bool:
		b.WriteString("boolean")
	default:
		b.WriteString("null")
	}
}
