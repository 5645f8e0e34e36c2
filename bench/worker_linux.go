package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// worker drives some of the connections: one goroutine on one thread. Nothing in it is shared while it works, but for the
// two channels through which intervals travel.
type worker struct {
	run   *run
	id    int
	poll  *poller
	conns []*conn
	plan  *schedule // nil in a closed loop

	unfinishedMax int     // open loop: requests on the wire and admitted arrivals together
	senders       []*conn // of conns
	pullers       []*conn // of conns
	waiting       int     // sends on the wire
	nextSender    int     // open loop: whose turn it is
	brokenCount   int     // connections that were lost and are not back yet
	delayedDue    float64 // grows by the share of delayed messages with each message
	dirty         []*conn
	sending       bool
	pulling       bool
	askNs         int64  // when a queue is asked again that had a pause
	lastArrivalNs int64  // of a message that was sent in this run
	acked         uint64 // of the whole run
	sendsOver     bool   // every send is answered or given up; run knows

	cur          *interval
	cut          int // index of the current interval's start in run.cuts; past endCut while draining
	full         chan *interval
	empty        chan *interval
	lastAnswerNs int64
	err          error // why the worker gave up; read after full is closed
}

// intervalsPerWorker circulate between a worker and the collector, so that a cut never waits for a merge.
const intervalsPerWorker = 3

