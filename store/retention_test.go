package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// aged is a store on a machine whose clock the test sets.
type aged struct {
	t    *testing.T
	fsys *sysio.FaultFS
	now  atomic.Int64 // milliseconds
	set  settings
	s    *Store
}

// newAged starts at 12:00 local time, with deletions at 04 only.
func newAged(t *testing.T, change ...func(*settings)) *aged {
	a := &aged{t: t, fsys: sysio.NewFaultFS()}
	a.now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local).UnixMilli())
	a.fsys.SetClock(func() time.Time { return time.UnixMilli(a.now.Load()) })
	a.set = testSettings("/s", change...)
	a.set.retention = retention{keep: 72 * time.Hour, batch: 10, forced: true, usedPct: 75}
	a.set.retention.hours[4] = true
	for _, c := range change {
		c(&a.set)
	}
	a.open()
	t.Cleanup(func() { a.s.Close(false) })
	return a
}

// byWrites is for tests in which files differ in age: in the file system of the tests a store into a mapping does not change
// the time of its file.
func byWrites(s *settings) { s.direct = true }

func (a *aged) open() {
	s, err := open(a.fsys, a.set, quietLogger(), func() message.Millis { return message.Millis(a.now.Load()) }, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	a.s = s
}

func (a *aged) pass(after time.Duration) {
	a.now.Add(after.Milliseconds())
	a.s.cleaner.pass()
}

// fill appends until the log has n files, makes everything durable and visible.
func (a *aged) fill(files int) {
	a.t.Helper()
	q := a.s.Queue("T", 0)
	from := a.s.Wrote()
	for a.s.Wrote() < message.PhyOffset(files-1)*testSegment+message.PhyOffset(testSegment/2) {
		send(a.t, a.s, q, strings.Repeat("x", 1000))
	}
	if _, err := a.s.CommitLog().Sync(a.s.Wrote()); err != nil {
		a.t.Fatal(err)
	}
	mustDispatch(a.t, a.s, from)
}

// logFiles are the starts of the files on the disk that hold records.
func (a *aged) logFiles() (names []int64) {
	a.t.Helper()
	entries, err := a.fsys.ReadDir("/s/commitlog")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range entries {
		if start, ok := parseFileName(e.Name); ok && start < int64(a.s.Wrote()) {
			names = append(names, start/testSegment)
		}
	}
	return names
}

func (a *aged) expect(what string, first, last int64) {
	a.t.Helper()
	files := a.logFiles()
	if files[0] != first || files[len(files)-1] != last || int64(len(files)) != last-first+1 {
		a.t.Errorf("%s: the files are %v, want %d to %d", what, files, first, last)
	}
	if got := int64(a.s.MinPhy()) / testSegment; got != first {
		a.t.Errorf("%s: the log begins in file %d, want %d", what, got, first)
	}
}

func TestExpiredFilesGoInTheirHourOnly(t *testing.T) {
	a := newAged(t)
	a.fill(6)
	a.pass(71 * time.Hour) // 11:00
	a.expect("not old enough", 0, 5)
	a.pass(2 * time.Hour) // 13:00
	a.expect("old enough, wrong hour", 0, 5)
	a.pass(15 * time.Hour) // 04:00
	a.expect("the hour has come", 5, 5)
	if got := a.s.Retention(); got.Files != 5 || got.Forced != 0 {
		t.Errorf("counted %+v", got)
	}
	a.pass(time.Hour)
	a.expect("the last one stays", 5, 5)
}

func TestSeveralHours(t *testing.T) {
	hours, err := parseHours(" 02;14 ; 23;")
	if err != nil || !hours[2] || !hours[14] || !hours[23] || hours[4] {
		t.Errorf("%v, %v", hours, err)
	}
	for _, bad := range []string{"24", "-1", "4:00", "02,14"} {
		if _, err := parseHours(bad); err == nil || !strings.Contains(err.Error(), "deleteWhen="+bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if hours, err := parseHours(""); err != nil || hours != [24]bool{} {
		t.Errorf("no hour: %v, %v", hours, err)
	}
}

func TestYoungFileEndsThePass(t *testing.T) {
	a := newAged(t, byWrites)
	a.fill(3)
	a.now.Add(40 * time.Hour.Milliseconds())
	a.fill(6) // writes into the third as well
	a.pass(48 * time.Hour)
	a.expect("the first two are old", 2, 5)
}

func TestBatchIsTheMostOfAPass(t *testing.T) {
	a := newAged(t, func(s *settings) { s.retention.batch = 2 })
	a.fill(6)
	a.pass(88 * time.Hour)
	a.expect("first pass", 2, 5)
	a.pass(10 * time.Second)
	a.expect("second pass", 4, 5)
}

func TestAdministratorNeedsNoHour(t *testing.T) {
	a := newAged(t)
	a.fill(4)
	a.s.DeleteExpiredLog()
	a.pass(time.Hour)
	a.expect("young files stay", 0, 3)
	a.pass(74 * time.Hour) // 15:00
	a.expect("old ones go", 3, 3)
	for range manualPasses {
		a.pass(0)
	}
	a.fill(6)
	a.pass(100 * time.Hour) // 19:00
	a.expect("the passes are used up", 3, 5)
}

// diskAt makes the partition n percent full, by files of somebody else.
func (a *aged) diskAt(percent int64) {
	a.diskUses(capacity / 100 * percent)
}

const capacity = 100 << 20

func (a *aged) diskUses(bytes int64) {
	awaitAllocator(a.s)
	a.fsys.SetCapacity(0, 0)
	own, err := a.fsys.DiskUsage("/s")
	if err != nil {
		a.t.Fatal(err)
	}
	a.fsys.SetCapacity(capacity, bytes-own.Used)
}

func TestFullerDiskNeedsNoHour(t *testing.T) {
	a := newAged(t)
	a.fill(4)
	a.now.Add(73 * time.Hour.Milliseconds())
	a.diskAt(75)
	a.pass(0)
	a.expect("75 % is not above 75", 0, 3)
	a.diskAt(76)
	a.pass(0)
	a.expect("76 % is", 3, 3)

	a = newAged(t)
	a.fill(4)
	a.diskAt(80)
	a.pass(0)
	a.expect("young files stay below the ratio of forced cleaning", 0, 3)
	defer a.fsys.Inject(sysio.Fault{Op: sysio.OpUsage})()
	a.pass(73 * time.Hour)
	a.expect("a disk that does not tell its space costs expired files", 3, 3)
}

// Forced cleaning throws away the oldest files, no more than the disk asks for, and never the last one.
func TestForcedCleaning(t *testing.T) {
	a := newAged(t)
	a.fill(8)
	a.diskAt(85)
	a.pass(0)
	a.expect("85 % is not above 85", 0, 7)

	// 0.6 files above the ratio: one has to go.
	a.diskUses(capacity/100*85 + testSegment*6/10)
	before, _ := a.fsys.DiskUsage("/s")
	if before.UsedPercent() != 86 {
		t.Fatalf("the disk is at %d %%", before.UsedPercent())
	}
	a.pass(0)
	a.expect("one young file", 1, 7)
	if got := a.s.Retention(); got.Forced != 1 || got.PendingBytes != testSegment {
		t.Errorf("%+v, the blocks of a mapped file stay until its readers are gone", got)
	}
	a.pass(0)
	a.expect("what is pending counts as free", 1, 7)
	for range unmapGraceTicks + 1 {
		a.s.tick()
	}
	a.pass(0)
	a.expect("after the grace", 1, 7)
	after, _ := a.fsys.DiskUsage("/s")
	if got := a.s.Retention(); got.PendingBytes != 0 || got.Bytes != testSegment || before.Used-after.Used < testSegment-2*sysio.PageSize {
		t.Errorf("%+v, the disk has %d bytes more", got, before.Used-after.Used)
	}

	a.diskAt(200)
	a.pass(0)
	a.expect("the last file stays", 7, 7)

	a = newAged(t, func(s *settings) { s.retention.forced = false })
	a.fill(8)
	a.diskAt(95)
	a.pass(0)
	a.expect("cleanFileForciblyEnable=false", 0, 7)
}

// On a disk that is written quickly the mappings of the oldest files end before it is full: deleting these files frees their space at once. One
// that is written slowly keeps them in memory.
func TestQuicklyWrittenDisksUnmapAhead(t *testing.T) {
	for _, perTick := range []int{0, 2} { // files: in a minute 0, or 8 % of the disk
		t.Run(fmt.Sprint(perTick), func(t *testing.T) {
			a := newAged(t)
			a.fill(4)
			a.diskAt(70)
			for n := range paceTicks + 2 {
				a.s.tick()
				a.fill(4 + (n+1)*perTick)
			}
			for range unmapGraceTicks + 1 { // nobody writes any more
				a.s.tick()
			}
			if got := a.s.Retention().UsedPercent; got > 75 {
				t.Fatalf("the disk is at %d %%, where mappings end in any case", got)
			}
			a.diskAt(86)
			a.pass(0)
			if got := a.s.Retention(); got.Forced == 0 || (got.PendingBytes == 0) != (perTick > 0) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A full disk is cleaned and sends are accepted again, without a restart (R01).
func TestFullDiskCleansItself(t *testing.T) {
	a := newAged(t)
	a.fill(8)
	a.diskAt(91)
	a.s.tick()
	if err := a.s.Refusal(); !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), "91 % used, threshold 90") {
		t.Fatalf("refusal: %v", err)
	}
	a.diskAt(86)
	a.s.tick()
	if a.s.Refusal() == nil {
		t.Error("accepted between the ratios")
	}
	a.diskAt(85)
	a.s.tick()
	if err := a.s.Refusal(); err != nil {
		t.Errorf("still refused: %v", err)
	}
	send(t, a.s, a.s.Queue("T", 0), "after")
}

// A broker that starts on a full disk accepts sends after one interval, though nobody has synced its queues since: the pass does, and what it
// deletes has its entries. With space left its first pass waits for a minute.
func TestFullDiskNeedsNoFirstMinute(t *testing.T) {
	a := newAged(t)
	a.fill(8)
	c := a.s.cleaner
	for range firstPassIntervals - 1 {
		c.intervalOver()
	}
	if n := a.s.Retention().Passes; n != 0 {
		t.Errorf("%d passes in the first minute", n)
	}
	c.intervalOver()
	if n := a.s.Retention().Passes; n != 1 {
		t.Errorf("%d passes after it", n)
	}

	a = newAged(t)
	a.fill(8)
	a.diskAt(91)
	a.s.tick()
	if !errors.Is(a.s.Refusal(), ErrDiskFull) {
		t.Fatalf("refusal: %v", a.s.Refusal())
	}
	q := a.s.Queue("T", 0)
	if q.synced != 0 {
		t.Fatalf("the queue is synced up to %d", q.synced)
	}
	a.s.cleaner.intervalOver()
	a.expect("one interval on a full disk", 7, 7)
	if q.synced != q.Max() {
		t.Errorf("the queue is synced up to %d of %d", q.synced, q.Max())
	}
}

// While the disk is above diskMaxUsedSpaceRatio the next candidates are not mapped, so that deleting them frees space at once.
func TestCandidatesAreUnmappedEarly(t *testing.T) {
	a := newAged(t)
	a.fill(8)
	a.diskAt(80)
	for range unmapGraceTicks + 2 {
		a.s.tick()
	}
	for i, f := range a.s.log.files.Load().files {
		if inUse := f.end() >= a.s.Wrote(); f.mapped.Load() != inUse {
			t.Errorf("file %d: mapped %v, in use %v", i, f.mapped.Load(), inUse)
		}
	}
	a.diskAt(86)
	a.pass(0)
	if got := a.s.Retention(); got.PendingBytes != 0 || got.Forced == 0 {
		t.Errorf("%+v", got)
	}
}

// What is not durable is not deleted: the next sync would miss it.
func TestUnsyncedFileStays(t *testing.T) {
	a := newAged(t)
	q := a.s.Queue("T", 0)
	for a.s.Wrote() < 3*testSegment {
		send(t, a.s, q, strings.Repeat("x", 1000))
	}
	a.pass(88 * time.Hour)
	a.expect("nothing is synced", 0, 3)
	if _, err := a.s.CommitLog().Sync(a.s.Wrote()); err != nil {
		t.Fatal(err)
	}
	a.pass(time.Second)
	a.expect("synced", 3, 3)
	send(t, a.s, q, "more")
	if _, err := a.s.CommitLog().Sync(a.s.Wrote()); err != nil {
		t.Fatal(err)
	}
}

// A removal that fails leaves the log as it was and is tried again.
func TestFailingRemoval(t *testing.T) {
	a := newAged(t)
	a.fill(4)
	heal := a.fsys.Inject(sysio.Fault{Op: sysio.OpRemove, Path: fileName(testSegment)})
	a.pass(88 * time.Hour)
	a.expect("the second cannot be removed", 1, 3)
	if n, err := a.s.ReadAt(make([]byte, 100), testSegment); n != 100 || err != nil {
		t.Errorf("it can be read: %d, %v", n, err)
	}
	heal()
	a.pass(time.Second)
	a.expect("healed", 3, 3)
}

// Queues follow: minima at once, files but the last, offsets go on. Also over a restart, clean or not.
func TestQueuesFollowTheLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprint("clean=", clean), func(t *testing.T) {
			a := newAged(t, byWrites, func(s *settings) { s.queueFileBytes = 50 * unitBytes })
			a.fill(8)
			busy, idle := a.s.Queue("T", 0), a.s.Queue("Idle", 3)
			var told []Trim
			a.s.OnTrim(func(minPhy message.PhyOffset, trims []Trim) {
				if minPhy != a.s.MinPhy() {
					t.Errorf("told of %d, the log begins at %d", minPhy, a.s.MinPhy())
				}
				told = append(told, trims...)
			})
			for range 3 { // into the newest file; what lies before is theirs no longer after the next deletion
				at := a.s.Wrote()
				send(t, a.s, idle, "idle")
				mustDispatch(t, a.s, at)
			}
			a.now.Add(20 * time.Hour.Milliseconds())
			a.fill(12)
			a.pass(68 * time.Hour)
			a.expect("the old ones", 7, 11)
			if idle.Min() != 0 || idle.Max() != 3 {
				t.Errorf("the idle queue has [%d, %d)", idle.Min(), idle.Max())
			}
			check := func(q *Queue) {
				t.Helper()
				units := unitsOf(t, q)
				if len(units) == 0 || units[0].Phy < a.s.MinPhy() {
					t.Fatalf("%d units, the first %+v, the log begins at %d", len(units), units[0], a.s.MinPhy())
				}
				for _, u := range units {
					bodyAt(t, a.s, u)
				}
			}
			check(busy)
			if len(told) != 1 || told[0] != (Trim{busy, 0, busy.Min()}) {
				t.Errorf("told: %+v", told)
			}
			entries, err := a.fsys.ReadDir(busy.dir())
			if err != nil {
				t.Fatal(err)
			}
			if first := entries[0].Name; first != fileName(int64(busy.Min())/50*50*unitBytes) {
				t.Errorf("the queue's files begin with %s, its minimum is %d", first, busy.Min())
			}
			if _, err := busy.ReadUnits(make([]Unit, 1), 0); !errors.Is(err, ErrOutOfRange) {
				t.Errorf("read of what is gone: %v", err)
			}
			a.now.Add(91 * time.Hour.Milliseconds())
			a.fill(14)
			a.pass(5 * time.Hour)
			if idle.Min() != 3 || idle.Max() != 3 || idle.Next() != 3 {
				t.Errorf("the idle queue has [%d, %d), next %d", idle.Min(), idle.Max(), idle.Next())
			}
			lowest, highest := busy.Min(), busy.Max()
			if clean {
				closeTest(t, a.s, true)
			} else {
				a.fsys = a.fsys.Kill()
				a.s.abandon()
			}
			a.open()
			mustDispatch(t, a.s, a.s.Recovery().RedispatchFrom)
			busy, idle = a.s.Queue("T", 0), a.s.Queue("Idle", 3)
			if busy.Min() != lowest || busy.Max() != highest || idle.Min() != 3 || idle.Next() != 3 {
				t.Errorf("after the start: [%d, %d), were [%d, %d); idle [%d, %d)", busy.Min(), busy.Max(), lowest, highest, idle.Min(), idle.Next())
			}
			check(busy)
			at := a.s.Wrote()
			send(t, a.s, idle, "idle again")
			mustDispatch(t, a.s, at)
			if units := unitsOf(t, idle); idle.Min() != 3 || len(units) != 1 || bodyAt(t, a.s, units[0]) != "idle again" {
				t.Errorf("idle: [%d, %d)", idle.Min(), idle.Max())
			}
		})
	}
}

// Readers beside deletions: a read gives the right bytes or says that they are gone, and no descriptor of a deleted file
// is kept.
func TestReadersBesideDeletions(t *testing.T) {
	a := newAged(t)
	a.fill(30)
	q := a.s.Queue("T", 0)
	units := unitsOf(t, q)
	for range unmapGraceTicks + 2 {
		a.s.log.tick(0, 0) // preads and slices
	}
	stop, done := make(chan struct{}), make(chan error, 3)
	for seed := range uint64(3) {
		go func() {
			r := rand.New(rand.NewPCG(seed, 1))
			buf := make([]byte, 2000)
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				u := units[r.IntN(len(units))]
				n, err := a.s.ReadAt(buf[:u.Size], u.Phy)
				var v message.View
				if err == nil {
					err = message.ParseView(buf[:n], &v)
				}
				if err != nil && (!errors.Is(err, ErrOutOfRange) || u.Phy >= a.s.MinPhy()) {
					done <- fmt.Errorf("read at %d: %w", u.Phy, err)
					return
				}
			}
		}()
	}
	a.set.retention.batch = 1
	a.now.Add(88 * time.Hour.Milliseconds())
	for range 3 {
		a.pass(0)
	}
	close(stop)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	a.pass(0)
	a.s.log.cold.mu.Lock()
	for key := range a.s.log.cold.files {
		if key.queue == nil && key.start < int64(a.s.MinPhy()) {
			t.Errorf("the deleted file at %d is still open", key.start)
		}
	}
	a.s.log.cold.mu.Unlock()
}

// The goroutine runs by its interval, after a first delay.
func TestCleanerRunsByItself(t *testing.T) {
	a := newAged(t, func(s *settings) { s.retention.every = 5 * time.Millisecond })
	a.fill(4)
	deleted := make(chan struct{})
	a.s.OnTrim(func(message.PhyOffset, []Trim) { close(deleted) })
	a.now.Add(88 * time.Hour.Milliseconds())
	<-deleted
	a.expect("by itself", 3, 3)
}

// A log that lost all that retention had left goes on where it ended, and so do its queues, over any number of restarts.
func TestAnEmptyLogKeepsItsPlace(t *testing.T) {
	a := newAged(t, byWrites)
	a.fill(3)
	a.pass(73*time.Hour + 15*time.Hour) // 04:00
	a.expect("expired", 2, 2)
	q := a.s.Queue("T", 0)
	first, begin := q.Min(), a.s.MinPhy()
	for restart := range 3 {
		closeTest(t, a.s, true)
		if path := filepath.Join(a.set.logDir, fileName(2*testSegment)); restart == 0 {
			if err := errors.Join(setLength(a.fsys, path, 100), setLength(a.fsys, path, testSegment)); err != nil {
				t.Fatal(err)
			}
		}
		a.open()
		q = a.s.Queue("T", 0)
		if a.s.MinPhy() != begin || a.s.Wrote() != begin || q.Min() != first || q.Max() != first || q.Next() != first {
			t.Errorf("restart %d: the log is [%d, %d), the queue [%d, %d), next %d; the log began at %d, offsets to %d were given out",
				restart, a.s.MinPhy(), a.s.Wrote(), q.Min(), q.Max(), q.Next(), begin, first-1)
		}
	}
	if m := send(t, a.s, q, "new"); m.PhyOffset != begin || m.QueueOffset != first {
		t.Errorf("the next message lies at %d with offset %d", m.PhyOffset, m.QueueOffset)
	}
}
