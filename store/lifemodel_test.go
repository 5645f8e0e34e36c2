package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peregrine/internal/message"
)

// A data directory against a simple model of it, a list of what was appended: appends that roll, deletions by retention, of topics
// and of expired queues, clean stops and kills, and logs that lose their tail, in any order. All queries answer as the model does: by
// offset, by time, by key, for the ends of queues and the oldest store times. Offsets never shift.
func TestDirectoryIsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sync, ext := rapid.Bool().Draw(rt, "sync"), rapid.Bool().Draw(rt, "ext")
		m := &lifeModel{rt: rt, aged: newAged(t, byWrites, withIndex(7, 25), func(s *settings) {
			s.segmentBytes, s.queueFileBytes, s.extFileBytes = 8<<10, 7*unitBytes, 5*extUnitBytes
			s.syncFlush, s.extWrite = sync, ext
			s.retention.keep, s.retention.batch = 2*time.Hour, 3
			for hour := range s.retention.hours {
				s.retention.hours[hour] = true
			}
		})}
		defer func() { m.s.abandon() }()
		m.opened()
		rt.Repeat(map[string]func(*rapid.T){
			"append":   func(*rapid.T) { m.append(rapid.IntRange(1, 8).Draw(rt, "messages")) },
			"roll":     func(*rapid.T) { m.roll() },
			"settle":   func(*rapid.T) { m.settle() },
			"expire":   func(*rapid.T) { m.pass(time.Duration(rapid.IntRange(0, 150).Draw(rt, "minutes")) * time.Minute) },
			"tick":     func(*rapid.T) { m.s.tick() },
			"delete":   func(*rapid.T) { m.deleteTopic() },
			"clean":    func(*rapid.T) { m.cleanExpired() },
			"stop":     func(*rapid.T) { m.stop(); m.restart() },
			"kill":     func(*rapid.T) { m.kill(); m.restart() },
			"truncate": func(*rapid.T) { m.truncate() },
			"":         func(*rapid.T) { m.check() },
		})
		m.settle()
		m.check()
	})
}

// Topics that collide in Java's hash, and keys that do.
var (
	lifeTopics = []string{"AaT", "BBT"}
	lifeKeys   = []string{"Aa", "BB", "x"}
)

const lifeQueues = 2 // of each topic

// lifeRecord is one message as it was sent.
type lifeRecord struct {
	topic     string
	id        message.QueueID
	body, key string
	uniq      string
	phy, end  message.PhyOffset
	stored    message.Millis
	deleted   bool // its topic or queue was deleted: only the log has it
}

// lifeModel is the store and what it should hold.
type lifeModel struct {
	*aged
	rt   *rapid.T
	log  []*lifeRecord // what the log was given and has not lost at its end, in order
	sent int

	dispatched, indexed message.PhyOffset
	settled             bool // all is durable, visible and indexed
}

// of returns the records of a queue by offset; the first ones may have left the log.
func (m *lifeModel) of(topic string, id message.QueueID) (all []*lifeRecord) {
	for _, r := range m.log {
		if r.topic == topic && r.id == id && !r.deleted {
			all = append(all, r)
		}
	}
	return all
}

// opened does what a broker does behind store.Open.
func (m *lifeModel) opened() {
	m.s.DispatchedTo(func() message.PhyOffset { return m.dispatched })
	m.dispatched = m.s.Recovery().RedispatchFrom
	var err error
	if m.indexed, err = m.s.index.Recover(never); err != nil {
		m.rt.Fatal(err)
	}
	m.settle()
}

func (m *lifeModel) restart() {
	s, err := open(m.fsys, m.set, quietLogger(), func() message.Millis { return message.Millis(m.now.Load()) }, nil)
	if err != nil {
		m.rt.Fatal(err)
	}
	m.s = s
	m.opened()
}

