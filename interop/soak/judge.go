package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// reader is who must see every message: a group, or one member of the broadcasting group.
type reader uint8

const (
	concurrent reader = iota
	orderly
	broadcastSteady // a broadcasting member that stays
	broadcastLeaver // one that leaves and comes back with its own offsets
	readers
)

func (r reader) String() string {
	return [...]string{"concurrent", "orderly", "broadcasting, steady", "broadcasting, leaving"}[r]
}

func (r reader) group() bool { return r == concurrent || r == orderly }

// What a kill may take along: offsets committed since the last write of consumerOffset.json (flushConsumerOffsetInterval, 5 s), and
// ends of transactions since the last op message (transactionOpBatchInterval, 3 s), each with room for a slow machine.
const (
	offsetsLostMax = 10 * time.Second
	endsLostMax    = 6 * time.Second
	violationsKept = 20
)

// record is what the judge knows of one message. There are millions of them.
type record struct {
	place uint32 // 1 + its queue offset, 0 before the first delivery
	kind  kind
	acked bool
	seen  [readers]bool
}

// passage is one message's way through the retry topic of the concurrent group.
type passage struct {
	begun, acked, came int
	due                []int64 // of each that has not come yet, epoch ms: a broker counts in those
}

// commits are the offsets that a group committed to one queue.
type commits struct {
	inFlight []int64
	acked    []moment // the last one, and those of the last offsetsLostMax
}

type moment struct {
	at    time.Time
	value int64
}

// floor is the lowest offset that the broker may answer with.
func (c *commits) floor() int64 {
	lowest := int64(0)
	if n := len(c.acked); n > 0 {
		lowest = c.acked[n-1].value
	}
	for _, v := range c.inFlight {
		lowest = min(lowest, v)
	}
	return lowest
}

// forget is floor after a kill: what was written offsetsLostMax ago may be the newest that is left, and nothing is in flight.
func (c *commits) forget(now time.Time) {
	lowest := c.floor()
	for _, m := range c.acked {
		lowest = min(lowest, m.value)
	}
	if len(c.acked) == 0 || now.Sub(c.acked[0].at) < offsetsLostMax {
		lowest = 0 // the first commit of all may be lost
	}
	*c = commits{acked: []moment{{now, lowest}}}
}

// lane is one queue as one reader sees it.
type lane struct {
	high     int64 // all offsets below were delivered
	commits  commits
	owner    *session // orderly: who has the lock
	lastSeqs [producerCount]int64
}

// session is one member's work on one queue, from the offset it was told on. Its fields are the judge's.
type session struct {
	reader reader
	queue  int
	member string
	next   int64
	epoch  int
	closed bool
}

// judge hears of everything that happens, in the order in which it happens, and says what may not. Any goroutine may call it.
type judge struct {
	mu         sync.Mutex
	epoch      int  // how many lives of the broker began or ended
	down       bool // between the decision to kill and the end of the process
	killed     time.Time
	sent       [producerCount][queueCount][]record
	lanes      [readers][queueCount + 1]lane
	passages   map[identity]*passage
	ends       map[identity]time.Time // last END_TRANSACTION before the kill
	copies     map[identity]int       // further copies of committed messages
	violations []string
	count      int
	figures    figures
}

// figures are what a report shows.
type figures struct{ sent, acked, delivered, repeats, sentBack, returned, copies, sessions int }

func newJudge() *judge {
	j := &judge{passages: map[identity]*passage{}, ends: map[identity]time.Time{}, copies: map[identity]int{}}
	for r := range j.lanes {
		for q := range j.lanes[r] {
			for p := range j.lanes[r][q].lastSeqs {
				j.lanes[r][q].lastSeqs[p] = -1
			}
		}
	}
	return j
}

// violated notes what may not be. The caller holds mu.
func (j *judge) violated(rule, format string, args ...any) {
	j.count++
	if len(j.violations) < violationsKept {
		j.violations = append(j.violations, rule+": "+fmt.Sprintf(format, args...))
	}
}

// complain is violated for what a client sees by itself: an answer that may not be.
func (j *judge) complain(rule, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violated(rule, format, args...)
}

