package store

import (
	"sync/atomic"
	"time"
)

// settings is what the store takes out of broker.conf, in its own units.
type settings struct {
	root     string // storePathRootDir
	logDir   string // storePathCommitLog
	queueDir string // root/consumequeue

	segmentBytes   int64  // mappedFileSizeCommitLog
	queueFileBytes int64  // mappedFileSizeConsumeQueue, a multiple of unitBytes
	extDir         string // root/consumequeue_ext
	extFileBytes   int64  // mappedFileSizeConsumeQueueExt
	extWrite       bool   // enableConsumeQueueExt

	indexDir   string        // root/index
	index      indexGeometry // maxHashSlotNum, maxIndexNum
	indexWrite bool          // messageIndexEnable and indexFileWriteEnable
	indexRead  bool          // indexFileReadEnable

	syncFlush bool // flushDiskType=SYNC_FLUSH
	direct    bool // writeWithoutMmap
	readAhead bool // dataReadAheadEnable
	checkCRC  bool // checkCRCOnRecover

	warm          bool  // warmMapedFileEnable, and not direct
	warmStepBytes int64 // flushLeastPagesWhenWarmMapedFile

	adjustable
	live *atomic.Pointer[adjustable] // adjustable as it is now; shared by all copies

	prepare   func(begin func() error) error // Options.Prepare, nil: nothing
	tickEvery time.Duration                  // tickInterval; 0: the tests of this package call tick themselves
}

// adjustable are the settings that can change at run time (Store.Configure). What reads them asks settings.now.
type adjustable struct {
	recordBytesMax int64 // maxMessageSize + recordOverheadMax
	warnPct        int   // diskSpaceWarningLevelRatio
	forcePct       int   // diskSpaceCleanForciblyRatio
	retention      retention
}

// now returns the settings that can change, as they are.
//
// hot: 0 allocs, one atomic load.
func (s *settings) now() *adjustable { return s.live.Load() }
