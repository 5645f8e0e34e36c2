package sysio

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// LockDir takes an exclusive flock(2) on a directory itself until the closer is closed or the process ends. It needs no file,
// so nobody can delete it, and two processes that reach one directory by different configurations meet. Programs that do not
// ask for it (the original) are not kept out: for those there is Lock.
func (OS) LockDir(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Path: dir}
		}
		return nil, &os.PathError{Op: "flock", Path: dir, Err: err}
	}
	return f, nil
}

// Writable says why files cannot be read and made in a directory by this process, nil if they can. What is no directory is ENOTDIR.
func Writable(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return &os.PathError{Op: "access", Path: dir, Err: unix.ENOTDIR}
	}
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}
