package crash

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"peregrine/internal/message"
	"peregrine/store"
)

// queueKey names a queue.
type queueKey struct {
	topic string
	id    message.QueueID
}

func (q queueKey) String() string { return fmt.Sprintf("%s-%d", q.topic, q.id) }

// unitKey names a place in a queue.
type unitKey struct {
	queue  queueKey
	offset message.QueueOffset
}

// sent is one record that was given to Append. All fields but the flags are fixed once the model has it.
type sent struct {
	id         uint64
	queue      queueKey
	body       []byte
	properties []byte
	key        string
	tags       message.TagsCode
	refused    bool // Append said no; the bytes may be in the log all the same
	offset     message.QueueOffset
	phy        message.PhyOffset
	size       int32

	acked   bool
	durable bool // it ended below the durable position once
	lost    bool // a start did not find it: it must never come back
}

func (s *sent) end() message.PhyOffset { return s.phy + message.PhyOffset(s.size) }

func (s *sent) String() string {
	return fmt.Sprintf("record %d of %s, offset %d, position %d+%d (acknowledged %v, durable %v, refused %v)",
		s.id, s.queue, s.offset, s.phy, s.size, s.acked, s.durable, s.refused)
}

// model knows what was sent, and what of it has to be there after a cut.
type model struct {
	syncFlush bool

	mu      sync.Mutex
	records map[uint64]*sent
	live    map[queueKey][]*sent                      // sent and not known to be lost, in order
	shown   map[unitKey]message.PhyOffset             // units that were visible
	blanks  map[queueKey]map[message.QueueOffset]bool // pre-blank at the last look
	waiting []*sent                                   // not acknowledged yet
	flushed message.PhyOffset                         // what the flusher told this process
	frozen  bool                                      // the cut has happened: what is told now is told to nobody
	judged  bool                                      // live holds what this process found: its durable position means something
	power   bool                                      // one of the cuts since the last look was a power cut
	lastCut string
}

func newModel(syncFlush bool) *model {
	return &model{syncFlush: syncFlush, records: map[uint64]*sent{}, live: map[queueKey][]*sent{}, shown: map[unitKey]message.PhyOffset{},
		blanks: map[queueKey]map[message.QueueOffset]bool{}}
}

// begin starts the next process.
func (m *model) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen, m.judged, m.waiting, m.flushed = false, false, nil, 0
}

// freeze is the moment of the cut: the model takes down what was promised. durable is the durable position.
func (m *model) freeze(power bool, durable message.PhyOffset, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
	m.power = m.power || power
	m.lastCut = what
	if !m.judged {
		return
	}
	for _, records := range m.live {
		for _, r := range records {
			r.durable = r.durable || !r.refused && r.end() <= durable
		}
	}
}

func (m *model) isFrozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen
}

// appended notes what Append did. With acknowledge they are acknowledged at once.
func (m *model) appended(records []*sent, acknowledge bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		m.records[r.id] = r
		m.live[r.queue] = append(m.live[r.queue], r)
		switch {
		case r.refused || m.frozen:
		case acknowledge || m.syncFlush && r.end() <= m.flushed:
			r.acked = true
		default:
			m.waiting = append(m.waiting, r)
		}
	}
}

// flushedTo acknowledges what is durable, as the broker does in SYNC_FLUSH.
func (m *model) flushedTo(upTo message.PhyOffset) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return
	}
	m.flushed = upTo
	if !m.syncFlush {
		return
	}
	kept := m.waiting[:0]
	for _, r := range m.waiting {
		if r.end() <= upTo {
			r.acked = true
		} else {
			kept = append(kept, r)
		}
	}
	m.waiting = kept
}

// Arrived implements dispatch.Announcer: from here on consumers may have seen the units.
func (m *model) Arrived(q *store.Queue, first message.QueueOffset, units []store.Unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return
	}
	for i, u := range units {
		if !u.IsPreBlank() {
			m.shown[unitKey{queueKey{q.Topic(), q.ID()}, first + message.QueueOffset(i)}] = u.Phy
		}
	}
}

// required tells whether r has to be there.
func (m *model) required(r *sent, power bool) bool {
	if r.refused {
		return false
	}
	phy, shown := m.shown[unitKey{r.queue, r.offset}]
	promised := r.acked || shown && phy == r.phy
	return r.durable || promised && (m.syncFlush || !power)
}

// queueView is what one queue serves: the ids by offset, 0 for pre-blank.
type queueView struct {
	ids       []uint64
	min, next message.QueueOffset
}

// look is what a start shows, record by record.
type look struct {
	queues map[queueKey]*queueView
	end    message.PhyOffset
}

// of tells what is in a queue.
func (l *look) of(key queueKey) string {
	if v := l.queues[key]; v != nil {
		return fmt.Sprintf("%d from %d on, next %d", v.ids, v.min, v.next)
	}
	return "nothing"
}

