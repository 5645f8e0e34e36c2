package delay

import (
	"strconv"

	"peregrine/broker/topics"
	"peregrine/internal/message"
)

// Levels is the table of delay levels (messageDelayLevel): the delay of level n is at n-1. It is never changed.
type Levels []message.Millis

// unknownDelay is what the original adds to the store time of a record whose level it does not know.
const unknownDelay message.Millis = 1000

var (
	scheduleTopic = []byte(message.ScheduleTopic)
	nameDelay     = []byte(message.PropertyDelay)
	nameRealTopic = []byte(message.PropertyRealTopic)
	nameRealQueue = []byte(message.PropertyRealQueueID)
)

// NewLevels makes the table from delays in milliseconds, level 1 first.
func NewLevels(delaysMs []int64) Levels {
	levels := make(Levels, len(delaysMs))
	for i, ms := range delaysMs {
		levels[i] = message.Millis(ms)
	}
	return levels
}

// Max is the highest level; a message with a higher one gets this.
func (l Levels) Max() int32 { return int32(len(l)) }

// DueTime is when a message of a level is to be delivered that was stored at a time (ScheduleMessageService.computeDeliverTimestamp).
func (l Levels) DueTime(level int32, stored message.Millis) message.Millis {
	if level < 1 || level > l.Max() {
		return stored + unknownDelay
	}
	return stored + l[level-1]
}

// ParseLevel reads the value of the property DELAY as Message.getDelayTimeLevel does; ok is false where that throws.
//
// hot: 0 allocs.
func ParseLevel(value []byte) (level int32, ok bool) {
	digits, negative := value, false
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		negative = digits[0] == '-'
		digits = digits[1:]
	}
	n := int64(0)
	for _, b := range digits {
		if b < '0' || b > '9' {
			return 0, false
		}
		if n = n*10 + int64(b-'0'); n > 1<<31 {
			return 0, false
		}
	}
	if negative {
		n = -n
	}
	return int32(n), len(digits) > 0 && n < 1<<31
}

// ScheduleTags is the tags code of a record of the schedule topic: when it is due (CommitLog.checkMessageAndReturnSize).
//
// hot: 0 allocs.
func (l Levels) ScheduleTags(v *message.View) message.TagsCode {
	if value, found := message.GetProperty(v.Properties, message.PropertyDelay); found {
		if level, ok := ParseLevel(value); ok && level > 0 {
			return message.TagsCode(l.DueTime(min(level, l.Max()), v.StoreTimestamp))
		}
	}
	return v.TagsCode()
}

// Divert turns r, a message with a level above 0, into the record of the schedule topic that stands for it until it is due.
// p has r's properties and is changed; the new text is appended to dst, which is returned. r aliases it, and p aliases r's
// old topic. It mirrors HookUtils.transformDelayLevelMessage: the original calls it with every put whose DELAY is above 0.
//
// hot: 0 allocs when dst has room.
func (l Levels) Divert(r *message.Record, level int32, p *message.PropertyMap, dst []byte) []byte {
	if level > l.Max() {
		level = l.Max()
		at := len(dst)
		dst = strconv.AppendInt(dst, int64(level), 10)
		p.Set(nameDelay, dst[at:])
	}
	// The level wins over a time of delivery.
	p.Delete(message.PropertyTimerDeliverMs)
	p.Delete(message.PropertyTimerDelaySec)
	p.Delete(message.PropertyTimerDelayMs)
	p.Set(nameRealTopic, r.Topic)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(r.QueueID), 10)
	p.Set(nameRealQueue, dst[at:])
	at = len(dst)
	dst = p.AppendTo(dst)
	r.Properties, r.PropertiesSuffix = dst[at:len(dst):len(dst)], nil
	r.Topic, r.QueueID = scheduleTopic, message.QueueID(level-1)
	return dst
}

// Restore turns the record of the schedule topic in v into the message that is due (ScheduleMessageService.messageTimeUp).
// The text of the properties stays, DELAY, REAL_TOPIC and REAL_QID included: so it does in the original, which takes DELAY
// out in memory only. ok is false when the record names no place that a message may go to.
func Restore(v *message.View) (r message.Record, ok bool) {
	topic, _ := message.GetProperty(v.Properties, message.PropertyRealTopic)
	text, _ := message.GetProperty(v.Properties, message.PropertyRealQueueID)
	queueID, isNumber := ParseLevel(text)
	switch {
	case len(topic) == 0, len(topic) > message.TopicBytesMaxV2, !isNumber, queueID < 0:
		return r, false
	// A half message goes nowhere by itself; the original discards such a record as well.
	case string(topic) == message.ScheduleTopic, string(topic) == topics.HalfTopic:
		return r, false
	}
	r = v.Record()
	r.Topic, r.QueueID = topic, message.QueueID(queueID)
	return r, true
}
