package flush

const (
	// MaxWaiters bounds the goroutines blocked in Wait at one time. Loops do not wait here, so only the control
	// workers, the delay service and the transaction service do: a few dozen. Reaching it is answered with
	// ErrTooManyWaiters and counted in Stats.WaitersRefused.
	MaxWaiters = 16384

	// BucketCount is the number of buckets of the histogram of sync times, see BucketUpperNs.
	BucketCount = 21

	// pageSize is the unit of flushCommitLogLeastPages. RocketMQ counts 4096 bytes whatever the page of the system is.
	pageSize = 4096

	// cacheLinePad keeps two atomics on different pairs of cache lines (adjacent-line prefetch makes it 128).
	cacheLinePad = 128
)
