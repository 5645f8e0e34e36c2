package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// The index against a simple model, a list of what was appended: random messages whose keys collide, rolls, syncs, kill -9 and
// power cuts at any moment (also in the middle of an item and of a recovery), clean stops. Whenever the index has caught up,
// every query answers as the model does, no record is in it twice, and its files are what the original would have written.
func TestIndexIsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &indexModel{rt: rt, fsys: sysio.NewFaultFS(), rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		m.set = testSettings("/s", withIndex(rapid.Int64Range(1, 40).Draw(rt, "slots"), rapid.Int64Range(9, 60).Draw(rt, "items")), func(s *settings) {
			s.segmentBytes, s.syncFlush = 8<<10, rapid.Bool().Draw(rt, "syncFlush")
		})
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"append":   func(*rapid.T) { m.append() },
			"follow":   func(*rapid.T) { m.follow() },
			"sync":     func(*rapid.T) { m.sync() },
			"flush":    func(*rapid.T) { m.flush() },
			"kill":     func(*rapid.T) { m.crash(m.fsys.Kill) },
			"powerCut": func(*rapid.T) { m.crash(func() *sysio.FaultFS { return m.fsys.PowerCut(m.rand) }) },
			"torn":     func(*rapid.T) { m.tear() },
			"stop":     func(*rapid.T) { m.stop() },
			"":         func(*rapid.T) {},
		})
		m.check()
		m.s.abandon()
		if files, mappings := m.fsys.Open(); files != 0 || mappings != 0 {
			rt.Fatalf("%d files and %d mappings are left open", files, mappings)
		}
	})
}

type indexModel struct {
	rt    *rapid.T
	fsys  *sysio.FaultFS
	rand  *rand.Rand
	set   settings
	s     *Store
	at    message.PhyOffset // the index has everything below
	known []modelRecord
	next  int
}

type modelRecord struct {
	phy              message.PhyOffset
	topic, uniq, tag string
	keys             []string
}

// Topics and keys that collide in Java's hash, and one tag that looks like a key.
var (
	modelTopics = []string{"AaT", "BBT", "T"}
	modelKeys   = []string{"Aa", "BB", "AaAa", "BBBB", "AaBB", "hot", "T#Aa"}
)

func (m *indexModel) open() {
	s, err := open(m.fsys, m.set, quietLogger(), nowMillis, nil)
	if err != nil {
		m.rt.Fatalf("open: %v", err)
	}
	m.s = s
	if err := dispatchFrom(s, s.Recovery().RedispatchFrom); err != nil {
		m.rt.Fatal(err)
	}
	// What the log lost, the model loses.
	m.known = slices.DeleteFunc(m.known, func(r modelRecord) bool {
		return r.phy >= s.Wrote() || slices.ContainsFunc(s.Recovery().Damaged, func(d DamagedRange) bool {
			return r.phy >= d.Phy && r.phy < d.Phy+message.PhyOffset(d.Bytes)
		})
	})
	if m.at, err = s.index.Recover(never); err != nil {
		m.rt.Fatalf("recover the index: %v", err)
	}
}

func (m *indexModel) append() {
	for range rapid.IntRange(1, 5).Draw(m.rt, "records") {
		r := modelRecord{topic: rapid.SampledFrom(modelTopics).Draw(m.rt, "topic")}
		if rapid.IntRange(0, 9).Draw(m.rt, "hasUniq") > 0 {
			r.uniq = fmt.Sprint("id", m.next)
			m.next++
		}
		r.keys = rapid.SliceOfN(rapid.SampledFrom(modelKeys), 0, 3).Draw(m.rt, "keys")
		if rapid.Bool().Draw(m.rt, "hasTag") {
			r.tag = rapid.SampledFrom(modelKeys).Draw(m.rt, "tag")
		}
		keys := ""
		for i, k := range r.keys {
			if i > 0 {
				keys += " "
			}
			keys += k
		}
		batch := []Message{indexedMessage(m.s.Queue(r.topic, 0), r.uniq, keys, r.tag)}
		m.s.Append(batch)
		if batch[0].Err != nil {
			m.rt.Fatal(batch[0].Err)
		}
		r.phy = batch[0].PhyOffset
		m.known = append(m.known, r)
	}
}

func (m *indexModel) follow() {
	at, err := tryFollow(m.s, m.at)
	if err != nil {
		m.rt.Fatalf("index: %v", err)
	}
	m.at = at
}

func (m *indexModel) sync() {
	if _, err := m.s.CommitLog().Sync(m.s.Wrote()); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *indexModel) flush() {
	if err := m.s.index.Flush(); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *indexModel) crash(after func() *sysio.FaultFS) {
	next := after()
	m.s.abandon()
	m.fsys = next
	if m.rand.IntN(3) == 0 {
		// Once more, in the middle of what the start does.
		s, err := open(m.fsys, m.set, quietLogger(), nowMillis, nil)
		if err != nil {
			m.rt.Fatalf("open: %v", err)
		}
		left := m.rand.IntN(4)
		_, _ = s.index.Recover(func() bool { left--; return left < 0 })
		next = m.fsys.PowerCut(m.rand)
		s.abandon()
		m.fsys = next
	}
	m.open()
	m.check()
}

// tear is a kill -9 within an Add: slots and items are there, the header is not.
func (m *indexModel) tear() {
	m.sync()
	m.follow()
	if w := m.s.index.w; w != nil && w.fits(1) {
		header := w.header
		w.add(m.s.Wrote()-1, nowMillis(), []int32{int32(m.rand.IntN(1000))})
		w.header = header
	}
	m.crash(m.fsys.Kill)
}

func (m *indexModel) stop() {
	m.sync()
	m.follow()
	m.flush()
	if err := m.s.Close(true); err != nil {
		m.rt.Fatal(err)
	}
	m.open()
	m.check()
}

func (m *indexModel) check() {
	m.sync()
	m.follow()
	checkIndexFiles(m.rt, m.s)
	ask := func(topic, key string, kind IndexKind, is func(*modelRecord) bool) {
		var want []int64
		for i := range m.known {
			if r := &m.known[i]; r.topic == topic && is(r) {
				want = append(want, int64(r.phy))
			}
		}
		want = want[max(0, len(want)-20):]
		_, views := query(m.rt, m.s, IndexQuery{Topic: topic, Key: key, Kind: kind, Max: 20})
		if got := positions(views); !slices.Equal(got, want) {
			m.rt.Fatalf("%s#%s as %d: %v, want %v", topic, key, kind, got, want)
		}
	}
	for _, topic := range modelTopics {
		for _, key := range modelKeys {
			ask(topic, key, IndexAnyKey, func(r *modelRecord) bool { return slices.Contains(r.keys, key) })
			ask(topic, key, IndexTag, func(r *modelRecord) bool { return r.tag == key })
		}
	}
	for i := range min(m.next, 5) {
		id := fmt.Sprint("id", m.next-1-i)
		for _, topic := range modelTopics {
			ask(topic, id, IndexUnique, func(r *modelRecord) bool { return r.uniq == id })
		}
	}
}
