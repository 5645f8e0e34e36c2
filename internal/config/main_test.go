package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the reports below testdata and the table of keys in OPERATIONS.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func noEnv(string) string { return "" }

// load runs Load on a file with this content (none for "") and on these arguments.
func load(conf string, args ...string) (*Config, Report, error) {
	if conf != "" {
		args = append([]string{"-c", "broker.conf"}, args...)
	}
	return Load(args, noEnv, func(path string) ([]byte, error) {
		if path != "broker.conf" {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(conf), nil
	})
}

func mustLoad(t *testing.T, conf string, args ...string) (*Config, Report) {
	t.Helper()
	c, r, err := load(conf, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

// settingErrors returns the lines of an error.
func errorLines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it):\n%s\nwant\n%s", path, got, want)
	}
}

func keyNamed(t *testing.T, name string) Key {
	t.Helper()
	for _, k := range Keys() {
		if k.Name == name {
			return k
		}
	}
	t.Fatal("no key", name)
	return Key{}
}

func lines(list []string) string { return strings.Join(list, "\n") + "\n" }
