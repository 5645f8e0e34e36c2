//go:build !linux

package sysio

import "runtime"

func kernelAndMemory() (kernel string, memoryBytes uint64) { return runtime.GOOS, 0 }

func fileSystemName(string) string { return "" }
