package inspect

import "time"

// Frozen by the original's formats.
const (
	unitBytes       = 20
	preBlankSize    = 1<<31 - 1 // size of a unit that only keeps a queue offset occupied
	checkpointBytes = 4096
	indexHeadBytes  = 40
	indexSlotBytes  = 4
	indexItemBytes  = 20
)

// What the original does when a configuration says nothing (MessageStoreConfig 5.5.0).
const (
	indexSlotsDefault = 5_000_000
	indexItemsDefault = 20_000_000
	// originalFilesBack is how many files its recovery walks back to find a beginning (commitLogRecoverMaxNum).
	originalFilesBack = 10
)

// listingsMax is how often a folder of a running broker is listed until no file came or went meanwhile.
const listingsMax = 10

// Memory.
const (
	// scanBlockBytes is what the walk over the log reads at once, peekBlockBytes a look at a single record.
	scanBlockBytes = 4 << 20
	peekBlockBytes = 64 << 10
	// recordBytesMax is the longest record that is read; longer ones are reported as damage. Frames hold 16 MiB by default.
	recordBytesMax = 256 << 20
	// blockUnits and blocksMax bound the units in memory: 4,096 blocks of 256 units are 21 MB.
	blockUnits = 256
	blocksMax  = 4096
	// extBlockBytes is what is read of an ext file at once, extBlocksMax bounds such blocks: 1,024 of them are 4 MB.
	extBlockBytes = 4096
	extBlocksMax  = 1024
	// indexWindowBytes is what is read of an index file at once.
	indexWindowBytes = indexItemBytes * 4096
	// guessBytesMax is the largest index file whose slot count is found out by trying.
	guessBytesMax = 64 << 20
	// slotsCheckedMax bounds the memory for the check of chains: 4 bytes for each slot.
	slotsCheckedMax = 32 << 20
	// suspectsMax bounds the damage that is held back until it is known whether a good record follows.
	suspectsMax = 1000
	// stretchesMax bounds the damaged parts of the log that units and index items are compared with.
	stretchesMax = 10_000
	// lateMax bounds the records that get a second look on a running broker.
	lateMax = 10_000
)

const (
	// offsetJumpMax is by how much a queue offset may be ahead of its queue: a larger step is a damaged header, which no CRC covers.
	offsetJumpMax = 3_000_000
	// bodyHeadBytes is how much of the body is shown of a single record.
	bodyHeadBytes = 256
)

// progressInterval is how often the progress callback is called, lateGrace what the dispatcher of a running broker gets to bring
// a record into its queue.
const (
	progressInterval = time.Second
	lateGrace        = 10 * time.Second
)
