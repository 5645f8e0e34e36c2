package store

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"peregrine/internal/sysio"
)

// Case R07: while appends are refused the store is not healthy, and after that not before a probe is written and synced, without
// any client that sends.
func TestHealthNeedsADurableWrite(t *testing.T) {
	for _, failing := range []sysio.Fault{
		{Op: sysio.OpWrite, Path: probeName, Err: syscall.ENOSPC},
		{Op: sysio.OpSync, Path: probeName, Err: syscall.ENOSPC},
		{Op: sysio.OpOpen, Path: probeName, Err: syscall.EROFS},
	} {
		x := sysio.NewFaultFS()
		s := openTest(t, x, testSettings("/s"))
		if err := s.Health(); err != nil {
			t.Fatal(err)
		}
		x.SetCapacity(10<<20, 9_900_000)
		s.tick()
		if err := s.Health(); !errors.Is(err, ErrDiskFull) || err != s.Refusal() {
			t.Errorf("on the full disk: %v", err)
		}
		heal := x.Inject(failing)
		x.SetCapacity(10<<20, 0)
		await(func() bool { // the allocator looks at the space by itself, too
			s.tick()
			err := s.Health()
			if err == nil {
				t.Fatal("healthy although nothing durable was written")
			}
			return s.Refusal() == nil && errors.Is(err, failing.Err)
		})
		if err := s.Health(); errors.Is(err, ErrDiskFull) != (failing.Err == syscall.ENOSPC) {
			t.Errorf("%v: %v", failing.Op, err)
		}
		heal()
		await(func() bool { s.tick(); return s.Health() == nil })
		if _, err := x.Stat("/s/commitlog/" + probeName); err == nil {
			t.Error("the probe is left")
		}
		closeTest(t, s, true)
	}
}

// Space that is not there ahead of the log is told although the last allocated bytes still take messages.
func TestHealthTellsMissingSpaceAhead(t *testing.T) {
	x := sysio.NewFaultFS()
	s := openTest(t, x, testSettings("/s"))
	defer s.Close(false)
	defer x.Inject(sysio.Fault{Op: sysio.OpAllocate, Err: syscall.ENOSPC})()
	q := s.Queue("T", 0)
	for s.Refusal() == nil {
		batch := []Message{newMessage(q, strings.Repeat("x", 1000))}
		s.Append(batch)
		if batch[0].Err != nil {
			if !errors.Is(batch[0].Err, ErrDiskFull) {
				t.Fatal(batch[0].Err)
			}
			break
		}
	}
	if err := s.Health(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("sends are refused, health says %v", err)
	}
}

// Case R03: a disk that does not tell its use gives no number that is made up.
func TestUnknownUseIsNoNumber(t *testing.T) {
	text := (&DiskFullError{Path: "/s", Threshold: 90, Cause: syscall.ENOSPC}).Error()
	if !strings.Contains(text, "does not tell its use") || strings.Contains(text, "0 % used") || strings.Contains(text, "-") {
		t.Error(text)
	}
}
