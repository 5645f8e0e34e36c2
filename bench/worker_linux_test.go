package bench

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"peregrine/wire"
)

func TestComposingAndCountingAllocateNothing(t *testing.T) {
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		f := testFrames(t, func(s *frameSpec) { s.encoding = enc })
		w := &worker{run: &run{opts: Options{Batch: 1}}, cur: newInterval(&Options{Rate: 1})}
		c := &conn{state: connUp, target: &target{queues: 12}, frames: f, stream: newStream(0, 12), table: newInflight(32), rx: make([]byte, readBufferBytes)}
		w.conns = []*conn{c}
		plan := newSchedule(0, math.MaxInt64, 1e6, 0, 64)
		now := int64(0)
		work := func() {
			now += 32_000
			plan.admit(now, now, 0, 64)
			c.tx = c.tx[:0]
			for plan.len > 0 && !c.table.full() {
				w.compose(c, plan.pop(), now)
			}
			for i := range c.table.slots {
				if r := &c.table.slots[i]; r.waiting {
					opaque := opaqueBase + int32((r.generation<<c.table.slotBits|uint32(i))&(1<<opaqueBits-1))
					c.rxTo = len(wire.AppendSendResponse(c.rx[:c.rxTo], enc, opaque, wire.ResponseSuccess, "", &wire.SendMessageResponse{MsgID: []byte("ID")}))
				}
			}
			w.take(c, now)
		}
		work() // buffers grow once
		if n := testing.AllocsPerRun(100, work); n != 0 {
			t.Errorf("%s: %v allocations for 32 messages", enc, n)
		}
		if w.cur.acked == 0 || w.cur.strange != 0 || w.cur.errors.n != 0 || w.waiting != 0 {
			t.Errorf("%s: acked %d strange %d errors %d waiting %d", enc, w.cur.acked, w.cur.strange, w.cur.errors.sum(), w.waiting)
		}
	}
}

// Answers may arrive cut anywhere, and larger than the buffer.
func TestAnswersAreReassembledFromAnyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &worker{run: &run{opts: Options{Batch: 1}}, cur: newInterval(&Options{})}
		c := &conn{state: connUp, target: &target{queues: 1}, table: newInflight(64), rx: make([]byte, 64)}
		var stream []byte
		want := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "answers") {
			enc := wire.Encoding(rapid.IntRange(0, 1).Draw(t, "encoding"))
			code := wire.ResponseSuccess
			if rapid.IntRange(0, 4).Draw(t, "failed") == 0 {
				code = wire.ResponseSystemBusy
			} else {
				want++
			}
			stream = wire.AppendResponse(stream, enc, c.table.take(request{}), code, strings.Repeat("r", rapid.IntRange(0, 300).Draw(t, "remark")), nil, nil)
			w.waiting++
			if rapid.IntRange(0, 9).Draw(t, "push") == 0 { // a request of the broker in between
				stream = wire.AppendRequest(stream, enc, wire.RequestNotifyConsumerIDsChanged, 5, 0, wire.LanguageJava, 1, nil, nil)
			}
		}
		for len(stream) > 0 {
			n := min(rapid.IntRange(1, 200).Draw(t, "piece"), len(stream), len(c.rx)-c.rxTo)
			copy(c.rx[c.rxTo:], stream[:n])
			stream = stream[n:]
			c.rxTo += n
			w.take(c, 9)
		}
		if w.cur.acked != want || w.waiting != 0 || w.cur.strange != 0 {
			t.Fatalf("acked %d, want %d; waiting %d strange %d", w.cur.acked, want, w.waiting, w.cur.strange)
		}
	})
}

func TestUnansweredMessagesAreErrors(t *testing.T) {
	w := &worker{run: &run{opts: Options{Batch: 4}}, cur: newInterval(&Options{})}
	c := &conn{table: newInflight(8)}
	for range 3 {
		c.table.take(request{})
		w.waiting++
	}
	w.lost(c, codeUnanswered, "")
	if w.waiting != 0 || w.cur.errors.sum() != 12 || c.table.waiting() != 0 {
		t.Errorf("waiting %d, errors %d", w.waiting, w.cur.errors.sum())
	}
}
