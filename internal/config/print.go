package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Write prints the effective configuration as a properties file that Java and Load read back: sorted key=value lines.
func (c *Config) Write(w io.Writer, importantOnly bool) error {
	var lines []string
	for _, k := range Keys() {
		if k.Important || !importantOnly {
			lines = append(lines, k.Name+"="+escapeValue(k.Get(c))+"\n")
		}
	}
	slices.Sort(lines)
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return err
}

// escapeValue writes a value as java.util.Properties.store does, as far as it has to be: values are ASCII afterwards.
func escapeValue(value string) string {
	var b strings.Builder
	for i, r := range value {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\f':
			b.WriteString(`\f`)
		case r == ' ' && i == 0:
			b.WriteString(`\ `)
		case r < ' ' || r > '~' && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04X\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
