package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Variables that the loader asks for beside PEREGRINE_<FLAG>.
const (
	envPrefix  = "PEREGRINE_"
	namesrvEnv = "NAMESRV_ADDR"
)

// flagSpec is a flag of serve, which also reads PEREGRINE_<NAME> with dashes as underscores.
type flagSpec struct {
	name, short string
	original    string // the original's long form
	key         string // that it sets; "" for those with a meaning of their own
	value       string // what the usage calls the value; "" for switches
	usage       string
}

var flagSpecs = [...]flagSpec{
	{"config", "c", "configFile", "", "FILE", "broker.conf of the original, read as it is"},
	{"namesrv", "n", "namesrvAddr", "namesrvAddr", "LIST", "external name servers, separated by ; (not built yet)"},
	{"print-config", "p", "printConfigItem", "", "", "print the configuration and end"},
	{"print-important", "m", "printImportantConfig", "", "", "print the important keys and end"},
	{"store", "", "", "storePathRootDir", "DIR", "root of all data (default ./peregrine-data)"},
	{"http", "", "", "peregrine.http", "ADDR", "metrics, health and profiles: HOST:PORT, PORT or off (default 127.0.0.1:10920)"},
	{"advertise", "", "", "peregrine.advertise", "HOST", "host, or HOST:PORT, that clients are told (default: address of the default route)"},
}

// ErrHelp says that help was asked for; Usage is the text.
var ErrHelp = pflag.ErrHelp

func newFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.SortFlags = false
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		for _, spec := range flagSpecs {
			if name == spec.original && name != "" {
				name = spec.name
			}
		}
		return pflag.NormalizedName(name)
	})
	for _, spec := range flagSpecs {
		if spec.value == "" {
			flags.BoolP(spec.name, spec.short, false, spec.usage)
		} else {
			flags.StringP(spec.name, spec.short, "", "`"+spec.value+"` "+spec.usage)
		}
	}
	return flags
}

// Usage returns the description of the flags, for help.
func Usage() string {
	return "Flags (each also as environment variable, for example PEREGRINE_STORE):\n" + newFlags().FlagUsages() +
		"Arguments of the form key=value set keys of broker.conf.\n"
}

func (s flagSpec) variable() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// Load reads the arguments of serve (without the command), the environment and the configuration file, whose content readFile
// returns. The error joins one line for each thing that is wrong: *Error for settings. The Report is usable beside an error.
// The Config is nil then. Nothing on the machine is asked: see Resolve.
func Load(args []string, env func(string) string, readFile func(path string) ([]byte, error)) (*Config, Report, error) {
	l := newLoader()
	flags, err := l.readArguments(args, env)
	if err != nil {
		return nil, l.report, err
	}
	l.report.File = flags["config"]
	if l.report.File != "" {
		l.readFile(l.report.File, readFile)
	}
	c := l.build()
	l.check(c)
	slices.SortStableFunc(l.report.Warnings, func(a, b Remark) int { return cmp.Compare(a.Origin.Line, b.Origin.Line) })
	if len(l.errs) > 0 {
		return nil, l.report, errors.Join(l.errs...)
	}
	return c, l.report, nil
}

type loader struct {
	keys     []Key
	fields   map[string]bool    // the names of keys
	reasons  map[string]string  // of known keys without a field
	settings map[string]Setting // by proper key: the one that wins so far
	report   Report
	errs     []error
}

func newLoader() *loader {
	l := &loader{keys: Keys(), fields: map[string]bool{}, reasons: map[string]string{}, settings: map[string]Setting{}}
	l.report.Origins = map[string]Origin{}
	for _, k := range l.keys {
		l.fields[k.Name] = true
	}
	for _, k := range knownKeys() {
		l.reasons[k.name] = k.reason
	}
	return l
}

// readArguments takes flags, their variables and the trailing arguments. It returns the flags without a key of their own.
func (l *loader) readArguments(args []string, env func(string) string) (map[string]string, error) {
	flags := newFlags()
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, ErrHelp
		}
		return nil, fmt.Errorf("%w; see peregrine help", err)
	}
	own := map[string]string{}
	for _, spec := range flagSpecs {
		value, origin := "", Origin{FromFlag, "--" + spec.name, 0}
		if flags.Changed(spec.name) {
			value = flags.Lookup(spec.name).Value.String()
		} else if value = env(spec.variable()); value != "" {
			origin = Origin{FromEnv, spec.variable(), 0}
		} else {
			continue
		}
		if spec.key != "" {
			l.take(Setting{Key: spec.key, Value: trim(value), Origin: origin})
		} else {
			own[spec.name] = trim(value)
		}
	}
	switch {
	case strings.EqualFold(own["print-config"], "true"):
		l.report.Print = PrintAll
	case strings.EqualFold(own["print-important"], "true"):
		l.report.Print = PrintImportant
	}
	if value := trim(env(namesrvEnv)); value != "" {
		l.take(Setting{Key: "namesrvAddr", Value: value, Origin: Origin{FromNamesrvEnv, namesrvEnv, 0}})
	}
	for _, arg := range flags.Args() {
		key, value, ok := strings.Cut(arg, "=")
		if key = trim(key); !ok || key == "" {
			return nil, fmt.Errorf("argument %q: expected key=value, for example listenPort=10911", arg)
		}
		l.take(Setting{Key: key, Value: trim(value), Origin: Origin{FromArgument, "", 0}})
	}
	return own, nil
}

