package netio

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"peregrine/wire"
)

func TestSplitAndGluedFramesAnswerAlike(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		s := startServer(t, &scripted{}, loops(n))
		t.Run("1 byte per segment", func(t *testing.T) {
			c := dial(t, s.addr)
			a, b := frameOf(1, 40), frameOf(2, 4)
			for _, x := range appendFrame(appendFrame(nil, a), b) {
				c.send([]byte{x})
			}
			c.expect(a)
			c.expect(b)
		})
		t.Run("100 frames in one segment", func(t *testing.T) {
			c := dial(t, s.addr)
			var all []byte
			for i := range 100 {
				all = appendFrame(all, frameOf(i, 4+i))
			}
			c.send(all)
			for i := range 100 {
				c.expect(frameOf(i, 4+i))
			}
		})
		t.Run("4 MiB in 1000 segments", func(t *testing.T) {
			c := dial(t, s.addr)
			f := frameOf(7, 4<<20)
			go func() {
				b := appendFrame(nil, f)
				for len(b) > 0 {
					k := min(len(b), len(f)/1000+1)
					if _, err := c.Write(b[:k]); err != nil {
						return
					}
					b = b[k:]
				}
			}()
			c.expect(f)
		})
		eventually(t, "all gathered bytes given back", func() bool { return s.Stats().GatheredBytes == 0 })
	})
}

func TestLargestFrameIsAccepted(t *testing.T) {
	s := startServer(t, &scripted{}, nil)
	c := dial(t, s.addr)
	f := frameOf(1, wire.FrameLengthMax)
	go func() { _, _ = c.Write(appendFrame(nil, f)) }()
	c.expect(f)
	c.ping(2)
}

func TestIllegalLengthClosesOnlyThatConnection(t *testing.T) {
	s := startServer(t, &scripted{}, nil)
	other := dial(t, s.addr)
	other.ping(1)
	for _, word := range []uint32{0, 1, 3, wire.FrameLengthMax + 1, 1 << 24, 1 << 31, 1<<32 - 1} {
		c := dial(t, s.addr)
		c.ping(2) // so that it is not taken for a foreign protocol
		c.send(binary.BigEndian.AppendUint32(nil, word))
		c.expectClosed()
	}
	other.ping(3)
	if got := s.Stats().Closed[ErrFrameLength.Label()]; got != 7 {
		t.Errorf("%d connections closed for their length, want 7", got)
	}
}

func TestAnswersBeforeAnIllegalLengthAreSent(t *testing.T) {
	s := startServer(t, &scripted{}, nil)
	c := dial(t, s.addr)
	f := frameOf(1, 100)
	c.send(append(appendFrame(nil, f), 0, 0, 0, 0))
	c.expect(f)
	c.expectClosed()
}

// Case X03: what is held follows what has arrived, not what was announced.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	s := startServer(t, &scripted{}, nil)
	const conns, sent = 500, 40
	for range conns {
		c := dial(t, s.addr)
		c.send(append(binary.BigEndian.AppendUint32(nil, wire.FrameLengthMax), make([]byte, sent)...))
	}
	eventually(t, "all beginnings gathered", func() bool { return s.Stats().BytesIn == conns*(sent+4) })
	if held := s.Stats().GatheredBytes; held > conns*1024 {
		t.Errorf("%d bytes held for %d bytes that arrived", held, conns*sent)
	}
}

func TestGatherBudgetClosesTheOneWhoAsks(t *testing.T) {
	s := startServer(t, &scripted{}, func(o *Options) { o.Limits.GatheredBytes = 2 << 20 })
	small := dial(t, s.addr)
	small.ping(1)
	greedy := dial(t, s.addr)
	go func() { _, _ = greedy.Write(appendFrame(nil, frameOf(1, 8<<20))) }()
	greedy.expectClosedAnyhow()
	if got := s.Stats().Closed[ErrGatherBudget.Label()]; got != 1 {
		t.Errorf("%d connections closed by the budget, want 1", got)
	}
	small.ping(2)
	eventually(t, "gathered bytes given back", func() bool { return s.Stats().GatheredBytes == 0 })
}

// expectClosedAnyhow allows a reset: the server closed with our bytes unread.
func (c *client) expectClosedAnyhow() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c); n > 0 {
		c.t.Fatalf("%d bytes before the close (%v)", n, err)
	}
}

