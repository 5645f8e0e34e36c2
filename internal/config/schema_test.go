package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func readAll(path string) ([]byte, error) { return os.ReadFile(path) }

func TestTagsMakeSense(t *testing.T) {
	known := []string{"key", "default", "unit", "range", "clamp", "values", "only", "why", "pending", "reload", "important", "doc"}
	tagNames := regexp.MustCompile(`(\w+):"`)
	seen := map[string]bool{}
	for _, k := range Keys() {
		f := reflect.TypeFor[Config]().FieldByIndex(k.index)
		if seen[k.Name] || seen[f.Name] {
			t.Errorf("%s is there twice", k.Name)
		}
		seen[k.Name], seen[f.Name] = true, true
		own := strings.TrimPrefix(k.Name, "peregrine.")
		if want := string(unicode.ToUpper(rune(own[0]))) + own[1:]; f.Name != want && !strings.EqualFold(f.Name, want) {
			t.Errorf("%s is in the field %s", k.Name, f.Name)
		}
		for _, tag := range tagNames.FindAllStringSubmatch(string(f.Tag), -1) {
			if !slices.Contains(known, tag[1]) {
				t.Errorf("%s: unknown tag %s", k.Name, tag[1])
			}
		}
		if _, warning, err := k.parse(k.Default); err != nil || warning != "" {
			t.Errorf("%s: default %q: %v %s", k.Name, k.Default, err, warning)
		}
		for _, only := range k.Only {
			if _, _, err := k.parse(only); err != nil {
				t.Errorf("%s: only %q: %v", k.Name, only, err)
			}
		}
		if (k.Only != nil) != (k.Why != "") {
			t.Errorf("%s: only without why or the other way round", k.Name)
		}
		if k.Doc == "" || strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: doc %q", k.Name, k.Doc)
		}
		_, ranged := f.Tag.Lookup("range")
		_, clamped := f.Tag.Lookup("clamp")
		if number := k.Type == "number"; number != (ranged != clamped) || number && k.Least >= k.Most {
			t.Errorf("%s: range of a %s", k.Name, k.Type)
		}
	}
	for _, k := range knownKeys() {
		if seen[k.name] {
			t.Errorf("%s is a field and without effect, or without effect twice", k.name)
		}
		seen[k.name] = true
		if k.reason == "" {
			t.Errorf("%s without a reason", k.name)
		}
	}
	for _, a := range aliases {
		if seen[a.from] || !seen[a.to] || a.note == "" {
			t.Errorf("alias %s of %s", a.from, a.to)
		}
	}
	if len(seen) < 500 {
		t.Error("only", len(seen), "keys")
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"ab", "abc", 1}, {"listnport", "listenport", 1}, {"abc", "xyz", 3},
		{"a", "abcdef", 3}, {strings.Repeat("x", 5000), "x", 3}} {
		if got := editDistance(c.a, c.b, 3); got != c.want {
			t.Errorf("%.20q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

const (
	tableBegin = "<!-- keys: written by go test ./internal/config -update -->\n"
	tableEnd   = "<!-- end of keys -->\n"
)

// The table in OPERATIONS.md stands between two marks and is rendered by Table.
func TestOperationsHasTheTableOfKeys(t *testing.T) {
	const path = "../../OPERATIONS.md"
	data, err := os.ReadFile(path)
	if err != nil {
		if !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return // not written yet
	}
	before, rest, found := strings.Cut(string(data), tableBegin)
	old, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatalf("%s lacks the marks\n%s%s", path, tableBegin, tableEnd)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+tableBegin+Table()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != Table() {
		t.Errorf("the table of keys in %s is old: go test ./internal/config -update writes it", path)
	}
}

func TestTableHasARowForEachKey(t *testing.T) {
	rows := strings.Split(strings.TrimSuffix(Table(), "\n"), "\n")
	if len(rows) != 2+len(Keys()) {
		t.Errorf("%d rows", len(rows))
	}
	unescaped := regexp.MustCompile(`[^\\]\|`)
	for _, row := range rows[2:] {
		if n := len(unescaped.FindAllString(row, -1)); n != 5 {
			t.Errorf("%d cells: %s", n, row)
		}
	}
	for _, want := range []string{
		"| `listenPort` | `10911` | 0 to 65535 |  | port for everything;",
		"| `flushIntervalCommitLog` | `500` | 1 to 3600000 (ms) | yes |",
		"| `brokerRole` | `ASYNC_MASTER` | only ASYNC_MASTER |",
		"| `flushDiskType` | `ASYNC_FLUSH` | ASYNC_FLUSH, SYNC_FLUSH |",
		"| `brokerName` |  | text |",
	} {
		if !strings.Contains(Table(), "\n"+want) {
			t.Errorf("no row %s", want)
		}
	}
}
