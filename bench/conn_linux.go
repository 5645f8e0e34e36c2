package bench

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

type connState uint8

const (
	connDown       connState = iota // waits for its time to connect
	connConnecting                  // a non-blocking connect is under way
	connUp
)

// conn is one connection of the load. It belongs to one worker.
type conn struct {
	index  int // in its worker; what epoll reports
	target *target
	state  connState
	fd     int

	frames *frames
	queue  int     // next queue to send to
	stream *stream // what it sent; nil of one that consumes
	puller *puller // nil of one that sends
	table  inflight
	answer answerReader

	rx             []byte
	rxFrom, rxTo   int // unread bytes of rx
	tx             []byte
	txFrom         int // unsent bytes are tx[txFrom:]
	wantsWritable  bool
	dirty          bool  // has composed frames that flush has not seen
	downSinceNs    int64 // when the connection was lost; 0 = it never was
	retryNs        int64 // when to connect again
	connectUntilNs int64 // when to give up a connect
}

func socketAddress(ap netip.AddrPort) (family int, sa unix.Sockaddr) {
	addr := ap.Addr().Unmap()
	if addr.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: addr.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: addr.As16()}
}

// dial starts a non-blocking connect; the outcome is reported as writability.
func (c *conn) dial() error {
	family, sa := socketAddress(c.target.ap)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("TCP_NODELAY: %w", err)
	}
	if err := unix.Connect(fd, sa); err != nil && err != unix.EINPROGRESS {
		_ = unix.Close(fd)
		return fmt.Errorf("connect to %s: %w", c.target.addr, err)
	}
	c.fd, c.state = fd, connConnecting
	return nil
}

// connected asks how a connect ended, once the descriptor is writable.
func (c *conn) connected() error {
	code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.target.addr, err)
	}
	c.state = connUp
	return nil
}

// hangUp closes the descriptor (which also takes it out of the epoll set) and forgets what was buffered.
func (c *conn) hangUp() {
	if c.state != connDown {
		_ = unix.Close(c.fd)
	}
	c.state = connDown
	c.rxFrom, c.rxTo = 0, 0
	c.tx, c.txFrom = c.tx[:0], 0
	c.wantsWritable, c.dirty = false, false
}

func (c *conn) unsent() int { return len(c.tx) - c.txFrom }

// room tells that one more frame may be composed now.
func (c *conn) room() bool {
	return c.state == connUp && !c.table.full() && c.unsent() < writeSoftBytes
}

// makeRoom makes space for need more bytes of one frame behind rxTo, moving or growing the buffer if it must.
func (c *conn) makeRoom(need int) {
	if c.rxFrom == c.rxTo {
		c.rxFrom, c.rxTo = 0, 0
	}
	if len(c.rx)-c.rxFrom >= need && c.rxTo < len(c.rx) {
		return
	}
	if need > len(c.rx) {
		grown := make([]byte, need)
		copy(grown, c.rx[c.rxFrom:c.rxTo])
		c.rx = grown
	} else {
		copy(c.rx, c.rx[c.rxFrom:c.rxTo])
	}
	c.rxFrom, c.rxTo = 0, c.rxTo-c.rxFrom
}
