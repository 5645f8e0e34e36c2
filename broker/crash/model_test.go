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

	stored message.Millis // the store time that was seen, 0 before

	acked   bool
	durable bool // it ended below the durable position once
	lost    bool // a start did not find it: it must never come back
	dropped bool // its topic or queue was deleted: likewise
	heir    bool // sent when its topic was doomed: if that was deleted, to the next one of its name
	expired bool // retention has deleted it: it may come back when the deletion was not durable
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
	begin   message.PhyOffset                         // the log began there once: what lies below may be gone
	doomed  map[string]bool                           // topics whose deletion may or may not have happened
	reset   map[queueKey]bool                         // queues that may have been deleted because all in them had expired
	frozen  bool                                      // the cut has happened: what is told now is told to nobody
	judged  bool                                      // live holds what this process found: its durable position means something
	power   bool                                      // one of the cuts since the last look was a power cut
	lastCut string
}

func newModel(syncFlush bool) *model {
	return &model{syncFlush: syncFlush, records: map[uint64]*sent{}, live: map[queueKey][]*sent{}, shown: map[unitKey]message.PhyOffset{},
		blanks: map[queueKey]map[message.QueueOffset]bool{}, doomed: map[string]bool{}, reset: map[queueKey]bool{}}
}

// next starts the next process.
func (m *model) next() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen, m.judged, m.waiting, m.flushed = false, false, nil, 0
}

