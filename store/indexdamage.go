package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"

	"peregrine/internal/sysio"
)

// Full index files are large, and no start after a clean stop reads them. What a start looks at are the ends of each; what a disk forgot in
// between is met by queries.

// slotsDoubted in a header, in the place of the number of used slots, makes the next start walk the file. The original writes that number
// and never uses it.
const (
	slotsDoubted   = -1
	slotsUsedField = 32
)

// endsFit tells whether the first and the last item of a file are what its header says of them. With another geometry than the file was
// made with, slots or parts of items stand there, though the file may have the same length.
func (x *Index) endsFit(file sysio.File, h *indexHeader) bool {
	if h.count <= 1 {
		return true
	}
	n := int64(h.count) - 1
	walk := indexWalk{geo: x.geo, file: file}
	first, err := walk.item(1)
	last, lerr := walk.item(n)
	return err == nil && first.hash >= 0 && first.prev == 0 && first.phy == h.beginPhy &&
		lerr == nil && last.hash >= 0 && int64(last.prev) < n && last.phy == h.endPhy
}

// doubt notes that a query met something in a file that it cannot hold. Once for each file it says so, and marks the file, durably: the next
// start compares each of its items with the log and makes again what does not fit.
func (x *Index) doubt(f *indexFile) {
	x.mu.Lock()
	i := slices.IndexFunc(x.files, func(o *indexFile) bool { return o.path == f.path })
	if i < 0 || x.files[i].doubted {
		x.mu.Unlock()
		return // deleted meanwhile, or known
	}
	x.files[i].doubted = true
	x.mu.Unlock()
	x.logger.Warn("an index file is damaged: queries by key may lack messages and say so; the next start compares the file with the log and makes again what does not fit",
		"file", f.path)
	if !x.writes {
		return // such a start makes nothing
	}
	if err := x.markDoubted(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.logger.Warn("an index file cannot be marked as damaged; moved away, it is made again at the next start", "file", f.path, "error", err)
	}
}

// markDoubted needs no lock: where Add writes the header too, it writes the mark.
func (x *Index) markDoubted(path string) error {
	file, err := x.fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	mark := int32(slotsDoubted)
	if _, err := file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(mark)), slotsUsedField); err != nil {
		return err
	}
	return file.Datasync()
}
