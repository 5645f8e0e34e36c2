package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestDescriptorPlanAlwaysLeavesRoom(t *testing.T) {
	for _, limit := range []uint64{64, 128, 256, 1024, 4096, 20_000, 65_536, 1 << 20, 1 << 63} {
		for listeners := 1; listeners <= 6; listeners++ {
			for _, loops := range []int{1, 4, eventLoopsMax} {
				conns, backlog := descriptorPlan(limit, listeners, loops)
				spare := int(min(limit, 1<<24)) - conns
				if conns < 1 || backlog < 8 || backlog > backlogMax || spare < min(64+2*backlog*listeners+4*loops, int(limit)-1) {
					t.Errorf("limit %d, %d listeners, %d loops: %d connections, backlog %d", limit, listeners, loops, conns, backlog)
				}
			}
		}
	}
	if conns, _ := descriptorPlan(1024, 4, 4); conns < 500 {
		t.Errorf("an ordinary limit of 1024 leaves only %d connections", conns)
	}
}

func TestConnectionCapRefusesEarly(t *testing.T) {
	s := startServer(t, &scripted{}, func(o *Options) { o.Limits.Connections = 3; o.EventLoops = 2 })
	var open []*client
	for i := range 3 {
		c := dial(t, s.addr)
		c.ping(i)
		open = append(open, c)
	}
	for range 5 {
		dial(t, s.addr).expectClosed()
	}
	for i, c := range open {
		c.ping(i)
	}
	if st := s.Stats(); st.Refused != 5 || strings.Count(s.log.String(), "maxConnections") != 1 {
		t.Errorf("refused %d, log:\n%s", st.Refused, s.log)
	}
	open[0].reset()
	eventually(t, "room again", func() bool { return s.Stats().Connections == 2 })
	dial(t, s.addr).ping(9)
}

// The children run this test binary again with a small descriptor limit of their own.
const (
	childMode  = "NETIO_TEST_CHILD"
	childLimit = 256
)

// runChild prints its address, then serves until its standard input ends.
func runChild(mode string) int {
	lim := syscall.Rlimit{Cur: childLimit, Max: childLimit}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		fmt.Println(err)
		return 3
	}
	s, err := New(Options{Addrs: []string{"127.0.0.1:0"}, EventLoops: 2, Handler: &scripted{}})
	if err != nil {
		fmt.Println(err)
		return 3
	}
	if err := s.Start(context.Background()); err != nil {
		fmt.Println(err)
		return 3
	}
	if mode == "exhausted" { // something else takes what the plan had left
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			defer f.Close()
		}
	}
	fmt.Println(s.Addrs()[0], s.MaxConnections())
	end := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(end)
	}()
	select {
	case <-s.Done():
		fmt.Println(s.Err())
		return 7
	case <-end:
		s.Shutdown(0, nil)
		return 0
	}
}

type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   io.ReadCloser
	addr  string
	cap   int
}

func startChild(t *testing.T, mode string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ch := &child{Cmd: cmd, stdin: in, out: out}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := fmt.Fscan(out, &ch.addr, &ch.cap); err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	return ch
}

// Trap 1, avoided: more clients than descriptors, and the server lives. Each refused client waits for
// its close, so at most 40 at once are neither counted nor closed.
func TestMoreClientsThanDescriptorsDoNotEndTheServer(t *testing.T) {
	ch := startChild(t, "capped")
	open := make([]*client, ch.cap)
	for i := range open {
		open[i] = dial(t, ch.addr)
		open[i].ping(i)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 40 {
				c, err := net.DialTimeout("tcp", ch.addr, patience)
				if err != nil {
					t.Errorf("dial: %v", err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				if n, err := c.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("over the cap of %d a client was served (%v)", ch.cap, err)
				}
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	for i, c := range open {
		c.ping(i)
	}
	_ = ch.stdin.Close()
	if err := ch.Wait(); err != nil {
		t.Errorf("the child ended with %v", err)
	}
}

// Trap 1, met after all: gnet.Rotate returns nil, the server says what happened.
func TestEngineEndedByTheDescriptorLimitIsFatal(t *testing.T) {
	ch := startChild(t, "exhausted")
	// The kernel completes the handshake; whether the client sees that or the end of the listener is
	// a race, and of no interest.
	if c, err := net.DialTimeout("tcp", ch.addr, patience); err == nil {
		defer c.Close()
	}
	text, _ := io.ReadAll(ch.out)
	err := ch.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("the child ended with %v: %s", err, text)
	}
	if !strings.Contains(string(text), ErrEngineEnded.Error()) || !strings.Contains(string(text), "too many open files") {
		t.Errorf("the error does not name the cause: %s", text)
	}
}
