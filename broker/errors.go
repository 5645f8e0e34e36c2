package broker

import (
	"errors"
	"strconv"

	"peregrine/flush"
	"peregrine/store"
	"peregrine/wire"
)

// storeRefusal maps what the store says to the answer of a send: the original's code (PutMessageStatus to ResponseCode in
// SendMessageProcessor, 5.5.0), the true cause in the remark. A failed sync is answered with a code that no client counts
// as stored.
func storeRefusal(err error) *wire.Refusal {
	switch {
	case errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrProperties), errors.Is(err, store.ErrBadTopic):
		return wire.Refuse(wire.ResponseMessageIllegal, "the message is illegal: "+err.Error())
	case errors.Is(err, store.ErrDiskFull), errors.Is(err, store.ErrShutdown), errors.Is(err, store.ErrSyncFailed),
		errors.Is(err, store.ErrWriteFailed), errors.Is(err, flush.ErrFlushFailed):
		return wire.Refuse(wire.ResponseServiceNotAvailable, "service not available now: "+err.Error())
	case errors.Is(err, store.ErrQueueGone):
		return wire.Refuse(wire.ResponseTopicNotExist, err.Error()+", send again")
	case errors.Is(err, store.ErrNotReady):
		return wire.Refuse(wire.ResponseSystemError, "create mapped file failed, server is busy or broken: "+err.Error())
	}
	return wire.Refuse(wire.ResponseSystemError, err.Error())
}

func itoa(n int32) string { return strconv.FormatInt(int64(n), 10) }
