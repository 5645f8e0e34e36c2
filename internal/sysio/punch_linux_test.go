package sysio

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

func TestPunchHoleReadsAsZerosAndGivesBlocksBack(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), string(bytes.Repeat([]byte{7}, 4*PageSize)))
		defer f.Close()
		p := f.(interface{ PunchHole(off, n int64) error })
		err := p.PunchHole(100, 2*PageSize)
		if errors.Is(err, errors.ErrUnsupported) {
			return // the file system of the temporary folder cannot
		}
		must(t, err)
		got := content(t, fsys, f.Name())
		if len(got) != 4*PageSize {
			t.Fatalf("%d bytes", len(got))
		}
		for i, c := range []byte(got) {
			if zero := i >= 100 && i < 100+2*PageSize; zero != (c == 0) {
				t.Fatalf("byte %d is %d", i, c)
			}
		}
		if err := p.PunchHole(0, 0); !errors.Is(err, ErrRange) {
			t.Errorf("an empty hole: %v", err)
		}
		if x, ok := fsys.(*FaultFS); ok {
			// One whole page lies in the hole; the others keep their blocks.
			if u, _ := x.DiskUsage("/"); u.Used != 3*PageSize {
				t.Errorf("%d bytes used", u.Used)
			}
			must(t, f.Datasync())
			must(t, x.SyncDir(dir))
			must(t, x.SyncDir("/"))
			if at(t, x.PowerCut(nil), f.Name(), 200, 2) != "\x00\x00" {
				t.Error("the hole is not durable after a sync")
			}
		}
	})
}
