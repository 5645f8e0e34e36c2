package store

// checkDisk looks at the space of the partitions. Above diskSpaceWarningLevelRatio sends are refused, until the share is at
// most diskSpaceCleanForciblyRatio again: between the two everything stays as it was (CleanCommitLogService, 5.5.0).
func (s *Store) checkDisk() {
	worst := &DiskFullError{Threshold: s.set.warnPct}
	for _, dir := range []string{s.set.logDir, s.set.queueDir} {
		u, err := s.fsys.DiskUsage(dir)
		if err != nil {
			// Not a reason to refuse: a write that finds no space says so itself. Nor one to accept again.
			if !s.diskUnknown {
				s.diskUnknown = true
				s.logger.Warn("the disk does not tell its space; the last known state is kept", "path", dir, "error", err)
			}
			return
		}
		if pct := u.UsedPercent(); pct > worst.UsedPct {
			worst.Path, worst.UsedPct = dir, pct
		}
	}
	s.diskUnknown = false
	switch {
	case worst.UsedPct > s.set.warnPct:
		if !s.diskFull {
			s.logger.Error("disk full: sends are refused", "path", worst.Path, "usedPercent", worst.UsedPct, "threshold", s.set.warnPct)
		}
		s.diskFull = true
		s.log.setCause(&s.log.full, worst)
	case worst.UsedPct <= s.set.forcePct && s.diskFull:
		s.logger.Info("disk has space again: sends are accepted", "path", worst.Path, "usedPercent", worst.UsedPct)
		s.diskFull = false
		s.log.setCause(&s.log.full, nil)
	}
}
