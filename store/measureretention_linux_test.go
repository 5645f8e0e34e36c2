package store

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// What sends feel of a deletion (P03), each send with the sync that SYNC_FLUSH would wait for. It fills the disk with really
// written segments first:
//
//	go test ./store -run TestMeasureRetention -measure -v [-measure.dir DIR] [-measure.segments 10]
var measureSegments = flag.Int("measure.segments", 10, "segments of 1 GiB for TestMeasureRetention")

func TestMeasureRetention(t *testing.T) {
	if !*measure {
		return // not a test of anything; see above
	}
	dir := *measureDir
	if dir == "" {
		dir = t.TempDir()
	} else {
		defer os.RemoveAll(dir)
	}
	set := testSettings(dir, func(s *settings) {
		s.segmentBytes, s.recordBytesMax = 1<<30, 8<<20
		s.retention = retention{keep: time.Hour, batch: *measureSegments, filePause: 100 * time.Millisecond, usedPct: 100}
		for hour := range s.retention.hours {
			s.retention.hours[hour] = true
		}
	})
	var ahead time.Duration
	s, err := open(sysio.OS{}, set, quietLogger(), func() message.Millis { return message.Millis(time.Now().Add(ahead).UnixMilli()) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	q := s.Queue("T", 0)
	big := string(bytes.Repeat([]byte("x"), 3<<20))
	for s.Wrote() < message.PhyOffset(*measureSegments)<<30 {
		send(t, s, q, big)
		if s.Wrote()-s.Flushed() > 64<<20 {
			if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	for range unmapGraceTicks + 1 { // the old files are read with pread, as on a broker that has run for a while
		s.log.tick(0, *measureSegments)
	}
	body := string(bytes.Repeat([]byte("y"), 4<<10))
	load := func(until func() bool) (appends, syncs []time.Duration) {
		next := time.Now()
		for !until() {
			if wait := time.Until(next); wait > 0 {
				time.Sleep(wait)
			}
			next = next.Add(500 * time.Microsecond)
			begin := time.Now()
			send(t, s, q, body)
			appended := time.Now()
			if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
				t.Fatal(err)
			}
			appends, syncs = append(appends, appended.Sub(begin)), append(syncs, time.Since(begin))
		}
		return appends, syncs
	}
	end := time.Now().Add(time.Duration(*measureSeconds) * time.Second)
	appendsBefore, syncsBefore := load(func() bool { return time.Now().After(end) })
	ahead = 2 * time.Hour
	done := make(chan struct{})
	began := time.Now()
	var took time.Duration
	go func() {
		defer close(done)
		s.cleaner.pass()
		for s.cleaner.pending.Load() > 0 {
			s.cleaner.giveBack()
		}
		took = time.Since(began)
	}()
	appendsDuring, syncsDuring := load(func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if s.Retention().Files == 0 {
		t.Fatal("nothing was deleted")
	}
	fmt.Printf("%d files of 1 GiB deleted in %v under a load of up to 2,000 sends of 4 KiB a second\n", s.Retention().Files, took.Round(time.Millisecond))
	report := func(what string, before, during []time.Duration) {
		p := func(d []time.Duration, share float64) time.Duration {
			slices.Sort(d)
			return d[int(float64(len(d)-1)*share)]
		}
		verdict := "PASS"
		if a, b := p(before, 0.999), p(during, 0.999); b > 2*a {
			verdict = "FAIL"
		}
		fmt.Printf("%-16s p50 %v -> %v   p99 %v -> %v   p99.9 %v -> %v   max %v -> %v   (%d, %d sends)   at most twice at p99.9: %s\n", what,
			p(before, .5), p(during, .5), p(before, .99), p(during, .99), p(before, .999), p(during, .999), p(before, 1), p(during, 1),
			len(before), len(during), verdict)
	}
	report("append", appendsBefore, appendsDuring)
	report("append and sync", syncsBefore, syncsDuring)
}
