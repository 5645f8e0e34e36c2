// Package storetest unpacks data directories that the original made. Only tests import it.
package storetest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Walk calls visit with every entry of a .tar.gz in its order; content is nil for a folder and else visit's to keep. Names are
// clean, relative and stay below the archive's root.
func Walk(t testing.TB, packed string, visit func(name string, content []byte) error) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(packed)
	must(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(err)
		name := filepath.Clean("/" + h.Name)[1:]
		if h.FileInfo().IsDir() {
			must(visit(name, nil))
			continue
		}
		content, err := io.ReadAll(r)
		must(err)
		must(visit(name, content))
	}
}

// Unpack puts a packed data directory below dir and returns its root.
func Unpack(t testing.TB, packed, dir string) string {
	t.Helper()
	Walk(t, packed, func(name string, content []byte) error {
		path := filepath.Join(dir, name)
		if content == nil {
			return os.MkdirAll(path, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o644)
	})
	return filepath.Join(dir, "store")
}
