package store

import (
	"errors"
	"fmt"

	"peregrine/internal/message"
)

// What callers compare with errors.Is.
var (
	// ErrDiskFull is what a *DiskFullError is: sends are refused, reads go on.
	ErrDiskFull = errors.New("store: disk full")
	// ErrSyncFailed is what every refusal after a failed sync is. It is final for the process.
	ErrSyncFailed = errors.New("store: a sync failed, nothing further is accepted")
	// ErrShutdown says that the store is being closed.
	ErrShutdown = errors.New("store: shutting down")
	// ErrTooLarge says that a record, or a run of joined records, is larger than allowed or than a file of the log.
	ErrTooLarge = errors.New("store: record too large")
	// ErrNotReady says that the next file of the log did not come in time (CREATE_MAPPED_FILE_FAILED of the original).
	ErrNotReady = errors.New("store: next commitlog file not ready in time")
	// ErrBadTopic says that a topic cannot name a directory.
	ErrBadTopic = errors.New("store: topic name cannot be stored")
	// ErrNoQueue says that a Message came without its Queue.
	ErrNoQueue = errors.New("store: message without queue")
	// ErrQueueGone says that the queue's topic was deleted since the queue was asked for.
	ErrQueueGone = errors.New("store: the topic was deleted")
	// ErrTooManyDeleted says that DeleteTopic has to wait until retention has made progress.
	ErrTooManyDeleted = errors.New("store: too many deleted topics")
	// ErrProperties says that the properties text is longer than the format allows.
	ErrProperties = errors.New("store: properties too long")
	// ErrWriteFailed is what a failed write to the log or to a queue is.
	ErrWriteFailed = errors.New("store: write failed")
	// ErrOutOfRange says that a position or offset is not in the log or queue.
	ErrOutOfRange = errors.New("store: position out of range")
	// ErrQueueGap says that a unit's offset is so far from the end of its queue that only a damaged record can hold it.
	ErrQueueGap = errors.New("store: queue offset jumps")
	// ErrRefused is what every error is that refuses a directory; nothing was changed on disk.
	ErrRefused = errors.New("store: directory refused")
	// ErrLocked is what a *LockedError is.
	ErrLocked = errors.New("store: locked")
)

// DiskFullError tells why sends are refused.
type DiskFullError struct {
	Path      string
	UsedPct   int   // used share in percent, rounded up; 0 when the disk could not be asked
	Threshold int   // diskSpaceWarningLevelRatio, percent
	Cause     error // the system's error, nil when only the threshold was crossed
}

func (e *DiskFullError) Error() string {
	if e.UsedPct <= 0 {
		return fmt.Sprintf("store: disk full: no space for %s (the disk does not tell its use, threshold %d %%): %v", e.Path, e.Threshold, e.Cause)
	}
	if e.Cause != nil {
		return fmt.Sprintf("store: disk full: no space for %s (%d %% used, threshold %d %%): %v", e.Path, e.UsedPct, e.Threshold, e.Cause)
	}
	return fmt.Sprintf("store: disk full: %s is %d %% used, threshold %d %%", e.Path, e.UsedPct, e.Threshold)
}

// Is makes errors.Is(err, ErrDiskFull) true.
func (e *DiskFullError) Is(target error) bool { return target == ErrDiskFull }

func (e *DiskFullError) Unwrap() error { return e.Cause }

// RefusedError says in one sentence why a directory is not opened.
type RefusedError struct {
	Path       string
	Reason     string
	Repairable bool // a repair (Options.Prepare) is let at the directory nevertheless: it mends that
}

func (e *RefusedError) Error() string { return "store: " + e.Path + ": " + e.Reason }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func refuse(path, format string, args ...any) error {
	return &RefusedError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// Repairable tells whether err refuses a directory for something that dump --repair mends.
func Repairable(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Repairable
}

// LockedError says that another process works on the directory.
type LockedError struct {
	Path string // the lock file
	PID  int    // the holder, 0 when it is not known
}

func (e *LockedError) Error() string {
	if e.PID > 0 {
		return fmt.Sprintf("store: %s is locked by process %d; stop it or use another storePathRootDir", e.Path, e.PID)
	}
	return fmt.Sprintf("store: %s is locked by another process, which is not known (the abort file does not name a running one)", e.Path)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// syncError is the sticky refusal after a failed sync.
type syncError struct {
	at    message.PhyOffset
	cause error
}

func (e *syncError) Error() string {
	return fmt.Sprintf("store: sync of the commitlog from %d failed, nothing further is accepted: %v", e.at, e.cause)
}

func (e *syncError) Is(target error) bool { return target == ErrSyncFailed }

func (e *syncError) Unwrap() error { return e.cause }

// dispatchError refuses appends while queues cannot be written.
type dispatchError struct{ cause error }

func (e *dispatchError) Error() string {
	return "store: messages do not become visible: " + e.cause.Error()
}

// Is makes it an ErrWriteFailed; the cause may say more (ErrDiskFull).
func (e *dispatchError) Is(target error) bool { return target == ErrWriteFailed }

func (e *dispatchError) Unwrap() error { return e.cause }
