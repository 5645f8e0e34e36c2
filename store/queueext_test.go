package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

func withExt(s *settings) { s.extWrite = true }

// asTheFixture has the sizes that ext-5.5.0 was made with.
func asTheFixture(s *settings) { s.segmentBytes, s.extFileBytes = 1<<20, 1024 }

// dispatchedUnits are the units of a part of the log, which belongs to one queue.
func dispatchedUnits(t *testing.T, s *Store, from message.PhyOffset) (units []Unit) {
	t.Helper()
	buf := make([]byte, s.SegmentBytes())
	for from < s.Confirmed() {
		n, err := s.ReadAt(buf, from)
		var v message.View
		if err == nil {
			err = message.ParseView(buf[:n], &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		units = append(units, Unit{from, v.Size, v.TagsCode()})
		from += message.PhyOffset(v.Size)
	}
	return units
}

// checkTags demands that the files of a queue give every record's tags code.
func checkTags(t *testing.T, s *Store, q *Queue) {
	t.Helper()
	var v message.View
	for i, u := range unitsOf(t, q) {
		if u.IsPreBlank() {
			continue
		}
		if _, err := s.ReadRecord(nil, u.Phy, &v); err != nil || v.TagsCode() != u.Tags {
			t.Errorf("%s-%d: unit %d is %+v, the record has tags code %d (%v)", q.topic, q.id, i, u, v.TagsCode(), err)
		}
	}
}

// rawUnits are the units as the files have them.
func rawUnits(t *testing.T, q *Queue) []Unit {
	t.Helper()
	units := make([]Unit, q.Max()-q.Min())
	for done := 0; done < len(units); {
		n, err := q.readUnits(units[done:], q.Min()+message.QueueOffset(done), q.Max())
		if err != nil {
			t.Fatal(err)
		}
		done += n
	}
	return units
}

// Ext files and the queue that names them, made from a log of the original, are the original's own, byte for byte: units, addresses, the
// marks at the ends of files. However many units come at once, and wherever a restart lies in between.
func TestExtFilesAreThoseOfTheOriginal(t *testing.T) {
	for _, batch := range []int{1, 7, 1000} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			root := unpack(t, "ext-5.5.0", t.TempDir())
			want := map[string][]byte{}
			for _, dir := range []string{"consumequeue/ExtTopic/0", "consumequeue_ext/ExtTopic/0"} {
				entries, err := os.ReadDir(filepath.Join(root, dir))
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					name := filepath.Join(dir, e.Name())
					if want[name], err = os.ReadFile(filepath.Join(root, name)); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.RemoveAll(filepath.Join(root, filepath.Dir(filepath.Dir(dir)))); err != nil {
					t.Fatal(err)
				}
			}
			set := testSettings(root, asTheFixture, withExt)
			s := openTest(t, sysio.OS{}, set)
			units := dispatchedUnits(t, s, 0)
			for first := 0; first < len(units); first += batch {
				if first == 70 {
					s.abandon()
					s = openTest(t, sysio.OS{}, set)
				}
				if err := s.Queue("ExtTopic", 0).AppendUnits(message.QueueOffset(first), units[first:min(first+batch, len(units))]); err != nil {
					t.Fatal(err)
				}
			}
			closeTest(t, s, true)
			for name, content := range want {
				got, err := os.ReadFile(filepath.Join(root, name))
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: %v, equal: %v", name, err, bytes.Equal(got, content))
				}
			}
			if len(want) != 4 {
				t.Errorf("the fixture has %d files", len(want))
			}
		})
	}
}

// Ext files of the original are read and gone on with, or only read, after every kind of end.
func TestExtFilesOfTheOriginalAreGoneOnWith(t *testing.T) {
	for _, on := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("on=%v/crash=%v", on, crash), func(t *testing.T) {
				root := unpack(t, "ext-5.5.0", t.TempDir())
				set := testSettings(root, asTheFixture, func(s *settings) { s.extWrite = on })
				if crash {
					if err := os.WriteFile(filepath.Join(root, abortName), []byte("1"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				var q *Queue
				for round := range 4 {
					s := openTest(t, sysio.OS{}, set)
					if r := s.Recovery(); r.UnitsCut > 0 && !crash {
						t.Errorf("round %d: %+v", round, r)
					}
					mustDispatch(t, s, s.Recovery().RedispatchFrom)
					q = s.LookupQueue([]byte("ExtTopic"), 0)
					sendAll(t, s, "ExtTopic", "more", 30, true)
					if int(q.Max()) != 130+30*(round+1) {
						t.Fatalf("round %d: the queue ends at %d", round, q.Max())
					}
					checkTags(t, s, q)
					last := extPosition(rawUnits(t, q)[129].Tags)
					for i, u := range rawUnits(t, q) {
						anew := crash && !on && i < 130 // what may not be durable is dispatched again
						if !anew && u.Tags.IsExtAddress() != (on || i < 130) {
							t.Errorf("round %d: unit %d is %+v", round, i, u)
						}
						if i >= 130 && on {
							if pos := extPosition(u.Tags); pos != last+20 && pos != last+24 {
								t.Errorf("round %d: unit %d lies at %d, the one before it at %d", round, i, pos, last)
							}
							last = extPosition(u.Tags)
						}
					}
					if round%2 == 0 {
						closeTest(t, s, true)
					} else {
						s.abandon()
					}
				}
			})
		}
	}
}

