package broker

import (
	"bytes"

	"peregrine/broker/delay"
	"peregrine/internal/message"
)

// sendProperties is what the send path needs to know of a message's properties text. The slices alias the text.
type sendProperties struct {
	uniqKey []byte // value of UNIQ_KEY, nil if the client sent none
	wait    bool   // WAIT is absent or "true": the producer wants the flush awaited
	half    bool   // TRAN_MSG=true
	level   int32  // DELAY, 0 if absent
	noLevel bool   // DELAY is no number
	timed   bool   // a timer property is set; with a level it counts for nothing
	inner   bool   // INNER_NUM is set: only a broker may pack messages into one
	rewrite bool   // malformed, doubled or reserved entries: the text must be normalised before it is stored
	endless bool   // the last entry lacks its 0x02

	priority  int32 // _SYS_MSG_PRIORITY_, -1 if absent or no number
	ranked    bool  // DELAY or __SHARDINGKEY is set, which rank before a priority
	outranked bool  // the priority counts for nothing and is not stored
}

// scan reads text once. An entry that only Java's map would tidy away (no separator, empty name or value, a doubled
// name) or that the broker sets itself asks for a rewrite; everything else is stored as it was sent.
//
// hot: 0 allocs.
func (p *sendProperties) scan(text []byte) {
	*p = sendProperties{wait: true, priority: -1}
	if len(text) == 0 {
		return
	}
	var names uint64 // a Bloom filter of one bit a name: doubled names always collide, others seldom
	kept := 0
	it := message.Properties(text)
	for {
		name, value, ok := it.Next()
		if !ok {
			break
		}
		kept += len(name) + len(value) + 2
		bit := uint64(1) << ((uint(name[0])*5 + uint(name[len(name)-1])*3 + uint(len(name))*7) & 63)
		if names&bit != 0 {
			p.rewrite = true
		}
		names |= bit
		switch string(name) {
		case message.PropertyUniqKey:
			p.uniqKey = value
		case message.PropertyWait:
			p.wait = bytes.EqualFold(value, textTrue)
		case message.PropertyInnerNum:
			p.inner = true
		case message.PropertyTransactionPrepared:
			p.half = bytes.EqualFold(value, textTrue)
		case message.PropertyDelay:
			level, ok := delay.ParseLevel(value)
			p.level, p.noLevel, p.ranked = level, !ok, true
		case message.PropertyShardingKey:
			p.ranked = true
		case message.PropertyPriority:
			if n, ok := delay.ParseLevel(value); ok {
				p.priority = n
			}
		case message.PropertyTimerDelaySec, message.PropertyTimerDelayMs, message.PropertyTimerDeliverMs:
			p.timed = true
		case message.PropertyCluster, message.PropertyMsgRegion, message.PropertyTraceSwitch, message.PropertyPopCK:
			p.rewrite = true
		}
	}
	p.endless = text[len(text)-1] != message.PropertySeparator
	if p.endless {
		kept--
	}
	if kept != len(text) {
		p.rewrite = true
	}
}

// takePriority decides what a priority asks for (TopicMessageType.parseFromMessageProperty of 5.5.0): the queue of that number, or the
// last one; nothing, and it is not stored, for a half, delayed or ordered message.
//
// hot: 0 allocs.
func (p *sendProperties) takePriority(queueID message.QueueID, writeQueueNums int32) message.QueueID {
	switch {
	case p.priority < 0:
		return queueID
	case p.half || p.ranked || p.timed:
		p.outranked, p.rewrite = true, true
		return queueID
	}
	return message.QueueID(max(0, min(p.priority, writeQueueNums-1)))
}

var textTrue = []byte("true") // what Boolean.parseBoolean takes, in any case
