package store

import "time"

// On-disk constants, frozen by the original's format (CommitLog, ConsumeQueue, StoreCheckpoint of 5.5.0).
const (
	// unitBytes is one ConsumeQueue entry: i64 position, i32 size, i64 tags code.
	unitBytes = 20
	// preBlankSize is the size field of a unit that only keeps a queue offset occupied; readers step over it.
	preBlankSize = 1<<31 - 1
	// extUnitBytes is a unit of an ext file without a bit map (CqExtUnit.MIN_EXT_UNIT_SIZE); extBlankBytes stay free behind
	// the last one of a file (ConsumeQueueExt.END_BLANK_DATA_LENGTH); extPositionMax is the last position that has an address
	// with room for a unit behind it (ConsumeQueueExt.MAX_REAL_OFFSET).
	extUnitBytes   = 20
	extBlankBytes  = 4
	extPositionMax = 1<<63 - 1<<31 - 1 - extUnitBytes
	// blankBytes is the end-of-file mark; as many bytes stay free behind every record of a file.
	blankBytes = 8
	// checkpointBytes is the length of the checkpoint file.
	checkpointBytes = 4096
	// nameDigits is the least number of digits in a data file's name.
	nameDigits = 20
	// recordOverheadMax is what a record may have beyond maxMessageSize (topic, properties, header).
	recordOverheadMax = 64 << 10
)

// Space ahead of the write position.
const (
	// touchWindowBytes is how far ahead of the write position pages are made present and writable. Touched pages are dirty
	// and the kernel may write them once more, so it is no larger than what a few milliseconds of a full-rate burst need:
	// 16 MiB are 30 ms at 500 MB/s, populating 1 MiB takes about 0.5 ms.
	touchWindowBytes = 16 << 20
	// touchStepBytes is what one populate call covers; Unmap waits for at most one of them.
	touchStepBytes = 1 << 20
	// allocateStepBytes is how far blocks are given to a file that is not allocated as a whole.
	allocateStepBytes = 64 << 20
	// allocateAheadBytes must be allocated ahead of the write position, however small the files are, but in no more than
	// allocateAheadFiles files: after kill -9 they are there still, and the original looks at no more than ten files from the newest
	// back for one to recover from (commitLogRecoverMaxNum). Finds it only empty ones, it takes the log for empty up to there.
	allocateAheadBytes = 64 << 20
	allocateAheadFiles = 3
	// allocateWaitMax is how long an append waits for a file that is being made before it is refused (5 s in the original).
	allocateWaitMax = 5 * time.Second
)

// Warming (warmMapedFileEnable).
const (
	// lockedFilesMax is how many files of the log are locked into memory: the one being written and the next.
	lockedFilesMax = 2
	// lockedMemoryPercent bounds the locked bytes by the memory that is available, they included.
	lockedMemoryPercent = 50
)

// Append.
const (
	// directScratchBytes is the buffer of the writeWithoutMmap form: a batch that is larger takes several writes.
	directScratchBytes = 4 << 20
)

// Queues.
const (
	// ringUnitsMin and ringUnitsMax bound the newest units that one queue keeps in memory; both are powers of two.
	ringUnitsMin = 64
	ringUnitsMax = 4096
	// ringBudgetBytes bounds the memory of all rings together: 16 MiB are 170 queues at ringUnitsMax, 10,900 at ringUnitsMin.
	ringBudgetBytes = 16 << 20
	// ringIdleTicks is how many seconds without a new unit make a ring one that may be taken away when the budget is short.
	ringIdleTicks = 5
	// openFilesMax bounds the descriptors of ConsumeQueue files and of cold CommitLog files together.
	openFilesMax = 512
	// queueIDDenseMax is below which queue ids index an array; the few larger ones that exist live in a map.
	queueIDDenseMax = 4096
	// queueShardCount is the number of tables that topics are spread over, a power of two. Creating a queue copies one.
	queueShardCount = 256
	// preBlankUnitsMax bounds the gap that AppendUnits fills in front of a unit: a damaged queue offset must not fill the disk.
	preBlankUnitsMax = 3_000_000
	// unitChunk is how many units are encoded for one pwrite.
	unitChunk = 2048
	// topicNameBytesMax is the longest name of a directory entry.
	topicNameBytesMax = 255
)

