package sysio

import (
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// CPUCount returns how many CPUs this process may use at a time, as of its start. The runtime honours affinity and, since Go 1.25,
// the CPU quota of the cgroup.
func CPUCount() int { return runtime.GOMAXPROCS(0) - int(spareProcessors.Load()) }

// spareProcessors is how many processors Go has beside those of the machine.
var spareProcessors atomic.Int32

// AddSpareProcessor lets one goroutine more run than there are CPUs. One that is in a long system call (a sync, zeroing pages ahead) keeps
// its processor until the runtime takes it away, up to 10 ms later, and who was waiting for that one, a loop or dispatch, then
// has another. Nothing changes where GOMAXPROCS is set, or at the second call. From here on the runtime does not follow a quota or an
// affinity that changes.
func AddSpareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" && spareProcessors.CompareAndSwap(0, 1) {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// MemLockLimit returns how many bytes an ordinary process may lock into memory (the soft RLIMIT_MEMLOCK); the kernel lets one with
// CAP_IPC_LOCK lock more.
func MemLockLimit() (uint64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim); err != nil {
		return 0, err
	}
	return uint64(lim.Cur), nil
}

// RaiseNoFile raises the soft limit of open descriptors to the hard one and returns the limit that holds now, also beside an
// error.
func RaiseNoFile() (uint64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0, err
	}
	if lim.Cur >= lim.Max {
		return uint64(lim.Cur), nil
	}
	raised := unix.Rlimit{Cur: lim.Max, Max: lim.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		return uint64(lim.Cur), err
	}
	return uint64(raised.Cur), nil
}
