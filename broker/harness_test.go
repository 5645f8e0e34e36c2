package broker

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

func TestMain(m *testing.M) {
	// Importing gnet starts two goroutines of its pool library, and a worker of it enrolled a waker: it idles for seconds.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// testBroker is a whole broker in this process, over real sockets and a real or a simulated file system.
type testBroker struct {
	*Broker
	t     *testing.T
	store *store.Store
	addr  string
	fatal atomic.Pointer[error]
	ended bool
	lines testLines // what it logged
	began time.Time
}

// startBroker starts a broker in dir on fsys with the given broker.conf settings.
func startBroker(t *testing.T, fsys sysio.FS, dir string, settings ...string) *testBroker {
	t.Helper()
	args := append([]string{"storePathRootDir=" + dir, "listenPort=10911", "brokerName=test", "brokerIP1=127.0.0.1",
		"maxHashSlotNum=1000", "maxIndexNum=20000"}, settings...)
	cfg, _, err := config.Load(args, func(string) string { return "" }, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Resolve(config.ThisMachine())
	b := &testBroker{t: t, began: time.Now()}
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(testLog{t}, &b.lines), &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := store.Open(store.Options{FS: fsys, Config: cfg, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	b.store = st
	b.Broker, err = New(Options{Config: config.NewLive(cfg, nil), FS: fsys, Store: st, Addr: "127.0.0.1:10911", StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"),
		Logger: logger, Fatal: func(err error) { b.fatal.CompareAndSwap(nil, &err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Recover(st.Recovery()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Start(ctx, "127.0.0.1:0", "127.0.0.1:0", ""); err != nil {
		t.Fatal(err)
	}
	b.addr = b.server.Addrs()[0].String()
	t.Cleanup(func() { b.stop() })
	return b
}

// stop ends the broker as SIGTERM does. It may be called twice.
func (b *testBroker) stop() (clean bool) {
	if b.ended {
		return false
	}
	b.ended = true
	clean = b.Stop(5 * time.Second)
	if err := b.store.Close(clean); err != nil && b.fatal.Load() == nil {
		b.t.Errorf("close the store: %v", err)
	}
	return clean
}

// testLog writes a broker's warnings into the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("%s", strings.TrimRight(string(line), "\n"))
	return len(line), nil
}

// testLines keeps a broker's warnings.
type testLines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *testLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *testLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// client is a raw connection for one goroutine.
type client struct {
	t      testing.TB
	conn   net.Conn
	in     *bufio.Reader
	enc    wire.Encoding
	dec    wire.Decoder
	cmd    wire.Command
	frame  []byte
	out    []byte
	opaque int32
}

func dial(t testing.TB, addr string, enc wire.Encoding) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, in: bufio.NewReaderSize(conn, 256<<10), enc: enc}
}

// tryReceive reads one frame, valid until the next read.
func (c *client) tryReceive(within time.Duration) (*wire.Command, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	var prefix [4]byte
	if _, err := io.ReadFull(c.in, prefix[:]); err != nil {
		return nil, err
	}
	n, err := wire.FrameLength(int32(binary.BigEndian.Uint32(prefix[:])))
	if err != nil {
		return nil, err
	}
	if cap(c.frame) < n {
		c.frame = make([]byte, n)
	}
	c.frame = c.frame[:n]
	if _, err := io.ReadFull(c.in, c.frame); err != nil {
		return nil, err
	}
	return &c.cmd, c.dec.Decode(c.frame, &c.cmd)
}

func (c *client) receive() *wire.Command {
	c.t.Helper()
	cmd, err := c.tryReceive(20 * time.Second)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return cmd
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() int32 {
	c.opaque++
	return c.opaque
}

// call sends a cold request and waits for its answer.
func (c *client) call(code wire.RequestCode, header any, body []byte) *wire.Command {
	c.t.Helper()
	c.write(wire.AppendRequest(nil, c.enc, code, c.next(), 0, wire.LanguageGo, wire.Version, header, body))
	cmd := c.receive()
	if cmd.Opaque != c.opaque || !cmd.IsResponse() || cmd.Encoding != c.enc {
		c.t.Fatalf("request %d: answer with opaque %d instead of %d, response %v, encoding %v", code, cmd.Opaque, c.opaque, cmd.IsResponse(), cmd.Encoding)
	}
	return cmd
}

// sendHeader is a send as the Java client makes it.
func sendHeader(topic string, queueID int32, properties string) *wire.SendMessageHeader {
	return &wire.SendMessageHeader{ProducerGroup: []byte("p"), Topic: []byte(topic), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 8, QueueID: queueID,
		BornTimestamp: time.Now().UnixMilli(), Properties: []byte(properties)}
}

// trySend is send for goroutines that may not end the test.
func (c *client) trySend(h *wire.SendMessageHeader, body []byte) (*wire.Command, error) {
	c.out = wire.AppendSendRequestV2(c.out[:0], c.enc, c.next(), 0, h, body)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	return c.tryReceive(20 * time.Second)
}

func (c *client) send(h *wire.SendMessageHeader, body []byte) *wire.Command {
	c.t.Helper()
	cmd, err := c.trySend(h, body)
	if err != nil {
		c.t.Fatal(err)
	}
	if cmd.Opaque != c.opaque {
		c.t.Fatalf("send: answer with opaque %d instead of %d", cmd.Opaque, c.opaque)
	}
	return cmd
}

func (c *client) mustSend(h *wire.SendMessageHeader, body []byte) *wire.Command {
	c.t.Helper()
	cmd := c.send(h, body)
	if wire.ResponseCode(cmd.Code) != wire.ResponseSuccess {
		c.t.Fatalf("send to %s: code %d %s", h.Topic, cmd.Code, cmd.Remark)
	}
	return cmd
}

// pullHeader is a pull with an inline subscription, as mqadmin makes it.
func pullHeader(topic string, queueID int32, offset int64, expression string) *wire.PullMessageHeader {
	return &wire.PullMessageHeader{ConsumerGroup: []byte("TOOLS_CONSUMER"), Topic: []byte(topic), QueueID: queueID, QueueOffset: offset, MaxMsgNums: 32,
		SysFlag: wire.PullSysFlagSubscription, Subscription: []byte(expression), ExpressionType: []byte("TAG")}
}

func (c *client) pull(h *wire.PullMessageHeader) *wire.Command {
	c.t.Helper()
	c.write(wire.AppendPullRequest(nil, c.enc, wire.RequestPullMessage, c.next(), h))
	return c.receive()
}

// records parses the records of a pull's answer.
func records(t testing.TB, body []byte) []message.View {
	t.Helper()
	var views []message.View
	for len(body) > 0 {
		var v message.View
		if err := message.ParseView(body, &v); err != nil {
			t.Fatal(err)
		}
		if !v.CheckCRC() {
			t.Fatalf("record at %d: wrong CRC", v.PhyOffset)
		}
		views = append(views, v)
		body = body[v.Size:]
	}
	return views
}

// drain pulls a queue from an offset until n messages came.
func (c *client) drain(topic string, queueID int32, from int64, n int) (bodies []string) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for len(bodies) < n {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s queue %d: %d of %d messages came", topic, queueID, len(bodies), n)
		}
		h := pullHeader(topic, queueID, from, "*")
		h.SysFlag |= wire.PullSysFlagSuspend
		h.SuspendTimeoutMillis = 1000
		cmd := c.pull(h)
		switch wire.ResponseCode(cmd.Code) {
		case wire.ResponseSuccess:
			for _, v := range records(c.t, cmd.Body) {
				if int64(v.QueueOffset) != from {
					c.t.Fatalf("%s queue %d: offset %d where %d is due", topic, queueID, v.QueueOffset, from)
				}
				bodies = append(bodies, string(v.Body))
				from++
			}
		case wire.ResponsePullNotFound:
		default:
			c.t.Fatalf("pull: code %d %s", cmd.Code, cmd.Remark)
		}
	}
	return bodies
}

// makeTopic creates a topic with n queues.
func (c *client) makeTopic(topic string, n int32) {
	c.t.Helper()
	cmd := c.call(wire.RequestUpdateAndCreateTopic, &wire.CreateTopicRequestHeader{Topic: topic, DefaultTopic: "TBW102", ReadQueueNums: n, WriteQueueNums: n, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
	if cmd.Code != 0 {
		c.t.Fatalf("create %s: %d %s", topic, cmd.Code, cmd.Remark)
	}
}

// shapes are the numbers of event loops and reput shards that every concurrency test runs with: the defaults of a
// 2-core machine hide races.
func shapes(t *testing.T, run func(t *testing.T, settings ...string)) {
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d loops and shards", n), func(t *testing.T) {
			run(t, fmt.Sprintf("peregrine.eventLoops=%d", n), fmt.Sprintf("peregrine.reputShards=%d", n))
		})
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
