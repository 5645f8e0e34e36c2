package broker

import (
	"time"

	"peregrine/broker/filter"
	"peregrine/broker/groups"
	"peregrine/broker/topics"
	"peregrine/internal/message"
	"peregrine/netio"
	"peregrine/store"
	"peregrine/wire"
)

// pullRequest is an accepted pull: everything that its run, its hold and a cold reader need, with no slice of the frame.
type pullRequest struct {
	ref    netio.ConnRef
	opaque int32
	enc    wire.Encoding

	group   *groups.Group
	topic   *topics.Topic
	queue   *store.Queue
	filter  *filter.Matcher
	offset  message.QueueOffset
	count   int // messages asked for
	suspend time.Duration
	// maySuspend: nothing there is no answer yet; the request may be held. It is used up by the first hold.
	maySuspend bool
	// inline: the filter came with the request. Else it is that of the group's heartbeats, whose version the client knows.
	inline     bool
	subVersion int64

	topicSysFlag, groupSysFlag int32
}

// pullStatus is the original's GetMessageStatus; its name is the remark of the answer.
type pullStatus uint8

const (
	statusFound pullStatus = iota
	statusNoMatchedMessage
	statusMessageWasRemoving
	statusOffsetFoundNull
	statusOffsetOverflowBadly
	statusOffsetOverflowOne
	statusOffsetTooSmall
	statusNoMessageInQueue
	statusOffsetReset
)

var statusNames = [...]string{"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL",
	"OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MESSAGE_IN_QUEUE", "OFFSET_RESET"}

// code is the answer for a status (PullMessageProcessor.composeResponseHeader, 5.5.0).
func (s pullStatus) code(offset message.QueueOffset) wire.ResponseCode {
	switch s {
	case statusFound:
		return wire.ResponseSuccess
	case statusNoMatchedMessage, statusMessageWasRemoving:
		return wire.ResponsePullRetryImmediately
	case statusOffsetFoundNull, statusOffsetOverflowOne:
		return wire.ResponsePullNotFound
	case statusNoMessageInQueue:
		if offset == 0 {
			return wire.ResponsePullNotFound
		}
	}
	return wire.ResponsePullOffsetMoved
}

// pull serves PULL_MESSAGE and LITE_PULL_MESSAGE on the loop.
//
// hot: 0 allocs, no locks besides the read locks of the tables and the queue's.
func (b *Broker) pull(ls *loopState, c *netio.Conn, cmd *wire.Command) {
	h := &ls.pullHeader
	if err := h.Decode(cmd); err != nil {
		ls.refuse(c, cmd, wire.Refuse(wire.ResponseSystemError, err.Error()))
		return
	}
	r := &ls.pullRequest
	*r = pullRequest{ref: c.Ref, opaque: cmd.Opaque, enc: cmd.Encoding}
	if forbidden, refusal := b.admitPull(h, cmd, r); refusal != nil {
		if cmd.IsOneway() {
			return
		}
		ls.pullResponse = wire.PullMessageResponse{ForbiddenType: forbidden}
		c.Out = wire.AppendPullResponse(c.Out, cmd.Encoding, cmd.Opaque, refusal.Code, refusal.Remark, &ls.pullResponse, 0)
		return
	}
	if h.SysFlag&wire.PullSysFlagCommitOffset != 0 && h.CommitOffset >= 0 && !b.offsets.ResetWaits(h.ConsumerGroup, h.Topic, message.QueueID(h.QueueID)) {
		b.offsets.Commit(h.ConsumerGroup, h.Topic, message.QueueID(h.QueueID), message.QueueOffset(h.CommitOffset))
	}
	ls.count[countPulls]++
	if cmd.IsOneway() {
		return // nothing could be answered
	}
	b.runPull(ls, c, r, true)
}

// Values of forbiddenType in an answer with NO_PERMISSION (ForbiddenType of 5.5.0).
const (
	forbiddenBroker       = 1
	forbiddenGroup        = 2
	forbiddenTopic        = 3
	forbiddenBroadcast    = 4
	forbiddenSubscription = 5
)

