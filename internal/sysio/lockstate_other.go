//go:build !linux

package sysio

import (
	"errors"
	"os"
)

// LockState cannot tell here: flock(2) has no question.
func LockState(path string) (held bool, pid int, err error) {
	return false, 0, &os.PathError{Op: "query lock", Path: path, Err: errors.ErrUnsupported}
}
