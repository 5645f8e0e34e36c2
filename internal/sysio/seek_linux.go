package sysio

import "golang.org/x/sys/unix"

// NextData returns the first offset at or behind off that may hold something else than zeros, the size of the file if there is
// none: SEEK_DATA, which passes over what was never written. Not every file system knows (then it is off itself); it is
// no part of File: who wants it asks for the method.
func (o *osFile) NextData(off int64) (int64, error) {
	if off < 0 {
		return 0, o.fail("seek", ErrRange)
	}
	if err := o.acquire("seek"); err != nil {
		return 0, err
	}
	defer o.release()
	// The position of the descriptor moves; nothing here reads or writes at it.
	at, err := unix.Seek(o.fd, off, unix.SEEK_DATA)
	switch err {
	case nil:
		return at, nil
	case unix.ENXIO: // nothing behind off
		var st unix.Stat_t
		if err := unix.Fstat(o.fd, &st); err != nil {
			return 0, o.fail("seek", err)
		}
		return max(off, st.Size), nil
	case unix.EINVAL, unix.EOPNOTSUPP:
		return off, nil
	}
	return 0, o.fail("seek", err)
}
