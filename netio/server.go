package netio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// Handler is what the requests mean. All methods run on event loops, must not block, and own the
// Conn and Loop they get only while they run. A panic in one closes the connection concerned.
type Handler interface {
	// Opened comes once for each connection, before its first frame.
	Opened(c *Conn)
	// Frame gets one whole frame without its length word. It is valid until TurnEnd of this turn
	// has returned, and must not be changed.
	Frame(c *Conn, frame []byte)
	// TurnEnd follows the last callback of a turn. Answers appended to Conn.Out here still go out
	// with the turn.
	TurnEnd(l *Loop)
	// TurnWritten comes when the answers of a turn are written, before its closes: for what may wake others,
	// which no answer should wait for.
	TurnWritten(l *Loop)
	// Mail gets each posted MailFlushed and MailRerun, and MailDrained.
	Mail(l *Loop, m Mail)
	// Closed comes once for each opened connection; Loop.Conn does not find it any more. reason is
	// what CloseAfterTurn got, or one of this package's Reason values.
	Closed(c *Conn, reason error)
}

// Options of New.
type Options struct {
	// Addrs are host:port pairs of numbers ("0.0.0.0:10911", "[::]:9876"); port 0 takes a free one,
	// see Server.Addrs. Conn.Listener is the index into it.
	Addrs []string
	// EventLoops is the number of loops, 1 to 256.
	EventLoops int
	Limits     Limits
	Logger     *slog.Logger
	Handler    Handler
	// Dropped, if set, gets each accepted MailRerun and each MailFlushed with Held that was still
	// undelivered when the loops had ended, on the goroutine of the engine. Post refuses from a moment
	// before, when the drain of Shutdown is over.
	Dropped func(m Mail)
}

const eventLoopsMax = 256 // gnet's own bound

// Server is one gnet engine. Start it once, Shutdown it once.
type Server struct {
	opts    Options
	limits  Limits
	log     *slog.Logger
	gnetLog *gnetLogger
	loops   []*Loop
	backlog int
	bound   []netip.AddrPort // set in OnBoot

	claimMu sync.Mutex // guards Loop.el against two loops claiming one index
	hushed  bool       // guarded by claimMu: no more wakers, see hush
	clock   atomic.Int64
	swept   int64 // of the ticker's goroutine: when the last sweep was ordered

	connections atomic.Int64 // open and not refused
	gathered    atomic.Int64 // bytes charged to Limits.GatheredBytes
	refused     atomic.Uint64
	closed      [reasonCount]atomic.Uint64
	closeLogs   [reasonCount]limitedLog
	panicLog    limitedLog
	wakerLog    limitedLog

	engine    gnet.Engine
	started   chan struct{}
	startOnce sync.Once
	done      chan struct{}
	bootErr   error
	err       error // set before done is closed

	stopping atomic.Bool
	stopOnce sync.Once
	drainFor time.Duration // set before the engine is told to stop
	drained  func() bool
}

// New checks the options and makes a server that is not listening yet.
func New(opts Options) (*Server, error) {
	switch {
	case len(opts.Addrs) == 0:
		return nil, errors.New("netio: no listen address")
	case opts.Handler == nil:
		return nil, errors.New("netio: no handler")
	case opts.EventLoops < 1 || opts.EventLoops > eventLoopsMax:
		return nil, fmt.Errorf("netio: %d event loops, expected 1 to %d", opts.EventLoops, eventLoopsMax)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		opts:    opts,
		limits:  opts.Limits.withDefaults(),
		log:     opts.Logger,
		gnetLog: &gnetLogger{log: opts.Logger},
		started: make(chan struct{}),
		done:    make(chan struct{}),
	}
	connections, backlog := descriptorPlan(descriptorLimit(), len(opts.Addrs), opts.EventLoops)
	s.backlog = backlog
	if s.limits.Connections > connections {
		s.log.Warn("peregrine.maxConnections is more than the open files limit allows",
			"wanted", s.limits.Connections, "used", connections, "hint", "raise ulimit -n")
	}
	if s.limits.Connections <= 0 || s.limits.Connections > connections {
		s.limits.Connections = connections
	}
	s.clock.Store(time.Now().UnixMilli())
	for i := range opts.EventLoops {
		s.loops = append(s.loops, &Loop{
			Index: i, srv: s, handler: opts.Handler,
			outBudget: s.limits.OutboundBytes / int64(opts.EventLoops),
		})
	}
	return s, nil
}

// Loops is the number of event loops.
func (s *Server) Loops() int { return len(s.loops) }

// Loop returns loop i, to set its State before Start.
func (s *Server) Loop(i int) *Loop { return s.loops[i] }

// MaxConnections is the cap in force.
func (s *Server) MaxConnections() int { return s.limits.Connections }