// A unit with a bit map, as the original writes it with filters at dispatch (112 bits for 32 consumers): its tags code counts, and
// the next unit goes behind its bits.
func TestExtUnitsWithBitMaps(t *testing.T) {
	root := t.TempDir()
	set := testSettings(root, withExt)
	s := openTest(t, sysio.OS{}, set)
	sendAll(t, s, "T", "x", 1, true)
	closeTest(t, s, true)
	path := filepath.Join(root, extDirName, "T", "0", fileName(0))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(content, 34)
	binary.BigEndian.PutUint16(content[18:], 14)
	copy(content[20:], "fourteen bytes")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, sysio.OS{}, set)
	defer s.Close(true)
	sendAll(t, s, "T", "y", 60, true)
	checkTags(t, s, s.Queue("T", 0))
	if pos := extPosition(rawUnits(t, s.Queue("T", 0))[1].Tags); pos != 34 {
		t.Errorf("the second unit lies at %d", pos)
	}
}

// Whatever becomes of ext files, no message is lost: tags codes are right again, or not known, after which everybody gets the
// message. With a look at all records they are made anew.
func TestDamagedExtFiles(t *testing.T) {
	damages := map[string]func(t *testing.T, dir string){
		"all gone": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
		"one gone": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, fileName(testExtFile))); err != nil {
				t.Fatal(err)
			}
		},
		"last gone": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, fileName(2*testExtFile))); err != nil {
				t.Fatal(err)
			}
		},
		"zeros": func(t *testing.T, dir string) {
			overwrite(t, filepath.Join(dir, fileName(testExtFile)), 100, make([]byte, 300))
		},
		"noise": func(t *testing.T, dir string) {
			overwrite(t, filepath.Join(dir, fileName(2*testExtFile)), 7, bytes.Repeat([]byte{0xa5, 3}, 200))
		},
		"short": func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, fileName(2*testExtFile)), 330); err != nil {
				t.Fatal(err)
			}
		},
	}
	const count = 120
	for name, damage := range damages {
		for _, scan := range []bool{false, true} {
			for _, on := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/scan=%v/on=%v", name, scan, on), func(t *testing.T) {
					root := t.TempDir()
					s := openTest(t, sysio.OS{}, testSettings(root, withExt))
					sendAll(t, s, "T", "m", count, true)
					closeTest(t, s, true)
					damage(t, filepath.Join(root, extDirName, "T", "0"))
					if scan {
						if err := os.Remove(filepath.Join(root, stateName)); err != nil {
							t.Fatal(err)
						}
					}
					set := testSettings(root, func(s *settings) { s.extWrite = on })
					for range 2 {
						s = openTest(t, sysio.OS{}, set)
						mustDispatch(t, s, s.Recovery().RedispatchFrom)
						if s.Recovery().End != s.Wrote() || s.Queue("T", 0).Max() < count {
							t.Fatalf("%+v, the queue ends at %d", s.Recovery(), s.Queue("T", 0).Max())
						}
						sendAll(t, s, "T", "more", 70, true)
						unknown := 0
						for i, u := range unitsOf(t, s.Queue("T", 0)) {
							var v message.View
							if _, err := s.ReadRecord(nil, u.Phy, &v); err != nil {
								t.Fatalf("unit %d: %v", i, err)
							}
							switch {
							case u.Tags == v.TagsCode():
							case u.Tags.IsExtAddress() && i < count:
								unknown++
							default:
								t.Errorf("unit %d is %+v, the record has tags code %d", i, u, v.TagsCode())
							}
						}
						if scan != (unknown == 0) {
							t.Errorf("%d tags codes are not known", unknown)
						}
						closeTest(t, s, true)
					}
				})
			}
		}
	}
}

