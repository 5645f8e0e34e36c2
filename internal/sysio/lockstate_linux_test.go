package sysio

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestLockStateAsksWithoutTaking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, _, err := LockState(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	l, err := OS{}.Lock(path)
	must(t, err)
	if held, pid, err := LockState(path); !held || pid != 0 || err != nil {
		t.Errorf("beside our own kind of lock: %v %d %v", held, pid, err)
	}
	must(t, l.Close())
	for range 2 {
		if held, _, err := LockState(path); held || err != nil {
			t.Errorf("a free lock: %v %v", held, err)
		}
	}
	_, child, stop := startLockChild(t, "posix:"+path)
	if held, pid, err := LockState(path); !held || pid != child || err != nil {
		t.Errorf("beside a Java broker: %v %d %v, it is %d", held, pid, err, child)
	}
	stop()
}
