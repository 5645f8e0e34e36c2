package store

import (
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// What left the hot window is unmapped after a grace, read with pread, and never promised to be hot; what is not durable yet
// stays mapped, because the sync needs it.
func TestHotWindowMovesOn(t *testing.T) {
	fsys := sysio.NewFaultFS()
	s := openTest(t, fsys, testSettings("/s"))
	defer s.Close(false)
	q := s.Queue("T", 0)
	for s.Wrote() < 20*testSegment {
		send(t, s, q, strings.Repeat("x", 1000))
	}
	const hot = 3 * testSegment
	s.log.tick(hot, 0)
	if s.Slice(0, 10) == nil || s.log.files.Load().files[0].view.Load() == nil {
		t.Fatal("a file that is not synced was unmapped")
	}
	if _, err := s.CommitLog().Sync(s.Wrote()); err != nil {
		t.Fatal(err)
	}
	old := s.Slice(100, 50)
	copied := string(old)
	for tick := range unmapGraceTicks + 1 {
		s.log.tick(hot, 0)
		if s.IsHot(0) || s.Slice(0, 10) != nil {
			t.Fatal("an old position is said to be hot")
		}
		if string(old) != copied { // would be SIGSEGV on a real file
			t.Fatalf("a slice lost its bytes after %d ticks", tick)
		}
		if tick == unmapGraceTicks-1 {
			break // from here on it must not be touched
		}
	}
	s.log.tick(hot, 0)
	if n := len(s.log.retired); n != 0 {
		t.Errorf("%d files still wait to be unmapped", n)
	}
	if !s.IsHot(s.Wrote()-hot/2) || s.Slice(s.Wrote()-hot/2, 10) == nil {
		t.Error("a new position is not hot")
	}
	mustDispatch(t, s, 0)
	for _, u := range unitsOf(t, q) {
		bodyAt(t, s, u)
	}
	if got := s.Slice(s.Wrote()-10, 10); got == nil {
		t.Error("the newest bytes are not mapped")
	}
}

// What this run has neither written nor scanned is not taken to be in memory.
func TestOldLogIsNotHotAfterAStart(t *testing.T) {
	fsys := sysio.NewFaultFS()
	set := testSettings("/s")
	s := openTest(t, fsys, set)
	q := s.Queue("T", 0)
	for s.Wrote() < 3*testSegment+100 {
		send(t, s, q, strings.Repeat("x", 1000))
	}
	mustDispatch(t, s, 0)
	last := s.Wrote()
	closeTest(t, s, true)
	s = openTest(t, fsys, set)
	defer s.Close(false)
	for range 2 {
		if s.IsHot(last - 2000) {
			t.Error("hot although nobody has read it")
		}
		send(t, s, s.Queue("T", 0), "new")
		if !s.IsHot(last) {
			t.Error("a new record is not hot")
		}
		s.tick()
	}
	buf := make([]byte, 100)
	for _, phy := range []message.PhyOffset{0, testSegment, last - 50} {
		if n, err := s.ReadAt(buf[:50], phy); n != 50 || err != nil {
			t.Errorf("read at %d: %d, %v", phy, n, err)
		}
	}
}