// settle makes everything visible, and durable as far as is drawn.
func (m *lifeModel) settle() {
	if _, err := m.s.CommitLog().Sync(m.s.Wrote()); err != nil {
		m.rt.Fatal(err)
	}
	if err := dispatchFrom(m.s, m.dispatched); err != nil {
		m.rt.Fatal(err)
	}
	m.dispatched = m.s.Confirmed()
	var err error
	if m.indexed, err = tryFollow(m.s, max(m.indexed, m.s.MinPhy())); err != nil {
		m.rt.Fatal(err)
	}
	m.settled = true
	if !rapid.Bool().Draw(m.rt, "checkpoint") {
		return
	}
	last := newestRecord(m.s)
	if err = m.s.FlushQueues(0); err == nil && last.Size > 0 {
		err = m.s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset)
	}
	if err != nil {
		m.rt.Fatal(err)
	}
}

// compose makes a message of a body's length.
func (m *lifeModel) compose(bodyBytes int) (Message, *lifeRecord) {
	r := &lifeRecord{topic: rapid.SampledFrom(lifeTopics).Draw(m.rt, "topic"), id: message.QueueID(rapid.IntRange(0, lifeQueues-1).Draw(m.rt, "queue")),
		key: rapid.SampledFrom(lifeKeys).Draw(m.rt, "key"), uniq: fmt.Sprintf("id%05d", m.sent)}
	m.sent++
	msg := indexedMessage(m.s.Queue(r.topic, r.id), r.uniq, r.key, "TagA")
	r.body = (r.uniq + strings.Repeat("x", max(bodyBytes, 0)))[:max(bodyBytes, len(r.uniq))]
	msg.Body, msg.BodyCRC = []byte(r.body), message.BodyCRC([]byte(r.body))
	return msg, r
}

func (m *lifeModel) append(n int) {
	batch, records := make([]Message, n), make([]*lifeRecord, n)
	for i := range batch {
		batch[i], records[i] = m.compose(rapid.SampledFrom([]int{0, 1, 100, 700, 3000}).Draw(m.rt, "bytes"))
		batch[i].Joined = i%2 == 1 && rapid.Bool().Draw(m.rt, "joined") // not more than fits into a file
	}
	m.put(batch, records)
}

// roll fills the file that is being written, to the last byte or nearly.
func (m *lifeModel) roll() {
	left := m.set.segmentBytes - int64(m.s.Wrote())%m.set.segmentBytes
	msg, r := m.compose(0)
	bare := int64(msg.Size()) - int64(len(msg.Body))
	r.body = strings.Repeat("r", int(max(left-bare-blankBytes-int64(rapid.IntRange(0, 9).Draw(m.rt, "spare")), 0)))
	msg.Body, msg.BodyCRC = []byte(r.body), message.BodyCRC([]byte(r.body))
	m.put([]Message{msg}, []*lifeRecord{r})
}

func (m *lifeModel) put(batch []Message, records []*lifeRecord) {
	m.now.Add(int64(rapid.IntRange(0, 2).Draw(m.rt, "ms")))
	m.s.Append(batch)
	for i, r := range records {
		b := &batch[i]
		if b.Err != nil {
			m.rt.Fatalf("append: %v", b.Err)
		}
		if want := len(m.of(r.topic, r.id)); int(b.QueueOffset) != want {
			m.rt.Fatalf("%s-%d: the message got offset %d, want %d", r.topic, r.id, b.QueueOffset, want)
		}
		r.phy, r.end, r.stored = b.PhyOffset, b.PhyOffset+message.PhyOffset(b.Size()), b.StoreTimestamp
		m.log = append(m.log, r)
	}
	m.settled = false
}

func (m *lifeModel) deleteTopic() {
	topic := rapid.SampledFrom(lifeTopics).Draw(m.rt, "deleted")
	if err := m.s.DeleteTopic(topic); err != nil {
		m.rt.Fatal(err)
	}
	for _, r := range m.log {
		r.deleted = r.deleted || r.topic == topic
	}
}

