package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Key describes one key of broker.conf; see the package comment for the fields.
type Key struct {
	Name      string
	Type      string // "text", "number", "yes/no"
	Default   string
	Unit      string
	Least     int64 // of numbers
	Most      int64
	Clamped   bool     // a number outside is moved to Least or Most
	Values    []string // of texts; nil = any
	Only      []string // the values served; nil = all
	Why       string   // why not the others
	Pending   string   // what is not built yet
	Reload    bool
	Important bool
	Doc       string

	index []int // of the field in Config
}

// whyNot holds the sentences behind the why tags.
func whyNot(tag string) string {
	switch tag {
	case "access":
		return "access control is not built yet: everybody could read and write"
	case "controller":
		return "the controller is not built yet: no other broker would take over"
	case "replication":
		return "replication is not built yet: no second copy would be kept"
	case "escape":
		return "writing to another broker is not built: messages would not be saved there"
	case "rocksdb":
		return "RocksDB is not supported: data would be looked for in the wrong place"
	case "namesrv":
		return "registration with external name servers is not built yet: clients would not find this broker"
	case "tls":
		return "TLS is not built yet: connections would not be encrypted"
	case "directories":
		return "a log over several directories is not built yet"
	case "plugin":
		return "store plug-ins are Java classes and cannot be loaded"
	case "pool":
		return "the off-heap pool is not built: messages go to the mapped file at once"
	case "propcrc":
		return "the CRC over properties is not built yet: records would be stored and read without it"
	case "duplication":
		return "external replication is not supported"
	case "dledger":
		return "DLedger is not supported: no second copy would be kept"
	case "lmq":
		return "light message queues are not built: messages would be missing in them"
	}
	return ""
}

// Keys returns all keys that have a field, in the order of the fields.
func Keys() []Key {
	var keys []Key
	collectKeys(reflect.TypeFor[Config](), nil, &keys)
	return keys
}

func collectKeys(t reflect.Type, at []int, keys *[]Key) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(at[:len(at):len(at)], i)
		if f.Anonymous {
			collectKeys(f.Type, index, keys)
		} else if name, ok := f.Tag.Lookup("key"); ok {
			*keys = append(*keys, keyOf(name, f, index))
		}
	}
}

// keyOf reads the tags. A tag that makes no sense is a mistake in this package; TestTagsMakeSense finds it.
func keyOf(name string, f reflect.StructField, index []int) Key {
	k := Key{
		Name: name, Default: f.Tag.Get("default"), Unit: f.Tag.Get("unit"), Why: whyNot(f.Tag.Get("why")),
		Pending: f.Tag.Get("pending"), Reload: f.Tag.Get("reload") == "yes", Important: f.Tag.Get("important") == "yes",
		Doc: f.Tag.Get("doc"), index: index,
	}
	if values, ok := f.Tag.Lookup("values"); ok {
		k.Values = strings.Split(values, "|")
	}
	if only, ok := f.Tag.Lookup("only"); ok {
		k.Only = strings.Split(only, "|")
	}
	switch f.Type.Kind() {
	case reflect.Bool:
		k.Type = "yes/no"
	case reflect.Int, reflect.Int64:
		k.Type = "number"
		limits, ok := f.Tag.Lookup("range")
		if !ok {
			limits, k.Clamped = f.Tag.Lookup("clamp")
		}
		k.Least, k.Most = parseLimits(limits, f.Type.Kind())
	default:
		k.Type = "text"
	}
	return k
}

func parseLimits(text string, kind reflect.Kind) (least, most int64) {
	low, high, _ := strings.Cut(text, "..")
	least, _ = strconv.ParseInt(low, 10, 64)
	most = math.MaxInt64
	if kind == reflect.Int {
		most = math.MaxInt32 // a Java int; also what keeps int the same on all machines
	}
	if high != "" {
		most, _ = strconv.ParseInt(high, 10, 64)
	}
	return least, most
}

// Expect says in words which values the key takes.
func (k Key) Expect() string {
	switch {
	case k.Type == "yes/no":
		return "true or false"
	case k.Type == "number":
		text := fmt.Sprintf("a whole number from %d to %d", k.Least, k.Most)
		if k.Most == math.MaxInt64 {
			text = fmt.Sprintf("a whole number, at least %d", k.Least)
		}
		if k.Unit != "" {
			text += " (" + k.Unit + ")"
		}
		return text
	case k.Values != nil:
		return "one of " + strings.Join(k.Values, ", ")
	}
	return "a text"
}

// parse reads a value, trimmed already. warning is "" or what a user should know about it.
func (k Key) parse(text string) (value any, warning string, err error) {
	switch k.Type {
	case "yes/no":
		if strings.EqualFold(text, "true") {
			return true, "", nil
		}
		if !strings.EqualFold(text, "false") {
			warning = "only true means true, so this is false"
		}
		return false, warning, nil
	case "number":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("expected %s", k.Expect())
		}
		if k.Clamped && (n < k.Least || n > k.Most) {
			moved := min(max(n, k.Least), k.Most)
			return moved, fmt.Sprintf("taken as %d: %d to %d is possible", moved, k.Least, k.Most), nil
		}
		if n < k.Least || n > k.Most {
			return nil, "", fmt.Errorf("expected %s", k.Expect())
		}
		return n, "", nil
	}
	if k.Values != nil && !contains(k.Values, text) {
		return nil, "", fmt.Errorf("expected %s", k.Expect())
	}
	return text, "", nil
}

func contains(list []string, text string) bool {
	for _, v := range list {
		if v == text {
			return true
		}
	}
	return false
}

// set stores a parsed value; text is how get would show it.
func (k Key) set(c *Config, value any) {
	field := reflect.ValueOf(c).Elem().FieldByIndex(k.index)
	switch v := value.(type) {
	case bool:
		field.SetBool(v)
	case int64:
		field.SetInt(v)
	case string:
		field.SetString(v)
	}
}

// copyTo sets the key in c to its value in from.
func (k Key) copyTo(c, from *Config) {
	reflect.ValueOf(c).Elem().FieldByIndex(k.index).Set(reflect.ValueOf(from).Elem().FieldByIndex(k.index))
}

// Get returns the value of the key in c as it would be written into broker.conf.
func (k Key) Get(c *Config) string {
	return fmt.Sprint(reflect.ValueOf(c).Elem().FieldByIndex(k.index).Interface())
}
