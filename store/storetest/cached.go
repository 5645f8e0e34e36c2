package storetest

import (
	"os"
	"path/filepath"
	"testing"

	"peregrine/internal/sysio"
)

// TellsWhatIsCached tells whether the file system of dir supports reads that do not wait (sysio.File.ReadCachedAt).
func TellsWhatIsCached(t testing.TB, dir string) bool {
	t.Helper()
	f, err := sysio.OS{}.OpenFile(filepath.Join(dir, "cached"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("here"), 0); err != nil {
		t.Fatal(err)
	}
	return f.ReadCachedAt(make([]byte, 4), 0) == 4
}
