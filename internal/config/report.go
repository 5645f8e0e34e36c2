package config

import (
	"fmt"
	"slices"
	"strings"
)

// Rank orders the places a value can come from; the highest that names a key wins.
type Rank int

const (
	FromDefault    Rank = iota
	FromNamesrvEnv      // NAMESRV_ADDR, which the original lets the file override
	FromFile
	FromEnv
	FromFlag
	FromArgument
)

// Origin says where a value was written.
type Origin struct {
	Rank Rank
	Name string // file, variable or flag; "" for defaults and arguments
	Line int    // in a file
}

func (o Origin) String() string {
	switch o.Rank {
	case FromFile:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case FromEnv, FromNamesrvEnv:
		return "environment " + o.Name
	case FromFlag:
		return "flag " + o.Name
	case FromArgument:
		return "argument"
	}
	return "default"
}

// Setting is one value as somebody wrote it, trimmed.
type Setting struct {
	Key    string // as written
	Value  string
	Origin Origin

	padded bool // blanks were trimmed
}

func (s Setting) String() string { return fmt.Sprintf("%s: %s=%s", s.Origin, s.Key, s.Value) }

// Error is a setting that stops the start.
type Error struct {
	Setting
	Reason string // what is expected, or why the value is not served
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Setting, e.Reason) }

// Remark is a setting that works, with something to know about it.
type Remark struct {
	Setting
	Text string
}

func (r Remark) String() string { return r.Setting.String() + ": " + r.Text }

// Print says what to do instead of starting.
type Print int

const (
	PrintNothing   Print = iota // start
	PrintAll                    // -p: print the configuration and end
	PrintImportant              // -m: the important keys only
)

// Report is what Load found out beside the configuration. Every setting is in at most one of the lists.
type Report struct {
	File          string // the configuration file, "" for none
	Print         Print
	Warnings      []Remark // a value that means something else than it seems to
	Notes         []string // about the file as such, each beginning with "FILE:LINE: " or "FILE: "
	Unknown       []Remark // keys that neither peregrine nor the original knows
	NotApplicable []Remark // keys of the original without effect here
	Pending       []Remark // read and checked; what they control is not built yet
	// Origins tells for each key that somebody set where its effective value was written.
	Origins map[string]Origin
}

// Lines returns what to log once at start: one line for each warning, one for each list of keys.
func (r *Report) Lines() []string {
	var lines []string
	lines = append(lines, r.Notes...)
	for _, w := range r.Warnings {
		lines = append(lines, w.String())
	}
	lines = appendGroups(lines, "unknown keys, ignored", r.Unknown)
	lines = appendGroups(lines, "keys without effect", r.NotApplicable)
	return appendGroups(lines, "keys whose subject is not built yet", r.Pending)
}

// appendGroups writes one line for each text that the remarks share. Keys stand there with the place where they were written.
func appendGroups(lines []string, title string, remarks []Remark) []string {
	var texts []string
	keys := map[string][]string{}
	for _, r := range remarks {
		if keys[r.Text] == nil {
			texts = append(texts, r.Text)
		}
		if key := r.Key + " (" + r.Origin.String() + ")"; !slices.Contains(keys[r.Text], key) {
			keys[r.Text] = append(keys[r.Text], key)
		}
	}
	for _, text := range texts {
		line := title
		if text != "" {
			line += " (" + text + ")"
		}
		lines = append(lines, line+": "+strings.Join(keys[text], ", "))
	}
	return lines
}
