package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// RecoveryReport tells what Open found and did.
type RecoveryReport struct {
	Clean   bool              // the last run ended cleanly
	Whole   bool              // all records were looked at: nobody knew how the directory came to be what it is
	From    message.PhyOffset // where the scan of the log began
	End     message.PhyOffset // the end of the log
	Checked int64             // records whose length, magic, position and CRC were checked
	// Cut is how many bytes behind End held something that is no record of this log; they are zero now. CutFiles are whole
	// files behind End that were deleted (empty ones) or moved to the folder "cut" (others).
	Cut      int64
	CutFiles int
	// RedispatchFrom is the smallest position from which a queue may lack units. Dispatch starts there; what is in the
	// queues already is skipped.
	RedispatchFrom message.PhyOffset
	// UnitsCut counts queue entries that named records at or behind End.
	UnitsCut int64
	// Rewritten is how many bytes were written once more, because the last run may have left them in a page
	// cache that lies about them.
	Rewritten int64
	// Damaged lists, in order, up to damagedListMax places where a record is damaged although valid ones follow.
	Damaged      []DamagedRange
	DamagedCount int64
	Queues       int
	// WithoutFolder are the topics that only the log names, when all of it was looked at and other topics have folders of queues.
	// Unless the broker knows such a topic it was deleted by another broker: DeleteTopic keeps it from coming back.
	WithoutFolder []string
	Warnings      []string
	Took          time.Duration
}

// DamagedRange is a part of the log that holds no valid record and was stepped over. Its bytes are kept.
type DamagedRange struct {
	Phy    message.PhyOffset
	Bytes  int64
	Reason string
}

// RecoveryProgress is what Options.Progress gets about once per second while Open works.
type RecoveryProgress struct {
	From, At, End message.PhyOffset // the scan began at From, is at At and ends at End at the latest
	Checked       int64             // records so far
}

// recovery is one pass over a directory. It ends with a store that is consistent and ready to append.
type recovery struct {
	s      *Store
	lay    *layout
	logger *slog.Logger
	report RecoveryReport
	// at and checked are shared with the progress goroutine.
	at      atomic.Int64
	checked atomic.Int64
	limit   message.PhyOffset
	from    atomic.Int64
	last    message.Millis // store time of the newest valid record
	seen    map[*Queue]seenOffsets

	trust   trust
	saved   *savedState    // of the run that crashed, nil unless it is known
	known   []DamagedRange // what the state file says was stepped over, in order, also where nothing else of it is believed
	whyScan string         // why all records are looked at
	probe   *logScanner    // for looks beside the scan
	windows unitWindows
	tailsMu sync.Mutex                     // while queues are loaded
	tails   map[*Queue]message.QueueOffset // the end of the files of queues that may hold something behind their own end
	loose   looseNames
	keys    Index // for hashes of keys
	below   map[*Queue]belowFiles
	died    map[string]death  // topics that another broker deleted, see settleDeleted
	lowered bool              // deletions, see lowerDeleted
	missing message.PhyOffset // trustNothing and trustCache: the first record that lacks its unit
	told    int64             // damaged places that this start met

	order    map[*Queue]*queueOrder // of one walk over the log
	walkFrom message.PhyOffset      // where it began
	heldBack int                    // records in it that break the row

	extQueues []*Queue // trustAll: those whose last unit names an ext unit

	// original is where the original would begin; found out with the first damaged place.
	original originalStarts
	// durableTo is the position up to which log and queues are known to be durable.
	durableTo message.PhyOffset
}

// seenOffsets is what the scanned part of the log tells about a queue: the smallest offset in it and one more than the
// largest.
type seenOffsets struct{ first, next message.QueueOffset }

