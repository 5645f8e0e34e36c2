package broker

import (
	"sync/atomic"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/stagetime"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// loopState is what the broker keeps for one event loop. Only that loop touches it, besides published and
// answers.waiting.
type loopState struct {
	statsKey []byte // topic@group of the pull at hand
	loop     *netio.Loop
	decoder  wire.Decoder
	command  wire.Command

	send     sendTurn
	appended bool        // the dispatcher is to hear of it when the turn's answers are written
	answers  syncAnswers // sends that wait for a sync
	recode   wire.Decoder

	pullHeader   wire.PullMessageHeader
	pullRequest  pullRequest
	pullResponse wire.PullMessageResponse
	units        [unitsPerLook]store.Unit
	parts        []part
	slices       [][]byte
	holds        holds // pulls that wait

	count     [countKinds]uint64        // since start, of this loop
	published [countKinds]atomic.Uint64 // count as of the end of the last turn, for metrics

	appendTime stagetime.Stage // of turns: the append lock, copies, page faults
	syncWait   stagetime.Stage // of sends: from their append until their sync
}

// Kinds of events that loops count.
const (
	countSent        = iota
	countSentBytes   // of bodies
	countStoredBytes // of their records
	countSendFailed
	countFlushTimeouts
	countPulls
	countPullsFound
	countPullsMissed
	countPulled
	countPulledBytes
	countColdPulls
	countSetAside
	countHoldsRefused
	countBusy
	countControl
	countUndecodable
	countKinds
)

// publish makes the turn's counts visible.
//
// hot: one compare a kind, one store for each that changed.
func (ls *loopState) publish() {
	for i, n := range ls.count {
		if n != ls.published[i].Load() {
			ls.published[i].Store(n)
		}
	}
}

// refuse answers a request with a refusal.
func (ls *loopState) refuse(c *netio.Conn, cmd *wire.Command, r *wire.Refusal) {
	if !cmd.IsOneway() {
		c.Out = wire.AppendResponse(c.Out, cmd.Encoding, cmd.Opaque, r.Code, r.Remark, nil, nil)
	}
}

// now is the broker's clock.
func now() message.Millis { return message.Millis(time.Now().UnixMilli()) }
