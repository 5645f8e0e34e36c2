package store

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// The two append forms side by side. It writes for some seconds and is meant for a quiet machine:
//
//	go test ./store -run TestMeasureAppendForms -measure -v [-measure.dir DIR] [-measure.seconds 5]
//
// Written bytes are those of the block device under the directory, from whoever: nothing else should write to it.
var (
	measure        = flag.Bool("measure", false, "measure the append forms (TestMeasureAppendForms)")
	measureDir     = flag.String("measure.dir", "", "directory on the device to measure; empty: a temporary one")
	measureSeconds = flag.Int("measure.seconds", 4, "seconds for each row")
)

// measureCase is one row.
type measureCase struct {
	form      string
	direct    bool
	sync      bool
	oneByOne  bool // one record, one sync, one record …
	batch     int
	rateBytes int64 // paced, bytes per second
}

func TestMeasureAppendForms(t *testing.T) {
	if !*measure {
		return // not a test of anything; see above
	}
	fmt.Printf("%-7s %-28s %9s %8s %9s %9s %9s %9s %9s %8s\n", "form", "load", "MB/s", "written", "sync p50", "sync p99", "sync max",
		"app p99.9", "app max", "CPU s/GB")
	for range 2 {
		for _, form := range []string{"mapped", "direct"} {
			direct := form == "direct"
			for _, c := range []measureCase{
				{form: form, direct: direct, batch: 32, rateBytes: 100 << 20},
				{form: form, direct: direct, batch: 1, rateBytes: 20 << 20},
				{form: form, direct: direct, batch: 32, rateBytes: 50 << 20, sync: true},
				{form: form, direct: direct, batch: 1, sync: true, oneByOne: true},
			} {
				c.run(t)
			}
		}
	}
}

func (c measureCase) load() string {
	switch {
	case c.oneByOne:
		return "SYNC one in flight"
	case c.sync:
		return fmt.Sprintf("SYNC batch %d, %d MiB/s", c.batch, c.rateBytes>>20)
	}
	return fmt.Sprintf("ASYNC batch %d, %d MiB/s", c.batch, c.rateBytes>>20)
}

func (c measureCase) run(t *testing.T) {
	dir := *measureDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := filepath.Join(dir, "measure-append")
	defer os.RemoveAll(root)
	segment := int64(256 << 20)
	s := openTest(t, sysio.OS{}, testSettings(root, func(s *settings) { s.direct, s.syncFlush, s.segmentBytes = c.direct, c.sync, segment }))
	defer s.Close(false)
	q := s.Queue("TopicTest", 0)
	batch := make([]Message, c.batch)
	for i := range batch {
		batch[i] = newMessage(q, strings.Repeat("b", 128))
		batch[i].Properties = []byte("UNIQ_KEY\x017F000001000018B4AAC2123456789ABC\x02WAIT\x01true\x02TAGS\x01TagA\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02")
	}
	time.Sleep(300 * time.Millisecond) // lets allocator and toucher settle: they are not what is measured
	unix.Sync()
	written := deviceBytes(t, root)
	cpu := cpuTime()
	began := time.Now()
	stop := began.Add(time.Duration(*measureSeconds) * time.Second)

	var appends, syncs []time.Duration
	appendOne := func() {
		at := time.Now()
		s.Append(batch)
		appends = append(appends, time.Since(at))
		if batch[0].Err != nil {
			t.Error(batch[0].Err)
		}
	}
	syncOne := func() {
		at := time.Now()
		if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
			t.Error(err)
		}
		syncs = append(syncs, time.Since(at))
	}
	if c.oneByOne {
		for time.Now().Before(stop) {
			appendOne()
			syncOne()
		}
	} else {
		var ended atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !ended.Load() {
				if !c.sync {
					time.Sleep(500 * time.Millisecond) // flushIntervalCommitLog
				} else if s.Flushed() == s.Wrote() {
					time.Sleep(20 * time.Microsecond)
					continue
				}
				syncOne()
			}
		}()
		for now := time.Now(); now.Before(stop); now = time.Now() {
			due := message.PhyOffset(float64(c.rateBytes) * now.Sub(began).Seconds())
			if s.Wrote() >= due {
				time.Sleep(50 * time.Microsecond)
				continue
			}
			appendOne()
		}
		ended.Store(true)
		<-done
	}
	took := time.Since(began)
	cpu = cpuTime() - cpu
	unix.Sync()
	written = deviceBytes(t, root) - written
	wrote := float64(s.Wrote())
	slices.Sort(appends)
	slices.Sort(syncs)
	at := func(d []time.Duration, q float64) time.Duration {
		if len(d) == 0 {
			return 0
		}
		return d[min(int(q*float64(len(d))), len(d)-1)].Round(time.Microsecond)
	}
	fmt.Printf("%-7s %-28s %9.1f %8.2f %9v %9v %9v %9v %9v %8.2f\n", c.form, c.load(), wrote/took.Seconds()/1e6, float64(written)/wrote,
		at(syncs, .5), at(syncs, .99), at(syncs, 1), at(appends, .999), at(appends, 1), cpu.Seconds()/(wrote/1e9))
}

// deviceBytes is what the block device below path has written since the machine was started.
func deviceBytes(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		t.Fatalf("the device of %s tells no figures: %v", path, err)
	}
	sectors, err := strconv.ParseInt(strings.Fields(string(text))[6], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return sectors * 512
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
