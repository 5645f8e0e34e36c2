package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

const (
	rebalanceEvery = time.Second
	lockEvery      = 20 * time.Second
	commitEvery    = 100 * time.Millisecond
	pullMessages   = 32
	sentBackMax    = 16
)

// member is one consumer: of a group that shares queues (with locks if it is orderly), or a broadcasting one, which has all queues
// and keeps its offsets itself.
type member struct {
	w      *world
	id     string
	number int
	reader reader
	rng    *rand.Rand // the member's own goroutine; sessions get theirs from it
	kept   [queueCount]int64

	life   *connection
	work   map[int]*work
	wakeUp chan struct{}
}

// work is a running session's goroutine.
type work struct {
	stop context.CancelFunc
	done chan struct{}
}

func (m *member) group() string {
	switch m.reader {
	case concurrent:
		return "SoakConcurrent"
	case orderly:
		return "SoakOrderly"
	}
	return "SoakBroadcasting"
}

func (m *member) topicOf(queue int) (name string, queueID int32) {
	if queue == retryQueue {
		return "%RETRY%" + m.group(), 0
	}
	return topic, int32(queue)
}

// run consumes until ctx ends; then the member leaves in good order, or drops its connection with nothing committed or unlocked.
func (m *member) run(ctx context.Context, politely bool) {
	for ctx.Err() == nil {
		life, err := m.w.dial(m.number, m.notified)
		if err == nil {
			m.live(ctx, life, politely)
			life.client.close()
		}
		sleep(ctx, redialAfter)
	}
}

func (m *member) notified(_ *client, f *frame) {
	if wire.RequestCode(f.Code) == wire.RequestNotifyConsumerIDsChanged {
		m.wake()
	}
}

// wake makes the member look at its share again.
func (m *member) wake() {
	select {
	case m.wakeUp <- struct{}{}:
	default:
	}
}

// live is the life of one connection.
func (m *member) live(ctx context.Context, life *connection, politely bool) {
	m.life, m.work = life, map[int]*work{}
	tick := time.NewTicker(rebalanceEvery)
	defer tick.Stop()
	var lastBeat, lastLock time.Time
	for {
		if ctx.Err() != nil {
			m.leave(politely)
			return
		}
		if m.w.judge.life() != life.epoch { // the broker is being killed
			m.leave(false)
			return
		}
		var err error
		if now := time.Now(); now.Sub(lastBeat) >= beatEvery {
			lastBeat = now
			_, err = life.client.call(wire.RequestHeartBeat, nil, m.heartbeat())
		}
		if now := time.Now(); err == nil && m.reader == orderly && now.Sub(lastLock) >= lockEvery {
			lastLock = now
			err = m.renew()
		}
		if err == nil {
			err = m.rebalance()
		}
		if err != nil {
			m.w.note(err)
			m.leave(false)
			return
		}
		select {
		case <-ctx.Done():
		case <-life.client.dead:
			m.leave(false)
			return
		case <-m.wakeUp:
		case <-tick.C:
		}
	}
}

func (m *member) heartbeat() []byte {
	data := wire.ConsumerData{ConsumeFromWhere: wire.ConsumeFromFirstOffset, ConsumeType: wire.ConsumePassively, GroupName: m.group(), MessageModel: wire.ModelClustering}
	topics := []string{topic}
	if m.reader.group() {
		retry, _ := m.topicOf(retryQueue)
		topics = append(topics, retry)
	} else {
		data.MessageModel = wire.ModelBroadcasting
	}
	for _, name := range topics {
		data.SubscriptionDataSet = append(data.SubscriptionDataSet, wire.SubscriptionData{ExpressionType: wire.ExpressionTag, SubString: wire.SubscribeAll,
			SubVersion: m.life.since.UnixMilli(), Topic: name})
	}
	return wire.EncodeBody(wire.HeartbeatData{ClientID: m.id, ConsumerDataSet: []wire.ConsumerData{data}})
}

