package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// How long starts take, with verdicts (make bench-recovery):
//
//	go test ./store -run TestMeasureRecovery -measure -v [-measure.dir DIR]
//
// It needs some 4 GiB of disk.
func TestMeasureRecovery(t *testing.T) {
	if !*measure {
		return // not a test of anything; see above
	}
	dir := *measureDir
	if dir == "" {
		dir = t.TempDir()
	}
	t.Run("sparse", func(t *testing.T) { measureSparse(t, filepath.Join(dir, "measure-sparse")) })
	t.Run("queues", func(t *testing.T) { measureManyQueues(t, filepath.Join(dir, "measure-queues")) })
	t.Run("scan", func(t *testing.T) { measureScan(t, filepath.Join(dir, "measure-scan")) })
}

// judge prints a line with a verdict.
func judge(t *testing.T, what, got, promised string, good bool) {
	t.Helper()
	word := "good"
	if !good {
		word = "MISSED"
		t.Errorf("%s: %s, promised %s", what, got, promised)
	}
	fmt.Printf("%-62s %14s   promised %-16s %s\n", what, got, promised, word)
}

func realSizes(s *settings) { s.segmentBytes, s.queueFileBytes = 1<<30, 300_000*unitBytes }

// makeSparse writes a directory as a clean stop of the original leaves it: files of the log with a few records and an end mark,
// and one file for each queue.
func makeSparse(t *testing.T, set settings, segments, perSegment, queues int) {
	t.Helper()
	fsys := sysio.OS{}
	if err := errors.Join(os.MkdirAll(set.logDir, 0o755), os.MkdirAll(set.queueDir, 0o755)); err != nil {
		t.Fatal(err)
	}
	units := make([][]byte, queues)
	record := make([]byte, 4096)
	for n := range segments {
		start := int64(n) * set.segmentBytes
		f, err := fsys.OpenFile(dataPath(set.logDir, start), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		err = f.Truncate(set.segmentBytes)
		at := int64(0)
		for i := 0; i < perSegment && err == nil; i++ {
			k := (n*perSegment + i) % queues
			r := message.Record{Topic: []byte("T" + strconv.Itoa(k)), Body: []byte("body"), BodyCRC: message.BodyCRC([]byte("body")),
				QueueOffset: message.QueueOffset(len(units[k]) / unitBytes), PhyOffset: message.PhyOffset(start + at),
				BornHost: testHost, StoreHost: testHost, BornTimestamp: 1, StoreTimestamp: message.Millis(time.Now().UnixMilli())}
			size := r.EncodeTo(record)
			var unit [unitBytes]byte
			encodeUnit(unit[:], Unit{Phy: r.PhyOffset, Size: int32(size)})
			units[k] = append(units[k], unit[:]...)
			_, err = f.WriteAt(record[:size], at)
			at += int64(size)
		}
		if err == nil && n < segments-1 {
			mark := []byte{0, 0, 0, 0, 0xCB, 0xD4, 0x31, 0x94}
			left := set.segmentBytes - at
			for i := range 4 {
				mark[i] = byte(left >> (24 - 8*i))
			}
			_, err = f.WriteAt(mark, at)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for k, b := range units {
		folder := filepath.Join(set.queueDir, "T"+strconv.Itoa(k), "0")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		path := dataPath(folder, 0)
		if err := errors.Join(os.WriteFile(path, b, 0o644), os.Truncate(path, set.queueFileBytes)); err != nil {
			t.Fatal(err)
		}
	}
}

// toFirstSend opens a directory, appends one message and returns how long that took.
func toFirstSend(t *testing.T, set settings) (*Store, time.Duration) {
	t.Helper()
	began := time.Now()
	s := openTest(t, sysio.OS{}, set)
	m := send(t, s, s.Queue("T0", 0), "first")
	took := time.Since(began)
	if r := s.Recovery(); r.RedispatchFrom != r.End {
		t.Errorf("entries are missing from %d on", r.RedispatchFrom)
	}
	show(t, []Message{m})
	if err := errors.Join(s.FlushQueues(0), s.SaveCheckpoint(m.StoreTimestamp, m.PhyOffset)); err != nil {
		t.Fatal(err)
	}
	return s, took
}

// show does for new messages what dispatch does.
func show(t *testing.T, batch []Message) {
	t.Helper()
	for i := range batch {
		m := &batch[i]
		if err := m.Queue.AppendUnits(m.QueueOffset, []Unit{{Phy: m.PhyOffset, Size: int32(m.Size()), Tags: message.TagsCodeOf([]byte("TagA"))}}); err != nil {
			t.Fatal(err)
		}
	}
}

func seconds(d time.Duration) string { return d.Round(time.Millisecond).String() }

// measureSparse is case S09.
func measureSparse(t *testing.T, root string) {
	defer os.RemoveAll(root)
	set := testSettings(root, realSizes)
	makeSparse(t, set, 120, 20, 2000)
	s, took := toFirstSend(t, set)
	fmt.Printf("%-62s %14s\n", "120 files of the log, 2,000 queues: first start, all records", seconds(took))
	closeTest(t, s, true)
	s, took = toFirstSend(t, set)
	judge(t, "120 files of the log, 2,000 queues: start after a clean stop", seconds(took), "2 s", took < 2*time.Second)
	s.abandon()
	s, took = toFirstSend(t, set)
	judge(t, "the same after kill -9", seconds(took), "2 s", took < 2*time.Second)
	closeTest(t, s, true)
}

func measureManyQueues(t *testing.T, root string) {
	defer os.RemoveAll(root)
	set := testSettings(root, realSizes)
	makeSparse(t, set, 1, 30_000, 10_000)
	s, _ := toFirstSend(t, set)
	closeTest(t, s, true)
	s, took := toFirstSend(t, set)
	judge(t, "10,000 queues with data: start after a clean stop", seconds(took), "5 s", took < 5*time.Second)
	s.abandon()
	s, took = toFirstSend(t, set)
	judge(t, "the same after kill -9", seconds(took), "5 s", took < 5*time.Second)
	closeTest(t, s, true)
}

// measureScan compares the scan of a log that peregrine did not close with reading the same files.
func measureScan(t *testing.T, root string) {
	defer os.RemoveAll(root)
	const bytes = 512 << 20
	set := testSettings(root, func(s *settings) { realSizes(s); s.segmentBytes = 64 << 20 })
	s := openTest(t, sysio.OS{}, set)
	batch := make([]Message, 64)
	for n := 0; int64(s.Wrote()) < bytes; n++ {
		for i := range batch {
			batch[i] = newMessage(s.Queue("T", message.QueueID((n+i)%16)), strings.Repeat("b", 1024))
		}
		if s.Append(batch); batch[0].Err != nil {
			t.Fatal(batch[0].Err)
		}
		show(t, batch)
	}
	closeTest(t, s, true)
	var rates [2]float64 // of reading, of recovery: GB/s
	for i := range rates {
		if err := os.Remove(filepath.Join(root, stateName)); err != nil {
			t.Fatal(err)
		}
		forget(t, set.logDir)
		began := time.Now()
		if i == 0 {
			readAll(t, set.logDir)
			rates[i] = bytes / time.Since(began).Seconds() / 1e9
		}
		s := openTest(t, sysio.OS{}, set)
		if r := s.Recovery(); i == 1 {
			rates[i] = float64(r.End) / r.Took.Seconds() / 1e9
			fmt.Printf("%-62s %14s   %d records, %d queues\n", "a log of 512 MiB that nobody knows: all records and their entries", seconds(r.Took), r.Checked, r.Queues)
		}
		closeTest(t, s, true)
	}
	judge(t, "recovered, beside reading the same files from the disk", fmt.Sprintf("%.2f GB/s", rates[1]), fmt.Sprintf("60 %% of %.2f GB/s", rates[0]), rates[1] > 0.6*rates[0])
}

// forget makes the kernel drop the pages of all files in a directory.
func forget(t *testing.T, dir string) {
	t.Helper()
	eachFile(t, dir, func(f *os.File) error {
		return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	})
}

func readAll(t *testing.T, dir string) {
	t.Helper()
	buf := make([]byte, scanBlockBytes)
	eachFile(t, dir, func(f *os.File) error {
		for {
			if n, err := f.Read(buf); n == 0 || err != nil {
				return nil
			}
		}
	})
}

func eachFile(t *testing.T, dir string, do func(*os.File) error) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err == nil {
			err = errors.Join(do(f), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
