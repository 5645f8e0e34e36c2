package wire

import (
	"bytes"
	"reflect"
	"strconv"
)

// defaulter is a body type whose absent members are not zero in Java.
type defaulter interface{ setDefaults() }

// DecodeBody reads a JSON body into the struct that dst points to, in the dialect of StandardJSON and as tolerant as
// fastjson: members in any order, unknown ones ignored, numbers and booleans also as texts, texts also as numbers, null
// and absent members leave Java's default. Texts are copies. All errors match ErrBody. src is borrowed.
func DecodeBody(src []byte, dst any) error {
	standard, err := StandardJSON(src)
	if err != nil {
		return err
	}
	var r bodyReader
	var scratch []byte
	if bytes.IndexByte(standard, '\\') >= 0 {
		scratch = make([]byte, len(standard)+wordBytes)
	}
	r.scan.start(standard, scratch)
	return r.value(reflect.ValueOf(dst).Elem(), "body")
}

// bodyReader fills Go values from standard JSON.
type bodyReader struct {
	scan     jsonScanner
	types    map[reflect.Type][]bodyField
	elements int
}

// count takes one list item or map entry off the budget.
func (r *bodyReader) count() error {
	if r.elements++; r.elements > BodyElementsMax {
		return bodyError("more than %d elements", BodyElementsMax)
	}
	return nil
}

// value reads the next value into v; name tells errors where it belongs.
func (r *bodyReader) value(v reflect.Value, name string) error {
	c := r.scan.peek()
	switch {
	case v.Type() == rawMessageType:
		start := r.scan.pos
		if err := r.scan.skipValue(); err != nil {
			return bodyError("%s: %v", name, err)
		}
		v.SetBytes(bytes.Clone(r.scan.src[start:r.scan.pos]))
		return nil
	case c == 'n':
		return r.scan.skipValue()
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		if err := r.value(fresh.Elem(), name); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	case reflect.Struct:
		return r.object(v, name)
	case reflect.Map:
		return r.table(v, name)
	case reflect.Slice:
		return r.list(v, name)
	}
	if c == '{' || c == '[' {
		return bodyError("%s is not a plain value", name)
	}
	text, _, err := r.scan.textValue()
	if err != nil {
		return bodyError("%s: %v", name, err)
	}
	return setPlain(v, text, name)
}

// setPlain converts text to the kind of v.
func setPlain(v reflect.Value, text []byte, name string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(text))
	case reflect.Bool:
		v.SetBool(parseBool(text))
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := parseInt64(text)
		if !ok || v.OverflowInt(n) {
			return bodyError("%s is not an integer of its size: %.64q", name, text)
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return bodyError("%s is not a number: %.64q", name, text)
		}
		v.SetFloat(f)
	default:
		panic("BUG: wire: a body holds a " + v.Type().String())
	}
	return nil
}

func (r *bodyReader) object(v reflect.Value, name string) error {
	if d, ok := v.Addr().Interface().(defaulter); ok {
		d.setDefaults()
	}
	fields, known := r.types[v.Type()]
	if !known {
		if r.types == nil {
			r.types = make(map[reflect.Type][]bodyField)
		}
		fields = bodyFields(v.Type())
		r.types[v.Type()] = fields
	}
	if !r.scan.open('{') {
		return bodyError("%s is not an object", name)
	}
members:
	for first := true; ; first = false {
		key, more, err := r.scan.nextKey(first)
		if err != nil {
			return bodyError("%s: %v", name, err)
		}
		if !more {
			return nil
		}
		for i := range fields {
			if fields[i].name == string(key) {
				if err := r.value(v.Field(fields[i].index), fields[i].name); err != nil {
					return err
				}
				continue members
			}
		}
		if err := r.scan.skipValue(); err != nil {
			return bodyError("%s: %v", name, err)
		}
	}
}

func (r *bodyReader) table(v reflect.Value, name string) error {
	if !r.scan.open('{') {
		return bodyError("%s is not an object", name)
	}
	t := v.Type()
	table := reflect.MakeMap(t)
	for first := true; ; first = false {
		text, more, err := r.scan.nextKey(first)
		if err != nil {
			return bodyError("%s: %v", name, err)
		}
		if !more {
			v.Set(table)
			return nil
		}
		if err := r.count(); err != nil {
			return err
		}
		key := reflect.New(t.Key()).Elem()
		if err := setPlain(key, text, "a key of "+name); err != nil {
			return err
		}
		value := reflect.New(t.Elem()).Elem()
		if err := r.value(value, name); err != nil {
			return err
		}
		table.SetMapIndex(key, value)
	}
}

func (r *bodyReader) list(v reflect.Value, name string) error {
	if !r.scan.open('[') {
		return bodyError("%s is not a list", name)
	}
	list := reflect.MakeSlice(v.Type(), 0, 0)
	if r.scan.open(']') {
		v.Set(list)
		return nil
	}
	for {
		if err := r.count(); err != nil {
			return err
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := r.value(item, name); err != nil {
			return err
		}
		list = reflect.Append(list, item)
		switch {
		case r.scan.open(','):
		case r.scan.open(']'):
			v.Set(list)
			return nil
		default:
			return bodyError("%s: neither comma nor bracket", name)
		}
	}
}
