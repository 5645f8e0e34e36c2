package inspect

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Directories of the original, clean and killed, verify, and every record, unit and index item of them is counted.
func TestUndamagedDirectoriesVerify(t *testing.T) {
	for _, c := range []struct {
		name           string
		records, items int64
		end            int64
		queues         int64
	}{
		{"clean-5.5.0", 733, 1966, 491911, 26},
		{"killed-5.5.0", 1705, 4033, 925522, 27},
		{"clean-4.9.4", 737, 1275, 416327, 25},
		{"direct-v6", 360, 990, 81430, 4},
		{"direct-propcrc", 360, 990, 88442, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fixture(t, c.name).open(t)
			if d.SegmentBytes != 65536 || d.QueueFileBytes != 4000 {
				t.Errorf("sizes taken from the files: %d, %d", d.SegmentBytes, d.QueueFileBytes)
			}
			all, r := verify(t, d)
			for _, f := range all {
				t.Errorf("found %s", f.String())
			}
			if r.Records != c.records || r.Units != c.records || r.Items != c.items || int64(r.End) != c.end || r.Queues != c.queues {
				t.Errorf("%+v, expected %+v", r, c)
			}
		})
	}
}

const (
	log0  = "commitlog/00000000000000000000"
	log1  = "commitlog/00000000000000065536"
	log7  = "commitlog/00000000000000458752"
	fixA0 = "consumequeue/FixA/0/00000000000000000000"
	fixA8 = "consumequeue/FixA/0/00000000000000008000"
	index = "index/20261129201413014"
	newer = "index/20261129201413902"
)

// damage is something done to clean-5.5.0.
type damage struct {
	name    string
	do      func(memFS)
	records int64    // good ones that are left, 0 = not counted
	want    []string // "level kind file at: part of the text", in the order they are met
}