// Addrs returns the bound addresses, in the order of Options.Addrs. Valid after Start.
func (s *Server) Addrs() []netip.AddrPort { return s.bound }

// Start listens on every address and returns when all loops run. An error means that nothing is
// listening. ctx bounds only the start.
func (s *Server) Start(ctx context.Context) error {
	if err := ProbeAddrs(s.opts.Addrs); err != nil {
		s.err = err
		close(s.done)
		return err
	}
	go func() {
		s.finish(gnet.Rotate((*engine)(s), gnetAddrs(s.opts.Addrs),
			gnet.WithNumEventLoop(len(s.loops)),
			gnet.WithReuseAddr(true), // or a restart fails while old connections are in TIME_WAIT
			gnet.WithLoadBalancing(gnet.RoundRobin),
			gnet.WithReadBufferCap(readBufferBytes),
			gnet.WithWriteBufferCap(writeBufferBytes),
			gnet.WithTCPNoDelay(gnet.TCPNoDelay),
			gnet.WithTicker(true),
			gnet.WithLogger(s.gnetLog)))
	}()
	select {
	case <-s.started:
		return nil
	case <-s.done:
		return s.err
	case <-ctx.Done():
		go func() { // the engine may not have booted yet; end it as soon as it has
			select {
			case <-s.started:
				s.Shutdown(0, nil)
			case <-s.done:
			}
		}()
		return ctx.Err()
	}
}

// Run is Start, then the wait for the end: nil after Shutdown, an ErrEngineEnded otherwise.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	<-s.done
	return s.err
}

// Done is closed when the engine has ended, whoever ended it. If Err is not nil then, the process
// should end: it serves nobody any more.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the engine ended; nil before the end and after Shutdown.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stopping says that Shutdown was called; handlers may refuse new work by it.
func (s *Server) Stopping() bool { return s.stopping.Load() }

// Shutdown refuses new connections, lets the loops go on until drained says yes (nil: at once) and
// all mailboxes and outbound buffers are empty, but not longer than drain, then closes everything.
// It returns when the engine has ended. drained is called every few milliseconds on one goroutine.
// Call it after Start has returned, not on a loop.
func (s *Server) Shutdown(drain time.Duration, drained func() bool) {
	s.stopOnce.Do(func() {
		s.drainFor, s.drained = drain, drained
		s.stopping.Store(true)
		// Stop only polls after it has given the signal; the end itself is seen by done.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.engine.Stop(ctx)
	})
	<-s.done
}

// quiet says that nothing waits inside netio. A drain marks its turn before it empties the mailbox and
// ends it after the writes, so one of the three conditions shows an answer on its way.
func (s *Server) quiet() bool {
	for _, l := range s.loops {
		l.mail.mu.Lock()
		busy := l.mail.awake || len(l.mail.queue) > 0 || l.mail.hasFlushed
		l.mail.mu.Unlock()
		if busy || l.stats.turnEdges.Load()%2 == 1 || l.stats.outPending.Load() > 0 {
			return false
		}
	}
	return true
}

// finish runs when gnet.Rotate has returned: no loop runs any more, so their state may be touched.
func (s *Server) finish(err error) {
	for _, l := range s.loops {
		l.mail.mu.Lock()
		l.mail.ended = true // before, see hush, unless the engine never ran
		rest := l.mail.queue
		l.mail.queue = nil
		w := l.mail.waker
		l.mail.mu.Unlock()
		if w != nil {
			w.close()
		}
		if l.watchTimer != nil {
			l.watchTimer.Stop()
		}
		for _, m := range rest {
			PutBuffer(m.Buf)
			if m.Kind == MailAnswer {
				l.stats.answersDropped.Add(1)
			} else if s.opts.Dropped != nil {
				s.opts.Dropped(m)
			}
		}
		for _, b := range l.outFree {
			PutBuffer(b)
		}
		l.outFree = nil
	}
	switch {
	case s.bootErr != nil:
		s.err = s.bootErr
	case err != nil:
		s.err = fmt.Errorf("%w: %w", ErrEngineEnded, err)
	case !s.stopping.Load():
		// gnet returns nil here, for instance when accept met the descriptor limit (trap 1).
		s.err = fmt.Errorf("%w: %s", ErrEngineEnded, s.gnetLog.lastErrors())
	}
	close(s.done)
}

// countClosed counts a closed connection and says so once in a while if it is out of the ordinary.
func (s *Server) countClosed(r *Reason, remote netip.AddrPort) {
	s.closed[r.index].Add(1)
	if r.quiet || r == errHandler {
		return
	}
	if suppressed, ok := s.closeLogs[r.index].allow(time.Now()); ok {
		s.log.Warn("connection closed: "+r.text, "remote", remote, "reason", r.label, "suppressed", suppressed)
	}
}
