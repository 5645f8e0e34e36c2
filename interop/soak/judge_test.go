package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// trial is a judge with a clock and a few words for what clients do.
type trial struct {
	*judge
	now time.Time
}

func newTrial() *trial { return &trial{newJudge(), time.UnixMilli(1_700_000_000_000)} }

func (t *trial) pass(d time.Duration) { t.now = t.now.Add(d) }

// sendTo sends and gets an answer.
func (t *trial) sendTo(queue int, k kind, level uint8) content {
	c := content{identity: t.begin(0, queue, k), kind: k, level: level, born: t.now.UnixMilli()}
	t.ack(c.identity)
	return c
}

func (t *trial) send() content { return t.sendTo(0, plain, 0) }

func (t *trial) join(r reader, queue int, from int64) *session {
	return t.open(r, queue, "member", t.life(), t.floor(r, queue), from)
}

// give delivers messages from that offset on.
func (t *trial) give(s *session, offset int64, messages ...content) {
	for i, c := range messages {
		t.delivered(s, offset+int64(i), c, t.now)
	}
}

func (t *trial) commit(s *session, offset int64) {
	t.committing(s, offset)
	t.committed(s, offset, t.now)
}

func (t *trial) kill() {
	t.killing(t.now)
	t.killDone()
}

// everybody delivers messages to all readers, from offset 0 of queue 0 on.
func (t *trial) everybody(messages ...content) {
	for r := range readers {
		t.give(t.join(r, 0, 0), 0, messages...)
	}
}

