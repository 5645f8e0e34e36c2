package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// hostileTries is how often each kind of garbage is sent (cases W11 and X03 count the memory per 1,000 tries).
const hostileTries = 1000

// garbage are byte strings that no client sends. Each has to end its own connection, or be answered, and nothing else.
func garbage() map[string][]byte {
	frame := func(encoding byte, headerLen int, header, body []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
		b = binary.BigEndian.AppendUint32(b, uint32(encoding)<<24|uint32(headerLen))
		return append(append(b, header...), body...)
	}
	binaryHeader := func(remarkLen, extLen uint32, ext []byte) []byte {
		h := []byte{1, 54, 0, 2, 1, 0, 0, 0, 7, 0, 0, 0, 0}
		h = binary.BigEndian.AppendUint32(h, remarkLen)
		h = binary.BigEndian.AppendUint32(h, extLen)
		return append(h, ext...)
	}
	deep := append([]byte(`{"code":34,"opaque":1,"extFields":`), bytes.Repeat([]byte(`{"a":`), 10_000)...)
	good := wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, SendHeader("Hostile", 0, ""), nil)
	batch := SendHeader("Hostile", 0, "")
	batch.Batch = true
	badBatch := wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, batch, []byte{255, 255, 255, 250, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0})
	return map[string][]byte{
		"HTTP/2 preface":            []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"HTTP request":              []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS ClientHello":           {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
		"frame length 0":            {0, 0, 0, 0},
		"frame length negative":     {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"frame length over 16 MiB":  {0x01, 0x00, 0x00, 0x00, 0, 0, 0, 0},
		"header length 0xFFFFFF":    frame(0, 0xFFFFFF, []byte(`{"code":105}`), nil),
		"header length over frame":  frame(1, 30, []byte("0123456789"), nil),
		"unknown encoding":          frame(7, 12, []byte(`{"code":105}`), nil),
		"remark of 2 GiB":           frame(1, 21, binaryHeader(1<<31-1, 0, nil), nil),
		"ext fields longer than it": frame(1, 25, binaryHeader(0, 1<<30, []byte{0, 1, 'a', 0}), nil),
		"ext value of 2 GiB":        frame(1, 28, binaryHeader(0, 7, []byte{0, 1, 'a', 0x7f, 0xff, 0xff, 0xff}), nil),
		"JSON depth 10,000":         frame(0, len(deep), deep, nil),
		"JSON that ends early":      frame(0, 20, []byte(`{"code":34,"opaque":1`)[:20], nil),
		"no JSON":                   frame(0, 9, []byte("\x00\xff{[}]\"\\u"), nil),
		"batch of negative sizes":   badBatch,
		"send without body":         good,
	}
}

// Cases W11, W13 and X03: garbage ends its own connection or is answered; memory stays where it is; others work on; no panic.
func TestGarbageHurtsNobodyElse(t *testing.T) {
	if bed.apache {
		t.Skip("what peregrine does with garbage")
	}
	t.Parallel()
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			broker := startBroker(t, s, true).(*Peregrine)
			bystander, err := DialRaw(broker.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer bystander.Close()
			if _, err := bystander.Send(SendHeader("Hostile", 0, ""), []byte("before")); err != nil {
				t.Fatal(err)
			}
			for name, bytes := range garbage() {
				before, err := sysio.RssAnonOf(broker.Process().Pid())
				if err != nil {
					t.Fatal(err)
				}
				tries := hostileTries
				if len(bytes) > 1000 {
					tries /= 10
				}
				for i := range tries {
					addr := broker.Addr()
					if i%2 == 1 {
						addr = broker.NameServer()
					}
					if err := poke(addr, bytes); err != nil {
						t.Fatalf("%s, try %d: %v", name, i, err)
					}
				}
				after, err := sysio.RssAnonOf(broker.Process().Pid())
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if grown := after - before; grown > 10<<20 {
					t.Errorf("%s: %d bytes more anonymous memory after %d tries", name, grown, tries)
				}
				if cmd, err := bystander.Send(SendHeader("Hostile", 0, ""), []byte("after "+name)); err != nil || cmd.Code != 0 {
					t.Fatalf("%s: another client is disturbed: %v", name, err)
				}
			}
			logs := broker.Logs()
			if strings.Contains(logs, "panic") {
				t.Errorf("a panic:\n%s", logs)
			}
			if lines := strings.Count(logs, "\n"); lines > 200 {
				t.Errorf("%d log lines for garbage", lines)
			}
		})
	}
}

