package netio

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// dialAll opens connections until each loop has one, and returns their refs by loop.
func dialAll(t *testing.T, s *testServer, refs <-chan ConnRef) []ConnRef {
	t.Helper()
	byLoop := make([]ConnRef, s.Loops())
	for range s.Loops() { // round robin gives each loop one
		dial(t, s.addr).ping(1)
		ref := <-refs
		byLoop[ref.Loop] = ref
	}
	for i, ref := range byLoop {
		if ref.Gen == 0 {
			t.Fatalf("loop %d got no connection", i)
		}
	}
	return byLoop
}

// 200,000 single posts, each waited for: a lost wake-up would hang. The first ones meet loops that are
// still woken by Execute, the wakers come in between.
func TestNoWakeUpIsLost(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		const producers = 4
		rounds := 200_000
		if raceEnabled {
			rounds = 40_000
		}
		refs := make(chan ConnRef, 16)
		s := startServer(t, waitingHandler(refs), loops(n))
		dialAll(t, s, refs)
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				w := &waiter{make(chan struct{}, 1)}
				for i := range rounds / producers {
					if !s.Post((p+i)%n, Mail{Kind: MailRerun, Held: w}) {
						t.Error("a post was refused")
						return
					}
					<-w.got
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.MailPosts != uint64(rounds) || st.MailDropped != 0 {
			t.Errorf("%d posts, %d dropped", st.MailPosts, st.MailDropped)
		}
		for _, l := range s.loops {
			if wakerOf(l) == nil {
				t.Errorf("loop %d was never woken by its waker", l.Index)
			}
		}
	})
}

func TestAnswersOfOneProducerKeepTheirOrder(t *testing.T) {
	onLoops(t, func(t *testing.T, n int) {
		const producers, each = 4, 5000
		refs := make(chan ConnRef, 16)
		s := startServer(t, &scripted{opened: func(c *Conn) { refs <- c.Ref }}, loops(n))
		c := dial(t, s.addr)
		ref := <-refs
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for i := range each {
					size := 8
					if i%100 == 0 {
						size = 2 * answerCopyBytes // the way without a copy
					}
					f := make([]byte, size)
					binary.BigEndian.PutUint32(f, uint32(p))
					binary.BigEndian.PutUint32(f[4:], uint32(i))
					if !s.Post(int(ref.Loop), answerTo(ref, f, 0)) {
						t.Error("a post was refused")
						return
					}
				}
			})
		}
		next := make([]uint32, producers)
		for range producers * each {
			f := c.recv()
			p, i := binary.BigEndian.Uint32(f), binary.BigEndian.Uint32(f[4:])
			if next[p] != i {
				t.Fatalf("producer %d: got %d, want %d", p, i, next[p])
			}
			next[p]++
		}
		wg.Wait()
	})
}

// The loop stands still while the test fills its mailbox.
func TestMailboxIsBoundedAndFlushedIsMerged(t *testing.T) {
	const limit, reruns = 100, 1000
	refs := make(chan ConnRef, 4)
	enter, leave := make(chan struct{}), make(chan struct{})
	var flushed, rerun []int64
	heldFlushed := 0
	var wakeups atomic.Int64
	h := &scripted{
		opened: func(c *Conn) { refs <- c.Ref },
		mail: func(l *Loop, m Mail) {
			switch {
			case m.Kind == MailFlushed && m.Held == nil:
				flushed = append(flushed, m.Pos)
			case m.Kind == MailFlushed:
				heldFlushed++
			case m.Pos == -1:
				enter <- struct{}{}
				<-leave
			default:
				rerun = append(rerun, m.Pos)
			}
		},
		turnEnd: func(*Loop) { wakeups.Add(1) },
	}
	s := startServer(t, h, func(o *Options) { o.Limits.MailboxLen = limit })
	victim := dial(t, s.addr)
	victim.ping(1)
	ref := <-refs
	s.Post(0, Mail{Kind: MailRerun, Pos: -1})
	<-enter
	turns := wakeups.Load()
	for i := range int64(1000) {
		if !s.Post(0, Mail{Kind: MailFlushed, Pos: i % 700}) {
			t.Fatal("a mergeable mail was refused")
		}
	}
	for i := range int64(reruns) { // of these there may be any number, and they take no room from others
		if !s.Post(0, Mail{Kind: MailRerun, Pos: i}) {
			t.Fatal("a rerun was refused")
		}
	}
	for range limit {
		if !s.Post(0, Mail{Kind: MailFlushed, Pos: 1, Held: s}) {
			t.Fatal("refused below the limit")
		}
	}
	if s.Post(0, Mail{Kind: MailFlushed, Pos: 1, Held: s}) || s.Post(0, answerTo(ref, frameOf(1, 8), 0)) {
		t.Fatal("accepted above the limit")
	}
	for i := range int64(reruns) { // not even now is one refused
		if !s.Post(0, Mail{Kind: MailRerun, Pos: reruns + i}) {
			t.Fatal("a rerun was refused by a full mailbox")
		}
	}
	leave <- struct{}{}
	victim.expectClosed() // its answer was lost, and it must not wait for it
	if st := s.Stats(); st.MailDropped != 2 || st.MailPeak != limit+2*reruns || st.Closed[ErrMailboxFull.Label()] != 1 {
		t.Errorf("dropped %d, peak %d, closed %v", st.MailDropped, st.MailPeak, st.Closed)
	}
	s.Shutdown(0, nil)
	if len(flushed) != 1 || flushed[0] != 699 {
		t.Errorf("flushed mails %v, want one with 699", flushed)
	}
	if len(rerun) != 2*reruns || !slices.IsSorted(rerun) || heldFlushed != limit {
		t.Errorf("%d reruns, %d held", len(rerun), heldFlushed)
	}
	if n := wakeups.Load() - turns; n > 8 {
		t.Errorf("%d turns for one filled mailbox", n)
	}
}

