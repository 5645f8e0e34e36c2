package broker

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"time"

	"peregrine/broker/topics"
	"peregrine/broker/transaction"
	"peregrine/flush"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// sender says whom a send came from and how it wants to be answered.
type sender struct {
	conn   *netio.Conn // nil when a control worker runs the send, who answers it himself
	host   *message.Host
	opaque int32
	enc    wire.Encoding
	oneway bool
}

// pendingSend is an admitted send of the running turn.
type pendingSend struct {
	sender
	topic    *topics.Topic
	queueID  message.QueueID
	wait     bool   // in SYNC_FLUSH the answer waits for the sync
	uniqKey  []byte // aliases the frame or the turn's arena
	first, n int    // its records: messages[first : first+n]
}

// sendTurn collects the sends of one turn of a loop, so that one hold of the append lock takes them all. Its slices
// alias the frames of the turn and its own arena; all is forgotten at the end of the turn.
type sendTurn struct {
	messages []store.Message
	pending  []pendingSend
	arena    []byte // properties texts that had to be copied or rewritten
	uniqIDs  message.UniqIDGen

	header       *wire.SendMessageHeader // of the send that was looked at last: the decoder's, or own
	own          wire.SendMessageHeader
	topic        *topics.Topic // that it was for, if there is one, in that version of the table
	topicVersion uint64
	dead         bool // the send that was looked at last is for a dead letter queue
	props        sendProperties
	rewritten    message.PropertyMap
	element      sendProperties      // of a batch
	offsets      []message.PhyOffset // of the batch whose answer is being written
	response     wire.SendMessageResponse
}

// admission is the outcome of admitSend.
type admission uint8

const (
	admitted admission = iota
	refused
	topicUnknown // a control worker has to create the topic first
)

// admitSend checks one send, in the order of SendMessageProcessor (5.5.0), and adds its records to the turn.
//
// hot: 0 allocs, no locks besides the read lock of the topic table.
func (b *Broker) admitSend(t *sendTurn, cmd *wire.Command, from *sender) (admission, *wire.Refusal) {
	t.dead = false
	if err := t.decodeHeader(cmd); err != nil {
		return refused, wire.Refuse(wire.ResponseSystemError, err.Error())
	}
	h := t.header
	if r := b.overloaded(); r != nil {
		return refused, r
	}
	topic := t.lookUp(b.topics, h.Topic)
	if r := b.checkSendTopic(h, topic); r != nil {
		return refused, r
	}
	if topic == nil {
		return topicUnknown, nil
	}
	config := topic.Config()
	queueID := message.QueueID(h.QueueID)
	if queueID < 0 {
		queueID = message.QueueID(rand.IntN(max(1, int(config.WriteQueueNums))))
	} else if int32(queueID) >= max(config.ReadQueueNums, config.WriteQueueNums) {
		return refused, invalidQueueID(h, config)
	}
	if bytes.HasPrefix(h.Topic, retryPrefix) {
		var r *wire.Refusal
		if t.dead, r = b.checkRetrySend(h, cmd.Version); r != nil {
			return refused, r
		}
		if t.dead {
			if topic = b.topics.Find(topics.DLQPrefix + string(h.Topic[len(retryPrefix):])); topic == nil {
				return topicUnknown, nil
			}
			config = topic.Config()
		}
	}
	t.props.scan(h.Properties)
	if !h.Batch {
		queueID = t.props.takePriority(queueID, config.WriteQueueNums)
	}
	t.props.half = t.props.half && !t.dead && !(h.ReconsumeTimes > 0 && t.props.level > 0) // such a retry is none, there either
	if r := b.checkSendContent(h, &t.props, config, cmd.Body); r != nil {
		return refused, r
	}
	sysFlag := h.SysFlag
	if config.TopicFilterType == wire.TopicFilterMultiTag {
		sysFlag |= message.SysFlagMultiTags
	}
	storedIn := queueID
	if t.dead {
		storedIn = 0
	}
	first := t.admitted()
	t.messages = t.messages[:first] // what a refused send, or one that met a bug, has begun goes
	m := t.addMessage()
	m.Queue, m.Topic, m.QueueID, m.SysFlag = topic.Queue(storedIn), topic.NameBytes(), storedIn, sysFlag
	m.BornTimestamp, m.BornHost, m.StoreHost = message.Millis(h.BornTimestamp), *from.host, b.storeHost
	if h.Batch {
		if t.props.level > 0 {
			return refused, refusalDelayBatch
		}
		if r := b.admitBatch(t, cmd.Body); r != nil {
			return refused, r
		}
		t.props.uniqKey = t.keep(t.props.uniqKey, cmd.Encoding)
	} else if r := b.admitSingle(t, m, cmd); r != nil {
		return refused, r
	}
	p := t.addPending()
	p.conn, p.host, p.opaque, p.enc, p.oneway = from.conn, from.host, from.opaque, from.enc, from.oneway
	p.topic, p.queueID, p.wait, p.uniqKey = topic, queueID, t.props.wait, t.props.uniqKey
	p.first, p.n = first, len(t.messages)-first
	return admitted, nil
}