// newWorker makes worker id of count, with its share of connections, of the rate and of the requests in flight.
func newWorker(r *run, id, count int) (*worker, error) {
	o := &r.opts
	w := &worker{run: r, id: id, full: make(chan *interval, intervalsPerWorker), empty: make(chan *interval, intervalsPerWorker)}
	var err error
	if w.poll, err = newPoller(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for range intervalsPerWorker - 1 {
		w.empty <- newInterval(o)
	}
	w.cur, w.askNs = newInterval(o), math.MaxInt64
	perConn := o.Inflight
	if o.Rate > 0 {
		perConn = (o.MaxInflight + o.Connections - 1) / o.Connections
	}
	for i := id; i < o.Connections; i += count {
		t := r.targets[i%len(r.targets)]
		c := &conn{target: t, table: newInflight(perConn), rx: make([]byte, readBufferBytes), queue: i % t.queues, stream: newStream(uint32(i), t.queues)}
		// Connections of one worker and one broker share the templates: both belong to this goroutine.
		for _, other := range w.senders {
			if other.target == t {
				c.frames = other.frames
			}
		}
		if c.frames == nil {
			salt := uint32(r.base.UnixNano()>>10) + uint32(id*targetsMax+i%len(r.targets))
			if c.frames, err = newFrames(o.frameSpec(t), localHost(t.ap), os.Getpid(), salt); err != nil {
				w.hangUpAll()
				return nil, err
			}
		}
		w.senders = append(w.senders, c)
	}
	for i := id; i < r.pullConnections(); i += count {
		group, of := i/o.PullConnections, len(r.targets)
		at := i % o.PullConnections
		t := r.targets[at%of]
		c := &conn{target: t, puller: newPuller(r, t, group, at/of, (o.PullConnections-at%of+of-1)/of), rx: make([]byte, readBufferBytes)}
		c.table = newInflight(max(1, len(c.puller.queues)))
		w.pullers = append(w.pullers, c)
	}
	w.conns = slices.Concat(w.senders, w.pullers)
	for i, c := range w.conns {
		c.index = i
	}
	w.unfinishedMax = max(1, o.MaxInflight*len(w.senders)/max(1, o.Connections))
	return w, nil
}

func (w *worker) hangUpAll() {
	for _, c := range w.conns {
		c.hangUp()
	}
	w.poll.close()
}

// connectAll opens all connections; one that cannot be opened ends the run before it began.
func (w *worker) connectAll() error {
	deadline := w.run.nowNs() + int64(connectTimeout)
	for _, c := range w.conns {
		if err := w.dial(c, deadline); err != nil {
			return err
		}
	}
	for pending := len(w.conns); pending > 0; {
		now := w.run.nowNs()
		if now >= deadline {
			return fmt.Errorf("%d of %d connections did not open within %v", pending, len(w.conns), connectTimeout)
		}
		events, err := w.poll.wait(deadline - now)
		if err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, ev := range events {
			c := w.conns[ev.Fd]
			if c.state != connConnecting {
				continue
			}
			if err := w.opened(c); err != nil {
				return err
			}
			pending--
		}
	}
	return nil
}

func (w *worker) dial(c *conn, untilNs int64) error {
	if err := c.dial(); err != nil {
		return err
	}
	c.connectUntilNs, c.wantsWritable = untilNs, true
	return w.poll.watch(unix.EPOLL_CTL_ADD, c.fd, c.index, true)
}

func (w *worker) opened(c *conn) error {
	if err := c.connected(); err != nil {
		return err
	}
	c.wantsWritable = false
	return w.poll.watch(unix.EPOLL_CTL_MOD, c.fd, c.index, false)
}

// work is the worker's goroutine, from the first message to the last answer.
func (w *worker) work() {
	// A thread of its own, with the shortest timer slack: a wait then ends within microseconds of its time. The thread ends
	// with the goroutine, because it was never unlocked.
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // a wish: without it waits are some 50 us longer
	defer close(w.full)
	defer w.hangUpAll()
	w.begin()
	for w.turn() {
	}
}

func (w *worker) begin() {
	r := w.run
	start := r.cuts[0]
	w.cut, w.sending, w.pulling, w.lastAnswerNs = 0, true, true, start
	w.cur.startNs, w.cur.measured = start, start >= r.warmNs
	now := r.nowNs()
	for _, c := range w.pullers {
		w.ask(c, now)
	}
	if r.opts.Rate == 0 {
		for _, c := range w.senders {
			w.drive(c, now)
		}
	} else if len(w.senders) > 0 {
		share := float64(len(w.senders)) / float64(r.opts.Connections)
		threads := min(r.opts.Threads, r.opts.Connections)
		rate := r.opts.Rate / float64(r.opts.Batch) * share
		if end := r.cuts[len(r.cuts)-1]; r.opts.Poisson {
			w.plan = newPoisson(start, end, rate, uint64(w.id), w.unfinishedMax)
		} else {
			w.plan = newSchedule(start, end, rate, float64(w.id)/float64(threads), w.unfinishedMax)
		}
	}
}

// turn is one round: what the clock asks for, what is due, one wait, what came in. It returns false when all is done.
//
// hot: 0 allocs, two clock reads a round and one a read call
func (w *worker) turn() bool {
	now := w.run.nowNs()
	if !w.passCuts(now) {
		return false
	}
	if w.plan != nil {
		w.admit(now, now)
		w.distribute(now)
	}
	w.reconnect(now)
	w.askAgain(now)
	events, err := w.poll.wait(w.wakeNs(now) - w.run.nowNs())
	if err != nil {
		w.err = fmt.Errorf("epoll: %w", err)
		return false
	}
	for i := range events {
		c := w.conns[events[i].Fd]
		if events[i].Events&unix.EPOLLOUT != 0 || c.state == connConnecting {
			w.writable(c)
		}
		if events[i].Events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) != 0 && c.state == connUp {
			w.readable(c)
		}
	}
	return true
}

