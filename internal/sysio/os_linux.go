package sysio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate gives the range blocks and, without KEEP_SIZE, its final size: fdatasync then has no size change to record.
func preallocate(fd int, off, n int64) error {
	return unix.Fallocate(fd, 0, off, n)
}

func datasync(fd int) error { return unix.Fdatasync(fd) }

func adviseRandom(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) }

func readCached(fd int, p []byte, off int64) (int, error) {
	return unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_NOWAIT)
}

func populateWrite(b []byte) error { return unix.Madvise(b, unix.MADV_POPULATE_WRITE) }

func statfsUnit(st *unix.Statfs_t) int64 {
	if st.Frsize > 0 {
		return st.Frsize
	}
	return st.Bsize
}

// lockByte0 takes an "open file description" lock on byte 0. It excludes a Java broker, whose FileChannel.tryLock(0, 1, false)
// is a POSIX record lock on the same byte; flock(2) would not. A plain POSIX lock would vanish as soon as any descriptor of
// the file is closed in this process, and would not exclude a second store in the same process.
func lockByte0(f *os.File) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err := retryEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk) })
	switch {
	case err == nil:
		return nil
	case err == unix.EAGAIN || err == unix.EACCES:
		return &LockedError{Path: f.Name(), PID: lockHolder(f)}
	case err == unix.ENOLCK || err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP:
		return &fs.PathError{Op: "lock", Path: f.Name(),
			Err: fmt.Errorf("the file system cannot lock files: %w", errors.Join(errors.ErrUnsupported, err))}
	}
	return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
}

// lockHolder asks who holds byte 0. The kernel names processes for POSIX locks only; for locks like our own it says -1.
func lockHolder(f *os.File) int {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk); err != nil || lk.Type == unix.F_UNLCK || lk.Pid < 0 {
		return 0
	}
	return int(lk.Pid)
}
