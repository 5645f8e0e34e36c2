package netio

import "sync/atomic"

// loopStats are the counters of one loop: written by the loop (mail* by posters), read by anyone.
type loopStats struct {
	_              [64]byte // keeps them off the lines that the loop writes without being read
	conns          atomic.Int64
	accepted       atomic.Uint64
	turnEdges      atomic.Uint64 // begins and ends of turns: odd within one
	frames         atomic.Uint64
	bytesIn        atomic.Uint64
	bytesOut       atomic.Uint64
	answers        atomic.Uint64
	answersDropped atomic.Uint64
	panics         atomic.Uint64
	inFlight       atomic.Int64
	outPending     atomic.Int64
	_              [64]byte // posters write the rest
	mailPosts      atomic.Uint64
	mailDropped    atomic.Uint64
	mailUnheard    atomic.Uint64
	mailPeak       atomic.Int64
	_              [64]byte
}

// publish adds what the turn counted, so that a frame costs no atomic.
// hot: 0 allocs.
func (l *Loop) publish() {
	if l.bytesIn > 0 {
		l.stats.frames.Add(l.frames)
		l.stats.bytesIn.Add(l.bytesIn)
	}
	if l.bytesOut > 0 {
		l.stats.bytesOut.Add(l.bytesOut)
	}
	l.frames, l.bytesIn, l.bytesOut = 0, 0, 0
	l.stats.turnEdges.Add(1)
}

// Stats is a snapshot; the fields are read one after the other, so sums may be off by what happened
// meanwhile.
type Stats struct {
	Connections int64  // open now
	Accepted    uint64 // opened since the start
	Refused     uint64 // closed in OnOpen: over the cap, or while stopping
	Closed      map[string]uint64
	Turns       uint64
	Frames      uint64
	BytesIn     uint64
	BytesOut    uint64 // handed to gnet
	// OutboundPending is what gnet holds for clients that do not read, as last seen.
	OutboundPending int64
	GatheredBytes   int64 // capacity of the buffers of incomplete frames
	InFlight        int64 // requests outside of the loops, see Conn.BeginRequest
	Answers         uint64
	AnswersDropped  uint64 // posted answers whose connection was gone
	MailPosts       uint64
	MailDropped     uint64 // refused by a full mailbox, never a MailRerun
	MailUnheard     uint64 // for a loop without connections, or after the end
	MailPeak        int64  // longest queue of one loop
	Panics          uint64
}

// Stats may be called by any goroutine.
func (s *Server) Stats() Stats {
	st := Stats{
		Refused:       s.refused.Load(),
		GatheredBytes: s.gathered.Load(),
		Closed:        make(map[string]uint64, reasonCount),
	}
	for i, r := range reasons {
		st.Closed[r.label] = s.closed[i].Load()
	}
	for _, l := range s.loops {
		c := &l.stats
		st.Connections += c.conns.Load()
		st.Accepted += c.accepted.Load()
		st.Turns += c.turnEdges.Load() / 2
		st.Frames += c.frames.Load()
		st.BytesIn += c.bytesIn.Load()
		st.BytesOut += c.bytesOut.Load()
		st.OutboundPending += c.outPending.Load()
		st.InFlight += c.inFlight.Load()
		st.Answers += c.answers.Load()
		st.AnswersDropped += c.answersDropped.Load()
		st.MailPosts += c.mailPosts.Load()
		st.MailDropped += c.mailDropped.Load()
		st.MailUnheard += c.mailUnheard.Load()
		st.MailPeak = max(st.MailPeak, c.mailPeak.Load())
		st.Panics += c.panics.Load()
	}
	return st
}