// freeze is the moment of the cut: the model takes down what was promised. durable is the durable position, begin the log's.
func (m *model) freeze(power bool, durable, begin message.PhyOffset, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
	m.power = m.power || power
	m.lastCut = what
	m.begin = max(m.begin, begin)
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
		r.heir = m.doomed[r.queue.topic]
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

// deleting says that the deletion of a topic begins. False: it must not, for nobody knows what became of the last one.
func (m *model) deleting(topic string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.doomed[topic] {
		return false
	}
	m.doomed[topic] = true
	return true
}

// deleted says how it ended. After an error it has happened all the same if a queue of the topic is gone, for what remembers
// the deletion is written first. What a dead process was told does not count: the next start shows what has happened.
func (m *model) deleted(s *store.Store, topic string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen {
		return
	}
	happened := err == nil
	for key := range m.live {
		happened = happened || key.topic == topic && s.LookupQueue([]byte(topic), key.id) == nil
	}
	if happened {
		m.dropTopic(topic)
	}
}

// dropTopic takes note of a deleted topic. The caller holds mu.
func (m *model) dropTopic(topic string) {
	delete(m.doomed, topic)
	for key := range m.live {
		if key.topic == topic {
			m.drop(key)
		}
	}
}

// drop takes note of a deleted queue. The caller holds mu.
func (m *model) drop(key queueKey) {
	var heirs []*sent
	for _, r := range m.live[key] {
		if r.heir {
			heirs = append(heirs, r)
			continue
		}
		r.dropped = true
		delete(m.shown, unitKey{key, r.offset})
	}
	if m.live[key] = heirs; len(heirs) == 0 {
		delete(m.live, key)
	}
	delete(m.blanks, key)
	delete(m.reset, key)
}

// cleaning says that queues without messages are about to be deleted, but for one topic's.
func (m *model) cleaning(kept string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.live {
		if key.topic != kept {
			m.reset[key] = true
		}
	}
}

// cleaned says that it is over.
func (m *model) cleaned(s *store.Store) {
	begin := s.MinPhy()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.frozen {
		m.begin = max(m.begin, begin)
		m.settleReset(func(key queueKey) bool { return s.LookupQueue([]byte(key.topic), key.id) == nil })
	}
}

// settleReset sorts out which queues were deleted. The caller holds mu.
func (m *model) settleReset(gone func(queueKey) bool) {
	for key := range m.reset {
		expired := true
		for _, r := range m.live[key] {
			expired = expired && (r.phy < m.begin || r.refused)
		}
		if expired && gone(key) {
			m.drop(key)
		}
	}
	clear(m.reset)
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

func (v *queueView) messages() (n int) {
	for _, id := range v.ids {
		if id != 0 {
			n++
		}
	}
	return n
}

// look is what a start shows, record by record.
type look struct {
	queues     map[queueKey]*queueView
	begin, end message.PhyOffset
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
	if a.begin != b.begin || a.end != b.end {
		return fmt.Sprintf("the log goes from %d to %d, then from %d to %d", a.begin, a.end, b.begin, b.end)
	}
	for _, pair := range [][2]*look{{a, b}, {b, a}} {
		for key, x := range pair[0].queues {
			y := pair[1].queues[key]
			if y == nil {
				y = &queueView{}
			}
			if !next && x.messages() == 0 && y.messages() == 0 {
				continue // kill -9 came in the middle of its deletion, and what was deleted by then has come back with the power
			}
			if next && x.next != y.next || x.min != y.min || fmt.Sprint(x.ids) != fmt.Sprint(y.ids) {
				return fmt.Sprintf("%s has %v from %d next %d, then %v from %d next %d", key, x.ids, x.min, x.next, y.ids, y.min, y.next)
			}
		}
	}
	return ""
}

// lookAt reads everything that s serves and checks each record by itself.
func (m *model) lookAt(s *store.Store) (*look, error) {
	l := &look{queues: map[queueKey]*queueView{}, begin: s.MinPhy(), end: s.Wrote()}
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
				v.ids[int(at)+i], err = m.identify(s, key, at+message.QueueOffset(i), u)
				if err != nil && u.Phy >= l.begin && u.Phy < s.MinPhy() {
					v.ids[int(at)+i] = 0 // deleted while we looked: the disk is full
				} else if err != nil {
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
	case r.dropped:
		return 0, fmt.Errorf("%v was deleted with its topic or queue and has come back", r)
	case r.stored != 0 && r.stored != v.StoreTimestamp:
		return 0, fmt.Errorf("%v has the store time %d instead of %d", r, v.StoreTimestamp, r.stored)
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
	r.stored = v.StoreTimestamp
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
	if err := m.checkTimes(s, l); err != nil {
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

// checkTimes asks the queues for the store time at every offset, which searches by time are made of.
func (m *model) checkTimes(s *store.Store, l *look) error {
	for key, v := range l.queues {
		q := s.LookupQueue([]byte(key.topic), key.id)
		if q == nil {
			continue // deleted meanwhile
		}
		before := message.Millis(0)
		for offset, id := range v.ids {
			if id == 0 {
				continue
			}
			m.mu.Lock()
			r := m.records[id]
			m.mu.Unlock()
			stored, at := q.StoreTimeAt(message.QueueOffset(offset))
			if r.phy < s.MinPhy() {
				continue // deleted meanwhile
			}
			if stored != r.stored || int(at) != offset || stored < before {
				return fmt.Errorf("%v: asked for the store time at its offset, %s says %d at %d; it has %d, the one before %d", r, key, stored, at, r.stored, before)
			}
			before = stored
		}
	}
	return nil
}

// judge compares a look with what was promised. The caller holds mu.
func (m *model) judge(l *look, power bool, report store.RecoveryReport) error {
	if l.begin > m.begin {
		return fmt.Errorf("the log begins at %d although nothing behind %d was deleted", l.begin, m.begin)
	}
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
	for topic := range m.doomed {
		if !slices.ContainsFunc(m.ofTopic(topic), func(r *sent) bool { return found[r.id] && !r.heir }) {
			m.dropTopic(topic)
		}
		for _, r := range m.ofTopic(topic) {
			r.heir = false
		}
	}
	clear(m.doomed)
	m.settleReset(func(key queueKey) bool { return l.queues[key] == nil || l.queues[key].next == 0 })
	for key, records := range m.live {
		kept := records[:0:0]
		for _, r := range records {
			r.expired = !found[r.id] && r.phy < m.begin && !r.refused
			switch {
			case found[r.id]:
				kept = append(kept, r)
			case r.expired:
				if v := l.queues[key]; m.required(r, power) && (v == nil || v.next <= r.offset) {
					return fmt.Errorf("%v has expired, and its offset would be given once more: its queue has %s, the log begins at %d", r, l.of(key), l.begin)
				}
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
			if r.lost = !found[r.id] && !r.expired; r.lost {
				delete(m.shown, unitKey{key, r.offset})
			}
			r.durable = r.durable || power && !r.lost
		}
		m.live[key] = kept
	}
	for key, v := range l.queues {
		for _, r := range m.live[key] {
			if r.expired {
				continue
			}
			offset := message.QueueOffset(slices.Index(v.ids, r.id))
			r.offset, r.refused = offset, false // one that was refused and is there is a message like any other now
			m.shown[unitKey{key, offset}] = r.phy
		}
	}
	return nil
}

// ofTopic returns all records of a topic. The caller holds mu.
func (m *model) ofTopic(topic string) (records []*sent) {
	for key, of := range m.live {
		if key.topic == topic {
			records = append(records, of...)
		}
	}
	return records
}

// judgeBlanks demands a damaged record for every offset without a message.
func (m *model) judgeBlanks(key queueKey, v *queueView, records []*sent, report store.RecoveryReport) error {
	blanks := map[message.QueueOffset]bool{}
	max := message.QueueOffset(len(v.ids))
	if v.next < max {
		return fmt.Errorf("%s shows %d units and gives out offset %d next", key, max, v.next)
	}
	for offset := v.min; offset < v.next; offset++ {
		if offset < max && v.ids[offset] != 0 {
			continue
		}
		blanks[offset] = true
		if m.blanks[key][offset] {
			continue
		}
		excused := false
		for _, r := range records {
			excused = excused || r.offset == offset && (r.phy < m.begin || damaged(report, r))
		}
		// The unit of a record that an earlier cut took may come back with the next one, if its cutting was not durable. Where it names
		// something in a damaged range nobody can tell it from a unit of what was there, so its offset is kept.
		for _, r := range m.records {
			excused = excused || r.lost && r.queue == key && r.offset == offset && damaged(report, r)
		}
		if !excused {
			return fmt.Errorf("%s: offset %d (of %d) is empty although no record of it is damaged (%+v); sent were %v", key, offset, v.next, report.Damaged, records)
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
			if r.phy < m.begin {
				continue // expired; where the log file has come back, the index need not have
			}
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
			r := m.records[id]
			if r != nil && (r.phy < m.begin || r.dropped) && r.queue.topic == q.topic {
				continue // the log has it still, or again: the index tells what is in the log, whatever became of the queue
			}
			if r != nil && r.lost && damaged(s.Recovery(), r) {
				continue // whole, but in a range that no queue entry leads into: the index may know more than the queues
			}
			if found[id] || !ids[id] {
				return fmt.Errorf("query %+v: record %d at %d is returned, twice: %v, asked for are %v", q, id, v.PhyOffset, found[id], ids)
			}
			found[id] = true
		}
		if len(found) != len(ids) && !answer.Cut {
			for id := range ids {
				if !found[id] && m.records[id].phy >= s.MinPhy() {
					return fmt.Errorf("query %+v: %v is not returned", q, m.records[id])
				}
			}
		}
	}
	return nil
}
