package transaction

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"peregrine/internal/message"
)

// modelHalf is one transaction as its producer sees it.
type modelHalf struct {
	body      string
	places    []place // where it was sent, and every copy that the producer was asked for
	committed bool    // the producer said so, once
	rolled    bool
	unwritten bool // ended since the last flush of op messages: a kill may forget it
	forgiven  bool // its end was forgotten by a kill, and the producer answered again
}

// TestEachCommitIsSeenOnce lets random producers begin, commit, roll back and stay silent, in time, too late or when asked,
// while rounds, clean restarts and kills happen. What is committed once is visible once, what is rolled back or open never, and
// everything open is asked for in the end. Only an end that a kill forgot with its unwritten op message may be repeated.
func TestEachCommitIsSeenOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := defaults()
		s.CheckMax = 1000
		s.OpBytesMax = rapid.SampledFrom([]int{64, 4096}).Draw(r, "opBytesMax")
		b := newBench(t, s)
		var all []*modelHalf
		byBody := map[string]*modelHalf{}
		finish := func(h *modelHalf, at place, fromCheck bool) {
			state := rollback
			if h.committed || !h.rolled && rapid.Bool().Draw(r, "commit") {
				state = commit
			}
			again := h.committed || h.rolled
			if again && !h.forgiven {
				return // the producer has said it, and was not asked again
			}
			if reply := b.end("p", at, state, fromCheck); reply.Code != 0 {
				if reply.Code == 604 {
					return // only the answer to a check counts now
				}
				r.Fatalf("end of %s: %+v", h.body, reply)
			}
			h.committed, h.rolled, h.unwritten = state == commit, state == rollback, true
		}
		answer := func() {
			for _, c := range b.takeChecks() {
				h := byBody[string(c.record.Body)]
				if (h.committed || h.rolled) && !h.forgiven {
					r.Fatalf("%s has ended and is asked for", h.body)
				}
				h.places = append(h.places, c.place())
				if rapid.IntRange(0, 3).Draw(r, "answer") > 0 {
					finish(h, c.place(), true)
				}
			}
		}
		some := func() *modelHalf { return all[rapid.IntRange(0, len(all)-1).Draw(r, "half")] }
		steps := rapid.IntRange(10, 60).Draw(r, "steps")
		for range steps {
			b.clock += message.Millis(rapid.IntRange(0, 9000).Draw(r, "pause"))
			switch step := rapid.IntRange(0, 11).Draw(r, "step"); {
			case step < 4 || len(all) == 0:
				h := &modelHalf{body: fmt.Sprint("h", len(all))}
				var more []string
				if rapid.Bool().Draw(r, "immune") {
					more = []string{message.PropertyCheckImmunitySeconds, fmt.Sprint(rapid.IntRange(1, 40).Draw(r, "seconds"))}
				}
				h.places = append(h.places, b.half("p", h.body, more...))
				all, byBody[h.body] = append(all, h), h
			case step < 7: // by any place that the producer knows, a copy may exist
				h := some()
				finish(h, h.places[rapid.IntRange(0, len(h.places)-1).Draw(r, "place")], false)
			case step < 10:
				b.Round()
				for _, h := range all {
					h.unwritten = false
				}
				answer()
			case step == 10:
				must(t, b.flushOps())
				for _, h := range all {
					h.unwritten = false
				}
			default:
				clean := rapid.Bool().Draw(r, "clean")
				b.restart(clean)
				for _, h := range all {
					h.forgiven = h.forgiven || h.unwritten && !clean
					h.unwritten = false
				}
			}
		}
		for range 30 { // everything is asked for in the end
			b.clock += 60_000
			b.Round()
			for _, c := range b.takeChecks() {
				h := byBody[string(c.record.Body)]
				if (h.committed || h.rolled) && !h.forgiven {
					r.Fatalf("%s has ended and is asked for", h.body)
				}
				finish(h, c.place(), true)
			}
		}
		seen := map[string]int{}
		for _, v := range b.read("T", 1) {
			seen[string(v.Body)]++
		}
		for _, h := range all {
			n := seen[h.body]
			switch {
			case !h.committed && !h.rolled:
				r.Fatalf("%s was never asked for", h.body)
			case h.rolled && n != 0, h.committed && n == 0, n > 1 && !h.forgiven:
				r.Fatalf("%s: committed %v, seen %d times", h.body, h.committed, n)
			}
		}
		half, op := b.progressed()
		if halfMax, opMax := b.store.Queue("RMQ_SYS_TRANS_HALF_TOPIC", 0).Max(), b.store.Queue("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0).Max(); half != halfMax || op != opMax {
			r.Fatalf("progress %d of %d and %d of %d", half, halfMax, op, opMax)
		}
	})
}
