package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// withIndex gives a test store an index of the fixtures' geometry.
func withIndex(slots, items int64) func(*settings) {
	return func(s *settings) {
		s.indexDir = filepath.Join(s.root, indexDirName)
		s.index = indexGeometry{slots: slots, items: items}
		s.indexWrite, s.indexRead = true, true
	}
}

func never() bool { return false }

// follow does what the index stage of dispatch does: everything confirmed gets into the index.
func follow(t testing.TB, s *Store, from message.PhyOffset) message.PhyOffset {
	t.Helper()
	next, err := tryFollow(s, from)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func tryFollow(s *Store, from message.PhyOffset) (message.PhyOffset, error) {
	buf := make([]byte, s.SegmentBytes())
	segment := message.PhyOffset(s.SegmentBytes())
	damaged := s.Recovery().Damaged
	for pos := from; pos < s.Confirmed(); {
		for len(damaged) > 0 && damaged[0].Phy+message.PhyOffset(damaged[0].Bytes) <= pos {
			damaged = damaged[1:]
		}
		if len(damaged) > 0 && damaged[0].Phy <= pos {
			pos = damaged[0].Phy + message.PhyOffset(damaged[0].Bytes)
			continue
		}
		n, err := s.ReadAt(buf, pos)
		if err != nil {
			return pos, err
		}
		var v message.View
		if err = message.ParseView(buf[:n], &v); err != nil {
			pos = (pos/segment + 1) * segment
			continue
		}
		if v.SysFlag&message.SysFlagTransactionMask != message.SysFlagTransactionRollback {
			record := []IndexRecord{{Phy: pos, StoreTime: v.StoreTimestamp, Topic: v.Topic, Properties: v.Properties}}
			for {
				done, err := s.index.Add(record)
				if err == nil && done == 1 {
					break
				}
				if !errors.Is(err, ErrIndexFull) {
					return pos, err
				}
				if err := s.index.NextFile(); err != nil {
					return pos, err
				}
			}
		}
		pos += message.PhyOffset(v.Size)
	}
	return s.Confirmed(), nil
}

// openIndexed opens a store and brings queues and index up to the log.
func openIndexed(t testing.TB, fsys sysio.FS, set settings) *Store {
	t.Helper()
	s := openTest(t, fsys, set)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	from, err := s.index.Recover(never)
	if err != nil {
		t.Fatal(err)
	}
	follow(t, s, from)
	return s
}

func closeIndexed(t testing.TB, s *Store) {
	t.Helper()
	if err := s.index.Flush(); err != nil {
		t.Fatal(err)
	}
	closeTest(t, s, true)
}

func query(t rapid.TB, s *Store, q IndexQuery) (*IndexResult, []message.View) {
	t.Helper()
	if q.Max == 0 {
		q.Max = 64
	}
	if q.End == 0 {
		q.End = math.MaxInt64
	}
	q.BytesMax = 16 << 20
	r, err := s.index.Query(q)
	if err != nil {
		t.Fatal(err)
	}
	var views []message.View
	for b := r.Body; len(b) > 0; {
		var v message.View
		if err := message.ParseView(b, &v); err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
		b = b[v.Size:]
	}
	if len(views) != r.Records {
		t.Fatalf("%d records said, %d found", r.Records, len(views))
	}
	return r, views
}

func positions(views []message.View) []int64 {
	at := make([]int64, len(views))
	for i := range views {
		at[i] = int64(views[i].PhyOffset)
	}
	return at
}

func TestIndexHashIsTheOriginals(t *testing.T) {
	var entries []struct {
		Topic, Key                                       *string
		Composed                                         string
		HashCode, IndexKeyHash, SlotOf5000000, SlotOf200 int32
	}
	readTestJSON(t, "index-key.json", &entries)
	if len(entries) < 10 {
		t.Fatal("too few vectors")
	}
	for _, e := range entries {
		if got := message.JavaHash([]byte(e.Composed)); got != e.HashCode {
			t.Errorf("%s: hash code %d, want %d", e.Composed, got, e.HashCode)
		}
		h := indexHash(message.JavaHash([]byte(e.Composed)))
		if h != e.IndexKeyHash {
			t.Errorf("%s: %d, want %d", e.Composed, h, e.IndexKeyHash)
		}
		for slots, want := range map[int64]int32{5_000_000: e.SlotOf5000000, 200: e.SlotOf200} {
			if got := (indexGeometry{slots: slots, items: 1}).slotAt(h); got != indexHeaderBytes+4*int64(want) {
				t.Errorf("%s: slot at %d of %d, want slot %d", e.Composed, got, slots, want)
			}
		}
		if e.Topic == nil {
			continue
		}
		q := IndexQuery{Topic: *e.Topic, Key: *e.Key}
		if tag, ok := strings.CutPrefix(*e.Key, "T#"); ok {
			q.Key, q.Kind = tag, IndexTag
		}
		if got := q.hash(); got != e.IndexKeyHash {
			t.Errorf("%s: a query looks for %d, want %d", e.Composed, got, e.IndexKeyHash)
		}
	}
}

func TestIndexFileHasTheOriginalsLength(t *testing.T) {
	if got := (indexGeometry{slots: 5_000_000, items: 20_000_000}).fileBytes(); got != 420_000_040 {
		t.Errorf("%d bytes", got)
	}
}

func readTestJSON(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// fixtureQuery is a query of a fixture with the answer of the original.
type fixtureQuery struct {
	Topic, Key, Why, IndexType string
	MaxNum, Code               int
	Unique                     bool
	Result                     [][3]any // position, KEYS, UNIQ_KEY
	IndexLastUpdatePhyoffset   message.PhyOffset
	IndexLastUpdateTimestamp   message.Millis
}

// want is the original's answer without what peregrine leaves out on purpose: records of another key with the same hash, and
// the second time of a record.
func (q *fixtureQuery) want() []int64 {
	var at []int64
	for _, r := range q.Result {
		phy, keys, uniq := int64(r[0].(float64)), fmt.Sprint(r[1]), fmt.Sprint(r[2])
		if q.IndexType != "T" && uniq != q.Key && !slices.Contains(strings.Split(keys, " "), q.Key) {
			continue
		}
		at = append(at, phy)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

func (q *fixtureQuery) query() IndexQuery {
	iq := IndexQuery{Topic: q.Topic, Key: q.Key, Max: q.MaxNum}
	switch {
	case q.IndexType == "T":
		iq.Kind = IndexTag
	case q.Unique:
		iq.Kind = IndexUnique
	}
	return iq
}

// The directories of the original answer every query as the original does: with its own index, after a crash, and with an
// index that peregrine made from the log alone.
func TestIndexesOfTheOriginalAnswer(t *testing.T) {
	for _, name := range []string{"clean-5.5.0", "killed-5.5.0", "clean-4.9.4", "direct-v6"} {
		for i, form := range []string{"as it is", "crashed", "without index", "newest missing"} {
			if testing.Short() && i%2 == 0 {
				continue
			}
			t.Run(name+"/"+form, func(t *testing.T) {
				var queries []fixtureQuery
				readTestJSON(t, name+".queries.json", &queries)
				root := unpack(t, name, t.TempDir())
				dir := filepath.Join(root, indexDirName)
				files, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				switch form {
				case "crashed":
					err = os.WriteFile(filepath.Join(root, abortName), []byte("1"), 0o644)
				case "without index":
					err = os.RemoveAll(dir)
				case "newest missing":
					err = os.Remove(filepath.Join(dir, files[len(files)-1].Name()))
				}
				if err != nil {
					t.Fatal(err)
				}
				set := testSettings(root, withIndex(200, 1000))
				for round := range 3 {
					s := openIndexed(t, sysio.OS{}, set)
					for _, q := range queries {
						want := q.want()
						r, views := query(t, s, q.query())
						if name == "clean-4.9.4" && q.IndexType == "T" && form == "without index" {
							// 4.9.4 has no index of tags, the one that is made now has.
							if len(views) != q.MaxNum {
								t.Errorf("round %d: tag %s: %d records", round, q.Key, len(views))
							}
							continue
						}
						if got := positions(views); !slices.Equal(got, want) {
							t.Errorf("round %d: %s#%s (%s): %v, the original has %v", round, q.Topic, q.Key, q.Why, got, want)
						}
						if q.Code == 0 && (r.LastPhy != q.IndexLastUpdatePhyoffset || r.LastTime != q.IndexLastUpdateTimestamp) {
							t.Errorf("round %d: the index ends at %d, %d; the original says %d, %d", round, r.LastPhy, r.LastTime, q.IndexLastUpdatePhyoffset, q.IndexLastUpdateTimestamp)
						}
					}
					checkIndexFiles(t, s)
					if round == 1 {
						s.abandon()
					} else {
						closeIndexed(t, s)
					}
				}
			})
		}
	}
}

// checkIndexFiles walks every file as the original's reader and recovery see it: nothing twice, slots and header as the items
// say, nothing behind them.
func checkIndexFiles(t rapid.TB, s *Store) {
	t.Helper()
	type entry struct {
		hash int32
		phy  message.PhyOffset
	}
	seen := map[entry]int{}
	last := message.PhyOffset(-1)
	for _, f := range s.index.files {
		file, err := s.fsys.OpenFile(f.path, os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := indexWalk{geo: s.index.geo, file: file, slots: make([]int32, s.index.geo.slots)}
		if err := w.run(last, s.Wrote(), never); err != nil {
			t.Fatal(err)
		}
		var b [indexHeaderBytes]byte
		if _, err := file.ReadAt(b[:], 0); err != nil {
			t.Fatal(err)
		}
		h := decodeIndexHeader(b[:])
		if int64(h.count) != w.count || h != f.header || w.count > 1 && w.last != h.endPhy {
			t.Fatalf("%s: header %+v, in memory %+v, %d items end at %d", f.name, h, f.header, w.count-1, w.last)
		}
		used := int32(0)
		for k, n := range w.slots {
			var b [4]byte
			if _, err := file.ReadAt(b[:], int64(indexHeaderBytes+4*k)); err != nil {
				t.Fatal(err)
			}
			if got := int32(binary.BigEndian.Uint32(b[:])); got != n {
				t.Fatalf("%s: slot %d names item %d, want %d", f.name, k, got, n)
			}
			if n != 0 {
				used++
			}
		}
		if used != h.slotsUsed {
			t.Errorf("%s: %d slots used, the header says %d", f.name, used, h.slotsUsed)
		}
		for n := int64(1); n < w.count; n++ {
			it, err := w.item(n)
			if err != nil {
				t.Fatal(err)
			}
			seen[entry{it.hash, it.phy}]++
		}
		last = h.endPhy
		file.Close()
	}
	var v message.View
	for e, n := range seen {
		record, err := s.ReadRecord(nil, e.phy, &v)
		if err != nil {
			continue
		}
		want := 0
		x := &Index{}
		for _, h := range x.keysOf(&IndexRecord{Topic: v.Topic, Properties: v.Properties}) {
			if h == e.hash {
				want++
			}
		}
		if n != want {
			t.Errorf("record at %d (%d bytes): hash %d is in the index %d times, want %d", e.phy, len(record), e.hash, n, want)
		}
	}
}

// indexedMessage has the properties that clients and broker give a message.
// Case R09: attempts that fail one after another say the same, so that there is one alarm, and name one file.
func TestFailedIndexFileKeepsItsName(t *testing.T) {
	for _, fault := range []sysio.Fault{
		{Op: sysio.OpOpen, Path: "2*", Err: syscall.EROFS},
		{Op: sysio.OpTruncate | sysio.OpAllocate | sysio.OpMap | sysio.OpRemove, Path: "2*", Err: syscall.EDQUOT},
	} {
		x := sysio.NewFaultFS()
		set := testSettings("/s")
		withIndex(100, 400)(&set)
		s := openIndexed(t, x, set)
		heal := x.Inject(fault)
		texts := map[string]bool{}
		for range 5 {
			err := s.Index().NextFile()
			if !errors.Is(err, fault.Err) {
				t.Fatalf("%v: %v", fault.Op, err)
			}
			texts[err.Error()] = true
			time.Sleep(2 * time.Millisecond) // names are milliseconds
		}
		if entries, err := x.ReadDir("/s/index"); len(texts) != 1 || err != nil || len(entries) > 1 {
			t.Errorf("%v: %d files, %v; errors: %v", fault.Op, len(entries), err, texts)
		}
		heal()
		if err := s.Index().NextFile(); err != nil {
			t.Errorf("%v: %v", fault.Op, err)
		}
		if entries, err := x.ReadDir("/s/index"); len(entries) != 1 || err != nil {
			t.Errorf("%v: %d files, %v", fault.Op, len(entries), err)
		}
		closeIndexed(t, s)
	}
}

func indexedMessage(q *Queue, uniq, keys, tags string) Message {
	m := newMessage(q, "body of "+uniq)
	m.Record.Properties = nil
	for _, p := range [][2]string{{message.PropertyUniqKey, uniq}, {message.PropertyKeys, keys}, {message.PropertyTags, tags}} {
		if p[1] != "" {
			m.Record.Properties = message.AppendProperty(m.Record.Properties, p[0], p[1])
		}
	}
	return m
}

func sendIndexed(t testing.TB, s *Store, q *Queue, uniq, keys, tags string) Message {
	t.Helper()
	batch := []Message{indexedMessage(q, uniq, keys, tags)}
	s.Append(batch)
	if batch[0].Err != nil {
		t.Fatal(batch[0].Err)
	}
	return batch[0]
}

// Case I01: topics and keys that collide in Java's hash.
func TestQueriesAnswerOnlyWhatWasAsked(t *testing.T) {
	s := openIndexed(t, sysio.NewFaultFS(), testSettings("/s", withIndex(200, 1000)))
	defer closeIndexed(t, s)
	sendIndexed(t, s, s.Queue("AaTopic", 0), "u1", "Aa", "")
	sendIndexed(t, s, s.Queue("BBTopic", 0), "u2", "BB", "")
	follow(t, s, 0)
	for _, topic := range []string{"AaTopic", "BBTopic"} {
		for _, key := range []string{"Aa", "BB"} {
			_, views := query(t, s, IndexQuery{Topic: topic, Key: key})
			if want := topic[:2] == key; len(views) == 1 != want || len(views) > 1 {
				t.Errorf("%s#%s: %d records", topic, key, len(views))
			}
		}
	}
	// The key of a unique query is no business key, and a tag is not a key.
	sendIndexed(t, s, s.Queue("T", 0), "u3", "u4 x", "T#tag")
	follow(t, s, 0)
	for _, c := range []struct {
		key  string
		kind IndexKind
		want int
	}{{"u3", IndexUnique, 1}, {"u4", IndexUnique, 0}, {"u4", IndexAnyKey, 1}, {"u3", IndexAnyKey, 1}, {"x", IndexAnyKey, 1},
		{"T#tag", IndexTag, 1}, {"T#T#tag", IndexAnyKey, 0}, {"u4 x", IndexAnyKey, 0}, {"", IndexAnyKey, 0}} {
		if _, views := query(t, s, IndexQuery{Topic: "T", Key: c.key, Kind: c.kind}); len(views) != c.want {
			t.Errorf("%q as %d: %d records, want %d", c.key, c.kind, len(views), c.want)
		}
	}
}

// Case I05: windows inside a file, over borders, at exact milliseconds, before and behind everything.
func TestQueriesKeepToTheirTimes(t *testing.T) {
	now := message.Millis(1_700_000_000_000)
	s, err := open(sysio.NewFaultFS(), testSettings("/s", withIndex(50, 9)), quietLogger(), func() message.Millis { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.index.Recover(never); err != nil {
		t.Fatal(err)
	}
	defer closeIndexed(t, s)
	q := s.Queue("T", 0)
	var times []message.Millis
	for i := range 12 { // two items each, four records a file
		now += message.Millis(1 + i*397)
		times = append(times, now)
		sendIndexed(t, s, q, fmt.Sprint("u", i), "hot", "")
	}
	follow(t, s, 0)
	if n := s.index.Stats().Files; n != 3 {
		t.Fatalf("%d files", n)
	}
	check := func(begin, end message.Millis) {
		t.Helper()
		want := 0
		for _, at := range times {
			if at >= begin && at <= end {
				want++
			}
		}
		if _, views := query(t, s, IndexQuery{Topic: "T", Key: "hot", Begin: begin, End: end}); len(views) != want {
			t.Errorf("%d to %d: %d records, want %d", begin-times[0], end-times[0], len(views), want)
		}
	}
	for _, begin := range times {
		for _, end := range times {
			check(begin, end)
			check(begin+1, end)
			check(begin, end-1)
		}
	}
	check(0, times[0]-1)
	check(times[11]+1, math.MaxInt64)
	check(0, math.MaxInt64)
}

func TestNewestRecordsComeFirst(t *testing.T) {
	s := openIndexed(t, sysio.NewFaultFS(), testSettings("/s", withIndex(10, 100)))
	defer closeIndexed(t, s)
	q := s.Queue("T", 0)
	for i := range 200 {
		sendIndexed(t, s, q, fmt.Sprint("u", i), "hot other", "tag")
	}
	follow(t, s, 0)
	r, views := query(t, s, IndexQuery{Topic: "T", Key: "hot"})
	if len(views) != 64 || r.Cut {
		t.Fatalf("%d records, cut: %v", len(views), r.Cut)
	}
	for i := range views {
		if want := fmt.Sprint("body of u", 200-64+i); string(views[i].Body) != want {
			t.Fatalf("record %d is %q, want %q", i, views[i].Body, want)
		}
	}
	one, err := s.index.Query(IndexQuery{Topic: "T", Key: "hot", End: math.MaxInt64, Max: 64, BytesMax: len(r.Body) / 2})
	if err != nil || !one.Cut || one.Records == 0 || len(one.Body) > len(r.Body)/2 {
		t.Errorf("half the bytes: %d records, cut %v, %v", one.Records, one.Cut, err)
	}
}

// Case R09: no index can be made. Nothing is left behind, and the same attempt succeeds later.
func TestIndexThatCannotBeMadeLeavesNothing(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openIndexed(t, fsys, testSettings("/s", withIndex(200, 1000)))
	defer closeIndexed(t, s)
	sendIndexed(t, s, s.Queue("T", 0), "u1", "k", "")
	failure := errors.New("the quota of index/ is used up")
	for op, path := range map[sysio.Op]string{sysio.OpAllocate: "2*", sysio.OpMap: "2*", sysio.OpSyncDir: indexDirName} {
		lift := fsys.Inject(sysio.Fault{Op: op, Path: path, Err: failure})
		for range 3 {
			if _, err := tryFollow(s, 0); !errors.Is(err, failure) {
				t.Fatalf("%v: %v", op, err)
			}
		}
		if entries, err := readDirIfThere(fsys, s.set.indexDir); err != nil || len(entries) != 0 {
			t.Fatalf("%v: %v is left, %v", op, entries, err)
		}
		lift()
	}
	follow(t, s, 0)
	if _, views := query(t, s, IndexQuery{Topic: "T", Key: "k"}); len(views) != 1 {
		t.Errorf("%d records", len(views))
	}
}

// Keys are indexed as long as sends are accepted: forced cleaning keeps a disk near its ratio for good, and leaves room for index files.
func TestIndexingNeedsNoMoreSpaceThanSends(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openIndexed(t, fsys, testSettings("/s", withIndex(200, 1000)))
	defer closeIndexed(t, s)
	sendIndexed(t, s, s.Queue("T", 0), "u1", "k", "")
	diskAt := func(percent int64) {
		fsys.SetCapacity(0, 0)
		awaitAllocator(s) // else its next file lifts the disk afterwards
		own, err := fsys.DiskUsage("/s")
		if err != nil {
			t.Fatal(err)
		}
		fsys.SetCapacity(100<<20, percent<<20-own.Used)
		s.tick()
	}
	diskAt(90)
	var full *DiskFullError
	if _, err := tryFollow(s, 0); !errors.As(err, &full) || full.Path != s.set.queueDir || full.Threshold != 90 {
		t.Errorf("a file that lifts the disk above the ratio for sends: %v", err)
	}
	diskAt(88)
	if err := s.Refusal(); err != nil {
		t.Fatal(err)
	}
	follow(t, s, 0)
	if _, views := query(t, s, IndexQuery{Topic: "T", Key: "k"}); len(views) != 1 {
		t.Errorf("%d records", len(views))
	}
}

func TestIndexNamesSortByCreation(t *testing.T) {
	x := &Index{}
	at := time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.Local)
	if got := x.nextName(at); got != "20260304050607089" {
		t.Error(got)
	}
	x.files = []*indexFile{{name: "20260304050607089"}}
	for _, now := range []time.Time{at, at.Add(-time.Hour)} {
		if got := x.nextName(now); got != "20260304050607090" {
			t.Error(got)
		}
	}
}

func TestIndexOfAnotherGeometryIsRefused(t *testing.T) {
	root := unpack(t, "clean-5.5.0", t.TempDir())
	before := snapshot(t, root)
	_, err := open(sysio.OS{}, testSettings(root, withIndex(200, 1001)), quietLogger(), nowMillis, nil)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "maxIndexNum") || !strings.Contains(err.Error(), "20840") {
		t.Errorf("%v", err)
	}
	if after := snapshot(t, root); len(after) != len(before) {
		t.Error("the refused directory was changed")
	}
}

func TestExpiredIndexFilesGo(t *testing.T) {
	s := openIndexed(t, sysio.NewFaultFS(), testSettings("/s", withIndex(50, 20)))
	defer closeIndexed(t, s)
	for i := range 40 {
		sendIndexed(t, s, s.Queue("T", 0), fmt.Sprint("u", i), "", "")
	}
	follow(t, s, 0)
	files := s.index.Stats().Files
	if n, err := s.index.DeleteExpired(s.index.files[1].header.endPhy); n != 1 || err != nil {
		t.Errorf("%d files deleted, %v", n, err)
	}
	if n, err := s.index.DeleteExpired(math.MaxInt64); n != files-2 || err != nil {
		t.Errorf("%d files deleted, %v: the newest has to stay", n, err)
	}
	if entries, _ := s.fsys.ReadDir(s.set.indexDir); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
}

// The budget: nothing is allocated for a record in the index.
func TestIndexingAllocatesNothing(t *testing.T) {
	s := openIndexed(t, sysio.NewFaultFS(), testSettings("/s", withIndex(2000, 100_000)))
	defer closeIndexed(t, s)
	if err := s.index.NextFile(); err != nil {
		t.Fatal(err)
	}
	props := indexedMessage(s.Queue("T", 0), "0A00000100002A9F0000000000000001", "key1 key2", "TagA").Record.Properties
	records := make([]IndexRecord, 64)
	for i := range records {
		records[i] = IndexRecord{StoreTime: 1_700_000_000_000, Topic: []byte("BenchmarkTopic"), Properties: props}
	}
	phy := message.PhyOffset(0)
	allocs := 1.0
	for try := 0; try < 5 && allocs != 0; try++ { // the store's ticker may allocate meanwhile
		allocs = testing.AllocsPerRun(20, func() {
			for i := range records {
				records[i].Phy = phy
				phy += 100
			}
			if n, err := s.index.Add(records); n != len(records) || err != nil {
				t.Fatal(n, err)
			}
		})
	}
	if allocs != 0 {
		t.Errorf("%v allocations for %d records", allocs, len(records))
	}
}
