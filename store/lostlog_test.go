package store

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// A log that is not there, under queues or an index that name its records, is refused before anything is written: a wrong mount would
// otherwise cost all queue offsets.
func TestALostLogIsRefusedUntouched(t *testing.T) {
	gone := func(set *settings) error { return os.RemoveAll(set.logDir) }
	empty := func(set *settings) error { return errors.Join(gone(set), os.Mkdir(set.logDir, 0o755)) }
	blank := func(set *settings) error {
		return errors.Join(empty(set), put(filepath.Join(set.logDir, fileName(0)), testSegment), put(filepath.Join(set.logDir, fileName(testSegment)), 0))
	}
	elsewhere := func(set *settings) error { set.logDir = filepath.Join(set.root, "elsewhere"); return nil }
	for name, c := range map[string]struct {
		spoil func(set *settings) error
		says  string
	}{
		"no folder":       {gone, "no file of the log"},
		"an empty folder": {empty, "no file of the log"},
		"blank files":     {blank, "hold nothing"},
		"another place":   {elsewhere, "no file of the log"},
		"a crash":         {func(set *settings) error { return errors.Join(empty(set), put(filepath.Join(set.root, abortName), 1)) }, "no file of the log"},
		"blank, a crash":  {func(set *settings) error { return errors.Join(blank(set), put(filepath.Join(set.root, abortName), 1)) }, "hold nothing"},
		"without state": {func(set *settings) error {
			return errors.Join(empty(set), os.Remove(filepath.Join(set.root, stateName)))
		}, "no file of the log"},
		"without a queue":  {func(set *settings) error { return errors.Join(empty(set), os.RemoveAll(set.queueDir)) }, "index/2"},
		"blank, no queues": {func(set *settings) error { return errors.Join(blank(set), os.RemoveAll(set.queueDir)) }, "index/2"},
	} {
		t.Run(name, func(t *testing.T) {
			root := unpack(t, "clean-5.5.0", t.TempDir())
			set := testSettings(root, withIndex(200, 1000))
			s := openTest(t, sysio.OS{}, set)
			mustDispatch(t, s, s.Recovery().RedispatchFrom)
			follow(t, s, 0)
			closeTest(t, s, true)
			if err := c.spoil(&set); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, root)
			s, err := open(sysio.OS{}, set, quietLogger(), nowMillis, nil)
			if err == nil {
				s.Close(false)
				t.Fatal("it was opened")
			}
			for _, part := range []string{set.logDir, c.says, "mount", "to start empty, move " + set.queueDir + " and " + set.indexDir} {
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), part) {
					t.Errorf("%v: does not say %q", err, part)
				}
			}
			if after := snapshot(t, root); !maps.Equal(before, after) {
				t.Error("files changed")
			}
			// The advice works.
			if err := errors.Join(os.RemoveAll(set.queueDir), os.RemoveAll(set.indexDir)); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, sysio.OS{}, set)
			if m := send(t, s, s.Queue("FixA", 0), "again"); m.PhyOffset != 0 || m.QueueOffset != 0 {
				t.Errorf("the first message of an empty store is at %d, offset %d", m.PhyOffset, m.QueueOffset)
			}
			closeTest(t, s, false)
		})
	}
}

// What a power cut leaves of a store that never synced anything can be a queue entry without its record. The start goes on, says so, and
// leaves a log that the next one can start on, wherever it was cut off.
func TestABlankLogAfterTheFirstPowerCutIsCut(t *testing.T) {
	for _, start := range []int64{0, 3 * testSegment} {
		fsys := sysio.NewFaultFS()
		set := testSettings("/s")
		unit := make([]byte, testQueueFile)
		encodeUnit(unit, Unit{Phy: 3 * testSegment, Size: 200})
		for path, content := range map[string]string{
			dataPath(set.logDir, start):                          string(make([]byte, testSegment)),
			dataPath(set.logDir, start+testSegment):              "",
			filepath.Join(set.queueDir, "T", "0", fileName(0)):   string(unit),
			filepath.Join(set.root, abortName):                   "1",
			filepath.Join(set.queueDir, "T", "1", fileName(0)):   string(make([]byte, testQueueFile)),
			filepath.Join(set.root, checkpointName):              string(make([]byte, checkpointBytes)),
			filepath.Join(set.root, "config", "topics.json.bak"): "{}",
		} {
			if err := errors.Join(fsys.MkdirAll(filepath.Dir(path), 0o755), writeWhole(fsys, path, content)); err != nil {
				t.Fatal(err)
			}
			for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
				if err := fsys.SyncDir(dir); err != nil {
					t.Fatal(err)
				}
				if dir == "/" {
					break
				}
			}
		}
		var lines bytes.Buffer
		s := openLogged(t, fsys.Kill(), set, &lines)
		closeTest(t, s, true)
		if !strings.Contains(lines.String(), "the log ends before records that queues name") {
			t.Errorf("not said:\n%s", lines.String())
		}
		failed := 0
		for ops := range 20 {
			disk := fsys.Kill()
			disk.Inject(sysio.Fault{Op: sysio.OpRemove | sysio.OpTruncate | sysio.OpRename | sysio.OpAllocate | sysio.OpContentSync, After: ops})
			if s, err := open(disk, set, quietLogger(), nowMillis, nil); err == nil {
				s.abandon()
			} else {
				failed++
			}
			for _, left := range []*sysio.FaultFS{disk.Kill(), disk.PowerCut(nil)} {
				s := openTest(t, left, set)
				if got := s.Wrote(); int64(got) != start {
					t.Errorf("cut at operation %d: the log goes on at %d, it began at %d", ops, got, start)
				}
				closeTest(t, s, true)
			}
		}
		if failed < 3 {
			t.Errorf("%d starts were cut off", failed)
		}
	}
}