// bareConn stands in for gnet's connection where only output is looked at.
type bareConn struct {
	gnet.Conn
	out []byte
}

func (b *bareConn) OutboundBuffered() int { return 0 }
func (b *bareConn) Write(p []byte) (int, error) {
	b.out = append(b.out, p...)
	return len(p), nil
}
func (b *bareConn) Writev(bs [][]byte) (int, error) {
	for _, p := range bs {
		b.out = append(b.out, p...)
	}
	return 0, nil
}

// bareLoop is a loop without an engine, with one connection.
func bareLoop(t testing.TB, h Handler) (*Loop, *Conn, *bareConn) {
	s, err := New(Options{Addrs: []string{"127.0.0.1:0"}, EventLoops: 1, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	l := s.loops[0]
	gc := new(bareConn)
	c := &Conn{loop: l, gc: gc}
	l.register(c)
	return l, c, gc
}

// FuzzChunkedFrames checks that the cuts between reads never change what the handler gets.
func FuzzChunkedFrames(f *testing.F) {
	whole := appendFrame(appendFrame(appendFrame(nil, frameOf(1, 10)), frameOf(2, 3000)), frameOf(3, 4))
	f.Add(whole, uint64(1))
	f.Add(append(whole, 0, 0, 0), uint64(2))
	f.Add(append(whole, 0, 0, 0, 1, 9), uint64(3))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint64(4))
	f.Add([]byte{0, 0, 0}, uint64(5))
	f.Add([]byte{0, 0xFF, 0xFF, 0xFC, 1, 2, 3}, uint64(6))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		var want []byte
		legal := true
		for rest := data; ; {
			frame, size, err := wire.SplitFrame(rest)
			if err != nil {
				legal = false
			}
			if err != nil || frame == nil {
				break
			}
			want = appendFrame(want, frame)
			rest = rest[size:]
		}
		l, c, gc := bareLoop(t, &scripted{})
		rng := rand.New(rand.NewPCG(seed, 0))
		read := make([]byte, 0, len(data))
		for rest := data; len(rest) > 0 && !c.closing; {
			k := 1 + rng.IntN(min(len(rest), 1+rng.IntN(600)))
			read = append(read[:0], rest[:k]...) // one buffer for all reads, as in gnet
			l.take(c, read)
			l.callTurnEnd(c)
			l.flush()
			for _, b := range l.turnBuffers {
				l.releaseGather(b.buf, b.cost)
			}
			l.turnBuffers = l.turnBuffers[:0]
			clear(read)
			rest = rest[k:]
		}
		if !bytes.Equal(gc.out, want) {
			t.Fatalf("echoed %d bytes, want %d", len(gc.out), len(want))
		}
		// The first byte may give away TLS before a whole length word is there.
		if tls := len(data) > 0 && data[0] == 0x16; legal == c.closing && !tls {
			t.Fatalf("legal %v, closing %v", legal, c.closing)
		}
		if held := l.srv.gathered.Load(); c.gather == nil && held != 0 {
			t.Fatalf("%d gathered bytes are charged to nobody", held)
		}
	})
}

func TestIdleConnectionsAndStalledFramesAreClosed(t *testing.T) {
	reasons := make(chan error, 2)
	s := startServer(t, &scripted{closed: func(_ *Conn, r error) { reasons <- r }}, func(o *Options) {
		o.Limits.IdleTimeout = 300 * time.Millisecond
		o.Limits.FrameTimeout = 300 * time.Millisecond
		o.Limits.SweepInterval = 20 * time.Millisecond
	})
	idle := dial(t, s.addr)
	idle.ping(1)
	idle.expectClosed()
	if r := <-reasons; r != ErrIdle {
		t.Errorf("closed for %v, want idle", r)
	}
	slow := dial(t, s.addr)
	slow.send([]byte{0, 0, 1, 0})
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond) // a byte now and then: not idle
		defer tick.Stop()
		for range tick.C {
			if _, err := slow.Write([]byte{1}); err != nil {
				return
			}
		}
	}()
	if r := <-reasons; r != ErrFrameStalled {
		t.Errorf("closed for %v, want a stalled frame", r)
	}
	<-done
}
