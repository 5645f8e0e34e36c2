package sysio

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPunchHoleReadsAsZeros(t *testing.T) {
	f, err := OS{}.OpenFile(filepath.Join(t.TempDir(), "x"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := make([]byte, 3*PageSize)
	for i := range content {
		content[i] = 7
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	err = f.(interface{ PunchHole(off, n int64) error }).PunchHole(100, 2*PageSize)
	if errors.Is(err, errors.ErrUnsupported) {
		return // the file system of the temporary folder cannot
	}
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(content))
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	for i, c := range got {
		want := byte(7)
		if i >= 100 && i < 100+2*PageSize {
			want = 0
		}
		if c != want {
			t.Fatalf("byte %d is %d, want %d", i, c, want)
		}
	}
	if size, _ := f.Size(); size != int64(len(content)) {
		t.Fatalf("size %d", size)
	}
}
