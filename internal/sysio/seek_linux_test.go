package sysio

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestNextDataPassesOverWhatWasNeverWritten(t *testing.T) {
	const size = 4 << 20
	eachFS(t, func(t *testing.T, fsys FS, dir string) {
		f := create(t, fsys, filepath.Join(dir, "f"), "")
		defer f.Close()
		p := f.(interface {
			NextData(off int64) (int64, error)
		})
		must(t, f.Truncate(size))
		must(t, f.Allocate(0, size/2))
		_, err := f.WriteAt([]byte{1}, 1<<20+5)
		must(t, err)
		for off, last := range map[int64]int64{0: 1<<20 + 5, 1<<20 + 5: 1<<20 + 5, 2 << 20: size, size: size} {
			// A file system may take a whole block, or all, for written; it never passes over what is.
			if at, err := p.NextData(off); err != nil || at < off || at > last {
				t.Errorf("NextData(%d) = %d, %v; at most %d", off, at, err, last)
			}
		}
		if _, err := p.NextData(-1); !errors.Is(err, ErrRange) {
			t.Errorf("NextData(-1): %v", err)
		}
	})
}
