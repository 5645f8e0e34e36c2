// Package relay asks clients for something and hands their answer on: what an administrator wants to know of a consumer, what a
// requester is told (Broker2Client of RocketMQ 5.5.0). A call never blocks; done is called exactly once, with the answer, or
// with the reason why there is none.
//
// Goroutines: all methods, from anywhere. done runs on the goroutine that brought the answer, on a timer's, or on the
// caller's own before Call returns; it must not block. The lock is a leaf and not held while done runs.
package relay

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/netio"
	"peregrine/wire"
)

// Reasons why a call has no answer.
var (
	ErrTimeout = errors.New("the client did not answer in time")
	ErrGone    = errors.New("the client is not connected")
	ErrLimit   = errors.New("too many calls wait for clients (limit CallsMax)")
)

// Pusher reaches connections; see clients.Pusher.
type Pusher interface {
	Push(ref netio.ConnRef, frame []byte) bool
}

// Answer is what a client answered. Body is a copy and the receiver's.
type Answer struct {
	Code   wire.ResponseCode
	Remark string
	Body   []byte
}

// Table holds the calls that wait.
type Table struct {
	pusher  Pusher
	opaque  atomic.Int32
	waiting atomic.Int64

	mu       sync.Mutex // guards the fields below
	calls    map[int32]*call
	timeouts uint64
	refused  uint64
}

type call struct {
	ref   netio.ConnRef
	timer *time.Timer
	done  func(*Answer, error)
}

// New makes an empty table.
func New(p Pusher) *Table { return &Table{pusher: p, calls: make(map[int32]*call)} }

// Call sends a request to a connection. header is a wire struct or nil; body is borrowed until Call returns.
func (t *Table) Call(ref netio.ConnRef, code wire.RequestCode, header any, body []byte, timeout time.Duration, done func(*Answer, error)) {
	opaque := t.opaque.Add(1)
	c := &call{ref: ref, done: done}
	t.mu.Lock()
	if len(t.calls) >= CallsMax {
		t.refused++
		t.mu.Unlock()
		done(nil, ErrLimit)
		return
	}
	c.timer = time.AfterFunc(timeout, func() { t.end(opaque, c, nil, ErrTimeout) })
	t.calls[opaque] = c
	t.waiting.Store(int64(len(t.calls)))
	t.mu.Unlock()
	frame := wire.AppendRequest(nil, wire.EncodingJSON, code, opaque, 0, wire.LanguageJava, wire.Version, header, body)
	if !t.pusher.Push(ref, frame) {
		t.end(opaque, c, nil, ErrGone)
	}
}

// Waits says whether any call waits: without one, an answer is nobody's.
//
// hot: one atomic load.
func (t *Table) Waits() bool { return t.waiting.Load() > 0 }

// Answered takes a response that came in. Only the connection that was asked can answer. cmd is borrowed.
func (t *Table) Answered(ref netio.ConnRef, cmd *wire.Command) {
	t.mu.Lock()
	c := t.calls[cmd.Opaque]
	t.mu.Unlock()
	if c == nil || c.ref != ref {
		return
	}
	t.end(cmd.Opaque, c, &Answer{Code: wire.ResponseCode(cmd.Code), Remark: string(cmd.Remark), Body: append([]byte(nil), cmd.Body...)}, nil)
}

// ConnClosed ends the calls to a connection.
func (t *Table) ConnClosed(ref netio.ConnRef) {
	if !t.Waits() {
		return
	}
	gone := make(map[int32]*call)
	t.mu.Lock()
	for opaque, c := range t.calls {
		if c.ref == ref {
			gone[opaque] = c
		}
	}
	t.mu.Unlock()
	for opaque, c := range gone {
		t.end(opaque, c, nil, ErrGone)
	}
}

// Stop ends the calls that wait.
func (t *Table) Stop() {
	t.mu.Lock()
	all := t.calls
	t.calls = make(map[int32]*call)
	t.waiting.Store(0)
	t.mu.Unlock()
	for _, c := range all {
		c.timer.Stop()
		c.done(nil, ErrGone)
	}
}

// end calls done, unless somebody else was first.
func (t *Table) end(opaque int32, c *call, answer *Answer, err error) {
	t.mu.Lock()
	if t.calls[opaque] != c {
		t.mu.Unlock()
		return
	}
	delete(t.calls, opaque)
	t.waiting.Store(int64(len(t.calls)))
	if err == ErrTimeout {
		t.timeouts++
	}
	t.mu.Unlock()
	c.timer.Stop()
	c.done(answer, err)
}

// Stats are the sums since the start, and what waits now.
type Stats struct {
	Waiting           int64
	Timeouts, Refused uint64
}

// Stats returns a snapshot.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Waiting: t.waiting.Load(), Timeouts: t.timeouts, Refused: t.refused}
}
