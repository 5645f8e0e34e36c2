package interop

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

// RawClient speaks Remoting over one connection, for tests that have to see codes and bytes that the real clients hide. It
// is used by one goroutine; requests may be pipelined with Send and Receive.
type RawClient struct {
	Conn net.Conn
	Enc  wire.Encoding

	in     *bufio.Reader
	out    []byte
	frame  []byte
	dec    wire.Decoder
	cmd    wire.Command
	opaque int32
}

// DialRaw connects to a broker or name server.
func DialRaw(addr string) (*RawClient, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &RawClient{Conn: conn, in: bufio.NewReaderSize(conn, 1<<20)}, nil
}

// Close ends the connection.
func (c *RawClient) Close() { _ = c.Conn.Close() }

// NextOpaque is what the next request carries.
func (c *RawClient) NextOpaque() int32 {
	c.opaque++
	return c.opaque
}

// Call sends one request and returns its answer, valid until the next call. Requests of the broker's own are passed over.
func (c *RawClient) Call(code wire.RequestCode, header any, body []byte) (*wire.Command, error) {
	opaque := c.NextOpaque()
	c.out = wire.AppendRequest(c.out[:0], c.Enc, code, opaque, 0, wire.LanguageGo, wire.Version, header, body)
	return c.exchange(opaque)
}

// Pull sends one pull and returns its answer.
func (c *RawClient) Pull(h *wire.PullMessageHeader) (*wire.Command, error) {
	opaque := c.NextOpaque()
	c.out = wire.AppendPullRequest(c.out[:0], c.Enc, wire.RequestPullMessage, opaque, h)
	return c.exchange(opaque)
}

func (c *RawClient) exchange(opaque int32) (*wire.Command, error) {
	if err := c.Write(c.out); err != nil {
		return nil, err
	}
	for {
		cmd, err := c.Receive()
		if err != nil {
			return nil, err
		}
		if cmd.IsResponse() && cmd.Opaque == opaque {
			return cmd, nil
		}
	}
}

// Write sends raw bytes.
func (c *RawClient) Write(b []byte) error {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
	_, err := c.Conn.Write(b)
	return err
}

// Receive reads the next frame, valid until the next call.
func (c *RawClient) Receive() (*wire.Command, error) {
	_ = c.Conn.SetReadDeadline(time.Now().Add(60 * time.Second))
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
	if err := c.dec.Decode(c.frame, &c.cmd); err != nil {
		return nil, err
	}
	return &c.cmd, nil
}

// SendHeader is a SEND_MESSAGE_V2 header as the Java client makes it.
func SendHeader(topic string, queueID int32, properties string) *wire.SendMessageHeader {
	return &wire.SendMessageHeader{ProducerGroup: []byte("RawProducer"), Topic: []byte(topic), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 8,
		QueueID: queueID, BornTimestamp: time.Now().UnixMilli(), Properties: []byte(properties)}
}

// PullHeader is a pull with an inline subscription to everything, as mqadmin makes it.
func PullHeader(topic string, queueID int32, offset int64) *wire.PullMessageHeader {
	return &wire.PullMessageHeader{ConsumerGroup: []byte("TOOLS_CONSUMER"), Topic: []byte(topic), QueueID: queueID, QueueOffset: offset,
		MaxMsgNums: 32, SysFlag: wire.PullSysFlagSubscription, Subscription: []byte("*"), ExpressionType: []byte("TAG")}
}

// Send sends one message and returns its answer.
func (c *RawClient) Send(h *wire.SendMessageHeader, body []byte) (*wire.Command, error) {
	opaque := c.NextOpaque()
	c.out = wire.AppendSendRequestV2(c.out[:0], c.Enc, opaque, 0, h, body)
	return c.exchange(opaque)
}

// ReadQueue pulls everything of a queue from offset on, until the broker says that there is nothing more, and calls each
// for every message. A queue offset that is not the next one is an error: a gap or a repeat.
func (c *RawClient) ReadQueue(topic string, queueID int32, from int64, each func(*message.View) error) (next int64, err error) {
	next = from
	for {
		cmd, err := c.Pull(PullHeader(topic, queueID, next))
		if err != nil {
			return next, err
		}
		switch wire.ResponseCode(cmd.Code) {
		case wire.ResponseSuccess:
		case wire.ResponsePullNotFound:
			return next, nil
		default:
			return next, fmt.Errorf("pull of %s queue %d at %d: code %d %s", topic, queueID, next, cmd.Code, cmd.Remark)
		}
		for body := cmd.Body; len(body) > 0; {
			var v message.View
			if err := message.ParseView(body, &v); err != nil {
				return next, err
			}
			if !v.CheckCRC() {
				return next, fmt.Errorf("%s queue %d offset %d: wrong body CRC", topic, queueID, v.QueueOffset)
			}
			if int64(v.QueueOffset) != next {
				return next, fmt.Errorf("%s queue %d: offset %d where %d is due", topic, queueID, v.QueueOffset, next)
			}
			if err := each(&v); err != nil {
				return next, err
			}
			next++
			body = body[v.Size:]
		}
	}
}
