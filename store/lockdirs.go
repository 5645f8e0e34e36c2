package store

import (
	"errors"
	"fmt"
	"io"

	"peregrine/internal/sysio"
)

// dirLocker is a file system that can lock directories themselves.
type dirLocker interface {
	LockDir(dir string) (io.Closer, error)
}

// lockDirs locks the directories that exist, besides the lock file, and adds them to held. A copied broker.conf in which only
// storePathRootDir was changed leads a second broker to the same log, and a lock file can be deleted while it is held.
func lockDirs(fsys sysio.FS, held closers, dirs ...string) (closers, error) {
	locker, ok := fsys.(dirLocker)
	if !ok {
		return held, nil
	}
	for _, dir := range dirs {
		if _, err := fsys.Stat(dir); err != nil {
			continue // made later, by us
		}
		c, err := locker.LockDir(dir)
		var locked *sysio.LockedError
		switch {
		case err == nil:
			held = append(held, c)
		case errors.As(err, &locked):
			return held, &LockedError{Path: dir, PID: locked.PID}
		case errors.Is(err, errors.ErrUnsupported):
			// A file system without flock (some network ones): the lock file is all there is.
		default:
			return held, fmt.Errorf("store: lock %s: %w", dir, err)
		}
	}
	return held, nil
}

// closers closes all of its members.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
