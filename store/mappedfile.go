package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// mappedFile is one file of the CommitLog. Its length is the segment size from the beginning; what has blocks is told by
// allocated. Files written in this run are mapped while they are in the hot window; files found at start are not, apart from
// the one that is written: they are read with pread.
type mappedFile struct {
	start message.PhyOffset
	size  int64
	path  string

	// allocated publishes how many bytes from the file's start have blocks on disk. Raised by the allocator, read by appends,
	// which never write past it: a store into a mapped page without a block is SIGBUS on a full disk.
	allocated atomic.Int64

	// view publishes the mapping; nil before map and after retire. A slice taken from it stays valid for unmapGraceTicks.
	view atomic.Pointer[mappedView]
	// mapped is true from map until the mapping is gone, which is later than view says: the file must not shrink before.
	mapped atomic.Bool
}

// mappedView is a mapped file with its descriptor. Both end together.
type mappedView struct {
	file    sysio.File
	mapping sysio.Mapping
	data    []byte // mapping.Bytes(), taken once: the call locks
}

func (f *mappedFile) end() message.PhyOffset { return f.start + message.PhyOffset(f.size) }

// contains tells whether phy lies in the file.
func (f *mappedFile) contains(phy message.PhyOffset) bool { return phy >= f.start && phy < f.end() }

// attach maps an open file of full length. The file belongs to f afterwards, also after an error.
//
// In SYNC_FLUSH the mapping is advised as read at random, whatever dataReadAheadEnable says: else populating the window ahead
// triggers the kernel's read-ahead, which fills it with folios of up to 128 KiB, and the first sync of each writes the whole
// folio. At 50 MiB/s with SYNC_FLUSH the device wrote 2.2 to 2.4 bytes per appended byte without the advice, 1.2 to 1.3 with it
// (ext4, Linux 6.18; TestMeasureAppendForms). In ASYNC_FLUSH, where a sync covers many folios, they make populating cheaper, as long as
// the device reads no more than a few at once. Reads that profit from read-ahead are preads, which the advice does not concern:
// dataReadAheadEnable decides about those.
func (f *mappedFile) attach(file sysio.File, set *settings) error {
	adviseReads(file, set.readAhead)
	m, err := file.Map(f.size)
	if err != nil {
		file.Close()
		return fmt.Errorf("map %s: %w", f.path, err)
	}
	if set.syncFlush {
		_ = m.AdviseRandom(0, f.size) // a hint, as the other: the log works without it
	} else {
		_ = m.BoundReadAhead(0, f.size)
	}
	f.mapped.Store(true)
	f.view.Store(&mappedView{file: file, mapping: m, data: m.Bytes()})
	return nil
}

// adviseReads tells the kernel how ReadAt of a log file will come (dataReadAheadEnable). A hint: reading works without it.
func adviseReads(file sysio.File, readAhead bool) {
	if !readAhead {
		_ = file.AdviseRandom()
	}
}

func (v *mappedView) close() error {
	err := v.mapping.Unmap()
	if cerr := v.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// syncRange makes [from, to) of the file durable, counted from the file's start. Only the named pages are written when the
// file is mapped (see design.md 6: fdatasync would write the touched window as well).
func (f *mappedFile) syncRange(fsys sysio.FS, from, to int64, whole bool) error {
	if v := f.view.Load(); v != nil {
		if whole {
			return v.file.Datasync()
		}
		// The kernel takes the right to write from each page that it syncs, and each time interrupts the other processors, so that they
		// forget it. One call that takes the written pages out of the mapping spares all of that: 8 % of sends on 2 cores.
		_ = v.mapping.Forget(from, to-from) // locked pages stay; a hint
		return v.mapping.SyncRange(from, to-from)
	}
	file, err := fsys.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = file.Datasync()
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

// fileTable is the log's files, oldest first, contiguous and of equal size. It is immutable; a change publishes a new one.
type fileTable struct {
	size  int64
	files []*mappedFile
}

// at returns the file that holds phy, nil outside of the log's files.
// hot: 0 allocs, no locks
func (t *fileTable) at(phy message.PhyOffset) *mappedFile {
	if len(t.files) == 0 {
		return nil
	}
	off := int64(phy - t.files[0].start)
	if off < 0 {
		return nil
	}
	i := off / t.size
	if i >= int64(len(t.files)) {
		return nil
	}
	return t.files[i]
}

// last returns the newest file, nil without any.
func (t *fileTable) last() *mappedFile {
	if len(t.files) == 0 {
		return nil
	}
	return t.files[len(t.files)-1]
}

// with returns the table with one more file at the end. The array may be shared: only the allocator appends (under tableMu),
// and readers of an older table never look behind its length.
func (t *fileTable) with(f *mappedFile) *fileTable {
	return &fileTable{size: t.size, files: append(t.files, f)}
}

// fileName is the name of a data file that begins at off: decimal, padded to 20 digits (UtilAll.offset2FileName, 5.5.0).
func fileName(off int64) string { return fmt.Sprintf("%0*d", nameDigits, off) }

// parseFileName is the inverse of fileName.
func parseFileName(name string) (int64, bool) {
	if len(name) < nameDigits {
		return 0, false
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || fileName(n) != name {
		return 0, false
	}
	return n, true
}

func dataPath(dir string, off int64) string { return filepath.Join(dir, fileName(off)) }
