package names

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLegalIsTheExpressionOfTheOriginal(t *testing.T) {
	original := regexp.MustCompile(`^[%|a-zA-Z0-9_-]+$`)
	for c := range 256 {
		name := "a" + string([]byte{byte(c)}) + "Z"
		if got, want := Legal(name), original.MatchString(name); got != want {
			t.Errorf("Legal(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestQuoteIsShortAndValid(t *testing.T) {
	for name, want := range map[string]string{
		"T":                            "T",
		"bad\xff":                      "bad\uFFFD",
		strings.Repeat("x", 1024):      strings.Repeat("x", 1024),
		strings.Repeat("é", 100000):    strings.Repeat("é", 512) + "…",
		"a" + strings.Repeat("é", 600): "a" + strings.Repeat("é", 511) + "…",
	} {
		if got := Quote(name); got != want || !utf8.ValidString(got) {
			t.Errorf("Quote of %d bytes gives %q", len(name), got)
		}
	}
}
