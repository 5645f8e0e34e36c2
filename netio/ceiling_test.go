package netio

import (
	"encoding/binary"
	"os"
	"os/signal"
	"testing"

	"github.com/panjf2000/gnet/v2"
)

// ceiling is the least that any server on gnet must do for a request: find the frame, read its opaque
// number from the binary header, answer with a constant frame. What it reaches is the ceiling that the
// budgets of sending are a share of. It uses nothing of netio on purpose.
type ceiling struct{ gnet.BuiltinEventEngine }

// The binary header (wire.md 1.4) behind length and header word: code 2, language 1, version 2, opaque 4.
const ceilingOpaqueAt = 4 + 4 + 2 + 1 + 2

// ceilingAnswer is a SEND answer of the usual size: code 0, opaque at the same place, flag 1, no remark,
// ext of msgId, queueId and queueOffset as the original has them.
func ceilingAnswer() []byte {
	ext := make([]byte, 0, 128)
	for _, kv := range [][2]string{{"msgId", "7F00000100002A9F0000000000000000"}, {"queueId", "0"}, {"queueOffset", "1000000"}} {
		ext = append(binary.BigEndian.AppendUint16(ext, uint16(len(kv[0]))), kv[0]...)
		ext = append(binary.BigEndian.AppendUint32(ext, uint32(len(kv[1]))), kv[1]...)
	}
	h := binary.BigEndian.AppendUint16(nil, 0)
	h = append(h, 0, 0, 0)
	h = binary.BigEndian.AppendUint32(h, 0)
	h = binary.BigEndian.AppendUint32(h, 1)
	h = binary.BigEndian.AppendUint32(h, 0)
	h = append(binary.BigEndian.AppendUint32(h, uint32(len(ext))), ext...)
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(h)))
	b = binary.BigEndian.AppendUint32(b, 1<<24|uint32(len(h)))
	return append(b, h...)
}

type ceilingConn struct{ out []byte }

func (ceiling) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&ceilingConn{out: make([]byte, 0, 256<<10)})
	return nil, gnet.None
}

func (ceiling) OnTraffic(c gnet.Conn) gnet.Action {
	answer := ceilingAnswerBytes
	st := c.Context().(*ceilingConn)
	data, _ := c.Peek(-1)
	out, at := st.out[:0], 0
	for len(data)-at >= ceilingOpaqueAt+4 {
		size := 4 + int(binary.BigEndian.Uint32(data[at:]))
		if size < ceilingOpaqueAt+4 {
			return gnet.Close
		}
		if len(data)-at < size {
			break
		}
		n := len(out)
		out = append(out, answer...)
		copy(out[n+ceilingOpaqueAt:], data[at+ceilingOpaqueAt:at+ceilingOpaqueAt+4])
		at += size
	}
	if at > 0 {
		_, _ = c.Discard(at)
		_, _ = c.Write(out)
	}
	st.out = out
	return gnet.None
}

var ceilingAnswerBytes = ceilingAnswer()

// TestBareGnetCeiling answers one request. With PEREGRINE_CEILING=127.0.0.1:10999 it serves there
// until it is interrupted, for a load generator beside it:
//
//	PEREGRINE_CEILING=127.0.0.1:10999 go test ./netio -run TestBareGnetCeiling -timeout 0
func TestBareGnetCeiling(t *testing.T) {
	addr := os.Getenv("PEREGRINE_CEILING")
	serve := addr != ""
	if !serve {
		addr = freePort(t)
	}
	booted := make(chan gnet.Engine, 1)
	end := make(chan error, 1)
	go func() {
		end <- gnet.Run(&bootedCeiling{booted: booted}, "tcp://"+addr, gnet.WithNumEventLoop(1),
			gnet.WithReadBufferCap(readBufferBytes), gnet.WithReuseAddr(true), gnet.WithLogger(&gnetLogger{log: quietLog()}))
	}()
	var eng gnet.Engine
	select {
	case eng = <-booted:
	case err := <-end:
		t.Fatal(err)
	}
	if serve {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		<-stop
	} else {
		c := dial(t, addr)
		request := append([]byte(nil), ceilingAnswerBytes...)
		binary.BigEndian.PutUint32(request[ceilingOpaqueAt:], 77)
		c.send(request)
		if got := c.recv(); binary.BigEndian.Uint32(got[ceilingOpaqueAt-4:]) != 77 {
			t.Errorf("the answer is for another request: %x", got)
		}
	}
	if err := eng.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

type bootedCeiling struct {
	ceiling
	booted chan gnet.Engine
}

func (b *bootedCeiling) OnBoot(eng gnet.Engine) gnet.Action {
	b.booted <- eng
	return gnet.None
}
