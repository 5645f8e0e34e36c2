package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/magiconair/properties"
)

// configFileMax bounds a configuration file in bytes. The original's with all keys has 15 KiB.
const configFileMax = 1 << 20

// entry is one key of a properties file as it stands there.
type entry struct {
	key, value string // the value as it stands, blanks behind it included
	line       int    // where it begins, from 1
}

// ReadConfFile reads a broker.conf with read, or the .bak beside it where a crash of who rewrote it (UPDATE_BROKER_CONFIG; the
// original moves the file away and writes it in place) left it missing, empty or with zeros in it. note says so, "" if nothing is
// wrong. An empty file without a .bak is one that says nothing.
func ReadConfFile(path string, read func(path string) ([]byte, error)) (data []byte, note string, err error) {
	data, err = read(path)
	wreck := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		wreck = "is missing"
	case err != nil:
		return nil, "", err
	case len(data) == 0:
		wreck = "is empty"
	default:
		if at := bytes.IndexByte(data, 0); at >= 0 {
			wreck = fmt.Sprintf("is damaged: a zero byte at position %d", at)
			err = errors.New(strings.TrimPrefix(wreck, "is ") + ", and there is no .bak to read instead")
			data = nil
		}
	}
	if wreck == "" {
		return data, "", nil
	}
	const suffix = ".bak"
	if backup, berr := read(path + suffix); berr == nil && len(backup) > 0 && bytes.IndexByte(backup, 0) < 0 {
		return backup, path + ": " + wreck + "; " + path + suffix + " is read instead, in which the newest change may be missing", nil
	}
	return data, "", err
}

// readProperties reads a file as java.util.Properties does: ISO-8859-1 with \uXXXX, "=", ":" or blanks between key and value,
// comments with # and !, a backslash at the end of a line continues it, nothing is expanded. The library knows all that but
// tells no line numbers, so the file is cut into logical lines here and each is given to it alone. notes are remarks
// for the user, each beginning with a line number; so does the error.
func readProperties(data []byte) (entries []entry, notes []string, err error) {
	if len(data) > configFileMax {
		return nil, nil, fmt.Errorf("%d bytes long, at most %d: this is no broker.conf", len(data), configFileMax)
	}
	if rest, found := bytes.CutPrefix(data, []byte("\xef\xbb\xbf")); found {
		data = rest
		notes = append(notes, "1: the byte order mark is skipped; the original takes it for a part of the first key")
	}
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	for _, l := range logicalLines(data) {
		keyless := false
		if l.text[0] == '=' || l.text[0] == ':' {
			notes = append(notes, fmt.Sprintf("%d: a line without a key is ignored", l.number))
			l.text = append([]byte("ignored"), l.text...) // its escapes count all the same
			keyless = true
		}
		p, err := loader.LoadBytes(l.text)
		if err != nil {
			return nil, notes, fmt.Errorf("%d: %w", l.number, lineError(err))
		}
		keys := p.Keys()
		if len(keys) == 0 || keyless {
			continue
		}
		if bytes.IndexFunc(l.text, func(r rune) bool { return r > 127 }) >= 0 {
			notes = append(notes, fmt.Sprintf("%d: bytes beyond ASCII are read as ISO-8859-1, as the original does; write \\uXXXX for other letters", l.number))
		}
		value, _ := p.Get(keys[0])
		entries = append(entries, entry{key: keys[0], value: value, line: l.number})
	}
	return entries, notes, nil
}

// lineError takes the library's own line number away: it counts within the logical line.
func lineError(err error) error {
	if _, what, ok := strings.Cut(err.Error(), ": "); ok && strings.HasPrefix(err.Error(), "properties: Line") {
		return fmt.Errorf("not a line of a properties file: %s", what)
	}
	return err
}

// trim is Java's String.trim: everything up to the blank goes at both ends.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
}

type logicalLine struct {
	text   []byte // in one piece: continuations are joined
	number int    // of its first natural line
}

// logicalLines cuts a file at the line ends that end an entry, and joins the lines of an entry: a backslash (an odd number of
// them) at the end of a line, the line end and the blanks that the next line begins with go away. The library would do it, but
// not where lines end with CR LF. Comments and blank lines are left out.
func logicalLines(data []byte) []logicalLine {
	var lines []logicalLine
	var open *logicalLine // the entry that the next line continues
	for number := 1; len(data) > 0; number++ {
		length, terminator := naturalLine(data)
		text := bytes.TrimLeft(data[:length], " \t\f")
		data = data[length+terminator:]
		if open == nil {
			if len(text) == 0 || text[0] == '#' || text[0] == '!' {
				continue
			}
			lines = append(lines, logicalLine{number: number})
			open = &lines[len(lines)-1]
		}
		goesOn := continues(text)
		if goesOn {
			text = text[:len(text)-1]
		}
		open.text = append(open.text, text...)
		if len(open.text) == 0 {
			lines = lines[:len(lines)-1] // nothing but a backslash: the entry begins on the next line, or a comment does
			goesOn = false
		}
		if !goesOn {
			open = nil
		}
	}
	return lines
}

// naturalLine returns the length of the line that data begins with and of its terminator: LF, CR, CR LF or none at the end.
func naturalLine(data []byte) (length, terminator int) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0:
		return len(data), 0
	case data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n':
		return i, 2
	}
	return i, 1
}

func continues(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}
