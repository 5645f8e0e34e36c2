package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// allocMessages is how many messages are sent in each flush mode and header encoding, by the one and by the four loops together.
const allocMessages = 1_000_000

// mallocsPerMessageMax is what one message may cost in all, over a real connection. Our own code allocates nothing per message;
// what is left is gnet's: two per drain of a mailbox (Execute's closure and queue node), and the runtime's own.
const mallocsPerMessageMax = 0.05

// pipeline sends prepared frames over one connection, always inflight of them unanswered, and reads the answers without
// looking further than their length. It allocates nothing once it runs.
type pipeline struct {
	conn     net.Conn
	frames   []byte // inflight frames back to back
	inflight int
	in       []byte
}

// newPipeline connects; the connection ends with the test.
func newPipeline(t *testing.T, b *testBroker, inflight int, frame []byte) *pipeline {
	t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &pipeline{conn: conn, inflight: inflight, in: make([]byte, 4<<20), frames: bytes.Repeat(frame, inflight)}
}

func (p *pipeline) run(requests int) error {
	have, pending := 0, 0
	frameSize := len(p.frames) / p.inflight
	for answered := 0; answered < requests; {
		if n := min(p.inflight-pending, requests-answered-pending); n > 0 {
			if _, err := p.conn.Write(p.frames[:n*frameSize]); err != nil {
				return err
			}
			pending += n
		}
		n, err := p.conn.Read(p.in[have:])
		if err != nil {
			return err
		}
		have += n
		at := 0
		for have-at >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(p.in[at:]))
			if have-at < size {
				break
			}
			at += size
			answered++
			pending--
		}
		copy(p.in, p.in[at:have])
		have -= at
	}
	return nil
}

// timerMallocsPerSecond is what the timers of an idle broker may allocate (they read the free memory of the machine, and save state
// files). On a slow machine a run takes seconds, and this is no message's doing.
const timerMallocsPerSecond = 150

// measure runs requests over 4 connections with inflight each and returns the growth of the runtime's Mallocs, less that of timers.
func measure(t *testing.T, b *testBroker, requests, inflight int, frame func(conn int) []byte) uint64 {
	t.Helper()
	const conns = 4
	pipes := make([]*pipeline, conns)
	for i := range pipes {
		pipes[i] = newPipeline(t, b, inflight, frame(i))
	}
	all := func(n int) {
		var done sync.WaitGroup
		for _, p := range pipes {
			done.Go(func() {
				if err := p.run(n); err != nil && err != io.EOF {
					t.Error(err)
				}
			})
		}
		done.Wait()
	}
	all(requests / conns / 10) // pools, rings and arenas grow to their size
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	all(requests / conns)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	mallocs, timers := after.Mallocs-before.Mallocs, uint64(timerMallocsPerSecond*took.Seconds())
	return mallocs - min(mallocs, timers)
}

// oneFile makes the log's files as long as the longest run needs, so that none ends in between.
func oneFile() string {
	if testing.Short() {
		return "mappedFileSizeCommitLog=67108864"
	}
	return "mappedFileSizeCommitLog=1073741824"
}

func TestSendAllocatesNothingEndToEnd(t *testing.T) {
	messages := allocMessages / 2
	if testing.Short() {
		messages /= 20
	}
	properties := "UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02WAIT\x01true\x02TAGS\x01TagA\x02"
	for _, mode := range []string{"flushDiskType=ASYNC_FLUSH", syncFlush} {
		for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
			t.Run(fmt.Sprintf("%s %v", mode, enc), func(t *testing.T) {
				shapes(t, func(t *testing.T, settings ...string) {
					b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, mode, oneFile())...)
					dial(t, b.addr, enc).makeTopic("Alloc", 4)
					sendsAllocateNothing(t, b, enc, messages, func(queueID int32) *wire.SendMessageHeader { return sendHeader("Alloc", queueID, properties) })
				})
			})
		}
	}
}

// sendsAllocateNothing measures so many sends of 128 B to the queues 0 to 3.
func sendsAllocateNothing(t *testing.T, b *testBroker, enc wire.Encoding, messages int, header func(queueID int32) *wire.SendMessageHeader) {
	t.Helper()
	body := make([]byte, 128)
	mallocs := measure(t, b, messages, 32, func(conn int) []byte { return wire.AppendSendRequestV2(nil, enc, 1, 0, header(int32(conn)), body) })
	per := float64(mallocs) / float64(messages)
	t.Logf("%d mallocs for %d messages: %.4f each", mallocs, messages, per)
	if per > mallocsPerMessageMax {
		t.Errorf("%.4f mallocs a message, at most %v are allowed", per, mallocsPerMessageMax)
	}
}

