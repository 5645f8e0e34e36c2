package broker

import (
	"math"

	"peregrine/internal/message"
)

// takeBackOffsets sees to it that no group's offset lies behind the end of its queue: what a group consumed may be lost with a power cut
// (ASYNC_FLUSH), while its offset was written. Left there, it would skip as many of the messages that come next (case S07). Every record of the
// log is in its queue when it is called; a queue that is not there begins at 0.
func (b *Broker) takeBackOffsets() {
	pairs, _ := b.offsets.Pairs(math.MaxInt)
	for _, p := range pairs {
		if b.topics.Find(p.Topic) == nil {
			continue // nothing comes there; when it is made again, so are its offsets
		}
		p.Each(func(id message.QueueID, offset message.QueueOffset) {
			end := message.QueueOffset(0)
			if q := b.store.LookupQueue([]byte(p.Topic), id); q != nil {
				end = q.Max()
			}
			if offset <= end || !b.offsets.Commit([]byte(p.Group), []byte(p.Topic), id, end) {
				return
			}
			b.logger.Warn("a group had consumed messages that the log lost; it goes on at the end of the queue", "group", p.Group, "topic", p.Topic,
				"queue", int32(id), "offset", int64(offset), "end", int64(end))
		})
	}
}
