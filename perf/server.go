package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// Off as an address switches the HTTP server off; DefaultAddr is where it listens when nothing else is said.
const (
	Off         = "off"
	DefaultAddr = "127.0.0.1:10920"
)

// Options of the HTTP server.
type Options struct {
	Addr     string           // "host:port"; port 0 takes any free one; "off" serves nothing
	Registry *Registry        // what /metrics shows beside the runtime's own metrics; nil = only those
	Live     func() error     // nil = always live; an error means that only a restart helps
	Ready    func() Readiness // nil = always ready; called once a request, from net/http's goroutines
	Logger   *slog.Logger     // net/http's own complaints (at debug level: they are the peers' faults); nil = dropped
}

// Server is a running HTTP server. See Start.
type Server struct {
	opts      Options
	addr      string
	http      *http.Server
	openCount atomic.Int64  // connections that net/http holds; compared with connectionsMax
	done      chan struct{} // closed when Serve has returned
}

// Start listens and serves until Close. When it returns without an error the port is open and requests are answered,
// /readyz truthfully. With the address "off" it returns a server that does nothing and whose Addr is empty.
// An address that cannot be taken is one error that says which and what to do.
func Start(opts Options) (*Server, error) {
	s := &Server{opts: opts, done: make(chan struct{})}
	if opts.Addr == Off {
		close(s.done)
		return s, nil
	}
	if opts.Registry == nil {
		s.opts.Registry = NewRegistry()
	}
	ln, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, listenError(opts.Addr, err)
	}
	s.addr = ln.Addr().String()
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ConnState:         s.countConnections,
		ErrorLog:          slog.NewLogLogger(s.logHandler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		// Serve returns when Close shuts the listener; any other end would be a listener that broke, worth a line.
		if err := s.http.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) && opts.Logger != nil {
			opts.Logger.Error("the metrics server stopped", "addr", s.addr, "err", err)
		}
	}()
	return s, nil
}

// listenError turns the kernel's words into one line with a remedy.
func listenError(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("metrics address %s is already in use; stop what listens there or choose another one with --http or peregrine.http "+
			"(port 0 = any free one, off = none): %w", addr, syscall.EADDRINUSE)
	}
	return fmt.Errorf("metrics address %q cannot be listened on; --http and peregrine.http expect host:port or off: %w", addr, err)
}

func (s *Server) logHandler() slog.Handler {
	if s.opts.Logger == nil {
		return slog.DiscardHandler
	}
	return s.opts.Logger.Handler()
}

// Addr is the address really listened on ("127.0.0.1:10920"), empty when switched off.
func (s *Server) Addr() string { return s.addr }

// Close stops listening, lets running requests finish until ctx ends, then cuts them. It may be called more than once.
func (s *Server) Close(ctx context.Context) error {
	if s.http == nil {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close() // the deadline passed: what is left is cut
	}
	<-s.done
	return err
}

// countConnections closes what comes above connectionsMax. net/http calls it on every change of a connection's state.
func (s *Server) countConnections(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.openCount.Add(1) > connectionsMax {
			_ = c.Close() // its goroutine notices at its first read and reports StateClosed
		}
	case http.StateClosed, http.StateHijacked:
		s.openCount.Add(-1)
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux() // never the default mux: importing pprof has registered there for everyone
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "peregrine\n/metrics  /livez  /readyz  /debug/pprof/ (from this machine only)\n")
	})
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	// pprof itself moves the write deadline of a request that asks for seconds.
	mux.HandleFunc("GET /debug/pprof/", fromThisMachine(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/block", fromThisMachine(s.sampled("block", func(on bool) {
		runtime.SetBlockProfileRate(map[bool]int{true: blockProfileNs}[on])
	})))
	mux.HandleFunc("GET /debug/pprof/mutex", fromThisMachine(s.sampled("mutex", func(on bool) {
		runtime.SetMutexProfileFraction(map[bool]int{true: mutexProfileOneIn}[on])
	})))
	mux.HandleFunc("GET /debug/pprof/cmdline", fromThisMachine(pprof.Cmdline))
	mux.HandleFunc("GET /debug/pprof/profile", fromThisMachine(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", fromThisMachine(pprof.Trace))
	mux.HandleFunc("GET /debug/pprof/symbol", fromThisMachine(pprof.Symbol))
	return mux
}

// sampled serves a profile that the runtime takes only when it is told to: it is told for the seconds that the request asks for, and one at a time.
func (s *Server) sampled(name string, take func(on bool)) http.HandlerFunc {
	var one sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("seconds") != "" {
			one.Lock()
			defer one.Unlock()
			take(true)
			defer take(false)
		}
		pprof.Handler(name).ServeHTTP(w, r)
	}
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = s.opts.Registry.WriteTo(w) // a scraper that went away is its own affair
}

// fromThisMachine lets only loopback peers through: a profile shows memory contents and costs CPU. A request that a proxy
// on this machine passed on comes from elsewhere, whatever its peer address says.
func fromThisMachine(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		forwarded := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
		if err != nil || !peer.Addr().Unmap().IsLoopback() || forwarded {
			http.Error(w, "profiles are served to this machine only", http.StatusForbidden)
			return
		}
		if seconds, _ := strconv.ParseFloat(r.FormValue("seconds"), 64); seconds > profileSecondsMax {
			http.Error(w, fmt.Sprintf("at most %d seconds", profileSecondsMax), http.StatusBadRequest)
			return
		}
		next(w, r)
	}
}