// A file whose length could not be set gets it later, although a sync has opened it meanwhile.
func TestExtFileGetsItsLength(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", withExt)
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	sendAll(t, s, "T", "m", 49, true)
	second := filepath.Join(q.extDir(), fileName(testExtFile))
	fsys.Inject(sysio.Fault{Op: sysio.OpTruncate, Path: second, Times: 1})
	sendAll(t, s, "T", "m", 2, true)
	if err := s.FlushQueues(0); err != nil {
		t.Fatal(err)
	}
	sendAll(t, s, "T", "m", 120, true)
	for _, n := range []int64{0, testExtFile, 2 * testExtFile} {
		if info, err := fsys.Stat(filepath.Join(q.extDir(), fileName(n))); err != nil || info.Size != testExtFile {
			t.Errorf("file %d: %+v, %v", n, info, err)
		}
	}
	after := fsys.Kill()
	s.abandon()
	for _, on := range []bool{false, true} { // one needs all files to be whole, the other refuses those that are not
		s = openTest(t, after, testSettings("/s", func(s *settings) { s.extWrite = on }))
		mustDispatch(t, s, s.Recovery().RedispatchFrom)
		checkTags(t, s, s.Queue("T", 0))
		if w := s.Recovery().Warnings; len(w) > 0 {
			t.Error(w)
		}
		closeTest(t, s, true)
	}
}

func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(with, at); err != nil {
		t.Fatal(err)
	}
}

// Files of another size than the configured one: no start that writes more of them; else nothing is filtered.
func TestExtFilesOfAnotherSize(t *testing.T) {
	root := t.TempDir()
	s := openTest(t, sysio.OS{}, testSettings(root, withExt))
	sendAll(t, s, "T", "m", 120, true)
	closeTest(t, s, true)
	other := func(s *settings) { s.extFileBytes = 2048 }
	if _, err := open(sysio.OS{}, testSettings(root, other, withExt), quietLogger(), nowMillis, nil); !errors.Is(err, ErrRefused) ||
		!strings.Contains(fmt.Sprint(err), "mappedFileSizeConsumeQueueExt") {
		t.Fatalf("open: %v", err)
	}
	s = openTest(t, sysio.OS{}, testSettings(root, other))
	for i, u := range unitsOf(t, s.Queue("T", 0)) {
		if !u.Tags.IsExtAddress() {
			t.Errorf("unit %d: tags code %d", i, u.Tags)
		}
	}
	closeTest(t, s, true)
	s = openTest(t, sysio.OS{}, testSettings(root))
	defer s.Close(true)
	checkTags(t, s, s.Queue("T", 0))
}

// A failed write of ext units is none of a message: it goes out with its tags code, as in the original. A full disk is waited
// for. What a failed append has left is written over.
func TestFailedExtWrites(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s", withExt))
	defer s.Close(false)
	q := s.Queue("T", 0)
	next := message.PhyOffset(0)
	appendOne := func() error {
		if s.Wrote() == next {
			send(t, s, q, "x")
		}
		u := dispatchedUnits(t, s, next)[0]
		err := q.AppendUnits(q.Max(), []Unit{u})
		if err == nil {
			next += message.PhyOffset(u.Size)
		}
		return err
	}
	must := func() {
		t.Helper()
		if err := appendOne(); err != nil {
			t.Fatal(err)
		}
	}
	must()
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "/s/consumequeue_ext/*/*/*", Times: 1, Err: syscall.EIO})
	must()
	must()
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "/s/consumequeue_ext/*/*/*", Times: 1, Err: syscall.ENOSPC})
	if err := appendOne(); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("a full disk: %v", err)
	}
	fsys.Inject(sysio.Fault{Op: sysio.OpWrite, Path: "/s/consumequeue/*/*/*", Times: 1, Err: syscall.EIO})
	if err := appendOne(); !errors.Is(err, ErrWriteFailed) {
		t.Fatalf("a failed write of the queue: %v", err)
	}
	must()
	must()
	var at []int64
	for _, u := range rawUnits(t, q) {
		if u.Tags.IsExtAddress() {
			at = append(at, extPosition(u.Tags))
		} else {
			at = append(at, -1)
		}
	}
	if fmt.Sprint(at) != "[0 -1 20 40 60]" {
		t.Errorf("the units name %v", at)
	}
	checkTags(t, s, q)
}

