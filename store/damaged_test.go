package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store/storetest"
)

func damagedVariants(t *testing.T) []storetest.Variant {
	t.Helper()
	return storetest.Variants(t, filepath.Join("testdata", "damaged.json"))
}

// memoryRoot is where inMemory puts a directory.
const memoryRoot = "/store"

// inMemory copies a directory of the machine into a file system in memory.
func inMemory(t *testing.T, root string) *sysio.FaultFS {
	t.Helper()
	fsys := sysio.NewFaultFS()
	for path, content := range snapshot(t, root) {
		to := filepath.Join(memoryRoot, strings.TrimPrefix(path, root))
		if err := fsys.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeWhole(fsys, to, content); err != nil {
			t.Fatal(err)
		}
	}
	return fsys
}

// everyFile is snapshot for a file system in memory, without what RocksDB left.
func everyFile(t *testing.T, fsys *sysio.FaultFS, dir string, all map[string]string) map[string]string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		switch {
		case e.Name == "rocksdbstore":
		case e.Dir:
			everyFile(t, fsys, path, all)
		default:
			content, err := sysio.ReadFile(fsys, path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(content)
		}
	}
	return all
}

// place is where a message stands.
type place struct {
	topic  string
	id     message.QueueID
	offset message.QueueOffset
}

// places lists the expected messages with their positions.
func (e expectation) places() map[place]message.PhyOffset {
	all := map[place]message.PhyOffset{}
	for topic, queues := range e.Queues {
		for id, q := range queues {
			n, _ := strconv.Atoi(id)
			for _, m := range q.Messages {
				all[place{topic, message.QueueID(n), message.QueueOffset(m[0])}] = message.PhyOffset(m[1])
			}
		}
	}
	return all
}

// servesJust expects that got, which it empties, is want.
func servesJust(t *testing.T, round int, got, want map[place]message.PhyOffset) {
	t.Helper()
	for at, phy := range want {
		if got[at] != phy {
			t.Errorf("round %d: %v names %d, want %d", round, at, got[at], phy)
		}
		delete(got, at)
	}
	for at, phy := range got {
		t.Errorf("round %d: %v serves %d", round, at, phy)
	}
}

// served reads every visible message of the store and checks that it stands where its record says.
func served(t *testing.T, s *Store) map[place]message.PhyOffset {
	t.Helper()
	all := map[place]message.PhyOffset{}
	s.Queues(func(q *Queue) bool {
		if q.Min() == q.Max() {
			return true
		}
		for i, u := range unitsOf(t, q) {
			if u.IsPreBlank() {
				continue
			}
			offset := q.Min() + message.QueueOffset(i)
			buf := make([]byte, u.Size)
			var v message.View
			if _, err := s.ReadAt(buf, u.Phy); err != nil {
				t.Fatal(err)
			}
			if err := message.ParseView(buf, &v); err != nil || !v.CheckCRC() || v.QueueOffset != offset || v.PhyOffset != u.Phy || tornProperties(v.Properties) {
				t.Errorf("%s-%d at %d serves a record at %d that says offset %d, position %d: %v", q.Topic(), q.ID(), offset, u.Phy, v.QueueOffset, v.PhyOffset, err)
			}
			all[place{q.Topic(), q.ID(), offset}] = u.Phy
		}
		return true
	})
	return all
}

// What peregrine makes of each kind of damage: where the log ends, and which records are lost. Nothing else is.
var damageOutcome = map[string]struct {
	end  message.PhyOffset
	lost func(phy message.PhyOffset) bool
	cut  bool   // bytes behind the end were no record of this log
	says string // a line of the log has this
}{
	"torn-tail":               {end: 491666, lost: from(491666), cut: true, says: "torn"},
	"torn-properties":         {end: 491666, lost: from(491666), cut: true, says: "torn"},
	"torn-header":             {end: 491666, lost: from(491666), cut: true, says: "torn"},
	"short-file":              {end: 491666, lost: from(491666), cut: true, says: "taken as a torn end"},
	"flipped-last-file":       {end: 491911, lost: only(472817), says: "damaged part of the log"},
	"flipped-first-file":      {end: 491911, lost: only(13083), says: "damaged part of the log"},
	"zeroed-cq-tail":          {end: 491911},
	"cq-all-behind":           {end: 491911},
	"cq-ahead-of-log":         {end: 476145, lost: from(476145), says: "the log ends before records that queues name"},
	"cq-ahead-file-lost":      {end: 458752, lost: from(458752), says: "the log ends before records that queues name"},
	"missing-newest-index":    {end: 491911},
	"missing-all-index":       {end: 491911},
	"garbage-after-last":      {end: 491911, cut: true, says: "torn"},
	"stale-record-after-last": {end: 491911, cut: true, says: "torn"},
	"missing-cq-queue":        {end: 491911},
	"missing-all-cq":          {end: 491911},
	"missing-checkpoint":      {end: 491911},
	"intact":                  {end: 491911},
}

func from(first message.PhyOffset) func(message.PhyOffset) bool {
	return func(phy message.PhyOffset) bool { return phy >= first }
}

func only(one message.PhyOffset) func(message.PhyOffset) bool {
	return func(phy message.PhyOffset) bool { return phy == one }
}