// admitPull makes the checks of PullMessageProcessor (5.5.0) in its order and fills r.
//
// hot: 0 allocs without refusal.
func (b *Broker) admitPull(h *wire.PullMessageHeader, cmd *wire.Command, r *pullRequest) (forbidden int32, refusal *wire.Refusal) {
	if forbidden, refusal = b.checkReadable(); refusal != nil {
		return forbidden, refusal
	}
	switch {
	case wire.RequestCode(cmd.Code) == wire.RequestLitePullMessage && !b.set.Load().LitePullMessageEnable:
		return forbiddenBroker, wire.Refuse(wire.ResponseNoPermission, "the broker["+b.cfg.BrokerIP1+"] for lite pull consumer is forbidden")
	}
	group := b.groups.Lookup(h.ConsumerGroup)
	if group == nil {
		if group = b.groups.LookupOrCreate(string(h.ConsumerGroup)); group == nil {
			return 0, wire.Refuse(wire.ResponseSubscriptionGroupNotExist, "subscription group ["+string(h.ConsumerGroup)+"] does not exist, \n"+topics.Hint)
		}
	}
	groupConfig := group.Config()
	if forbidden, refusal = checkGroupPull(group); refusal != nil {
		return forbidden, refusal
	}
	topic := b.topics.Lookup(h.Topic)
	if topic == nil {
		return 0, wire.Refuse(wire.ResponseTopicNotExist, "topic["+string(h.Topic)+"] not exist, apply first please! \n"+topics.Hint)
	}
	config := topic.Config()
	if forbidden, refusal = checkTopicPull(topic, h.QueueID); refusal != nil {
		return forbidden, refusal
	}
	var f *filter.Matcher
	if r.inline = h.SysFlag&wire.PullSysFlagSubscription != 0; r.inline {
		f, refusal = b.inlineFilter(h)
	} else {
		f, forbidden, refusal = b.heartbeatFilter(h, topic, groupConfig)
	}
	if refusal != nil {
		return forbidden, refusal
	}
	r.group, r.topic = group, topic
	r.queue, r.filter = topic.Queue(message.QueueID(h.QueueID)), f
	r.offset, r.count, r.subVersion = message.QueueOffset(h.QueueOffset), int(h.MaxMsgNums), h.SubVersion
	r.topicSysFlag, r.groupSysFlag = config.TopicSysFlag, groupConfig.GroupSysFlag
	if r.maySuspend = h.SysFlag&wire.PullSysFlagSuspend != 0; r.maySuspend {
		r.suspend = b.suspendOf(h)
	}
	return 0, nil
}

// checkReadable, checkGroupPull and checkTopicPull are what an administrator may forbid, also while a pull is held.
//
// hot: 0 allocs without refusal.
func (b *Broker) checkReadable() (forbidden int32, refusal *wire.Refusal) {
	if !b.set.Load().readable {
		return forbiddenBroker, wire.Refuse(wire.ResponseNoPermission, "the broker["+b.cfg.BrokerIP1+"] pulling message is forbidden")
	}
	return 0, nil
}

func checkGroupPull(group *groups.Group) (forbidden int32, refusal *wire.Refusal) {
	if !group.Config().ConsumeEnable {
		return forbiddenGroup, wire.Refuse(wire.ResponseNoPermission, "subscription group no permission, "+group.Name())
	}
	return 0, nil
}

func checkTopicPull(topic *topics.Topic, queueID int32) (forbidden int32, refusal *wire.Refusal) {
	config := topic.Config()
	if config.Perm&topics.PermRead == 0 {
		return forbiddenTopic, wire.Refuse(wire.ResponseNoPermission, "the topic["+topic.Name()+"] pulling message is forbidden")
	}
	if queueID < 0 || queueID >= config.ReadQueueNums {
		return 0, wire.Refuse(wire.ResponseInvalidParameter, "queueId["+itoa(queueID)+"] is illegal, topic:["+topic.Name()+
			"] topicConfig.readQueueNums:["+itoa(config.ReadQueueNums)+"]")
	}
	return 0, nil
}

