package bench

// consumeKind says what the consumers of a run do.
type consumeKind uint8

const (
	consumeNothing  consumeKind = iota // there are none
	consumeArriving                    // hold their pulls until messages arrive, as push consumers do
	consumeAgain                       // read what is there, from the begin once more at its end
	consumeOnce                        // read what is there up to its end
)

// ConsumeResult is what consumers got.
type ConsumeResult struct {
	Rate      float64       `json:"rate"`               // messages a second of all groups, in the measured part
	BytesRate float64       `json:"bytesRate"`          // their bodies, bytes a second
	Requests  uint64        `json:"requests"`           // answers to pulls
	Delivery  *Latency      `json:"delivery,omitempty"` // from the intended send time to the arrival at a consumer; groups that are behind and delayed messages apart
	Pull      *Latency      `json:"pull,omitempty"`     // from a pull to its answer with messages
	Groups    []GroupResult `json:"groups"`
}

// GroupResult is what one consumer group got of the messages that the run sent, warm-up and drain included.
type GroupResult struct {
	Name       string `json:"name"`
	Behind     bool   `json:"behind,omitempty"` // began with what was there before the load
	Received   uint64 `json:"received"`
	Lost       uint64 `json:"lost"` // acknowledged and not received
	Duplicates uint64 `json:"duplicates"`
	Reordered  uint64 `json:"reordered"` // behind one that was sent later to the same queue by the same connection
	Corrupt    uint64 `json:"corrupt"`
	Foreign    uint64 `json:"foreign"` // messages that this run did not send
}

// groupResults counts, after the end, what the groups got of what was sent.
func groupResults(r *run, workers []*worker) []GroupResult {
	groups := make([]GroupResult, r.opts.Groups)
	streams := map[uint32]*streamKind{}
	targets := map[uint32]*target{}
	for _, w := range workers {
		for _, c := range w.senders {
			for _, delayed := range []bool{false, true} {
				number := r.streamOf(c.stream.number, delayed)
				streams[number], targets[number] = c.stream.kind(delayed), c.target
			}
		}
	}
	for _, w := range workers {
		for _, c := range w.pullers {
			p := c.puller
			g := &groups[p.group]
			g.Name, g.Behind = r.groupName(p.group), r.behind(p.group)
			g.Received += p.counts.messages
			g.Corrupt += p.counts.corrupt
			g.Foreign += p.counts.foreign
			if r.opts.consumes != consumeArriving {
				continue
			}
			for _, q := range p.queues {
				for number, kind := range streams {
					if targets[number] != c.target {
						continue
					}
					var s sequence
					if int(number) < len(q.streams) {
						s = q.streams[number]
					}
					g.Lost += s.lost(kind.sent[q.id], kind.unsure[q.id])
					g.Duplicates += s.duplicates
					g.Reordered += s.reordered
				}
			}
		}
	}
	return groups
}

// received is the rate of the consumers, 0 without.
func (rep *Report) received() float64 {
	if rep.Consume == nil {
		return 0
	}
	return rep.Consume.Rate
}

// fillConsume computes what consumers got.
func (rep *Report) fillConsume(r *run, out *outcome) {
	if r.opts.consumes == consumeNothing {
		return
	}
	c := &ConsumeResult{Requests: out.whole.pulls, Delivery: latencyOf(out.whole.delivery), Pull: latencyOf(out.whole.pull), Groups: out.groups}
	rep.Consume = c
	if done := r.doneNs.Load(); done > 0 { // the run lasted until everything was read, whenever the next cut was
		rep.Seconds = float64(done-r.warmNs) / 1e9
	}
	if rep.Seconds > 0 {
		c.Rate, c.BytesRate = float64(out.receivedIn)/rep.Seconds, float64(out.receivedBytes)/rep.Seconds
	}
}

// judgeConsume collects what is wrong with what consumers got.
func (rep *Report) judgeConsume(r *run, warn, fail func(format string, args ...any)) {
	c := rep.Consume
	if c == nil {
		return
	}
	received := uint64(0)
	for _, g := range c.Groups {
		received += g.Received
		if g.Lost > 0 {
			fail("group %s did not get %d acknowledged messages until %v after the last send", g.Name, g.Lost, r.opts.Drain)
		}
		if g.Duplicates > 0 {
			fail("group %s got %d messages twice", g.Name, g.Duplicates)
		}
		if g.Corrupt > 0 {
			fail("group %s got %d messages that are not what was sent", g.Name, g.Corrupt)
		}
		if g.Reordered > 0 {
			warn("group %s got %d messages behind ones that their connection sent later", g.Name, g.Reordered)
		}
		if g.Foreign > 0 && !g.Behind {
			warn("group %s got %d messages that others sent", g.Name, g.Foreign)
		}
	}
	if r.unsureTooMany.Load() {
		fail("too many sends failed to tell what was lost")
	}
	if received == 0 && !rep.Interrupted {
		fail("nothing was received")
	}
	if r.opts.consumes == consumeOnce && r.doneNs.Load() == 0 && !rep.Interrupted {
		fail("the backlog was not read to its end within %v", r.opts.Duration)
	}
}
