package broker

import (
	"log/slog"
	"sync"
	"time"
)

// repeatInterval is how often one and the same line is written.
const repeatInterval = 10 * time.Second

// repeatedLines bounds the texts that repeatedLog tells apart; they are constants of the code.
const repeatedLines = 64

// repeatedLog writes lines that a peer or a disk can cause at any rate: each text once in repeatInterval, with the number
// of lines left out (case R10).
type repeatedLog struct {
	logger *slog.Logger
	mu     sync.Mutex // guards last
	last   map[string]*repeatedLine
}

type repeatedLine struct {
	at         time.Time
	suppressed int
}

func newRepeatedLog(logger *slog.Logger) *repeatedLog {
	return &repeatedLog{logger: logger, last: make(map[string]*repeatedLine)}
}

func (r *repeatedLog) Warn(text string, args ...any) {
	if n, ok := r.due(text); ok {
		r.logger.Warn(text, append(args, "suppressed", n)...)
	}
}

func (r *repeatedLog) Error(text string, args ...any) {
	if n, ok := r.due(text); ok {
		r.logger.Error(text, append(args, "suppressed", n)...)
	}
}

func (r *repeatedLog) due(text string) (suppressed int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := r.last[text]
	if line == nil {
		if len(r.last) >= repeatedLines {
			return 0, false
		}
		line = &repeatedLine{}
		r.last[text] = line
	}
	t := time.Now()
	if t.Sub(line.at) < repeatInterval {
		line.suppressed++
		return 0, false
	}
	suppressed, line.suppressed, line.at = line.suppressed, 0, t
	return suppressed, true
}
