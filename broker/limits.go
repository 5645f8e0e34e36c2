package broker

import "time"

// Limits of the broker's own queues and tables. Each has a metric and the answer that is named beside it.
const (
	// turnMessagesMax bounds the messages that one turn hands to one append; a fuller turn appends several times.
	turnMessagesMax = 1024

	// syncAnswersMax bounds the sends of one loop that wait for a sync. Beyond it: SYSTEM_BUSY.
	syncAnswersMax = 1 << 17

	// heldPullsPerConnMax and heldPullsMax bound long polling. Beyond them a pull that found nothing is answered at once.
	heldPullsPerConnMax = 8192
	heldPullsMax        = 1 << 18

	// suspendMax is the longest that a pull is held, whatever the client asks for.
	suspendMax = 2 * time.Minute

	// slowReaderPatience is how long a pull waits for its connection to read what was written before; then it is closed.
	slowReaderPatience = 30 * time.Second

	// coldTriesMax is how often a cold reader looks again when retention deletes what it reads.
	coldTriesMax = 3

	// coldAnswerBytes is the buffer that a cold reader begins an answer with, coldHeadBytes the room for its head in there.
	coldAnswerBytes = 64 << 10
	coldHeadBytes   = 512

	// groupSeriesMax bounds the series of each metric by group, lagPairsMax the pairs of group and topic that a scrape looks
	// at: beyond it there are none. What is left out is counted in peregrine_group_series_left_out.
	groupSeriesMax = 1000
	lagPairsMax    = 100_000

	// lagAgesTime is how long one scrape may look for the ages of unconsumed messages; each may need two reads of the disk.
	lagAgesTime = 200 * time.Millisecond

	// lossRepeatInterval is how often a group that loses messages to retention is named in the log, lossLinesMax how many
	// groups are by one deletion.
	lossRepeatInterval = 10 * time.Minute
	lossLinesMax       = 20

	// freeHoldsMax is how many held pulls a loop keeps for reuse.
	freeHoldsMax = 1024

	// batchElementsMax bounds the messages of one batch send; its bytes are bounded by maxMessageSize.
	batchElementsMax = 65536

	// arenaKeepBytes is how much memory a loop keeps between turns for rewritten properties.
	arenaKeepBytes = 1 << 20

	// unitBytes is the size of a ConsumeQueue unit, in which maxFilterMessageSize is counted.
	unitBytes = 20

	// copiedBodyMax is the largest answer body that is copied into the output buffer; larger ones are written from the
	// mapping with one vectored write. Below it a copy costs less than
	// another entry in the vector of a system call; netio merges smaller ones for the same reason.
	copiedBodyMax = 32 << 10

	// unitsPerLook is how many ConsumeQueue units a hot pull copies out of the queue's memory at a time.
	unitsPerLook = 64

	// controlJobsMax bounds the requests waiting for one control worker, coldJobsMax the pulls waiting for a cold
	// reader. Beyond them: SYSTEM_BUSY.
	controlJobsMax = 4096
	coldJobsMax    = 1024

	// controlWorkersAuto and coldReadersAuto are the numbers of goroutines when the configuration says 0. A control worker waits for the disk when it makes a
	// topic, and with it those whose connections it serves: hence more of them than processors.
	controlWorkersAuto = 8
	coldReadersAuto    = 4

	// unflushedAutoMin and unflushedAutoMax bound the automatic peregrine.unflushedMaxBytes.
	unflushedAutoMin = 64 << 20
	unflushedAutoMax = 2 << 30

	// checkpointDistanceMax is how many bytes may be dispatched beyond the checkpoint before the queues are synced out of
	// turn: a start after kill -9 reads at most about that much again. With small files it is less, checkpointDistanceFiles of
	// them: the original would begin at most ten files back, and leave holes.
	checkpointDistanceMax   = 256 << 20
	checkpointDistanceFiles = 3

	// scanInterval is how often silent clients and brokers are looked for (ClientHousekeepingService).
	scanInterval = 10 * time.Second

	// sampleInterval is how often the counters behind the rates of GET_BROKER_RUNTIME_INFO are sampled.
	sampleInterval = time.Second

	// reviveQueueNums is the number of queues of the revive topic (reviveQueueNum), which POP will use.
	reviveQueueNums = 8

	// controlBytesMax bounds the bytes of requests that wait for all control workers together. Beyond it: SYSTEM_BUSY.
	controlBytesMax = 64 << 20

	// pullBodyMax is the hard limit of one pull answer's body; the first message passes whatever its size, and no
	// record is larger than the frame that brought it.
	pullBodyMax = 8 << 20
)
