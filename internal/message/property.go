package message

import (
	"bytes"
	"strings"
)

// Separators of the properties text: name 0x01 value 0x02 name 0x01 value 0x02 … (MessageDecoder.NAME_VALUE_SEPARATOR and
// PROPERTY_SEPARATOR). There is no escaping. The last 0x02 is optional: 5.x and Go write it, 4.9.4 does not.
const (
	NameValueSeparator = 0x01
	PropertySeparator  = 0x02
)

// PropertyIter walks the properties in a text, in stored order, as MessageDecoder.string2messageProperties reads them:
// an entry without separator, with an empty name or an empty value is passed over, the first 0x01 separates and later
// ones belong to the value. Duplicates are yielded one by one; the last one counts.
type PropertyIter struct{ rest []byte }

// Properties starts an iteration over text, which is borrowed for as long as the iterator or its slices are used.
func Properties(text []byte) PropertyIter { return PropertyIter{rest: text} }

// NextEntry yields the next entry as it stands, without the 0x02 at its end, be it a property or not. It aliases the text.
//
// hot: 0 allocs.
func (it *PropertyIter) NextEntry() (entry []byte, ok bool) {
	entry = it.rest
	if len(entry) == 0 {
		return nil, false
	}
	if end := bytes.IndexByte(entry, PropertySeparator); end >= 0 {
		entry, it.rest = entry[:end:end], entry[end+1:]
	} else {
		it.rest = nil
	}
	return entry, true
}

// ValueIn is the value in an entry of NextEntry if that is a property called name. Who looks for some names only needs no search for the
// end of all the others.
//
// hot: 0 allocs.
func ValueIn(entry []byte, name string) (value []byte, ok bool) {
	n := len(name)
	if n == 0 || len(entry) <= n+1 || entry[n] != NameValueSeparator || string(entry[:n]) != name {
		return nil, false
	}
	if strings.IndexByte(name, NameValueSeparator) >= 0 {
		return nil, false // no property's name, though the entry begins with it
	}
	return entry[n+1:], true
}

// Next yields the next property; both slices alias the text.
//
// hot: 0 allocs.
func (it *PropertyIter) Next() (name, value []byte, ok bool) {
	for {
		entry, more := it.NextEntry()
		if !more {
			return nil, nil, false
		}
		if at := bytes.IndexByte(entry, NameValueSeparator); at > 0 && at+1 < len(entry) {
			return entry[:at:at], entry[at+1:], true
		}
	}
}

// GetProperty is the value of the last property called name; it aliases text. ok is false when there is none; a found
// value is never empty.
//
// hot: 0 allocs.
func GetProperty(text []byte, name string) (value []byte, ok bool) {
	for it := Properties(text); ; {
		entry, more := it.NextEntry()
		if !more {
			return value, ok
		}
		if v, is := ValueIn(entry, name); is {
			value, ok = v, true
		}
	}
}

// AppendProperty appends one property with both separators to dst. An empty value is written but no reader returns it.
//
// hot: 0 allocs when dst has room.
func AppendProperty[N, V ~string | ~[]byte](dst []byte, name N, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, NameValueSeparator)
	dst = append(dst, value...)
	return append(dst, PropertySeparator)
}

// NormalizeProperties appends to dst what is left of text after string2messageProperties and messageProperties2String of
// 5.x: malformed entries gone, one entry a name with the last value, each ended by 0x02. Names stand where they occurred
// first; Java's own order is that of a hash map. dst must not overlap text.
//
// hot: 0 allocs when dst has room and text has up to smallPropertyCount entries.
func NormalizeProperties(dst, text []byte) []byte {
	return AppendPropertiesWithout(dst, text)
}

// AppendPropertiesWithout is NormalizeProperties that leaves out the named properties as well. Setting a property is
// leaving it out and then calling AppendProperty.
//
// hot: as NormalizeProperties.
func AppendPropertiesWithout(dst, text []byte, drop ...string) []byte {
	type property struct{ name, value []byte }
	var small [smallPropertyCount]property
	kept := small[:0]
	var index map[string]int // nil until the small array is full
	it := Properties(text)
next:
	for {
		name, value, ok := it.Next()
		if !ok {
			break
		}
		for _, d := range drop {
			if string(name) == d {
				continue next
			}
		}
		if index == nil {
			for i := range kept {
				if bytes.Equal(kept[i].name, name) {
					kept[i].value = value
					continue next
				}
			}
			if len(kept) == len(small) {
				index = make(map[string]int, 2*len(small))
				for i := range kept {
					index[string(kept[i].name)] = i
				}
			}
		}
		if index != nil {
			if i, found := index[string(name)]; found {
				kept[i].value = value
				continue
			}
			index[string(name)] = len(kept)
		}
		kept = append(kept, property{name, value})
	}
	for i := range kept {
		dst = AppendProperty(dst, kept[i].name, kept[i].value)
	}
	return dst
}