// inlineFilter compiles the expression that the request brings along.
func (b *Broker) inlineFilter(h *wire.PullMessageHeader) (*filter.Matcher, *wire.Refusal) {
	if len(h.ExpressionType) > 0 && string(h.ExpressionType) != filter.ExpressionTag {
		return nil, noPropertyFilter(string(h.ExpressionType))
	}
	f, err := b.filters.Tags(h.Subscription)
	if err != nil {
		return nil, wire.Refuse(wire.ResponseSubscriptionParseFailed, "parse the consumer's subscription failed")
	}
	return f, nil
}

// heartbeatFilter takes the group's subscription from its heartbeats.
func (b *Broker) heartbeatFilter(h *wire.PullMessageHeader, topic *topics.Topic, config *wire.SubscriptionGroupConfig) (f *filter.Matcher, forbidden int32, refusal *wire.Refusal) {
	group := b.clients.LookupGroup(h.ConsumerGroup)
	if group == nil {
		return nil, 0, wire.Refuse(wire.ResponseSubscriptionNotExist, "the consumer's group info not exist\n"+topics.Hint)
	}
	if !config.ConsumeBroadcastEnable && group.Broadcasting() {
		return nil, forbiddenBroadcast, wire.Refuse(wire.ResponseNoPermission, "the consumer group["+string(h.ConsumerGroup)+"] can not consume by broadcast way")
	}
	if b.groups.ReadForbidden(h.ConsumerGroup, topic.Name()) {
		return nil, forbiddenSubscription, wire.Refuse(wire.ResponseNoPermission, "the consumer group["+string(h.ConsumerGroup)+"] is forbidden for topic["+topic.Name()+"]")
	}
	subscription := group.Subscription(h.Topic)
	if subscription == nil {
		return nil, 0, wire.Refuse(wire.ResponseSubscriptionNotExist, "the consumer's subscription not exist\n"+topics.Hint)
	}
	if subscription.SubVersion < h.SubVersion {
		return nil, 0, wire.Refuse(wire.ResponseSubscriptionNotLatest, "the consumer's subscription not latest")
	}
	if !filter.IsTag(subscription.ExpressionType) {
		return nil, 0, noPropertyFilter(subscription.ExpressionType)
	}
	return &subscription.Matcher, 0, nil
}

// noPropertyFilter is the original's answer with enablePropertyFilter=false, its default.
func noPropertyFilter(expressionType string) *wire.Refusal {
	return wire.Refuse(wire.ResponseSystemError, "The broker does not support consumer to filter message by "+expressionType)
}

// suspendOf is how long this request may be held.
func (b *Broker) suspendOf(h *wire.PullMessageHeader) time.Duration {
	if set := b.set.Load(); !set.LongPollingEnable {
		return time.Duration(set.ShortPollingTimeMills) * time.Millisecond
	}
	return time.Duration(min(max(h.SuspendTimeoutMillis, 0), suspendMax.Milliseconds())) * time.Millisecond
}

// rerun runs a pull that was kept, if it may still be run (the original makes all its checks again).
//
// hot: 0 allocs without refusal.
func (b *Broker) rerun(ls *loopState, c *netio.Conn, r *pullRequest, mayHold bool) {
	if forbidden, refusal := b.admitAgain(r); refusal != nil {
		ls.pullResponse = wire.PullMessageResponse{ForbiddenType: forbidden}
		c.Out = wire.AppendPullResponse(c.Out, r.enc, r.opaque, refusal.Code, refusal.Remark, &ls.pullResponse, 0)
		return
	}
	b.runPull(ls, c, r, mayHold)
}

// admitAgain checks a pull that was kept, and gives it the filter that its group has by now: by an older one the answer would step
// over messages that the group has subscribed meanwhile.
func (b *Broker) admitAgain(r *pullRequest) (forbidden int32, refusal *wire.Refusal) {
	if forbidden, refusal = b.checkReadable(); refusal != nil {
		return forbidden, refusal
	}
	if forbidden, refusal = checkGroupPull(r.group); refusal != nil {
		return forbidden, refusal
	}
	if forbidden, refusal = checkTopicPull(r.topic, int32(r.queue.ID())); refusal != nil || r.inline {
		return forbidden, refusal
	}
	h := wire.PullMessageHeader{ConsumerGroup: r.group.NameBytes(), Topic: r.topic.NameBytes(), SubVersion: r.subVersion}
	r.filter, forbidden, refusal = b.heartbeatFilter(&h, r.topic, r.group.Config())
	return forbidden, refusal
}

