package perf

import "time"

// The limits of the HTTP server. It answers operators and scrapers, never message traffic, so they are small.
const (
	connectionsMax    = 64               // connections at a time; one more is closed as soon as it is accepted
	headerBytesMax    = 16 << 10         // of one request's header block; more gets 431
	readHeaderTimeout = 5 * time.Second  // a peer that does not finish its header is dropped
	idleTimeout       = 60 * time.Second // between two requests of one connection
	answerTimeout     = 10 * time.Second // to write one answer, profiles excepted
	profileSecondsMax = 300              // of one CPU profile or trace; more gets 400
	blockProfileNs    = 10_000           // a block profile that was asked for has one sample for so much time that goroutines wait
	mutexProfileOneIn = 10               // and one of mutexes has every so many-th contention
)

// The limits of the log.
const (
	logLinesMax = 4096             // lines that wait for a slow sink; more are dropped and counted
	logFlushMax = time.Second      // how long Close waits for the sink
	logLineMax  = 16 << 10         // bytes of a line; a stack is 2 to 8 KiB
	logCut      = "… (cut)\n"      // the end of a line that was longer
	logBurst    = 100              // lines of one text at once
	logRefill   = 10 * time.Second // one more line of it after each
	logTextsMax = 1024             // texts that have budgets of their own
)
