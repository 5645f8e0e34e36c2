package store

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Damage with names: a page of the first file of the log, 8192 to 12288, with what has named the records behind it so far.
const (
	lostPageFrom = message.PhyOffset(8192)
	lostPageEnd  = message.PhyOffset(12288)
)

// namedDamage takes a page of the log away, and names of what lies behind it.
var namedDamage = map[string]func(t *testing.T, fsys *sysio.FaultFS){
	"units in front of a hole and behind it": func(t *testing.T, fsys *sysio.FaultFS) {},
	"units behind a hole, no index": func(t *testing.T, fsys *sysio.FaultFS) {
		zeroUnits(t, fsys, 31, 16) // those of the page; with the two behind it, nobody would name their records
		dropFolder(t, fsys, indexDirName)
	},
	"units behind a hole": func(t *testing.T, fsys *sysio.FaultFS) { zeroUnits(t, fsys, 31, 18) },
	"index items only":    func(t *testing.T, fsys *sysio.FaultFS) { dropFolder(t, fsys, queueDirName) },
}

func zeroUnits(t *testing.T, fsys *sysio.FaultFS, from, n int64) {
	writeRaw(t, fsys, filepath.Join(memoryRoot, queueDirName, "FixA", "0", fileName(0)), from*unitBytes, make([]byte, n*unitBytes))
}

func dropFolder(t *testing.T, fsys *sysio.FaultFS, dir string) {
	t.Helper()
	if err := removeAll(fsys, filepath.Join(memoryRoot, dir)); err != nil {
		t.Fatal(err)
	}
}

// loseAPage returns the original's directory with that damage, and the messages that are readable.
func loseAPage(t *testing.T, whole *sysio.FaultFS, name string, crashed bool) (*sysio.FaultFS, map[place]message.PhyOffset) {
	t.Helper()
	fsys := whole.Kill()
	writeRaw(t, fsys, filepath.Join(memoryRoot, "commitlog", fileName(0)), int64(lostPageFrom), make([]byte, lostPageEnd-lostPageFrom))
	namedDamage[name](t, fsys)
	if crashed {
		if err := writeWhole(fsys, filepath.Join(memoryRoot, abortName), "1"); err != nil {
			t.Fatal(err)
		}
	}
	want := readExpectation(t, "clean-5.5.0").places()
	last := message.PhyOffset(0) // record in front of the page, which reaches into it
	for _, phy := range want {
		if phy < lostPageFrom {
			last = max(last, phy)
		}
	}
	maps.DeleteFunc(want, func(_ place, phy message.PhyOffset) bool { return phy >= last && phy < lostPageEnd })
	return fsys, want
}

// A lost page costs the records in it, whoever is left to name what follows; no offset shifts, and every later start finds the same.
func TestWhatFollowsALostPageIsServed(t *testing.T) {
	whole := inMemory(t, unpack(t, "clean-5.5.0", t.TempDir()))
	for name := range namedDamage {
		for _, crashed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/crashed=%v", name, crashed), func(t *testing.T) {
				fsys, want := loseAPage(t, whole, name, crashed)
				set := testSettings(memoryRoot, withIndex(200, 1000))
				for round := range 3 {
					s := openTest(t, fsys, set)
					r := s.Recovery()
					mustDispatch(t, s, r.RedispatchFrom)
					if got := served(t, s); !maps.Equal(got, want) {
						for at, phy := range want {
							if got[at] != phy {
								t.Errorf("round %d: %v at %d is not served", round, at, phy)
							}
						}
						t.Fatalf("round %d: %d messages are served, want %d; %+v", round, len(got), len(want), r)
					}
					if s.Wrote() != 491911 || r.Cut != 0 || r.DamagedCount == 0 || r.DamagedCount != int64(len(r.Damaged)) {
						t.Errorf("round %d: end %d, report %+v", round, s.Wrote(), r)
					}
					if round == 1 {
						s.abandon()
					} else {
						closeTest(t, s, true)
					}
				}
			})
		}
	}
}

// A start that is cut off in the middle has not destroyed the names that lead behind the damage: the next one finds the same.
func TestRecoveryBehindALostPageCanBeCutOff(t *testing.T) {
	whole := inMemory(t, unpack(t, "clean-5.5.0", t.TempDir()))
	set := testSettings(memoryRoot, withIndex(200, 1000))
	for name := range namedDamage {
		for _, crashed := range []bool{false, true} {
			damaged, want := loseAPage(t, whole, name, crashed)
			cutOff := 0
			step := 1
			if testing.Short() {
				step = 19
			}
			for after := 0; ; after += step {
				fsys := damaged.Kill()
				fsys.Inject(sysio.Fault{Op: sysio.OpPunch | sysio.OpRemove | sysio.OpDatasync | sysio.OpWrite | sysio.OpRename, After: after})
				s, err := open(fsys, set, quietLogger(), nowMillis, nil)
				if err == nil {
					s.abandon()
					break
				}
				cutOff++
				again := fsys.Kill()
				s = openTest(t, again, set)
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				if got := served(t, s); !maps.Equal(got, want) || s.Wrote() != 491911 {
					t.Errorf("%s, crashed %v: after a start that ended at its change %d %d messages are served, want %d", name, crashed, after, len(got), len(want))
				}
				s.abandon()
			}
			if cutOff == 0 {
				t.Errorf("%s, crashed %v: no start was cut off", name, crashed)
			}
		}
	}
}

