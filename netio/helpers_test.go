package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds waits for things that must happen; reaching it is a failure, never a pass.
const patience = time.Minute

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(runChild(mode))
	}
	goleak.VerifyTestMain(m,
		// Importing gnet starts these two; they live as long as the process. The third is what Enroll
		// ran on, idle: it ends after ten seconds and more.
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"))
}

// scripted is a Handler made of functions; a nil one does nothing, a nil frame echoes.
type scripted struct {
	opened      func(c *Conn)
	frame       func(c *Conn, frame []byte)
	turnEnd     func(l *Loop)
	turnWritten func(l *Loop)
	mail        func(l *Loop, m Mail)
	closed      func(c *Conn, reason error)
}

func (h *scripted) Opened(c *Conn) {
	if h.opened != nil {
		h.opened(c)
	}
}

func (h *scripted) Frame(c *Conn, frame []byte) {
	if h.frame != nil {
		h.frame(c, frame)
		return
	}
	c.Out = appendFrame(c.Out, frame)
}

func (h *scripted) TurnEnd(l *Loop) {
	if h.turnEnd != nil {
		h.turnEnd(l)
	}
}

func (h *scripted) TurnWritten(l *Loop) {
	if h.turnWritten != nil {
		h.turnWritten(l)
	}
}

func (h *scripted) Mail(l *Loop, m Mail) {
	if h.mail != nil {
		h.mail(l, m)
	}
}

func (h *scripted) Closed(c *Conn, reason error) {
	if h.closed != nil {
		h.closed(c, reason)
	}
}

func appendFrame(dst, frame []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(frame)))
	return append(dst, frame...)
}

// frameOf is a frame whose content tells its number, size bytes without the length word.
func frameOf(number, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(number*31 + i)
	}
	binary.BigEndian.PutUint32(b, uint32(number))
	return b
}

// syncBuffer is a log that a test can read while the server writes it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// freePort is an address that was free a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

type testServer struct {
	*Server
	addr string
	log  *syncBuffer
}

func startServer(t testing.TB, h Handler, change func(*Options)) *testServer {
	t.Helper()
	log := new(syncBuffer)
	opts := Options{
		Addrs:      []string{"127.0.0.1:0"},
		EventLoops: 1,
		Handler:    h,
		Logger:     slog.New(slog.NewTextHandler(log, nil)),
	}
	if change != nil {
		change(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown(0, nil)
		if err := s.Err(); err != nil && !t.Failed() {
			t.Errorf("the engine ended with %v", err)
		}
	})
	return &testServer{Server: s, addr: s.Addrs()[0].String(), log: log}
}

func loops(n int) func(*Options) { return func(o *Options) { o.EventLoops = n } }

// onLoops runs a test with one and with four loops: one loop hides what crosses loops.
func onLoops(t *testing.T, f func(t *testing.T, n int)) {
	for _, n := range []int{1, 4} {
		t.Run(strconv.Itoa(n)+"loops", func(t *testing.T) { f(t, n) })
	}
}

type client struct {
	t testing.TB
	*net.TCPConn
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return &client{t, c.(*net.TCPConn)}
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *client) recv() []byte {
	c.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		c.t.Fatalf("read: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return b
}

func (c *client) expect(frame []byte) {
	c.t.Helper()
	if got := c.recv(); !bytes.Equal(got, frame) {
		c.t.Fatalf("got a frame of %d bytes (%x…), want %d bytes (%x…)", len(got), got[:min(len(got), 16)], len(frame), frame[:min(len(frame), 16)])
	}
}

func (c *client) ping(number int) {
	c.t.Helper()
	f := frameOf(number, 64)
	c.send(appendFrame(nil, f))
	c.expect(f)
}

// expectClosed waits until the server has closed, and fails if it sends anything before.
func (c *client) expectClosed() {
	c.t.Helper()
	rest, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the server did not close the connection")
	}
	if len(rest) > 0 {
		c.t.Fatalf("%d bytes before the close: %x…", len(rest), rest[:min(len(rest), 32)])
	}
}

// reset closes with RST, so that thousands of connections leave no TIME_WAIT behind.
func (c *client) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// eventually polls a condition that only counters can show.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if cond() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}

// rssAnonKB is the anonymous memory of this process.
func rssAnonKB(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kb int
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatal("no RssAnon line")
	return 0
}
