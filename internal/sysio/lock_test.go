package sysio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// lockChild takes the lock, says how that went, and keeps it until its input ends.
func lockChild(path string) {
	posix := strings.HasPrefix(path, "posix:")
	path = strings.TrimPrefix(path, "posix:")
	var err error
	if posix {
		// What a Java broker does: FileChannel.tryLock(0, 1, false).
		var f *os.File
		if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
		}
	} else {
		_, err = OS{}.Lock(path)
	}
	fmt.Println(err == nil, errors.Is(err, ErrLocked) || err == syscall.EAGAIN || err == syscall.EACCES)
	io.Copy(io.Discard, os.Stdin)
}

// startLockChild returns the child's two answers (got it, was refused), its process id and a function that ends it.
func startLockChild(t *testing.T, path string) (answer string, pid int, stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockChildEnv+"="+path)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			in.Close()
			cmd.Wait()
		}
	}
	t.Cleanup(stop)
	return strings.TrimSpace(line), cmd.Process.Pid, stop
}

func TestLockExcludesAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := OS{}.Lock(path)
	must(t, err)
	if answer, _, _ := startLockChild(t, path); answer != "false true" {
		t.Errorf("child beside our lock: %s", answer)
	}
	// Opening and closing the file elsewhere must not drop the lock, as it would drop a plain POSIX one.
	must(t, create(t, OS{}, path, "lock").Close())
	if answer, _, _ := startLockChild(t, path); answer != "false true" {
		t.Errorf("child after another descriptor was closed: %s", answer)
	}
	if answer, _, _ := startLockChild(t, "posix:"+path); answer != "false true" {
		t.Errorf("a Java broker beside our lock: %s", answer)
	}
	must(t, l.Close())
	answer, _, stop := startLockChild(t, path)
	if answer != "true false" {
		t.Errorf("child after our lock: %s", answer)
	}
	if _, err := (OS{}).Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("we beside the child's lock: %v", err)
	}
	stop()
	l, err = OS{}.Lock(path)
	must(t, err)
	must(t, l.Close())
	if content(t, OS{}, path) != "lock" {
		t.Error("locking changed the file")
	}
}

func TestLockNamesTheJavaBrokerThatHoldsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	answer, pid, _ := startLockChild(t, "posix:"+path)
	if answer != "true false" {
		t.Fatal(answer)
	}
	_, err := OS{}.Lock(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != pid || locked.Path != path {
		t.Errorf("%v, want holder %d", err, pid)
	}
	if err != nil && !strings.Contains(err.Error(), fmt.Sprint(pid)) {
		t.Error("the message does not name the holder:", err)
	}
}

func TestLockEndsWithTheProcessAndIgnoresLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	must(t, create(t, OS{}, path, "lock").Close())
	answer, pid, stop := startLockChild(t, path)
	if answer != "true false" {
		t.Fatal(answer)
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	stop()
	l, err := OS{}.Lock(path)
	must(t, err)
	must(t, l.Close())
}

func TestLockExcludesTheSameProcess(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		path := filepath.Join(dir, "lock")
		l, err := fsys.Lock(path)
		must(t, err)
		if _, err := fsys.Lock(path); !errors.Is(err, ErrLocked) {
			t.Errorf("second lock: %v", err)
		}
		must(t, l.Close())
		if err := l.Close(); err == nil {
			t.Error("second Close succeeded")
		}
		l, err = fsys.Lock(path)
		must(t, err)
		must(t, l.Close())
		if _, err := fsys.Lock(filepath.Join(dir, "no", "dir")); err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("lock in a missing directory: %v", err)
		}
	})
}
