package store

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// The store against a simple model: what was appended, per queue, in order. Random appends, batches, dispatch, syncs,
// clean stops and kill -9: nothing is lost, nothing appears, offsets have no gap, whatever was dispatched or synced before.
func TestStoreIsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: t, rt: rt, fsys: sysio.NewFaultFS(), bodies: map[message.QueueID][]string{}}
		direct, sync, ext := rapid.Bool().Draw(rt, "direct"), rapid.Bool().Draw(rt, "sync"), rapid.Bool().Draw(rt, "ext")
		m.set = testSettings("/s", func(s *settings) {
			s.direct, s.syncFlush = direct, sync
			s.segmentBytes, s.queueFileBytes = 8<<10, 7*unitBytes
			s.extWrite, s.extFileBytes = ext, 5*extUnitBytes
		})
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"append":   func(*rapid.T) { m.append() },
			"dispatch": func(*rapid.T) { m.dispatch() },
			"sync":     func(*rapid.T) { m.sync() },
			"flush":    func(*rapid.T) { m.flushQueues() },
			"kill":     func(*rapid.T) { m.kill() },
			"stop":     func(*rapid.T) { m.stop() },
			"":         func(*rapid.T) { m.check() },
		})
		m.kill()
		m.s.abandon()
		if err := m.fsys.CheckSpace(); err != nil {
			rt.Fatal(err)
		}
		if files, mappings := m.fsys.Open(); files != 0 || mappings != 0 {
			rt.Fatalf("%d files and %d mappings are left open", files, mappings)
		}
	})
}

const modelQueues = 3

type model struct {
	t          *testing.T
	rt         *rapid.T
	fsys       *sysio.FaultFS
	set        settings
	s          *Store
	bodies     map[message.QueueID][]string
	dispatched message.PhyOffset
}

func (m *model) open() {
	s, err := open(m.fsys, m.set, quietLogger(), nowMillis, nil)
	if err != nil {
		m.rt.Fatalf("open: %v", err)
	}
	m.s = s
	for id := range message.QueueID(modelQueues) {
		// Before dispatch has done anything the next offsets are right.
		if next := s.Queue("T", id).Next(); int(next) != len(m.bodies[id]) {
			m.rt.Fatalf("queue %d: next %d after a start, appended were %d", id, next, len(m.bodies[id]))
		}
	}
	m.dispatched = s.Recovery().RedispatchFrom
	m.sync()
	m.dispatch()
}

func (m *model) append() {
	n := rapid.IntRange(1, 4).Draw(m.rt, "records")
	batch := make([]Message, n)
	for i := range batch {
		id := message.QueueID(rapid.IntRange(0, modelQueues-1).Draw(m.rt, "queue"))
		body := fmt.Sprintf("%d-%d %s", id, len(m.bodies[id]), strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 100, 1500}).Draw(m.rt, "bytes")))
		batch[i] = newMessage(m.s.Queue("T", id), body)
		batch[i].Joined = rapid.Bool().Draw(m.rt, "joined")
		m.bodies[id] = append(m.bodies[id], body)
	}
	m.s.Append(batch)
	for i := range batch {
		if batch[i].Err != nil {
			m.rt.Fatalf("append: %v", batch[i].Err)
		}
	}
}

func (m *model) dispatch() {
	end := m.s.Confirmed()
	if err := dispatchFrom(m.s, m.dispatched); err != nil {
		m.rt.Fatalf("dispatch: %v", err)
	}
	m.dispatched = end
}

func (m *model) sync() {
	if upTo, err := m.s.CommitLog().Sync(m.s.Wrote()); err != nil || upTo != m.s.Wrote() {
		m.rt.Fatalf("sync: %d, %v", upTo, err)
	}
}

func (m *model) flushQueues() {
	last := newestRecord(m.s)
	if err := m.s.FlushQueues(rapid.IntRange(0, 1).Draw(m.rt, "pages")); err != nil {
		m.rt.Fatal(err)
	}
	if err := m.s.FlushQueues(0); err != nil {
		m.rt.Fatal(err)
	}
	if err := m.s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *model) kill() {
	next := m.fsys.Kill()
	m.s.abandon()
	m.fsys = next
	m.open()
}

func (m *model) stop() {
	m.sync()
	m.dispatch()
	if err := m.s.Close(true); err != nil {
		m.rt.Fatalf("close: %v", err)
	}
	m.open()
	if r := m.s.Recovery(); !r.Clean || r.Checked > 1 {
		m.rt.Fatalf("after a clean stop: %+v", r)
	}
}

// check compares what is visible with what was appended.
func (m *model) check() {
	for id := range message.QueueID(modelQueues) {
		q := m.s.Queue("T", id)
		if q.Min() != 0 || int(q.Max()) > len(m.bodies[id]) || int(q.Next()) != len(m.bodies[id]) {
			m.rt.Fatalf("queue %d: min %d, max %d, next %d, appended were %d", id, q.Min(), q.Max(), q.Next(), len(m.bodies[id]))
		}
		if m.dispatched == m.s.Wrote() && int(q.Max()) != len(m.bodies[id]) {
			m.rt.Fatalf("queue %d: max %d although all is dispatched, appended were %d", id, q.Max(), len(m.bodies[id]))
		}
		for i, u := range unitsOf(m.t, q) {
			if got := bodyAt(m.t, m.s, u); got != m.bodies[id][i] {
				m.rt.Fatalf("queue %d offset %d: %q, want %q", id, i, got, m.bodies[id][i])
			}
			if u.Tags != message.TagsCodeOf([]byte("TagA")) {
				m.rt.Fatalf("queue %d offset %d: tags code %d", id, i, u.Tags)
			}
		}
	}
}