// Every rule: what it allows, and what breaks it. want is the rule that has to be named, "" for none.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
		life func(*trial)
	}{
		{"everything once", "", func(t *trial) { t.everybody(t.send(), t.send(), t.send()) }},
		{"nobody got it", "loss", func(t *trial) { t.send() }},
		{"one broadcasting member did not get it", "loss", func(t *trial) {
			m := t.send()
			for r := range readers - 1 {
				t.give(t.join(r, 0, 0), 0, m)
			}
		}},
		{"never acknowledged", "", func(t *trial) { t.begin(0, 0, plain) }},
		{"never acknowledged, but there", "", func(t *trial) { t.everybody(content{identity: t.begin(0, 0, plain)}) }},
		{"a hole in a queue", "loss", func(t *trial) { t.give(t.join(concurrent, 0, 0), 1, content{identity: t.begin(0, 0, plain)}) }},
		{"a session begins behind what was delivered", "loss", func(t *trial) { t.join(concurrent, 0, 3) }},
		{"a message that nobody sent", "content", func(t *trial) { t.give(t.join(concurrent, 0, 0), 0, content{}) }},
		{"another kind than was sent", "content", func(t *trial) {
			m := t.send()
			m.kind = delayed
			t.everybody(m)
		}},
		{"in another queue", "order", func(t *trial) { t.give(t.join(concurrent, 1, 0), 0, content{identity: t.begin(0, 0, plain)}) }},
		{"numbers that fall", "order", func(t *trial) {
			a, b := t.send(), t.send()
			t.everybody(b, a)
		}},
		{"delayed ones between", "", func(t *trial) {
			a, b, c := t.sendTo(0, delayed, 1), t.send(), t.send()
			t.pass(time.Second)
			t.everybody(b, a, c)
		}},
		{"delayed, one ms early", "early", func(t *trial) {
			m := t.sendTo(0, delayed, 2)
			t.pass(5*time.Second - time.Millisecond)
			t.everybody(m)
		}},
		{"delayed, in time", "", func(t *trial) {
			m := t.sendTo(0, delayed, 2)
			t.pass(5 * time.Second)
			t.everybody(m)
		}},
		{"rolled back", "", func(t *trial) { t.sendTo(0, rolledBack, 0); t.sendTo(0, openRolledBack, 0) }},
		{"rolled back, but there", "transaction", func(t *trial) { t.everybody(t.sendTo(0, rolledBack, 0)) }},
		{"rolled back when asked, but there", "transaction", func(t *trial) { t.everybody(t.sendTo(0, openRolledBack, 0)) }},
		{"committed, but lost", "loss", func(t *trial) { t.sendTo(0, openCommitted, 0) }},
		{"committed", "", func(t *trial) { t.everybody(t.sendTo(0, committed, 0)) }},
		{"the same offset twice in a session", "order", func(t *trial) {
			m := t.send()
			t.everybody(m)
			s := t.join(concurrent, 0, 0)
			t.give(s, 0, m)
			t.give(s, 0, m)
		}},
		{"again in a new session, not committed", "", func(t *trial) {
			m := t.send()
			t.everybody(m)
			t.give(t.join(concurrent, 0, 0), 0, m)
		}},
		{"again in a new session, committed", "repeat", func(t *trial) {
			m := t.send()
			t.everybody(m)
			t.commit(t.join(concurrent, 0, 1), 1)
			t.join(concurrent, 0, 0)
		}},
		{"while a lower commit is under way", "", func(t *trial) {
			a, b := t.send(), t.send()
			t.everybody(a, b)
			s := t.join(concurrent, 0, 0)
			t.committing(s, 1)
			t.commit(s, 2)
			t.join(concurrent, 0, 1)
		}},
		{"committed, killed at once", "", func(t *trial) {
			m := t.send()
			t.everybody(m)
			t.commit(t.join(concurrent, 0, 1), 1)
			t.kill()
			t.give(t.join(concurrent, 0, 0), 0, m)
		}},
		{"committed long before the kill", "repeat", func(t *trial) {
			m := t.send()
			t.everybody(m)
			t.commit(t.join(concurrent, 0, 1), 1)
			t.pass(offsetsLostMax + time.Second)
			t.kill()
			t.join(concurrent, 0, 0)
		}},
		{"a broadcasting member that begins again", "repeat", func(t *trial) {
			t.everybody(t.send())
			t.join(broadcastLeaver, 0, 0)
		}},
		{"two owners of a locked queue", "order", func(t *trial) { t.join(orderly, 0, 0); t.join(orderly, 0, 0) }},
		{"an owner after the other", "", func(t *trial) { t.close(t.join(orderly, 0, 0)); t.join(orderly, 0, 0) }},
		{"owners before and after a kill", "", func(t *trial) { t.join(orderly, 0, 0); t.kill(); t.join(orderly, 0, 0) }},
		{"a session of the life before", "loss", func(t *trial) { // void: it does not count as delivered
			m := t.send()
			var old [readers]*session
			for r := range readers {
				old[r] = t.join(r, 0, 0)
			}
			t.kill()
			for r := range readers {
				t.give(old[r], 0, m)
			}
		}},
		{"a second copy", "duplicate", func(t *trial) {
			m := t.send()
			t.everybody(m, m)
		}},
		{"a second copy of a delayed one after a kill", "duplicate", func(t *trial) {
			m := t.sendTo(0, delayed, 1)
			t.pass(time.Second)
			t.kill()
			t.everybody(m, m)
		}},
		{"a second copy of a transaction", "duplicate", func(t *trial) {
			m := t.sendTo(0, committed, 0)
			t.ending(m.identity, t.now)
			t.everybody(m, m)
		}},
		{"ended just before the kill, twice there", "", func(t *trial) {
			m := t.sendTo(0, committed, 0)
			t.ending(m.identity, t.now)
			t.kill()
			t.everybody(m, m)
		}},
		{"ended just before the kill, three times there", "duplicate", func(t *trial) {
			m := t.sendTo(0, committed, 0)
			t.ending(m.identity, t.now)
			t.kill()
			t.everybody(m, m, m)
		}},
		{"ended long before the kill, twice there", "duplicate", func(t *trial) {
			m := t.sendTo(0, committed, 0)
			t.ending(m.identity, t.now)
			t.pass(endsLostMax + time.Second)
			t.kill()
			t.everybody(m, m)
		}},
		{"ended after the kill, twice there", "duplicate", func(t *trial) {
			t.kill()
			m := t.sendTo(0, committed, 0)
			t.ending(m.identity, t.now)
			t.everybody(m, m)
		}},
		{"sent back, came", "", func(t *trial) { t.comeBack(time.Second, 1, 1) }},
		{"sent back, never came", "loss", func(t *trial) { t.comeBack(time.Second, 1, 0) }},
		{"sent back twice, came once", "loss", func(t *trial) { t.comeBack(time.Second, 2, 1) }},
		{"sent back, came twice", "duplicate", func(t *trial) { t.comeBack(time.Second, 1, 2) }},
		{"sent back, came early", "early", func(t *trial) { t.comeBack(time.Second-time.Millisecond, 1, 1) }},
		{"sent back without an answer, did not come", "", func(t *trial) {
			m := t.send()
			t.everybody(m)
			t.sendingBack(m.identity, t.now)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			life := newTrial()
			c.life(life)
			violations, _, _ := life.verdict()
			_, missing := life.missing()
			found := append(violations, missing...)
			if c.want == "" && len(found) > 0 {
				t.Fatalf("nothing is wrong, but: %q", found)
			}
			if c.want != "" && (len(found) == 0 || !strings.HasPrefix(found[0], c.want+":")) {
				t.Fatalf("%q expected first, found %q", c.want, found)
			}
		})
	}
}

