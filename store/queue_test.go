package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store/storetest"
)

// numbered returns count units that follow each other from record n on.
func numbered(n, count int) []Unit {
	units := make([]Unit, count)
	for i := range units {
		units[i] = Unit{Phy: message.PhyOffset(n+i) * 100, Size: 100, Tags: message.TagsCode(-n - i)}
	}
	return units
}

// The bytes of a unit and of a pre-blank one are the original's.
func TestUnitBytesAreTheOriginals(t *testing.T) {
	root := t.TempDir()
	s := openTest(t, sysio.OS{}, testSettings(root))
	defer s.Close(false)
	q := s.Queue("T", 0)
	if err := q.AppendUnits(2, []Unit{{Phy: 0x0102030405060708, Size: 0x15F, Tags: 2598919}, {Phy: 1, Size: 2, Tags: -2147483648}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, queueDirName, "T", "0", fileName(0)))
	if err != nil || len(got) != testQueueFile {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	const want = "00000000000000007fffffff000000000000000000000000000000007fffffff0000000000000000" +
		"01020304050607080000015f000000000027a8070000000000000001000000020000000000000000"
	if text := fmt.Sprintf("%x", got[:72]); text != want[:144] {
		t.Errorf("got  %s\nwant %s", text, want[:144])
	}
	if text := fmt.Sprintf("%x", got[72:80]); text != "ffffffff80000000" {
		t.Errorf("the tags code of polygenelubricants is %s", text)
	}
}

func TestUnitsAreAppendedOnce(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	for _, step := range []struct{ first, count, max int }{{0, 5, 5}, {0, 5, 5}, {3, 4, 7}, {7, 300, 307}, {100, 207, 307}, {306, 1, 307}, {307, 200, 507}} {
		if err := q.AppendUnits(message.QueueOffset(step.first), numbered(step.first, step.count)); err != nil {
			t.Fatal(err)
		}
		if int(q.Max()) != step.max || int(q.Next()) != step.max || q.Min() != 0 {
			t.Fatalf("%+v: min %d, max %d, next %d", step, q.Min(), q.Max(), q.Next())
		}
	}
	for i, u := range unitsOf(t, q) {
		if u != numbered(i, 1)[0] {
			t.Fatalf("unit %d is %+v", i, u)
		}
	}
	memory := make([]Unit, 600)
	n, hot := q.Units(memory, 0)
	if !hot || n != 507 {
		t.Fatalf("%d units in memory, %v", n, hot)
	}
	for i, u := range memory[:n] {
		if u != numbered(i, 1)[0] {
			t.Fatalf("unit %d in memory is %+v", i, u)
		}
	}
	if n, hot := q.Units(memory, q.Max()); n != 0 || !hot {
		t.Errorf("at the end: %d, %v", n, hot)
	}
}

// The memory of a queue is bounded: what is older is read from the files.
func TestRingKeepsTheNewestUnits(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	const count = 3*ringUnitsMax + 17
	for i := 0; i < count; {
		n := min(1+i%97, count-i)
		if err := q.AppendUnits(message.QueueOffset(i), numbered(i, n)); err != nil {
			t.Fatal(err)
		}
		i += n
	}
	dst := make([]Unit, 10)
	if _, hot := q.Units(dst, count-ringUnitsMax-1); hot {
		t.Error("more in memory than allowed")
	}
	for from := message.QueueOffset(count - ringUnitsMax); from < count; from += 501 {
		n, hot := q.Units(dst, from)
		if !hot || n == 0 || dst[0] != numbered(int(from), 1)[0] {
			t.Errorf("at %d: %d units, %v, %+v", from, n, hot, dst[0])
		}
	}
	if used := s.rings.used.Load(); used != ringUnitsMax*ringUnitBytes {
		t.Errorf("%d bytes counted", used)
	}
}

func TestRingsShareABudget(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	for i := range 300 {
		q := s.Queue("T", message.QueueID(i))
		if err := q.AppendUnits(0, numbered(0, ringUnitsMax)); err != nil {
			t.Fatal(err)
		}
	}
	if used := s.rings.used.Load(); used > ringBudgetBytes {
		t.Errorf("%d bytes", used)
	}
	for range ringIdleTicks + 1 {
		s.sweepRings()
	}
	if s.rings.short() {
		t.Errorf("idle rings keep %d bytes", s.rings.used.Load())
	}
	var q *Queue
	s.Queues(func(other *Queue) bool { q = other; return len(other.ring.units) > 0 })
	if len(q.ring.units) > 0 {
		t.Fatal("every queue has kept its ring")
	}
	if _, hot := q.Units(make([]Unit, 1), q.Max()-1); hot {
		t.Error("units are said to be in memory that is gone")
	}
	if err := q.AppendUnits(q.Max(), numbered(ringUnitsMax, 3)); err != nil {
		t.Fatal(err)
	}
	dst := make([]Unit, 5)
	if n, hot := q.Units(dst, ringUnitsMax); n != 3 || !hot || dst[2] != numbered(ringUnitsMax+2, 1)[0] {
		t.Errorf("after the sweep: %d, %v, %+v", n, hot, dst)
	}
}

// Gaps are filled, so that no later entry shifts; an offset that cannot be right costs its record only.
func TestGapsKeepOffsets(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	fresh := s.Queue("T", 1)
	if err := fresh.AppendUnits(1050, numbered(1050, 2)); err != nil {
		t.Fatal(err)
	}
	if fresh.Min() != 1050 || fresh.Max() != 1052 || fresh.firstFile != 5*testQueueFile {
		t.Errorf("a queue that begins late: min %d, max %d, file %d", fresh.Min(), fresh.Max(), fresh.firstFile)
	}
	q := s.Queue("T", 0)
	for _, at := range []int{0, 3, 450} {
		if err := q.AppendUnits(message.QueueOffset(at), numbered(at, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for i, u := range unitsOf(t, q) {
		if real := i == 0 || i == 3 || i == 450; real == u.IsPreBlank() || real && u != numbered(i, 1)[0] {
			t.Errorf("unit %d is %+v", i, u)
		}
	}
	for _, at := range []message.QueueOffset{1 << 60, -5} {
		if err := q.AppendUnits(at, numbered(0, 1)); !errors.Is(err, ErrQueueGap) || q.Max() != 451 {
			t.Errorf("offset %d: %v, max %d", at, err, q.Max())
		}
	}
	if err := s.Queue("../x", 0).AppendUnits(0, numbered(0, 1)); !errors.Is(err, ErrBadTopic) {
		t.Error(err)
	}
}

// A full disk is an error and no more: the same call succeeds later, nothing is there twice.
func TestFailedUnitWritesCanBeRepeated(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	for _, f := range []sysio.Fault{
		{Op: sysio.OpMkdir, Times: 1}, {Op: sysio.OpOpen, Times: 1}, {Op: sysio.OpTruncate, Times: 1},
		{Op: sysio.OpWrite, Times: 1, Err: syscall.ENOSPC, Short: 30}, {Op: sysio.OpWrite, After: 1, Times: 1},
	} {
		first := q.Max()
		if f.Op != sysio.OpMkdir {
			f.Path = "/s/consumequeue/T/0/*" // the log's files are made meanwhile
		}
		remove := fsys.Inject(f)
		units := numbered(int(first), 250) // in two files
		if err := q.AppendUnits(first, units); err == nil {
			t.Errorf("%v: no error", f.Op)
		} else if q.Max() != first {
			t.Errorf("%v: max moved to %d", f.Op, q.Max())
		} else if f.Err != nil && !errors.Is(err, ErrDiskFull) {
			t.Errorf("%v: %v", f.Op, err)
		}
		remove()
		if err := q.AppendUnits(first, units); err != nil || q.Max() != first+250 {
			t.Errorf("%v again: %v, max %d", f.Op, err, q.Max())
		}
	}
	for i, u := range unitsOf(t, q) {
		if u != numbered(i, 1)[0] {
			t.Fatalf("unit %d is %+v", i, u)
		}
	}
}

// A failed sync of queue files freezes the checkpoint and keeps the next start from trusting it.
func TestFailedQueueSyncFreezesTheCheckpoint(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s"))
	m := send(t, s, s.Queue("T", 0), "x")
	mustDispatch(t, s, 0)
	fsys.Inject(sysio.Fault{Op: sysio.OpDatasync, Path: "/s/consumequeue/T/0/*", Times: 1})
	if err := s.FlushQueues(0); err == nil {
		t.Fatal("no error")
	}
	if err := s.FlushQueues(0); err != nil {
		t.Errorf("the next pass: %v", err)
	}
	if err := s.SaveCheckpoint(m.StoreTimestamp, m.PhyOffset); !errors.Is(err, ErrSyncFailed) {
		t.Errorf("checkpoint: %v", err)
	}
	closeTest(t, s, true)
	if _, err := fsys.Stat("/s/abort"); err != nil {
		t.Errorf("abort: %v", err)
	}
}

// Thousands of queues need few descriptors and no mapping each, and are there again after a start.
func TestManyQueuesAreCheap(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	const topics, perTopic = 1000, 3
	name := func(i int) string { return fmt.Sprintf("Topic%d", i) }
	for i := range topics {
		for id := range perTopic {
			send(t, s, s.Queue(name(i), message.QueueID(id)), "x")
		}
	}
	mustDispatch(t, s, 0)
	if files, _ := fsys.Open(); files > openFilesMax+allocateAheadFiles+64 {
		t.Errorf("%d files are open", files)
	}
	next := fsys.Kill()
	s.abandon()
	if files, mappings := fsys.Open(); files != 0 || mappings != 0 {
		t.Errorf("%d files and %d mappings are left open", files, mappings)
	}
	s = openTest(t, next, set)
	defer s.Close(false)
	if n := s.Recovery().Queues; n != topics*perTopic {
		t.Errorf("%d queues", n)
	}
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	for i := range topics {
		for id := range perTopic {
			if q := s.LookupQueue([]byte(name(i)), message.QueueID(id)); q == nil || q.Max() != 1 || q.Next() != 1 {
				t.Fatalf("%s-%d: %+v", name(i), id, q)
			}
		}
	}
}

func TestQueuesAreFoundWhileOthersAreMade(t *testing.T) {
	s := openTest(t, sysio.NewFaultFS(), testSettings("/s"))
	defer s.Close(false)
	if s.LookupQueue([]byte("T"), 0) != nil || s.LookupQueue([]byte("T"), -1) != nil {
		t.Error("a queue that was never seen")
	}
	ids := []message.QueueID{0, 1, 7, 4095, 4096, 1 << 30}
	var wg sync.WaitGroup
	got := make([][]*Queue, 4)
	for g := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				for _, id := range ids {
					topic := fmt.Sprintf("T%d", i)
					q := s.Queue(topic, id)
					if s.LookupQueue([]byte(topic), id) != q || q.Topic() != topic || q.ID() != id {
						t.Errorf("%s-%d is not found", topic, id)
						return
					}
					got[g] = append(got[g], q)
				}
			}
		}()
	}
	wg.Wait()
	for g := range got {
		for i, q := range got[g] {
			if q != got[0][i] {
				t.Fatal("two queues of one name")
			}
		}
	}
	n := 0
	s.Queues(func(*Queue) bool { n++; return true })
	if n != 200*len(ids) {
		t.Errorf("%d queues", n)
	}
}

func TestUnitsAllocateNothing(t *testing.T) {
	const batches = 1000 // the store's ticker may allocate once or twice meanwhile, which is less than 1 for each
	oneFile := func(set *settings) { set.queueFileBytes = (2*ringUnitsMax + 32*(batches+2)) * unitBytes }
	s := openTest(t, sysio.OS{}, testSettings(t.TempDir(), oneFile))
	defer s.Close(false)
	q := s.Queue("T", 0)
	units := numbered(0, 32)
	next := 0
	add := func() {
		if err := q.AppendUnits(message.QueueOffset(next), units); err != nil {
			t.Fatal(err)
		}
		next += 32
	}
	for next < 2*ringUnitsMax {
		add()
	}
	if n := testing.AllocsPerRun(batches, add); n > 0 {
		t.Errorf("%v allocations per batch of units", n)
	}
}

// Queues, and log files that are not written any more, need no mapping of their own, and share a bounded number of descriptors (case P11:
// the kernel allows some ten thousand mappings).
func TestFilesNeedNoMappingOfTheirOwn(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	opened := func(queues, messages int) (files, mappings int) {
		s := openTest(t, fsys, set)
		for i := range messages {
			send(t, s, s.Queue("T", message.QueueID(i%queues)), strings.Repeat("x", 1000))
		}
		mustDispatch(t, s, s.Recovery().RedispatchFrom)
		closeTest(t, s, true)
		s = openTest(t, fsys, set)
		defer s.Close(true)
		awaitAllocator(s)
		return fsys.Open()
	}
	files, mappings := opened(2, 10)
	moreFiles, moreMappings := opened(1000, 2000)
	s := openTest(t, fsys, set)
	defer s.Close(true)
	if n := len(s.log.files.Load().files); n < 15 {
		t.Errorf("%d log files", n)
	}
	if moreFiles > files+openFilesMax || moreMappings > mappings {
		t.Errorf("%d files and %d mappings are open, %d and %d with few queues and one log file", moreFiles, moreMappings, files, mappings)
	}
}

// What is in the page cache is read without waiting, and is what ReadUnits reads; units of an earlier run are not.
func TestCachedUnitsAreThoseOfTheFiles(t *testing.T) {
	const count = 50
	set := testSettings(t.TempDir())
	s := openTest(t, sysio.OS{}, set)
	q := s.Queue("T", 0)
	want, got := make([]Unit, 7), make([]Unit, 7)
	if n := q.CachedUnits(got, 0); n != 0 {
		t.Errorf("%d units of an empty queue", n)
	}
	more := func() {
		from := s.Wrote()
		for range count {
			send(t, s, q, "body")
		}
		mustDispatch(t, s, from)
	}
	same := func(from message.QueueOffset) {
		n, err := q.ReadUnits(want, from)
		if err != nil {
			t.Fatal(err)
		}
		if k := q.CachedUnits(got, from); k != n && storetest.TellsWhatIsCached(t, set.root) || !slices.Equal(got[:k], want[:k]) {
			t.Fatalf("from %d: %d of %d units, or others", from, k, n)
		}
	}
	more()
	for from := range message.QueueOffset(count) {
		same(from)
	}
	for _, from := range []message.QueueOffset{-1, count, count + 1} {
		if n := q.CachedUnits(got, from); n != 0 {
			t.Errorf("%d units from %d on", n, from)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { q.CachedUnits(got, 0) }); allocs >= 1 { // the pool may be emptied in between
		t.Errorf("%v allocations", allocs)
	}
	s.cold.drop(fileKey{queue: q})
	if n := q.CachedUnits(got, 0); n != 0 {
		t.Errorf("%d units of a file that is not open", n)
	}
	closeTest(t, s, true)

	s = openTest(t, sysio.OS{}, set)
	defer s.Close(true)
	q = s.Queue("T", 0)
	more()
	same(count)
	if n := q.CachedUnits(got, count-1); n != 0 {
		t.Errorf("%d units from one on that an earlier run wrote", n)
	}
}