// cleanExpired deletes the queues of which every message has left the log.
func (m *lifeModel) cleanExpired() {
	kept := rapid.SampledFrom(lifeTopics).Draw(m.rt, "kept")
	n, err := m.s.CleanExpiredQueues(func(topic string) bool { return topic == kept })
	if err != nil {
		m.rt.Fatal(err)
	}
	for _, topic := range lifeTopics {
		for id := range message.QueueID(lifeQueues) {
			all := m.of(topic, id)
			if topic == kept || len(all) == 0 || all[len(all)-1].phy >= m.s.MinPhy() {
				continue
			}
			n--
			for _, r := range all {
				r.deleted = true
			}
		}
	}
	if n != 0 {
		m.rt.Fatalf("%d queues more were deleted than had expired", n)
	}
}

func (m *lifeModel) stop() {
	m.settle()
	if err := m.s.index.Flush(); err != nil {
		m.rt.Fatal(err)
	}
	if err := m.s.Close(true); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *lifeModel) kill() {
	next := m.fsys.Kill()
	m.s.abandon()
	m.fsys = next
}

// truncate takes away the tail of a log that was stopped or killed: all behind a place somewhere in it. A part of the first record at
// least is left: a log without anything is refused.
func (m *lifeModel) truncate() {
	begin, end := m.s.MinPhy(), m.s.Wrote()
	if rapid.Bool().Draw(m.rt, "clean") {
		m.stop()
	} else {
		m.kill()
	}
	if end == begin {
		m.restart()
		return
	}
	cut := end - message.PhyOffset(rapid.Int64Range(0, min(int64(end-begin)-100, 20<<10)).Draw(m.rt, "bytes"))
	m.cutLog(cut)
	m.log = slices.DeleteFunc(m.log, func(r *lifeRecord) bool { return r.end > cut })
	m.restart()
	last := begin
	for _, r := range m.log {
		last = max(last, r.end)
	}
	// The mark of a file's end may have stayed.
	if r := m.s.Recovery(); r.End < last || r.End > cut && int64(r.End) != (int64(cut)/m.set.segmentBytes+1)*m.set.segmentBytes || r.DamagedCount > 0 {
		m.rt.Fatalf("the log was cut at %d, its last record ends at %d: %+v", cut, last, r)
	}
}

// cutLog deletes what lies behind a place. The file that holds it becomes short, or ends in zeros: one that is alone has to have its length.
func (m *lifeModel) cutLog(at message.PhyOffset) {
	short := rapid.Bool().Draw(m.rt, "short")
	entries, err := m.fsys.ReadDir(m.set.logDir)
	if err != nil {
		m.rt.Fatal(err)
	}
	for i, e := range entries {
		start, isFile := parseFileName(e.Name)
		path := filepath.Join(m.set.logDir, e.Name)
		if isFile && start >= int64(at) {
			err = m.fsys.Remove(path)
		} else if isFile && start+m.set.segmentBytes > int64(at) {
			if err = setLength(m.fsys, path, int64(at)-start); err == nil && (i == 0 || !short) {
				err = setLength(m.fsys, path, m.set.segmentBytes)
			}
		}
		if err != nil {
			m.rt.Fatal(err)
		}
	}
}

// check asks for everything and compares the answers with the model's.
func (m *lifeModel) check() {
	for _, topic := range lifeTopics {
		for id := range message.QueueID(lifeQueues) {
			m.checkQueue(topic, id)
		}
	}
	if m.settled {
		m.checkKeys()
	}
	oldest := message.Millis(-1)
	if i := slices.IndexFunc(m.log, func(r *lifeRecord) bool { return r.phy >= m.s.MinPhy() }); i >= 0 {
		oldest = m.log[i].stored
	}
	if got := m.s.OldestStoreTime(); got != oldest {
		m.rt.Fatalf("the oldest store time is %d, want %d", got, oldest)
	}
}