// compare tells what differs between two looks, "" if nothing does. Without next, the offsets that come next may differ: a
// clean stop forgets that the last record of a queue was a damaged one.
func (a *look) compare(b *look, next bool) string {
	if a.end != b.end {
		return fmt.Sprintf("the log ends at %d, then at %d", a.end, b.end)
	}
	for _, pair := range [][2]*look{{a, b}, {b, a}} {
		for key, x := range pair[0].queues {
			y := pair[1].queues[key]
			if y == nil {
				y = &queueView{}
			}
			if next && x.next != y.next || fmt.Sprint(x.ids) != fmt.Sprint(y.ids) {
				return fmt.Sprintf("%s has %v next %d, then %v next %d", key, x.ids, x.next, y.ids, y.next)
			}
		}
	}
	return ""
}

// lookAt reads everything that s serves and checks each record by itself.
func (m *model) lookAt(s *store.Store) (*look, error) {
	l := &look{queues: map[queueKey]*queueView{}, end: s.Wrote()}
	var failed error
	s.Queues(func(q *store.Queue) bool {
		key := queueKey{q.Topic(), q.ID()}
		v := &queueView{min: q.Min(), next: q.Next(), ids: make([]uint64, q.Max())}
		l.queues[key] = v
		units := make([]store.Unit, 64)
		for at := q.Min(); at < q.Max(); {
			n, err := q.ReadUnits(units, at)
			if err != nil {
				failed = fmt.Errorf("%s: read units at %d: %w", key, at, err)
				return false
			}
			for i, u := range units[:n] {
				if u.IsPreBlank() {
					continue
				}
				if v.ids[int(at)+i], err = m.identify(s, key, at+message.QueueOffset(i), u); err != nil {
					failed = fmt.Errorf("%s offset %d, unit %+v: %w", key, int(at)+i, u, err)
					return false
				}
			}
			at += message.QueueOffset(n)
		}
		return true
	})
	return l, failed
}

