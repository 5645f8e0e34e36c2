package netio

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// gnetLogger gives gnet's own lines to slog. gnet makes the logger of the newest engine the one of
// the whole process, which is right for one engine a process.
type gnetLogger struct {
	log  *slog.Logger
	rate limitedLog

	mu   sync.Mutex
	last []string // guarded by mu: the newest errors, the only trace of why an engine ended
}

// lastErrorsMax covers what gnet says about one end, from the failed call to the engine.
const lastErrorsMax = 4

func (g *gnetLogger) write(level slog.Level, format string, args []any) {
	if !g.log.Enabled(context.Background(), level) {
		return
	}
	if level >= slog.LevelWarn {
		suppressed, ok := g.rate.allow(time.Now())
		if !ok {
			return
		}
		g.log.Log(context.Background(), level, "gnet: "+fmt.Sprintf(format, args...), "suppressed", suppressed)
		return
	}
	g.log.Log(context.Background(), level, "gnet: "+fmt.Sprintf(format, args...))
}

func (g *gnetLogger) Debugf(format string, args ...any) { g.write(slog.LevelDebug, format, args) }

// Infof is what every start says: not worth a line of ours.
func (g *gnetLogger) Infof(format string, args ...any) { g.write(slog.LevelDebug, format, args) }
func (g *gnetLogger) Warnf(format string, args ...any) { g.write(slog.LevelWarn, format, args) }

func (g *gnetLogger) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	g.mu.Lock()
	if len(g.last) == lastErrorsMax {
		g.last = g.last[1:]
	}
	g.last = append(g.last, text)
	g.mu.Unlock()
	g.write(slog.LevelError, format, args)
}

// Fatalf does not end the process: the engine's end does, through Server.Done.
func (g *gnetLogger) Fatalf(format string, args ...any) { g.Errorf(format, args...) }

func (g *gnetLogger) lastErrors() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.last) == 0 {
		return "no cause given"
	}
	return strings.Join(g.last, "; ")
}

// limitedLog lets one line through per logInterval and counts the others. Any goroutine.
type limitedLog struct {
	next       atomic.Int64 // epoch ns from which the next line may be written
	suppressed atomic.Uint64
}

// allow says whether the line may be written, and how many were not since the last one.
func (r *limitedLog) allow(now time.Time) (suppressed uint64, ok bool) {
	t := now.UnixNano()
	next := r.next.Load()
	if t < next || !r.next.CompareAndSwap(next, t+int64(logInterval)) {
		r.suppressed.Add(1)
		return 0, false
	}
	return r.suppressed.Swap(0), true
}
