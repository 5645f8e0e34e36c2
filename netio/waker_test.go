package netio

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// wakerOf is the waker that a loop is woken by, nil while it is Execute.
func wakerOf(l *Loop) *waker {
	l.mail.mu.Lock()
	defer l.mail.mu.Unlock()
	w, _ := l.mail.bell.(*waker)
	return w
}

// awaitWakers returns when no loop is woken by Execute any more.
func awaitWakers(t testing.TB, s *testServer) {
	t.Helper()
	for _, l := range s.loops {
		eventually(t, "the waker of each loop", func() bool { return wakerOf(l) != nil })
	}
}

// waitingHandler tells the poster, who waits on Held, that its mail has arrived.
func waitingHandler(refs chan ConnRef) *scripted {
	return &scripted{
		opened: func(c *Conn) { refs <- c.Ref },
		mail:   func(_ *Loop, m Mail) { m.Held.(*waiter).got <- struct{}{} },
	}
}

type waiter struct{ got chan struct{} }

// descriptors is how many the process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// The waker is a connection to gnet and to nobody else: no callback, no count, no idle time, no place
// under the cap.
func TestWakerIsNoClient(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		var opened, closed atomic.Int64
		s := startServer(t, &scripted{
			opened: func(*Conn) { opened.Add(1) },
			closed: func(*Conn, error) { closed.Add(1) },
		}, func(o *Options) {
			o.EventLoops = n
			o.Limits.Connections = n
			o.Limits.IdleTimeout = 50 * time.Millisecond
			o.Limits.SweepInterval = 10 * time.Millisecond
		})
		var clients []*client
		for range n {
			clients = append(clients, dial(t, s.addr))
		}
		awaitWakers(t, s)
		for _, c := range clients {
			c.expectClosed() // idle
		}
		eventually(t, "the idle clients gone", func() bool { return closed.Load() == int64(n) })
		for range n { // the cap has room for all of them, and the wakers are still there
			clients = append(clients, dial(t, s.addr))
		}
		eventually(t, "as many clients again", func() bool { return opened.Load() == int64(2*n) })
		awaitWakers(t, s)
		if st := s.Stats(); st.Accepted != uint64(2*n) || st.Refused != 0 || st.Frames != 0 || st.BytesIn != 0 {
			t.Errorf("stats %+v", st)
		}
		s.Shutdown(0, nil)
		st := s.Stats()
		sum := uint64(0)
		for _, v := range st.Closed {
			sum += v
		}
		if closed.Load() != int64(2*n) || st.Connections != 0 || sum != uint64(2*n) {
			t.Errorf("%d closed, stats %+v", closed.Load(), st)
		}
		if strings.Contains(s.log.String(), "level=WARN") && strings.Contains(s.log.String(), "waker") {
			t.Errorf("an ordinary run complains: %s", s.log)
		}
	})
}

func TestWakeUpAllocatesNothing(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		rounds := 20_000
		if raceEnabled {
			rounds = 1000
		}
		refs := make(chan ConnRef, 16)
		s := startServer(t, waitingHandler(refs), loops(n))
		dialAll(t, s, refs)
		awaitWakers(t, s)
		w := &waiter{make(chan struct{}, 1)}
		run := func(rounds int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range rounds {
				if !s.Post(i%n, Mail{Kind: MailRerun, Held: w}) {
					t.Fatal("a post was refused")
				}
				<-w.got
			}
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		run(rounds / 10)
		mallocs := run(rounds)
		t.Logf("%d allocations for %d wake-ups", mallocs, rounds)
		if mallocs > uint64(rounds/100) && !raceEnabled { // the ticker and the test's own runtime have some
			t.Errorf("%d allocations for %d wake-ups", mallocs, rounds)
		}
	})
}