// runPull looks at the queue and answers, holds, or hands over to a cold reader. mayHold is false on the second run.
//
// hot: 0 allocs.
func (b *Broker) runPull(ls *loopState, c *netio.Conn, r *pullRequest, mayHold bool) {
	if c.IsBackedUp() {
		ls.setAside(b, c, r, mayHold)
		return
	}
	if b.answerReset(ls, c, r) {
		return
	}
	for {
		found := b.lookUp(ls, r)
		if found.cold || !ls.sliceParts(b) {
			b.cold.submit(ls, c, r)
			return
		}
		code := found.status.code(r.offset)
		if code == wire.ResponsePullNotFound && mayHold && r.maySuspend && r.suspend > 0 {
			deadline := now() + message.Millis(r.suspend.Milliseconds())
			kept, moved := ls.hold(b, c, r, deadline)
			if kept {
				return
			}
			if moved {
				mayHold = false // as after a wake-up: run now, answer whatever comes out
				continue
			}
		}
		b.answerPull(ls, c, r, code, &found)
		return
	}
}

// answerReset hands out the offset that an administrator chose for the group, if there is one.
//
// hot: one atomic load while no reset waits.
func (b *Broker) answerReset(ls *loopState, c *netio.Conn, r *pullRequest) bool {
	offset, ok := b.offsets.TakeReset(r.group.NameBytes(), r.topic.NameBytes(), r.queue.ID())
	if !ok {
		return false
	}
	found := lookup{status: statusOffsetReset, next: offset, min: r.queue.Min(), max: r.queue.Max()}
	ls.parts = ls.parts[:0]
	b.answerPull(ls, c, r, found.status.code(r.offset), &found)
	return true
}

// lookup is what one look at a queue found. The records are ls.parts.
type lookup struct {
	status   pullStatus
	cold     bool // the answer lies outside of memory
	next     message.QueueOffset
	min, max message.QueueOffset
	bytes    int
	messages int
}

// lookUp mirrors DefaultMessageStore.getMessage (5.5.0) for what is in memory.
//
// hot: 0 allocs.
func (b *Broker) lookUp(ls *loopState, r *pullRequest) lookup {
	ls.parts = ls.parts[:0]
	found := lookup{min: r.queue.Min(), max: r.queue.Max()}
	if found.outOfRange(r.offset) {
		return found
	}
	take := b.newTake(r)
	found.next = r.offset
	found.status = statusNoMatchedMessage
	scanMax := r.scanMax(b)
	for scanned := 0; scanned < scanMax && found.next < found.max && !take.full; {
		want := ls.units[:min(unitsPerLook, scanMax-scanned)]
		n, hot := r.queue.Units(want, found.next)
		if !hot {
			n = r.queue.CachedUnits(want, found.next)
		}
		if n == 0 && !hot {
			found.cold = found.messages == 0 // what was found is answered first; the next pull goes on in the files
			return found.settle(found.messages > 0)
		}
		if n == 0 {
			break
		}
		for i := range ls.units[:n] {
			u := &ls.units[i]
			if !u.Hidden() && r.filter.Match(u.Tags) {
				if !b.store.IsHot(u.Phy) {
					found.cold = found.messages == 0
					return found.settle(found.messages > 0)
				}
				if !take.fits(&found, u) {
					break
				}
				found.add(u)
				ls.addPart(u)
			}
			found.next++
			scanned++
		}
	}
	return found.settle(found.messages > 0)
}

// outOfRange answers a pull that asks outside of what the queue has.
func (l *lookup) outOfRange(offset message.QueueOffset) bool {
	switch {
	case l.max == 0:
		l.status, l.next = statusNoMessageInQueue, 0
	case offset < l.min:
		l.status, l.next = statusOffsetTooSmall, l.min
	case offset == l.max:
		l.status, l.next = statusOffsetOverflowOne, offset
	case offset > l.max:
		l.status, l.next = statusOffsetOverflowBadly, l.max
	default:
		return false
	}
	return true
}