// identify reads the record that a unit names and finds out which one it is, to the last byte.
func (m *model) identify(s *store.Store, key queueKey, offset message.QueueOffset, u store.Unit) (uint64, error) {
	buf := make([]byte, u.Size)
	if n, err := s.ReadAt(buf, u.Phy); err != nil || n != len(buf) {
		return 0, fmt.Errorf("its record cannot be read: %d bytes, %w", n, err)
	}
	var v message.View
	if err := message.ParseView(buf, &v); err != nil {
		return 0, fmt.Errorf("it names no record: %w", err)
	}
	text, _ := message.GetProperty(v.Properties, message.PropertyUniqKey)
	var id uint64
	if _, err := fmt.Sscanf(string(text), "%016x", &id); err != nil {
		return 0, fmt.Errorf("a record that nobody sent: %q", v.Properties)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[id]
	switch {
	case r == nil:
		return 0, fmt.Errorf("record %d, which nobody sent", id)
	case r.lost:
		return 0, fmt.Errorf("%v was lost and has come back", r)
	case v.PhyOffset != u.Phy || string(v.Topic) != key.topic || v.QueueID != key.id || v.QueueOffset != offset || key != r.queue:
		return 0, fmt.Errorf("%v is served out of its place: header says %s-%d offset %d position %d", r, v.Topic, v.QueueID, v.QueueOffset, v.PhyOffset)
	case !r.refused && (r.offset != offset || r.phy != u.Phy || r.size != u.Size):
		return 0, fmt.Errorf("%v is served elsewhere than its sender was told", r)
	case u.Tags != r.tags:
		return 0, fmt.Errorf("%v has the tags code %d instead of %d", r, u.Tags, r.tags)
	case !bytes.Equal(v.Body, r.body) || !bytes.Equal(v.Properties, r.properties):
		return 0, fmt.Errorf("%v is torn", r)
	}
	return id, nil
}

// verify judges what a start found, and makes it the new truth. It does nothing when the cut has come already: then what
// can be seen is no longer what was promised at that moment.
func (m *model) verify(s *store.Store) (*look, error) {
	m.mu.Lock()
	power, frozen, cut := m.power, m.frozen, m.lastCut
	if !frozen {
		m.power = false
	}
	m.mu.Unlock()
	if frozen {
		return nil, nil
	}
	l, err := m.lookAt(s)
	if err != nil {
		return nil, fmt.Errorf("after %s: %w", cut, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.judge(l, power, s.Recovery()); err != nil {
		return nil, fmt.Errorf("after %s: %w", cut, err)
	}
	m.judged = true
	return l, nil
}

// judge compares a look with what was promised. The caller holds mu.
func (m *model) judge(l *look, power bool, report store.RecoveryReport) error {
	found := map[uint64]bool{}
	for key, v := range l.queues {
		last := uint64(0)
		for offset, id := range v.ids {
			if id == 0 {
				continue
			}
			if found[id] {
				return fmt.Errorf("%s: record %d is there twice", key, id)
			}
			if id < last {
				return fmt.Errorf("%s: record %d at offset %d behind record %d", key, id, offset, last)
			}
			found[id], last = true, id
		}
	}
	for key, records := range m.live {
		kept := records[:0:0]
		for _, r := range records {
			switch {
			case found[r.id]:
				kept = append(kept, r)
			case m.required(r, power):
				phy, shown := m.shown[unitKey{key, r.offset}]
				return fmt.Errorf("%v is lost (visible %v, the log ends at %d, its queue has %s)", r, shown && phy == r.phy, l.end, l.of(key))
			}
		}
		if v := l.queues[key]; v != nil {
			if err := m.judgeBlanks(key, v, records, report); err != nil {
				return err
			}
		}
		for _, r := range records {
			if r.lost = !found[r.id]; r.lost {
				delete(m.shown, unitKey{key, r.offset})
			}
			r.durable = r.durable || power && !r.lost
		}
		m.live[key] = kept
	}
	for key, v := range l.queues {
		for _, r := range m.live[key] {
			offset := message.QueueOffset(slices.Index(v.ids, r.id))
			r.offset, r.refused = offset, false // one that was refused and is there is a message like any other now
			m.shown[unitKey{key, offset}] = r.phy
		}
	}
	return nil
}

// judgeBlanks demands a damaged record for every offset without a message.
func (m *model) judgeBlanks(key queueKey, v *queueView, records []*sent, report store.RecoveryReport) error {
	blanks := map[message.QueueOffset]bool{}
	max := message.QueueOffset(len(v.ids))
	if v.next < max {
		return fmt.Errorf("%s shows %d units and gives out offset %d next", key, max, v.next)
	}
	for offset := range v.next {
		if offset < max && v.ids[offset] != 0 {
			continue
		}
		blanks[offset] = true
		if m.blanks[key][offset] {
			continue
		}
		excused := false
		for _, r := range records {
			excused = excused || r.offset == offset && damaged(report, r)
		}
		if !excused {
			return fmt.Errorf("%s: offset %d (of %d) is empty although no record of it is damaged (%+v)", key, offset, v.next, report.Damaged)
		}
	}
	m.blanks[key] = blanks
	return nil
}

func damaged(report store.RecoveryReport, r *sent) bool {
	for _, d := range report.Damaged {
		if r.phy < d.Phy+message.PhyOffset(d.Bytes) && r.end() > d.Phy {
			return true
		}
	}
	return false
}

// checkQueries asks for every key and for every record by its own, and demands exactly what the last look found.
func (m *model) checkQueries(s *store.Store) error {
	type question struct {
		topic, key string
		kind       store.IndexKind
	}
	want := map[question]map[uint64]bool{}
	expect := func(q question, id uint64) {
		if want[q] == nil {
			want[q] = map[uint64]bool{}
		}
		if id != 0 {
			want[q][id] = true
		}
	}
	m.mu.Lock()
	for key, records := range m.live {
		for _, r := range records {
			expect(question{key.topic, r.key, store.IndexAnyKey}, r.id)
			if r.id%5 == 0 {
				expect(question{key.topic, fmt.Sprintf("%016x", r.id), store.IndexUnique}, r.id)
			}
		}
		expect(question{key.topic, "nobody's", store.IndexAnyKey}, 0)
	}
	m.mu.Unlock()
	for q, ids := range want {
		answer, err := s.Index().Query(store.IndexQuery{Topic: q.topic, Key: q.key, Kind: q.kind, End: math.MaxInt64, Max: math.MaxInt32, BytesMax: math.MaxInt32})
		if err != nil {
			return fmt.Errorf("query %+v: %w", q, err)
		}
		if answer.Recovering {
			return fmt.Errorf("query %+v: the index still recovers although it is through", q)
		}
		found := map[uint64]bool{}
		for b := answer.Body; len(b) > 0; {
			var v message.View
			if err := message.ParseView(b, &v); err != nil {
				return fmt.Errorf("query %+v: %w", q, err)
			}
			b = b[v.Size:]
			text, _ := message.GetProperty(v.Properties, message.PropertyUniqKey)
			id, _ := strconv.ParseUint(string(text), 16, 64)
			if r := m.records[id]; r != nil && r.lost && damaged(s.Recovery(), r) {
				continue // whole, but in a range that no queue entry leads into: the index may know more than the queues
			}
			if found[id] || !ids[id] {
				return fmt.Errorf("query %+v: record %d at %d is returned, twice: %v, asked for are %v", q, id, v.PhyOffset, found[id], ids)
			}
			found[id] = true
		}
		if len(found) != len(ids) && !answer.Cut {
			for id := range ids {
				if !found[id] {
					return fmt.Errorf("query %+v: %v is not returned", q, m.records[id])
				}
			}
		}
	}
	return nil
}
