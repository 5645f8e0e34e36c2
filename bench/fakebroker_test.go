package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"peregrine/internal/message"
	"peregrine/wire"
)

// fakeBroker serves one topic in memory: sends, maximum offsets, topic questions, routes and held pulls. It decodes with
// package wire, so it checks the generator's frames, too.
type fakeBroker struct {
	t    *testing.T
	ln   net.Listener
	done sync.WaitGroup

	answer     func(n uint64) (wire.ResponseCode, string) // of the n-th send request; nil = success
	before     func(n uint64)                             // runs before the n-th send is answered
	deliver    func(queue int32, offsets []int) []int     // what of the messages a pull gets; nil = all, in order
	spoil      func(records []byte)                       // changes what a pull gets
	hideFor    func() bool                                // true: maximum offsets stay at what they were before the load
	topicKnown int                                        // write queues of an existing topic; 0 = it does not exist
	routeBody  string                                     // answer to GET_ROUTEINFO_BY_TOPIC
	routeOf    string                                     // for this topic only

	frozen sync.RWMutex // held for writing while the broker stands still

	mu       sync.Mutex
	conns    map[net.Conn]bool
	queues   map[int32][][]byte // bodies by queue
	uniq     map[string]int
	created  []createTopicHeader
	deleted  []string
	arrived  *sync.Cond
	closed   bool
	problems []string

	sends       atomic.Uint64 // requests
	messages    atomic.Uint64
	outstanding atomic.Int64
	mostAtOnce  atomic.Int64
}

func startFakeBroker(t *testing.T, configure func(*fakeBroker)) *fakeBroker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBroker{t: t, ln: ln, conns: map[net.Conn]bool{}, queues: map[int32][][]byte{}, uniq: map[string]int{}}
	f.arrived = sync.NewCond(&f.mu)
	if configure != nil {
		configure(f)
	}
	f.done.Add(1)
	go func() {
		defer f.done.Done()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[c] = true
			f.mu.Unlock()
			f.done.Add(1)
			go func() { defer f.done.Done(); f.serve(c) }()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		f.mu.Lock()
		f.closed = true
		f.arrived.Broadcast()
		f.mu.Unlock()
		f.hangUp()
		f.done.Wait()
		for _, p := range f.problems {
			t.Error("fake broker:", p)
		}
	})
	return f
}

func (f *fakeBroker) addr() string { return f.ln.Addr().String() }

// look lets a test read what the broker has got: its goroutines may be busy with a connection's end still.
func (f *fakeBroker) look(at func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at()
}

// hangUp closes all connections that are open now.
func (f *fakeBroker) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close()
	}
	f.conns = map[net.Conn]bool{}
}

func (f *fakeBroker) problem(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.problems) < 5 {
		f.problems = append(f.problems, fmt.Sprintf(format, args...))
	}
}

func (f *fakeBroker) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	out := bufio.NewWriterSize(c, 64<<10)
	var dec wire.Decoder
	var cmd wire.Command
	var buf, res []byte
	for {
		var prefix [4]byte
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			return
		}
		n, err := wire.FrameLength(int32(binary.BigEndian.Uint32(prefix[:])))
		if err != nil {
			f.problem("%v", err)
			return
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := io.ReadFull(in, buf); err != nil {
			return
		}
		if err := dec.Decode(buf, &cmd); err != nil {
			f.problem("%v", err)
			return
		}
		f.frozen.RLock()
		res = f.handle(res[:0], &cmd)
		f.frozen.RUnlock()
		if _, err := out.Write(res); err != nil {
			return
		}
		if in.Buffered() == 0 {
			if out.Flush() != nil {
				return
			}
		}
	}
}

