package netio

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"
)

// hotFrames are what one read brings with 32 requests in flight.
func hotFrames(n int) []byte {
	var b []byte
	for i := range n {
		b = appendFrame(b, frameOf(i, 200))
	}
	return b
}

func TestTurnAllocatesNothing(t *testing.T) {
	l, c, gc := bareLoop(t, &scripted{})
	l.el = nil
	data := hotFrames(32)
	gc.out = make([]byte, 0, 1<<20)
	turn := func() {
		gc.out = gc.out[:0]
		l.beginTurn()
		l.take(c, data)
		l.endTurn(c)
	}
	turn()
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Errorf("%v allocations in a turn of 32 frames", n)
	}
	split := func() { // a frame over two reads
		gc.out = gc.out[:0]
		l.take(c, data[:len(data)-50])
		l.endTurn(c)
		l.take(c, data[len(data)-50:])
		l.endTurn(c)
	}
	split()
	if n := testing.AllocsPerRun(200, split); n > 0.5 && !raceEnabled { // a collection may empty the pool, the race detector makes it forget
		t.Errorf("%v allocations in a turn with a split frame", n)
	}
	parts := make([][]byte, 64)
	for i := range parts {
		parts[i] = data[i*64 : i*64+60+i%2*1000]
	}
	writev := func() {
		gc.out = gc.out[:0]
		c.Writev(parts)
		l.endTurn(c)
	}
	writev()
	if n := testing.AllocsPerRun(200, writev); n != 0 {
		t.Errorf("%v allocations in Writev", n)
	}
	preface := []byte("PRI * HTTP/2.0")
	refused := func() {
		c.greeted, c.closing = false, false
		l.take(c, preface)
		l.closing = l.closing[:0]
		l.flush()
	}
	if n := testing.AllocsPerRun(200, refused); n != 0 {
		t.Errorf("%v allocations to refuse HTTP/2", n)
	}
}

// deafBell wakes nobody, so that Post alone is measured.
type deafBell struct{}

func (deafBell) ring() {}

func TestPostAndDrainAllocateNothing(t *testing.T) {
	l, c, gc := bareLoop(t, &scripted{})
	l.mail.bell = deafBell{}
	gc.out = make([]byte, 0, 1<<20)
	f := frameOf(1, 200)
	round := func() {
		gc.out = gc.out[:0]
		for range 32 {
			l.srv.Post(0, answerTo(c.Ref, f, 0))
			l.srv.Post(0, Mail{Kind: MailFlushed, Pos: 1})
			l.srv.Post(0, Mail{Kind: MailRerun, Held: l})
		}
		_ = l.Run(context.Background())
	}
	round()
	round()
	if n := testing.AllocsPerRun(200, round); n > 0.5 && !raceEnabled { // a collection may empty the pool, the race detector makes it forget
		t.Errorf("%v allocations for 96 mails", n)
	}
}

// The whole way, through sockets: 4 connections with 32 frames in flight each. The clients reuse
// their buffers, so what is allocated is ours or gnet's.
func TestEchoThroughSocketsAllocatesNothing(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		s := startServer(t, &scripted{}, loops(n))
		const conns, inFlight = 4, 32
		rounds := 2000
		if raceEnabled {
			rounds = 100
		}
		burst := hotFrames(inFlight)
		clients := make([]*client, conns)
		for i := range clients {
			clients[i] = dial(t, s.addr)
		}
		run := func(rounds int) {
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					in := make([]byte, len(burst))
					for range rounds {
						if _, err := c.Write(burst); err != nil {
							t.Error(err)
							return
						}
						if _, err := io.ReadFull(c, in); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
		run(50)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		run(rounds)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		frames := float64(rounds * conns * inFlight)
		per := float64(after.Mallocs-before.Mallocs) / frames
		t.Logf("%.5f allocations per frame, %.2f M frames/s", per, frames/took.Seconds()/1e6)
		if per > 0.01 && !raceEnabled {
			t.Errorf("%.4f allocations per frame", per)
		}
	})
}
