//go:build unix && !linux

package interop

import (
	"os/exec"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

func startCommand(cmd *exec.Cmd) error { return cmd.Start() }
