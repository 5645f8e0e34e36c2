package netio

import "errors"

// Reason is an error that says why netio closed a connection. The values below are all there are;
// compare with ==. Their text says what happened and what the operator of the client can do.
type Reason struct {
	index int
	label string
	text  string
	quiet bool // ordinary life: never logged
}

func (r *Reason) Error() string { return r.text }

// Label is a short name, fit for a metric.
func (r *Reason) Label() string { return r.label }

// The reasons, preallocated because hostile clients decide how often they are needed.
var (
	ErrPeerClosed = &Reason{index: 0, label: "peer_closed", quiet: true,
		text: "closed by the peer"}
	ErrPeerReset = &Reason{index: 1, label: "peer_reset", quiet: true,
		text: "the connection broke"}
	ErrTLS = &Reason{index: 2, label: "tls",
		text: "a TLS handshake arrived (first byte 0x16), but TLS is not available on this port: " +
			"switch TLS off in the client (tls.enable=false, useTLS=false)"}
	ErrHTTP2 = &Reason{index: 3, label: "http2",
		text: "an HTTP/2 preface arrived on a Remoting port: this is a gRPC client (a 5.x SDK such as rocketmq-client-java); " +
			"use a Remoting client (rocketmq-client) or connect to a gRPC endpoint"}
	ErrHTTP = &Reason{index: 4, label: "http",
		text: "an HTTP request arrived on a Remoting port: RocketMQ clients speak Remoting here; " +
			"metrics and health checks have a port of their own (--http)"}
	ErrProxyProtocol = &Reason{index: 5, label: "proxy_protocol",
		text: "a PROXY protocol header arrived, which is not supported: switch it off in the load balancer"}
	ErrFrameLength = &Reason{index: 6, label: "frame_length",
		text: "a frame length outside 4 to 16777212 arrived: this is not RocketMQ Remoting, or the frame is too large"}
	ErrGatherBudget = &Reason{index: 7, label: "gather_budget",
		text: "too many bytes of incomplete frames are held (limit GatheredBytes)"}
	ErrFrameStalled = &Reason{index: 8, label: "frame_stalled",
		text: "a frame stayed incomplete for too long (limit FrameTimeout)"}
	ErrOutboundHard = &Reason{index: 9, label: "outbound_hard",
		text: "the client does not read its answers (limit OutboundHardBytes)"}
	ErrOutboundBudget = &Reason{index: 10, label: "outbound_budget",
		text: "clients do not read their answers and this one holds more than its share (limit OutboundBytes)"}
	ErrIdle = &Reason{index: 11, label: "idle", quiet: true,
		text: "no traffic (limit IdleTimeout)"}
	ErrTooManyConnections = &Reason{index: 12, label: "too_many_connections",
		text: "too many connections (peregrine.maxConnections, bounded by the open files limit: ulimit -n)"}
	ErrPanic = &Reason{index: 13, label: "panic",
		text: "a request of this connection met a bug; the stack is in the log"}
	ErrMailboxFull = &Reason{index: 14, label: "mailbox_full",
		text: "an answer was lost because its event loop does not keep up (limits MailboxLen, MailboxBytes)"}
	ErrShutdown = &Reason{index: 15, label: "shutdown", quiet: true,
		text: "the server is stopping"}
	// ErrNotReading is for the Handler: answers have waited for this client for longer than it allows.
	ErrNotReading = &Reason{index: 17, label: "not_reading",
		text: "the client has not read its answers for too long (limit slowReaderPatience)"}
	// errHandler is what closes for the Handler's own reasons are counted under.
	errHandler = &Reason{index: 16, label: "handler", text: "closed by the request handler"}
)

const reasonCount = 18

// reasons lists them by index, for the statistics.
var reasons = [reasonCount]*Reason{
	ErrPeerClosed, ErrPeerReset, ErrTLS, ErrHTTP2, ErrHTTP, ErrProxyProtocol, ErrFrameLength,
	ErrGatherBudget, ErrFrameStalled, ErrOutboundHard, ErrOutboundBudget, ErrIdle,
	ErrTooManyConnections, ErrPanic, ErrMailboxFull, ErrShutdown, errHandler, ErrNotReading,
}

// reasonOf maps any close error to the reason that it is counted under.
func reasonOf(err error) *Reason {
	if r, ok := err.(*Reason); ok {
		return r
	}
	return errHandler
}

var (
	// ErrPortInUse is wrapped by Start's error when an address is taken; the text names the address.
	ErrPortInUse = errors.New("address already in use")
	// ErrEngineEnded is wrapped by Server.Err when the engine ended without Shutdown. It is fatal:
	// nothing listens any more.
	ErrEngineEnded = errors.New("the network engine ended by itself")
)

// refusalOf says what illegal first bytes are. word holds the first four bytes.
func refusalOf(word [4]byte) *Reason {
	if word[0] == 0x16 { // TLS record type handshake
		return ErrTLS
	}
	switch string(word[:]) {
	case "PRI ":
		return ErrHTTP2
	case "GET ", "POST", "HEAD", "PUT ", "OPTI", "CONN", "DELE", "PATC", "TRAC":
		return ErrHTTP
	case "PROX", "\r\n\r\n":
		return ErrProxyProtocol
	}
	return ErrFrameLength
}

// Labels are the labels of all reasons, the keys of Stats.Closed.
func Labels() []string {
	labels := make([]string, 0, reasonCount)
	for _, r := range reasons {
		labels = append(labels, r.label)
	}
	return labels
}
