package namesrv

import (
	"time"

	"peregrine/internal/message"
)

const (
	// BrokersMax bounds the registered broker addresses. Each costs about 1 KiB besides its topics.
	BrokersMax = 10_000
	// RoutesMax bounds the pairs of topic and broker name in the route table, about 200 bytes each.
	RoutesMax = 2_000_000
	// KVBytesMax bounds the names and values of the KV table: a namespace must fit one answer, the table one file.
	KVBytesMax = 8 << 20
	// nameBytesMax bounds every name of a registration.
	nameBytesMax = 1024

	// brokerExpiry is how long a broker that names no time of its own may be silent (DEFAULT_BROKER_CHANNEL_EXPIRED_TIME).
	brokerExpiry message.Millis = 120_000
	// brokerExpiryMax bounds the time that a broker may name, so that a hostile one goes at last.
	brokerExpiryMax message.Millis = 24 * 3600 * 1000
	// ScanEvery is how often Scan should be called (scanNotActiveBrokerInterval, 5.5.0).
	ScanEvery = 5 * time.Second
	// embeddedEvery is how often Scan renews the embedded broker's registration (registerNameServerPeriod).
	embeddedEvery message.Millis = 30_000
)