// lookUp finds a topic, without the table's lock when the last send was for the same one and the table has not changed since.
//
// hot: 0 allocs.
func (t *sendTurn) lookUp(table *topics.Table, name []byte) *topics.Topic {
	version := table.Version()
	if t.topic == nil || t.topicVersion != version || string(name) != t.topic.Name() {
		t.topic, t.topicVersion = table.Lookup(name), version
	}
	return t.topic
}

// admitted is how many of the turn's messages belong to sends that were admitted. Others are not appended.
func (t *sendTurn) admitted() int {
	if len(t.pending) == 0 {
		return 0
	}
	last := &t.pending[len(t.pending)-1]
	return last.first + last.n
}

// addMessage gives an empty message at the end of the turn. It is filled in where it lies: a copy of something just written costs more than
// writing it. The pointer is good until the next one is added.
//
// hot: 0 allocs once the turn has grown.
func (t *sendTurn) addMessage() *store.Message {
	n := len(t.messages)
	t.messages = slices.Grow(t.messages, 1)[:n+1]
	m := &t.messages[n]
	*m = store.Message{}
	return m
}

// addPending is addMessage for sends; every field is the caller's to set.
//
// hot: 0 allocs once the turn has grown.
func (t *sendTurn) addPending() *pendingSend {
	n := len(t.pending)
	t.pending = slices.Grow(t.pending, 1)[:n+1]
	return &t.pending[n]
}

// decodeHeader sees to t.header.
//
// hot: 0 allocs without error.
func (t *sendTurn) decodeHeader(cmd *wire.Command) error {
	if t.header = cmd.Send(); t.header != nil {
		return nil
	}
	t.header = &t.own
	switch wire.RequestCode(cmd.Code) {
	case wire.RequestSendMessage, wire.RequestSendReplyMessage:
		return t.own.DecodeV1(cmd)
	}
	return t.own.DecodeV2(cmd)
}

// admitSingle completes the record of a send that is no batch.
//
// hot: 0 allocs once the arena has grown.
func (b *Broker) admitSingle(t *sendTurn, m *store.Message, cmd *wire.Command) *wire.Refusal {
	h := t.header
	m.Body, m.BodyCRC = cmd.Body, message.BodyCRC(cmd.Body)
	m.Flag, m.ReconsumeTimes = h.Flag, h.ReconsumeTimes
	m.Properties, m.PropertiesSuffix = b.storedProperties(t, h.Properties, cmd.Encoding), b.set.Load().propertiesSuffix
	switch {
	case t.props.half:
		if !b.makeHalf(t, m) {
			return topics.NotExist(topics.HalfTopic)
		}
	case t.dead || t.props.level > 0:
		b.readdress(t, m)
	}
	if n := len(m.Properties) + len(m.PropertiesSuffix); n > message.PropertiesBytesMax {
		return propertiesTooLong(n)
	}
	return nil
}