func damages() []damage {
	crash := func(m memFS) { m.files["abort"] = []byte("1") }
	zero := func(name string, at, n int64) func(memFS) {
		return func(m memFS) { m.edit(name, at, make([]byte, n)) }
	}
	write := func(name string, at int64, b []byte) func(memFS) {
		return func(m memFS) { m.edit(name, at, b) }
	}
	flip := func(name string, at int64) func(memFS) {
		return func(m memFS) { m.files[name][at] ^= 1 }
	}
	shorten := func(name string, n int64) func(memFS) {
		return func(m memFS) { m.files[name] = m.files[name][:n] }
	}
	remove := func(name string) func(memFS) {
		return func(m memFS) { m.remove(name) }
	}
	both := func(a, b func(memFS)) func(memFS) {
		return func(m memFS) { a(m); b(m) }
	}
	flipBody := flip(log0, 13083+88)
	return []damage{
		{"body in the first file", flipBody, 732, []string{
			"finding record-damaged " + log0 + " 13083: does not match its CRC",
			"note original " + log0 + " 13083: after a crash (an abort file) begins at 0 and cuts the log at 13083",
		}},
		{"body in the first file, crashed", both(flipBody, crash), 732, []string{
			"finding record-damaged " + log0 + " 13083: does not match its CRC",
			"finding original " + log0 + " 13083: its next one here, begins at 0 and cuts the log at 13083",
		}},
		{"body in the last file", flip(log7, 14065+88), 732, []string{
			"finding record-damaged " + log7 + " 14065: does not match its CRC",
			"finding original " + log7 + " 14065: after a clean stop (no abort file), its next one here, begins at 458752 and cuts the log at 472817",
			"note original " + log7 + " 14065: 35 good records behind it are lost",
		}},
		{"body, its unit keeps the place", both(flipBody, write(fixA0, 50*unitBytes, unitBytesOf(0, preBlankSize, 0))), 732, []string{
			"finding record-damaged " + log0 + " 13083: 264 bytes",
			"note original " + log0 + " 13083: ",
		}},
		{"header: the next record is where a unit says", zero(log0, 13083, 8), 732, []string{
			"finding log-damaged " + log0 + " 13083: 264 bytes, stepped over: no record",
			"note unit-without-record " + fixA0 + " 1000: position 13083 names a damaged part",
			"note index-item " + index + " 3380: 3 items, 127 to 129",
			"note original " + log0 + " 13083: ",
		}},
		{"a sector", zero(log0, 12800, 512), 730, []string{
			"finding record-damaged " + log0 + " 12573: the properties are torn",
			"finding log-damaged " + log0 + " 12828: 519 bytes, stepped over: no record",
			"note unit-without-record " + fixA0 + " 980: each of 2 units, offsets 49 to 50",
			"note index-item " + index + " 3340: ",
			"note original " + log0 + " 12828: ",
		}},
		{"a page and its units", both(zero(log0, 8192, 4096), zero(fixA0, 31*unitBytes, 18*unitBytes)), 717, nil},
		{"a page, and no queue names what follows", both(zero(log0, 8192, 4096), remove("consumequeue/FixA")), 717, nil},
		{"torn tail", zero(log7, 32914+98, 245-98), 732, []string{
			"finding log-tail " + log7 + " 32914: lengths do not add up",
			"finding queue-ahead consumequeue/FixIdx/0/00000000000000000000 300: lies behind the end of the log, 491666",
			"finding index-item " + newer + " 20180: behind the end of the log",
		}},
		{"torn properties", zero(log7, 33159-60, 60), 732, []string{
			"finding log-tail " + log7 + " 32914: the properties are torn",
			"finding queue-ahead consumequeue/FixIdx/0/00000000000000000000 300: ",
			"finding index-item " + newer + " 20180: ",
		}},
		{"garbage behind", write(log7, 33159, []byte("garbage garbage garbage")), 733, []string{
			"finding log-tail " + log7 + " 33159: unknown magic code",
		}},
		{"garbage further behind", write(log7, 50000, []byte("x")), 733, []string{
			"finding log-tail " + log7 + " 50000: bytes behind the end of the log, which is at 491911",
		}},
		{"a stale record behind", func(m memFS) { m.edit(log7, 33159, m.files[log0][2591:2591+278]) }, 733, []string{"finding log-tail " + log7 + " 33159: belongs to position 2591"}},
		{"a short last file", shorten(log7, 33036), 732, []string{
			"finding log-file " + log7 + " 0: it has 33036 bytes, expected are 65536",
			"finding log-tail " + log7 + " 32914: the file ends in the middle of a record",
			"finding queue-ahead consumequeue/FixIdx/0/00000000000000000000 300: ",
			"finding index-item " + newer + " 20180: ",
		}},
		{"a lost file in the middle", remove(log1), 0, []string{"finding log-file commitlog/00000000000000131072 0: the files before it, from 00000000000000065536 on, are missing"}},
		{"units zeroed at the end", zero(fixA8, 90*unitBytes, 10*unitBytes), 733, []string{
			"finding record-without-unit " + fixA8 + " 1800: each of 10 units, offsets 490 to 499",
		}},
		{"units zeroed in the middle", zero(fixA0, 100*unitBytes, 3*unitBytes), 733, []string{
			"finding record-without-unit " + fixA0 + " 2000: each of 3 units, offsets 100 to 102",
		}},
		{"a queue lost", remove("consumequeue/FixOrder/1"), 733, []string{
			"finding record-without-unit consumequeue/FixOrder/1 0: each of 10 units, offsets 0 to 9",
		}},
		{"a unit of another size", write(fixA0, 7*unitBytes+8, []byte{0, 0, 1, 0}), 733, []string{"finding unit-wrong " + fixA0 + " 140: says 256 bytes"}},
		{"a unit of other tags", write(fixA0, 7*unitBytes+19, []byte{0}), 733, []string{"finding unit-wrong " + fixA0 + " 140: tags code"}},
		{"a unit of another record", write(fixA0, 7*unitBytes, []byte{0, 0, 0, 0, 0, 0, 0, 0}), 733, []string{"finding unit-wrong " + fixA0 + " 140: names position 0"}},
		{"a good record hidden", write(fixA0, 7*unitBytes, unitBytesOf(0, preBlankSize, 0)), 733, []string{"finding unit-wrong " + fixA0 + " 140: hides it"}},
		{"a unit too many", write(fixA8, 100*unitBytes, unitBytesOf(262, 269, 0)), 733, []string{
			"finding unit-without-record " + fixA8 + " 2000: the record there is FixA queue 0 offset 1",
		}},
		{"a unit behind a hole", write(fixA8, 120*unitBytes, unitBytesOf(600_000, 269, 0)), 733, []string{
			"finding queue-hole " + fixA8 + " 2000: 20 empty units, and units behind",
			"finding queue-ahead " + fixA8 + " 2400: lies behind the end of the log",
		}},
		{"an index item of no key", write(index, 860+20*99, []byte{0x12, 0x34, 0x56, 0x78}), 733, []string{
			"finding index-item " + index + " 2840: no key of the record there has hash 305419896",
			"finding record-without-index " + log0 + " 10208: some keys",
			"finding index-chain " + index + " 2840: 3 items",
		}},
		{"an index chain", write(index, 860+20*500+16, []byte{0, 0, 0, 0}), 733, []string{
			"finding index-chain " + index + fmt.Sprintf(" %d: an item does not lead to the item before", 860+20*500),
		}},
		{"an index slot", write(index, 40+4*65, []byte{0, 0, 0, 0}), 733, []string{
			"finding index-chain " + index + " 300: a slot does not name the newest item, the first is slot 65",
		}},
		{"an index item of a place nearby", write(index, 860+20*99+11, []byte{1}), 733, nil},
		{"an index item's link beyond the file", write(index, 860+20*99+16, []byte{0x7f}), 733, nil},
		{"an index item that leads to itself", write(index, 860+20*99+16, []byte{0, 0, 0, 99}), 733, nil},
		{"an index item behind itself", write(newer, 860+20*99+16, []byte{0, 0, 0, 100}), 733, nil},
		{"an index slot of the newest file", write(newer, 40+4*65, []byte{0x7f}), 733, nil},
		{"an index file's positions", write(index, 16, binary.BigEndian.AppendUint64(nil, 77)), 733, nil},
		{"an index head", write(newer, 24, binary.BigEndian.AppendUint64(nil, 1)), 733, []string{"finding index-file " + newer + " 0: its items were not found where its head says"}},
		{"the newest index file lost", remove(newer), 733, []string{
			"finding record-without-index " + log1 + " 38728: some keys of the record at 104264",
			"finding record-without-index " + log1 + " 39001: 335 records with keys, from 104537 to 491666",
		}},
		{"the newest index file lost, crashed", both(remove(newer), crash), 733, []string{
			"note record-without-index " + log1 + " 38728: some keys of the record at 104264",
			"note record-without-index " + log1 + " 39001: 335 records with keys, from 104537 to 491666",
		}},
		{"no index", remove("index"), 733, []string{"finding record-without-index " + log0 + " 0: 732 records with keys, from 0 to 491666"}},
		{"no checkpoint", remove("checkpoint"), 733, []string{"finding checkpoint checkpoint 0: the file is missing"}},
		{"a short checkpoint", shorten("checkpoint", 40), 733, []string{
			"finding checkpoint checkpoint 0: it has 40 bytes",
		}},
		{"a checkpoint ahead", write("checkpoint", 40, binary.BigEndian.AppendUint64(nil, 500_000)), 733, []string{
			"finding checkpoint checkpoint 40: behind the end of the log, 491911",
		}},
		{"a foreign file", func(m memFS) { m.files["commitlog/readme.txt"] = nil }, 733, []string{"finding log-file commitlog/readme.txt 0: not a data file"}},
	}
}

