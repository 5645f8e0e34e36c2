package flush

import (
	"errors"
	"fmt"

	"peregrine/internal/message"
)

var (
	// ErrFlushFailed is the kind of every error that follows a failed sync; it never goes away.
	ErrFlushFailed = errors.New("flush: sync failed")

	// ErrFlushTimeout says that the deadline of Wait passed first. The bytes are in the log and may become durable.
	ErrFlushTimeout = errors.New("flush: not durable before the deadline")

	// ErrStopped says that the flusher ended before the position was durable.
	ErrStopped = errors.New("flush: stopped")

	// ErrTooManyWaiters says that MaxWaiters goroutines wait already.
	ErrTooManyWaiters = errors.New("flush: too many waiters")

	// errNoProgress is the cause when a sync reports success and has not moved the flushed position, although
	// there was something to sync. Repeating it would spin, believing it would acknowledge what is not durable.
	errNoProgress = errors.New("the sync reported success without covering anything new")
)

// SyncError is the sticky error of a Committer. It matches ErrFlushFailed and its cause with errors.Is.
type SyncError struct {
	From, To message.PhyOffset // the range whose sync failed: durable up to From, wanted up to To
	Cause    error
}

func (e *SyncError) Error() string {
	return fmt.Sprintf("flush: sync of the log from %d to %d failed: %v", e.From, e.To, e.Cause)
}

// Unwrap gives the kind and the cause.
func (e *SyncError) Unwrap() []error { return []error{ErrFlushFailed, e.Cause} }