// admitBatch makes the turn's last message one joined run: each element of body becomes a record of its own, stored as it was sent.
//
// hot: 0 allocs.
func (b *Broker) admitBatch(t *sendTurn, body []byte) *wire.Refusal {
	first := len(t.messages) - 1
	it := message.Batch(body)
	var e message.BatchElement
	n := 0
	for ; it.Next(&e); n++ {
		if n == batchElementsMax {
			return batchTooMany()
		}
		if len(e.Properties) > message.PropertiesBytesMax {
			return propertiesTooLong(len(e.Properties))
		}
		t.element.scan(e.Properties)
		if r := t.element.unbuilt(); r != nil {
			return r
		}
		if t.element.level > 0 {
			return refusalDelayBatch
		}
		if t.element.half {
			return refusalHalf
		}
		m := &t.messages[first]
		if n > 0 {
			m = t.addMessage()
			*m = t.messages[first]
			m.Joined = true
		}
		m.Body, m.BodyCRC, m.Flag, m.Properties = e.Body, message.BodyCRC(e.Body), e.Flag, e.Properties
	}
	if err := it.Err(); err != nil {
		return wire.Refuse(wire.ResponseMessageIllegal, "the batch cannot be read: "+err.Error())
	}
	t.messages = t.messages[:first+n]
	return nil
}

// storedProperties gives the text that is stored for a single message (5.x edits: UNIQ_KEY generated if absent; MSG_REGION,
// TRACE_ON and CLUSTER follow as the constant suffix; POP_CK removed) and leaves the message's UNIQ_KEY in t.props.
// The result aliases the frame when nothing has to be changed, else the arena.
//
// hot: 0 allocs once the arena has grown.
func (b *Broker) storedProperties(t *sendTurn, text []byte, enc wire.Encoding) []byte {
	p := &t.props
	if !p.rewrite && !p.endless && p.uniqKey != nil && enc == wire.EncodingBinary {
		return text
	}
	start := len(t.arena)
	if p.rewrite {
		drop := droppedProperties[:len(droppedProperties)-1]
		if p.outranked {
			drop = droppedProperties[:]
		}
		t.arena = message.AppendPropertiesWithout(t.arena, text, drop...)
	} else {
		t.arena = append(t.arena, text...)
		if p.endless {
			t.arena = append(t.arena, message.PropertySeparator)
		}
	}
	if p.uniqKey == nil {
		t.arena = append(t.arena, message.PropertyUniqKey...)
		t.arena = append(t.arena, message.NameValueSeparator)
		at := len(t.arena)
		t.arena = t.uniqIDs.Append(t.arena, now())
		p.uniqKey = t.arena[at:len(t.arena):len(t.arena)]
		t.arena = append(t.arena, message.PropertySeparator)
	} else if at := bytes.Index(t.arena[start:], p.uniqKey); at >= 0 {
		at += start
		p.uniqKey = t.arena[at : at+len(p.uniqKey) : at+len(p.uniqKey)]
	}
	return t.arena[start:len(t.arena):len(t.arena)]
}

// droppedProperties are not stored as they were sent: MSG_REGION, TRACE_ON and CLUSTER follow in the suffix; the last one goes only
// where a priority counts for nothing.
var droppedProperties = [...]string{message.PropertyMsgRegion, message.PropertyTraceSwitch, message.PropertyCluster, message.PropertyPopCK, message.PropertyPriority}

// readdress gives a message with a delay level its place in the schedule topic, and takes the delay from a dead letter (the
// original writes -1 there, so that no later step delays it).
//
// hot: 0 allocs once the arena has grown.
func (b *Broker) readdress(t *sendTurn, m *store.Message) {
	t.rewritten.Parse(m.Properties)
	t.rewritten.Add(m.PropertiesSuffix)
	if !t.dead {
		t.arena = b.delays.Divert(&m.Record, t.props.level, &t.rewritten, t.arena)
		m.Queue = b.queueOf(m)
		return
	}
	b.retries.DeadLetters.Add(1)
	t.rewritten.Set(nameDelay, noDelay)
	start := len(t.arena)
	t.arena = t.rewritten.AppendTo(t.arena)
	m.Properties, m.PropertiesSuffix = t.arena[start:len(t.arena):len(t.arena)], nil
}