// Ext units are durable before the units that name them, and so are the names of their files with the next checkpoint.
func TestExtUnitsAreSyncedFirst(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s", withExt))
	sendAll(t, s, "T", strings.Repeat("m", 1500), 60, true)
	var synced []string
	fsys.Observe(func(e sysio.Event) {
		if e.Op&(sysio.OpDatasync|sysio.OpSync) != 0 && e.Done {
			synced = append(synced, strings.TrimPrefix(filepath.Dir(filepath.Dir(filepath.Dir(e.Path))), "/s/"))
		}
	})
	if err := s.FlushQueues(0); err != nil {
		t.Fatal(err)
	}
	fsys.Observe(nil)
	if got := strings.Join(synced, " "); got != "consumequeue_ext consumequeue_ext consumequeue" {
		t.Errorf("synced: %s", got)
	}
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	last := newestRecord(s)
	if err := s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset); err != nil {
		t.Fatal(err)
	}
	next := fsys.PowerCut(nil)
	s.abandon()
	s = openTest(t, next, testSettings("/s", withExt))
	defer s.Close(false)
	if s.Queue("T", 0).Max() < 30 { // those of the first file of the log
		t.Errorf("the queue ends at %d", s.Queue("T", 0).Max())
	}
	checkTags(t, s, s.Queue("T", 0))
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	checkTags(t, s, s.Queue("T", 0))

	// A failed sync of theirs keeps the checkpoint where it is.
	sendAll(t, s, "T", "m", 5, true)
	next.Inject(sysio.Fault{Op: sysio.OpDatasync, Path: "/s/consumequeue_ext/*/*/*", Times: 1})
	if err := s.FlushQueues(0); err == nil {
		t.Error("the flush succeeds")
	}
	if err := s.SaveCheckpoint(1, 1); !errors.Is(err, ErrSyncFailed) {
		t.Errorf("the checkpoint after that: %v", err)
	}
}

// Units that lie in two sectors are believed after a power cut when their ext units are their records'.
func TestUnitsInTwoSectorsKeepTheirExtAddresses(t *testing.T) {
	for end := range 60 {
		fsys := sysio.NewFaultFS()
		set := testSettings("/s", withExt)
		s := openTest(t, fsys, set)
		sendAll(t, s, "T", "m", end+1, true)
		if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
			t.Fatal(err)
		}
		if err := s.FlushQueues(0); err != nil {
			t.Fatal(err)
		}
		last := newestRecord(s)
		if err := s.SaveCheckpoint(last.StoreTimestamp, last.PhyOffset); err != nil {
			t.Fatal(err)
		}
		r := &recovery{s: s, durableTo: s.Wrote()}
		for i, u := range rawUnits(t, s.Queue("T", 0)) {
			if ok, err := r.trusted(s.Queue("T", 0), message.QueueOffset(i), u, true); !ok || err != nil {
				t.Errorf("unit %d of %d: %v, %v", i, end+1, ok, err)
			}
			if !tearable(message.QueueOffset(i), set.queueFileBytes) {
				continue
			}
			u.Tags-- // the lower half of the address is an older one
			if i > 0 {
				u.Tags = rawUnits(t, s.Queue("T", 0))[i-1].Tags
			}
			ext, ok := s.Queue("T", 0).extAt(extPosition(u.Tags))
			var v message.View
			if _, err := s.ReadRecord(nil, u.Phy, &v); err != nil {
				t.Fatal(err)
			}
			if trusted, err := r.trusted(s.Queue("T", 0), message.QueueOffset(i), u, true); err != nil || ok && trusted != (ext.stored == v.StoreTimestamp) {
				t.Errorf("unit %d with another's address: %v, %v", i, trusted, err)
			}
		}
		s.abandon()
	}
}

// Retention deletes ext files with the queue, and never one that is named.
func TestRetentionDeletesExtFiles(t *testing.T) {
	a := newAged(t, byWrites, withExt, func(s *settings) { s.extFileBytes = 10*extUnitBytes + 4 })
	a.fill(4)
	before, err := a.s.Queue("T", 0).extFiles()
	if err != nil {
		t.Fatal(err)
	}
	a.now.Add((100 * time.Hour).Milliseconds())
	a.s.cleaner.manual.Store(1)
	a.pass(0)
	q := a.s.Queue("T", 0)
	after, err := q.extFiles()
	if err != nil {
		t.Fatal(err)
	}
	first := extPosition(rawUnits(t, q)[0].Tags)
	if q.Min() == 0 || len(after) >= len(before) || after[0] != first-first%a.set.extFileBytes {
		t.Errorf("the queue begins at %d, its ext files at %d of which %d are left, of %d", q.Min(), after[0], len(after), len(before))
	}
	checkTags(t, a.s, q)
	if files, _ := a.fsys.Open(); files > 200 {
		t.Errorf("%d files are open", files)
	}
	// Not even when nothing is left of the queue but its end.
	a.s.Close(true)
	a.open()
	sendAll(t, a.s, "T", "more", 1, true)
	checkTags(t, a.s, a.s.Queue("T", 0))
}