func (f *fakeBroker) handle(dst []byte, cmd *wire.Command) []byte {
	switch wire.RequestCode(cmd.Code) {
	case wire.RequestSendMessageV2, wire.RequestSendBatchMessage:
		return f.send(dst, cmd)
	case wire.RequestPullMessage:
		return f.pull(dst, cmd)
	case wire.RequestGetMinOffset:
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", offsetAnswer{}, nil)
	case wire.RequestGetMaxOffset:
		var h offsetHeader
		if err := wire.DecodeHeader(cmd, &h); err != nil {
			f.problem("%v", err)
		}
		offset := int64(0)
		if f.hideFor == nil || !f.hideFor() {
			f.mu.Lock()
			offset = int64(len(f.queues[h.QueueID]))
			f.mu.Unlock()
		}
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", offsetAnswer{Offset: offset}, nil)
	case wire.RequestGetTopicConfig:
		if f.topicKnown == 0 {
			return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseTopicNotExist, "no such topic", nil, nil)
		}
		body := fmt.Appendf(nil, `{"perm":6,"readQueueNums":%d,"topicName":"x","writeQueueNums":%d}`, f.topicKnown, f.topicKnown)
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", nil, body)
	case wire.RequestUpdateAndCreateTopic:
		var h createTopicHeader
		if err := wire.DecodeHeader(cmd, &h); err != nil {
			f.problem("%v", err)
		}
		f.mu.Lock()
		f.created = append(f.created, h)
		f.mu.Unlock()
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", nil, nil)
	case wire.RequestDeleteTopicInBroker:
		topic, _ := cmd.GetExt("topic")
		f.mu.Lock()
		f.deleted = append(f.deleted, string(topic))
		f.mu.Unlock()
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", nil, nil)
	case wire.RequestGetRouteInfoByTopic:
		if topic, _ := cmd.GetExt("topic"); string(topic) != f.routeOf {
			return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseTopicNotExist, "no route", nil, nil)
		}
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", nil, []byte(f.routeBody))
	case wire.RequestGetBrokerRuntimeInfo:
		body := fmt.Appendf(nil, `{"table":{"brokerVersionDesc":"V5_5_0","commitLogMaxOffset":"%d"}}`, 300*f.messages.Load())
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", nil, body)
	case wire.RequestGetBrokerConfig:
		return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", nil, []byte("flushDiskType=ASYNC_FLUSH\nother=1\n"))
	}
	return wire.AppendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseRequestCodeNotSupported, "not here", nil, nil)
}

func (f *fakeBroker) send(dst []byte, cmd *wire.Command) []byte {
	now := f.outstanding.Add(1)
	defer f.outstanding.Add(-1)
	for {
		most := f.mostAtOnce.Load()
		if now <= most || f.mostAtOnce.CompareAndSwap(most, now) {
			break
		}
	}
	n := f.sends.Add(1)
	if f.before != nil {
		f.before(n)
	}
	var h wire.SendMessageHeader
	if err := h.DecodeV2(cmd); err != nil {
		f.problem("%v", err)
	}
	if f.answer != nil {
		if code, remark := f.answer(n); code != wire.ResponseSuccess {
			return wire.AppendSendResponse(dst, cmd.Encoding, cmd.Opaque, code, remark, nil)
		}
	}
	first := f.store(&h, cmd.Body)
	return wire.AppendSendResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "", &wire.SendMessageResponse{
		PhyOffsets: []message.PhyOffset{7}, QueueID: h.QueueID, QueueOffset: int64(first),
	})
}

func (f *fakeBroker) store(h *wire.SendMessageHeader, body []byte) (first int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first = len(f.queues[h.QueueID])
	keep := func(body, properties []byte) {
		uniq, _ := message.GetProperty(properties, message.PropertyUniqKey)
		f.uniq[string(uniq)]++
		f.queues[h.QueueID] = append(f.queues[h.QueueID], bytes.Clone(body))
		f.messages.Add(1)
		if wait, _ := message.GetProperty(properties, message.PropertyWait); !bytes.Equal(wait, []byte("true")) && len(f.problems) < 5 {
			f.problems = append(f.problems, fmt.Sprintf("message without WAIT: %q", properties))
		}
	}
	if !h.Batch {
		keep(body, h.Properties)
	} else {
		it := message.Batch(body)
		var e message.BatchElement
		for it.Next(&e) {
			keep(e.Body, e.Properties)
		}
		if it.Err() != nil {
			f.problems = append(f.problems, it.Err().Error())
		}
	}
	f.arrived.Broadcast()
	return first
}

// pull holds the request until there is a message, as a broker does.
func (f *fakeBroker) pull(dst []byte, cmd *wire.Command) []byte {
	var h wire.PullMessageHeader
	if err := h.Decode(cmd); err != nil {
		f.problem("%v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queues[h.QueueID]) <= int(h.QueueOffset) && !f.closed {
		f.arrived.Wait()
	}
	from, to := int(h.QueueOffset), min(len(f.queues[h.QueueID]), int(h.QueueOffset)+int(h.MaxMsgNums))
	offsets := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		offsets = append(offsets, i)
	}
	if f.deliver != nil {
		offsets = f.deliver(h.QueueID, offsets)
	}
	var stored []byte
	for _, i := range offsets {
		record := message.Record{Topic: []byte("T"), Body: f.queues[h.QueueID][i], QueueOffset: message.QueueOffset(i)}
		at := len(stored)
		stored = append(stored, make([]byte, record.Size())...)
		record.EncodeTo(stored[at:])
	}
	if f.spoil != nil {
		f.spoil(stored)
	}
	dst = wire.AppendPullResponse(dst, cmd.Encoding, cmd.Opaque, wire.ResponseSuccess, "FOUND", &wire.PullMessageResponse{NextBeginOffset: int64(to), MaxOffset: int64(to)}, len(stored))
	return append(dst, stored...)
}
