package netio

import (
	"bytes"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

// Trap 19: a panic in any callback ends one connection, not the process.
func TestPanicClosesOneConnection(t *testing.T) {
	var where atomic.Value
	var third atomic.Bool // frame 3 is in this turn
	where.Store("")
	refs := make(chan ConnRef, 16)
	bomb := func(at string) {
		if at == where.Load() {
			panic("bomb in " + at)
		}
	}
	h := &scripted{
		opened: func(c *Conn) { refs <- c.Ref; bomb("Opened") },
		frame: func(c *Conn, f []byte) {
			c.Out = appendFrame(c.Out, f)
			third.Store(bytes.Equal(f, frameOf(3, 16)))
			bomb("Frame")
		},
		turnEnd: func(l *Loop) { bomb("TurnEnd") },
		turnWritten: func(l *Loop) { // that of an earlier turn comes when its client has the answer already
			if third.Swap(false) {
				bomb("TurnWritten")
			}
		},
		mail:   func(l *Loop, m Mail) { bomb("Mail") },
		closed: func(c *Conn, reason error) { bomb("Closed") },
	}
	for _, at := range []string{"Opened", "Frame", "TurnEnd", "TurnWritten", "Mail", "Closed"} {
		t.Run(at, func(t *testing.T) {
			where.Store("")
			s := startServer(t, h, nil)
			other := dial(t, s.addr)
			other.ping(1)
			<-refs
			c := dial(t, s.addr)
			if at != "Opened" {
				c.ping(2)
			} else {
				c.ping(2)
				<-refs
				where.Store(at)
				c = dial(t, s.addr)
			}
			ref := <-refs
			where.Store(at)
			switch at {
			case "Frame", "TurnEnd", "TurnWritten":
				c.send(appendFrame(nil, frameOf(3, 16)))
				c.expect(frameOf(3, 16)) // what was answered before is still sent
			case "Mail":
				s.Post(0, Mail{Kind: MailRerun, Ref: ref})
			case "Closed":
				c.reset()
			}
			if at != "Closed" {
				_, _ = io.Copy(io.Discard, c)
			}
			eventually(t, "the panic counted", func() bool { return s.Stats().Panics > 0 && s.Stats().Connections < 3 })
			where.Store("")
			other.ping(4)
			if log := s.log.String(); strings.Count(log, "BUG: panic") != 1 || !strings.Contains(log, "bomb in "+at) || !strings.Contains(log, "panic_test.go") {
				t.Errorf("the log does not show the stack once:\n%s", log)
			}
		})
	}
}

func TestMailsBehindAPanicAreDelivered(t *testing.T) {
	refs := make(chan ConnRef, 1)
	got := make(chan int64, 100)
	h := &scripted{
		opened: func(c *Conn) { refs <- c.Ref },
		mail: func(l *Loop, m Mail) {
			if m.Pos%2 == 0 {
				panic("even")
			}
			got <- m.Pos
		},
	}
	s := startServer(t, h, nil)
	dial(t, s.addr).ping(1)
	<-refs
	for i := range int64(10) {
		s.Post(0, Mail{Kind: MailRerun, Pos: i})
	}
	for i := int64(1); i < 10; i += 2 {
		if p := <-got; p != i {
			t.Errorf("got %d, want %d", p, i)
		}
	}
}