// Delayed messages and half messages ride the send path: they are rewritten on the loop, without an allocation, and so are the
// services behind them that are told of each arrival.
func TestDelayedAndHalfSendsAllocateNothingEndToEnd(t *testing.T) {
	messages := allocMessages / 4
	if testing.Short() {
		messages /= 20
	}
	for name, c := range map[string]struct {
		more    string
		sysFlag int32
		stored  []byte
		queueID message.QueueID
	}{
		"delayed": {"DELAY\x0118\x02", 0, []byte(message.ScheduleTopic), 17},
		"half":    {"TRAN_MSG\x01true\x02PGROUP\x01p\x02", message.SysFlagTransactionPrepared, halfTopic, 0},
	} {
		for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
			t.Run(fmt.Sprintf("%s %v", name, enc), func(t *testing.T) {
				b := startBroker(t, sysio.OS{}, t.TempDir(), oneFile())
				dial(t, b.addr, enc).makeTopic("Alloc", 4)
				sendsAllocateNothing(t, b, enc, messages, func(queueID int32) *wire.SendMessageHeader {
					h := sendHeader("Alloc", queueID, "UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02WAIT\x01true\x02TAGS\x01TagA\x02"+c.more)
					h.SysFlag = c.sysFlag
					return h
				})
				waitUntil(t, func() bool { return b.dispatcher.BehindBytes() == 0 })
				if q := b.store.LookupQueue(c.stored, c.queueID); q == nil || int(q.Max()) < messages {
					t.Errorf("they are not in %s", c.stored)
				}
			})
		}
	}
}

func TestHotPullAllocatesNothingEndToEnd(t *testing.T) {
	pulls := 100_000
	if testing.Short() {
		pulls /= 20
	}
	for _, size := range []int{128, 4096} { // copied answers, and answers written from the mapping
		for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
			t.Run(fmt.Sprintf("%d B %v", size, enc), func(t *testing.T) {
				b := startBroker(t, sysio.OS{}, t.TempDir(), "mappedFileSizeCommitLog=67108864")
				c := dial(t, b.addr, enc)
				c.makeTopic("Hot", 4)
				body := make([]byte, size)
				for q := range int32(4) {
					for range 32 {
						c.mustSend(sendHeader("Hot", q, "TAGS\x01TagA\x02"), body)
					}
					c.drain("Hot", q, 0, 32)
				}
				mallocs := measure(t, b, pulls, 4, func(conn int) []byte {
					return wire.AppendPullRequest(nil, enc, wire.RequestPullMessage, 1, pullHeader("Hot", int32(conn), 0, "TagA"))
				})
				per := float64(mallocs) / float64(pulls)
				t.Logf("%d mallocs for %d pulls of 32: %.4f each", mallocs, pulls, per)
				if per > mallocsPerMessageMax {
					t.Errorf("%.4f mallocs a pull, at most %v are allowed", per, mallocsPerMessageMax)
				}
			})
		}
	}
}

// The parts of the send path, function by function.
func TestSendPathFunctionsAllocateNothing(t *testing.T) {
	b := startBroker(t, sysio.OS{}, t.TempDir(), oneFile())
	dial(t, b.addr, wire.EncodingJSON).makeTopic("Func", 4)
	properties := "UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02WAIT\x01true\x02TAGS\x01TagA\x02"
	for name, text := range map[string]string{"as Java sends": properties, "without UNIQ_KEY": "TAGS\x01TagA\x02", "to rewrite": properties + "CLUSTER\x01x\x02", "none": "",
		"delayed": properties + "DELAY\x0118\x02", "half": properties + "TRAN_MSG\x01true\x02PGROUP\x01p\x02"} {
		for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
			h := sendHeader("Func", 1, text)
			if name == "half" {
				h.SysFlag = message.SysFlagTransactionPrepared
			}
			frame := wire.AppendSendRequestV2(nil, enc, 1, 0, h, make([]byte, 128))[4:]
			var d wire.Decoder
			var cmd wire.Command
			var turn sendTurn
			turn.uniqIDs = b.newUniqIDs()
			var out []byte
			host := message.HostOf(b.server.Addrs()[0])
			from := sender{host: &host, opaque: 1, enc: enc}
			got := testing.AllocsPerRun(1000, func() {
				if err := d.Decode(frame, &cmd); err != nil {
					t.Fatal(err)
				}
				if how, r := b.admitSend(&turn, &cmd, &from); how != admitted {
					t.Fatal(r)
				}
				b.announce(b.store.Append(turn.messages))
				out = b.appendSendAnswer(out[:0], &turn, &turn.pending[0], wire.ResponseSuccess)
				turn.reset()
			})
			if got != 0 {
				t.Errorf("%s, %v: %v allocations a send", name, enc, got)
			}
		}
	}
	var p sendProperties
	if got := testing.AllocsPerRun(1000, func() { p.scan([]byte(properties)) }); got > 1 { // the conversion in this line
		t.Errorf("scan: %v allocations", got)
	}
	waitUntil(t, func() bool { return b.dispatcher.BehindBytes() == 0 })
}
