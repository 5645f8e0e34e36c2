package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// changeMax bounds the body of one change in bytes, changedKeysMax its keys.
const (
	changeMax      = 64 << 10
	changedKeysMax = 256
)

// Live is the configuration of a running broker: one immutable Config at a time, replaced as a whole. Get may be called by any
// goroutine; who needs two keys that belong together takes both from one Get.
type Live struct {
	current atomic.Pointer[Config]
	changes atomic.Int64 // since the start
	origins map[string]Origin

	mu       sync.Mutex // one change at a time; held during persist and the watchers
	watchers []func(*Config)
}

// NewLive starts with c, which nobody may change any more. origins says where keys were set (Report.Origins), nil: nowhere.
func NewLive(c *Config, origins map[string]Origin) *Live {
	l := &Live{origins: maps.Clone(origins)}
	l.current.Store(c)
	return l
}

// Get returns what is in effect.
//
// hot: 0 allocs, one atomic load.
func (l *Live) Get() *Config { return l.current.Load() }

// Changes is how often something was changed since the start.
func (l *Live) Changes() int64 { return l.changes.Load() }

// Watch adds a function that is called with each new configuration, one at a time, before Change returns. It must not call
// Change.
func (l *Live) Watch(f func(*Config)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers = append(l.watchers, f)
}

// Change is one setting as it is in effect now.
type Change struct {
	Key, From, To string
	// Note is "" or what a user should know: a number that was moved, or that a stronger place will win at the next start.
	Note string
}

// ParseChange reads the body of UPDATE_BROKER_CONFIG: a properties file. The last of several values of a key counts.
func ParseChange(body []byte) (map[string]string, error) {
	if len(body) > changeMax {
		return nil, fmt.Errorf("%d bytes of settings, at most %d", len(body), changeMax)
	}
	entries, _, err := readProperties(body)
	if err != nil {
		return nil, fmt.Errorf("line %w", err)
	}
	changes := make(map[string]string, len(entries))
	for _, e := range entries {
		if changes[e.key] = trim(e.value); len(changes) > changedKeysMax {
			return nil, fmt.Errorf("more than %d keys", changedKeysMax)
		}
	}
	return changes, nil
}

// Change puts settings into effect, all or none. Every key must be one that can be changed at run time, and every value one that a
// start would take; the error has a line for each that is not. persist is called with what will change, before it does; its error
// ends the change.
func (l *Live) Change(settings map[string]string, persist func([]Change) error) ([]Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current.Load()
	next, changes, err := l.changed(old, settings)
	if err != nil {
		return nil, err
	}
	if err := persist(changes); err != nil {
		return nil, err
	}
	l.current.Store(next)
	l.changes.Add(1)
	for _, f := range l.watchers {
		f(next)
	}
	return changes, nil
}

// changed checks settings as the loader does and returns the configuration that has them.
func (l *Live) changed(old *Config, settings map[string]string) (*Config, []Change, error) {
	load := newLoader()
	keys := map[string]Key{}
	for _, k := range load.keys {
		keys[k.Name] = k
		load.settings[k.Name] = Setting{Key: k.Name, Value: k.Get(old)}
	}
	var errs []error
	values := map[string]string{}
	for _, written := range slices.Sorted(maps.Keys(settings)) {
		name, _ := properName(written)
		k, known := keys[name]
		switch _, twice := values[name]; {
		case !known:
			errs = append(errs, errors.New(load.whyUnknown(written)))
		case twice:
			errs = append(errs, fmt.Errorf("%s: given twice, in two spellings", name))
		case k.Pending != "":
			errs = append(errs, fmt.Errorf("%s: has no effect yet (not built: %s)", name, k.Pending))
		case !k.Reload:
			errs = append(errs, fmt.Errorf("%s: cannot be changed at run time, change broker.conf and restart", name))
		default:
			values[name] = settings[written]
			load.settings[name] = Setting{Key: name, Value: settings[written], Origin: Origin{Rank: FromArgument}}
		}
	}
	built := load.build()
	load.check(built)
	for _, err := range load.errs {
		var wrong *Error
		// The rest of the configuration was taken by the start.
		if errors.As(err, &wrong) {
			if _, mine := values[wrong.Key]; mine {
				errs = append(errs, fmt.Errorf("%s=%s: %s", wrong.Key, shorten(wrong.Value), wrong.Reason))
			}
		}
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	next := *old
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(values)) {
		k := keys[name]
		k.copyTo(&next, built)
		changes = append(changes, Change{Key: name, From: k.Get(old), To: k.Get(&next), Note: l.note(name, load.report.Warnings)})
	}
	return &next, changes, nil
}