// rebalance lets queues go that are another member's now, and takes those that are this one's.
func (m *member) rebalance() error {
	mine, err := m.share()
	if err != nil {
		return err
	}
	var gone, missing []int
	for queue, w := range m.work {
		select {
		case <-w.done:
			delete(m.work, queue)
			continue
		default:
		}
		if !slices.Contains(mine, queue) {
			gone = append(gone, queue)
		}
	}
	for _, queue := range gone {
		m.stop(queue)
	}
	if err := m.unlock(gone); err != nil {
		return err
	}
	for _, queue := range mine {
		if m.work[queue] == nil {
			missing = append(missing, queue)
		}
	}
	if m.reader == orderly && len(missing) > 0 {
		if missing, err = m.lock(missing); err != nil {
			return err
		}
	}
	for _, queue := range missing {
		ctx, stop := context.WithCancel(context.Background())
		w := &work{stop: stop, done: make(chan struct{})}
		m.work[queue] = w
		c := consumption{m: m, life: m.life, queue: queue, rng: rand.New(rand.NewPCG(m.rng.Uint64(), m.rng.Uint64()))}
		go func() {
			c.run(ctx)
			close(w.done)
			m.wake() // it is restarted if it is still wanted
		}()
	}
	return nil
}

// share is what belongs to this member: an equal part of neighbouring queues by the order of the ids (AllocateMessageQueueAveragely).
func (m *member) share() (mine []int, err error) {
	ids, me := []string{m.id}, 0
	if m.reader.group() {
		f, err := m.life.client.call(wire.RequestGetConsumerListByGroup, wire.ConsumerGroupRequestHeader{ConsumerGroup: m.group()}, nil)
		if err != nil {
			return nil, err
		}
		var list wire.ConsumerListBody
		if err := wire.DecodeBody(f.Body, &list); err != nil {
			return nil, err
		}
		if ids = list.ConsumerIDList; !slices.Contains(ids, m.id) {
			return nil, fmt.Errorf("%s is not among the members %q", m.id, ids)
		}
		slices.Sort(ids)
		me = slices.Index(ids, m.id)
	}
	for queue := me * queueCount / len(ids); queue < (me+1)*queueCount/len(ids); queue++ {
		mine = append(mine, queue)
	}
	if m.reader == concurrent && me == 0 {
		mine = append(mine, retryQueue)
	}
	return mine, nil
}

// stop ends a session if there is one; it commits first, unless its connection is gone.
func (m *member) stop(queue int) {
	if w := m.work[queue]; w != nil {
		w.stop()
		<-w.done
		delete(m.work, queue)
	}
}

// leave ends everything. Impolitely, nothing is committed, unlocked or said.
func (m *member) leave(politely bool) {
	m.life.abrupt.Store(!politely)
	var had []int
	for queue, w := range m.work {
		had = append(had, queue)
		w.stop()
	}
	for _, queue := range had {
		m.stop(queue)
	}
	if !politely {
		return
	}
	err := m.unlock(had)
	if err == nil {
		_, err = m.life.client.call(wire.RequestUnregisterClient, wire.UnregisterClientRequestHeader{ClientID: m.id, ConsumerGroup: m.group()}, nil)
	}
	if err != nil {
		m.w.note(err)
	}
}

func (m *member) lockBody(queues []int) []byte {
	body := wire.LockBatchBody{ClientID: m.id, ConsumerGroup: m.group()}
	for _, queue := range queues {
		body.MQSet = append(body.MQSet, wire.MessageQueue{BrokerName: brokerName, QueueID: int32(queue), Topic: topic})
	}
	return wire.EncodeBody(body)
}

// lock asks for queues and says which of them it got.
func (m *member) lock(queues []int) (got []int, err error) {
	f, err := m.life.client.call(wire.RequestLockBatchMQ, nil, m.lockBody(queues))
	if err != nil {
		return nil, err
	}
	var answer wire.LockBatchResponseBody
	if err := wire.DecodeBody(f.Body, &answer); err != nil {
		return nil, err
	}
	for _, q := range answer.LockOKMQSet {
		got = append(got, int(q.QueueID))
	}
	return got, nil
}

