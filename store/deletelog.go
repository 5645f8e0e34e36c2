package store

import (
	"errors"
	"io/fs"
	"os"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// doomedFile is a log file without a name: its blocks go when nobody has it mapped any more.
type doomedFile struct {
	f    *mappedFile
	file sysio.File // own descriptor: keeps the blocks until they are given back in steps
	size int64
}

// oldestDeletable returns the oldest file if it may go: everything in it is durable, and so is a record behind it (else a power
// cut could leave a log without any). Nil: it may not, or there is none. The file of the write position and those made ahead
// never qualify.
func (l *CommitLog) oldestDeletable() *mappedFile {
	table := l.files.Load()
	if len(table.files) < 2 {
		return nil
	}
	f := table.files[0]
	if f.end() >= l.Flushed() {
		return nil
	}
	return f
}

// dropOldest takes f, the oldest file, out of the table: from here on MinPhy is its end and nobody gets a new slice of it.
func (l *CommitLog) dropOldest(f *mappedFile) {
	l.tableMu.Lock()
	defer l.tableMu.Unlock()
	t := l.files.Load()
	if len(t.files) > 0 && t.files[0] == f {
		l.files.Store(&fileTable{size: t.size, files: t.files[1:]})
	}
}

// restoreOldest undoes dropOldest.
func (l *CommitLog) restoreOldest(f *mappedFile) {
	l.tableMu.Lock()
	defer l.tableMu.Unlock()
	t := l.files.Load()
	l.files.Store(&fileTable{size: t.size, files: append([]*mappedFile{f}, t.files...)})
}

// deleteLogFile deletes the oldest file of the log. Its name goes at once; its blocks stay until the last slice of it must
// have been let go of. False: it could not be deleted and is still part of the log. The caller holds passMu.
func (c *cleaner) deleteLogFile(f *mappedFile, gone bool) bool {
	l := c.s.log
	var own sysio.File
	if !gone {
		var err error
		if own, err = l.fsys.OpenFile(f.path, os.O_RDWR, 0); err != nil {
			c.removeFailed(f, err)
			return false
		}
	}
	l.dropOldest(f)
	if err := l.fsys.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.restoreOldest(f)
		own.Close()
		c.removeFailed(f, err)
		return false
	}
	c.removeFail = false
	// The names must vanish in order, or a power cut would leave a log with a gap.
	if err := l.fsys.SyncDir(l.set.logDir); err != nil {
		l.logger.Warn("sync the commitlog folder after a deletion", "error", err)
	}
	l.cold.drop(fileKey{start: int64(f.start)})
	if v := f.view.Swap(nil); v != nil {
		l.tableMu.Lock()
		l.orphans = append(l.orphans, retiredView{view: v, f: f})
		l.tableMu.Unlock()
	}
	c.counts.files.Add(1)
	if own != nil {
		c.pending.Add(f.size)
		c.doomed = append(c.doomed, doomedFile{f: f, file: own, size: f.size})
		c.releaseUnmapped()
	}
	return true
}

func (c *cleaner) removeFailed(f *mappedFile, err error) {
	if !c.removeFail {
		c.removeFail = true
		c.s.log.logger.Error("a commitlog file cannot be deleted; it is tried again with every look", "file", f.path, "error", err)
	}
}

// giveBack is a wake-up by the ticker: mappings were closed.
func (c *cleaner) giveBack() {
	c.passMu.Lock()
	defer c.passMu.Unlock()
	c.releaseUnmapped()
}

// releaseUnmapped gives the blocks of deleted files back, those that nobody has mapped. In steps: to free a whole
// file at once keeps the journal of the file system busy, and with it the syncs of the log. The caller holds passMu.
func (c *cleaner) releaseUnmapped() {
	kept := c.doomed[:0]
	for _, d := range c.doomed {
		if d.f.mapped.Load() {
			kept = append(kept, d)
			continue
		}
		for d.size > 0 {
			step := min(d.size, shrinkStepBytes)
			if err := d.file.Truncate(d.size - step); err != nil {
				break // Close gives back the rest
			}
			d.size -= step
			c.pending.Add(-step)
			c.counts.bytes.Add(step)
			if d.size > 0 && !c.pause(shrinkPause) {
				break
			}
		}
		_ = d.file.Close()
		c.pending.Add(-d.size)
		c.counts.bytes.Add(d.size)
	}
	clear(c.doomed[len(kept):])
	c.doomed = kept
}

// letGo closes the descriptors of deleted files: the store is being closed, the system gives their blocks back.
func (c *cleaner) letGo() {
	c.passMu.Lock()
	defer c.passMu.Unlock()
	for _, d := range c.doomed {
		_ = d.file.Close()
	}
	c.doomed = nil
}

// adoptOrphans takes over the mappings of deleted files, to be closed like those that left the hot window.
func (l *CommitLog) adoptOrphans() {
	l.tableMu.Lock()
	defer l.tableMu.Unlock()
	l.retired = append(l.retired, l.orphans...)
	l.orphans = nil
}

// isDeleted tells whether the bytes at phy were deleted by retention.
func (l *CommitLog) isDeleted(phy message.PhyOffset) bool { return phy < l.MinPhy() }
