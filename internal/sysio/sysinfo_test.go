package sysio

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestMachineFacts(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := PhysicalMemory(); err == nil {
			t.Error("facts without a source")
		}
		return
	}
	for _, fact := range []struct {
		name     string
		read     func() (int64, error)
		low, top int64
	}{
		{"PhysicalMemory", PhysicalMemory, 16 << 20, 1 << 50},
		{"MemAvailable", MemAvailable, 1 << 20, 1 << 50},
		{"MemFree", MemFree, 1 << 20, 1 << 50},
		{"RssAnon", RssAnon, 1 << 20, 1 << 40},
	} {
		if n, err := fact.read(); err != nil || n < fact.low || n > fact.top {
			t.Errorf("%s = %d, %v", fact.name, n, err)
		}
	}
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
		runtime.Gosched()
	}
	if used, err := CPUOf(os.Getpid()); err != nil || used < 20*time.Millisecond || used > time.Hour {
		t.Errorf("CPUOf = %v, %v", used, err)
	}
	if _, err := CPUOf(1 << 30); err == nil {
		t.Error("a process that is not there has used processor time")
	}
	physical, _ := PhysicalMemory()
	if avail, _ := MemAvailable(); avail > physical {
		t.Errorf("%d available of %d", avail, physical)
	}
	if id, err := BootID(); err != nil || len(id) != 36 {
		t.Errorf("BootID = %q, %v", id, err)
	}
	background, throttle, err := DirtyLimits()
	if err != nil || background < 0 || throttle < background {
		t.Errorf("DirtyLimits = %d, %d, %v", background, throttle, err)
	}
	if CPUCount() < 1 {
		t.Error("no CPU")
	}
}

func TestRaiseNoFileReachesTheHardLimit(t *testing.T) {
	n, err := RaiseNoFile()
	must(t, err)
	again, err := RaiseNoFile()
	must(t, err)
	if n < 64 || again != n {
		t.Errorf("%d, then %d", n, again)
	}
}