// A loose name counts only where the record it means is: one that lies in a body, one of another key, one that says that it belongs
// elsewhere and one of a body that does not fit its CRC are none.
func TestLooseNamesAreNotBelieved(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", withIndex(20, 100))
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	send(t, s, q, "kept")
	forged := make([]byte, 400)
	at := s.Wrote() + 1000
	rec := newMessage(q, "forged").Record
	rec.PhyOffset, rec.QueueOffset, rec.StoreTimestamp = at, 1, 1
	size := rec.EncodeTo(forged)
	lost := send(t, s, q, "its header is lost")
	end := s.Wrote()
	image := fsys.Kill()
	s.abandon()
	log := filepath.Join("/s/commitlog", fileName(0))
	writeRaw(t, image, log, int64(lost.PhyOffset), make([]byte, lost.Size()))
	writeRaw(t, image, log, int64(at), forged[:size])

	name := func(change func(it *indexItem, record []byte)) (message.PhyOffset, RecoveryReport) {
		fsys := image.Kill()
		var x Index
		it := indexItem{hash: x.keysOf(&IndexRecord{Topic: rec.Topic, Properties: rec.Properties})[0], phy: at}
		record := append([]byte(nil), forged[:size]...)
		change(&it, record)
		writeRaw(t, fsys, log, int64(at), record)
		file := make([]byte, set.index.fileBytes())
		header := indexHeader{beginTime: 1, endTime: 1, beginPhy: 0, endPhy: it.phy, count: 2}
		header.encode(file)
		it.encode(file[set.index.itemAt(1):])
		if err := fsys.MkdirAll(set.indexDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeWhole(fsys, filepath.Join(set.indexDir, "20260101000000000"), string(file)); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, fsys, set)
		defer s.abandon()
		return s.Wrote(), s.Recovery()
	}
	if got, r := name(func(*indexItem, []byte) {}); got != at+message.PhyOffset(size) || r.DamagedCount != 1 {
		t.Errorf("the log ends at %d: what an index item names was not found; %+v", got, r)
	}
	for what, change := range map[string]func(it *indexItem, record []byte){
		"another key":      func(it *indexItem, _ []byte) { it.hash++ },
		"another place":    func(_ *indexItem, record []byte) { record[35] ^= 1 },
		"a damaged body":   func(_ *indexItem, record []byte) { record[88] ^= 1 },
		"not its start":    func(it *indexItem, _ []byte) { it.phy++ },
		"behind the log":   func(it *indexItem, _ []byte) { it.phy += testSegment },
		"before the log":   func(it *indexItem, _ []byte) { it.phy = -5 },
		"before the place": func(it *indexItem, _ []byte) { it.phy = 0 },
	} {
		if got, r := name(change); got != lost.PhyOffset || r.Cut == 0 || r.DamagedCount != 0 {
			t.Errorf("%s: the log ends at %d, want %d (of %d); %+v", what, got, lost.PhyOffset, end, r)
		}
	}
}

// More names than fit in memory are looked at in parts, the nearest first, and none is left out.
func TestManyLooseNames(t *testing.T) {
	var w looseNames
	w.to = 1 << 40
	for i := range 2 * looseNamesMax {
		w.list = append(w.list, looseName{phy: message.PhyOffset((i * 7919) % (2 * looseNamesMax) / 3)})
	}
	before := map[message.PhyOffset]int{}
	for _, n := range w.list {
		before[n.phy]++
	}
	w.shorten()
	if len(w.list) > looseNamesMax || len(w.list) < looseNamesMax-3 {
		t.Fatalf("%d names are kept", len(w.list))
	}
	for _, n := range w.list {
		if n.phy >= w.to {
			t.Fatalf("kept a name of %d, all before %d should be", n.phy, w.to)
		}
		before[n.phy]--
	}
	for phy, left := range before {
		if phy < w.to && left != 0 {
			t.Errorf("%d names of %d were dropped", left, phy)
		}
	}
	for i := range w.list {
		w.list[i].phy = 5
	}
	w.list = append(w.list, w.list...)
	for len(w.list) <= looseNamesMax {
		w.list = append(w.list, looseName{phy: 5})
	}
	if w.shorten(); w.to != 6 || len(w.list) != looseNamesMax {
		t.Errorf("names of one place: %d up to %d", len(w.list), w.to)
	}
}