// Wakers that break while posts go on: Execute takes over and no wake-up is lost.
func TestBrokenWakerFallsBackToExecute(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		refs := make(chan ConnRef, 16)
		h := waitingHandler(refs)
		tell := h.mail
		h.mail = func(l *Loop, m Mail) {
			if w, ok := m.Held.(*waker); ok {
				_ = l.el.Close(w.gc)
				return
			}
			tell(l, m)
		}
		s := startServer(t, h, loops(n))
		dialAll(t, s, refs)
		awaitWakers(t, s)
		var posted atomic.Int64
		var stop atomic.Bool
		var wg sync.WaitGroup
		for p := range 4 {
			wg.Go(func() {
				w := &waiter{make(chan struct{}, 1)}
				for i := p; !stop.Load(); i++ {
					if !s.Post(i%n, Mail{Kind: MailRerun, Held: w}) {
						t.Error("a post was refused")
						return
					}
					<-w.got
					posted.Add(1)
				}
			})
		}
		for _, l := range s.loops {
			seen := posted.Load()
			eventually(t, "posts", func() bool { return posted.Load() > seen+100 })
			s.Post(l.Index, Mail{Kind: MailRerun, Held: wakerOf(l)})
			eventually(t, "Execute again", func() bool { return wakerOf(l) == nil })
		}
		seen := posted.Load()
		eventually(t, "posts", func() bool { return posted.Load() > seen+1000 })
		stop.Store(true)
		wg.Wait()
		if strings.Count(s.log.String(), "waker is not available") != 1 {
			t.Errorf("want one line about it: %s", s.log)
		}
	})
}

// refusingLoop is a gnet loop that takes no waker. It does run what Execute gets.
type refusingLoop struct {
	gnet.EventLoop
	err    error                  // of Enroll itself
	result *gnet.RegisteredResult // nil: none ever
}

func (r refusingLoop) Enroll(_ context.Context, c net.Conn) (<-chan gnet.RegisteredResult, error) {
	if r.err != nil {
		return nil, r.err
	}
	_ = c.Close() // as gnet does
	results := make(chan gnet.RegisteredResult, 1)
	if r.result != nil {
		results <- *r.result
		close(results)
	}
	return results, nil
}

func (r refusingLoop) Execute(ctx context.Context, run gnet.Runnable) error { return run.Run(ctx) }

func TestLoopWithoutAWakerIsWokenByExecute(t *testing.T) {
	for name, el := range map[string]refusingLoop{
		"refused":        {err: errors.New("no")},
		"failed":         {result: &gnet.RegisteredResult{Err: errors.New("no")}},
		"never opened":   {result: &gnet.RegisteredResult{}},
		"never answered": {},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(syncBuffer)
			mails := 0
			l, _, _ := bareLoop(t, &scripted{mail: func(*Loop, Mail) { mails++ }})
			s := l.srv
			s.log = slog.New(slog.NewTextHandler(log, nil))
			before := descriptors(t)
			claimed, enrolled := s.claim(el)
			if claimed != l || enrolled == nil {
				t.Fatal("the loop was not claimed")
			}
			l.enroll(enrolled)
			if el.result == nil && el.err == nil {
				close(s.done) // the engine's end
			}
			<-l.enrolled
			if got := descriptors(t); got != before {
				t.Errorf("%d descriptors, %d before", got, before)
			}
			if !s.Post(0, Mail{Kind: MailRerun}) || mails != 1 {
				t.Errorf("%d mails arrived", mails)
			}
			if again, enrolled := s.claim(el); again != l || enrolled != nil {
				t.Error("a second waker was asked for")
			}
			lines := 1
			if name == "never answered" {
				lines = 0 // the end is no news
			}
			if strings.Count(log.String(), "waker is not available") != lines {
				t.Errorf("want %d lines about it: %s", lines, log)
			}
		})
	}
}

