package flush

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peregrine/internal/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is how the fake log's next sync ends.
type answer struct {
	takes time.Duration
	lie   message.PhyOffset // added to what the sync claims to cover; what it covers really is unchanged unless negative
	err   error
}

// fakeLog is a Log whose disk is told what to do. durable is the truth: it only counts bytes that were written before a
// successful sync began and that this sync was asked for.
type fakeLog struct {
	wrote   atomic.Int64
	durable atomic.Int64
	syncs   atomic.Int64
	plan    func(n int64) answer // n counts from 1; nil: at once, honest

	mu    sync.Mutex
	began []message.PhyOffset // what was written when each sync began
	asked []message.PhyOffset
}

func (l *fakeLog) Wrote() message.PhyOffset { return message.PhyOffset(l.wrote.Load()) }

func (l *fakeLog) Sync(to message.PhyOffset) (message.PhyOffset, error) {
	n := l.syncs.Add(1)
	covers := min(to, l.Wrote())
	l.mu.Lock()
	l.began = append(l.began, l.Wrote())
	l.asked = append(l.asked, to)
	l.mu.Unlock()
	var a answer
	if l.plan != nil {
		a = l.plan(n)
	}
	if a.takes > 0 {
		time.Sleep(a.takes) // the virtual disk of a synctest bubble
	}
	if a.err != nil {
		return covers + a.lie, a.err
	}
	if a.lie < 0 {
		covers += a.lie
		a.lie = 0
	}
	raise(&l.durable, int64(covers))
	return covers + a.lie, nil
}

// append writes n bytes and returns their end.
func (l *fakeLog) append(n int64) message.PhyOffset { return message.PhyOffset(l.wrote.Add(n)) }

// started returns a Committer that runs on log and is stopped with the test, unless the test did so.
func started(t testing.TB, log Log, opts Options, subscribers ...func(message.PhyOffset, error)) *Committer {
	t.Helper()
	c := New(log, opts)
	for _, s := range subscribers {
		c.Subscribe(s)
	}
	c.Start(log.Wrote())
	t.Cleanup(func() { c.Stop() })
	return c
}