var nameDelay, noDelay = []byte(message.PropertyDelay), []byte("-1")

// queueOf finds the queue of a record by its topic and id. Topics need no configuration here, as in the original's store.
func (b *Broker) queueOf(m *store.Message) *store.Queue {
	if q := b.store.LookupQueue(m.Topic, m.QueueID); q != nil && !q.Gone() {
		return q
	}
	return b.store.Queue(string(m.Topic), m.QueueID)
}

// makeHalf turns a message into the half message of a transaction. The answer still names the queue that was asked for.
//
// hot: 0 allocs once the arena has grown.
func (b *Broker) makeHalf(t *sendTurn, m *store.Message) (ok bool) {
	topic := b.topics.Lookup(halfTopic)
	if topic == nil {
		return false
	}
	t.rewritten.Parse(m.Properties)
	t.rewritten.Add(m.PropertiesSuffix)
	t.arena, m.Properties = transaction.AppendHalfProperties(t.arena, &t.rewritten, m.Topic, m.QueueID)
	m.PropertiesSuffix = nil
	m.Queue, m.Topic, m.QueueID = topic.Queue(0), topic.NameBytes(), 0
	m.SysFlag &^= message.SysFlagTransactionMask
	return true
}

var halfTopic = []byte(topics.HalfTopic)

// keep gives a copy of b that lives until the end of the turn, if b does not (a JSON header's text sits in scratch memory
// that the next frame overwrites).
//
// hot: 0 allocs once the arena has grown.
func (t *sendTurn) keep(b []byte, enc wire.Encoding) []byte {
	if len(b) == 0 || enc == wire.EncodingBinary {
		return b
	}
	at := len(t.arena)
	t.arena = append(t.arena, b...)
	return t.arena[at:len(t.arena):len(t.arena)]
}

// reset forgets the turn.
func (t *sendTurn) reset() {
	clear(t.messages)
	clear(t.pending)
	t.messages, t.pending, t.arena = t.messages[:0], t.pending[:0], t.arena[:0]
	if cap(t.arena) > arenaKeepBytes {
		t.arena = nil
	}
}

// commitSends appends the turn's records and answers what can be answered now. In SYNC_FLUSH an answer that waits goes
// into the loop's own queue before the sync is requested: a sync that ends in between finds it there.
//
// hot: 0 allocs, one hold of the append lock a turn.
func (b *Broker) commitSends(ls *loopState) {
	t := &ls.send
	began := time.Now()
	end := b.store.Append(t.messages[:t.admitted()])
	appended := time.Now()
	ls.appendTime.Took(appended.Sub(began), 1)
	waiting := false
	var run topicRun
	for i := range t.pending {
		p := &t.pending[i]
		b.countSend(ls, &run, t, p)
		if b.syncFlush && p.wait && !p.oneway && t.messages[p.first].Err == nil {
			waiting = true
			ls.answers.push(b, t, p, appended)
			continue
		}
		if !p.oneway {
			p.conn.Out = b.appendSendAnswer(p.conn.Out, t, p, wire.ResponseSuccess)
		}
	}
	run.flush(b)
	t.reset()
	b.flusher.Request(end)
	ls.appended = !b.syncFlush
	if waiting {
		ls.answerFlushed(b, b.flusher.Flushed())
	}
}

// announce tells flusher and dispatcher of an append. In SYNC_FLUSH the dispatcher hears of it after the sync.
//
// hot: atomic loads while both are awake.
func (b *Broker) announce(end message.PhyOffset) {
	b.flusher.Request(end)
	if !b.syncFlush {
		b.dispatcher.Wake()
	}
}

// admitSlowly is admitSend for a control worker: topics that are missing are made.
func (b *Broker) admitSlowly(t *sendTurn, cmd *wire.Command, from *sender) *wire.Refusal {
	for made := 0; ; made++ {
		switch how, r := b.admitSend(t, cmd, from); {
		case how == refused:
			return r
		case how == admitted:
			return nil
		case made == 2: // a retry topic and a dead letter queue: more is not needed, so somebody deletes them
			return topics.NotExist(string(t.header.Topic))
		}
		if r := b.createForSend(t, cmd.Version); r != nil {
			return r
		}
	}
}