func TestWakersLeaveNoDescriptorBehind(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		round := func(i int) {
			refs := make(chan ConnRef, 16)
			s := startServer(t, &scripted{opened: func(c *Conn) { refs <- c.Ref }}, loops(n))
			for range n {
				c := dialQuiet(t, s.addr)
				defer c.reset()
				<-refs
			}
			if i%2 == 0 { // else the end meets wakers on their way
				awaitWakers(t, s)
			}
			s.Shutdown(0, nil)
		}
		round(0)
		before := descriptors(t)
		for i := range 20 {
			round(i)
		}
		eventually(t, "descriptors closed", func() bool { return descriptors(t) <= before })
	})
}

// slowBell is one that a poster is held up in.
type slowBell struct {
	enter, leave chan struct{}
	rung         atomic.Bool
}

func (b *slowBell) ring() {
	close(b.enter)
	<-b.leave
	b.rung.Store(true)
}

func TestHushWaitsForWhoIsAboutToRing(t *testing.T) {
	l, _, _ := bareLoop(t, &scripted{})
	b := &slowBell{enter: make(chan struct{}), leave: make(chan struct{})}
	l.mail.bell = b
	posted, hushed := make(chan bool), make(chan struct{})
	go func() { posted <- l.srv.Post(0, Mail{Kind: MailRerun}) }()
	<-b.enter
	go func() {
		l.srv.hush()
		if !b.rung.Load() {
			t.Error("somebody rings after the end")
		}
		close(hushed)
	}()
	eventually(t, "the end of the mailbox", l.mail.isEnded)
	if l.srv.Post(0, Mail{Kind: MailRerun}) {
		t.Error("a post after the end was accepted")
	}
	l.signal(controlWatch)
	close(b.leave)
	<-hushed
	if !<-posted {
		t.Error("the post before the end was refused")
	}
}

// Posters that go on over the end must not write into descriptors that belong to somebody else by then.
func TestNobodyRingsAfterTheEnd(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		for round := range 10 {
			refs := make(chan ConnRef, 16)
			s := startServer(t, &scripted{opened: func(c *Conn) { refs <- c.Ref }}, loops(n))
			dialAll(t, s, refs)
			if round%2 == 0 { // with wakers, and with whatever there is
				awaitWakers(t, s)
			}
			var stop atomic.Bool
			var after atomic.Int64
			var wg sync.WaitGroup
			for p := range 4 {
				wg.Go(func() {
					for i := p; !stop.Load(); i++ {
						s.Post(i%n, Mail{Kind: MailRerun})
						s.loops[i%n].signal(controlWatch)
						after.Add(1)
					}
				})
			}
			eventually(t, "posts", func() bool { return after.Load() > 100 })
			s.Shutdown(0, nil)
			var mine []*os.File // they get the numbers that the server had
			for range 16 + 4*n {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				mine = append(mine, r, w)
			}
			seen := after.Load()
			eventually(t, "posts after the end", func() bool { return after.Load() > seen+1000 })
			stop.Store(true)
			wg.Wait()
			for i := 0; i < len(mine); i += 2 {
				_ = mine[i+1].Close()
				if k, _ := mine[i].Read(make([]byte, 64)); k > 0 {
					t.Errorf("%d bytes in a pipe that nobody wrote to", k)
				}
				_ = mine[i].Close()
			}
		}
	})
}

// BenchmarkWakeUp is one post to a sleeping loop, from the call until the handler has it.
func BenchmarkWakeUp(b *testing.B) {
	for _, way := range []string{"waker", "execute"} {
		b.Run(way, func(b *testing.B) {
			handled := make(chan time.Time, 1)
			s := startServer(b, &scripted{mail: func(*Loop, Mail) { handled <- time.Now() }}, nil)
			dial(b, s.addr).ping(1)
			awaitWakers(b, s)
			if way == "execute" {
				s.loops[0].mail.mu.Lock()
				s.loops[0].mail.bell = s.loops[0]
				s.loops[0].mail.mu.Unlock()
			}
			took := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				if !s.Post(0, Mail{Kind: MailRerun}) {
					b.Fatal("a post was refused")
				}
				took = append(took, (<-handled).Sub(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
		})
	}
}