func (m *member) unlock(queues []int) error {
	if m.reader != orderly || len(queues) == 0 {
		return nil
	}
	_, err := m.life.client.call(wire.RequestUnlockBatchMQ, nil, m.lockBody(queues))
	return err
}

// renew locks again what is locked; what its owner asks for in time stays its own.
func (m *member) renew() error {
	var held []int
	for queue := range m.work {
		held = append(held, queue)
	}
	if len(held) == 0 {
		return nil
	}
	got, err := m.lock(held)
	if err != nil {
		return err
	}
	for _, queue := range held {
		if !slices.Contains(got, queue) {
			return fmt.Errorf("%s lost its lock of queue %d: %w", m.id, queue, errLock)
		}
	}
	return nil
}

var errLock = errors.New("lock taken away")

// consumption is the goroutine of one session.
type consumption struct {
	m       *member
	life    *connection
	queue   int
	rng     *rand.Rand
	session *session
	next    int64
	told    int64 // the last offset that was committed
}

func (c *consumption) run(ctx context.Context) {
	err := c.consume(ctx)
	if err == nil && c.session != nil && !c.life.abrupt.Load() {
		err = c.commit()
	}
	if c.session != nil {
		c.m.w.judge.close(c.session)
	}
	if err != nil {
		c.m.w.note(err)
	}
}

// consume works until ctx ends (nil), the session is void (nil) or something fails.
func (c *consumption) consume(ctx context.Context) error {
	m, judge := c.m, c.m.w.judge
	floor := judge.floor(m.reader, c.queue)
	if m.reader.group() {
		from, err := c.groupOffset()
		if err != nil {
			return err
		}
		c.next = from
	} else {
		c.next = m.kept[c.queue]
	}
	c.told = c.next
	if c.session = judge.open(m.reader, c.queue, m.id, c.life.epoch, floor, c.next); c.session == nil {
		return nil
	}
	lastCommit := time.Now()
	for ctx.Err() == nil {
		f, err := c.pull(ctx)
		if err != nil || f == nil {
			return err
		}
		if live, err := c.take(f); err != nil || !live {
			return err
		}
		if now := time.Now(); now.Sub(lastCommit) >= commitEvery {
			if err := c.commit(); err != nil {
				return err
			}
			lastCommit = now
		}
	}
	return nil
}

// groupOffset asks where the group stands; a group that never committed begins at the first message.
func (c *consumption) groupOffset() (int64, error) {
	name, queueID := c.m.topicOf(c.queue)
	f, err := c.life.client.call(wire.RequestQueryConsumerOffset, wire.QueryConsumerOffsetRequestHeader{ConsumerGroup: c.m.group(), Topic: name, QueueID: queueID}, nil)
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == wire.ResponseQueryNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var h wire.OffsetResponseHeader
	err = wire.DecodeHeader(&f.Command, &h)
	return h.Offset, err
}

// pull sends one pull that may be held; nil without an error: ctx ended first, nobody looks at the answer.
func (c *consumption) pull(ctx context.Context) (*frame, error) {
	name, queueID := c.m.topicOf(c.queue)
	h := wire.PullMessageHeader{ConsumerGroup: []byte(c.m.group()), Topic: []byte(name), QueueID: queueID, QueueOffset: c.next, MaxMsgNums: pullMessages,
		SysFlag: wire.PullSysFlagSuspend, SuspendTimeoutMillis: pullHeld.Milliseconds(), SubVersion: c.life.since.UnixMilli()}
	client := c.life.client
	answer := make(chan *frame, 1)
	if _, err := client.write(answer, func(dst []byte, opaque int32) []byte {
		return wire.AppendPullRequest(dst, client.enc, wire.RequestPullMessage, opaque, &h)
	}); err != nil {
		return nil, err
	}
	timer := time.NewTimer(pullHeld + callTimeout)
	defer timer.Stop()
	select {
	case f := <-answer:
		return f, nil
	case <-ctx.Done():
		return nil, nil
	case <-client.dead:
		return nil, nil
	case <-timer.C:
		return nil, fmt.Errorf("pull of %s queue %d: %w within %v", name, queueID, errSilent, pullHeld+callTimeout)
	}
}

