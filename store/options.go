package store

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Options is what Open needs.
type Options struct {
	FS     sysio.FS       // nil: the machine's file system
	Config *config.Config // required; only read
	Logger *slog.Logger   // nil: no lines
	// Now is the clock of store times, nil the machine's. Called under the append lock once per batch: it must be quick.
	Now func() message.Millis
	// Progress is called about once per second while Open recovers, on a goroutine of its own; nil is allowed.
	Progress func(RecoveryProgress)
	// Prepare may change the directory before it is recovered, for `peregrine dump --repair`: it is called with the lock held, on a
	// directory that is not refused. begin marks the directory as one that crashed, of an unknown run, so that whatever becomes of
	// the changes, the next start looks at everything: call it before the first one. An error of Prepare is Open's. May be nil.
	Prepare func(begin func() error) error
}

// Open takes the directory that the configuration names, makes it if it is missing, recovers it and makes it ready to append.
// The lock is taken before anything is looked at. Errors: a *LockedError (at once) when another process works on the directory,
// a *RefusedError when its content cannot be taken over, else what the file system said. A directory that is refused is left
// as it was.
//
// Dispatch has to begin at Recovery().RedispatchFrom. Next offsets are right from the beginning; Max of a queue is complete
// when dispatch has reached Recovery().End.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = sysio.OS{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = nowMillis
	}
	set, err := settingsOf(o.Config)
	if err != nil {
		return nil, err
	}
	set.prepare = o.Prepare
	return open(o.FS, set, o.Logger, o.Now, o.Progress)
}

// Check tells whether Open would refuse the directory that the configuration names: a *RefusedError. It changes nothing and does
// not look at the lock.
func Check(fsys sysio.FS, c *config.Config) error {
	set, err := settingsOf(c)
	if err == nil {
		_, err = inspect(fsys, set)
	}
	return err
}

// DamagedHeads returns the records, by position with their lengths, that the last start stepped over because their heads are damaged: what
// nobody can tell any more once their queues are made again. The state file knows them, as long as it is there.
func DamagedHeads(fsys sysio.FS, c *config.Config) map[message.PhyOffset]int64 {
	st, err := readState(fsys, c.StorePathRootDir)
	if err != nil || st == nil {
		return nil
	}
	heads := map[message.PhyOffset]int64{}
	for _, d := range st.damaged {
		if strings.HasPrefix(d.Reason, headDamaged) {
			heads[d.Phy] = d.Bytes
		}
	}
	return heads
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func settingsOf(c *config.Config) (settings, error) {
	set := settings{
		root:           c.StorePathRootDir,
		logDir:         c.CommitLogDir(),
		queueDir:       filepath.Join(c.StorePathRootDir, queueDirName),
		segmentBytes:   c.MappedFileSizeCommitLog,
		queueFileBytes: (c.MappedFileSizeConsumeQueue + unitBytes - 1) / unitBytes * unitBytes,
		extDir:         filepath.Join(c.StorePathRootDir, extDirName),
		extFileBytes:   max(c.MappedFileSizeConsumeQueueExt, extUnitBytes+extBlankBytes),
		extWrite:       c.EnableConsumeQueueExt,
		indexDir:       filepath.Join(c.StorePathRootDir, indexDirName),
		index:          indexGeometry{slots: int64(c.MaxHashSlotNum), items: int64(c.MaxIndexNum)},
		indexWrite:     c.MessageIndexEnable && c.IndexFileWriteEnable,
		indexRead:      c.IndexFileReadEnable,
		syncFlush:      c.SyncFlushed(),
		direct:         c.WriteWithoutMmap,
		readAhead:      c.DataReadAheadEnable,
		warm:           c.WarmMapedFileEnable && !c.WriteWithoutMmap,
		warmStepBytes:  int64(c.FlushLeastPagesWhenWarmMapedFile) * sysio.PageSize,
		checkCRC:       c.CheckCRCOnRecover,
		tickEvery:      tickInterval,
	}
	var err error
	if set.adjustable, err = adjustableOf(c); err != nil {
		return set, err
	}
	if strings.Contains(c.StorePathCommitLog, ",") {
		return set, refuse(c.StorePathCommitLog, "storePathCommitLog names several directories; a log over several directories is not supported, name one")
	}
	return set, nil
}

func adjustableOf(c *config.Config) (adjustable, error) {
	a := adjustable{
		recordBytesMax: int64(c.MaxMessageSize) + recordOverheadMax,
		warnPct:        c.DiskSpaceWarningLevelRatio,
		forcePct:       min(c.DiskSpaceCleanForciblyRatio, c.DiskSpaceWarningLevelRatio),
	}
	hours, err := parseHours(c.DeleteWhen)
	a.retention = retention{
		every: millis(c.CleanResourceInterval), keep: time.Duration(c.FileReservedTime) * time.Hour, hours: hours,
		batch: c.DeleteFileBatchMax, filePause: millis(c.DeleteCommitLogFilesInterval), queuePause: millis(c.DeleteConsumeQueueFilesInterval),
		forced: c.CleanFileForciblyEnable, usedPct: c.DiskMaxUsedSpaceRatio,
	}
	return a, err
}

// Configure puts settings into effect that can change at run time: the size of records, retention and the marks of the disk.
// The configuration has been checked (config.Live). Any goroutine.
func (s *Store) Configure(c *config.Config) {
	a, err := adjustableOf(c)
	if err != nil {
		s.logger.Error("settings are not in effect", "err", err)
		return
	}
	s.set.live.Store(&a)
}
