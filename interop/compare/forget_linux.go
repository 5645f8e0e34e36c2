package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// forgetPages makes the kernel drop what it has of the file in memory. What nobody has synced yet is synced first.
func forgetPages(f *os.File) error {
	return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}
