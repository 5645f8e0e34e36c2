package netio

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// waker wakes one gnet loop with a system call and nothing else: gnet's Execute allocates a closure and
// a queue node each time. It is an eventfd that the loop watches as one of its connections, though it is
// no client: it has no slot, counts for no limit, and the Handler never sees it.
type waker struct {
	loop *Loop
	fd   int       // ours, constant; gnet has a duplicate and closes that itself
	one  [8]byte   // what is added to the counter
	once sync.Once // closes fd
	gc   gnet.Conn // of the loop, set in onOpen
}

// bell is how a loop is woken: by its *waker, else by the *Loop itself through gnet's Execute.
type bell interface{ ring() }

// ring asks gnet to run l.Run on the loop: two or three allocations inside gnet. It fails only after
// the engine has ended, and then nothing is drained any more: Server.finish releases what is left.
func (l *Loop) ring() { _ = l.el.Execute(context.Background(), l) }

// ring makes the eventfd readable. It cannot block: that takes 2^64 wake-ups that nobody has read.
// hot: 0 allocs.
func (w *waker) ring() {
	for {
		switch _, err := unix.Write(w.fd, w.one[:]); err {
		case nil, unix.EAGAIN:
			return
		case unix.EINTR:
		default:
			w.loop.ring()
			return
		}
	}
}

// close closes our descriptor; only when nobody rings any more.
func (w *waker) close() { w.once.Do(func() { _ = unix.Close(w.fd) }) }

// newWaker makes a waker and what EventLoop.Enroll is to get, which works on a duplicate of its
// descriptor and closes it. Enroll wants a TCP, UDP or Unix connection, but of a Unix one it uses the
// descriptor alone (its addresses are those of before). So the eventfd is put into the place of a
// socket: a socket pair in its stead costs 0.6 us more for each wake-up.
func newWaker(l *Loop) (w *waker, conn net.Conn, err error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("eventfd", err)
	}
	conn, err = unixConn()
	if err == nil {
		err = replaceDescriptor(conn.(syscall.Conn), fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		if conn != nil {
			_ = conn.Close()
		}
		return nil, nil, err
	}
	w = &waker{loop: l, fd: fd}
	binary.NativeEndian.PutUint64(w.one[:], 1)
	return w, conn, nil
}

// unixConn is a connected Unix socket whose peer is gone.
func unixConn() (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	f := os.NewFile(uintptr(fds[0]), "waker")
	conn, err := net.FileConn(f) // a duplicate; it needs the peer for its address
	_ = f.Close()
	_ = unix.Close(fds[1])
	return conn, err
}

// replaceDescriptor makes the descriptor of conn a duplicate of fd, closing what it was.
func replaceDescriptor(conn syscall.Conn, fd int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var dup error
	err = raw.Control(func(old uintptr) { dup = unix.Dup3(fd, int(old), unix.O_CLOEXEC) })
	return errors.Join(err, os.NewSyscallError("dup3", dup))
}

// enroll starts the registration of the loop's waker. It is called on the loop, with its first
// connection; until the waker has been opened, or for good when that fails, Execute wakes the loop.
// enrolled is closed when the result is known.
func (l *Loop) enroll(enrolled chan<- struct{}) {
	w, conn, err := newWaker(l)
	if err != nil {
		l.noWaker(err)
		close(enrolled)
		return
	}
	// Enroll hands the work to a goroutine of gnet's pool (which lives on for seconds, idle), and that one
	// waits for the loop; so must we.
	results, err := l.el.Enroll(gnet.NewContext(context.Background(), w), conn)
	if err != nil {
		_ = conn.Close() // gnet has not touched it
		w.close()
		l.noWaker(err)
		close(enrolled)
		return
	}
	go func() {
		defer close(enrolled)
		var result gnet.RegisteredResult
		ended := false
		select {
		case result = <-results:
		case <-l.srv.done: // a loop that died before it saw the waker never answers
			ended = true
		}
		// No error does not mean success: gnet forgets one of epoll. What counts is OnOpen.
		if l.mail.opened(w) {
			return
		}
		w.close()
		if !ended {
			l.noWaker(result.Err)
		}
	}()
}

// noWaker says once in a while that a loop goes on with Execute.
func (l *Loop) noWaker(err error) {
	if l.mail.isEnded() {
		return // the engine ends: nobody is woken any more
	}
	if err == nil {
		err = errors.New("gnet does not watch it")
	}
	if suppressed, ok := l.srv.wakerLog.allow(time.Now()); ok {
		l.srv.log.Warn("an event loop is woken the slow way: its waker is not available",
			"loop", l.Index, "err", err, "suppressed", suppressed)
	}
}

// opened says whether w has been opened by gnet, now or before.
func (b *mailbox) opened(w *waker) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waker == w
}

func (b *mailbox) isEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// onOpen makes w the bell of its loop. A drain that Execute was asked for still comes.
func (w *waker) onOpen(gc gnet.Conn) gnet.Action {
	w.gc = gc
	b := &w.loop.mail
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return gnet.Close
	}
	b.waker, b.bell = w, w
	return gnet.None
}

// onTraffic is a drain. gnet has read the counter, which sets it to zero, before Run clears awake; so a
// post that finds it cleared makes the eventfd readable once more: no wake-up is lost.
// hot: 0 allocs.
func (w *waker) onTraffic() gnet.Action {
	_, _ = w.gc.Discard(-1)
	_ = w.loop.Run(context.Background())
	return gnet.None
}

// onClose is the end of the engine. Should it come for another reason, Execute takes over and asks once
// more for the drain that is on its way, because what was written for it may not be read any more.
func (w *waker) onClose(err error) {
	l := w.loop
	b := &l.mail
	b.mu.Lock()
	if b.ended || b.bell != w {
		b.mu.Unlock()
		return
	}
	b.bell = l
	due := b.awake
	if due {
		b.ringing.Add(1)
	}
	b.mu.Unlock()
	if due {
		l.ring()
		b.ringing.Done()
	}
	l.noWaker(err)
}

// hush ends the mailboxes while gnet's pollers and our wakers are still open: afterwards
// nobody is between the decision to ring and the system call, which would hit whoever owns the
// descriptor by then.
func (s *Server) hush() {
	s.claimMu.Lock()
	s.hushed = true // no more claims, hence no more wakers
	s.claimMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), enrollPatience)
	defer cancel()
	for _, l := range s.loops {
		if l.enrolled == nil {
			continue
		}
		select {
		case <-l.enrolled: // its descriptor is known to gnet's loop, which closes it
		case <-ctx.Done():
		}
	}
	for _, l := range s.loops {
		l.mail.mu.Lock()
		l.mail.ended = true
		l.mail.mu.Unlock()
		l.mail.ringing.Wait()
	}
}
