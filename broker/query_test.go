package broker

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// query asks for a key and returns code and bodies.
func (c *client) query(topic, key string, unique bool) (wire.ResponseCode, []string) {
	c.t.Helper()
	cmd := c.call(wire.RequestQueryMessage, &wire.QueryMessageRequestHeader{Topic: topic, Key: key, MaxNum: 64, EndTimestamp: math.MaxInt64, UniqueKeyQuery: unique}, nil)
	var bodies []string
	for _, v := range records(c.t, cmd.Body) {
		bodies = append(bodies, string(v.Body))
	}
	return wire.ResponseCode(cmd.Code), bodies
}

func keyProperties(keys string) string {
	return string(message.AppendProperty(nil, message.PropertyKeys, keys))
}

// awaitIndex returns when everything sent is in the index.
func (b *testBroker) awaitIndex() {
	b.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for b.indexer.Mark() < b.store.Confirmed() {
		if time.Now().After(deadline) {
			b.t.Fatalf("the index does not follow: %+v", b.indexer.Stats())
		}
		runtime.Gosched()
	}
}

// What was sent is found by key, by the id that the answer names and by position; after a clean stop without reading the log
// again.
func TestSentMessagesAreFound(t *testing.T) {
	shapes(t, func(t *testing.T, settings ...string) {
		dir := t.TempDir()
		const n = 100
		ids := make([]string, n)
		for round := range 2 {
			b := startBroker(t, sysio.OS{}, dir, settings...)
			c := dial(t, b.addr, wire.EncodingJSON)
			for i := 0; round == 0 && i < n; i++ {
				cmd := c.mustSend(sendHeader("T", int32(i%4), keyProperties(fmt.Sprintf("k%d common", i))), fmt.Appendf(nil, "body %d", i))
				var h wire.SendMessageResponseHeader
				if err := wire.DecodeHeader(cmd, &h); err != nil {
					t.Fatal(err)
				}
				ids[i] = h.MsgID
			}
			b.awaitIndex()
			for i := range n {
				want := fmt.Sprint("body ", i)
				if code, got := c.query("T", fmt.Sprint("k", i), false); code != wire.ResponseSuccess || len(got) != 1 || got[0] != want {
					t.Fatalf("round %d: k%d: %d %v", round, i, code, got)
				}
				host, phy, err := message.ParseOffsetMsgID([]byte(ids[i]))
				if err != nil || !host.AddrPort().IsValid() {
					t.Fatal(ids[i], err)
				}
				if cmd := c.call(wire.RequestViewMessageByID, &wire.ViewMessageRequestHeader{Offset: int64(phy)}, nil); cmd.Code != 0 || string(records(t, cmd.Body)[0].Body) != want {
					t.Fatalf("round %d: by id: %d %q", round, cmd.Code, cmd.Remark)
				}
			}
			if code, got := c.query("T", "common", false); code != wire.ResponseSuccess || len(got) != 64 || got[63] != fmt.Sprint("body ", n-1) {
				t.Errorf("round %d: %d, %d messages", round, code, len(got))
			}
			if code, _ := c.query("T", "no such key", false); code != wire.ResponseQueryNotFound {
				t.Errorf("round %d: a key that was not sent: %d", round, code)
			}
			if s := b.indexer.Stats(); round == 1 && s.Records > 1 {
				t.Errorf("after a clean stop %d records were looked at again", s.Records)
			}
			if !b.stop() {
				t.Error("the stop is not clean")
			}
		}
	})
}

// Case R09: the index cannot be made. Messages flow, the alarm is visible, the next start completes the index.
func TestMessagesFlowWithoutAnIndex(t *testing.T) {
	fsys := sysio.NewFaultFS()
	lift := fsys.Inject(sysio.Fault{Op: sysio.OpMkdir | sysio.OpOpen, Path: "index", Err: syscall.EROFS})
	b := startBroker(t, fsys, "store", "mappedFileSizeCommitLog=1048576")
	c := dial(t, b.addr, wire.EncodingBinary)
	for i := range 100 {
		c.mustSend(sendHeader("T", 0, keyProperties(fmt.Sprint("k", i))), []byte("x"))
	}
	c.drain("T", 0, 0, 100)
	for !b.Stats().Indexer.Paused {
		runtime.Gosched()
	}
	if s := b.Stats(); s.Indexer.BehindBytes == 0 || s.Indexer.Pauses != 1 || s.Index.Files != 0 {
		t.Errorf("%+v %+v", s.Indexer, s.Index)
	}
	if b.stop() {
		t.Error("the stop counts as clean although the index lacks everything")
	}
	if lines := b.lines.String(); !strings.Contains(lines[max(0, strings.LastIndex(lines, "the stop is not clean")):], "the index is not complete") ||
		!strings.Contains(lines[max(0, strings.LastIndex(lines, "the stop is not clean")):], syscall.EROFS.Error()) {
		t.Errorf("the log does not say why the stop is not clean: %s", lines)
	}
	lift()
	b = startBroker(t, fsys, "store", "mappedFileSizeCommitLog=1048576")
	b.awaitIndex()
	c = dial(t, b.addr, wire.EncodingBinary)
	if code, got := c.query("T", "k42", false); code != wire.ResponseSuccess || len(got) != 1 {
		t.Errorf("%d %v", code, got)
	}
}
