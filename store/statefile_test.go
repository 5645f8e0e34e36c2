package store

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

func TestStateFileRoundTrip(t *testing.T) {
	want := &savedState{
		running: true, boot: "b", run: 7, minPhy: 1, end: 2, tail: 3, lastStore: 4, segmentBytes: 5, queueFileBytes: 6,
		checkpoint: checkpointFields{1, 2, 3, 4, 5, 6}, damagedCount: 9, damaged: []DamagedRange{{Phy: 8, Bytes: 9, Reason: "r"}},
		queues: []savedQueue{{topic: "%RETRY%订单", id: 3, firstFile: -1, next: 4}, {topic: "T", min: 1, max: 2, next: 3, last: Unit{5, 6, -7}}},
	}
	text := want.encode()
	got, err := decodeState(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range text {
		if _, err := decodeState(text[:i]); err == nil {
			t.Fatalf("the first %d bytes are taken for a state file", i)
		}
		spoilt := append([]byte(nil), text...)
		spoilt[i] ^= 0x40
		if _, err := decodeState(spoilt); err == nil {
			t.Fatalf("byte %d does not count", i)
		}
	}
}

func FuzzStateFile(f *testing.F) {
	f.Add((&savedState{queues: []savedQueue{{topic: "T"}}, damaged: []DamagedRange{{Reason: "x"}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, err := decodeState(b); err == nil && !reflect.DeepEqual(st.encode(), b) {
			t.Error("another file says the same")
		}
	})
}

// closedStore fills three queues over several files and closes cleanly.
func closedStore(t *testing.T) (*sysio.FaultFS, settings, map[place]message.PhyOffset) {
	t.Helper()
	fsys, set := sysio.NewFaultFS(), testSettings(memoryRoot)
	s := openTest(t, fsys, set)
	a, b, c := s.Queue("A", 0), s.Queue("B", 1), s.Queue("C", 2)
	send(t, s, c, "early and never again")
	for i := range 500 {
		send(t, s, a, strings.Repeat("a", 200))
		if i%3 == 0 {
			send(t, s, b, "b")
		}
	}
	m := send(t, s, b, "last")
	mustDispatch(t, s, 0)
	all := served(t, s)
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(m.StoreTimestamp, m.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	closeTest(t, s, true)
	return fsys, set, all
}

func removeAll(fsys *sysio.FaultFS, path string) error {
	entries, err := fsys.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := filepath.Join(path, e.Name)
		if e.Dir {
			err = removeAll(fsys, below)
		} else {
			err = fsys.Remove(below)
		}
		if err != nil {
			return err
		}
	}
	return fsys.Remove(path)
}

func TestCleanStartLooksAtNoRecord(t *testing.T) {
	fsys, set, all := closedStore(t)
	for range 2 {
		s := openTest(t, fsys, set)
		if r := s.Recovery(); !r.Clean || r.Checked != 0 || r.RedispatchFrom != r.End {
			t.Errorf("%+v", r)
		}
		if got := served(t, s); !reflect.DeepEqual(got, all) {
			t.Errorf("%d messages, want %d", len(got), len(all))
		}
		if c := s.Queue("C", 2); c.Next() != 1 {
			t.Errorf("next of C is %d", c.Next())
		}
		closeTest(t, s, true)
	}
}

// Whatever happens to the files between two runs: no message goes missing that the log has, none is shown twice, no offset is given
// out twice.
func TestChangesBetweenTwoRunsAreNoticed(t *testing.T) {
	set := testSettings(memoryRoot)
	queue := func(topic string, id string) string { return filepath.Join(set.queueDir, topic, id) }
	changes := map[string]func(fsys *sysio.FaultFS) error{
		"no state file":      func(fsys *sysio.FaultFS) error { return fsys.Remove(filepath.Join(set.root, stateName)) },
		"damaged state file": func(fsys *sysio.FaultFS) error { return setLength(fsys, filepath.Join(set.root, stateName), 100) },
		"no checkpoint":      func(fsys *sysio.FaultFS) error { return fsys.Remove(filepath.Join(set.root, checkpointName)) },
		"no queue folder":    func(fsys *sysio.FaultFS) error { return removeAll(fsys, queue("C", "2")) },
		"no queues":          func(fsys *sysio.FaultFS) error { return removeAll(fsys, set.queueDir) },
		"no newest file": func(fsys *sysio.FaultFS) error {
			return fsys.Remove(dataPath(queue("A", "0"), 2*testQueueFile))
		},
		"no oldest file": func(fsys *sysio.FaultFS) error { return fsys.Remove(dataPath(queue("A", "0"), 0)) },
		"zeroed tail": func(fsys *sysio.FaultFS) error {
			writeRaw(t, fsys, dataPath(queue("A", "0"), 2*testQueueFile), 90*unitBytes, make([]byte, 10*unitBytes))
			return nil
		},
		"one more entry": func(fsys *sysio.FaultFS) error {
			var unit [unitBytes]byte
			encodeUnit(unit[:], Unit{Phy: 0, Size: 100})
			writeRaw(t, fsys, dataPath(queue("C", "2"), 0), unitBytes, unit[:])
			return nil
		},
		"abort file": func(fsys *sysio.FaultFS) error {
			return writeWhole(fsys, filepath.Join(set.root, abortName), "1")
		},
		"killed, and then the original was, with the same process id": func(fsys *sysio.FaultFS) error {
			openTest(t, fsys, set).abandon()
			return diedOn(t, fsys, strconv.Itoa(os.Getpid()))
		},
		"killed, and then an original was that leaves the abort file alone": func(fsys *sysio.FaultFS) error {
			s := openTest(t, fsys, set)
			s.abandon()
			text, err := sysio.ReadFile(fsys, filepath.Join(set.root, abortName))
			return errors.Join(err, diedOn(t, fsys, string(text)))
		},
		"killed, and the lock file is gone": func(fsys *sysio.FaultFS) error {
			openTest(t, fsys, set).abandon()
			return errors.Join(diedOn(t, fsys, "1"), fsys.Remove(filepath.Join(set.root, lockName)))
		},
		"garbage behind the end": func(fsys *sysio.FaultFS) error {
			s := openTest(t, fsys, set)
			end := s.Wrote()
			closeTest(t, s, true)
			writeRaw(t, fsys, dataPath(set.logDir, int64(end-end%testSegment)), int64(end%testSegment), []byte("garbage"))
			return nil
		},
		"closed by another broker after a crash of this one": func(fsys *sysio.FaultFS) error {
			s := openTest(t, fsys, set)
			s.abandon()
			writeRaw(t, fsys, dataPath(queue("A", "0"), 2*testQueueFile), 90*unitBytes, make([]byte, 10*unitBytes))
			return fsys.Remove(filepath.Join(set.root, abortName))
		},
		"killed, and a queue that slept is gone": func(fsys *sysio.FaultFS) error {
			openTest(t, fsys, set).abandon()
			return removeAll(fsys, queue("C", "2"))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			fsys, set, all := closedStore(t)
			if err := change(fsys); err != nil {
				t.Fatal(err)
			}
			s := openTest(t, fsys, set)
			mustDispatch(t, s, s.Recovery().RedispatchFrom)
			if got := served(t, s); !reflect.DeepEqual(got, all) {
				t.Errorf("%d messages, want %d", len(got), len(all))
			}
			closeTest(t, s, true)
			offsetsGoOn(t, fsys, set, all, nil)
		})
	}
}

// diedOn leaves what every original leaves that runs on a directory and is killed (DefaultMessageStore.start writes over the lock
// file in place), and a queue that is not as it was.
func diedOn(t *testing.T, fsys *sysio.FaultFS, abort string) error {
	t.Helper()
	set := testSettings(memoryRoot)
	writeRaw(t, fsys, filepath.Join(set.root, lockName), 0, []byte("lock"))
	foreign, err := sysio.ReadFile(fsys, dataPath(filepath.Join(set.queueDir, "C", "2"), 0))
	if err != nil {
		return err
	}
	writeRaw(t, fsys, dataPath(filepath.Join(set.queueDir, "A", "0"), 0), 20*unitBytes, foreign[:unitBytes])
	return writeWhole(fsys, filepath.Join(set.root, abortName), abort)
}

// A start that was cut off in its recovery leaves the directory known as this broker's: the next one does the same, not more.
func TestCutOffStartIsStillKnown(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings(memoryRoot)
	s := openTest(t, fsys, set)
	var last Message
	for s.Wrote() < 3*testSegment {
		last = send(t, s, s.Queue("T", 0), "x")
	}
	mustDispatch(t, s, 0)
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	run := s.run
	s.abandon()
	fsys.Inject(sysio.Fault{Op: sysio.OpRead, Path: dataPath(set.logDir, int64(last.PhyOffset-last.PhyOffset%testSegment)), Err: syscall.EIO, Times: 1})
	if _, err := open(fsys, set, quietLogger(), nowMillis, nil); err == nil {
		t.Fatal("the start was not cut off")
	}
	s = openTest(t, fsys, set)
	defer s.Close(true)
	if r := s.Recovery(); r.Checked != 1 || s.run != run {
		t.Errorf("%d records checked, run %d, was %d", r.Checked, s.run, run)
	}
}

// A sync that failed leaves pages that the kernel takes for clean. What a killed process wrote is trusted, and written once more.
func TestEntriesTrustedAfterAKillBecomeDurable(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	first := send(t, s, q, "x")
	mustDispatch(t, s, 0)
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(first.StoreTimestamp, first.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	for range 250 {
		send(t, s, q, "x")
	}
	mustDispatch(t, s, 0)
	fsys.Inject(sysio.Fault{Op: sysio.OpDatasync, Path: "/s/consumequeue/T/0/" + fileName(0), Err: syscall.EIO, Times: 1})
	if err := s.FlushQueues(0); err == nil {
		t.Fatal("the sync did not fail")
	}
	killed := fsys.Kill()
	s.abandon()

	s = openTest(t, killed, set)
	r := s.Recovery()
	if r.RedispatchFrom != r.End || r.Checked != 251 || s.Queue("T", 0).Max() != 251 {
		t.Errorf("%+v", r)
	}
	m := send(t, s, s.Queue("T", 0), "y")
	mustDispatch(t, s, r.RedispatchFrom)
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(m.StoreTimestamp, m.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	off := killed.PowerCut(nil)
	s.abandon()
	s = openTest(t, off, set)
	defer s.Close(false)
	if r := s.Recovery(); r.Clean {
		t.Error("clean")
	}
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	if got := served(t, s); len(got) != 252 {
		t.Errorf("%d messages", len(got))
	}
}

// A machine that goes down between the state file and the end of the abort file was closed cleanly.
func TestStopThatLeftTheAbortFileIsClean(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	send(t, s, s.Queue("T", 0), "x")
	mustDispatch(t, s, 0)
	fsys.Inject(sysio.Fault{Op: sysio.OpRemove, Path: "/s/abort", Err: syscall.EIO})
	if err := s.Close(true); err == nil {
		t.Fatal("the abort file is gone")
	}
	off := fsys.PowerCut(nil)
	for range 2 { // and so is a start that got no further than its abort file
		s = openTest(t, off, set)
		if r := s.Recovery(); !r.Clean || r.Checked != 0 || s.Queue("T", 0).Max() != 1 {
			t.Errorf("%+v", r)
		}
		s.abandon()
		off = fsys.PowerCut(nil)
	}
}

// Without room for the state file everything works, and the next start looks at the log.
func TestStateFileThatCannotBeWritten(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	fsys.Inject(sysio.Fault{Op: sysio.OpRename, Path: "/s/" + stateName, Err: syscall.ENOSPC})
	s := openTest(t, fsys, set)
	send(t, s, s.Queue("T", 0), "x")
	mustDispatch(t, s, 0)
	closeTest(t, s, true)
	if _, err := fsys.Stat("/s/" + stateName); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a state file: %v", err)
	}
	s = openTest(t, fsys.Kill(), set)
	defer s.Close(true)
	if r := s.Recovery(); !r.Clean || r.Checked != 1 || s.Queue("T", 0).Max() != 1 {
		t.Errorf("%+v", r)
	}
}

// How much of the log a start reads does not depend on how much there is (case S09): after a clean stop next to nothing, after a
// kill what follows the checkpoint.
func TestStartsDoNotReadTheLog(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings(memoryRoot)
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	var last Message
	for s.Wrote() < 40*testSegment {
		last = send(t, s, q, strings.Repeat("x", 4000))
	}
	mustDispatch(t, s, 0)
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	killed, end := fsys.Kill(), dataPath(set.logDir, int64(s.Wrote())) // what lies behind was made ahead
	closeTest(t, s, true)
	for name, disk := range map[string]*sysio.FaultFS{"clean": fsys, "killed": killed} {
		var read atomic.Int64
		disk.Observe(func(e sysio.Event) {
			if e.Op == sysio.OpRead && e.Done && strings.HasPrefix(e.Path, set.logDir) && e.Path < end {
				read.Add(e.N)
			}
		})
		s := openTest(t, disk, set)
		disk.Observe(nil)
		if limit := int64(3 * testSegment); read.Load() > limit {
			t.Errorf("%s: %d bytes of the log were read", name, read.Load())
		}
		if r := s.Recovery(); r.Checked > 1 || r.RedispatchFrom != r.End {
			t.Errorf("%s: %+v", name, r)
		}
		s.abandon()
	}
}

// A log that ended where a file ends, behind the mark that says so, and lost what was in front of that mark.
func TestATailLostInFrontOfAnEndMarkIsNoticed(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", byWrites)
	s := openTest(t, fsys, set)
	sendAll(t, s, "T", "m", 3, true)
	second := unitsOf(t, s.Queue("T", 0))[1]
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: fileName(testSegment), Times: 1}) // the record behind the mark
	batch := []Message{newMessage(s.Queue("T", 0), strings.Repeat("x", testSegment-300))}
	if s.Append(batch); batch[0].Err == nil || s.Wrote() != testSegment {
		t.Fatalf("append: %v, the log ends at %d", batch[0].Err, s.Wrote())
	}
	closeTest(t, s, true)
	path := filepath.Join(set.logDir, fileName(0))
	if err := errors.Join(setLength(fsys, path, int64(second.Phy)), setLength(fsys, path, testSegment)); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, fsys, set)
	defer closeTest(t, s, true)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	if r := s.Recovery(); r.End != second.Phy || r.UnitsCut != 2 {
		t.Errorf("%+v", r)
	}
	expectBodies(t, s, "T", "m0")
}
