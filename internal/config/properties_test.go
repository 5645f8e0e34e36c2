package config

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// escapeUnits writes text as testdata/java-properties.txt has it.
func escapeUnits(text string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		if u <= ' ' || u > '~' || u == '%' || u == '=' {
			fmt.Fprintf(&b, "%%%04x", u)
		} else {
			b.WriteByte(byte(u))
		}
	}
	return b.String()
}

func TestFilesReadAsJavaReadsThem(t *testing.T) {
	data, err := os.ReadFile("testdata/java-properties.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		hexed, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		file, err := hex.DecodeString(hexed)
		if err != nil {
			t.Fatal(err)
		}
		count++
		entries, _, err := readProperties(file)
		got := "ERROR"
		if err == nil {
			values := map[string]string{}
			for _, e := range entries {
				values[e.key] = e.value
			}
			var pairs []string
			for key, value := range values {
				pairs = append(pairs, escapeUnits(key)+"="+escapeUnits(value))
			}
			got = strings.Join(sorted(pairs), " ")
		}
		// A value without a key is no setting; here it is dropped, in Java its key is "".
		pairs := slices.DeleteFunc(strings.Fields(want), func(p string) bool { return strings.HasPrefix(p, "=") })
		if want = strings.Join(sorted(pairs), " "); got != want {
			t.Errorf("%q: %v\n got %s\nwant %s", file, err, got, want)
		}
	}
	if count < 300 {
		t.Error("only", count, "files")
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func TestLineNumbersAreThoseOfAnEditor(t *testing.T) {
	file := "# one\n\na=1\nb=2\\\n  2\\\n  2\nc=3\r\nd=4\re=5\\\r\n5\n!x\\\nf=6"
	entries, notes, err := readProperties([]byte(file))
	if err != nil || notes != nil {
		t.Fatal(err, notes)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%d:%s=%s", e.line, e.key, e.value))
	}
	if want := "3:a=1 4:b=222 7:c=3 8:d=4 9:e=55 12:f=6"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFileRemarks(t *testing.T) {
	for _, c := range []struct{ name, file, note, err string }{
		{"byte order mark", "\xef\xbb\xbfa=1\n", "1: the byte order mark", ""},
		{"UTF-8 text", "a=1\nb=\xc3\xa9\n", "2: bytes beyond ASCII", ""},
		{"no key", "a=1\n\n = x\n", "3: a line without a key", ""},
		{"bad escape", "a=1\n\nb=\\u12\n", "", "3: "},
		{"bad escape after a continuation", "a=1\\\n1\nb=\\\n\\uzzzz\n", "", "3: "},
		{"endless", strings.Repeat("#", configFileMax+1), "", "this is no broker.conf"},
	} {
		_, notes, err := readProperties([]byte(c.file))
		if c.note != "" && (len(notes) != 1 || !strings.HasPrefix(notes[0], c.note)) || c.note == "" && notes != nil {
			t.Errorf("%s: notes %q", c.name, notes)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}
