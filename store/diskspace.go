package store

import (
	"path/filepath"

	"peregrine/internal/sysio"
)

// diskUse is what a look at the partitions gave.
type diskUse struct {
	path  string // of the fuller partition
	pct   int    // its used share, rounded up
	known bool
}

// measureDisk looks at the partitions of log and queues. coming is how many bytes of the log's partition are about to be
// given back. An error tells which partition does not say.
func (s *Store) measureDisk(coming int64) (diskUse, error) {
	worst := diskUse{known: true}
	var total int64
	for i, dir := range []string{s.set.logDir, s.set.queueDir} {
		u, err := s.fsys.DiskUsage(dir)
		if err != nil {
			return diskUse{path: dir}, err
		}
		if i == 0 {
			total = u.Total
		}
		if u.Total == total { // the queues mostly lie on the log's partition
			freed := min(coming, u.Used)
			u.Used -= freed
			u.Usable += freed
		}
		if pct := u.UsedPercent(); pct > worst.pct {
			worst.path, worst.pct = dir, pct
		}
	}
	return worst, nil
}

// checkDisk looks at the space of the partitions. Above diskSpaceWarningLevelRatio sends are refused, until the share is at
// most diskSpaceCleanForciblyRatio again: between the two everything stays as it was (CleanCommitLogService, 5.5.0).
func (s *Store) checkDisk() {
	worst, err := s.measureDisk(0)
	if err != nil {
		// Not a reason to refuse: a write that finds no space says so itself. Nor one to accept again.
		s.usedPct.Store(-1)
		if !s.diskUnknown {
			s.diskUnknown = true
			s.logger.Warn("the disk does not tell its space; the last known state is kept", "path", worst.path, "error", err)
		}
		return
	}
	s.diskUnknown = false
	s.usedPct.Store(int64(worst.pct))
	if forced := worst.pct > s.set.now().forcePct; forced != s.diskForced {
		s.diskForced = forced
		if forced && s.cleaner.began.Load() {
			s.cleaner.bringForward()
		}
	}
	switch {
	case worst.pct > s.set.now().warnPct:
		if !s.diskFull {
			s.logger.Error("disk full: sends are refused", "path", worst.path, "usedPercent", worst.pct, "threshold", s.set.now().warnPct)
		}
		s.diskFull = true
		s.log.setCause(&s.log.full, &DiskFullError{Path: worst.path, UsedPct: worst.pct, Threshold: s.set.now().warnPct})
	case worst.pct <= s.set.now().forcePct && s.diskFull:
		s.logger.Info("disk has space again: sends are accepted", "path", worst.path, "usedPercent", worst.pct)
		s.diskFull = false
		s.log.setCause(&s.log.full, nil)
	}
}

// roomFor tells whether n more bytes in dir keep its partition at or below percent. A disk that cannot be asked is not a reason to
// refuse: the allocation itself will tell.
func roomFor(fsys sysio.FS, dir string, n int64, percent int) error {
	u, err := fsys.DiskUsage(dir)
	if err != nil {
		return nil
	}
	used := u.UsedPercent()
	u.Used += n
	u.Usable -= n
	if u.Usable < 0 || u.UsedPercent() > percent {
		return &DiskFullError{Path: dir, UsedPct: used, Threshold: percent}
	}
	return nil
}

// noSpace is the refusal after a write to path for which the system had no space, with what its partition tells.
func noSpace(fsys sysio.FS, path string, threshold int, cause error) *DiskFullError {
	full := &DiskFullError{Path: path, Threshold: threshold, Cause: cause}
	if u, err := fsys.DiskUsage(filepath.Dir(path)); err == nil {
		full.UsedPct = u.UsedPercent()
	}
	return full
}

// doomedFiles is how many files may go next: the mappings of these end early, so that deleting them frees space at once. A mapping takes
// unmapGraceTicks to end; so what a disk that is written quickly will have too much by then counts, too: it would be full before. Called with
// every tick.
func (s *Store) doomedFiles() int {
	wrote := s.Wrote()
	before := &s.wroteBefore[s.ticks%paceTicks]
	grown := int64(0)
	if s.ticks >= paceTicks {
		grown = int64(wrote-*before) * unmapGraceTicks / paceTicks
	}
	*before = wrote
	s.ticks++
	set := &s.set.now().retention
	if int(s.usedPct.Load()) > set.usedPct {
		return set.batch
	}
	u, err := s.fsys.DiskUsage(s.set.logDir)
	tooMuch := u.Used + grown - (u.Used+u.Usable)/100*int64(set.usedPct)
	if err != nil || grown == 0 || tooMuch <= 0 {
		return 0
	}
	return min(set.batch, int(tooMuch/s.set.segmentBytes)+1)
}