// comeBack sends a message, sends it back with a delay of a second, and lets it come after that time.
func (t *trial) comeBack(after time.Duration, backs, comes int) {
	m := t.send()
	t.everybody(m)
	for range backs {
		t.sendingBack(m.identity, t.now.Add(time.Second))
		t.sentBack(m.identity)
	}
	t.pass(after)
	s := t.join(concurrent, retryQueue, 0)
	for i := range comes {
		t.give(s, int64(i), m)
	}
}

// All violations are counted, the first ones kept.
func TestJudgeCountsWhatItDoesNotKeep(t *testing.T) {
	j := newJudge()
	for range 3 * violationsKept {
		j.complain("rule", "text")
	}
	if kept, total, _ := j.verdict(); len(kept) != violationsKept || total != 3*violationsKept {
		t.Fatalf("%d kept, %d counted", len(kept), total)
	}
}

func TestBodiesReadBackAndNothingElseDoes(t *testing.T) {
	c := content{identity: identity{7, 3, 1<<32 - 1}, kind: openRolledBack, level: 3, born: 1_700_000_000_123}
	body := c.appendTo(nil)
	if got, err := parseContent(body); err != nil || got != c {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range body {
		body[i] ^= 0x80
		if got, err := parseContent(body); err == nil && got == c {
			t.Fatalf("byte %d does not matter", i)
		}
		body[i] ^= 0x80
	}
	if _, err := parseContent(body[:bodyBytes-1]); err == nil {
		t.Fatal("a short body passes")
	}
}

func TestUsageHasToComeBack(t *testing.T) {
	base := usage{50, 10 * mib}
	for _, c := range []struct {
		now  usage
		want bool
	}{
		{base, true},
		{usage{50 + goroutinesOver, 10*mib + anonOver}, true},
		{usage{50 + goroutinesOver + 1, 10 * mib}, false},
		{usage{50, 10*mib + anonOver + 1}, false},
	} {
		if got := c.now.within(base); got != c.want {
			t.Errorf("%v within %v: %t", c.now, base, got)
		}
	}
}

// Connections may break; what a broker says, or does not say, counts.
func TestNotedErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{net.ErrClosed, 0},
		{&net.OpError{Op: "read", Err: net.ErrClosed}, 0},
		{errSilent, 1},
		{errLock, 1},
		{errBody, 1},
		{&refusedError{}, 1},
	} {
		w := world{judge: newJudge()}
		w.note(c.err)
		if _, count, _ := w.judge.verdict(); count != c.want {
			t.Errorf("%v: %d violations, %d expected", c.err, count, c.want)
		}
	}
}

func TestSeedsDecideWhatProducersDo(t *testing.T) {
	choices := func(seed uint64) (s string) {
		p := producer{rng: (&world{seed: seed}).rng(1)}
		for range 200 {
			k, level := p.choose()
			s += string(rune('a'+k)) + string(rune('0'+level))
		}
		return s
	}
	if first, again := choices(1), choices(1); first != again || first == choices(2) {
		t.Fatal("choices do not follow the seed")
	}
}
