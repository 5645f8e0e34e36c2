//go:build !linux

package sysio

import (
	"errors"
	"time"
)

// The facts below are read from Linux' proc file system; elsewhere they are unknown and callers use their defaults.

func PhysicalMemory() (int64, error) { return 0, errors.ErrUnsupported }

func MemAvailable() (int64, error) { return 0, errors.ErrUnsupported }

func MemFree() (int64, error) { return 0, errors.ErrUnsupported }

func RssAnon() (int64, error) { return 0, errors.ErrUnsupported }

func RssAnonOf(int) (int64, error) { return 0, errors.ErrUnsupported }

func CPUOf(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func BootID() (string, error) { return "", errors.ErrUnsupported }

func DirtyLimits() (background, throttle int64, err error) { return 0, 0, errors.ErrUnsupported }
