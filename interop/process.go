// Package interop runs real, unmodified RocketMQ clients and tools against the built peregrine binary, or against the original
// broker, as child processes, and judges what they saw.
//
// The judging of clients knows nothing of peregrine's packages on purpose: what it asks a broker itself goes through a tiny
// Remoting client (remoting.go), so that a mistake in the code under test cannot hide behind the same mistake in the test.
// RawClient, for tests that need thousands of frames, does use the wire package.
//
// Every child gets a process group of its own, a bounded time to live and a directory of its own; ports are free ones below the
// ephemeral range. The programs under java, go, node and python only print facts; judge.go decides. README.md says how to run it.
package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	logTailBytes = 6 << 10 // of each log in a failure message
	killGrace    = 5 * time.Second
)

// Process is a running child with its own process group, so that a kill reaches what it started, too. Its standard error goes
// to LogFile; its standard output goes to the same file unless a sink was given.
type Process struct {
	Name    string
	LogFile string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	ended   chan struct{}
	err     error // valid once ended is closed
}

// StartProcess starts the command. sink, if not nil, gets each line of standard output (without its line feed) on a goroutine of
// its own and may not keep the slice; done lines all reach it before Wait returns.
func StartProcess(name, logFile string, cmd *exec.Cmd, sink func(line []byte)) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, LogFile: logFile, cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = log
	cmd.Stdout = log
	var lines *lineSplitter
	if sink != nil {
		lines = &lineSplitter{sink: sink}
		cmd.Stdout = lines
	}
	// A grandchild that keeps the pipe must not keep us.
	cmd.WaitDelay = killGrace
	cmd.SysProcAttr = ownGroup()
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		log.Close()
		return nil, err
	}
	if err := startCommand(cmd); err != nil {
		log.Close()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		if lines != nil {
			lines.rest()
		}
		log.Close()
		close(p.ended)
	}()
	return p, nil
}

// Say writes one line to the child's standard input.
func (p *Process) Say(line string) error {
	_, err := io.WriteString(p.stdin, line+"\n")
	return err
}

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended is closed when the child has ended and all its output was taken.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits for the end, at most that long; then it kills the group and says so.
func (p *Process) Wait(within time.Duration) error {
	select {
	case <-p.ended:
		return p.err
	case <-time.After(within):
		p.kill()
		return fmt.Errorf("%s did not end within %v", p.Name, within)
	}
}

// Stop sends the signal and waits for the end, at most the grace; then it kills the group and returns an error.
func (p *Process) Stop(signal syscall.Signal, grace time.Duration) error {
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.ended:
		return nil
	case <-time.After(grace):
		p.kill()
		return fmt.Errorf("%s did not end within %v after %v", p.Name, grace, signal)
	}
}

// ExitCode is valid after the end: -1 for an end by a signal.
func (p *Process) ExitCode() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

func (p *Process) kill() {
	_ = killGroup(p.cmd.Process.Pid)
	<-p.ended
}

// lineSplitter is an io.Writer that hands on whole lines.
type lineSplitter struct {
	mu   sync.Mutex
	part []byte
	sink func(line []byte)
}

func (s *lineSplitter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part = append(s.part, b...)
	for {
		end := bytes.IndexByte(s.part, '\n')
		if end < 0 {
			return len(b), nil
		}
		s.sink(s.part[:end])
		s.part = s.part[end+1:]
	}
}

func (s *lineSplitter) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.part) > 0 {
		s.sink(s.part)
		s.part = nil
	}
}

// LogTail is the end of a log file for a failure message; what cannot be read says why.
func LogTail(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	from := max(0, size-logTailBytes)
	tail := make([]byte, size-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return fmt.Sprintf("--- %s (last %d of %d bytes)\n%s", filepath.Base(file), len(tail), size, tail)
}

// cleanEnvironment is ours without what would change a broker or a client behind the test's back.
func cleanEnvironment(add ...string) []string {
	var kept []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "ROCKETMQ_") || strings.HasPrefix(name, "PEREGRINE_") || name == "NAMESRV_ADDR" || name == "JAVA_OPT" {
			continue
		}
		kept = append(kept, entry)
	}
	return append(kept, add...)
}
