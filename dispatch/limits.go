package dispatch

import "time"

const (
	// ShardsMax bounds peregrine.reputShards. More shards than cores only add wake-ups.
	ShardsMax = 64

	// batchRecordsMax bounds a batch. Large enough that the write of a queue's units and two channel operations are small
	// change per record, small enough that a batch of all shards stays in the second-level cache (28 bytes a record).
	// 8192 and 16384 were tried with BenchmarkDispatch: no faster with 8 queues, slower with 512.
	batchRecordsMax = 4096

	// batchLogBytesMax is how much of the log may be read before the open batches are handed out although none is full: with
	// large records it is what bounds the delay of the first one in a batch.
	batchLogBytesMax = 4 << 20

	// batchesPerShard bounds what one shard has open, queued and in work. More would make the batches smaller, not the
	// queue faster: while a shard is busy the reader should collect.
	batchesPerShard = 4

	// blockBytesMax is how much of the log is looked at before Confirmed and the end of the work are asked again, and what one
	// pread covers when the log is not mapped there. A larger record makes a larger block.
	blockBytesMax = 1 << 20

	// A look that found at least paceRecordsMin records is followed by a rest of paceInterval instead of by going to sleep:
	// under load every turn of every event loop would wake the reader, the shard and with them preempt a loop. Single
	// messages are not delayed; in a burst a message becomes visible up to paceInterval later, or a millisecond, which
	// is the shortest sleep of Go's runtime while a processor is idle.
	paceRecordsMin = 16
	paceInterval   = 200 * time.Microsecond

	// Retries of a failed append to a queue. The original tries 30 times, one second apart; what fails for a moment
	// should not hold up visibility for a second, so the pauses begin short.
	retryPauseMin = 10 * time.Millisecond
	retryPauseMax = time.Second
	retryTimeMax  = 30 * time.Second

	// readTriesMax bounds the attempts to read a block of the log before the error is final, with the pauses above.
	readTriesMax = 8

	// indexBatchMax is how many records the indexer adds with one call, during which queries wait for it (about 1 ms).
	indexBatchMax = 1024

	// indexRest is how long the indexer lets records come together when it has caught up: how late a query may be.
	indexRest = 10 * time.Millisecond

	// indexBehindTold is the least distance of the index that a start says a line about.
	indexBehindTold = 64 << 20

	// stopGrace is how long Stop waits, past its deadline, for goroutines that are inside a system call.
	stopGrace = time.Second

	// cacheLinePad keeps two atomics on different pairs of cache lines (adjacent-line prefetch makes it 128).
	cacheLinePad = 128
)