func TestMailboxIsBoundedInBytes(t *testing.T) {
	refs := make(chan ConnRef, 4)
	enter, leave := make(chan struct{}), make(chan struct{})
	s := startServer(t, &scripted{
		opened: func(c *Conn) { refs <- c.Ref },
		mail: func(_ *Loop, m Mail) {
			if m.Held == nil {
				enter <- struct{}{}
				<-leave
			}
		},
	}, func(o *Options) { o.Limits.MailboxBytes = 1 << 20 })
	c := dial(t, s.addr)
	ref := <-refs
	s.Post(0, Mail{Kind: MailRerun})
	<-enter
	accepted := 0
	for s.Post(0, answerTo(ref, make([]byte, 100<<10), 0)) {
		accepted++
	}
	if accepted != 10 {
		t.Errorf("%d answers of 100 KiB accepted, want 10", accepted)
	}
	if !s.Post(0, Mail{Kind: MailRerun, Held: s}) {
		t.Error("a rerun was refused for the bytes of others")
	}
	leave <- struct{}{}
	for range accepted {
		c.recv()
	}
}

func TestPostWithoutALoopOrAfterTheEndIsRefused(t *testing.T) {
	var dropped atomic.Int64
	enter := make(chan struct{})
	h := &scripted{mail: func(l *Loop, m Mail) { close(enter); <-m.Held.(chan struct{}) }}
	s := startServer(t, h, func(o *Options) {
		o.EventLoops = 2
		o.Dropped = func(Mail) { dropped.Add(1) }
	})
	for _, loop := range []int{-1, 0, 1, 2} {
		if s.Post(loop, answerTo(ConnRef{}, frameOf(1, 8), 0)) || s.Post(loop, Mail{Kind: MailRerun}) {
			t.Errorf("loop %d without a connection took a mail", loop)
		}
	}
	if got := s.Stats().MailUnheard; got != 4 {
		t.Errorf("%d mails unheard, want 4", got)
	}
	dial(t, s.addr).ping(1)
	hold := make(chan struct{})
	s.Post(0, Mail{Kind: MailRerun, Held: hold})
	<-enter
	end := make(chan struct{})
	go func() {
		s.Shutdown(0, nil)
		close(end)
	}()
	eventually(t, "the stop was ordered", s.Stopping)
	close(hold)
	<-end
	if s.Post(0, Mail{Kind: MailRerun}) { // the end is the one thing that refuses a rerun
		t.Error("a post after the end was accepted")
	}
}

// Mails that were accepted and met the end are handed back.
func TestUndeliveredMailsAreHandedBack(t *testing.T) {
	var delivered, dropped atomic.Int64
	h := &scripted{mail: func(*Loop, Mail) { delivered.Add(1) }}
	s := startServer(t, h, func(o *Options) { o.Dropped = func(Mail) { dropped.Add(1) } })
	dial(t, s.addr).ping(1)
	stop := make(chan struct{})
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if s.Post(0, Mail{Kind: MailRerun}) {
					accepted.Add(1)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	eventually(t, "traffic", func() bool { return delivered.Load() > 1000 })
	s.Shutdown(0, nil)
	close(stop)
	wg.Wait()
	if accepted.Load() != delivered.Load()+dropped.Load() {
		t.Errorf("%d accepted, %d delivered, %d handed back", accepted.Load(), delivered.Load(), dropped.Load())
	}
}

// A one-way request leaves the loop and comes back without an answer.
func TestRequestsEndWithoutAnAnswer(t *testing.T) {
	refs := make(chan ConnRef, 1)
	inFlight := make(chan int, 2)
	s := startServer(t, &scripted{
		frame: func(c *Conn, f []byte) {
			c.BeginRequest()
			refs <- c.Ref
		},
		mail: func(l *Loop, m Mail) { inFlight <- l.Conn(m.Ref).InFlight },
	}, nil)
	c := dial(t, s.addr)
	c.send(appendFrame(nil, frameOf(1, 8)))
	ref := <-refs
	s.Post(0, Mail{Kind: MailRerun, Ref: ref})
	s.Post(0, Mail{Kind: MailAnswer, Ref: ref, Done: 1})
	s.Post(0, Mail{Kind: MailRerun, Ref: ref})
	if a, b := <-inFlight, <-inFlight; a != 1 || b != 0 {
		t.Errorf("in flight %d, then %d", a, b)
	}
	if got := s.Stats().InFlight; got != 0 {
		t.Errorf("%d requests in flight", got)
	}
}
