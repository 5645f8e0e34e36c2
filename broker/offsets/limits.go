package offsets

const (
	// QueueIDMax bounds the queue ids that offsets are kept for: they come from the network, and each topic of each group keeps
	// an array up to its highest id. A commit beyond it is refused.
	QueueIDMax = 1<<16 - 1
	// PairsMax bounds the pairs of group and topic. Each costs about 300 bytes. A commit that would exceed it is refused.
	PairsMax = 1_000_000
	// versionStep is after how many commits the data version grows (consumerOffsetUpdateVersionStep, 5.5.0).
	versionStep = 500
	// ResetsMax bounds the resets that wait for a pull of their group. One more is committed and not handed out by a pull.
	ResetsMax = 1_000_000
)
