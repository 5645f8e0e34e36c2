package sysio

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// largeFolioBytes is what one fault brings in of a mapping that is advised as huge.
const largeFolioBytes = 2 << 20

// boundReadAhead makes faults in b bring in largeFolioBytes and no more, where the device of the file reads more ahead.
func boundReadAhead(path string, b []byte) error {
	ahead, err := readAheadOf(path)
	if err != nil || ahead <= largeFolioBytes {
		return err
	}
	if err := unix.Madvise(b, unix.MADV_HUGEPAGE); err != nil {
		return err // a kernel without huge pages; at random it would bring in single pages
	}
	return unix.Madvise(b, unix.MADV_RANDOM)
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
