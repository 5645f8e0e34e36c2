package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"peregrine/wire"
)

const (
	dialTimeout  = 5 * time.Second
	callTimeout  = 20 * time.Second // of anything that the broker need not hold
	pullHeld     = 5 * time.Second
	readBufBytes = 256 << 10
)

// errSilent: the connection is there, the answer is not. It is a violation, while a broken connection is not.
var errSilent = errors.New("no answer")

// frame is one decoded frame with memory of its own.
type frame struct {
	wire.Command
	dec  wire.Decoder
	data []byte
}

// client is one connection that many goroutines share.
type client struct {
	conn net.Conn
	enc  wire.Encoding
	// onRequest gets the broker's own requests on the reading goroutine; it may not wait.
	onRequest func(*frame)
	dead      chan struct{} // closed when the connection is

	mu      sync.Mutex // guards what follows; held while writing
	opaque  int32
	pending map[int32]chan *frame
	out     []byte
}

func dial(addr string, enc wire.Encoding, onRequest func(*frame)) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, enc: enc, onRequest: onRequest, dead: make(chan struct{}), pending: map[int32]chan *frame{}}
	go c.read()
	return c, nil
}

// close ends the connection and waits for the reading goroutine.
func (c *client) close() {
	_ = c.conn.Close()
	<-c.dead
}

func (c *client) read() {
	defer close(c.dead)
	defer c.conn.Close()
	in := bufio.NewReaderSize(c.conn, readBufBytes)
	for {
		var prefix [4]byte
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			return
		}
		n, err := wire.FrameLength(int32(binary.BigEndian.Uint32(prefix[:])))
		if err != nil {
			return
		}
		f := &frame{data: make([]byte, n)}
		if _, err := io.ReadFull(in, f.data); err != nil {
			return
		}
		if err := f.dec.Decode(f.data, &f.Command); err != nil {
			return
		}
		if !f.IsResponse() {
			c.onRequest(f)
			continue
		}
		c.mu.Lock()
		waiting := c.pending[f.Opaque]
		delete(c.pending, f.Opaque)
		c.mu.Unlock()
		if waiting != nil {
			waiting <- f // has room for one
		}
	}
}

// exchange sends what build appends and waits for the answer, at most that long.
func (c *client) exchange(within time.Duration, build func(dst []byte, opaque int32) []byte) (*frame, error) {
	answer := make(chan *frame, 1)
	opaque, err := c.write(answer, build)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case f := <-answer:
		return f, nil
	case <-c.dead:
		return nil, net.ErrClosed
	case <-timer.C:
		c.mu.Lock()
		delete(c.pending, opaque)
		c.mu.Unlock()
		return nil, errSilent
	}
}

// write sends a frame; answer, if there is one, gets what comes back.
func (c *client) write(answer chan *frame, build func(dst []byte, opaque int32) []byte) (int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opaque++
	if answer != nil {
		c.pending[c.opaque] = answer
	}
	c.out = build(c.out[:0], c.opaque)
	_ = c.conn.SetWriteDeadline(time.Now().Add(callTimeout))
	_, err := c.conn.Write(c.out)
	return c.opaque, err
}

// call sends a request that is not hot and returns its answer; a code other than SUCCESS is an error.
func (c *client) call(code wire.RequestCode, header any, body []byte) (*frame, error) {
	f, err := c.exchange(callTimeout, func(dst []byte, opaque int32) []byte {
		return wire.AppendRequest(dst, c.enc, code, opaque, 0, wire.LanguageGo, wire.Version, header, body)
	})
	if err == nil && wire.ResponseCode(f.Code) != wire.ResponseSuccess {
		err = &refusedError{code, wire.ResponseCode(f.Code), string(f.Remark)}
	}
	if errors.Is(err, errSilent) {
		err = fmt.Errorf("request %d: %w within %v", code, err, callTimeout)
	}
	return f, err
}

// refusedError is an answer with another code than SUCCESS.
type refusedError struct {
	request wire.RequestCode
	code    wire.ResponseCode
	remark  string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("request %d: code %d, %s", e.request, e.code, e.remark)
}
