package sysio

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// lockChildEnv makes the test binary a second process that takes the lock of the file named by it.
const lockChildEnv = "SYSIO_TEST_LOCK_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockChildEnv); path != "" {
		lockChild(path)
		return
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if left := mappedFiles(os.TempDir()); len(left) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "mappings left:", left)
		code = 1
	}
	os.Exit(code)
}

// mappedFiles returns the lines of /proc/self/maps that name a file below dir.
func mappedFiles(dir string) []string {
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil // not Linux
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, " "+dir+"/Test") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// eachFS runs a test on the real and on the simulated file system: what holds for one must hold for the other.
func eachFS(t *testing.T, run func(t *testing.T, fsys FS, dir string)) {
	t.Run("os", func(t *testing.T) { run(t, OS{}, t.TempDir()) })
	t.Run("fault", func(t *testing.T) {
		x := NewFaultFS()
		if err := x.MkdirAll("dir", 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, x, "dir")
		if files, mappings := x.Open(); files != 0 || mappings != 0 {
			t.Errorf("%d files and %d mappings left open", files, mappings)
		}
	})
}

func create(t *testing.T, fsys FS, path string, data string) File {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	if data != "" {
		_, err = f.WriteAt([]byte(data), 0)
		must(t, err)
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fsys FS, path string) string {
	t.Helper()
	data, err := ReadFile(fsys, path)
	must(t, err)
	return string(data)
}