// begin gives the next identity of that producer and queue; the message may be stored from now on.
func (j *judge) begin(producer, queue int, k kind) identity {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := &j.sent[producer][queue]
	*list = append(*list, record{kind: k})
	j.figures.sent++
	return identity{uint8(producer), uint8(queue), uint32(len(*list) - 1)}
}

// ack: the broker took the message and may not lose it any more.
func (j *judge) ack(id identity) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.record(id).acked = true
	j.figures.acked++
}

// ending: an END_TRANSACTION that commits or rolls back is about to be sent.
func (j *judge) ending(id identity, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.killed.IsZero() || j.down {
		j.ends[id] = now
	}
}

func (j *judge) record(id identity) *record {
	list := j.sent[id.producer][id.queue]
	if int(id.seq) >= len(list) {
		return nil
	}
	return &list[id.seq]
}

// killing: the broker is about to be killed. Until killDone nobody may begin anything that lasts.
func (j *judge) killing(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch++
	j.down, j.killed = true, now
	for r := range j.lanes {
		for q := range j.lanes[r] {
			l := &j.lanes[r][q]
			l.owner = nil
			l.commits.forget(now)
		}
	}
	for id, at := range j.ends {
		if now.Sub(at) > endsLostMax {
			delete(j.ends, id)
		}
	}
}

// killDone: the process is gone.
func (j *judge) killDone() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch++
	j.down = false
}

// life is what a member notes before it dials: sessions of an earlier life are void.
func (j *judge) life() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.epoch
}

// floor is to be asked before the broker is asked for the group's offset.
func (j *judge) floor(r reader, queue int) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lanes[r][queue].commits.floor()
}

// open begins a session at the offset that the broker told (groups) or that the member kept (broadcasting). nil: void.
func (j *judge) open(r reader, queue int, member string, epoch int, floor, from int64) *session {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch != j.epoch || j.down {
		return nil
	}
	l := &j.lanes[r][queue]
	switch {
	case from > l.high:
		j.violated("loss", "%v, queue %d: %s begins at %d, only what lies below %d was delivered", r, queue, member, from, l.high)
	case r.group() && from < floor:
		j.violated("repeat", "%v, queue %d: %s begins at %d, %d was committed before", r, queue, member, from, floor)
	case !r.group() && from < l.high:
		j.violated("repeat", "%v, queue %d: %s begins at %d again, it had everything below %d", r, queue, member, from, l.high)
	}
	s := &session{reader: r, queue: queue, member: member, next: from, epoch: epoch}
	if r == orderly {
		if l.owner != nil {
			j.violated("order", "queue %d is locked by %s and by %s at once", queue, l.owner.member, member)
		}
		l.owner = s
	}
	j.figures.sessions++
	return s
}

// close ends a session, before its lock is given back and before its connection is closed.
func (j *judge) close(s *session) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.closed = true
	if l := &j.lanes[s.reader][s.queue]; l.owner == s {
		l.owner = nil
	}
}

func (j *judge) void(s *session) bool { return s.closed || s.epoch != j.epoch || j.down }

// delivered: the session got the message at that queue offset. false: the session is void, the message was not consumed.
func (j *judge) delivered(s *session, offset int64, c content, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.void(s) {
		return false
	}
	j.figures.delivered++
	if offset != s.next {
		rule := "order"
		if offset > s.next {
			rule = "loss"
		}
		j.violated(rule, "%v, queue %d: %s got offset %d where %d is due", s.reader, s.queue, s.member, offset, s.next)
	}
	s.next = offset + 1
	rec := j.record(c.identity)
	switch {
	case rec == nil || rec.kind != c.kind:
		j.violated("content", "%v got %+v, which nobody sent", s.reader, c)
		return true
	case !c.kind.visible():
		j.violated("transaction", "%v got %+v, which was rolled back", s.reader, c)
	case now.UnixMilli() < c.born+delays[c.level].Milliseconds():
		j.violated("early", "%v got %+v after %d ms", s.reader, c, now.UnixMilli()-c.born)
	}
	l := &j.lanes[s.reader][s.queue]
	first := offset >= l.high
	l.high = max(l.high, offset+1)
	if !first {
		j.figures.repeats++
	}
	if s.queue == retryQueue {
		if first {
			j.returned(c, now)
		}
		return true
	}
	if int(c.queue) != s.queue {
		j.violated("order", "%v got %+v from queue %d", s.reader, c, s.queue)
	}
	rec.seen[s.reader] = true
	j.placed(rec, c, offset)
	if first && c.kind == plain {
		if last := l.lastSeqs[c.producer]; int64(c.seq) <= last {
			j.violated("order", "%v got %+v after number %d of that producer and queue", s.reader, c, last)
		}
		l.lastSeqs[c.producer] = int64(c.seq)
	}
	return true
}

