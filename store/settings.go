package store

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
	recordBytesMax int64  // maxMessageSize + recordOverheadMax

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

	warnPct  int // diskSpaceWarningLevelRatio
	forcePct int // diskSpaceCleanForciblyRatio

	retention retention

	prepare func(begin func() error) error // Options.Prepare, nil: nothing
}
