package dispatch

import (
	"errors"
	"fmt"

	"peregrine/internal/message"
)

var (
	// ErrTimeout says that CaughtUp's deadline passed first.
	ErrTimeout = errors.New("dispatch: not caught up before the deadline")

	// ErrStopped says that the dispatcher was stopped before it got there.
	ErrStopped = errors.New("dispatch: stopped")

	// ErrBadRecord is the kind of a *RecordError.
	ErrBadRecord = errors.New("dispatch: bad record")

	// ErrQueueWrite is the kind of a *QueueError.
	ErrQueueWrite = errors.New("dispatch: queue could not be written")

	errPhyOffset   = errors.New("its position field names another place")
	errPastFileEnd = errors.New("its length passes the end of the file")
	errNoEndOfFile = errors.New("the file ends without an end-of-file mark")
)

// RecordError says where the log cannot be read. It is final: everything behind is unreachable, because only a record
// tells where the next one begins.
type RecordError struct {
	Phy   message.PhyOffset
	Cause error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("dispatch: record at log position %d cannot be read: %v", e.Phy, e.Cause)
}

// Unwrap gives the kind and the cause.
func (e *RecordError) Unwrap() []error { return []error{ErrBadRecord, e.Cause} }

// QueueError says which queue could not be written for retryTimeMax. If the disk is full, the attempts go on and
// Dispatcher.Err becomes nil when one succeeds; any other cause is final.
type QueueError struct {
	Topic   string
	QueueID message.QueueID
	First   message.QueueOffset // first unit that is not written
	Cause   error
}

func (e *QueueError) Error() string {
	return fmt.Sprintf("dispatch: units from %d on of queue %d of topic %s cannot be written: %v", e.First, e.QueueID, e.Topic, e.Cause)
}

// Unwrap gives the kind and the cause.
func (e *QueueError) Unwrap() []error { return []error{ErrQueueWrite, e.Cause} }
