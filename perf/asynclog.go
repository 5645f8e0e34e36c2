package perf

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Log is a logger whose callers never wait for the sink: lines are formatted where they are logged and written by one
// goroutine. An event loop that logs to a full pipe must not stand still. Lines that repeat themselves are limited, whoever
// logs them: see limitedHandler.
type Log struct {
	*slog.Logger
	budgets *logBudgets
	sink    io.Writer
	lines   chan []byte
	dropped atomic.Uint64
	done    chan struct{}

	mu     sync.RWMutex // guards closed against a send on the closed channel
	closed bool
}

// NewLog starts the writing goroutine; Close ends it. Text lines as slog's, one write each.
func NewLog(sink io.Writer, level slog.Leveler) *Log {
	l := &Log{sink: sink, budgets: newLogBudgets(), lines: make(chan []byte, logLinesMax), done: make(chan struct{})}
	l.Logger = slog.New(limitedHandler{slog.NewTextHandler(lineWriter{l}, &slog.HandlerOptions{Level: level}), l.budgets})
	go l.run()
	return l
}

// Dropped is how many lines found the queue full.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Suppressed is how many lines were left out because their text repeated itself.
func (l *Log) Suppressed() uint64 { return l.budgets.left.Load() }

// Close writes what waits, for at most a second. Later lines are dropped.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.lines)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(logFlushMax):
	}
}

func (l *Log) run() {
	defer close(l.done)
	told := uint64(0)
	for line := range l.lines {
		_, _ = l.sink.Write(line) // nowhere to report it
		if n := l.dropped.Load(); n != told && len(l.lines) == 0 {
			fmt.Fprintf(l.sink, "%d log lines were dropped because the sink is slow\n", n-told)
			told = n
		}
	}
}

// lineWriter gets one whole line with each Write, from slog's text handler, which may run on many goroutines.
type lineWriter struct{ log *Log }

func (w lineWriter) Write(line []byte) (int, error) {
	n := len(line)
	if n > logLineMax {
		line = append(line[:logLineMax-len(logCut)], logCut...)
	}
	w.log.mu.RLock()
	defer w.log.mu.RUnlock()
	if w.log.closed {
		w.log.dropped.Add(1)
		return n, nil
	}
	select {
	case w.log.lines <- append([]byte(nil), line...):
	default:
		w.log.dropped.Add(1)
	}
	return n, nil
}