// run recovers. The abort file is written already, so that a crash in here leads to another crash start.
func (r *recovery) run(progress func(RecoveryProgress)) error {
	began := time.Now()
	r.report.Clean = !r.lay.crashed
	r.report.Warnings = r.lay.warnings
	l := r.s.log
	if err := r.openLogFiles(); err != nil {
		return err
	}
	if err := r.mendExt(); err != nil {
		return err
	}
	table := l.files.Load()
	if last := table.last(); last != nil {
		r.limit = last.end()
	}
	stopProgress := r.reportProgress(progress)
	defer stopProgress()
	r.probe = &logScanner{fsys: l.fsys, table: table, checkCRC: l.set.checkCRC, block: probeBlockBytes}
	defer r.probe.close()
	if st := r.chooseTrust(); r.trust != trustAll {
		if err := r.judgeCheckpoint(st); err != nil {
			return err
		}
		if err := r.rebuild(); err != nil {
			return err
		}
		if err := r.judgeTimes(); err != nil {
			return err
		}
	} else if err := r.dropDeleted(); err != nil {
		return err
	}
	if before := r.report.DamagedCount - r.told; before > 0 {
		r.logger.Warn("damaged places of the log that an earlier start met are stepped over; dump --verify lists them and says where the original would cut the log",
			"places", before)
	}
	end := r.report.End
	if err := r.cutLog(end); err != nil {
		return err
	}
	if err := r.settleDeleted(end); err != nil {
		return err
	}
	if r.trust != trustAll {
		if err := r.settleQueues(end); err != nil {
			return err
		}
		r.keepNext()
	}
	if err := r.settlePositions(end); err != nil {
		return err
	}
	if r.trust != trustAll {
		if err := errors.Join(r.s.checkpoint.cutTo(end, r.report.From, r.last), r.correctMin()); err != nil {
			return err
		}
	}
	if err := r.warnLostExt(); err != nil {
		return err
	}
	r.report.Whole = r.trust == trustNothing
	r.report.Queues = int(r.s.queues.count.Load())
	r.report.WithoutFolder = r.withoutFolder()
	r.report.Took = time.Since(began)
	return nil
}

// rebuild finds the ends of queues and log.
func (r *recovery) rebuild() error {
	if r.trust == trustNothing {
		if err := r.lowerDeleted(); err != nil {
			return err
		}
	}
	if err := r.loadQueues(); err != nil {
		return err
	}
	if err := r.dropDeleted(); err != nil {
		return err
	}
	r.missingUnits()
	end, err := r.scanLog()
	r.report.End = end
	if r.saved != nil {
		r.keepDamaged(r.saved)
	}
	slices.SortFunc(r.report.Damaged, func(a, b DamagedRange) int { return cmp.Compare(a.Phy, b.Phy) })
	return err
}

// keepDamaged takes over what an earlier start found in the part of the log that this one does not look at.
func (r *recovery) keepDamaged(st *savedState) {
	r.report.DamagedCount += st.damagedCount - int64(len(st.damaged))
	for _, d := range st.damaged {
		if d.Phy < r.report.From && d.Phy >= r.s.log.MinPhy() && len(r.report.Damaged) < damagedListMax {
			r.report.DamagedCount++
			r.report.Damaged = append(r.report.Damaged, d)
			r.s.damaged[d.Phy] = true
		}
	}
}

// settleQueues makes the queues agree with a log that ends at end.
func (r *recovery) settleQueues(end message.PhyOffset) error {
	r.saveDamaged()
	if err := r.clearTails(); err != nil {
		return err
	}
	if err := r.cutQueues(end); err != nil {
		return err
	}
	if r.trust == trustNothing {
		if err := r.eachQueue(r.cutForeign); err != nil {
			return err
		}
	}
	switch {
	case !r.lay.crashed:
		return nil
	case r.trust == trustCache:
		return r.eachQueue(func(q *Queue) error { return r.rewriteUnits(q, r.durableTo) })
	}
	// What is cut here is dispatched anew. Until it is durable again no checkpoint may promise it: a start after kill -9 would
	// begin behind it.
	if err := r.s.checkpoint.lowerTo(r.report.RedispatchFrom); err != nil {
		return err
	}
	return r.cutUntrusted()
}

// reportProgress calls progress now and then until the returned function is called.
func (r *recovery) reportProgress(progress func(RecoveryProgress)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				progress(RecoveryProgress{From: message.PhyOffset(r.from.Load()), At: message.PhyOffset(r.at.Load()), End: r.limit, Checked: r.checked.Load()})
			}
		}
	}()
	return func() { close(quit); <-done }
}

