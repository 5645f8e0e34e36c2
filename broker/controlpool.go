package broker

import (
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"peregrine/broker/control"
	"peregrine/internal/message"
	"peregrine/internal/stagetime"
	"peregrine/netio"
	"peregrine/wire"
)

// controlJob is one request, or the end of a connection, on its way to a control worker.
type controlJob struct {
	ref      netio.ConnRef
	remote   netip.AddrPort
	listener int
	frame    *netio.Buffer // nil: the connection has closed
	since    time.Time     // of a request: it came
}

// controlPool runs everything that is not a send or a pull: tables, JSON, files. A connection always meets the same
// worker, so that its requests and its end are worked off in their order: a heartbeat cannot register a connection that
// is known to be gone.
type controlPool struct {
	broker  *Broker
	workers []controlWorker
	bytes   atomic.Int64 // of the frames that wait
	done    sync.WaitGroup
}

type controlWorker struct {
	mu      sync.Mutex
	jobs    []controlJob // guarded by mu
	frames  int          // guarded by mu: jobs with a frame
	stopped bool         // guarded by mu
	wake    chan struct{}

	decoder wire.Decoder
	command wire.Command
	send    sendTurn
	waited  stagetime.Stage // of requests: until the worker takes them
}

func startControlPool(b *Broker, count int) *controlPool {
	p := &controlPool{broker: b, workers: make([]controlWorker, count)}
	for i := range p.workers {
		w := &p.workers[i]
		w.wake = make(chan struct{}, 1)
		w.send.uniqIDs = b.newUniqIDs()
		p.done.Add(1)
		go p.run(w)
	}
	return p
}

// stop ends the workers after the jobs that they have.
func (p *controlPool) stop() {
	for i := range p.workers {
		w := &p.workers[i]
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
		w.rouse()
	}
	p.done.Wait()
}

func (w *controlWorker) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (p *controlPool) workerOf(ref netio.ConnRef) *controlWorker {
	return &p.workers[(uint(ref.Slot)+uint(ref.Loop))%uint(len(p.workers))]
}

// submit copies the frame and hands it to the connection's worker, or refuses it when too much waits.
func (p *controlPool) submit(ls *loopState, c *netio.Conn, cmd *wire.Command, frame []byte) {
	w := p.workerOf(c.Ref)
	full := p.bytes.Load() > controlBytesMax
	if !full {
		job := controlJob{ref: c.Ref, remote: c.Remote, listener: c.Listener, frame: netio.GetBuffer(len(frame)), since: time.Now()}
		job.frame.B = append(job.frame.B, frame...)
		w.mu.Lock()
		if full = w.frames >= controlJobsMax; !full {
			w.jobs = append(w.jobs, job)
			w.frames++
			p.bytes.Add(int64(len(frame)))
		}
		w.mu.Unlock()
		if !full {
			c.BeginRequest()
			ls.count[countControl]++
			w.rouse()
			return
		}
		netio.PutBuffer(job.frame)
	}
	ls.count[countBusy]++
	if !cmd.IsResponse() {
		ls.refuse(c, cmd, refusalControlBusy)
	}
}

var refusalControlBusy = wire.Refuse(wire.ResponseSystemBusy, "[OVERLOAD]system busy, start flow control for a while")

// connClosed tells the worker that the connection is gone; never refused, there is one for each connection.
func (p *controlPool) connClosed(c *netio.Conn) {
	w := p.workerOf(c.Ref)
	w.mu.Lock()
	w.jobs = append(w.jobs, controlJob{ref: c.Ref, remote: c.Remote, listener: c.Listener})
	w.mu.Unlock()
	w.rouse()
}

func (p *controlPool) run(w *controlWorker) {
	defer p.done.Done()
	var jobs []controlJob
	for {
		w.mu.Lock()
		jobs, w.jobs = w.jobs, jobs[:0]
		stopped := w.stopped
		w.mu.Unlock()
		if len(jobs) == 0 {
			if stopped {
				return
			}
			<-w.wake
			continue
		}
		for i := range jobs {
			p.work(w, &jobs[i])
			jobs[i] = controlJob{}
		}
	}
}

