package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store/storetest"
)

// Sizes of the test stores: many files out of few messages.
const (
	testSegment   = 64 << 10
	testQueueFile = 200 * unitBytes
	testExtFile   = 50*extUnitBytes + 10
)

func testSettings(root string, change ...func(*settings)) settings {
	set := settings{
		root: root, logDir: filepath.Join(root, "commitlog"), queueDir: filepath.Join(root, queueDirName),
		segmentBytes: testSegment, queueFileBytes: testQueueFile, extDir: filepath.Join(root, extDirName), extFileBytes: testExtFile,
		checkCRC: true, readAhead: true, warmStepBytes: 4096 * sysio.PageSize,
		adjustable: adjustable{recordBytesMax: 4<<20 + recordOverheadMax, warnPct: 90, forcePct: 85},
	}
	for _, c := range change {
		c(&set)
	}
	return set
}

func quietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openTest(t testing.TB, fsys sysio.FS, set settings) *Store {
	t.Helper()
	s, err := open(fsys, set, quietLogger(), nowMillis, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openLogged is openTest with the lines of the log.
func openLogged(t testing.TB, fsys sysio.FS, set settings, lines io.Writer) *Store {
	t.Helper()
	s, err := open(fsys, set, slog.New(slog.NewTextHandler(lines, nil)), nowMillis, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeTest(t testing.TB, s *Store, clean bool) {
	t.Helper()
	if err := s.Close(clean); err != nil {
		t.Fatal(err)
	}
}

// abandon ends a store as kill -9 would, for the goroutines and descriptors of this process: nothing is synced or removed.
func (s *Store) abandon() {
	s.closeOnce.Do(func() {
		close(s.quit)
		s.log.stop()
		s.running.Wait()
		s.release()
	})
}

// await returns when done says so; a test that waits in vain ends with the time-out of go test.
func await(done func() bool) {
	for !done() {
		runtime.Gosched()
	}
}

// awaitAllocator returns when the allocator has made all files ahead of the end of the log. Nobody appends. The first round may end with a
// look at the log that began before the last append, the second one does not.
func awaitAllocator(s *Store) {
	for range 2 {
		s.log.alloc.poke()
		await(func() bool { return s.log.allocateAt.Load() != neverPosition && len(s.log.alloc.wake) == 0 })
	}
}

var testHost = message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911"))

// newMessage is one message for q.
func newMessage(q *Queue, body string) Message {
	return Message{Queue: q, Record: message.Record{
		Topic: []byte(q.Topic()), QueueID: q.ID(), Body: []byte(body), BodyCRC: message.BodyCRC([]byte(body)),
		Properties: []byte("TAGS\x01TagA\x02"), BornHost: testHost, StoreHost: testHost, BornTimestamp: 1,
	}}
}

// send appends one message and returns it.
func send(t testing.TB, s *Store, q *Queue, body string) Message {
	t.Helper()
	batch := []Message{newMessage(q, body)}
	s.Append(batch)
	if batch[0].Err != nil {
		t.Fatalf("append: %v", batch[0].Err)
	}
	return batch[0]
}

// dispatchFrom does what dispatch does, from from up to Confirmed. A stretch that recovery stepped over is stepped over, and a record
// whose head is damaged, another place that cannot be read to the next file.
func dispatchFrom(s *Store, from message.PhyOffset) error {
	buf := make([]byte, s.SegmentBytes())
	segment := message.PhyOffset(s.SegmentBytes())
	damaged, heads := map[message.PhyOffset]int64{}, map[message.PhyOffset]bool{}
	for _, d := range s.Recovery().Damaged {
		damaged[d.Phy], heads[d.Phy] = d.Bytes, strings.HasPrefix(d.Reason, headDamaged)
	}
	for pos := from; pos < s.Confirmed(); {
		if n := damaged[pos]; n > 0 && (!s.damaged[pos] || heads[pos]) {
			pos += message.PhyOffset(n)
			continue
		}
		n, err := s.ReadAt(buf, pos)
		if err != nil {
			return err
		}
		var v message.View
		err = message.ParseView(buf[:n], &v)
		if errors.Is(err, message.ErrBlank) || (err != nil && (pos/segment+1)*segment < s.Confirmed()) {
			pos = (pos/segment + 1) * segment
			continue
		}
		if err != nil {
			return fmt.Errorf("at %d: %w", pos, err)
		}
		if entersQueue(v.SysFlag) {
			u := Unit{Phy: pos, Size: v.Size, Tags: v.TagsCode()}
			if err := s.Queue(string(v.Topic), v.QueueID).AppendUnits(v.QueueOffset, []Unit{u}); err != nil {
				return err
			}
		}
		pos += message.PhyOffset(v.Size)
	}
	return nil
}

func mustDispatch(t testing.TB, s *Store, from message.PhyOffset) {
	t.Helper()
	if err := dispatchFrom(s, from); err != nil {
		t.Fatal(err)
	}
}

// unitsOf reads all visible units of a queue from its files.
func unitsOf(t testing.TB, q *Queue) []Unit {
	t.Helper()
	units := make([]Unit, q.Max()-q.Min())
	for done := 0; done < len(units); {
		n, err := q.ReadUnits(units[done:], q.Min()+message.QueueOffset(done))
		if err != nil {
			t.Fatal(err)
		}
		done += n
	}
	return units
}

// bodyAt reads the record at phy and returns its body.
func bodyAt(t testing.TB, s *Store, u Unit) string {
	t.Helper()
	buf := make([]byte, u.Size)
	if n, err := s.ReadAt(buf, u.Phy); err != nil || n != len(buf) {
		t.Fatalf("read %d at %d: %d, %v", len(buf), u.Phy, n, err)
	}
	var v message.View
	if err := message.ParseView(buf, &v); err != nil {
		t.Fatalf("record at %d: %v", u.Phy, err)
	}
	if v.PhyOffset != u.Phy || !v.CheckCRC() {
		t.Fatalf("record at %d says it is at %d, CRC right: %v", u.Phy, v.PhyOffset, v.CheckCRC())
	}
	return string(v.Body)
}

// unpack puts a packed data directory below dir and returns its root.
func unpack(t testing.TB, name, dir string) string {
	t.Helper()
	return storetest.Unpack(t, filepath.Join("testdata", name+".tar.gz"), dir)
}

// snapshot is every file below root with its content.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
