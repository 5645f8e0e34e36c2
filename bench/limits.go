package bench

import "time"

// The bounds of one run. Flags above them are refused, not cut.
const (
	connectionsMax  = 10_000
	threadsMax      = 64
	queuesMax       = 1024
	batchMax        = 4096
	bodyBytesMax    = 4 << 20 // of one message; brokers refuse more by default
	keyBytesMax     = 255
	inflightPerMax  = 1 << 17  // requests of one connection without an answer
	inflightSumMax  = 1 << 21  // of all connections together
	frameBytesMax   = 16 << 20 // of one answer
	rateMax         = 50_000_000
	errorCodesMax   = 32 // distinct error codes that are counted apart; the rest counts as "other"
	remarkBytesMax  = 200
	targetsMax      = 64      // brokers of one topic
	unsureMax       = 1 << 16 // messages of one connection and queue that were not acknowledged; more, and what is lost cannot be told
	groupsMax       = 64
	roundsMax       = 100
	backlogMax      = 1_000_000_000
	delayLevelMax   = 18
	pullBatchMax    = 1024
	longpollHoldMax = 15 * time.Second
)

const (
	readBufferBytes = 256 << 10 // per connection; grows up to frameBytesMax for a larger answer
	writeSoftBytes  = 1 << 20   // unsent bytes of one connection above which no further frame is composed

	latencyMaxNs  = int64(120 * time.Second) // longer ones count as this long
	latencyDigits = 3                        // significant digits of every histogram

	connectTimeout   = 3 * time.Second
	reconnectPause   = 100 * time.Millisecond
	fillStep         = 500 * time.Millisecond // one load of the sends that make a backlog
	fillInflight     = 128                    // of each of its connections
	pullPause        = 100 * time.Millisecond // before a queue is asked again that could not be read, or had nothing yet
	quietMin         = time.Second            // without an arrival, after which nothing more is expected of sends that were not acknowledged
	controlTimeout   = 5 * time.Second        // of one question beside the load: routes, offsets, versions
	drainMax         = 10 * time.Minute       // for the last answers and deliveries after the last send
	dispatchLevelMax = time.Second            // a rate counts only if dispatch is level by then
	dispatchWaitMax  = 60 * time.Second       // how long a late dispatch is watched to report how late
	dispatchPollGap  = 2 * time.Millisecond   // between two looks at the offsets
	lateGeneratorMax = 500 * time.Microsecond // p99 of the generator's own lag above which the report warns
	lateGeneratorBad = 5 * time.Millisecond   // and above which, if that is what the response times consist of, the run does not count
	targetRateShare  = 0.99                   // an open loop that reaches less of the rate it was asked for has missed it
)
