package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// writeRaw changes bytes of a file behind the store's back.
func writeRaw(t testing.TB, fsys sysio.FS, path string, off int64, b []byte) {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// The last record is cut at each of its bytes: the start succeeds, the log ends before it, its queue offset is given out again.
func TestTornTailAtEveryByte(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", func(s *settings) { s.segmentBytes = 4096 }) // every round copies the file system
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	send(t, s, q, "one")
	last := send(t, s, q, strings.Repeat("x", 150))
	mustDispatch(t, s, 0)
	image := fsys.Kill()
	s.abandon()
	record := make([]byte, last.Size())
	f, err := image.OpenFile("/s/commitlog/"+fileName(0), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(record, int64(last.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, clean := range []bool{false, true} {
		for keep := range len(record) {
			if clean && keep%7 != 0 {
				continue // the same cut; the crash start has seen every byte
			}
			torn := image.Kill()
			writeRaw(t, torn, "/s/commitlog/"+fileName(0), int64(last.PhyOffset)+int64(keep), make([]byte, len(record)-keep))
			if clean {
				if err := torn.Remove("/s/abort"); err != nil {
					t.Fatal(err)
				}
			}
			s := openTest(t, torn, set)
			r := s.Recovery()
			mustDispatch(t, s, r.RedispatchFrom)
			q := s.Queue("T", 0)
			if r.End != last.PhyOffset || q.Max() != 1 || q.Next() != 1 || r.UnitsCut != 1 || r.Clean != clean {
				t.Fatalf("%d bytes kept: end %d, max %d, next %d, %d units cut, clean %v", keep, r.End, q.Max(), q.Next(), r.UnitsCut, r.Clean)
			}
			if left := strings.TrimRight(string(record[:keep]), "\x00"); (r.Cut > 0) != (left != "") {
				t.Fatalf("%d bytes kept: reported %d as cut", keep, r.Cut)
			}
			if m := send(t, s, q, "next"); m.PhyOffset != last.PhyOffset || m.QueueOffset != 1 {
				t.Fatalf("%d bytes kept: the next record is at %d with offset %d", keep, m.PhyOffset, m.QueueOffset)
			}
			s.abandon()
		}
	}
}

// Bytes behind the end never come to life, also when new records end exactly where an old one begins.
func TestStaleRecordsStayDead(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	var sent []Message
	for range 5 {
		sent = append(sent, send(t, s, q, "same length"))
	}
	next := fsys.Kill()
	s.abandon()
	// The second record is lost with its header: the three behind it are complete and say that they are where they are.
	writeRaw(t, next, "/s/commitlog/"+fileName(0), int64(sent[1].PhyOffset), make([]byte, sent[1].Size()))
	s = openTest(t, next, set)
	if s.Wrote() != sent[1].PhyOffset {
		t.Fatalf("the log ends at %d", s.Wrote())
	}
	q = s.Queue("T", 0)
	mustDispatch(t, s, 0)
	m := send(t, s, q, "SAME LENGTH")
	if m.QueueOffset != 1 {
		t.Errorf("offset %d", m.QueueOffset)
	}
	end := s.Wrote()
	again := next.Kill()
	s.abandon()
	s = openTest(t, again, set)
	defer s.Close(false)
	if s.Wrote() != end {
		t.Errorf("the log ends at %d after another crash, it ended at %d", s.Wrote(), end)
	}
}

// A damaged body in the middle costs that message alone, and no offset shifts.
func TestDamageInTheMiddleCostsOneMessage(t *testing.T) {
	for _, dispatched := range []bool{false, true} {
		fsys := sysio.NewFaultFS()
		set := testSettings("/s")
		s := openTest(t, fsys, set)
		q := s.Queue("T", 0)
		var sent []Message
		for i := range 400 {
			sent = append(sent, send(t, s, q, strings.Repeat("x", 300)+strconv.Itoa(i)))
		}
		if dispatched {
			mustDispatch(t, s, 0)
		}
		next := fsys.Kill()
		s.abandon()
		const victim = 33
		writeRaw(t, next, "/s/commitlog/"+fileName(0), int64(sent[victim].PhyOffset)+100, []byte("DAMAGE"))
		s = openTest(t, next, set)
		r := s.Recovery()
		mustDispatch(t, s, r.RedispatchFrom)
		q = s.Queue("T", 0)
		if r.DamagedCount != 1 || r.Damaged[0].Phy != sent[victim].PhyOffset || r.Cut != 0 {
			t.Errorf("report %+v", r)
		}
		units := unitsOf(t, q)
		if len(units) != len(sent) {
			t.Fatalf("%d units", len(units))
		}
		for i, u := range units {
			if i == victim {
				if !u.IsPreBlank() {
					t.Errorf("the damaged record is shown: %+v", u)
				}
				continue
			}
			if u.Phy != sent[i].PhyOffset {
				t.Errorf("offset %d names %d, want %d", i, u.Phy, sent[i].PhyOffset)
			}
			bodyAt(t, s, u)
		}
		closeTest(t, s, true)
	}
}

// A damaged header costs its record when a queue names the next one, else the rest of its file; the files behind it stay.
func TestDamagedHeaderIsSteppedOver(t *testing.T) {
	for _, dispatched := range []bool{true, false} {
		fsys := sysio.NewFaultFS()
		set := testSettings("/s")
		s := openTest(t, fsys, set)
		q := s.Queue("T", 0)
		var size int32
		for s.Wrote() < 3*testSegment {
			m := send(t, s, q, strings.Repeat("x", 1000))
			size = int32(m.Size())
		}
		if dispatched {
			mustDispatch(t, s, 0)
		}
		end, next := s.Wrote(), q.Next()
		killed := fsys.Kill()
		s.abandon()
		writeRaw(t, killed, "/s/commitlog/"+fileName(testSegment), 0, []byte("garbage!"))
		s = openTest(t, killed, set)
		r := s.Recovery()
		if s.Wrote() != end || r.DamagedCount != 1 {
			t.Errorf("end %d, was %d; %d damaged", s.Wrote(), end, r.DamagedCount)
		}
		lost := int64(size)
		if !dispatched {
			lost = testSegment
		}
		if d := r.Damaged[0]; d.Phy != testSegment || d.Bytes != lost {
			t.Errorf("damaged: %+v, want %d bytes", d, lost)
		}
		from := message.PhyOffset(0)
		if dispatched {
			from = r.Damaged[0].Phy + message.PhyOffset(r.Damaged[0].Bytes)
		}
		mustDispatch(t, s, from)
		if q := s.Queue("T", 0); q.Max() != next || q.Next() != next {
			t.Errorf("max %d, next %d, was %d", q.Max(), q.Next(), next)
		} else if blank := countPreBlank(unitsOf(t, q)); blank != int(lost)/int(size) {
			t.Errorf("%d places are kept", blank)
		}
		closeTest(t, s, true)
		s = openTest(t, killed, set)
		if again := s.Recovery(); !again.Clean || again.DamagedCount != 1 || again.Damaged[0] != r.Damaged[0] {
			t.Errorf("after a clean stop: %+v", again)
		}
		s.abandon()
	}
}

func countPreBlank(units []Unit) (n int) {
	for _, u := range units {
		if u.IsPreBlank() {
			n++
		}
	}
	return n
}

// A folder that was deleted by hand is made anew after a crash, whatever the checkpoint says.
func TestLostQueueFolderComesBack(t *testing.T) {
	root := t.TempDir()
	set := testSettings(root)
	s := openTest(t, sysio.OS{}, set)
	q, p := s.Queue("T", 0), s.Queue("U", 0)
	var last Message
	for s.Wrote() < 4*testSegment {
		last = send(t, s, q, strings.Repeat("x", 1000))
		send(t, s, p, "y")
	}
	mustDispatch(t, s, 0)
	want := q.Max()
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	s.abandon()
	if err := os.RemoveAll(filepath.Join(root, queueDirName, "T")); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, sysio.OS{}, set)
	defer s.Close(false)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	if q := s.Queue("T", 0); q.Max() != want || q.Min() != 0 || q.Next() != want {
		t.Errorf("min %d, max %d, next %d; want 0, %d", q.Min(), q.Max(), q.Next(), want)
	}
}

// The checkpoint bounds the scan after a crash to its file and what follows.
func TestCheckpointBoundsTheScan(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	var last Message
	for s.Wrote() < 5*testSegment+1000 {
		last = send(t, s, q, strings.Repeat("x", 1000))
	}
	mustDispatch(t, s, 0)
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	newest := last
	for s.Wrote() < 6*testSegment+1000 {
		newest = send(t, s, q, strings.Repeat("x", 1000))
	}
	end := s.Wrote()
	off := fsys.PowerCut(nil)
	next := fsys.Kill()
	s.abandon()
	s = openTest(t, next, set)
	if r := s.Recovery(); r.Clean || r.From != last.PhyOffset || r.End != end || r.RedispatchFrom != last.PhyOffset+message.PhyOffset(last.Size()) {
		t.Errorf("report %+v", r)
	}
	if q := s.Queue("T", 0); q.Next() != newest.QueueOffset+1 {
		t.Errorf("next %d before dispatch, want %d", q.Next(), newest.QueueOffset+1)
	}
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	closeTest(t, s, true)
	s = openTest(t, next, set)
	if r := s.Recovery(); !r.Clean || r.Checked != 0 || r.From != end || r.End != end {
		t.Errorf("after a clean stop: %+v", r)
	}
	s.abandon()
	s = openTest(t, off, set)
	defer s.Close(false)
	if r := s.Recovery(); r.Clean || r.From != 5*testSegment || r.RedispatchFrom != r.From {
		t.Errorf("after a power cut: %+v", r)
	}
}

// In SYNC_FLUSH a start after a crash writes and syncs what follows the durable mark before anything is visible.
func TestCrashStartRewritesWhatMayNotBeDurable(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", syncFlush)
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	send(t, s, q, "a")
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	send(t, s, q, "b")
	// The disk reports an error once and the kernel takes the page for clean.
	fsys.Inject(sysio.Fault{Op: sysio.OpSyncRange, Times: 1})
	if _, err := s.CommitLog().Sync(s.Wrote()); err == nil {
		t.Fatal("the sync did not fail")
	}
	end := s.Wrote()
	next := fsys.Kill()
	s.abandon()
	s = openTest(t, next, set)
	if s.Confirmed() != end || s.Recovery().Rewritten != int64(end) {
		t.Errorf("confirmed %d, rewritten %d, the log has %d", s.Confirmed(), s.Recovery().Rewritten, end)
	}
	boot := next.PowerCut(nil)
	s.abandon()
	s = openTest(t, boot, set)
	defer s.Close(false)
	if s.Wrote() != end {
		t.Errorf("after a power cut the log ends at %d: what was visible at %d is gone", s.Wrote(), end)
	}
}

// Odd queue files do not stop the start, and the offset goes on from what the log says (case S10).
func TestOddQueueFilesAreMended(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string) error
		file  string // that a warning names; "": none is needed, the queue is made from the log
	}{
		"empty folder": {func(dir string) error { return os.Remove(filepath.Join(dir, fileName(0))) }, ""},
		"empty file":   {func(dir string) error { return os.Truncate(filepath.Join(dir, fileName(0)), 0) }, fileName(0)},
		"seven bytes":  {func(dir string) error { return os.Truncate(filepath.Join(dir, fileName(0)), 7) }, fileName(0)},
		"foreign name": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "core.123"), []byte("x"), 0o644) }, "core.123"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			set := testSettings(root)
			s := openTest(t, sysio.OS{}, set)
			q := s.Queue("T", 0)
			for range 20 {
				send(t, s, q, "x")
			}
			mustDispatch(t, s, 0)
			s.abandon()
			if err := c.spoil(q.dir()); err != nil {
				t.Fatal(err)
			}
			var lines strings.Builder
			s = openLogged(t, sysio.OS{}, set, &lines)
			defer s.Close(true)
			if warned := strings.Contains(lines.String(), "level=WARN"); c.file != "" && !(warned && strings.Contains(lines.String(), filepath.Join(q.dir(), c.file))) {
				t.Errorf("no warning names %s:\n%s", c.file, lines.String())
			}
			mustDispatch(t, s, s.Recovery().RedispatchFrom)
			if q := s.Queue("T", 0); q.Min() != 0 || q.Max() != 20 || q.Next() != 20 {
				t.Errorf("min %d, max %d, next %d", q.Min(), q.Max(), q.Next())
			}
		})
	}
}

