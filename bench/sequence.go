package bench

// holesMax bounds what is remembered of one stream in one queue: so many messages may be overtaken at a time. Beyond, the oldest count as lost.
const holesMax = 1 << 16

// sequence follows the messages of one stream through one queue, as one consumer group sees them. The zero value expects number 0.
type sequence struct {
	next  uint64              // behind the highest number seen
	holes map[uint64]struct{} // below next, not seen yet

	duplicates uint64
	reordered  uint64 // came behind a higher number
	given      uint64 // holes that were given up: more than holesMax were open
}

// observe notes that number n arrived, and tells whether that is the first time.
func (s *sequence) observe(n uint64) (first bool) {
	switch {
	case n == s.next: // hot: the only case of a broker that keeps the order
		s.next++
		return true
	case n > s.next:
		if s.holes == nil {
			s.holes = map[uint64]struct{}{}
		}
		for ; s.next < n; s.next++ {
			if len(s.holes) == holesMax {
				s.given += n - s.next
				s.next = n
				break
			}
			s.holes[s.next] = struct{}{}
		}
		s.next = n + 1
		return true
	}
	if _, open := s.holes[n]; !open {
		s.duplicates++
		return false
	}
	delete(s.holes, n)
	s.reordered++
	return true
}

// lost counts what of the numbers below sent has not arrived. unsure are numbers that the broker did not acknowledge: whether they were
// stored nobody knows, so they are not missed.
func (s *sequence) lost(sent uint64, unsure map[uint64]struct{}) (n uint64) {
	missing := func(number uint64) {
		if _, ok := unsure[number]; !ok {
			n++
		}
	}
	for number := range s.holes {
		missing(number)
	}
	if len(unsure) == 0 && sent > s.next {
		return n + s.given + sent - s.next
	}
	for number := s.next; number < sent; number++ {
		missing(number)
	}
	return n + s.given
}
