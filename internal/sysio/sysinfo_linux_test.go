package sysio

import "testing"

func TestProcFieldsSayWhatIsMissing(t *testing.T) {
	if _, err := procField("/proc/meminfo", "NoSuchField:"); err == nil {
		t.Error("a field that does not exist")
	}
	if _, err := procField("/proc/no/such/file", "X:"); err == nil {
		t.Error("a file that does not exist")
	}
}