func (p *controlPool) work(w *controlWorker, job *controlJob) {
	b := p.broker
	if job.frame == nil {
		if b.roles[job.listener] == roleNamesrv {
			b.namesrv.ConnClosed(job.ref)
		} else {
			b.locks.ConnClosed(job.ref)
			b.relay.ConnClosed(job.ref)
			b.clients.ConnClosed(job.ref)
		}
		return
	}
	w.waited.Took(time.Since(job.since), 1)
	answer, later := p.serve(w, job)
	w.mu.Lock()
	w.frames--
	w.mu.Unlock()
	p.bytes.Add(-int64(len(job.frame.B)))
	netio.PutBuffer(job.frame)
	if !later {
		p.post(job.ref, answer)
	}
}

// post ends a request with its answer frame; nil: it gets none.
func (p *controlPool) post(ref netio.ConnRef, answer *netio.Buffer) {
	p.broker.server.Post(int(ref.Loop), netio.Mail{Kind: netio.MailAnswer, Done: 1, Ref: ref, Buf: answer})
}

func replyFrame(enc wire.Encoding, opaque int32, oneway bool, reply *wire.Reply) *netio.Buffer {
	if reply.None || oneway {
		return nil
	}
	buf := netio.GetBuffer(512 + len(reply.Body))
	buf.B = wire.AppendReply(buf.B, enc, opaque, reply)
	return buf
}

// serve gives the answer frame, nil when there is none; with later set somebody else posts it. A panic is one request's
// SYSTEM_ERROR, not the broker's end.
func (p *controlPool) serve(w *controlWorker, job *controlJob) (answer *netio.Buffer, later bool) {
	b, cmd := p.broker, &w.command
	if err := w.decoder.Decode(job.frame.B, cmd); err != nil {
		panic("BUG: broker: a frame that was decoded before does not decode: " + err.Error())
	}
	if cmd.IsResponse() {
		b.relay.Answered(job.ref, cmd)
		return nil, false
	}
	reply := wire.Reply{None: true}
	var end func(*netio.Buffer) // ends the request later
	defer func() {
		if v := recover(); v != nil {
			b.panics.Add(1)
			b.logger.Error("BUG: panic in a request processor", "code", cmd.Code, "panic", v, "stack", string(debug.Stack()))
			reply = wire.Reply{Code: wire.ResponseSystemError, Remark: "internal error, see the broker's log"}
		}
		if later = end != nil; !later && answer == nil {
			answer = replyFrame(cmd.Encoding, cmd.Opaque, cmd.IsOneway(), &reply)
		} else if later && !reply.None {
			end(replyFrame(cmd.Encoding, cmd.Opaque, cmd.IsOneway(), &reply))
		}
	}()
	if b.roles[job.listener] == roleNamesrv {
		reply = b.namesrv.Process(cmd, job.ref, job.remote)
		return nil, false
	}
	answerLater := func() func(*netio.Buffer) {
		ref := job.ref
		var once sync.Once
		end = func(answer *netio.Buffer) { once.Do(func() { p.post(ref, answer) }) }
		return end
	}
	host := message.HostOf(job.remote)
	from := &sender{host: &host, opaque: cmd.Opaque, enc: cmd.Encoding, oneway: cmd.IsOneway()}
	switch code := wire.RequestCode(cmd.Code); code {
	case wire.RequestSendMessage, wire.RequestSendMessageV2, wire.RequestSendBatchMessage:
		answer = sendFrame(b.runSend(&w.send, cmd, from), from.oneway)
	case wire.RequestSendReplyMessage, wire.RequestSendReplyMessageV2:
		answer = sendFrame(b.sendReply(&w.send, cmd, from, answerLater), from.oneway)
	default:
		process := b.processors[code]
		if process == nil || code == wire.RequestPopLiteMessage && b.roles[job.listener] == roleFast {
			reply = wire.Reply{Code: wire.ResponseRequestCodeNotSupported, Remark: " request type " + itoa(cmd.Code) + " not supported"}
			break
		}
		reply = process(&control.Request{Cmd: cmd, Ref: job.ref, Remote: job.remote, Later: func() func(wire.Reply) {
			end := answerLater()
			return func(reply wire.Reply) { end(replyFrame(from.enc, from.opaque, from.oneway, &reply)) }
		}})
	}
	return answer, false
}

// sendFrame puts the answer to a send into a buffer; nil when there is none to give.
func sendFrame(frame []byte, oneway bool) *netio.Buffer {
	if frame == nil || oneway {
		return nil
	}
	buf := netio.GetBuffer(len(frame))
	buf.B = append(buf.B, frame...)
	return buf
}
