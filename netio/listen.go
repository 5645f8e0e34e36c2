package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// ProbeAddrs binds all addresses for a moment, so that what is wrong is one error which names the
// address; gnet's own does not, and leaves the listeners open that it had made before.
func ProbeAddrs(addrs []string) error {
	var held []net.Listener
	defer func() {
		for _, ln := range held {
			_ = ln.Close()
		}
	}()
	for i, addr := range addrs {
		ln, err := net.Listen("tcp", addr)
		if err == nil {
			held = append(held, ln)
			continue
		}
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			for _, other := range addrs[:i] {
				if portOf(other) == portOf(addr) {
					return fmt.Errorf("cannot listen on %s: %w by our own %s: give the ports different numbers", addr, ErrPortInUse, other)
				}
			}
			return fmt.Errorf("cannot listen on %s: %w: stop the process that holds it, or choose another port", addr, ErrPortInUse)
		case errors.Is(err, syscall.EACCES):
			return fmt.Errorf("cannot listen on %s: permission denied: ports below 1024 need privileges", addr)
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			return fmt.Errorf("cannot listen on %s: this machine has no such address", addr)
		}
		return fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	return nil
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// gnetAddrs spells the addresses for gnet. It finds a listener by its text alone, so each port 0 gets
// a text of its own: 0, 00, 000 …
func gnetAddrs(addrs []string) []string {
	out := make([]string, len(addrs))
	zeros := 0
	for i, addr := range addrs {
		if portOf(addr) == "0" {
			addr += strings.Repeat("0", zeros)
			zeros++
		}
		out[i] = "tcp://" + addr
	}
	return out
}

// settle asks the kernel which ports were bound and cuts the backlog of each listener: gnet takes
// somaxconn, accepts until the queue is empty and registers later, so a burst of 4,096 connections
// would reach the descriptor limit before any loop could refuse one.
func (s *Server) settle(eng gnet.Engine) ([]netip.AddrPort, error) {
	bound := make([]netip.AddrPort, len(s.opts.Addrs))
	for i, addr := range gnetAddrs(s.opts.Addrs) {
		fd, err := eng.DupListener("tcp", strings.TrimPrefix(addr, "tcp://"))
		if err != nil {
			return nil, fmt.Errorf("cannot look at the listener of %s: %w", s.opts.Addrs[i], err)
		}
		bound[i], err = socketAddr(fd)
		if err == nil {
			// On a listening socket this only changes the backlog; the duplicate is the same socket.
			err = os.NewSyscallError("listen", unix.Listen(fd, s.backlog))
		}
		_ = unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("cannot set up the listener of %s: %w", s.opts.Addrs[i], err)
		}
	}
	return bound, nil
}

// socketAddr is the local address of a socket, IPv4 unmapped.
func socketAddr(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, os.NewSyscallError("getsockname", err)
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("unexpected address family %T", sa)
}

// listenerOf returns the index of the listener that gc came through. gnet's LocalAddr is the
// listener's own address, one pointer for all of its connections, so the kernel is asked once per
// listener and loop.
func (l *Loop) listenerOf(gc gnet.Conn) int {
	addr := gc.LocalAddr()
	for _, known := range l.locals {
		if known.addr == addr {
			return known.listener
		}
	}
	local, err := socketAddr(gc.Fd())
	if err != nil {
		return 0 // the connection is broken already; its first read will say so
	}
	found := matchListener(l.srv.bound, local)
	l.locals = append(l.locals, localAddr{addr, found})
	return found
}

// matchListener finds the bound address that a connection with this local address came through: the
// exact one, else the wildcard of its port.
func matchListener(bound []netip.AddrPort, local netip.AddrPort) int {
	found := 0
	for i, b := range bound {
		if b == local {
			return i
		}
		if b.Port() == local.Port() && b.Addr().IsUnspecified() {
			found = i
		}
	}
	return found
}