// A deleted topic takes its ext files along, also when they come back alone.
func TestDeletedTopicsTakeTheirExtFiles(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s", withExt)
	s := openTest(t, fsys, set)
	sendAll(t, s, "T", "m", 70, true)
	sendAll(t, s, "Kept", "m", 70, true)
	old, err := sysio.ReadFile(fsys, "/s/consumequeue_ext/T/0/"+fileName(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	expectNoDir(t, fsys, "/s/consumequeue_ext/T")
	expectNoDir(t, fsys, "/s/consumequeue/T")
	closeTest(t, s, false)
	if err := fsys.MkdirAll("/s/consumequeue_ext/T/0", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := sysio.AtomicWriteFile(fsys, "/s/consumequeue_ext/T/0/"+fileName(0), old, false); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, fsys, set)
	defer s.Close(false)
	mustDispatch(t, s, s.Recovery().RedispatchFrom)
	expectNoDir(t, fsys, "/s/consumequeue_ext/T/0")
	sendAll(t, s, "T", "new", 3, true)
	expectBodies(t, s, "T", "new0", "new1", "new2")
	if pos := extPosition(rawUnits(t, s.Queue("T", 0))[0].Tags); pos != 0 {
		t.Errorf("the new topic's first ext unit lies at %d", pos)
	}
	for _, topic := range []string{"T", "Kept"} {
		checkTags(t, s, s.Queue(topic, 0))
	}
}

// Dispatch allocates nothing for ext units, whatever the form of the log, nor do those who read them. The limit is below one
// for eight units: with the race detector pools forget what they hold, on purpose.
func TestExtUnitsAllocateNothing(t *testing.T) {
	forms(t, func(t *testing.T, form func(*settings)) {
		s := openTest(t, sysio.OS{}, testSettings(t.TempDir(), form, withExt, func(s *settings) { s.extFileBytes, s.queueFileBytes = 1<<20, unitBytes<<16 }))
		defer s.Close(true)
		sendAll(t, s, "T", "m", 64, false)
		units := dispatchedUnits(t, s, 0)
		q, next := s.Queue("T", 0), message.QueueOffset(0)
		step := func() {
			if err := q.AppendUnits(next, units); err != nil {
				t.Fatal(err)
			}
			next += 64
		}
		for range 70 { // until the ring has its size
			step()
		}
		if n := testing.AllocsPerRun(100, step); n >= 8 {
			t.Errorf("AppendUnits allocates %.1f times", n)
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := q.ReadUnits(units, 64); err != nil {
				t.Fatal(err)
			}
		}); n >= 8 {
			t.Errorf("ReadUnits allocates %.1f times", n)
		}
		if units[5].Tags != message.TagsCodeOf([]byte("TagA")) {
			t.Errorf("%+v", units[5])
		}
	})
}

// No ext unit decodes to anything that its bytes do not say, and none reaches over the end of its file.
func FuzzExtUnit(f *testing.F) {
	var b [40]byte
	encodeExt(b[:], 2598903, 1767225600000)
	f.Add(b[:20], int64(1000))
	f.Add(b[:], int64(24))
	binary.BigEndian.PutUint16(b[:], 34)
	binary.BigEndian.PutUint16(b[18:], 14)
	f.Add(b[:], int64(38))
	f.Add([]byte{0xff, 0xff}, int64(2))
	f.Fuzz(func(t *testing.T, b []byte, room int64) {
		u, ok := decodeExt(b, room)
		if !ok {
			return
		}
		if u.size < extUnitBytes || u.size > 1<<15-1 || int64(u.size)+extBlankBytes > room {
			t.Fatalf("%+v, there is room for %d", u, room)
		}
		var again [extUnitBytes]byte
		encodeExt(again[:], u.tags, u.stored)
		if !bytes.Equal(again[2:18], b[2:18]) || int(binary.BigEndian.Uint16(b)) != u.size {
			t.Fatalf("%x decodes to %+v", b, u)
		}
		for _, pos := range []int64{0, 1, extPositionMax, room & (1<<62 - 1)} {
			if a := extAddress(pos); !a.IsExtAddress() || extPosition(a) != pos {
				t.Fatalf("position %d has address %d", pos, a)
			}
		}
	})
}
