package perf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sample is one line of the Prometheus text format.
type sample struct {
	name   string
	labels string
	value  float64
}

var (
	metricLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([^{}]*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)$`)
	helpLine   = regexp.MustCompile(`^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
)

// parseProm reads the text format strictly: each line must be a comment of a known kind or a sample, a family's lines must
// lie together, TYPE comes before the samples and only once, no series comes twice, the last line ends in a line feed.
func parseProm(text string) (samples []sample, types map[string]string, err error) {
	if !strings.HasSuffix(text, "\n") {
		return nil, nil, fmt.Errorf("the last line is cut")
	}
	types = map[string]string{}
	closed, seen := map[string]bool{}, map[string]bool{}
	current := ""
	enter := func(family string) error {
		if family == current {
			return nil
		}
		if closed[family] {
			return fmt.Errorf("family %s comes in two places", family)
		}
		closed[current] = true
		current = family
		return nil
	}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		at := func(format string, args ...any) error {
			return fmt.Errorf("line %d %q: %s", i+1, line, fmt.Sprintf(format, args...))
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if err := enter(m[1]); err != nil {
				return nil, nil, at("%v", err)
			}
			if types[m[1]] != "" {
				return nil, nil, at("second TYPE")
			}
			types[m[1]] = m[2]
			continue
		}
		if m := helpLine.FindStringSubmatch(line); m != nil {
			if err := enter(m[1]); err != nil {
				return nil, nil, at("%v", err)
			}
			continue
		}
		m := metricLine.FindStringSubmatch(line)
		if m == nil {
			return nil, nil, at("neither comment nor sample")
		}
		family := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(m[1], suffix); base != m[1] && (types[base] == "histogram" || types[base] == "summary") {
				family = base
			}
		}
		if types[family] == "" {
			family = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(m[1], "_bucket"), "_sum"), "_count")
		}
		if err := enter(family); err != nil {
			return nil, nil, at("%v", err)
		}
		if m[3] != "" {
			for _, pair := range splitLabels(m[3]) {
				if !labelPair.MatchString(pair) {
					return nil, nil, at("bad label %q", pair)
				}
			}
		}
		value, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, nil, at("bad value")
		}
		if key := m[1] + "{" + m[3] + "}"; seen[key] {
			return nil, nil, at("series comes twice")
		} else {
			seen[key] = true
		}
		samples = append(samples, sample{name: m[1], labels: m[3], value: value})
	}
	return samples, types, nil
}

// splitLabels cuts at the commas outside of quotes.
func splitLabels(s string) []string {
	var out []string
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

func find(t *testing.T, samples []sample, name, labels string) float64 {
	t.Helper()
	for _, s := range samples {
		if s.name == name && s.labels == labels {
			return s.value
		}
	}
	t.Fatalf("no sample %s{%s}", name, labels)
	return 0
}
