package sysio

import (
	"path/filepath"
	"testing"
)

func TestProcFieldsSayWhatIsMissing(t *testing.T) {
	if _, err := procField("/proc/meminfo", "NoSuchField:"); err == nil {
		t.Error("a field that does not exist")
	}
	if _, err := procField("/proc/no/such/file", "X:"); err == nil {
		t.Error("a file that does not exist")
	}
}

func TestKernelAtLeast(t *testing.T) {
	if !kernelAtLeast(2, 6) || kernelAtLeast(999, 0) {
		t.Error("this is no Linux between 2.6 and 999")
	}
}

// What the device says is a number of bytes; a path that is not there is an error.
func TestReadAheadOfThisDirectory(t *testing.T) {
	if n, err := readAheadOf(t.TempDir()); err == nil && (n < 0 || n > 1<<30) {
		t.Errorf("%d bytes", n)
	}
	if _, err := readAheadOf(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a path that is not there")
	}
}