// Entries that all point before the first file of the log: min = max = the next offset.
func TestExpiredQueueKeepsItsOffsets(t *testing.T) {
	root := t.TempDir()
	set := testSettings(root)
	s := openTest(t, sysio.OS{}, set)
	old, q := s.Queue("Old", 0), s.Queue("T", 0)
	for range 7 {
		send(t, s, old, "x")
	}
	for s.Wrote() < 2*testSegment {
		send(t, s, q, strings.Repeat("x", 1000))
	}
	mustDispatch(t, s, 0)
	closeTest(t, s, true)
	if err := os.Remove(filepath.Join(set.logDir, fileName(0))); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, sysio.OS{}, set)
	defer s.Close(true)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	if old := s.Queue("Old", 0); old.Min() != 7 || old.Max() != 7 || old.Next() != 7 {
		t.Errorf("min %d, max %d, next %d", old.Min(), old.Max(), old.Next())
	}
	q = s.Queue("T", 0)
	var one [1]Unit
	if _, err := q.ReadUnits(one[:], q.Min()); err != nil || one[0].Phy != testSegment {
		t.Errorf("the first readable entry is %+v, %v", one[0], err)
	}
	if _, err := q.ReadUnits(one[:], q.Min()-1); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("an entry before min: %v", err)
	}
}

