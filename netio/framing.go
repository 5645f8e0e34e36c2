package netio

import (
	"encoding/binary"

	"peregrine/wire"
)

// take hands out every whole frame of data, which one read brought, and keeps the rest. data aliases
// gnet's read buffer.
// hot: 0 allocs per frame.
func (l *Loop) take(c *Conn, data []byte) {
	defer func() {
		if v := recover(); v != nil {
			l.panicked(c, "Frame", v)
		}
	}()
	l.bytesIn += uint64(len(data))
	c.Touch()
	if c.headLen > 0 || c.gather != nil {
		data = l.resume(c, data)
	}
	for len(data) >= lengthWordBytes && !c.closing && !c.closed {
		n, err := wire.FrameLength(int32(binary.BigEndian.Uint32(data)))
		if err != nil {
			l.refuse(c, [lengthWordBytes]byte(data))
			return
		}
		c.greeted = true
		end := lengthWordBytes + n
		if len(data) < end {
			l.startGather(c, n, data[lengthWordBytes:])
			return
		}
		l.deliver(c, data[lengthWordBytes:end:end])
		data = data[end:]
	}
	if len(data) > 0 && !c.closing && !c.closed {
		l.keepHead(c, data)
	}
}

// deliver hands one frame to the handler.
// hot: 0 allocs.
func (l *Loop) deliver(c *Conn, frame []byte) {
	l.frames++
	l.handler.Frame(c, frame)
	if len(c.Out) > outFlushBytes {
		c.flushOut()
	}
}

// keepHead keeps the one to three bytes of a length word that the next read completes. A first byte
// other than 0 is illegal whatever follows; TLS is known by it alone, the others get the chance to
// send the four bytes by which the log line can name them.
func (l *Loop) keepHead(c *Conn, data []byte) {
	c.headLen = uint8(copy(c.head[:], data))
	c.gatherSince = l.srv.clock.Load()
	if c.head[0] == 0x16 {
		l.refuse(c, c.head)
	}
}

// resume completes what earlier reads left and returns what is behind it.
func (l *Loop) resume(c *Conn, data []byte) []byte {
	if c.gather == nil {
		n := copy(c.head[c.headLen:], data)
		c.headLen += uint8(n)
		data = data[n:]
		if c.headLen < lengthWordBytes {
			return nil
		}
		c.headLen = 0
		want, err := wire.FrameLength(int32(binary.BigEndian.Uint32(c.head[:])))
		if err != nil {
			l.refuse(c, c.head)
			return nil
		}
		c.greeted = true
		if len(data) < want {
			l.startGather(c, want, data)
			return nil
		}
		l.deliver(c, data[:want:want]) // whole behind its split length word: in place after all
		return data[want:]
	}
	n := min(c.gatherWant-len(c.gather.B), len(data))
	if !l.gather(c, data[:n]) {
		return nil
	}
	if len(c.gather.B) < c.gatherWant {
		return nil
	}
	frame := c.gather.B
	l.turnBuffers = append(l.turnBuffers, turnBuffer{c.gather, c.gatherCost})
	c.gather, c.gatherCost = nil, 0
	l.deliver(c, frame)
	return data[n:]
}

// startGather begins the buffer of a frame of want bytes, of which part has arrived.
func (l *Loop) startGather(c *Conn, want int, part []byte) {
	c.gatherWant = want
	c.gatherSince = l.srv.clock.Load()
	l.gather(c, part)
}

// gather appends part to the incomplete frame of c. The capacity grows with what has arrived, up to
// what was announced: a sender that announces 16 MiB and sends nothing makes us hold 1 KiB. False: the
// budget is used up and the connection is closing.
func (l *Loop) gather(c *Conn, part []byte) bool {
	have := 0
	if c.gather != nil {
		have = len(c.gather.B)
	}
	if c.gather == nil || cap(c.gather.B) < have+len(part) {
		size := min(c.gatherWant, max(gatherGrowth*(have+len(part)), 1<<bufferClassMinBits))
		b := GetBuffer(size)
		cost := int64(cap(b.B))
		if held := l.srv.gathered.Add(cost); held > l.srv.limits.GatheredBytes && size > gatherFreeBytes {
			l.srv.gathered.Add(-cost)
			PutBuffer(b)
			c.abandon(ErrGatherBudget)
			return false
		}
		if c.gather != nil {
			b.B = append(b.B, c.gather.B...)
			l.releaseGather(c.gather, c.gatherCost)
		}
		c.gather, c.gatherCost = b, cost
	}
	c.gather.B = append(c.gather.B, part...)
	return true
}

func (l *Loop) releaseGather(b *Buffer, cost int64) {
	l.srv.gathered.Add(-cost)
	PutBuffer(b)
}

// refuse closes c for an illegal length word and says what it looks like.
func (l *Loop) refuse(c *Conn, word [lengthWordBytes]byte) {
	if c.greeted {
		c.CloseAfterTurn(ErrFrameLength)
		return
	}
	c.CloseAfterTurn(refusalOf(word))
}
