package perf

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// limitedHandler bounds what a peer, a disk or a bug that repeats itself can write (case R10): each text passes logBurst
// times at once and then once in logRefill; the next line of it that passes says how many were suppressed. Texts are constants of
// the code, so what differs from line to line stands in the attributes; were there more than logTextsMax texts, the later
// ones would share one budget.
type limitedHandler struct {
	slog.Handler
	budgets *logBudgets // shared by all handlers that With made
}

// logBudgets is safe for all goroutines.
type logBudgets struct {
	left atomic.Uint64 // lines suppressed so far

	mu     sync.Mutex // guards byText and what it holds; leaf
	byText map[string]*logBudget
	other  logBudget
}

// logBudget is a bucket of lines. The zero value is a full one.
type logBudget struct {
	used       int       // lines taken out of logBurst
	refilled   time.Time // up to when refilling is counted
	suppressed uint64    // since the last line that passed
}

func newLogBudgets() *logBudgets { return &logBudgets{byText: map[string]*logBudget{}} }

// take says whether a line with the text may be written at that time, and how many were not since the last one that was.
func (b *logBudgets) take(text string, at time.Time) (suppressed uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	budget := b.byText[text]
	if budget == nil {
		budget = &b.other
		if len(b.byText) < logTextsMax {
			budget = &logBudget{}
			b.byText[text] = budget
		}
	}
	if n := int(at.Sub(budget.refilled) / logRefill); budget.used == 0 || n >= budget.used {
		budget.used, budget.refilled = 0, at
	} else if n > 0 {
		budget.used -= n
		budget.refilled = budget.refilled.Add(time.Duration(n) * logRefill)
	}
	if budget.used >= logBurst {
		budget.suppressed++
		b.left.Add(1)
		return 0, false
	}
	budget.used++
	suppressed, budget.suppressed = budget.suppressed, 0
	return suppressed, true
}

func (h limitedHandler) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := h.budgets.take(r.Message, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

func (h limitedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitedHandler{h.Handler.WithAttrs(attrs), h.budgets}
}

func (h limitedHandler) WithGroup(name string) slog.Handler {
	return limitedHandler{h.Handler.WithGroup(name), h.budgets}
}
