package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// AppendBody appends v as the JSON text of a body to dst: compact, members in the order of the struct (which is
// alphabetical in this package, as Java writes it), map entries sorted, nil pointers and empty fields with the option
// omitempty left out, nil lists and maps as [] and {}. Integer keys of maps are quoted. v consists of structs with `json`
// tags, maps with string or integer keys, slices, strings, numbers, booleans and json.RawMessage.
func AppendBody(dst []byte, v any) []byte {
	w := bodyWriter{dst: dst}
	w.value(reflect.ValueOf(v))
	return w.dst
}

// EncodeBody is AppendBody into new memory.
func EncodeBody(v any) []byte { return AppendBody(nil, v) }

var rawMessageType = reflect.TypeFor[json.RawMessage]()

// bodyField is what a `json` tag says about one field of a body.
type bodyField struct {
	name      string
	index     int
	omitEmpty bool
}

func bodyFields(t reflect.Type) []bodyField {
	fields := make([]bodyField, 0, t.NumField())
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("json")
		if !ok || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		fields = append(fields, bodyField{name: name, index: i, omitEmpty: options == "omitempty"})
	}
	return fields
}

type bodyWriter struct {
	dst   []byte
	types map[reflect.Type][]bodyField
}

func (w *bodyWriter) fields(t reflect.Type) []bodyField {
	fields, ok := w.types[t]
	if !ok {
		if w.types == nil {
			w.types = make(map[reflect.Type][]bodyField)
		}
		fields = bodyFields(t)
		w.types[t] = fields
	}
	return fields
}

func (w *bodyWriter) value(v reflect.Value) {
	if v.Type() == rawMessageType {
		w.dst = append(w.dst, v.Bytes()...)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			w.dst = append(w.dst, "null"...)
			return
		}
		w.value(v.Elem())
	case reflect.Struct:
		w.object(v)
	case reflect.Map:
		w.table(v)
	case reflect.Slice:
		w.dst = append(w.dst, '[')
		for i := range v.Len() {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.value(v.Index(i))
		}
		w.dst = append(w.dst, ']')
	case reflect.String:
		w.text(v.String())
	case reflect.Bool:
		w.dst = strconv.AppendBool(w.dst, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.dst = strconv.AppendInt(w.dst, v.Int(), 10)
	case reflect.Float64:
		w.float(v.Float())
	default:
		panic("BUG: wire: a body holds a " + v.Type().String())
	}
}

func (w *bodyWriter) text(s string) {
	w.dst = append(w.dst, '"')
	w.dst = append(appendEscaped(w.dst, s), '"')
}

// float writes as Double.toString does for ordinary values: with a fraction always. Values without a JSON form are null.
func (w *bodyWriter) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.dst = append(w.dst, "null"...)
		return
	}
	at := len(w.dst)
	w.dst = strconv.AppendFloat(w.dst, f, 'f', -1, 64)
	if bytes.IndexByte(w.dst[at:], '.') < 0 {
		w.dst = append(w.dst, '.', '0')
	}
}

func (w *bodyWriter) object(v reflect.Value) {
	w.dst = append(w.dst, '{')
	first := true
	for _, f := range w.fields(v.Type()) {
		field := v.Field(f.index)
		switch field.Kind() {
		case reflect.Pointer:
			if field.IsNil() {
				continue
			}
		case reflect.Slice, reflect.Map, reflect.String:
			if field.Len() == 0 && (f.omitEmpty || field.Type() == rawMessageType) {
				continue
			}
		default:
			if f.omitEmpty && field.IsZero() {
				continue
			}
		}
		if !first {
			w.dst = append(w.dst, ',')
		}
		first = false
		w.text(f.name)
		w.dst = append(w.dst, ':')
		w.value(field)
	}
	w.dst = append(w.dst, '}')
}

// table writes a map, its entries sorted by key: texts by bytes, numbers by value. A MessageQueue is a key as the object it is.
func (w *bodyWriter) table(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		switch a.Kind() {
		case reflect.String:
			return strings.Compare(a.String(), b.String())
		case reflect.Struct:
			x, y := a.Interface().(MessageQueue), b.Interface().(MessageQueue)
			return cmp.Or(strings.Compare(x.Topic, y.Topic), strings.Compare(x.BrokerName, y.BrokerName), cmp.Compare(x.QueueID, y.QueueID))
		}
		switch x, y := a.Int(), b.Int(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	w.dst = append(w.dst, '{')
	for i, key := range keys {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		switch key.Kind() {
		case reflect.String:
			w.text(key.String())
		case reflect.Struct:
			w.object(key) // no standard JSON, but the only form that 5.5.0 clients read
		default:
			w.text(strconv.FormatInt(key.Int(), 10))
		}
		w.dst = append(w.dst, ':')
		w.value(v.MapIndex(key))
	}
	w.dst = append(w.dst, '}')
}