func (m *lifeModel) checkQueue(topic string, id message.QueueID) {
	q, all := m.s.Queue(topic, id), m.of(topic, id)
	if int(q.Next()) != len(all) {
		m.rt.Fatalf("%s-%d: next offset %d, want %d", topic, id, q.Next(), len(all))
	}
	if !m.settled {
		return
	}
	first := 0
	for first < len(all) && all[first].phy < m.s.MinPhy() {
		first++
	}
	if int(q.Min()) != first || int(q.Max()) != len(all) {
		m.rt.Fatalf("%s-%d: [%d, %d), want [%d, %d); the log begins at %d", topic, id, q.Min(), q.Max(), first, len(all), m.s.MinPhy())
	}
	for i, u := range unitsOf(m.t, q) {
		r := all[first+i]
		if got := bodyAt(m.t, m.s, u); got != r.body || u.Phy != r.phy || u.Phy+message.PhyOffset(u.Size) != r.end || u.Tags != message.TagsCodeOf([]byte("TagA")) {
			m.rt.Fatalf("%s-%d offset %d: %+v %.40q, want %d to %d %.40q", topic, id, first+i, u, got, r.phy, r.end, r.body)
		}
	}
	all = all[first:]
	if len(all) == 0 {
		if stored, at := q.StoreTimeAt(q.Min()); stored != -1 || at != q.Max() {
			m.rt.Fatalf("%s-%d is empty: store time %d at %d", topic, id, stored, at)
		}
		return
	}
	if stored, at := q.StoreTimeAt(q.Min()); stored != all[0].stored || int(at) != first {
		m.rt.Fatalf("%s-%d: store time %d at %d, want %d at %d", topic, id, stored, at, all[0].stored, first)
	}
	some := all[rapid.IntRange(0, len(all)-1).Draw(m.rt, "some")].stored
	for _, at := range []message.Millis{all[0].stored - 1, some, some + 1, all[len(all)-1].stored, all[len(all)-1].stored + 1} {
		lower, upper := 0, 0
		for _, r := range all {
			if r.stored < at {
				lower++
			}
			if r.stored <= at {
				upper++
			}
		}
		if got := q.OffsetAtTime(at, false); int(got) != first+lower {
			m.rt.Fatalf("%s-%d: the first at or after %d is %d, want %d", topic, id, at, got, first+lower)
		}
		if got := q.OffsetAtTime(at, true); int(got) != first+max(upper-1, 0) {
			m.rt.Fatalf("%s-%d: the last at or before %d is %d, want %d", topic, id, at, got, first+max(upper-1, 0))
		}
	}
}

// checkKeys asks the index. It tells what is in the log, whatever became of the queue.
func (m *lifeModel) checkKeys() {
	ask := func(topic, key string, kind IndexKind, is func(*lifeRecord) bool) {
		var want []int64
		for _, r := range m.log {
			if r.topic == topic && r.phy >= m.s.MinPhy() && is(r) {
				want = append(want, int64(r.phy))
			}
		}
		want = want[max(0, len(want)-20):]
		_, views := query(m.rt, m.s, IndexQuery{Topic: topic, Key: key, Kind: kind, Max: 20})
		if got := positions(views); !slices.Equal(got, want) {
			m.rt.Fatalf("%s#%s as %d: %v, want %v", topic, key, kind, got, want)
		}
	}
	for _, topic := range lifeTopics {
		for _, key := range lifeKeys {
			ask(topic, key, IndexAnyKey, func(r *lifeRecord) bool { return r.key == key })
		}
		for i := range min(m.sent, 3) {
			uniq := fmt.Sprintf("id%05d", m.sent-1-i)
			ask(topic, uniq, IndexUnique, func(r *lifeRecord) bool { return r.uniq == uniq })
		}
	}
}