func (l *loader) readFile(path string, readFile func(string) ([]byte, error)) {
	data, note, err := ReadConfFile(path, readFile)
	if note != "" {
		l.report.Notes = append(l.report.Notes, note)
	}
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // the path stands in front already
		}
		l.errs = append(l.errs, fmt.Errorf("configuration file %s: %w", path, err))
		return
	}
	entries, notes, err := readProperties(data)
	for _, note := range notes {
		l.report.Notes = append(l.report.Notes, path+":"+note)
	}
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("%s:%w", path, err))
		return
	}
	seen := map[string]int{}
	for _, e := range entries {
		if first, twice := seen[e.key]; twice {
			l.report.Notes = append(l.report.Notes, fmt.Sprintf("%s:%d: %s is given twice, this line wins over line %d", path, e.line, e.key, first))
		}
		seen[e.key] = e.line
	}
	for _, e := range entries {
		if seen[e.key] == e.line {
			value := trim(e.value)
			l.take(Setting{e.key, value, Origin{FromFile, path, e.line}, value != e.value})
		}
	}
}

// take keeps a setting if nothing stronger named the key before, and sorts out keys without a field.
func (l *loader) take(s Setting) {
	name, _ := properName(s.Key)
	if !l.fields[name] {
		l.setAside(s)
		return
	}
	if before, set := l.settings[name]; !set || beats(s, before, name) {
		l.settings[name] = s
	}
}

// beats reports whether s wins over before: a stronger place, or the later one in the same place, but the proper spelling
// wins over another one wherever it stands.
func beats(s, before Setting, name string) bool {
	if s.Origin.Rank != before.Origin.Rank {
		return s.Origin.Rank > before.Origin.Rank
	}
	return s.Key == name || before.Key != name
}

func (l *loader) warn(s Setting, text string) {
	l.report.Warnings = append(l.report.Warnings, Remark{s, text})
}

func (l *loader) fail(s Setting, reason string) {
	l.errs = append(l.errs, &Error{s, reason})
}

// suggestMax bounds the unknown keys that are compared with all known ones.
const suggestMax = 50

// setAside lists a key that has no field.
func (l *loader) setAside(s Setting) {
	if s.Key == indexFlushKey {
		l.warn(s, indexFlushHint)
		return
	}
	if reason, ok := l.reasons[s.Key]; ok {
		l.report.NotApplicable = append(l.report.NotApplicable, Remark{s, reason})
		return
	}
	meant := ""
	if len(l.report.Unknown) < suggestMax {
		meant = suggest(s.Key, slices.Sorted(maps.Keys(l.fields)))
	}
	if meant == "" && len(l.report.Unknown) < suggestMax {
		meant = suggest(s.Key, slices.Sorted(maps.Keys(l.reasons)))
	}
	if strings.HasPrefix(lower(s.Key), "peregrine.") {
		reason := "no such key"
		if meant != "" {
			reason += "; did you mean " + meant + "?"
		}
		l.fail(s, reason)
		return
	}
	text := ""
	if meant != "" {
		text = "did you mean " + meant + "?"
	}
	l.report.Unknown = append(l.report.Unknown, Remark{s, text})
}

// build makes a Config of the settings and the defaults.
func (l *loader) build() *Config {
	c := &Config{}
	for _, k := range l.keys {
		s, set := l.settings[k.Name]
		if !set {
			value, _, err := k.parse(k.Default)
			if err != nil {
				panic("BUG: default of " + k.Name + ": " + err.Error())
			}
			k.set(c, value)
			continue
		}
		l.report.Origins[k.Name] = s.Origin
		if s.Key != k.Name {
			_, note := properName(s.Key)
			l.warn(s, note+"; read as "+k.Name)
		}
		value, warning, err := k.parse(s.Value)
		if err != nil {
			l.fail(s, err.Error())
			continue
		}
		if warning != "" {
			l.warn(s, warning)
		}
		if s.padded && k.Type == "number" {
			l.warn(s, "there are blanks behind the number, for which the original keeps its default")
		}
		if s.padded && value == true {
			l.warn(s, "there are blanks behind the value, for which the original reads false")
		}
		if text := fmt.Sprint(value); k.Only != nil && !contains(k.Only, text) {
			l.fail(s, fmt.Sprintf("%s; remove the line or write %s", k.Why, onlyText(k)))
			continue
		}
		k.set(c, value)
		if k.Pending != "" {
			l.report.Pending = append(l.report.Pending, Remark{s, k.Pending})
		}
	}
	return c
}

func onlyText(k Key) string {
	choices := make([]string, 0, len(k.Only))
	for _, v := range k.Only {
		choices = append(choices, k.Name+"="+v)
	}
	return strings.Join(choices, " or ")
}
