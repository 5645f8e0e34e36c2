package message

import "errors"

// ErrCorrupt is what every error about impossible bytes matches with errors.Is.
var ErrCorrupt = errors.New("message: corrupt")

// ErrTornTail tells that the input ends before the record does.
var ErrTornTail = errors.New("message: record is cut off")

// ErrBlank tells that ParseView met the end-of-file mark; View.Size holds the bytes left in the file, counted from it.
var ErrBlank = errors.New("message: end-of-file mark")

// ErrNoRecord tells that nothing was ever written here: size and magic are both zero.
var ErrNoRecord = errors.New("message: no record")

// Errors of the ErrCorrupt family. They are values, because recovery meets them on its hot path.
var (
	ErrBadMagic      error = corruptError("unknown magic code")
	ErrBadSize       error = corruptError("total size is impossible")
	ErrBadLength     error = corruptError("a length field points outside the record")
	ErrSizeMismatch  error = corruptError("lengths do not add up to the total size")
	ErrBadMessageID  error = corruptError("malformed offset message id")
	ErrBadBatch      error = corruptError("malformed batch element")
	ErrBatchTornTail error = corruptError("batch element is cut off")
)

// corruptError is one member of the ErrCorrupt family.
type corruptError string

func (e corruptError) Error() string { return "message: corrupt: " + string(e) }

func (e corruptError) Is(target error) bool { return target == ErrCorrupt }
