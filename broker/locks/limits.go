package locks

import "peregrine/internal/message"

const (
	// LiveTime is how long a lock lives after its owner last asked for it, in ms (rocketmq.broker.rebalance.lockMaxLiveTime, 5.5.0).
	// Clients ask every 20 s and believe in a lock for 30 s.
	LiveTime message.Millis = 60_000
	// LocksMax bounds the locks of all groups: each costs some 400 bytes, and names come from the network. Beyond it no
	// further queue is given.
	LocksMax = 200_000
	// NameBytesMax bounds each name in a request.
	NameBytesMax = 1024
)