// Queues that name only what lies in front of a log without a record: retention took it.
func TestABlankLogBehindDeletedRecordsIsTaken(t *testing.T) {
	root := t.TempDir()
	set := filled(t, root)
	for _, start := range []int64{0, testSegment, 2 * testSegment} {
		if err := os.Remove(dataPath(set.logDir, start)); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(dataPath(set.logDir, 3*testSegment), testSegment); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, sysio.OS{}, set)
	defer s.Close(true)
	q := s.Queue("T", 0)
	if m := send(t, s, q, "on"); m.QueueOffset != q.Max() || q.Max() == 0 || m.PhyOffset != 3*testSegment {
		t.Errorf("the next message is at %d, offset %d of %d", m.PhyOffset, m.QueueOffset, q.Max())
	}
}

// otherBoot is the file system after the machine was started again.
type otherBoot struct{ sysio.OS }

func (otherBoot) BootID() (string, error) { return "another", nil }

// After a crash an empty file of the log in front of others that hold something may be the work of a power cut: only when the machine was
// started since, and only behind what the checkpoint knows to be durable. Else somebody emptied it. An empty file at the end was being made.
func TestAnEmptyLogFileAfterACrash(t *testing.T) {
	const emptied = 2 * testSegment
	empty := func(set *settings) error { return os.Truncate(dataPath(set.logDir, emptied), 0) }
	knows := func(phy message.PhyOffset) func(set *settings) error {
		return func(set *settings) error {
			var b [checkpointBytes]byte
			(&checkpointFields{PhysicMsgTimestamp: 1, LogicsMsgTimestamp: 1, LogicsPhysicalOffset: phy}).encode(b[:])
			return errors.Join(empty(set), os.WriteFile(filepath.Join(set.root, checkpointName), b[:], 0o644))
		}
	}
	atEnd := func(set *settings) error { return put(dataPath(set.logDir, 5*testSegment), 0) }
	blank := func(set *settings) (err error) {
		for start := int64(0); start < 5*testSegment; start += testSegment {
			err = errors.Join(err, os.Truncate(dataPath(set.logDir, start), 0), os.Truncate(dataPath(set.logDir, start), testSegment))
		}
		return err
	}
	for name, c := range map[string]struct {
		spoil               func(set *settings) error
		thisBoot, otherBoot string // what the refusal says, "" when the directory is opened
		lost                bool   // the file's records, when it is opened
		lostAll             bool
	}{
		"behind the checkpoint":      {empty, fileName(emptied), "", true, false},
		"at the checkpoint":          {knows(emptied), fileName(emptied), "", true, false},
		"in front of the checkpoint": {knows(emptied + 1), fileName(emptied), fileName(emptied), false, false},
		"the last one":               {atEnd, "", "", false, false},
		"all, without a checkpoint":  {blank, "hold nothing", "", false, true},
	} {
		for _, boot := range []struct {
			fsys sysio.FS
			says string
		}{{sysio.OS{}, c.thisBoot}, {otherBoot{}, c.otherBoot}} {
			t.Run(name, func(t *testing.T) {
				root := t.TempDir()
				set := testSettings(root)
				s := openTest(t, sysio.OS{}, set)
				for s.Wrote() < 4*testSegment+testSegment/2 {
					send(t, s, s.Queue("T", 0), strings.Repeat("x", 1000))
				}
				awaitAllocator(s)
				mustDispatch(t, s, 0)
				want := served(t, s)
				s.abandon()
				for start := int64(5 * testSegment); os.Remove(dataPath(set.logDir, start)) == nil; start += testSegment {
					continue // files made ahead
				}
				if err := c.spoil(&set); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, root)
				s, err := open(boot.fsys, set, quietLogger(), nowMillis, nil)
				if boot.says != "" {
					if err == nil {
						s.Close(false)
						t.Fatal("it was opened")
					}
					if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), boot.says) {
						t.Errorf("%v: does not say %q", err, boot.says)
					}
					if !maps.Equal(before, snapshot(t, root)) {
						t.Error("files changed")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				maps.DeleteFunc(want, func(_ place, phy message.PhyOffset) bool {
					return c.lostAll || c.lost && phy >= emptied && phy < emptied+testSegment
				})
				if got := served(t, s); !maps.Equal(got, want) {
					t.Errorf("%d records are served, want %d", len(got), len(want))
				}
				if r := s.Recovery(); c.lost != (r.DamagedCount == 1 && r.Damaged[0].Phy <= emptied) {
					t.Errorf("damaged places: %v", r.Damaged)
				}
				closeTest(t, s, true)
			})
		}
	}
}
