package netio

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"
)

// answerLarge asks for an answer of so many bytes.
func answerLarge(size int) []byte {
	return appendFrame(nil, binary.BigEndian.AppendUint32(nil, uint32(size)))
}

// Case P14: clients that ask for much and read nothing are bounded, even if the handler never looks
// at IsBackedUp, and the others do not notice.
func TestClientsThatDoNotReadAreBounded(t *testing.T) {
	body := make([]byte, 1<<20)
	onLoops(t, func(t *testing.T, n int) {
		h := &scripted{frame: func(c *Conn, f []byte) {
			if size := binary.BigEndian.Uint32(f); len(f) == 4 {
				c.Out = binary.BigEndian.AppendUint32(c.Out, size)
				c.Writev([][]byte{body[:size/2], body[size/2 : size]})
				return
			}
			c.Out = appendFrame(c.Out, f)
		}}
		s := startServer(t, h, func(o *Options) {
			o.EventLoops = n
			o.Limits.OutboundHardBytes = 4 << 20
			o.Limits.OutboundBytes = 32 << 20
		})
		reader := dial(t, s.addr)
		reader.ping(1)
		debug.FreeOSMemory()
		before := rssAnonKB(t)
		var silent sync.WaitGroup
		for range 50 {
			silent.Go(func() {
				c := dialQuiet(t, s.addr)
				defer c.reset()
				for range 100 {
					if _, err := c.Write(answerLarge(1 << 20)); err != nil {
						return // closed already
					}
				}
				// Not reading, until the server gives it up.
				eventually(t, "the silent client closed", func() bool {
					_, err := c.Write(answerLarge(1 << 20))
					return err != nil
				})
			})
		}
		var worst time.Duration
		peakKB := 0
		eventually(t, "all silent clients closed", func() bool {
			start := time.Now()
			reader.ping(2)
			worst = max(worst, time.Since(start))
			peakKB = max(peakKB, rssAnonKB(t)-before)
			st := s.Stats()
			return st.Closed[ErrOutboundHard.Label()]+st.Closed[ErrOutboundBudget.Label()] == 50
		})
		silent.Wait()
		t.Logf("anonymous memory at most +%d MiB, worst ping %v", peakKB>>10, worst)
		// The budget, one answer of each above it, and garbage that the collector has not seen yet.
		if peakKB > 256<<10 {
			t.Errorf("anonymous memory grew by %d MiB", peakKB>>10)
		}
		reader.ping(3)
	})
}

// A handler that parks on IsBackedUp keeps a slow reader alive and within the soft mark.
func TestParkedAnswersGoOnWhenTheClientReads(t *testing.T) {
	const soft, answer, wanted = 256 << 10, 64 << 10, 200
	body := make([]byte, answer)
	type state struct{ due int }
	peak := 0
	pump := func(c *Conn) {
		st := c.State.(*state)
		for st.due > 0 && !c.IsBackedUp() {
			c.Out = appendFrame(c.Out, body)
			st.due--
		}
		peak = max(peak, c.OutboundBuffered())
	}
	h := &scripted{
		opened: func(c *Conn) { c.State = new(state) },
		frame:  func(c *Conn, _ []byte) { c.State.(*state).due++; pump(c) },
		mail: func(l *Loop, m Mail) {
			if c := l.Conn(m.Ref); m.Kind == MailDrained && c != nil {
				pump(c)
			}
		},
	}
	s := startServer(t, h, func(o *Options) {
		o.Limits.OutboundSoftBytes = soft
		o.Limits.OutboundHardBytes = soft + answer
	})
	c := dial(t, s.addr)
	for range wanted {
		c.send(answerLarge(1))
	}
	eventually(t, "all requests taken", func() bool { return s.Stats().Frames == wanted })
	for range wanted {
		if got := len(c.recv()); got != answer {
			t.Fatalf("answer of %d bytes", got)
		}
	}
	s.Shutdown(0, nil) // the loop has ended: peak may be read
	if peak > soft+answer+8 {
		t.Errorf("%d bytes were buffered, soft mark %d", peak, soft)
	}
}

// Trap 14: gnet's Close drops what the socket did not take; CloseAfterTurn waits for it.
func TestLastAnswerArrivesBeforeTheClose(t *testing.T) {
	const size = 6 << 20 // more than the socket buffers hold
	s := startServer(t, &scripted{frame: func(c *Conn, f []byte) {
		c.Out = appendFrame(c.Out, make([]byte, size))
		c.CloseAfterTurn(io.EOF)
	}}, nil)
	c := dial(t, s.addr)
	c.send(answerLarge(1))
	eventually(t, "the turn over", func() bool { return s.Stats().Frames == 1 })
	c.send(answerLarge(1)) // comes too late: ignored
	if got := len(c.recv()); got != size {
		t.Fatalf("the last answer has %d bytes", got)
	}
	c.expectClosed()
	if st := s.Stats(); st.Frames != 1 || st.Closed["handler"] != 1 {
		t.Errorf("frames %d, closed %v", st.Frames, st.Closed)
	}
}

func TestLingeringEndsWithoutAReader(t *testing.T) {
	s := startServer(t, &scripted{frame: func(c *Conn, f []byte) {
		c.Out = appendFrame(c.Out, make([]byte, 8<<20))
		c.CloseAfterTurn(io.EOF)
	}}, func(o *Options) { o.Limits.CloseLinger = 50 * time.Millisecond })
	dial(t, s.addr).send(answerLarge(1))
	eventually(t, "the connection given up", func() bool { return s.Stats().Closed["handler"] == 1 })
}

// Traps 12 and the vector of x/sys: any number and size of parts arrive in order, the parts stay
// untouched, nothing is allocated.
func TestWritevKeepsOrderAndParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 300
	if raceEnabled {
		rounds = 20
	}
	for range rounds {
		l, c, gc := bareLoop(t, &scripted{})
		c.Touch()
		c.Out = append(c.Out, make([]byte, rng.IntN(2)*rng.IntN(300))...)
		want := bytes.Clone(c.Out)
		parts := make([][]byte, rng.IntN(3000))
		for i := range parts {
			parts[i] = make([]byte, rng.IntN(1+rng.IntN(2*writevMergeBytes)))
			for k := range parts[i] {
				parts[i][k] = byte(rng.Int())
			}
			want = append(want, parts[i]...)
		}
		lens := func() (n []int) {
			for _, p := range parts {
				n = append(n, len(p))
			}
			return n
		}
		before := lens()
		c.Writev(parts)
		l.flush()
		if !bytes.Equal(gc.out, want) {
			t.Fatalf("%d parts: got %d bytes, want %d", len(parts), len(gc.out), len(want))
		}
		if !slices.Equal(before, lens()) {
			t.Fatal("the caller's slices were changed")
		}
		if l.iov[0] != nil || l.bytesOut != uint64(len(want)) {
			t.Fatalf("a slice is kept, or %d bytes counted", l.bytesOut)
		}
	}
}

func TestWritevThroughASocketInPieces(t *testing.T) {
	parts := make([][]byte, 5000)
	var want []byte
	for i := range parts {
		parts[i] = frameOf(i, 4+i%1800)
		want = append(want, parts[i]...)
	}
	s := startServer(t, &scripted{frame: func(c *Conn, _ []byte) {
		c.Out = binary.BigEndian.AppendUint32(c.Out, uint32(len(want)))
		c.Writev(parts)
	}}, nil)
	c := dial(t, s.addr)
	for range 3 {
		c.send(answerLarge(1))
		if !bytes.Equal(c.recv(), want) {
			t.Fatal("the parts arrived changed")
		}
	}
}
