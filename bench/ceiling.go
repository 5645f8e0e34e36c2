package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/spf13/pflag"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// ceiling answers every send with the same success and stores nothing. What the load generator reaches against it is the
// most that any broker on this event loop library could do on this machine with the same bytes on the wire.
type ceiling struct {
	gnet.BuiltinEventEngine
	ready   func(gnet.Engine)
	answers [2][]byte // by encoding: a whole answer frame
	places  [2]int    // where its opaque stands
	host    message.Host
}

// ceilingConn is what one connection needs; its loop owns it.
type ceilingConn struct {
	dec wire.Decoder
	cmd wire.Command
	out []byte
}

func ceilingMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := pflag.NewFlagSet("ceiling", pflag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:10999", "address to listen on, host:port")
	loops := fs.Int("loops", max(1, sysio.CPUCount()/2), "event loops")
	if code, done := parse(fs, args, stdout, stderr, "peregrine bench ceiling: a server that answers sends and stores nothing, until SIGINT"); done {
		return code
	}
	if *loops < 1 || *loops > threadsMax {
		fmt.Fprintf(stderr, "peregrine bench ceiling: --loops %d: expected 1 to %d\n", *loops, threadsMax)
		return exitUsage
	}
	if err := serveCeiling(ctx, *listen, *loops, func(string) { fmt.Fprintf(stdout, "ready, answering sends on %s without storing them\n", *listen) }); err != nil {
		fmt.Fprintln(stderr, "peregrine bench ceiling:", err)
		return exitBad
	}
	return exitGood
}

// serveCeiling serves until ctx ends. ready is called once the port is open, with its address as asked for.
func serveCeiling(ctx context.Context, listen string, loops int, ready func(addr string)) error {
	ap, err := resolve(listen)
	if err != nil {
		return err
	}
	s := &ceiling{host: message.HostOf(ap)}
	for _, enc := range []wire.Encoding{wire.EncodingJSON, wire.EncodingBinary} {
		frame := s.answer(nil, enc, opaqueSentinel)
		s.answers[enc] = frame
		needle := []byte(fmt.Sprint(opaqueSentinel))
		if enc == wire.EncodingBinary {
			needle = binary.BigEndian.AppendUint32(nil, opaqueSentinel)
		}
		if s.places[enc] = uniqueIndex(frame, needle); s.places[enc] < 0 {
			return fmt.Errorf("BUG: the answer has no unique place for its opaque")
		}
	}
	stopped := make(chan struct{})
	s.ready = func(eng gnet.Engine) {
		ready(listen)
		go func() { // ends when the server does
			select {
			case <-ctx.Done():
				_ = eng.Stop(ctx) // asks for the stop and, ctx being over, does not wait for it: Run returning is what counts
			case <-stopped:
			}
		}()
	}
	defer close(stopped)
	err = gnet.Run(s, "tcp://"+ap.String(), gnet.WithNumEventLoop(loops), gnet.WithReuseAddr(true), gnet.WithReadBufferCap(readBufferBytes),
		gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithLogger(silent{}))
	if err != nil {
		return fmt.Errorf("%s: %w", listen, err)
	}
	return nil
}

// silent drops what gnet has to say: errors of listening come back from Run, the rest is about peers.
type silent struct{}

var _ logging.Logger = silent{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}

// OnBoot tells that the port is open.
func (s *ceiling) OnBoot(eng gnet.Engine) gnet.Action {
	s.ready(eng)
	return gnet.None
}

// OnOpen gives the connection its state.
func (s *ceiling) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&ceilingConn{})
	return nil, gnet.None
}

// OnTraffic answers all whole frames that are there, in one write.
//
// hot: 0 allocs
func (s *ceiling) OnTraffic(c gnet.Conn) gnet.Action {
	state := c.Context().(*ceilingConn)
	buf, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	used := 0
	for {
		frame, size, err := wire.SplitFrame(buf[used:])
		if err != nil {
			return gnet.Close
		}
		if frame == nil {
			break
		}
		if !s.frame(state, frame) {
			return gnet.Close
		}
		used += size
	}
	if used > 0 { // gnet takes 0 for everything
		_, _ = c.Discard(used)
	}
	if len(state.out) > 0 {
		_, err = c.Write(state.out)
		state.out = state.out[:0]
		if err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// frame appends the answer to one request; false = the bytes make no sense.
func (s *ceiling) frame(state *ceilingConn, frame []byte) bool {
	const binaryHeaderBytes = 21
	if wire.Encoding(frame[0]) == wire.EncodingBinary && len(frame) >= 4+binaryHeaderBytes {
		h := frame[4:]
		if isSend(int32(binary.BigEndian.Uint16(h))) {
			start := len(state.out)
			state.out = append(state.out, s.answers[wire.EncodingBinary]...)
			copy(state.out[start+s.places[wire.EncodingBinary]:], h[5:9])
			return true
		}
	}
	if wire.Encoding(frame[0]) == wire.EncodingJSON {
		if opaque, ok := quickOpaque(frame[4:]); ok {
			start := len(state.out)
			state.out = append(state.out, s.answers[wire.EncodingJSON]...)
			copy(state.out[start+s.places[wire.EncodingJSON]:], opaque)
			return true
		}
	}
	if state.dec.Decode(frame, &state.cmd) != nil {
		return false
	}
	cmd := &state.cmd
	switch {
	case cmd.IsResponse() || cmd.IsOneway():
	case !isSend(cmd.Code):
		code, remark := wire.ResponseRequestCodeNotSupported, "this server only answers sends"
		if cmd.Code == int32(wire.RequestUpdateAndCreateTopic) {
			code, remark = wire.ResponseSuccess, ""
		}
		state.out = wire.AppendResponse(state.out, cmd.Encoding, cmd.Opaque, code, remark, nil, nil)
	default:
		state.out = s.answer(state.out, cmd.Encoding, cmd.Opaque)
	}
	return true
}

// quickOpaque finds the ten digits of the opaque in the JSON header of a send that this generator wrote, without reading
// the rest: a broker has to, but this is the bar that no broker can pass. Text inside of the header cannot be mistaken for
// the key, because its quotation marks are escaped.
func quickOpaque(header []byte) (digits []byte, ok bool) {
	const key = `"opaque":`
	if !bytes.HasPrefix(header, []byte(`{"code":310,`)) && !bytes.HasPrefix(header, []byte(`{"code":320,`)) {
		return nil, false
	}
	at := bytes.Index(header, []byte(key)) + len(key)
	if at < len(key) || len(header) < at+opaqueWidth+1 || header[at+opaqueWidth] != ',' || header[at] != '1' && header[at] != '2' {
		return nil, false
	}
	return header[at : at+opaqueWidth], true
}

func isSend(code int32) bool {
	switch wire.RequestCode(code) {
	case wire.RequestSendMessage, wire.RequestSendMessageV2, wire.RequestSendBatchMessage:
		return true
	}
	return false
}

// answer is as long as a real broker's.
func (s *ceiling) answer(dst []byte, enc wire.Encoding, opaque int32) []byte {
	return wire.AppendSendResponse(dst, enc, opaque, wire.ResponseSuccess, "", &wire.SendMessageResponse{
		StoreHost: s.host, PhyOffsets: []message.PhyOffset{1 << 40}, QueueID: 3, QueueOffset: 123_456_789,
		TransactionID: []byte(uniqSentinel), Region: "DefaultRegion", TraceOn: "true",
	})
}
