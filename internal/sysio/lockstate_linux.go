package sysio

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// LockState tells whether somebody holds the lock on byte 0 of a file, and who where the kernel says it (a Java broker; 0
// otherwise). It neither takes the lock nor makes the file.
func LockState(path string) (held bool, pid int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := retryEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk) }); err != nil {
		return false, 0, &os.PathError{Op: "query lock", Path: path, Err: err}
	}
	return lk.Type != unix.F_UNLCK, max(int(lk.Pid), 0), nil
}