// passCuts hands over the interval when its end has come, and ends the sending and finally the drain.
func (w *worker) passCuts(now int64) bool {
	r := w.run
	for w.sending && now >= r.cuts[w.cut+1] {
		if w.plan != nil {
			w.admit(r.cuts[w.cut+1]-1, now) // arrivals belong to the interval in which they were due
		}
		w.cut++
		w.handOver(r.cuts[w.cut])
		if int64(w.cut) >= r.endCut.Load() {
			w.sending = false
			if w.plan != nil {
				w.plan.endNs = min(w.plan.endNs, r.cuts[w.cut])
			}
		}
	}
	if w.sending {
		return true
	}
	queued := 0
	if w.plan != nil {
		queued = w.plan.len
	}
	if !w.drained(queued, now) && now < r.cuts[w.cut]+int64(w.run.opts.Drain) {
		return true
	}
	w.pulling = false
	for _, c := range w.senders {
		w.lost(c, codeUnanswered, "")
	}
	w.tellSendsOver()
	if queued > 0 {
		w.cur.errors.add(codeUnanswered, uint64(queued*r.opts.Batch), []byte("never sent: too many requests without an answer"))
	}
	w.handOver(now)
	return false
}

// drained tells whether every send is answered and every acknowledged message has reached the consumers.
func (w *worker) drained(queued int, now int64) bool {
	if w.waiting+queued > 0 {
		return false
	}
	w.tellSendsOver()
	r := w.run
	if len(w.pullers) == 0 || r.opts.consumes != consumeArriving {
		return true
	}
	for _, c := range w.pullers {
		p := c.puller
		r.received[p.group].Add(p.counts.messages - p.told)
		p.told = p.counts.messages
	}
	if r.sendersBusy.Load() > 0 {
		return false
	}
	for i := range r.received {
		if r.received[i].Load() < r.acked.Load() {
			return false
		}
	}
	return !r.unsure.Load() || now-max(w.lastArrivalNs, r.cuts[w.cut]) > int64(quietMin)
}

// tellSendsOver tells the other workers what this one's sends came to.
func (w *worker) tellSendsOver() {
	if !w.sendsOver {
		w.sendsOver = true
		w.run.acked.Add(w.acked)
		w.run.sendersBusy.Add(-1)
	}
}

// handOver closes the current interval at endNs and opens the next one.
func (w *worker) handOver(endNs int64) {
	w.cur.endNs = endNs
	w.full <- w.cur
	w.cur = <-w.empty
	w.cur.startNs = endNs
	r := w.run
	w.cur.measured = endNs >= r.warmNs && int64(w.cut) < r.endCut.Load()
}

// wakeNs is when the next wait has to end at the latest.
func (w *worker) wakeNs(now int64) int64 {
	r := w.run
	at := r.cuts[w.cut] + int64(w.run.opts.Drain)
	if w.sending {
		at = r.cuts[w.cut+1]
		if w.plan != nil {
			at = min(at, w.plan.nextNs())
		}
	} else if w.waiting == 0 && (w.plan == nil || w.plan.len == 0) {
		at = now
		if len(w.pullers) > 0 {
			at += int64(time.Millisecond) // other workers may be about to tell that theirs is over
		}
	}
	at = min(at, w.askNs)
	if w.brokenCount == 0 {
		return at
	}
	for _, c := range w.conns {
		switch c.state {
		case connDown:
			at = min(at, c.retryNs)
		case connConnecting:
			at = min(at, c.connectUntilNs)
		}
	}
	return at
}

// admit takes the arrivals up to dueNs.
func (w *worker) admit(dueNs, now int64) {
	due, skipped, lag := w.plan.admit(dueNs, now, w.waiting, w.unfinishedMax)
	if due == 0 {
		return
	}
	batch := w.run.opts.Batch
	w.cur.offered += uint64(due * batch)
	w.cur.skipped += uint64(skipped * batch)
	w.cur.record(w.cur.lag, lag)
}

// distribute composes admitted arrivals on the connections in turn, past those that have no room, and writes.
func (w *worker) distribute(now int64) {
	for w.plan.len > 0 {
		c := w.roomiest()
		if c == nil {
			break
		}
		w.compose(c, w.plan.pop(), now)
		if !c.dirty {
			c.dirty = true
			w.dirty = append(w.dirty, c)
		}
	}
	for _, c := range w.dirty {
		c.dirty = false
		w.flush(c)
	}
	w.dirty = w.dirty[:0]
}

