package netio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestListenersAreToldApart(t *testing.T) {
	// The handler answers with the index; one address is a fixed port, one a wildcard.
	port := freePort(t)
	h := &scripted{frame: func(c *Conn, _ []byte) {
		c.Out = appendFrame(c.Out, []byte{byte(c.Listener), byte(c.Remote.Port() >> 8), byte(c.Remote.Port()), 0})
	}}
	onLoops(t, func(t *testing.T, n int) {
		s := startServer(t, h, func(o *Options) {
			o.Addrs = []string{"127.0.0.1:0", port, "0.0.0.0:0", "127.0.0.1:0"}
			o.EventLoops = n
		})
		for range 3 {
			for i, addr := range s.Addrs() {
				c := dial(t, fmt.Sprintf("127.0.0.1:%d", addr.Port()))
				c.send(appendFrame(nil, frameOf(1, 8)))
				me := c.LocalAddr().(*net.TCPAddr).Port
				if got := c.recv(); int(got[0]) != i || int(got[1])<<8|int(got[2]) != me {
					t.Errorf("listener %d says %d, port %d says %v", i, got[0], me, got[1:3])
				}
			}
		}
	})
}

func TestMatchListenerPrefersTheExactAddress(t *testing.T) {
	bound := []netip.AddrPort{
		netip.MustParseAddrPort("0.0.0.0:9876"),
		netip.MustParseAddrPort("192.0.2.7:10911"),
		netip.MustParseAddrPort("[::]:10909"),
		netip.MustParseAddrPort("192.0.2.8:10911"),
	}
	for local, want := range map[string]int{
		"192.0.2.9:9876": 0, "192.0.2.7:10911": 1, "192.0.2.8:10911": 3, "[2001:db8::1]:10909": 2, "192.0.2.9:10909": 2,
	} {
		if got := matchListener(bound, netip.MustParseAddrPort(local)); got != want {
			t.Errorf("%s came through listener %d, want %d", local, got, want)
		}
	}
}

func TestAddressErrorsNameTheAddress(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	taken := held.Addr().String()
	for _, c := range []struct {
		addrs []string
		says  string
	}{
		{[]string{"127.0.0.1:0", taken}, "cannot listen on " + taken + ": address already in use"},
		{[]string{"192.0.2.1:0"}, "cannot listen on 192.0.2.1:0: this machine has no such address"},
		{[]string{"127.0.0.1:99999"}, "127.0.0.1:99999"},
		{[]string{"nonsense"}, "nonsense"},
	} {
		s, err := New(Options{Addrs: c.addrs, EventLoops: 1, Handler: &scripted{}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Start(context.Background())
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want one line with %q", c.addrs, err, c.says)
		}
		s.Shutdown(0, nil) // allowed, and does not hang
	}
	_ = held.Close()
	s, err := New(Options{Addrs: []string{taken, taken}, EventLoops: 1, Handler: &scripted{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); !errors.Is(err, ErrPortInUse) || !strings.Contains(err.Error(), "our own") {
		t.Errorf("the same address twice: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{EventLoops: 1, Handler: &scripted{}},
		{Addrs: []string{"127.0.0.1:0"}, EventLoops: 1},
		{Addrs: []string{"127.0.0.1:0"}, Handler: &scripted{}},
		{Addrs: []string{"127.0.0.1:0"}, Handler: &scripted{}, EventLoops: eventLoopsMax + 1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Traps 15 and 16: what is in flight is answered, new clients are refused, and the port can be taken
// again at once although connections were open.
func TestShutdownDrainsAndThePortIsFreeAgain(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		work := make(chan Mail, 1)
		h := &scripted{frame: func(c *Conn, f []byte) {
			c.BeginRequest()
			work <- answerTo(c.Ref, f, 1)
		}}
		s := startServer(t, h, loops(n))
		c := dial(t, s.addr)
		c.send(appendFrame(nil, frameOf(1, 4<<20)))
		m := <-work
		end := make(chan struct{})
		go func() {
			s.Shutdown(patience, func() bool { return s.Stats().InFlight == 0 })
			close(end)
		}()
		eventually(t, "the stop was ordered", s.Stopping)
		late := dial(t, s.addr)
		late.expectClosed()
		select {
		case <-end:
			t.Fatal("ended with a request in flight")
		default:
		}
		if !s.Post(int(m.Ref.Loop), m) {
			t.Fatal("the answer was refused during the drain")
		}
		c.expect(frameOf(1, 4<<20))
		<-end
		c.expectClosed()
		if s.Err() != nil {
			t.Errorf("an ordered end is an error: %v", s.Err())
		}
		again := startServer(t, &scripted{}, func(o *Options) { o.Addrs = []string{s.addr} })
		dial(t, again.addr).ping(2)
	})
}

func TestShutdownGivesUpAtTheDeadline(t *testing.T) {
	var closed atomic.Int64
	s := startServer(t, &scripted{closed: func(_ *Conn, r error) {
		if r == ErrShutdown {
			closed.Add(1)
		}
	}}, nil)
	c := dial(t, s.addr)
	c.ping(1)
	start := time.Now()
	s.Shutdown(100*time.Millisecond, func() bool { return false })
	if took := time.Since(start); took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if closed.Load() != 1 {
		t.Error("the handler was not told")
	}
}

func TestRunEndsWithShutdown(t *testing.T) {
	s, err := New(Options{Addrs: []string{"127.0.0.1:0"}, EventLoops: 1, Handler: &scripted{}})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- s.Run(context.Background()) }()
	<-s.started
	s.Shutdown(0, nil)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// The handler's TurnWritten waits until the client has its answer: it would for ever if it came before the write.
func TestTurnWrittenFollowsTheAnswers(t *testing.T) {
	received := make(chan struct{})
	armed := atomic.Bool{}
	h := &scripted{frame: func(c *Conn, f []byte) { // on the loop, so that no turn before this one meets it
		c.Out = appendFrame(c.Out, f)
		armed.Store(bytes.Equal(f, frameOf(2, 16)))
	}}
	h.turnWritten = func(l *Loop) {
		if !armed.CompareAndSwap(true, false) {
			return
		}
		select {
		case <-received:
		case <-time.After(10 * time.Second):
			t.Error("TurnWritten ran before the turn's answer was written")
		}
	}
	s := startServer(t, h, nil)
	c := dial(t, s.addr)
	c.ping(1)
	c.send(appendFrame(nil, frameOf(2, 16)))
	c.expect(frameOf(2, 16))
	close(received)
	eventually(t, "TurnWritten runs", func() bool { return !armed.Load() })
}
