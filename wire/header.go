package wire

import (
	"reflect"
	"strconv"
	"strings"
)

// headerField is what a `wire` tag says about one field of a header struct.
type headerField struct {
	name      string
	index     int
	kind      reflect.Kind // of the field, or of what it points to
	pointer   bool
	required  bool
	omitEmpty bool
}

// headerFields reads the tags of struct type t. It runs once per cold request: the cost of about 100 ns a field is small
// against the rest of such a request, and there is no cache to share between goroutines.
func headerFields(t reflect.Type) []headerField {
	fields := make([]headerField, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("wire")
		if !ok {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		field := headerField{name: name, index: i, kind: f.Type.Kind()}
		if field.kind == reflect.Pointer {
			field.pointer, field.kind = true, f.Type.Elem().Kind()
		}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "":
			case "required":
				field.required = true
			case "omitempty":
				field.omitEmpty = true
			default:
				panic("BUG: wire: unknown option in the tag of " + t.Name() + "." + f.Name)
			}
		}
		fields = append(fields, field)
	}
	return fields
}

// DecodeHeader reads the ext fields of c into the struct that dst points to, by its tags `wire:"name"` or
// `wire:"name,required"`. Fields are strings, int32, int64, float64, bool, or pointers to these, which stay nil when the
// field is absent. Texts are copies. Unknown ext fields are ignored, an absent optional field leaves what dst holds, and
// so does an empty text for a number. The error is a *HeaderError. Mirrors RemotingCommand.decodeCommandCustomHeader.
func DecodeHeader(c *Command, dst any) error {
	v := reflect.ValueOf(dst).Elem()
	for _, f := range headerFields(v.Type()) {
		value, ok := c.GetExt(f.name)
		if !ok {
			if f.required {
				return fieldMissing(f.name)
			}
			continue
		}
		number := f.kind == reflect.Int32 || f.kind == reflect.Int64 || f.kind == reflect.Float64
		if number && len(value) == 0 && !f.required {
			continue
		}
		target := v.Field(f.index)
		if f.pointer {
			target.Set(reflect.New(target.Type().Elem()))
			target = target.Elem()
		}
		switch f.kind {
		case reflect.String:
			target.SetString(string(value))
		case reflect.Bool:
			target.SetBool(parseBool(value))
		case reflect.Int32:
			n, ok := parseInt32(value)
			if !ok {
				return fieldInvalid(f.name, ReasonInt32, value)
			}
			target.SetInt(int64(n))
		case reflect.Int64:
			n, ok := parseInt64(value)
			if !ok {
				return fieldInvalid(f.name, ReasonInt64, value)
			}
			target.SetInt(n)
		case reflect.Float64:
			n, err := strconv.ParseFloat(string(value), 64)
			if err != nil {
				return fieldInvalid(f.name, ReasonFloat, value)
			}
			target.SetFloat(n)
		default:
			panic("BUG: wire: header field " + f.name + " has a kind that ext fields cannot hold")
		}
	}
	return nil
}

// header writes the tagged fields of header, a struct or a pointer to one. Nil pointers are left out, and zero values of
// fields with the option omitempty.
func (w *frameWriter) header(header any) {
	v := reflect.Indirect(reflect.ValueOf(header))
	for _, f := range headerFields(v.Type()) {
		value := v.Field(f.index)
		if f.omitEmpty && value.IsZero() || f.pointer && value.IsNil() {
			continue
		}
		if f.pointer {
			value = value.Elem()
		}
		switch f.kind {
		case reflect.String:
			w.str(f.name, value.String())
		case reflect.Bool:
			w.boolean(f.name, value.Bool())
		case reflect.Int32, reflect.Int64:
			w.num(f.name, value.Int())
		case reflect.Float64:
			w.str(f.name, strconv.FormatFloat(value.Float(), 'f', -1, 64))
		default:
			panic("BUG: wire: header field " + f.name + " has a kind that ext fields cannot hold")
		}
	}
}
