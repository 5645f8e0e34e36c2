package interop

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// ownGroup: a group of its own for killGroup, and death with the test binary, which may be ended by its own time limit.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// starts gives commands to the one thread that starts them all.
var starts = sync.OnceValue(func() chan<- start {
	commands := make(chan start)
	go func() {
		runtime.LockOSThread()
		for s := range commands {
			s.err <- s.cmd.Start()
		}
	}()
	return commands
})

type start struct {
	cmd *exec.Cmd
	err chan error
}

// startCommand starts a command whose attributes are those of ownGroup. The kernel sends Pdeathsig when the starting thread ends, not the
// process, and threads end here: each worker of the load generator takes its own along. So one thread that never ends starts them all.
func startCommand(cmd *exec.Cmd) error {
	s := start{cmd, make(chan error)}
	starts() <- s
	return <-s.err
}
