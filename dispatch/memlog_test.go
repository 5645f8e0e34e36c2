package dispatch

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/store"
)

// memLog is a Log in memory whose Confirmed the test moves. Its files are as long as those of the store whose queues are
// filled, so that the reader's arithmetic is the same.
type memLog struct {
	bytes     []byte // from position base on
	base      message.PhyOffset
	segment   message.PhyOffset
	confirmed atomic.Int64
	min       atomic.Int64
	cold      atomic.Bool // nothing is mapped
	readErr   atomic.Pointer[error]
	reads     atomic.Int64

	next   map[string]message.QueueOffset // by topic-queue
	starts []message.PhyOffset            // of the records
}

func newMemLog(s *store.Store) *memLog {
	return &memLog{segment: message.PhyOffset(s.SegmentBytes()), next: make(map[string]message.QueueOffset)}
}

func (l *memLog) Confirmed() message.PhyOffset { return message.PhyOffset(l.confirmed.Load()) }
func (l *memLog) MinPhy() message.PhyOffset    { return message.PhyOffset(l.min.Load()) }
func (l *memLog) IsHot(message.PhyOffset) bool { return !l.cold.Load() }
func (l *memLog) end() message.PhyOffset       { return l.base + message.PhyOffset(len(l.bytes)) }

func (l *memLog) Slice(phy message.PhyOffset, n int) []byte {
	at := int(phy - l.base)
	if at+n > len(l.bytes) || phy/l.segment != (phy+message.PhyOffset(n)-1)/l.segment {
		panic(fmt.Sprintf("Slice(%d, %d) leaves the file or the log", phy, n))
	}
	return l.bytes[at : at+n : at+n]
}

func (l *memLog) ReadAt(buf []byte, phy message.PhyOffset) (int, error) {
	l.reads.Add(1)
	if e := l.readErr.Load(); e != nil {
		return 0, *e
	}
	if phy+message.PhyOffset(len(buf)) > l.Confirmed() {
		return 0, io.EOF
	}
	return copy(buf, l.bytes[phy-l.base:]), nil
}

// sample is one record to be put.
type sample struct {
	topic string
	queue message.QueueID
	tags  string
	body  int
	flag  int32 // sysFlag
	// unique adds the properties that a Java client sends besides.
	unique bool
}

// put appends a record, with the end of the file before it where it does not fit, and returns its position.
func (l *memLog) put(s sample) message.PhyOffset {
	var props []byte
	if s.unique {
		props = message.AppendProperty(props, "UNIQ_KEY", fmt.Sprintf("0A00000100002A9F%016X", len(l.starts)))
		props = message.AppendProperty(props, "WAIT", "true")
	}
	if s.tags != "" {
		props = message.AppendProperty(props, message.PropertyTags, s.tags)
	}
	r := message.Record{
		Topic: []byte(s.topic), QueueID: s.queue, SysFlag: s.flag, Body: make([]byte, s.body), Properties: props,
		BornHost: message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4},
		StoreTimestamp: message.Millis(1_000_000 + len(l.starts)),
	}
	size := message.PhyOffset(r.Size())
	if left := l.segment - l.end()%l.segment; size+message.BlankBytes > left {
		l.putBlank(left)
	}
	key := fmt.Sprint(s.topic, "-", s.queue)
	if t := s.flag & message.SysFlagTransactionMask; t != message.SysFlagTransactionPrepared && t != message.SysFlagTransactionRollback {
		r.QueueOffset = l.next[key]
		l.next[key]++
	}
	r.PhyOffset = l.end()
	l.starts = append(l.starts, r.PhyOffset)
	l.bytes = slices.Grow(l.bytes, int(size))[:len(l.bytes)+int(size)]
	r.EncodeTo(l.bytes[r.PhyOffset-l.base:])
	return r.PhyOffset
}

func (l *memLog) putBlank(left message.PhyOffset) {
	blank := make([]byte, left)
	magic := message.MagicBlank
	binary.BigEndian.PutUint32(blank, uint32(left))
	binary.BigEndian.PutUint32(blank[4:], uint32(magic))
	l.bytes = append(l.bytes, blank...)
}

// confirm makes everything up to end visible.
func (l *memLog) confirm(end message.PhyOffset) { l.confirmed.Store(int64(end)) }

// witness is an Announcer that checks what it is told: per queue in order, without a gap, and only what the queue shows.
type witness struct {
	t    testing.TB
	mu   sync.Mutex
	next map[*store.Queue]message.QueueOffset
	gaps bool          // gaps are no error
	hold chan struct{} // not nil: Arrived waits until it is closed
}

func newWitness(t testing.TB) *witness {
	return &witness{t: t, next: make(map[*store.Queue]message.QueueOffset)}
}

func (w *witness) Arrived(q *store.Queue, first message.QueueOffset, units []store.Unit) {
	if w.hold != nil {
		<-w.hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next, seen := w.next[q]
	if seen && next != first && !(w.gaps && first > next) {
		w.t.Errorf("%s-%d: announced %d after %d", q.Topic(), q.ID(), first, next)
	}
	w.next[q] = first + message.QueueOffset(len(units))
	if q.Max() < w.next[q] {
		w.t.Errorf("%s-%d: announced up to %d, readable up to %d", q.Topic(), q.ID(), w.next[q], q.Max())
	}
}

// soon is the deadline of everything that a test expects to happen.
func soon() time.Time { return time.Now().Add(30 * time.Second) }

// checkUnits compares every queue of the log with its records.
func (l *memLog) checkUnits(t testing.TB, s *store.Store, upTo message.PhyOffset) {
	t.Helper()
	next := make(map[*store.Queue]message.QueueOffset)
	var v message.View
	for _, phy := range l.starts {
		if phy >= upTo {
			break
		}
		if err := message.ParseView(l.bytes[phy-l.base:], &v); err != nil {
			t.Fatal(err)
		}
		if k := v.SysFlag & message.SysFlagTransactionMask; k == message.SysFlagTransactionPrepared || k == message.SysFlagTransactionRollback {
			continue
		}
		q := s.Queue(string(v.Topic), v.QueueID)
		var u [1]store.Unit
		if n, err := q.ReadUnits(u[:], next[q]); n != 1 || err != nil {
			t.Fatalf("%s-%d: unit %d: %v", q.Topic(), q.ID(), next[q], err)
		}
		if want := (store.Unit{Phy: phy, Size: v.Size, Tags: v.TagsCode()}); u[0] != want {
			t.Fatalf("%s-%d: unit %d is %+v, want %+v", q.Topic(), q.ID(), next[q], u[0], want)
		}
		next[q]++
	}
	for q, n := range next {
		if q.Max() != n {
			t.Fatalf("%s-%d: shows %d units, want %d", q.Topic(), q.ID(), q.Max(), n)
		}
	}
}