// roomiest is the next connection in turn that can take a frame, nil if none can.
func (w *worker) roomiest() *conn {
	for range w.senders {
		c := w.senders[w.nextSender]
		w.nextSender++
		if w.nextSender == len(w.senders) {
			w.nextSender = 0
		}
		if c.room() {
			return c
		}
	}
	return nil
}

// drive fills a connection of a closed loop up to its requests in flight, or up to what the socket takes, and writes.
//
// hot: 0 allocs
func (w *worker) drive(c *conn, now int64) {
	for c.state == connUp {
		for w.sending && c.room() {
			w.compose(c, now, now)
		}
		if c.unsent() == 0 {
			return
		}
		w.flush(c)
		if c.unsent() > 0 {
			return // the socket is full; writability brings us back
		}
	}
}

// compose puts one request into the connection's send buffer.
//
// hot: 0 allocs
func (w *worker) compose(c *conn, intendedNs, now int64) {
	o := &w.run.opts
	delayed := w.delays()
	number := &c.stream.kind(delayed).sent[c.queue]
	opaque := c.table.take(request{intendedNs: intendedNs, sentNs: now, queue: int32(c.queue), sequence: *number, delayed: delayed})
	c.tx = c.frames.append(c.tx, c.queue, delayed, opaque, w.run.epochMs(now),
		stamp{run: w.run.id, stream: w.run.streamOf(c.stream.number, delayed), sequence: *number, intendedNs: intendedNs})
	*number += uint64(o.Batch)
	c.queue++
	if c.queue == c.target.queues {
		c.queue = 0
	}
	w.waiting++
	w.cur.sent += uint64(o.Batch)
}

// delays tells whether the next message is one of those that get a delay level: they are spread evenly.
func (w *worker) delays() bool {
	share := w.run.opts.Delayed
	if share == 0 {
		return false
	}
	w.delayedDue += share
	if w.delayedDue < 1 {
		return false
	}
	w.delayedDue--
	return true
}

// flush writes what the socket takes.
//
// hot: 0 allocs
func (w *worker) flush(c *conn) {
	for c.state == connUp && c.unsent() > 0 {
		n, err := unix.Write(c.fd, c.tx[c.txFrom:])
		switch {
		case err == nil:
			c.txFrom += n
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if !c.wantsWritable {
				c.wantsWritable = true
				w.check(w.poll.watch(unix.EPOLL_CTL_MOD, c.fd, c.index, true))
			}
			return
		default:
			w.lose(c, err)
			return
		}
	}
	c.tx, c.txFrom = c.tx[:0], 0
	if c.wantsWritable && c.state == connUp {
		c.wantsWritable = false
		w.check(w.poll.watch(unix.EPOLL_CTL_MOD, c.fd, c.index, false))
	}
}

// check keeps an error that can only come from a mistake of ours; the run ends with it.
func (w *worker) check(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("epoll: %w", err)
	}
}

// writable goes on with a connect or with unsent bytes.
func (w *worker) writable(c *conn) {
	now := w.run.nowNs()
	switch c.state {
	case connConnecting:
		if err := w.opened(c); err != nil {
			w.lose(c, err)
			return
		}
		w.brokenCount--
		w.cur.reconnects++
		w.cur.outageMaxNs = max(w.cur.outageMaxNs, now-c.downSinceNs)
	case connUp:
		w.flush(c)
	case connDown:
		return
	}
	w.goOn(c, now)
}

// goOn composes what a connection can take now, unless a schedule decides that.
//
// hot: 0 allocs
func (w *worker) goOn(c *conn, now int64) {
	switch {
	case c.puller != nil:
		w.ask(c, now)
	case w.plan == nil:
		w.drive(c, now)
	}
}

