package relay

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/netio"
	"peregrine/wire"
)

// fakeClients takes the frames of calls.
type fakeClients struct {
	mu     sync.Mutex
	opaque []int32
	gone   bool
}

func (f *fakeClients) Push(_ netio.ConnRef, frame []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var d wire.Decoder
	var c wire.Command
	if err := d.Decode(frame[4:], &c); err != nil || c.IsOneway() || c.IsResponse() {
		panic("a call is no request")
	}
	f.opaque = append(f.opaque, c.Opaque)
	return !f.gone
}

func response(opaque int32, body string) *wire.Command {
	return &wire.Command{Opaque: opaque, Code: 7, Remark: []byte("said"), Body: []byte(body)}
}

// Each call ends once, in its own way, whoever else tries to end it.
func TestEachCallEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeClients{}
		table := New(f)
		ref, other := netio.ConnRef{Slot: 1, Gen: 1}, netio.ConnRef{Slot: 1, Gen: 2}
		var mu sync.Mutex // guards ended: timers end calls, too
		var ended []string
		call := func() {
			table.Call(ref, wire.RequestGetConsumerRunningInfo, nil, nil, 10*time.Second, func(a *Answer, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					ended = append(ended, err.Error())
					return
				}
				ended = append(ended, string(a.Body)+a.Remark)
			})
		}
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(ended) != len(want) {
				t.Fatalf("%s: %q", what, ended)
			}
			for i := range want {
				if ended[i] != want[i] {
					t.Errorf("%s: %q, want %q", what, ended[i], want[i])
				}
			}
			ended = nil
		}
		call()
		if !table.Waits() {
			t.Error("a call waits")
		}
		table.Answered(other, response(f.opaque[0], "from a stranger"))
		table.Answered(ref, response(f.opaque[0]+1, "to nothing"))
		expect("not yet")
		table.Answered(ref, response(f.opaque[0], "yes "))
		table.Answered(ref, response(f.opaque[0], "again "))
		table.ConnClosed(ref)
		time.Sleep(time.Minute)
		expect("answered", "yes said")

		call()
		time.Sleep(9999 * time.Millisecond)
		expect("before the time")
		time.Sleep(time.Millisecond)
		expect("timeout", ErrTimeout.Error())
		table.Answered(ref, response(f.opaque[1], "late"))
		expect("late")

		call()
		table.ConnClosed(other)
		expect("somebody else closed")
		table.ConnClosed(ref)
		expect("closed", ErrGone.Error())

		f.gone = true
		call()
		expect("gone before", ErrGone.Error())
		f.gone = false
		call()
		call()
		table.Stop()
		expect("stop", ErrGone.Error(), ErrGone.Error())
		if s := table.Stats(); s.Waiting != 0 || s.Timeouts != 1 || table.Waits() {
			t.Errorf("%+v", s)
		}
	})
}

func TestCallsAreBounded(t *testing.T) {
	table := New(&fakeClients{})
	refused := 0
	for range CallsMax + 1 {
		table.Call(netio.ConnRef{}, wire.RequestGetConsumerRunningInfo, nil, nil, time.Hour, func(_ *Answer, err error) {
			if errors.Is(err, ErrLimit) {
				refused++
			}
		})
	}
	if refused != 1 || table.Stats().Refused != 1 {
		t.Error(refused)
	}
	table.Stop()
}
