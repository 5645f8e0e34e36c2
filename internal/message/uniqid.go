package message

import (
	"encoding/binary"
	"time"
)

// UniqIDGen makes unique client ids, the values of UNIQ_KEY (MessageClientIDSetter.createUniqID). It is used by one
// goroutine and holds no lock; generators of one process differ in their salt.
//
//	bytes    content
//	4 or 16  address
//	2        process id, low 16 bits
//	4        salt; RocketMQ: hash of the class loader
//	4        milliseconds since the start of the month, local time
//	2        counter
//
// The id is the upper-case hex of these: 32 or 56 characters.
type UniqIDGen struct {
	prefix     [UniqIDBytesMax]byte // hex of the parts that never change
	prefixLen  int
	monthStart Millis
	nextMonth  Millis
	sinceMonth uint32 // the time in the last id; never goes back within a month
	counter    uint16
	inThisMs   uint32 // ids already made with sinceMonth
}

// NewUniqIDGen makes a generator. salt must differ between the generators that share address and process id, those of
// earlier processes included: in a container every broker may be process 1.
func NewUniqIDGen(host Host, pid int, salt uint32) UniqIDGen {
	var raw [22]byte
	n := host.addressBytes()
	copy(raw[:n], host.IP[:n])
	binary.BigEndian.PutUint16(raw[n:], uint16(pid))
	binary.BigEndian.PutUint32(raw[n+2:], salt)
	var g UniqIDGen
	g.prefixLen = len(appendHex(g.prefix[:0], raw[:n+6]))
	return g
}

// Append appends the next id to dst; now is the current (possibly cached) time. Ids stay unique when now stands still or
// goes back: past 65,536 ids of one millisecond the generator runs ahead of the clock.
//
// hot: 0 allocs when dst has room.
func (g *UniqIDGen) Append(dst []byte, now Millis) []byte {
	if now >= g.nextMonth {
		g.startMonth(now)
	}
	since := uint32(max(now-g.monthStart, 0))
	switch {
	case since > g.sinceMonth:
		g.sinceMonth, g.inThisMs = since, 0
	case g.inThisMs == 1<<16:
		g.sinceMonth++
		g.inThisMs = 0
	}
	var raw [6]byte
	binary.BigEndian.PutUint32(raw[:], g.sinceMonth)
	binary.BigEndian.PutUint16(raw[4:], g.counter)
	g.counter++
	g.inThisMs++
	dst = append(dst, g.prefix[:g.prefixLen]...)
	return appendHex(dst, raw[:])
}

// startMonth notes where the month of now begins and ends. From the 25th day on the time has its highest bit set, as in
// RocketMQ, whose decoder reads the four bytes unsigned.
func (g *UniqIDGen) startMonth(now Millis) {
	t := time.UnixMilli(int64(now))
	start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, t.Location())
	g.monthStart = Millis(start.UnixMilli())
	g.nextMonth = Millis(start.AddDate(0, 1, 0).UnixMilli())
	g.sinceMonth, g.inThisMs = 0, 0
}