// Every damaged directory opens and serves what is readable, each message at its own offset; offsets go on where they were. So it is
// at the first start, after a clean stop, and after a crash.
func TestDamagedDirectoriesServeWhatIsReadable(t *testing.T) {
	whole := readExpectation(t, "clean-5.5.0").places()
	undamaged := inMemory(t, unpack(t, "clean-5.5.0", t.TempDir()))
	for i, v := range damagedVariants(t) {
		if testing.Short() && i%3 > 0 {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			want, known := damageOutcome[strings.TrimSuffix(v.Name, "-abort")]
			if !known {
				t.Fatal("no outcome for it")
			}
			fsys, set := v.Make(t, undamaged, memoryRoot), testSettings(memoryRoot)
			for round := range 4 {
				var lines bytes.Buffer
				s := openLogged(t, fsys, set, &lines)
				r := s.Recovery()
				mustDispatch(t, s, r.RedispatchFrom)
				got := served(t, s)
				lost := 0
				for at, phy := range whole {
					if want.lost != nil && want.lost(phy) {
						lost++
						if p, ok := got[at]; ok {
							t.Errorf("round %d: %v serves the record at %d", round, at, p)
						}
					} else if got[at] != phy {
						t.Errorf("round %d: %v names %d, want %d", round, at, got[at], phy)
					}
				}
				if len(got) != len(whole)-lost {
					t.Errorf("round %d: %d messages, want %d", round, len(got), len(whole)-lost)
				}
				if s.Wrote() != want.end {
					t.Errorf("round %d: the log ends at %d, want %d", round, s.Wrote(), want.end)
				}
				if round == 0 && (r.Cut > 0) != want.cut {
					t.Errorf("%d bytes cut", r.Cut)
				}
				if round == 0 && !strings.Contains(lines.String(), want.says) {
					t.Errorf("no line says %q:\n%s", want.says, lines.String())
				}
				if round == 1 && r.DamagedCount > 0 && !strings.Contains(lines.String(), "that an earlier start met") {
					t.Errorf("a later start does not speak of the damage:\n%s", lines.String())
				}
				if round == 1 && r.Checked != 0 {
					t.Errorf("after a clean stop %d records were looked at", r.Checked)
				}
				if v.Original.Starts && v.Original.Served > len(got)+1 {
					t.Errorf("the original serves %d, this %d", v.Original.Served, len(got))
				}
				if round == 1 {
					s.abandon()
				} else {
					closeTest(t, s, true)
				}
			}
			offsetsGoOn(t, fsys, set, whole, want.lost)
		})
	}
}

// offsetsGoOn sends to every queue: the offset is the one behind the last, also where the last one is damaged.
func offsetsGoOn(t *testing.T, fsys sysio.FS, set settings, whole map[place]message.PhyOffset, lost func(message.PhyOffset) bool) {
	t.Helper()
	next := map[*Queue]message.QueueOffset{}
	s := openTest(t, fsys, set)
	defer s.Close(true)
	for at, phy := range whole {
		q := s.Queue(at.topic, at.id)
		if phy < s.Wrote() || lost == nil || !lost(phy) {
			next[q] = max(next[q], at.offset+1)
		}
	}
	for q, want := range next {
		if m := send(t, s, q, "next"); m.QueueOffset != want || m.PhyOffset+message.PhyOffset(m.Size()) > s.Wrote() {
			t.Errorf("%s-%d: the next message got offset %d, want %d", q.Topic(), q.ID(), m.QueueOffset, want)
		}
	}
}

// The packed directories of the original are what testdata/damaged.json makes, and everything that the original served of them is
// served, but for records that are damaged.
func TestDamagedDirectoriesOfTheOriginal(t *testing.T) {
	dir := filepath.Join("..", "..", "shared", "fixtures", "store", "damaged")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Log("the packed directories are not here; testdata/damaged.json describes them")
		return
	}
	undamaged := inMemory(t, unpack(t, "clean-5.5.0", t.TempDir()))
	for i, v := range damagedVariants(t) {
		if testing.Short() && i%3 > 0 {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			fsys := inMemory(t, storetest.Unpack(t, filepath.Join(dir, v.Name+".tar.gz"), t.TempDir()))
			got := everyFile(t, v.Make(t, undamaged, memoryRoot), memoryRoot, map[string]string{})
			for path, content := range everyFile(t, fsys, memoryRoot, map[string]string{}) {
				if got[path] != content {
					t.Errorf("%s differs", path)
				}
			}
			s := openTest(t, fsys, testSettings(memoryRoot))
			defer s.Close(true)
			mustDispatch(t, s, s.Recovery().RedispatchFrom)
			all := slices.Collect(func(yield func(message.PhyOffset) bool) {
				for _, phy := range served(t, s) {
					if !yield(phy) {
						return
					}
				}
			})
			for _, phy := range originalServed(t, filepath.Join(dir, v.Name+".expected.json")) {
				damaged := damageOutcome[strings.TrimSuffix(v.Name, "-abort")].lost
				if !slices.Contains(all, phy) && (damaged == nil || !damaged(phy)) {
					t.Errorf("the original serves the record at %d", phy)
				}
			}
		})
	}
}

func originalServed(t *testing.T, path string) (all []message.PhyOffset) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Queues map[string]map[string]struct{ Messages [][]any }
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	for _, queues := range e.Queues {
		for _, q := range queues {
			for _, m := range q.Messages {
				all = append(all, message.PhyOffset(m[1].(float64)))
			}
		}
	}
	return all
}
