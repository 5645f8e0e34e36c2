package transaction

import (
	"strconv"

	"peregrine/broker/topics"
	"peregrine/internal/message"
)

var (
	nameRealTopic     = []byte(message.PropertyRealTopic)
	nameRealQueueID   = []byte(message.PropertyRealQueueID)
	nameTransactionID = []byte(message.PropertyTransactionID)
	nameCheckTimes    = []byte(message.PropertyTransactionCheckTimes)
	namePreparedAt    = []byte(message.PropertyTranPreparedQueueOffset)
	halfTopic         = []byte(topics.HalfTopic)
	opTopic           = []byte(topics.OpHalfTopic)
	discardTopic      = []byte(topics.CheckMaxTimeTopic)
)

// AppendHalfProperties appends the properties of the half message for a message of topic and queue (parseHalfMessageInner): p
// has the message's own, complete, and is changed. The result is dst and the text within it.
//
// hot: 0 allocs when dst has room.
func AppendHalfProperties(dst []byte, p *message.PropertyMap, topic []byte, id message.QueueID) (all, text []byte) {
	if key := p.Get(message.PropertyUniqKey); len(key) > 0 {
		p.Set(nameTransactionID, key)
	}
	p.Set(nameRealTopic, topic)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(id), 10)
	p.Set(nameRealQueueID, dst[at:len(dst):len(dst)])
	at = len(dst)
	dst = p.AppendTo(dst)
	return dst, dst[at:len(dst):len(dst)]
}

// half is a half message as it was read, with its properties taken apart. Everything aliases the record.
type half struct {
	message.View
	props message.PropertyMap
}

// realPlace is where the message belongs; ok is false when the half does not say so.
func (h *half) realPlace() (topic []byte, id message.QueueID, ok bool) {
	topic = h.props.Get(message.PropertyRealTopic)
	n, isNumber := parseNumber(h.props.Get(message.PropertyRealQueueID))
	return topic, message.QueueID(n), len(topic) > 0 && isNumber && n >= 0 && n <= queueIDMax
}

const queueIDMax = 1<<31 - 1

// committed is the message that consumers see (endMessageTransaction). The original takes TRAN_MSG out of its map after it
// has made the text, so that the text keeps it.
func (h *half) committed() (r message.Record, ok bool) {
	topic, id, ok := h.realPlace()
	r = h.View.Record()
	r.Topic, r.QueueID = topic, id
	r.SysFlag = r.SysFlag&^message.SysFlagTransactionMask | message.SysFlagTransactionCommit
	r.PreparedTransactionOffset = h.PhyOffset
	h.props.Delete(message.PropertyRealTopic)
	h.props.Delete(message.PropertyRealQueueID)
	r.Properties = h.props.AppendTo(nil)
	return r, ok
}

// renewed is the half once more, for the end of the half queue (renewHalfMessageInner). Unlike the original it keeps the
// user's flag and the number of retries.
func (h *half) renewed() message.Record {
	r := h.View.Record()
	r.Properties = h.props.AppendTo(nil)
	return r
}

// givenUp is the half for the topic of those that were checked too often; its text is as it was.
func (h *half) givenUp() message.Record {
	r := h.renewed()
	r.Topic, r.QueueID = discardTopic, 0
	return r
}

// checkTimes is how often the half was checked; a text that is no number counts as -1, as there.
func (h *half) checkTimes() (times int64, checked bool) {
	text := h.props.Get(message.PropertyTransactionCheckTimes)
	if text == nil {
		return 0, false
	}
	times, ok := parseNumber(text)
	if !ok || times > 1<<31-1 || times < -1<<31 {
		times = -1
	}
	return times, true
}

// countCheck raises the number of checks.
func (h *half) countCheck() {
	times, _ := h.checkTimes()
	h.props.Set(nameCheckTimes, strconv.AppendInt(nil, times+1, 10))
}

// notePrepared keeps the offset of the first copy in one that is made because of immunity (renewImmunityHalfMessageInner).
func (h *half) notePrepared() {
	if _, ok := parseNumber(h.props.Get(message.PropertyTranPreparedQueueOffset)); !ok {
		h.props.Set(namePreparedAt, strconv.AppendInt(nil, int64(h.QueueOffset), 10))
	}
}

// immunity is the age at which the half may be checked, and whether it asks for one of its own.
func (h *half) immunity(otherwise message.Millis) (age message.Millis, own bool) {
	text := h.props.Get(message.PropertyCheckImmunitySeconds)
	if text == nil {
		return otherwise, false
	}
	seconds, ok := parseNumber(text)
	if !ok || seconds == -1 {
		return otherwise, true
	}
	return inMillis(seconds), true
}

// endsTooLate says that only an answer to a check may end the half: its own immunity, at least timeOut, is over
// (rejectCommitOrRollback, 604).
func (h *half) endsTooLate(now, timeOut message.Millis) bool {
	text := h.props.Get(message.PropertyCheckImmunitySeconds)
	if len(text) == 0 {
		return false
	}
	seconds, _ := parseNumber(text)
	return now-h.BornTimestamp > max(inMillis(seconds), timeOut)
}

// inMillis is seconds in ms; what does not fit is as long as can be.
func inMillis(seconds int64) message.Millis {
	const most = 1 << 50
	return message.Millis(min(max(seconds, -most), most) * 1000)
}

// identity tells copies of one half from other halves. UNIQ_KEY alone would do for honest clients.
func (h *half) identity() identity {
	return identity{string(h.props.Get(message.PropertyUniqKey)), h.BornTimestamp, h.BodyCRC}
}

type identity struct {
	uniqKey string
	born    message.Millis
	bodyCRC uint32
}