// Each damage is found where it was made, and nothing else is.
func TestDamageIsFound(t *testing.T) {
	whole := fixture(t, "clean-5.5.0")
	for _, c := range damages() {
		t.Run(c.name, func(t *testing.T) {
			m := whole.clone()
			c.do(m)
			all, r := verify(t, m.open(t))
			if c.records > 0 && r.Records != c.records {
				t.Errorf("%d good records, expected %d", r.Records, c.records)
			}
			expect(t, all, c.want, c.records > 0)
		})
	}
}

// expect compares findings with "level kind file at: part of the text"; an at of "" is any.
func expect(t *testing.T, all []Finding, want []string, exactly bool) {
	t.Helper()
	if want == nil {
		if len(all) == 0 {
			t.Error("nothing was found")
		}
		return
	}
	for i, w := range want {
		if i >= len(all) {
			t.Errorf("missing: %s", w)
			continue
		}
		f := &all[i]
		place, text, found := strings.Cut(w, ": ")
		if !found {
			place = w
		}
		got := fmt.Sprintf("%s %s %s %d", f.Level, f.Kind, f.File, f.At)
		if !strings.HasPrefix(got, place) || !strings.Contains(f.What, text) {
			t.Errorf("finding %d is\n     %s (%d): %s\nnot  %s", i, got, f.Position, f.What, w)
		}
	}
	if exactly && len(all) > len(want) {
		for _, f := range all[len(want):] {
			t.Errorf("also found: %s", f.String())
		}
	}
}