func (l lookup) settle(found bool) lookup {
	if found {
		l.status = statusFound
	}
	return l
}

// scanMax is how many units one pull may look at (maxFilterMessageSize bytes, or the messages asked for).
func (r *pullRequest) scanMax(b *Broker) int {
	return max(b.set.Load().MaxFilterMessageSize/unitBytes, r.count)
}

// take applies the limits of one answer (DefaultMessageStore.isTheBatchFull).
type take struct {
	countMax                 int
	memoryCount, memoryBytes int
	diskCount, diskBytes     int
	memoryFrom               message.PhyOffset // records from here on count as lying in memory
	full                     bool
}

func (b *Broker) newTake(r *pullRequest) take {
	set := b.set.Load()
	return take{countMax: max(r.count, 1), memoryCount: set.MaxTransferCountOnMessageInMemory, memoryBytes: set.MaxTransferBytesOnMessageInMemory,
		diskCount: set.MaxTransferCountOnMessageInDisk, diskBytes: set.MaxTransferBytesOnMessageInDisk,
		memoryFrom: b.store.Wrote() - set.memoryWindow}
}

// fits tells whether the answer has room for u. The first one always fits.
func (t *take) fits(l *lookup, u *store.Unit) bool {
	count, bytes := t.memoryCount, t.memoryBytes
	if u.Phy < t.memoryFrom {
		count, bytes = t.diskCount, t.diskBytes
	}
	t.full = l.messages > 0 && (l.messages >= min(count, t.countMax) || l.bytes+int(u.Size) > min(bytes, pullBodyMax))
	return !t.full
}

// add counts the record of u as part of the answer.
func (l *lookup) add(u *store.Unit) {
	l.messages++
	l.bytes += int(u.Size)
}

// part is a stretch of the log that goes into an answer.
type part struct {
	from message.PhyOffset
	size int
}

// addPart adds a record to the answer; one that lies right behind the last shares its part (never across files: the last
// record of a file is always followed by at least 8 other bytes).
//
// hot: 0 allocs once ls.parts has grown.
func (ls *loopState) addPart(u *store.Unit) {
	if n := len(ls.parts); n > 0 && ls.parts[n-1].from+message.PhyOffset(ls.parts[n-1].size) == u.Phy {
		ls.parts[n-1].size += int(u.Size)
		return
	}
	ls.parts = append(ls.parts, part{u.Phy, int(u.Size)})
}

// sliceParts gets the found stretches out of the mapping. False: one is not mapped any more, the answer needs a cold reader.
//
// hot: 0 allocs once ls.slices has grown.
func (ls *loopState) sliceParts(b *Broker) bool {
	ls.slices = ls.slices[:0]
	for _, p := range ls.parts {
		data := b.store.Slice(p.from, p.size)
		if data == nil {
			return false
		}
		ls.slices = append(ls.slices, data)
	}
	return true
}

// answerPull writes the answer: small bodies are copied into the output, larger ones go out from the mapping.
//
// hot: 0 allocs.
func (b *Broker) answerPull(ls *loopState, c *netio.Conn, r *pullRequest, code wire.ResponseCode, found *lookup) {
	r.response(&ls.pullResponse, found)
	b.countPull(&ls.statsKey, r, found)
	c.Out = wire.AppendPullResponse(c.Out, r.enc, r.opaque, code, statusNames[found.status], &ls.pullResponse, found.bytes)
	if found.bytes == 0 {
		ls.count[countPullsMissed]++
		return
	}
	ls.count[countPullsFound]++
	ls.count[countPulled] += uint64(found.messages)
	ls.count[countPulledBytes] += uint64(found.bytes)
	if found.bytes > copiedBodyMax {
		c.Writev(ls.slices)
	} else {
		for _, data := range ls.slices {
			c.Out = append(c.Out, data...)
		}
	}
	clear(ls.slices)
}

// response fills the header of the answer.
func (r *pullRequest) response(h *wire.PullMessageResponse, found *lookup) {
	*h = wire.PullMessageResponse{NextBeginOffset: int64(found.next), MinOffset: int64(found.min), MaxOffset: int64(found.max),
		TopicSysFlag: r.topicSysFlag, GroupSysFlag: r.groupSysFlag}
}
