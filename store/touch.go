package store

import (
	"time"

	"peregrine/internal/message"
	"peregrine/internal/stagetime"
)

// toucher keeps the pages of a small window ahead of the write position present and writable, so that an append takes no
// page fault. It is woken by position, never by time.
type toucher struct {
	l    *CommitLog
	wake chan struct{} // capacity 1
	quit chan struct{}
	done chan struct{}
	// touched is how far pages were populated. Only the toucher's goroutine.
	touched message.PhyOffset
	took    stagetime.Stage // of steps
}

func newToucher(l *CommitLog) *toucher {
	return &toucher{l: l, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// poke wakes the toucher; it never blocks.
// hot: once per quarter of touchWindowBytes
func (t *toucher) poke() {
	t.l.touchAt.Store(neverPosition)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// extendTo tells that more is allocated now: a window that ended at the allocation may go on.
func (t *toucher) extendTo() {
	if !t.l.set.direct {
		t.poke()
	}
}

func (t *toucher) run() {
	defer close(t.done)
	for {
		select {
		case <-t.quit:
			return
		case <-t.wake:
		}
		t.work()
	}
}

// prime touches the first step, before the goroutine starts: the first appends take no page fault.
func (t *toucher) prime() {
	if !t.l.set.direct {
		t.step(t.touched + touchStepBytes)
	}
}

// work populates in steps up to a window ahead of the write position, which moves meanwhile.
func (t *toucher) work() {
	l := t.l
	for {
		select {
		case <-t.quit:
			return
		default:
		}
		wrote := l.Wrote()
		t.touched = max(t.touched, wrote)
		if t.touched >= wrote+touchWindowBytes || !t.step(wrote+touchWindowBytes) {
			break
		}
	}
	// At the end of the allocation the window is short; extendTo comes when that moves.
	next := max(t.touched-touchWindowBytes*3/4, l.Wrote()+touchStepBytes)
	l.touchAt.Store(int64(next))
	if l.Wrote() >= next {
		t.poke()
	}
}

// step populates up to touchStepBytes at touched and tells whether it got further.
func (t *toucher) step(limit message.PhyOffset) bool {
	f := t.l.files.Load().at(t.touched)
	if f == nil {
		return false
	}
	at := int64(t.touched - f.start)
	n := min(int64(limit-t.touched), f.allocated.Load()-at, touchStepBytes)
	v := f.view.Load()
	if n <= 0 || v == nil {
		return false
	}
	// A failure costs page faults during appends and nothing else: the range has its blocks.
	began := time.Now()
	if err := v.mapping.Populate(at, n); err != nil {
		t.l.logger.Debug("populate the commitlog ahead", "error", err)
		return false
	}
	t.took.Took(time.Since(began), 1)
	t.touched += message.PhyOffset(n)
	return true
}

func (t *toucher) stop() {
	close(t.quit)
	<-t.done
}

// AddStageTimes adds how long appends waited for the append lock when it was taken, and how long the kernel took to give the pages ahead of
// the log. Any goroutine.
func (s *Store) AddStageTimes(lockWaits, populate *stagetime.Times) {
	s.log.lockWaits.AddTo(lockWaits)
	s.log.touch.took.AddTo(populate)
}
