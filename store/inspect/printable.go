package inspect

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is text from a file as it may go to a terminal: control characters, invalid UTF-8 and what changes the direction
// of writing are escaped.
func Printable(s string) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