// A whole log that is missing, which no start takes.
func TestALostLogIsFound(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	for name := range m.files {
		if strings.HasPrefix(name, "commitlog/") {
			m.remove(name)
		}
	}
	all, r := verify(t, m.open(t))
	if r.Records != 0 {
		t.Errorf("%d good records", r.Records)
	}
	expect(t, all, []string{"finding log-file commitlog 0: the log holds no record, queues name records up to 491911"}, false)
}

func TestPropertyCRCsAreChecked(t *testing.T) {
	m := fixture(t, "direct-propcrc")
	size := binary.BigEndian.Uint32(m.files[log0])
	m.files[log0][16] ^= 1 // FLAG, which the body's CRC does not cover
	all, r := verify(t, m.open(t))
	if r.Records != 359 {
		t.Errorf("%d good records", r.Records)
	}
	expect(t, all, []string{"finding record-damaged " + log0 + fmt.Sprintf(" 0: %d bytes, stepped over: the record does not match the CRC in its properties", size)}, true)
}

// The original deletes the oldest files of the log; queues and index keep entries of what is gone.
func TestExpiredRecordsAreNoFindings(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	m.remove(log0)
	m.remove(log1)
	all, r := verify(t, m.open(t))
	expect(t, all, []string{}, true)
	if r.Begin != 131072 || r.Expired == 0 || r.Records == 733 {
		t.Errorf("%+v", r)
	}
	s, err := m.open(t).Summarize()
	must(t, err)
	for _, q := range s.Queues {
		if q.Topic == "FixA" && q.Queue == 0 && (q.Min == 0 || q.Max != 500) {
			t.Errorf("FixA queue 0: %+v", q)
		}
	}
}

// A body may hold a whole record. When the record around it cannot be read, the one inside is not taken for the next.
func TestRecordsInBodiesAreNotFound(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	var large Record
	must(t, m.open(t).Records(Place{Topic: "FixB"}, 0, func(r Record) bool {
		large = r
		return r.BodyBytes < 40000
	}))
	forged := slices.Clone(m.files[log0][:262])
	binary.BigEndian.PutUint64(forged[28:], uint64(large.Position+1000))
	m.edit(large.File, large.At+1000, forged)
	m.edit(large.File, large.At, make([]byte, 4)) // the length of the record around it is gone
	all, r := verify(t, m.open(t))
	if r.Records != 732 {
		t.Errorf("%d good records of 732", r.Records)
	}
	if len(all) == 0 || all[0].Kind != KindLogDamaged || all[0].Position != large.Position || all[0].Count < large.Size {
		t.Errorf("found %+v, the record is %+v", all, large)
	}
}

// Files whose names are far apart cost no walk over what lies between.
func TestFarNamesAreNoWork(t *testing.T) {
	m := fixture(t, "clean-5.5.0")
	m.files["consumequeue/FixA/0/04611686018427384000"] = append(unitBytesOf(5, 6, 7), make([]byte, 3980)...)
	m.files["commitlog/04611686018427322368"] = make([]byte, 65536)
	all, r := verify(t, m.open(t))
	if r.Records != 733 || len(all) < 3 {
		t.Errorf("%+v, %d findings", r, len(all))
	}
	_, err := m.open(t).Summarize()
	must(t, err)
	must(t, m.open(t).Records(Place{}, 0, func(Record) bool { return true }))
	must(t, m.open(t).Units(Place{}, 0, func(QueueUnit) bool { return true }))
}
