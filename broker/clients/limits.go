package clients

import (
	"time"

	"peregrine/internal/message"
)

const (
	// expiredAfter is how long a client may be silent, in ms (channelExpiredTimeout, 5.5.0).
	expiredAfter message.Millis = 120_000
	// ScanEvery is how often Scan should be called.
	ScanEvery = 10 * time.Second
	// RegistrationsMax bounds the pairs of connection and group of the broker, consumers and producers together: each costs
	// some 300 bytes, and names come from the network. Beyond it a heartbeat is answered but registers nothing new.
	RegistrationsMax = 1_000_000
	// GroupsPerConnectionMax bounds the groups of one connection. A client process rarely has more than some tens.
	GroupsPerConnectionMax = 4096
	// TopicsPerGroupMax bounds the topics that a group subscribes.
	TopicsPerGroupMax = 10_000
	// ClientIDBytesMax bounds a client id; a longer one is cut.
	ClientIDBytesMax = 1024
	// warnEvery is the time between two warnings about the same group.
	warnEvery message.Millis = 60_000
)