// createForSend makes the topic that the send in t.header lacks.
func (b *Broker) createForSend(t *sendTurn, version int32) *wire.Refusal {
	h := t.header
	if t.dead {
		_, r := b.topics.CreateDeadLetterTopic(string(h.Topic[len(retryPrefix):]))
		return r
	}
	if bytes.HasPrefix(h.Topic, retryPrefix) {
		if _, r := b.checkRetrySend(h, version); r != nil {
			return r
		}
	}
	_, r := b.topics.CreateOnSend(topics.SendCreation{Topic: string(h.Topic), DefaultTopic: string(h.DefaultTopic), QueueNums: h.DefaultTopicQueueNums, UnitMode: h.UnitMode})
	return r
}

// appendSendAnswer writes the answer to p: success, or the refusal of the store.
//
// hot: 0 allocs on success.
func (b *Broker) appendSendAnswer(dst []byte, t *sendTurn, p *pendingSend, code wire.ResponseCode) []byte {
	first := &t.messages[p.first]
	if first.Err != nil {
		return b.appendSendRefusal(dst, p.enc, p.opaque, storeRefusal(first.Err))
	}
	t.offsets = t.offsets[:0]
	for i := p.first; i < p.first+p.n; i++ {
		t.offsets = append(t.offsets, t.messages[i].PhyOffset)
	}
	r := &t.response
	r.StoreHost, r.Region, r.TraceOn = b.storeHost, b.cfg.RegionId, b.set.Load().traceOn
	r.PhyOffsets, r.QueueID, r.QueueOffset, r.TransactionID = t.offsets, int32(p.queueID), int64(first.QueueOffset), p.uniqKey
	return wire.AppendSendResponse(dst, p.enc, p.opaque, code, "", r)
}

// sendRefusalHeader is what the original adds to the answer of a refused send, too.
type sendRefusalHeader struct {
	Region  string `wire:"MSG_REGION"`
	TraceOn string `wire:"TRACE_ON"`
}

// appendSendRefusal writes the answer to a refused send.
func (b *Broker) appendSendRefusal(dst []byte, enc wire.Encoding, opaque int32, r *wire.Refusal) []byte {
	return wire.AppendResponse(dst, enc, opaque, r.Code, r.Remark, sendRefusalHeader{b.cfg.RegionId, b.set.Load().traceOn}, nil)
}

// countSend adds one answered send to the loop's counters.
func (b *Broker) countSend(ls *loopState, run *topicRun, t *sendTurn, p *pendingSend) {
	if t.messages[p.first].Err != nil {
		ls.count[countSendFailed] += uint64(p.n)
		return
	}
	ls.count[countSent] += uint64(p.n)
	size := 0
	for i := p.first; i < p.first+p.n; i++ {
		ls.count[countSentBytes] += uint64(len(t.messages[i].Body))
		size += t.messages[i].Size()
	}
	ls.count[countStoredBytes] += uint64(size)
	run.add(b, t.messages[p.first].Topic, int64(p.n), int64(size))
}

// runSend carries out one send on a control worker: a topic has to be created first. It waits for the sync itself.
func (b *Broker) runSend(t *sendTurn, cmd *wire.Command, from *sender) (answer []byte) {
	if r := b.admitSlowly(t, cmd, from); r != nil {
		b.slow.failed.Add(1)
		return b.appendSendRefusal(nil, from.enc, from.opaque, r)
	}
	defer t.reset()
	end := b.store.Append(t.messages[:t.admitted()])
	b.announce(end)
	p, code := &t.pending[0], wire.ResponseSuccess
	b.countSlowSend(t, p)
	if b.syncFlush && p.wait && t.messages[0].Err == nil {
		switch err := b.flusher.Wait(end, time.Now().Add(b.set.Load().syncFlushTimeout)); {
		case err == flush.ErrFlushTimeout:
			code = wire.ResponseFlushDiskTimeout
		case err != nil:
			t.messages[0].Err = err
		}
	}
	return b.appendSendAnswer(nil, t, p, code)
}
