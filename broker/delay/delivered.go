package delay

import (
	"bytes"
	"errors"
	"io"

	"peregrine/internal/message"
	"peregrine/store"
)

// countDelivered moves the offsets over what was delivered before a crash and is not counted in delayOffset.json: the copies
// are in the log, behind the position that the file names. A copy is known by its properties, which are those of the record
// that it was made from; the record that it is compared with is always the next of its level, so that a message is
// passed over only when its own copy was found.
func (s *Service) countDelivered() {
	end := s.opts.Store.Confirmed()
	from := s.searchFrom(end)
	if from >= end {
		return
	}
	search := &copySearch{s: s}
	if err := search.run(from, end); err != nil && !s.stopping() {
		s.logger.Warn("the log could not be searched for delayed messages that were delivered before the crash; some may be delivered twice", "from", from, "end", end, "cause", err)
	}
	if n := s.found.Load(); n > 0 {
		s.logger.Info("delayed messages that were delivered before the crash are in the log and are not delivered again", "messages", n, "from", from, "end", end)
	}
}

// searchFrom returns from where on uncounted copies can lie: behind the position in the file, and behind the record of the
// oldest message that is due. Without such a message it is end.
func (s *Service) searchFrom(end message.PhyOffset) message.PhyOffset {
	from := end
	for _, l := range s.levels {
		var unit [1]store.Unit
		if n, err := l.open().ReadUnits(unit[:], l.next); n == 1 && err == nil && message.Millis(unit[0].Tags) <= s.opts.Now() {
			from = min(from, unit[0].Phy)
		}
	}
	return max(from, message.PhyOffset(s.position.Load()), s.opts.Store.MinPhy())
}

// copySearch reads a part of the log.
type copySearch struct {
	s        *Service
	block    []byte
	copied   message.View // in block
	original []byte
}

func (c *copySearch) run(at, end message.PhyOffset) error {
	segment := message.PhyOffset(c.s.opts.Store.SegmentBytes())
	for at < end && !c.s.stopping() {
		fileEnd := at - at%segment + segment
		n := int(min(scanBlockBytes, end-at, fileEnd-at))
		used, err := c.readBlock(at, n)
		if used == 0 && errors.Is(err, message.ErrTornTail) && n == scanBlockBytes {
			// A record that is longer than a block, or damage: the rest of its file shows which.
			used, err = c.readBlock(at, int(min(end, fileEnd)-at))
		}
		switch {
		case used > 0:
			at += message.PhyOffset(used)
		case errors.Is(err, message.ErrBlank):
			at = fileEnd
		case errors.Is(err, message.ErrNoRecord), errors.Is(err, message.ErrCorrupt), errors.Is(err, message.ErrTornTail):
			at = c.behindDamage(at, fileEnd)
		default:
			return err
		}
	}
	return nil
}

// behindDamage returns where the log goes on behind bytes at at that are no record.
func (c *copySearch) behindDamage(at, fileEnd message.PhyOffset) message.PhyOffset {
	for _, d := range c.s.opts.Store.Recovery().Damaged {
		if d.Phy == at && d.Bytes > 0 {
			return at + message.PhyOffset(d.Bytes)
		}
	}
	return fileEnd
}

// readBlock looks at the whole records among n bytes at at and returns how many bytes they have; what stopped it is in err
// when there were none.
func (c *copySearch) readBlock(at message.PhyOffset, n int) (used int, err error) {
	if cap(c.block) < n {
		c.block = make([]byte, n)
	}
	got, err := c.s.opts.Store.ReadAt(c.block[:n], at)
	if got == 0 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	for b := c.block[:got]; len(b) > 0; b = b[c.copied.Size:] {
		if err = message.ParseView(b, &c.copied); err != nil {
			return used, err
		}
		c.look()
		used += int(c.copied.Size)
	}
	return used, nil
}

// look counts the record in c.copied if it is the copy of the next message of a level.
func (c *copySearch) look() {
	text := c.copied.Properties
	if !bytes.Contains(text, nameRealTopic) || string(c.copied.Topic) == message.ScheduleTopic {
		return
	}
	value, _ := message.GetProperty(text, message.PropertyDelay)
	number, ok := ParseLevel(value)
	if !ok || number < 1 || int(number) > len(c.s.levels) {
		return
	}
	l := c.s.levels[number-1]
	if c.isCopyOfNext(l) {
		l.advance(l.next + 1)
		c.s.found.Add(1)
	}
}

// isCopyOfNext compares the record in c.copied with the next message of l.
func (c *copySearch) isCopyOfNext(l *level) bool {
	q := l.open()
	var unit [1]store.Unit
	for l.next < q.Max() {
		n, err := q.ReadUnits(unit[:], l.next)
		if n != 1 || err != nil {
			return false
		}
		var v message.View
		c.original, err = q.ReadRecord(c.original[:0], l.next, unit[0], &v)
		var record message.Record
		deliverable := false
		if err == nil {
			record, deliverable = Restore(&v)
		}
		if unit[0].IsPreBlank() || errors.Is(err, store.ErrNoRecord) || err == nil && !deliverable {
			l.advance(l.next + 1) // it has no copy
			continue
		}
		k := &c.copied
		return err == nil && bytes.Equal(record.Topic, k.Topic) && record.QueueID == k.QueueID && bytes.Equal(record.Properties, k.Properties) &&
			record.BornTimestamp == k.BornTimestamp && record.BornHost == k.BornHost && record.BodyCRC == k.BodyCRC &&
			record.ReconsumeTimes == k.ReconsumeTimes && record.Flag == k.Flag
	}
	return false
}