// poke writes bytes and waits until the peer closed or answered.
func poke(addr string, b []byte) error {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(b); err != nil {
		return nil // closed while we wrote
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var one [1]byte
	if _, err := conn.Read(one[:]); err != nil {
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			return fmt.Errorf("neither an answer nor a close: %w", err)
		}
	}
	return nil
}

// Case P14: clients that pull 100 MB and never read are closed or held with bounded memory, and nobody else waits for them.
func TestClientsThatDoNotReadAreBounded(t *testing.T) {
	if bed.apache {
		t.Skip("what peregrine does with slow readers")
	}
	t.Parallel()
	const readers, outboundMax = 50, 256 << 20
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			broker := startBroker(t, s, true).(*Peregrine)
			c, err := DialRaw(broker.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.Enc = wire.EncodingBinary
			body := make([]byte, 64<<10)
			for range 64 {
				if cmd, err := c.Send(SendHeader("Slow", 0, ""), body); err != nil || cmd.Code != 0 {
					t.Fatalf("send: %v", err)
				}
			}
			if _, err := c.ReadQueue("Slow", 0, 0, func(*message.View) error { return nil }); err != nil {
				t.Fatal(err)
			}
			pull := wire.AppendPullRequest(nil, wire.EncodingBinary, wire.RequestPullMessage, 1, PullHeader("Slow", 0, 0))
			var requests []byte
			for range 400 { // of some 256 KiB each: 100 MB
				requests = append(requests, pull...)
			}
			for range readers {
				conn, err := net.Dial("tcp", broker.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write(requests); err != nil && err != io.EOF {
					t.Fatal(err)
				}
			}
			var worst time.Duration
			for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
				began := time.Now()
				if cmd, err := c.Send(SendHeader("Slow", 1, ""), []byte("x")); err != nil || cmd.Code != 0 {
					t.Fatalf("another client is disturbed: %v", err)
				}
				worst = max(worst, time.Since(began))
			}
			if anon, err := sysio.RssAnonOf(broker.Process().Pid()); err != nil || anon > outboundMax+(64<<20) {
				t.Errorf("%d bytes of anonymous memory, %v", anon, err)
			}
			if worst > 10*time.Second { // a hang, not a rate: other processes share the machine
				t.Errorf("a send of another client took %v", worst)
			}
		})
	}
}

// Case P15: connections that close with answers in flight leave nothing behind.
func TestClosingWithAnswersInFlightLeavesNothing(t *testing.T) {
	if bed.apache {
		t.Skip("what peregrine keeps of closed connections")
	}
	t.Parallel()
	const rounds, conns, requests = 50, 100, 100
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			row := settings{s.name, map[string]string{"flushDiskType": "SYNC_FLUSH"}} // answers wait outside of the loop
			for k, v := range s.values {
				row.values[k] = v
			}
			broker := startBroker(t, row, true).(*Peregrine)
			one := wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, SendHeader("Close", 0, "WAIT\x01true\x02"), []byte("x"))
			held := PullHeader("Close", 1, 0)
			held.SysFlag |= wire.PullSysFlagSuspend
			held.SuspendTimeoutMillis = 60_000
			burst := append(bytes.Repeat(one, requests), wire.AppendPullRequest(nil, wire.EncodingBinary, wire.RequestPullMessage, 2, held)...)
			round := func() {
				var all sync.WaitGroup
				for range conns {
					all.Go(func() {
						conn, err := net.Dial("tcp", broker.Addr())
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = conn.Write(burst)
						conn.Close()
					})
				}
				all.Wait()
			}
			base := gauges(t, broker, func(map[string]float64) bool { return true })
			for range rounds {
				round()
			}
			after := gauges(t, broker, func(g map[string]float64) bool {
				return g["peregrine_connections"] == 0 && g["peregrine_pulls_held"] == 0 && g["peregrine_requests_in_flight"] == 0 &&
					g["peregrine_sends_waiting_for_sync"] == 0 && g["peregrine_outbound_pending_bytes"] == 0
			})
			if grown := after["go_goroutines"] - base["go_goroutines"]; grown > 10 {
				t.Errorf("%v more goroutines", grown)
			}
			if grown := after["process_open_fds"] - base["process_open_fds"]; grown > 10 {
				t.Errorf("%v more descriptors", grown)
			}
			if anon, err := sysio.RssAnonOf(broker.Process().Pid()); err != nil || anon > 150<<20 {
				t.Errorf("%d bytes of anonymous memory, %v", anon, err)
			}
		})
	}
}
