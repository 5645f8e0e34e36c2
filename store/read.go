package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Slice returns the n bytes at phy out of the mapping, nil when they are not mapped or not in one file or not written yet.
// Not to be changed, and to be let go of within the turn that asked: the mapping goes unmapGraceTicks after its file left the
// hot window. Ask IsHot first if a page fault would hurt. Any goroutine.
// hot: 0 allocs, no locks
func (l *CommitLog) Slice(phy message.PhyOffset, n int) []byte {
	if n < 0 || phy+message.PhyOffset(n) > l.Wrote() {
		return nil
	}
	f := l.files.Load().at(phy)
	if f == nil || int64(phy-f.start)+int64(n) > f.size {
		return nil
	}
	v := f.view.Load()
	if v == nil {
		return nil
	}
	at := int64(phy - f.start)
	return v.data[at : at+int64(n) : at+int64(n)]
}

// IsHot tells whether the page of phy is taken to be in memory: the position was written or scanned in this run and lies in
// the window behind the write position that the machine's available memory allows. A guess, refreshed every second.
// hot: 0 allocs, no locks
func (l *CommitLog) IsHot(phy message.PhyOffset) bool {
	return int64(phy) >= l.hotFrom.Load()
}

// ReadAt fills buf with the log's bytes from phy on, by pread. It reads fewer than len(buf) bytes, without an error, where the
// file of phy or the log ends. io.EOF at or behind the end of the log, ErrOutOfRange before its start. Any goroutine; it may
// wait for the disk.
func (l *CommitLog) ReadAt(buf []byte, phy message.PhyOffset) (int, error) {
	wrote := l.Wrote()
	if phy >= wrote {
		return 0, io.EOF
	}
	f := l.files.Load().at(phy)
	if f == nil {
		return 0, fmt.Errorf("%w: commitlog position %d, the log begins at %d", ErrOutOfRange, phy, l.MinPhy())
	}
	n := min(int64(len(buf)), int64(min(f.end(), wrote)-phy))
	if err := l.readFile(f, buf[:n], int64(phy-f.start)); err != nil {
		if l.isDeleted(phy) { // while we were at it
			return 0, fmt.Errorf("%w: commitlog position %d was deleted, the log begins at %d", ErrOutOfRange, phy, l.MinPhy())
		}
		return 0, err
	}
	return int(n), nil
}

// readFile reads from one file, through its own descriptor if it has one.
func (l *CommitLog) readFile(f *mappedFile, buf []byte, at int64) error {
	if v := f.view.Load(); v != nil {
		n, err := v.file.ReadAt(buf, at)
		if n == len(buf) {
			return nil
		}
		if !errors.Is(err, fs.ErrClosed) {
			return readFailed(f, at, err)
		}
		// Retired and closed under us: the cache opens the file once more.
	}
	key := fileKey{start: int64(f.start)}
	open := l.cold.acquire(key)
	if open == nil {
		file, err := l.fsys.OpenFile(f.path, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		adviseReads(file, l.set.readAhead)
		open = l.cold.insert(key, file)
		if l.isDeleted(f.start) {
			l.cold.drop(key) // the cleaner's drop may have come before our insert
		}
	}
	defer l.cold.release(open)
	n, err := open.file.ReadAt(buf, at)
	if n == len(buf) {
		return nil
	}
	return readFailed(f, at, err)
}

func readFailed(f *mappedFile, at int64, err error) error {
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at %d: %w", f.path, at, err)
}

// hotWindow is how many bytes behind the write position are taken to be in memory.
func hotWindow() int64 {
	avail, err := sysio.MemAvailable()
	if err != nil {
		return hotBytesMin
	}
	return max(avail/100*hotMemoryPercent, hotBytesMin)
}
