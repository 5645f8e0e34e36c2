package netio

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// dialQuiet is dial without a clean-up per connection, for thousands of them.
func dialQuiet(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{t, c.(*net.TCPConn)}
}

func answerTo(ref ConnRef, frame []byte, done int32) Mail {
	b := GetBuffer(len(frame) + 4)
	b.B = appendFrame(b.B, frame)
	return Mail{Kind: MailAnswer, Ref: ref, Buf: b, Done: done}
}

// Trap 2: gnet writes to whoever has the descriptor now. Here the second client has the descriptor
// and the slot of the first, and must not see its answers, whichever way they come.
func TestAnswerForAClosedClientNeverReachesTheNext(t *testing.T) {
	type seen struct {
		c  *Conn
		fd int
	}
	requests := make(chan seen, 1)
	gone := make(chan struct{}, 1)
	tried := make(chan struct{}, 1)
	h := &scripted{
		frame: func(c *Conn, f []byte) {
			c.Out = appendFrame(c.Out, f)
			requests <- seen{c, c.gc.Fd()}
		},
		closed: func(*Conn, error) { gone <- struct{}{} },
		mail: func(l *Loop, m Mail) {
			dead, ok := m.Held.(*Conn)
			if !ok {
				tried <- struct{}{}
				return
			}
			if l.Conn(dead.Ref) != nil {
				panic("a stale ConnRef was resolved")
			}
			dead.Touch()
			dead.Out = append(dead.Out, "stolen"...)
			dead.Writev([][]byte{[]byte("stolen")})
			dead.flushOut()
			dead.CloseAfterTurn(io.EOF)
			tried <- struct{}{}
		},
	}
	s := startServer(t, h, nil)
	first := dial(t, s.addr)
	first.ping(1)
	a := <-requests
	awaitWakers(t, s) // or its making takes the descriptor
	first.reset()
	<-gone
	s.Post(0, Mail{Kind: MailRerun})
	<-tried // the loop has returned from the close, which closes the descriptor last
	second := dial(t, s.addr)
	second.ping(2)
	b := <-requests
	if a.fd != b.fd || a.c.Ref.Slot != b.c.Ref.Slot {
		t.Fatalf("descriptor %d and slot %d were not used again (%d, %d): the test shows nothing", a.fd, a.c.Ref.Slot, b.fd, b.c.Ref.Slot)
	}
	if a.c.Ref == b.c.Ref {
		t.Fatal("both connections have the same ConnRef")
	}
	if !s.Post(0, answerTo(a.c.Ref, frameOf(1, 64), 0)) || !s.Post(0, Mail{Kind: MailRerun, Held: a.c}) {
		t.Fatal("the post was refused")
	}
	<-tried
	second.ping(3) // fails if anything else arrives first
	if st := s.Stats(); st.AnswersDropped != 1 {
		t.Errorf("%d answers dropped, want 1", st.AnswersDropped)
	}
}

// The same under load: clients come and go while workers answer; each answer names its client.
func TestEveryAnswerReachesItsOwnClientOrNobody(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		work := make(chan Mail, 4096)
		h := &scripted{frame: func(c *Conn, f []byte) {
			c.BeginRequest()
			work <- answerTo(c.Ref, f, 1)
		}}
		s := startServer(t, h, loops(n))
		var workers, clients sync.WaitGroup
		for range 2 {
			workers.Go(func() {
				for m := range work {
					s.Post(int(m.Ref.Loop), m)
				}
			})
		}
		for k := range 8 {
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(k), 1))
				for round := range 60 {
					c := dialQuiet(t, s.addr)
					tag := uint32(k*1000 + round)
					for range 20 {
						f := make([]byte, 8)
						binary.BigEndian.PutUint32(f, tag)
						c.send(appendFrame(nil, f))
					}
					for range rng.IntN(20) {
						if got := binary.BigEndian.Uint32(c.recv()); got != tag {
							t.Errorf("client %d got the answer of client %d", tag, got)
							break
						}
					}
					c.reset()
				}
			})
		}
		clients.Wait()
		eventually(t, "no request in flight", func() bool {
			st := s.Stats()
			return st.Connections == 0 && st.InFlight == 0 && st.Answers+st.AnswersDropped == st.Frames
		})
		close(work)
		workers.Wait()
	})
}

// Case P15: connections that close without reading their answers leave nothing behind.
func TestClosingWithAnswersInFlightLeavesNothing(t *testing.T) {
	const conns, requests = 100, 100
	rounds := 200
	if raceEnabled {
		rounds = 10
	}
	work := make(chan Mail, 1024)
	s := startServer(t, &scripted{frame: func(c *Conn, f []byte) {
		c.BeginRequest()
		work <- answerTo(c.Ref, f, 1)
	}}, loops(2))
	var worker sync.WaitGroup
	worker.Go(func() {
		for m := range work {
			s.Post(int(m.Ref.Loop), m)
		}
	})
	var burst []byte
	for i := range requests {
		burst = appendFrame(burst, frameOf(i, 128))
	}
	round := func() {
		open := make([]*client, conns)
		for i := range open {
			open[i] = dialQuiet(t, s.addr)
			open[i].send(burst)
		}
		for _, c := range open {
			c.reset()
		}
		// The next round waits for the server, not for the accounting of the answers.
		eventually(t, "the round taken", func() bool { return s.Stats().Connections == 0 })
	}
	base := func() (heap uint64, fds, goroutines int) {
		var st Stats
		defer func() {
			if t.Failed() {
				t.Logf("%+v", st)
			}
		}()
		eventually(t, "all connections gone and all requests accounted for", func() bool {
			st = s.Stats()
			return st.Connections == 0 && st.InFlight == 0 && st.OutboundPending == 0 && st.GatheredBytes == 0 &&
				st.Answers+st.AnswersDropped+st.MailDropped == st.Frames
		})
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, descriptors(t), runtime.NumGoroutine()
	}
	for range 5 {
		round()
	}
	heap0, fds0, goroutines0 := base()
	for range rounds {
		round()
	}
	heap1, fds1, goroutines1 := base()
	if heap1 > heap0+4<<20 || fds1 > fds0 || goroutines1 > goroutines0 {
		t.Errorf("heap %d -> %d, descriptors %d -> %d, goroutines %d -> %d", heap0, heap1, fds0, fds1, goroutines0, goroutines1)
	}
	close(work)
	worker.Wait()
}

func TestConnRefIsSmallAndZeroIsNobody(t *testing.T) {
	l, c, _ := bareLoop(t, &scripted{})
	if l.Conn(ConnRef{}) != nil {
		t.Error("the zero ConnRef names a connection")
	}
	if l.Conn(c.Ref) != c {
		t.Error("a fresh ConnRef names nobody")
	}
	for _, ref := range []ConnRef{{Loop: 1, Gen: 1}, {Slot: 9, Gen: 1}, {Gen: 2}} {
		if l.Conn(ref) != nil {
			t.Errorf("%v names a connection", ref)
		}
	}
	old := c.Ref
	l.unregister(c)
	next := &Conn{loop: l, gc: new(bareConn)}
	l.register(next)
	if next.Ref.Slot != old.Slot || l.Conn(old) != nil || l.Conn(next.Ref) != next {
		t.Errorf("slot reuse: old %v, new %v", old, next.Ref)
	}
}
