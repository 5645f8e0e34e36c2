package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"peregrine/internal/sysio"
)

// Health returns why messages cannot be stored durably, nil when they can. It says more than Refusal: that no space is left
// ahead although a few appends still succeed, and, after appends were refused, that nothing durable was written since: the
// cause stays until a probe of this store's partition was written and synced (case R07). Any goroutine.
func (s *Store) Health() error {
	if err := s.log.Refusal(); err != nil {
		return err
	}
	if err := s.log.noSpaceCause(); err != nil {
		return err
	}
	if p := s.log.unproven.Load(); p != nil {
		return &unprovenError{cause: *p}
	}
	return nil
}

// unprovenError says that the reason for a refusal is gone, and that it takes a durable write to believe it.
type unprovenError struct{ cause error }

func (e *unprovenError) Error() string {
	return "store: nothing durable was written since: " + e.cause.Error()
}

func (e *unprovenError) Unwrap() error { return e.cause }

// prove makes the store healthy again once nothing refuses appends and a probe is on the device. The ticker calls it, so that it
// needs no client that sends.
func (s *Store) prove() {
	p := s.log.unproven.Load()
	if p == nil || s.log.Refusal() != nil || s.log.noSpaceCause() != nil {
		return
	}
	if err := probe(s.fsys, s.set.logDir); err != nil {
		err = fmt.Errorf("a probe in %s could not be written: %w", s.set.logDir, err)
		if sysio.IsNoSpace(err) {
			err = noSpace(s.fsys, s.set.logDir, s.set.now().warnPct, err)
		}
		s.log.unproven.CompareAndSwap(p, &err)
		return
	}
	s.log.unproven.CompareAndSwap(p, nil)
}

// probe writes and syncs a file in dir. Its name goes before its content comes: the original does not start with a foreign name
// in the log's folder, so that none must be left by a kill.
func probe(fsys sysio.FS, dir string) error {
	path := filepath.Join(dir, probeName)
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = fsys.Remove(path)
	if err == nil {
		_, err = file.WriteAt(make([]byte, probeBytes), 0)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