func (l *Live) note(key string, warnings []Remark) string {
	var notes []string
	for _, w := range warnings {
		if w.Key == key {
			notes = append(notes, w.Text)
		}
	}
	if o := l.origins[key]; o.Rank > FromFile {
		notes = append(notes, "the next start reads "+o.String()+" again, which is stronger than broker.conf")
	}
	return strings.Join(notes, "; ")
}

// whyUnknown says what is wrong with a key that has no field.
func (l *loader) whyUnknown(key string) string {
	if reason, ok := l.reasons[key]; ok {
		return key + ": has no effect here: " + reason
	}
	text := shorten(key) + ": no such key"
	if meant := suggest(key, slices.Sorted(maps.Keys(l.fields))); meant != "" {
		text += "; did you mean " + meant + "?"
	}
	return text
}

// shorten keeps what somebody sent from filling a remark.
func shorten(text string) string {
	const most = 100
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// EditFile returns the text of a broker.conf with the values of the given keys; everything else stays byte for byte: comments, unknown
// keys, order, line ends. A key that stands in the file under its proper name is changed where it counts, at its last place; another is
// added at the end. The error says why the file cannot be read.
func EditFile(data []byte, changes []Change) ([]byte, error) {
	places, err := lastPlaces(data)
	if err != nil {
		return nil, err
	}
	var edited []byte
	var added []Change
	from := 0
	var edits []edit
	for _, c := range changes {
		if p, ok := places[c.Key]; ok {
			edits = append(edits, edit{p, c})
		} else {
			added = append(added, c)
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.begin - b.begin })
	for _, e := range edits {
		edited = append(edited, data[from:e.begin]...)
		edited = append(edited, e.Key+"="+escapeValue(e.To)...)
		from = e.end
	}
	edited = append(edited, data[from:]...)
	lineEnd := "\n"
	if i := strings.IndexAny(string(data), "\r\n"); i >= 0 && data[i] == '\r' {
		_, n := naturalLine(data)
		lineEnd = "\r\n"[:n]
	}
	if body := bytes.TrimSuffix(bytes.TrimSuffix(edited, []byte("\n")), []byte("\r")); len(added) > 0 && len(edited) > 0 {
		if len(body) == len(edited) {
			edited = append(edited, lineEnd...)
		}
		if continues(body) { // an entry that goes on for ever would swallow the first one
			if lineEnd == "\n" && edited[len(edited)-1] == '\r' {
				edited = append(edited, '\n') // with the next one it would be one line end, not two
			}
			edited = append(edited, lineEnd...)
		}
	}
	for _, c := range added {
		edited = append(edited, c.Key+"="+escapeValue(c.To)+lineEnd...)
	}
	return edited, nil
}

type edit struct {
	place
	Change
}

// place is where an entry stands in a file, its line end not included.
type place struct{ begin, end int }

// lastPlaces finds the last entry of each key.
func lastPlaces(data []byte) (map[string]place, error) {
	entries, _, err := readProperties(data)
	if err != nil {
		return nil, fmt.Errorf("line %w", err)
	}
	begins := []int{0} // of natural lines
	ends := []int{}
	for at := 0; at < len(data); {
		length, terminator := naturalLine(data[at:])
		ends = append(ends, at+length)
		at += length + terminator
		begins = append(begins, at)
	}
	places := map[string]place{}
	for _, e := range entries {
		last := e.line - 1
		for last < len(ends)-1 && continues(data[begins[last]:ends[last]]) {
			last++
		}
		places[e.key] = place{begins[e.line-1], ends[last]}
	}
	return places, nil
}