func TestCleanStopLeavesNoSpareFiles(t *testing.T) {
	root := t.TempDir()
	set := testSettings(root)
	s := openTest(t, sysio.OS{}, set)
	m := send(t, s, s.Queue("T", 0), "x")
	mustDispatch(t, s, 0)
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(m.StoreTimestamp, m.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	closeTest(t, s, true)
	entries, err := os.ReadDir(set.logDir)
	if err != nil || len(entries) != 1 || entries[0].Name() != fileName(0) {
		t.Errorf("commitlog holds %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(root, abortName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("abort: %v", err)
	}
	cp, err := readCheckpoint(sysio.OS{}, filepath.Join(root, checkpointName))
	if err != nil || cp.PhysicMsgTimestamp != m.StoreTimestamp || cp.LogicsMsgTimestamp != m.StoreTimestamp || cp.LogicsPhysicalOffset != 0 {
		t.Errorf("checkpoint %+v, %v", cp, err)
	}
	if info, err := os.Stat(filepath.Join(root, checkpointName)); err != nil || info.Size() != checkpointBytes {
		t.Errorf("checkpoint file: %v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(root, lockName)); err != nil || string(text) != lockText(s.run) {
		t.Errorf("lock file: %q, %v", text, err)
	}
}

// A checkpoint behind the end of a log that lost its tail does not count for what is appended there.
func TestACheckpointIsCutWithTheLog(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	sendAll(t, s, "T", "m", 4, true)
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	third := unitsOf(t, s.Queue("T", 0))[2]
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(s.LastStoreTime(), third.Phy)); err != nil {
		t.Fatal(err)
	}
	killed := func() {
		next := fsys.Kill()
		s.abandon()
		fsys = next
	}
	path := filepath.Join(set.logDir, fileName(0))
	for _, end := range []message.PhyOffset{third.Phy, third.Phy - 100} { // at it, and in front of it
		killed()
		if err := errors.Join(setLength(fsys, path, int64(end)), setLength(fsys, path, testSegment)); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, fsys, set)
		mustDispatch(t, s, s.Recovery().RedispatchFrom)
	}
	// The second one lies where the checkpoint's did.
	sendAll(t, s, "U", "n", 1, false)
	sendAll(t, s, "V", "n", 2, false)
	killed()
	s = openTest(t, fsys, set)
	defer closeTest(t, s, true)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	expectBodies(t, s, "T", "m0")
	expectBodies(t, s, "U", "n0")
	expectBodies(t, s, "V", "n0", "n1")
}
