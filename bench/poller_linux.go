package bench

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller is an epoll set with waits of nanosecond resolution. It belongs to one worker.
type poller struct {
	fd     int
	events [256]unix.EpollEvent
	coarse bool // the kernel has no epoll_pwait2 (before 5.11): waits are cut to whole milliseconds, the rest is spun
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &poller{fd: fd}, nil
}

func (p *poller) close() { _ = unix.Close(p.fd) }

// watch sets what is reported of fd; index comes back with each event.
func (p *poller) watch(op, fd, index int, writable bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(index)}
	if writable {
		ev.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(p.fd, op, fd, &ev)
}

// wait returns the events that are there, waiting at most waitNs for the first; none after that time is no error.
//
// hot: 0 allocs
func (p *poller) wait(waitNs int64) ([]unix.EpollEvent, error) {
	if !p.coarse {
		ts := unix.NsecToTimespec(max(waitNs, 0))
		// The pointers need no other protection: neither outlives the call.
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)),
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		switch errno {
		case 0:
			return p.events[:n], nil
		case unix.EINTR:
			return nil, nil
		case unix.ENOSYS, unix.EPERM: // old kernel, or a sandbox that does not know the call
			p.coarse = true
		default:
			return nil, errno
		}
	}
	n, err := unix.EpollWait(p.fd, p.events[:], int(waitNs/1e6))
	if err == unix.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.events[:n], nil
}