// readable takes all answers that are there; a closed loop sends as many new requests in one write.
//
// hot: 0 allocs
func (w *worker) readable(c *conn) {
	for c.state == connUp {
		n, err := unix.Read(c.fd, c.rx[c.rxTo:])
		now := w.run.nowNs()
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil:
			w.lose(c, err)
			return
		case n == 0:
			w.lose(c, errors.New("closed by the broker"))
			return
		}
		filled := n == len(c.rx)-c.rxTo
		c.rxTo += n
		if c.puller != nil {
			w.takePulls(c, now)
		} else {
			w.take(c, now)
		}
		w.goOn(c, now)
		if !filled {
			return // the socket was empty; epoll says when there is more
		}
	}
}

// take accounts for every whole answer in the read buffer.
//
// hot: 0 allocs
func (w *worker) take(c *conn, now int64) {
	for {
		a, size, need, ok, err := c.answer.next(c.rx[c.rxFrom:c.rxTo])
		switch {
		case err != nil:
			w.lose(c, err)
			return
		case size == 0:
			c.makeRoom(need)
			return
		}
		c.rxFrom += size
		if !ok {
			continue
		}
		w.account(c, a, now)
	}
}

// account counts one answer.
//
// hot: 0 allocs
func (w *worker) account(c *conn, a answer, now int64) {
	req, known := c.table.give(a.opaque)
	if !known {
		w.cur.strange++
		return
	}
	w.waiting--
	w.lastAnswerNs = now
	iv, batch := w.cur, uint64(w.run.opts.Batch)
	if a.code != 0 {
		iv.errors.add(a.code, batch, a.remark)
		w.doubt(c, &req)
		return
	}
	iv.acked += batch
	w.acked += batch
	if req.intendedNs < w.run.warmNs {
		return
	}
	iv.record(iv.service, now-req.sentNs)
	if iv.response != nil {
		iv.record(iv.response, now-req.intendedNs)
	}
}

// lose gives a broken connection up for now: what waited on it is lost, a new one is tried after a pause.
func (w *worker) lose(c *conn, why error) {
	now := w.run.nowNs()
	if c.state == connUp {
		w.brokenCount++
		c.downSinceNs = now
	}
	w.lost(c, codeConnectionLost, why.Error())
	c.hangUp()
	c.retryNs = now + int64(reconnectPause)
}

// doubt notes a send that was not acknowledged. Codes that say that the message was stored and only not synced yet are among them.
func (w *worker) doubt(c *conn, req *request) {
	if w.run.opts.consumes == consumeArriving {
		w.run.unsure.Store(true)
		if !c.stream.doubt(req, w.run.opts.Batch) {
			w.run.unsureTooMany.Store(true)
		}
	}
}

// lost counts everything that waits on a connection as failed.
func (w *worker) lost(c *conn, code int32, why string) {
	if c.puller != nil {
		asked := uint64(0)
		c.table.giveAll(func(r request) {
			q := &c.puller.queues[r.queue]
			q.asked = false
			w.askLater(q, w.run.nowNs())
			asked++
		})
		if asked > 0 {
			w.cur.errors.add(code, 1, []byte(why))
		}
		return
	}
	n := uint64(0)
	c.table.giveAll(func(r request) {
		n++
		w.doubt(c, &r)
	})
	w.waiting -= int(n)
	if n > 0 {
		w.cur.errors.add(code, n*uint64(w.run.opts.Batch), []byte(why))
	}
}

// reconnect dials what is due and gives up connects that take too long.
func (w *worker) reconnect(now int64) {
	if w.brokenCount == 0 {
		return
	}
	for _, c := range w.conns {
		if c.state == connConnecting && now >= c.connectUntilNs {
			w.lose(c, errors.New("connect timed out"))
		}
		if c.state == connDown && now >= c.retryNs && w.sending {
			if err := w.dial(c, now+int64(connectTimeout)); err != nil {
				w.lose(c, err)
			}
		}
	}
}

// processCPU is the processor time that this process has used, user and system.
func processCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
