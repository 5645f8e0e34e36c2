package transaction

import (
	"time"

	"peregrine/internal/message"
)

const (
	// roundTimeMax ends a round of checks; the next one goes on where it stopped (MAX_PROCESS_TIME_LIMIT).
	roundTimeMax message.Millis = 60_000

	// windowMax bounds the halves that one round looks at: each is a bit while it runs.
	windowMax = 1 << 24

	// opStepsMax bounds what a round remembers of the op queue's order; with more op messages it remembers it coarser.
	opStepsMax = 1 << 16

	// opPendingBytesMax bounds the ends whose op message is not written, because the store refuses. Beyond it ends are
	// forgotten, which costs a further check, as a crash does (a queue of 20,000 in the original).
	opPendingBytesMax = 512 << 10

	// endedMax bounds the ends that a running round has to know besides the op queue. Beyond it the round ends early.
	endedMax = 1 << 20

	// copiesMax bounds the halves whose newest copy is remembered, some 150 bytes each. An older copy's end then ends
	// only itself, as in the original.
	copiesMax = 1 << 17

	// recoverMax bounds the halves that a start reads, the newest ones.
	recoverMax = 1 << 20

	// batchMax and batchBytesMax bound the copies that are appended at once.
	batchMax      = 64
	batchBytesMax = 1 << 20

	// producersAskedMax is how many connections of a group are tried for one check (3 in the original).
	producersAskedMax = 16

	// readTriesMax is how many rounds a half that cannot be read is waited for.
	readTriesMax = 3

	// dispatchWait is how long a round waits at its begin for what was appended to be in the queues.
	dispatchWait = 5 * time.Second

	// retryPause is the pause of the op writer after a refusal of the store.
	retryPause = 100 * time.Millisecond
)
