package sysio

import "golang.org/x/sys/unix"

// PunchHole makes [off, off+n) read as zeros and gives its blocks back, without changing the size. Not every file system can
// (errors.ErrUnsupported); it is no part of File: who wants it asks for the method. Durable after Datasync.
func (o *osFile) PunchHole(off, n int64) error {
	if off < 0 || n <= 0 || off+n < off {
		return o.fail("punch", ErrRange)
	}
	if err := o.acquire("punch"); err != nil {
		return err
	}
	defer o.release()
	err := retryEINTR(func() error {
		return unix.Fallocate(o.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if err != nil {
		return o.fail("punch", err)
	}
	return nil
}