// take consumes what an answer brings; live is false once the session is void.
func (c *consumption) take(f *frame) (live bool, err error) {
	var h wire.PullMessageResponse
	if err := h.Decode(&f.Command); err != nil {
		return false, err
	}
	switch code := wire.ResponseCode(f.Code); code {
	case wire.ResponseSuccess:
		for body := f.Body; len(body) > 0; {
			var v message.View
			if err := message.ParseView(body, &v); err != nil {
				return false, err
			}
			body = body[v.Size:]
			if live, err := c.one(&v); !live || err != nil {
				return false, err
			}
		}
	case wire.ResponsePullNotFound, wire.ResponsePullRetryImmediately:
	default:
		return false, &refusedError{wire.RequestPullMessage, code, string(f.Remark)}
	}
	if h.NextBeginOffset != c.next {
		c.m.w.judge.complain("loss", "%v, queue %d: code %d says to go on at %d, the next message is %d", c.m.reader, c.queue, f.Code, h.NextBeginOffset, c.next)
	}
	return true, nil
}

// one consumes one message, or fails to.
func (c *consumption) one(v *message.View) (live bool, err error) {
	content, err := parseContent(v.Body)
	if err != nil || !v.CheckCRC() {
		c.m.w.judge.complain("content", "%v, queue %d, offset %d: %v, CRC right: %t", c.m.reader, c.queue, v.QueueOffset, err, v.CheckCRC())
		c.next = int64(v.QueueOffset) + 1
		return true, nil
	}
	if !c.m.w.judge.delivered(c.session, int64(v.QueueOffset), content, time.Now()) {
		return false, nil
	}
	if c.m.reader == concurrent && c.rng.IntN(100) < failingPercent {
		if err := c.sendBack(v, content); err != nil {
			return false, err
		}
	}
	c.next = int64(v.QueueOffset) + 1
	if !c.m.reader.group() {
		c.m.kept[c.queue] = c.next
	}
	return true, nil
}

// sendBack is code 36, with a level of its own or the broker's choice (10 s for the first time, 30 s for the second …).
func (c *consumption) sendBack(v *message.View, m content) error {
	level := c.rng.IntN(3)
	wait := delays[level]
	if level == 0 {
		wait = delays[min(3+int(v.ReconsumeTimes), len(delays)-1)]
	}
	retries := int32(sentBackMax)
	c.m.w.judge.sendingBack(m.identity, time.Now().Add(wait))
	_, err := c.life.client.call(wire.RequestConsumerSendMsgBack, wire.ConsumerSendMsgBackRequestHeader{Offset: int64(v.PhyOffset), Group: c.m.group(), DelayLevel: int32(level),
		OriginMsgID: strconv.FormatInt(int64(v.PhyOffset), 10), OriginTopic: topic, MaxReconsumeTimes: &retries}, nil)
	if err == nil {
		c.m.w.judge.sentBack(m.identity)
	}
	return err
}

// commit tells the broker how far the group is.
func (c *consumption) commit() error {
	if !c.m.reader.group() || c.next == c.told || !c.m.w.judge.committing(c.session, c.next) {
		return nil
	}
	name, queueID := c.m.topicOf(c.queue)
	if _, err := c.life.client.call(wire.RequestUpdateConsumerOffset,
		wire.UpdateConsumerOffsetRequestHeader{ConsumerGroup: c.m.group(), Topic: name, QueueID: queueID, CommitOffset: c.next}, nil); err != nil {
		return err
	}
	c.told = c.next
	c.m.w.judge.committed(c.session, c.next, time.Now())
	return nil
}
