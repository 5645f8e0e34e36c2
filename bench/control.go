package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"peregrine/wire"
)

// control is a connection for the few questions beside the load: routes, topics, offsets, versions. One request at a
// time, one goroutine. It is never used while latencies are measured.
type control struct {
	addr   string
	conn   net.Conn
	dec    wire.Decoder
	cmd    wire.Command
	opaque int32
	buf    []byte
}

func dialControl(addr string) (*control, error) {
	conn, err := net.DialTimeout("tcp", addr, connectTimeout)
	if err != nil {
		return nil, fmt.Errorf("no connection to %s: %w", addr, rootCause(err))
	}
	return &control{addr: addr, conn: conn}, nil
}

// rootCause drops the words that package net puts around the kernel's.
func rootCause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		var sys *os.SyscallError
		if errors.As(op.Err, &sys) {
			return sys.Err
		}
		return op.Err
	}
	return err
}

// redial replaces a broken connection.
func (c *control) redial() error {
	fresh, err := dialControl(c.addr)
	if err != nil {
		return err
	}
	c.close()
	c.conn = fresh.conn
	return nil
}

func (c *control) close() { _ = c.conn.Close() }

// send writes one request; its opaque is c.opaque.
func (c *control) send(code wire.RequestCode, header any, deadline time.Time) error {
	c.opaque++
	c.buf = wire.AppendRequest(c.buf[:0], wire.EncodingJSON, code, c.opaque, 0, wire.LanguageGo, wire.Version, header, nil)
	_ = c.conn.SetDeadline(deadline)
	if _, err := c.conn.Write(c.buf); err != nil {
		return fmt.Errorf("%s: %w", c.addr, rootCause(err))
	}
	return nil
}

// receive waits for the answer to the last request; others are dropped. The command is valid until the next call.
func (c *control) receive() (*wire.Command, error) { return c.receiveOpaque(c.opaque) }

func (c *control) receiveOpaque(opaque int32) (*wire.Command, error) {
	for {
		var prefix [4]byte
		if _, err := io.ReadFull(c.conn, prefix[:]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.addr, rootCause(err))
		}
		n, err := wire.FrameLength(int32(binary.BigEndian.Uint32(prefix[:])))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.addr, err)
		}
		if cap(c.buf) < n {
			c.buf = make([]byte, n)
		}
		c.buf = c.buf[:n]
		if _, err := io.ReadFull(c.conn, c.buf); err != nil {
			return nil, fmt.Errorf("%s: %w", c.addr, rootCause(err))
		}
		if err := c.dec.Decode(c.buf, &c.cmd); err != nil {
			return nil, fmt.Errorf("%s: %w", c.addr, err)
		}
		if c.cmd.IsResponse() && c.cmd.Opaque == opaque {
			return &c.cmd, nil
		}
	}
}

// ask is send and receive with the usual deadline.
func (c *control) ask(code wire.RequestCode, header any) (*wire.Command, error) {
	if err := c.send(code, header, time.Now().Add(controlTimeout)); err != nil {
		return nil, err
	}
	return c.receive()
}

// answerError is an answer other than success, as an error.
func answerError(what string, c *wire.Command) error {
	return fmt.Errorf("%s: code %s %.*s", what, codeName(c.Code), remarkBytesMax, c.Remark)
}