// openLogFiles fills the file table from the layout. Short files get their length back; what is behind the end of the log is
// sorted out later.
func (r *recovery) openLogFiles() error {
	l := r.s.log
	table := &fileTable{size: l.set.segmentBytes}
	for _, d := range r.lay.log {
		if d.size < l.set.segmentBytes {
			if err := setLength(l.fsys, d.path, l.set.segmentBytes); err != nil {
				return err
			}
		}
		table = table.with(&mappedFile{start: message.PhyOffset(d.start), size: l.set.segmentBytes, path: d.path})
	}
	l.files.Store(table)
	return nil
}

func setLength(fsys sysio.FS, path string, n int64) error {
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(n)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// cutLog removes what lies behind the end: the rest of the file that holds it becomes zero, later files go. A stale record
// there would be taken for a real one as soon as new records end where it begins.
func (r *recovery) cutLog(end message.PhyOffset) error {
	l := r.s.log
	table := l.files.Load()
	keep := len(table.files)
	for keep > 0 && table.files[keep-1].start >= end {
		keep--
	}
	// A log never loses its last file: where it began would be forgotten, and queues that are cut below would have no log at all if the
	// machine went down before that.
	keep = max(keep, min(1, len(table.files)))
	// From the newest on: a crash in between must not leave a gap in front of those that are still there.
	for _, f := range slices.Backward(table.files[keep:]) {
		if err := r.removeBehindEnd(f); err != nil {
			return err
		}
	}
	if keep < len(table.files) {
		l.files.Store(&fileTable{size: table.size, files: table.files[:keep:keep]})
		if err := l.fsys.SyncDir(l.set.logDir); err != nil {
			return err
		}
	}
	f := l.files.Load().at(end)
	if f == nil {
		return nil
	}
	file, err := l.fsys.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	at := int64(end - f.start)
	n, err := countCut(file, at, f.size)
	if err == nil {
		err = zeroTail(file, at, f.size)
	}
	if err == nil && (r.lay.crashed || n > 0) {
		err = file.Datasync() // before new records end where an old one begins, which a power cut would bring back
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("store: clear %s behind %d: %w", f.path, at, err)
	}
	if r.report.Cut = n; n > 0 {
		r.logger.Warn("the end of the log was torn: no queue entry, no index item and no start of a file names a record behind it; cut",
			"file", f.path, "position", int64(end), "bytes", n)
	}
	if err := f.attach(file, &r.s.set); err != nil {
		return err
	}
	f.allocated.Store(at)
	return nil
}

// removeBehindEnd deletes a file that was made ahead and never used. One that holds something is moved out of the way
// instead: what cannot be read here may still be worth something to somebody.
func (r *recovery) removeBehindEnd(f *mappedFile) error {
	r.report.CutFiles++
	fsys := r.s.fsys
	file, err := fsys.OpenFile(f.path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	n, err := countCut(file, 0, min(f.size, scanBlockBytes))
	file.Close()
	if err != nil {
		return err
	}
	if n == 0 {
		return fsys.Remove(f.path)
	}
	dir := filepath.Join(r.s.set.logDir, cutDirName) // the original ignores folders there, and a rename stays on the disk
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	to := filepath.Join(dir, fmt.Sprintf("%s-%d", filepath.Base(f.path), time.Now().UnixNano()))
	r.logger.Warn("a commitlog file behind the end of the log is not empty; moved", "file", f.path, "to", to)
	if err := fsys.Rename(f.path, to); err == nil {
		return nil
	}
	if err := copyFile(fsys, f.path, to, f.size); err != nil {
		return err
	}
	return fsys.Remove(f.path)
}

// copyFile is for file systems that cannot rename between folders.
func copyFile(fsys sysio.FS, from, to string, size int64) error {
	in, err := fsys.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := fsys.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	buf := make([]byte, min(1<<20, size))
	for at := int64(0); at < size && err == nil; {
		n := min(size-at, int64(len(buf)))
		if _, err = in.ReadAt(buf[:n], at); err == nil {
			_, err = out.WriteAt(buf[:n], at)
		}
		at += n
	}
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// countCut returns how many bytes from at on lie in front of the last one that is not zero, looking no further than a block
// without one.
func countCut(file sysio.File, at, size int64) (int64, error) {
	buf := make([]byte, max(0, min(64<<10, size-at)))
	last := at
	for pos := at; pos < size; {
		n := min(int64(len(buf)), size-pos)
		if _, err := file.ReadAt(buf[:n], pos); err != nil {
			return 0, err
		}
		used := withoutZeros(buf[:n])
		if used == 0 {
			break
		}
		last = pos + int64(used)
		pos += n
	}
	return last - at, nil
}

// withoutZeros returns the length of b without the zeros at its end.
func withoutZeros(b []byte) int {
	n := len(b)
	for n >= 8 && binary.NativeEndian.Uint64(b[n-8:]) == 0 {
		n -= 8
	}
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}

// holePuncher is a File that can turn a range into zeros without writing them.
type holePuncher interface {
	PunchHole(off, n int64) error
}

// zeroTail makes [at, size) read as zeros. Where the file system can, the blocks are given back (the allocator takes new ones);
// elsewhere what is not zero is overwritten.
func zeroTail(file sysio.File, at, size int64) error {
	if at >= size {
		return nil
	}
	if p, ok := file.(holePuncher); ok {
		if err := p.PunchHole(at, size-at); err == nil {
			return nil
		}
	}
	buf := make([]byte, min(1<<20, size-at))
	var zeros []byte
	for pos := at; pos < size; {
		n := min(int64(len(buf)), size-pos)
		if _, err := file.ReadAt(buf[:n], pos); err != nil {
			return err
		}
		if !allZero(buf[:n]) {
			if zeros == nil {
				zeros = make([]byte, len(buf))
			}
			if _, err := file.WriteAt(zeros[:n], pos); err != nil {
				return err
			}
		}
		pos += n
	}
	return nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// settlePositions makes the log ready to append at end. After a crash what the last run may not have synced is written once
// more; in SYNC_FLUSH it is durable before readers see it.
func (r *recovery) settlePositions(end message.PhyOffset) error {
	l := r.s.log
	durable := end
	if r.lay.crashed {
		mark := min(max(r.lay.checkpoint.LogicsPhysicalOffset, l.MinPhy()), end)
		if len(l.files.Load().files) == 0 {
			mark = end // only files without a record were left
		}
		if err := r.rewrite(mark, end); err != nil {
			return err
		}
		if !l.set.syncFlush {
			durable = mark // the flusher does the rest
		}
	}
	l.pos, l.pendingAt = end, end
	if f := l.files.Load().at(end); f != nil {
		l.cur, l.curData = f, f.view.Load().data
	}
	l.lastStore = r.last
	l.storeTime.Store(int64(r.last))
	l.flushedTime.Store(int64(r.s.checkpoint.now().PhysicMsgTimestamp))
	l.wrote.Store(int64(end))
	l.flushed.Store(int64(durable))
	l.residentFrom = min(r.report.From, end)
	l.mappedFrom.Store(int64(l.MinPhy()))
	if f := l.cur; f != nil {
		l.mappedFrom.Store(int64(f.start))
	} else if last := l.files.Load().last(); last != nil {
		l.mappedFrom.Store(int64(last.end()))
	}
	l.hotFrom.Store(max(int64(l.residentFrom), l.mappedFrom.Load()))
	l.touch.touched = end
	return nil
}

// rewrite reads [from, to) of the log and writes the same bytes again; in SYNC_FLUSH it syncs them too. After a sync that failed
// the kernel may hold pages for clean that never reached the disk; a later sync alone would skip them and report success.
func (r *recovery) rewrite(from, to message.PhyOffset) error {
	l := r.s.log
	buf := make([]byte, max(0, min(1<<20, to-from)))
	for from < to {
		f := l.files.Load().at(from)
		if f == nil {
			return fmt.Errorf("%w: rewrite at %d", ErrOutOfRange, from)
		}
		file, err := l.fsys.OpenFile(f.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		stop := min(to, f.end())
		for from < stop && err == nil {
			n := min(int64(stop-from), int64(len(buf)))
			if _, err = file.ReadAt(buf[:n], int64(from-f.start)); err == nil {
				_, err = file.WriteAt(buf[:n], int64(from-f.start))
			}
			from += message.PhyOffset(n)
			r.report.Rewritten += n
		}
		if err == nil && l.set.syncFlush {
			err = file.Datasync()
		}
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("store: rewrite %s: %w", f.path, err)
		}
	}
	return l.fsys.SyncDir(l.set.logDir)
}
