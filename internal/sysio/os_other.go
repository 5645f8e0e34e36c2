//go:build !linux

package sysio

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The portable forms let developers build and test elsewhere. They are correct but slower, and the lock does not exclude a
// Java broker: production is Linux.

func preallocate(int, int64, int64) error { return errors.ErrUnsupported }

func datasync(fd int) error { return unix.Fsync(fd) }

func adviseRandom(int) error { return errors.ErrUnsupported }

func readCached(int, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func boundReadAhead(string, []byte) error { return errors.ErrUnsupported }

func populateWrite([]byte) error { return unix.ENOSYS }

func statfsUnit(st *unix.Statfs_t) int64 { return int64(st.Bsize) }

func lockByte0(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return &LockedError{Path: f.Name()}
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}
