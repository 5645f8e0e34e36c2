package sysio

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// largeFolioBytes is the most that one fault may bring in of a mapping that is advised as huge.
const largeFolioBytes = 2 << 20

// boundReadAhead makes faults in b bring in a huge page and no more, where the device of the file reads more than that ahead. Without huge
// pages, with larger ones, and on kernels that bring in single pages of such a mapping, all stays as it is.
func boundReadAhead(path string, b []byte) error {
	ahead, err := readAheadOf(path)
	if err != nil || ahead <= largeFolioBytes {
		return err
	}
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil {
		return err
	}
	if huge, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err != nil || huge > largeFolioBytes || !kernelAtLeast(5, 18) {
		return err
	}
	if err := unix.Madvise(b, unix.MADV_HUGEPAGE); err != nil {
		return err
	}
	return unix.Madvise(b, unix.MADV_RANDOM)
}

// kernelAtLeast tells whether this is Linux major.minor or a later one.
func kernelAtLeast(major, minor int) bool {
	var name unix.Utsname
	var a, b int
	if unix.Uname(&name) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

// readAheadOf is the most that the kernel reads ahead on the device that a file lies on, in bytes.
func readAheadOf(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, err
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	// A disk; a partition, which asks its disk; what has no disk of its own.
	var err error
	for _, place := range []string{"/sys/dev/block/" + device + "/queue", "/sys/dev/block/" + device + "/../queue", "/sys/class/bdi/" + device} {
		var text []byte
		if text, err = os.ReadFile(place + "/read_ahead_kb"); err == nil {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
			return kib << 10, err
		}
	}
	return 0, err
}
