package bench

// stream is what one connection has sent: messages to each queue are numbered, those with a delay level apart, because they arrive in another order.
// It belongs to one worker while that works.
type stream struct {
	number uint32
	kinds  [2]streamKind // at once, delayed
}

type streamKind struct {
	sent   []uint64              // by queue: the next number
	unsure []map[uint64]struct{} // by queue: not acknowledged, so they may be stored or not
}

func newStream(number uint32, queues int) *stream {
	s := &stream{number: number}
	for i := range s.kinds {
		s.kinds[i] = streamKind{sent: make([]uint64, queues), unsure: make([]map[uint64]struct{}, queues)}
	}
	return s
}

func (s *stream) kind(delayed bool) *streamKind {
	if delayed {
		return &s.kinds[1]
	}
	return &s.kinds[0]
}

// doubt notes that nobody knows whether the messages of a request were stored. false: there are too many to remember.
func (s *stream) doubt(r *request, batch int) bool {
	k := s.kind(r.delayed)
	if k.unsure[r.queue] == nil {
		k.unsure[r.queue] = map[uint64]struct{}{}
	}
	if len(k.unsure[r.queue])+batch > unsureMax {
		return false
	}
	for i := range uint64(batch) {
		k.unsure[r.queue][r.sequence+i] = struct{}{}
	}
	return true
}
