package netio

// OutboundBuffered returns the bytes that were written to c and have not reached the socket.
func (c *Conn) OutboundBuffered() int {
	if c.closed {
		return 0
	}
	return c.gc.OutboundBuffered()
}

// IsBackedUp says that the client does not read fast enough: hold what is not urgent (pull answers)
// until the handler gets MailDrained for this connection, which follows every yes unless it closes.
// hot: 0 allocs.
func (c *Conn) IsBackedUp() bool {
	if c.closed {
		return true
	}
	n := c.gc.OutboundBuffered()
	l := c.loop
	if n+len(c.Out) <= l.srv.limits.OutboundSoftBytes && (n == 0 || l.outPending <= l.outBudget) {
		return false
	}
	if !c.parked {
		c.parked = true
		l.waiting++
		l.watch(c)
	}
	return true
}

// Writev sends Out and then parts, in order, without copying large parts in user space (what the
// socket does not take is copied by gnet). parts are borrowed until it returns and not changed; the
// slices may point into a mapping. At most writevChunk slices go into one system call, small
// neighbours merged: the vector of x/sys stays on its stack then.
// hot: 0 allocs.
func (c *Conn) Writev(parts [][]byte) {
	l := c.loop
	if c.closed || c.abandoned {
		return
	}
	if l.scratch == nil {
		l.scratch = make([]byte, 0, writevScratchBytes)
	}
	n, scratch, merging := 0, l.scratch[:0], false
	if len(c.Out) > 0 {
		l.iov[0] = c.Out
		n = 1
	}
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		small := len(p) < writevMergeBytes
		full := n == writevChunk && !(small && merging) || small && len(scratch)+len(p) > cap(scratch)
		if full {
			if !c.writeChunk(n) {
				n = 0
				break
			}
			n, scratch, merging = 0, scratch[:0], false
		}
		if !small {
			l.iov[n] = p
			n++
			merging = false
			continue
		}
		at := len(scratch)
		scratch = append(scratch, p...)
		if merging {
			last := l.iov[n-1]
			l.iov[n-1] = last[:len(last)+len(p)] // the part lies right behind in the scratch
		} else {
			l.iov[n] = scratch[at:]
			n++
			merging = true
		}
	}
	if n > 0 {
		c.writeChunk(n)
	}
	c.Out = c.Out[:0]
	// A slice of a mapping that is unmapped later must not stay behind: the runtime may get that
	// address for its own heap, and the collector would follow the old pointer.
	clear(l.iov[:])
}

// writeChunk writes the first n slices of the loop's vector.
func (c *Conn) writeChunk(n int) bool {
	if !c.admitWrite() {
		return false
	}
	size := 0
	for _, p := range c.loop.iov[:n] {
		size += len(p)
	}
	_, _ = c.gc.Writev(c.loop.iov[:n]) // on an error gnet has closed c: afterWrite sees it
	return c.afterWrite(size)
}

// write hands b to gnet. False: c is closed or about to be, b went nowhere or may be incomplete.
// hot: 0 allocs.
func (c *Conn) write(b []byte) bool {
	if !c.admitWrite() {
		return false
	}
	_, _ = c.gc.Write(b)
	return c.afterWrite(len(b))
}

// admitWrite keeps answers from closed connections (trap 2) and bounds what gnet buffers for one
// that does not read: what is pending may pass the hard mark once, by the answer that follows.
func (c *Conn) admitWrite() bool {
	if c.closed || c.abandoned {
		return false
	}
	n := c.gc.OutboundBuffered()
	if n == 0 {
		return true
	}
	l := c.loop
	if n > l.srv.limits.OutboundHardBytes {
		c.abandon(ErrOutboundHard)
		return false
	}
	if l.outPending > l.outBudget && int64(n)*int64(l.live) > l.outBudget {
		c.abandon(ErrOutboundBudget)
		return false
	}
	return true
}

// afterWrite books a write of n bytes. gnet closes a connection inside Write when the socket breaks.
func (c *Conn) afterWrite(n int) bool {
	if c.closed {
		return false
	}
	c.loop.bytesOut += uint64(n)
	c.lastActive = c.loop.srv.clock.Load()
	c.notePending()
	return true
}

// notePending brings the loop's sum up to date with what gnet holds for c.
func (c *Conn) notePending() {
	n := c.gc.OutboundBuffered()
	l := c.loop
	if n != c.pending {
		if n < c.pending {
			c.lastActive = l.srv.clock.Load() // it drains, so the client is alive
		}
		l.outPending += int64(n - c.pending)
		c.pending = n
		l.stats.outPending.Store(l.outPending)
	}
	if n > 0 {
		l.watch(c)
	}
}

// flushOut writes Out and keeps the buffer attached.
func (c *Conn) flushOut() {
	if len(c.Out) > 0 {
		c.write(c.Out)
		c.Out = c.Out[:0]
	}
}

// flush writes every dirty connection once. A write may close its connection and so call the
// handler, which may make others dirty: the list is read until its end, wherever that is by then.
// hot: 0 allocs.
func (l *Loop) flush() {
	for i := 0; i < len(l.dirty); i++ {
		c := l.dirty[i]
		l.dirty[i] = nil
		c.flushOut()
		c.dirty = false
		c.outBuf.B = c.Out[:0] // append may have moved it
		l.keepOut(c.outBuf)
		c.outBuf, c.Out = nil, nil
	}
	l.dirty = l.dirty[:0]
}

// takeOut returns an empty output buffer: the loop's own newest one, which is warm, or a pooled one.
func (l *Loop) takeOut() *Buffer {
	if n := len(l.outFree); n > 0 {
		b := l.outFree[n-1]
		l.outFree = l.outFree[:n-1]
		return b
	}
	return GetBuffer(4 << 10)
}

func (l *Loop) keepOut(b *Buffer) {
	if cap(b.B) > outKeepBytes || len(l.outFree) >= outKeepMax {
		PutBuffer(b)
		return
	}
	scribble(b.B[:cap(b.B)])
	l.outFree = append(l.outFree, b)
}
