package delay

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/sysio"
)

// delayOffset.json is lost after a clean stop, or its newest version is: what was delivered is found in the log.
func TestALostFileDeliversNothingTwice(t *testing.T) {
	remove := func(paths ...string) func(*sysio.FaultFS) error {
		return func(disk *sysio.FaultFS) (err error) {
			for _, path := range paths {
				err = errors.Join(err, disk.Remove(path))
			}
			return err
		}
	}
	write := func(text string, paths ...string) func(*sysio.FaultFS) error {
		return func(disk *sysio.FaultFS) (err error) {
			for _, path := range paths {
				err = errors.Join(err, sysio.AtomicWriteFile(disk, path, []byte(text), false))
			}
			return err
		}
	}
	const backup = stateFile + ".bak"
	for _, c := range []struct {
		name  string
		lose  func(disk *sysio.FaultFS) error
		found sysio.Source
	}{
		{"nothing is lost", remove(), sysio.SourceMain},
		{"the file is lost", remove(stateFile), sysio.SourceBackup},
		{"both are lost", remove(stateFile, backup), sysio.SourceNone},
		{"both are damaged", write(`{"offsetTable":{1:999`, stateFile, backup), sysio.SourceNone},
		{"both say nothing", write("{}", stateFile, backup), sysio.SourceNone},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk := sysio.NewFaultFS()
			b := start(t, disk, options{})
			for i := range 20 {
				b.send(1, fmt.Sprint(i))
				time.Sleep(700 * time.Millisecond) // some intervals of writing
			}
			time.Sleep(time.Minute)
			b.stop()
			must(t, c.lose(disk))
			b = start(t, disk, options{})
			defer b.stop()
			b.send(1, "20")
			time.Sleep(time.Minute)
			var want []string
			for i := range 21 {
				want = append(want, fmt.Sprint(i))
			}
			if got, _ := b.arrived(1); !slices.Equal(got, want) {
				t.Errorf("%s: delivered %v", c.name, got)
			}
			if b.service.Found() != c.found {
				t.Errorf("%s: read from %v", c.name, b.service.Found())
			}
		})
	}
}

// Before a start has counted what was delivered before a crash no file is written: it would tell the next start that nothing
// uncounted lies before its position.
func TestNothingIsWrittenBeforeAllIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sysio.NewFaultFS()
		b := start(t, disk, options{})
		defer b.stop()
		synctest.Wait()
		before, err := sysio.ReadFile(disk, stateFile)
		must(t, err)
		opts := b.service.opts
		opts.Crashed = true
		next, err := Open(opts)
		must(t, err)
		b.send(1, "m")
		time.Sleep(3 * time.Second)
		if got, _ := b.arrived(1); len(got) != 1 {
			t.Fatalf("delivered %v", got)
		}
		must(t, next.Persist()) // as a stop in the middle of the start does
		if got, err := sysio.ReadFile(disk, stateFile); err != nil || string(got) != string(before) {
			t.Errorf("written too early: %s, %v", got, err)
		}
	})
}
