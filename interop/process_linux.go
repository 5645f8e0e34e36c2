package interop

import "syscall"

// ownGroup: a group of its own for killGroup, and death with the test binary, which may be ended by its own time limit.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
