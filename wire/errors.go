package wire

import (
	"errors"
	"fmt"
)

// ErrMalformed is what every error about an undecodable frame matches with errors.Is. Nothing on that connection can be
// trusted any more: close it without an answer, as RocketMQ does.
var ErrMalformed = errors.New("wire: malformed")

// Errors of the ErrMalformed family; values, because a hostile client can make them at any rate.
var (
	ErrFrameLength   error = malformedError("frame length outside 4 … 16777212")
	ErrEncoding      error = malformedError("header encoding is neither JSON nor binary")
	ErrHeaderLength  error = malformedError("header length points behind the frame")
	ErrHeaderBinary  error = malformedError("binary header does not parse")
	ErrHeaderJSON    error = malformedError("JSON header does not parse")
	ErrHeaderNumber  error = malformedError("number in the JSON header is not a 32-bit integer")
	ErrMissingOpaque error = malformedError("JSON header without opaque")
	ErrTooManyExt    error = malformedError("too many ext fields")
	ErrDepth         error = malformedError("JSON nested too deeply")
)

type malformedError string

func (e malformedError) Error() string { return "wire: malformed: " + string(e) }

func (e malformedError) Is(target error) bool { return target == ErrMalformed }

// HeaderError tells which ext field of a request keeps it from being understood. The frame itself is sound: answer with
// an error code and this text, and keep the connection.
type HeaderError struct {
	Field  string // full name of the field, also for the one-letter keys of SEND_MESSAGE_V2
	Value  string // the offending text, cut to 64 bytes; empty when Reason is ReasonMissing
	Reason string
}

// Reasons in a HeaderError.
const (
	ReasonMissing = "is missing"
	ReasonInt32   = "is not a 32-bit integer"
	ReasonInt64   = "is not a 64-bit integer"
	ReasonFloat   = "is not a number"
)

func (e *HeaderError) Error() string {
	if e.Reason == ReasonMissing {
		return fmt.Sprintf("request header field %s %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("request header field %s %s: %q", e.Field, e.Reason, e.Value)
}

func fieldMissing(field string) *HeaderError {
	return &HeaderError{Field: field, Reason: ReasonMissing}
}

func fieldInvalid(field, reason string, value []byte) *HeaderError {
	const shown = 64
	return &HeaderError{Field: field, Reason: reason, Value: string(value[:min(len(value), shown)])}
}