// placed: a message lies at one place of its queue. Only a transaction whose end the kill made the broker forget may lie at two.
func (j *judge) placed(rec *record, c content, offset int64) {
	at := uint32(offset + 1)
	switch {
	case rec.place == 0:
		rec.place = at
	case at > rec.place: // a further copy, or a reader that sees it again
		_, forgotten := j.ends[c.identity]
		if forgotten = forgotten && !j.killed.IsZero() && c.kind.half(); !forgotten {
			j.violated("duplicate", "%+v lies at offsets %d and %d", c, rec.place-1, offset)
		}
		if had := j.copies[c.identity]; had == 0 {
			j.copies[c.identity] = int(at)
			j.figures.copies++
		} else if had != int(at) && forgotten {
			j.violated("duplicate", "%+v lies at offsets %d, %d and %d", c, rec.place-1, had-1, offset)
		}
	case at < rec.place:
		j.violated("order", "%+v lies at offset %d and before, at %d", c, rec.place-1, offset)
	}
}

// returned: a message came through the retry topic, at a place of its own.
func (j *judge) returned(c content, now time.Time) {
	j.figures.returned++
	p := j.passages[c.identity]
	if p == nil || p.came == p.begun {
		j.violated("duplicate", "%+v came back more often than it was sent back", c)
		return
	}
	p.came++
	slices.Sort(p.due)
	if early := p.due[0] - now.UnixMilli(); early > 0 {
		j.violated("early", "%+v came back %d ms early", c, early)
	}
	p.due = p.due[1:]
}

// sendingBack: code 36 is about to be sent for it.
func (j *judge) sendingBack(id identity, due time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.passages[id]
	if p == nil {
		p = &passage{}
		j.passages[id] = p
	}
	p.begun++
	p.due = append(p.due, due.UnixMilli())
}

// sentBack: the broker took it.
func (j *judge) sentBack(id identity) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passages[id].acked++
	j.figures.sentBack++
}

// committing: an offset is about to be committed. false: the session is void, do not.
func (j *judge) committing(s *session, offset int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.void(s) {
		return false
	}
	c := &j.lanes[s.reader][s.queue].commits
	c.inFlight = append(c.inFlight, offset)
	return true
}

// committed: the broker has it.
func (j *judge) committed(s *session, offset int64, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.void(s) {
		return
	}
	c := &j.lanes[s.reader][s.queue].commits
	if i := slices.Index(c.inFlight, offset); i >= 0 {
		c.inFlight = slices.Delete(c.inFlight, i, i+1)
	}
	c.acked = append(c.acked, moment{now, offset})
	for len(c.acked) > 1 && now.Sub(c.acked[1].at) > offsetsLostMax {
		c.acked = c.acked[1:]
	}
}

// missing is what still has to come, with some of it in words.
func (j *judge) missing() (count int, some []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	note := func(format string, args ...any) {
		if count++; len(some) < violationsKept {
			some = append(some, "loss: "+fmt.Sprintf(format, args...))
		}
	}
	for p := range j.sent {
		for q := range j.sent[p] {
			for seq, rec := range j.sent[p][q] {
				if !rec.acked || !rec.kind.visible() {
					continue
				}
				for r, seen := range rec.seen {
					if !seen {
						note("%v never got number %d of producer %d to queue %d, kind %d", reader(r), seq, p, q, rec.kind)
					}
				}
			}
		}
	}
	for id, p := range j.passages {
		if p.came < p.acked {
			note("%+v was sent back %d times and came %d times", id, p.acked, p.came)
		}
	}
	return count, some
}

// verdict is all violations so far; total counts those that were not kept, too.
func (j *judge) verdict() (kept []string, total int, f figures) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.violations), j.count, j.figures
}
