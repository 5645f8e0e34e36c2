//go:build !linux

package main

import (
	"errors"
	"os"
)

func forgetPages(*os.File) error {
	return errors.New("the page cache can be dropped on Linux only")
}