// Background work.
const (
	// probeBytes is what shows that the disk takes durable writes again: enough that blocks have to be found for it.
	probeBytes = 64 << 10
	// tickInterval is the rhythm of the disk check, the hot window and the checkpoint file.
	tickInterval = time.Second
	// unmapGraceTicks is how many ticks after a segment left the hot window its mapping goes. A slice of it must not be
	// held that long; slices live for one turn of an event loop.
	unmapGraceTicks = 60
	// paceTicks is over how many ticks the pace of appends is taken that says how full the disk will be.
	paceTicks = 10
	// hotMemoryPercent of the available memory counts as holding the newest part of the log.
	hotMemoryPercent = 40
	// hotBytesMin is the hot window on a machine that is short of memory.
	hotBytesMin = 64 << 20
	// mappedFilesMax bounds the mappings of CommitLog files (the kernel's default limit is 65,530 for the whole process);
	// what is older is read with pread.
	mappedFilesMax = 16384
)

// Retention.
const (
	// firstPassIntervals is after how many cleanResourceIntervals the first pass comes: a minute with the default of 10 s. Unless
	// the disk is full by then: see intervalOver.
	firstPassIntervals = 6
	// deletedTopicsMax bounds the topics that were deleted while messages of theirs are in the log (peregrine.deleted); beyond
	// it a deletion is refused until files of the log have expired.
	deletedTopicsMax = 100_000
	// manualPasses is how many passes code 329 makes look for expired files (20 in the original as well).
	manualPasses = 20
	// shrinkStepBytes is what is given back of a deleted file at a time, shrinkPause what lies between: a file of 1 GiB takes
	// 0.2 s.
	shrinkStepBytes = 64 << 20
	shrinkPause     = 10 * time.Millisecond
)

// Recovery.
const (
	// scanBlockBytes is what recovery reads with one call.
	scanBlockBytes = 4 << 20
	// probeBlockBytes is what a look at a single record reads.
	probeBlockBytes = 16 << 10
	// unitWindowUnits is how many units of a queue one read brings while records are compared with them; unitWindowsMax bounds
	// the queues that such units are held of (1.5 KiB each).
	unitWindowUnits = 64
	unitWindowsMax  = 16384
	// heldBackMax bounds the records (heads and properties, 32 KiB each at most) that wait for the next one of their queue.
	heldBackMax = 1024
	// looseNamesMax is how many names of places in the log (40 bytes each) recovery keeps at a time while it looks for where records
	// go on behind damage; looseBlockBytes is what one read of the files that hold them brings.
	looseNamesMax   = 128 << 10
	looseBlockBytes = 640 << 10
	// indexGapBytes of the log are read at a time to find out whether index files are missing.
	indexGapBytes = 256 << 10
	// stateTailBytes of the log before its end have to be as the state file has them.
	stateTailBytes = 4096
	// stateBytesMax is the largest state file that is read: 64 MiB are some 600,000 queues.
	stateBytesMax = 64 << 20
	// stateInterval is the least time between two state files of a running store.
	stateInterval = 10 * time.Second
	// recoverWorkersMax bounds the goroutines that look at ConsumeQueue directories.
	recoverWorkersMax = 8
	// progressInterval is how often the progress callback is called.
	progressInterval = time.Second
	// damagedListMax bounds RecoveryReport.Damaged, damagedLinesMax the log lines about it; further ones are only counted.
	damagedListMax  = 10_000
	damagedLinesMax = 100
)

// Index.
const (
	// IndexRetryInterval is the least time between two attempts to make an index file (case R09).
	IndexRetryInterval = 30 * time.Second
	// IndexFlushInterval is how often the index is synced: what a power cut takes is made again from the log.
	IndexFlushInterval = 10 * time.Second
	// indexWalkItems is what recovery reads of an index file with one call.
	indexWalkItems = 32 << 10
	// indexWindowItemsMin and indexWindowItemsMax are what a query reads of a file with one call: 640 bytes for a chain whose
	// items lie far from each other, 80 KiB for one of a hot key.
	indexWindowItemsMin = 32
	indexWindowItemsMax = 4096
	// indexItemsPerQueryMax bounds the items that a query looks at (two thirds of a second), indexReadsPerQueryMax the records
	// that it reads, most of which have another key with the same hash then. The answer says that there may be more.
	indexItemsPerQueryMax = 20_000_000
	indexReadsPerQueryMax = 5_000
)

// Reading of single records.
const (
	// recordFirstBytes is the first read of a record whose length is not known; most are shorter.
	recordFirstBytes = 4 << 10
)
