package netio

import (
	"math/bits"

	"github.com/valyala/bytebufferpool"
)

// Buffer is a pooled byte buffer: append to B. Get one with GetBuffer, give it back with PutBuffer
// exactly once, or hand it to Server.Post, which owns it from then on.
type Buffer = bytebufferpool.ByteBuffer

// Size classes: powers of two from 1 KiB to 16 MiB, so at most half of a buffer is unused.
const (
	bufferClassMinBits = 10
	bufferClassMaxBits = 24
	bufferClasses      = bufferClassMaxBits - bufferClassMinBits + 1
)

// pools is process-wide on purpose: buffers wander between workers, loops and servers, and a pool
// holds no state that anyone can observe. One pool per class, because a single one would hand out a
// tiny buffer for a large need and calibrate itself to the mixture.
var pools [bufferClasses]bytebufferpool.Pool

// GetBuffer returns an empty buffer with a capacity of at least size bytes. Any goroutine.
// hot: 0 allocs when the pool of the class has one.
func GetBuffer(size int) *Buffer {
	class := bufferClass(size)
	if class >= bufferClasses {
		return &Buffer{B: make([]byte, 0, size)} // larger than any frame: not pooled
	}
	b := pools[class].Get()
	if cap(b.B) < size {
		b.B = make([]byte, 0, 1<<(bufferClassMinBits+class))
	}
	return b
}

// PutBuffer gives b back; nothing may use b or b.B afterwards. nil is allowed.
// hot: 0 allocs.
func PutBuffer(b *Buffer) {
	if b == nil {
		return
	}
	scribble(b.B[:cap(b.B)])
	c := cap(b.B)
	if c < 1<<bufferClassMinBits || c >= 2<<bufferClassMaxBits {
		return
	}
	class := bits.Len(uint(c)) - 1 - bufferClassMinBits // the largest class that fits into it
	size := 1 << (bufferClassMinBits + class)
	// Length and capacity are cut to exactly the class: the pool calibrates itself by the length of
	// what it gets back and throws away what has more capacity than it has learned.
	b.B = b.B[:size:size]
	pools[class].Put(b)
}

// bufferClass is the smallest class that holds size bytes.
func bufferClass(size int) int {
	if size <= 1<<bufferClassMinBits {
		return 0
	}
	return bits.Len(uint(size-1)) - bufferClassMinBits
}
