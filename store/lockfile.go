package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"peregrine/internal/sysio"
)

// Names of the two marker files. The guard is the lock on byte 0 of the lock file, which the original takes as well; that
// the file exists means nothing. The abort file exists while a broker runs and after it died: its text is the process id.
//
// The text of the lock file tells whose the last start was. Every original writes "lock" over its first bytes before it changes
// anything but the ends of files (DefaultMessageStore.start, 5.5.0), and leaves the rest; peregrine writes a random run number, which
// the state file has, too. The abort file does not tell: process ids come again, in containers they are all 1, and originals before
// 5.0 leave an abort file that is there as it is.
const (
	lockName   = "lock"
	abortName  = "abort"
	lockPrefix = "peregrine run "
)

// takeLock takes the lock, or names the holder.
func takeLock(fsys sysio.FS, root string) (io.Closer, error) {
	path := filepath.Join(root, lockName)
	held, err := fsys.Lock(path)
	if err == nil {
		return held, nil
	}
	var locked *sysio.LockedError
	if errors.As(err, &locked) {
		pid := locked.PID
		if pid == 0 {
			pid = pidFromAbort(fsys, root)
		}
		return nil, &LockedError{Path: path, PID: pid}
	}
	return nil, fmt.Errorf("store: take the lock: %w", err)
}

// pidFromAbort returns the process that the abort file names, if such a process runs; else 0. Around a start the file may
// still name the process that died before.
func pidFromAbort(fsys sysio.FS, root string) int {
	f, err := fsys.OpenFile(filepath.Join(root, abortName), os.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid <= 0 {
		return 0
	}
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return 0
	}
	return pid
}

// markRunning writes the abort file, durably: from here on a missing clean stop is noticed.
func markRunning(fsys sysio.FS, root string) error {
	err := writeWhole(fsys, filepath.Join(root, abortName), strconv.Itoa(os.Getpid()))
	if err == nil {
		err = fsys.SyncDir(root)
	}
	if err != nil {
		return fmt.Errorf("store: write %s: %w", abortName, err)
	}
	return nil
}

// markChanging makes the directory one that nobody knows: the abort file is there, the state file is not.
func markChanging(fsys sysio.FS, root string) error {
	if err := markRunning(fsys, root); err != nil {
		return err
	}
	if err := fsys.Remove(filepath.Join(root, stateName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	return fsys.SyncDir(root)
}

func markStopped(fsys sysio.FS, root string) error {
	if err := fsys.Remove(filepath.Join(root, abortName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(root)
}

// readRun returns the run number in the lock file, 0 if another broker was the last to start, or nobody knows.
func readRun(fsys sysio.FS, root string) uint64 {
	path := filepath.Join(root, lockName)
	info, err := fsys.Stat(path)
	if err != nil || info.Size != int64(len(lockText(0))) {
		return 0
	}
	text, err := sysio.ReadFile(fsys, path)
	if err != nil {
		return 0
	}
	number, found := strings.CutPrefix(string(text), lockPrefix)
	run, err := strconv.ParseUint(number, 16, 64)
	if !found || err != nil {
		return 0
	}
	return run
}

// markRun makes the lock file name a run, durably, and returns its number. A start after a crash goes on with the number that it
// finds: should it be cut off, the next one still knows whose directory this is. The text is no part of the lock.
func markRun(fsys sysio.FS, root string, lay *layout) (uint64, error) {
	if lay.crashed && lay.run != 0 {
		return lay.run, nil
	}
	run := max(rand.Uint64(), 1)
	err := writeWhole(fsys, filepath.Join(root, lockName), lockText(run))
	if err == nil {
		err = fsys.SyncDir(root)
	}
	if err != nil {
		return 0, fmt.Errorf("store: write %s: %w", lockName, err)
	}
	return run, nil
}

func lockText(run uint64) string { return fmt.Sprintf("%s%016x", lockPrefix, run) }

func writeWhole(fsys sysio.FS, path, text string) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
