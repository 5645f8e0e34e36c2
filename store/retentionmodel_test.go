package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peregrine/internal/message"
)

// Appends, deletions, clean stops and kills in any order, against a model that knows every message and its place: a queue
// shows exactly the messages whose place the log still has, and offsets never shift.
func TestRetentionIsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &retentionModel{aged: newAged(t, byWrites, func(s *settings) {
			s.segmentBytes, s.queueFileBytes = 8<<10, 7*unitBytes
			s.retention.keep, s.retention.batch = 2*time.Hour, 3
			for hour := range s.retention.hours {
				s.retention.hours[hour] = true
			}
		}), rt: rt}
		defer m.s.abandon()
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(*rapid.T) { m.append() },
			"pass":   func(*rapid.T) { m.pass(time.Duration(rapid.IntRange(0, 150).Draw(rt, "minutes")) * time.Minute) },
			"tick":   func(*rapid.T) { m.s.tick() },
			"stop": func(*rapid.T) {
				if err := m.s.Close(true); err != nil {
					rt.Fatal(err)
				}
				m.restart()
			},
			"kill": func(*rapid.T) {
				next := m.fsys.Kill()
				m.s.abandon()
				m.fsys = next
				m.restart()
			},
			"": func(*rapid.T) { m.check() },
		})
	})
}

type storedMessage struct {
	body string
	phy  message.PhyOffset
}

type retentionModel struct {
	*aged
	rt     *rapid.T
	queues [2][]storedMessage
}

func (m *retentionModel) append() {
	id := message.QueueID(rapid.IntRange(0, len(m.queues)-1).Draw(m.rt, "queue"))
	at := m.s.Wrote()
	for range rapid.IntRange(1, 12).Draw(m.rt, "messages") {
		body := fmt.Sprintf("%d-%d %s", id, len(m.queues[id]), strings.Repeat("x", rapid.IntRange(0, 2000).Draw(m.rt, "bytes")))
		m.queues[id] = append(m.queues[id], storedMessage{body, send(m.t, m.s, m.s.Queue("T", id), body).PhyOffset})
	}
	m.settle(at)
}

// settle makes everything durable and visible.
func (m *retentionModel) settle(from message.PhyOffset) {
	if _, err := m.s.CommitLog().Sync(m.s.Wrote()); err != nil {
		m.rt.Fatal(err)
	}
	mustDispatch(m.t, m.s, from)
}

func (m *retentionModel) restart() {
	m.open()
	m.settle(m.s.Recovery().RedispatchFrom)
}

func (m *retentionModel) check() {
	for id := range m.queues {
		q, all := m.s.Queue("T", message.QueueID(id)), m.queues[id]
		first := 0
		for first < len(all) && all[first].phy < m.s.MinPhy() {
			first++
		}
		// What was deleted by a pass that a kill interrupted is trimmed by the next start; here passes are whole.
		if int(q.Min()) != first || int(q.Max()) != len(all) || int(q.Next()) != len(all) {
			m.rt.Fatalf("queue %d: [%d, %d), next %d; the model has [%d, %d), the log begins at %d", id, q.Min(), q.Max(), q.Next(), first, len(all), m.s.MinPhy())
		}
		for i, u := range unitsOf(m.t, q) {
			if got := bodyAt(m.t, m.s, u); got != all[first+i].body {
				m.rt.Fatalf("queue %d offset %d: %.40q, want %.40q", id, first+i, got, all[first+i].body)
			}
		}
	}
	if files := m.s.log.files.Load().files; len(m.queues[0])+len(m.queues[1]) > 0 && (len(files) == 0 || files[0].start > m.s.Wrote()) {
		m.rt.Fatal("the last file is gone")
	}
}
