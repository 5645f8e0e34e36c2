package message

import "encoding/binary"

// Positions of fields whose place does not depend on the hosts.
const (
	offMagic         = 4
	offBodyCRC       = 8
	offQueueID       = 12
	offFlag          = 16
	offQueueOffset   = 20
	offPhyOffset     = 28
	offSysFlag       = 36
	offBornTimestamp = 40
	offBornHost      = 48
	// fixedBytes is everything but hosts, body, topic, properties and the topic's length field.
	fixedBytes = RecordBytesMin - 8 - 8 - 1
)

// Record is one message to be encoded. All slices are borrowed until the call that takes the Record returns.
type Record struct {
	Topic      []byte // UTF-8, up to TopicBytesMaxV2
	Body       []byte // as sent
	Properties []byte // properties text, see AppendProperty
	// PropertiesSuffix is stored right behind Properties, so that the broker adds its own entries without joining. The
	// caller sees to it that Properties ends with 0x02 or is empty. Both together have up to PropertiesBytesMax bytes.
	PropertiesSuffix []byte

	BodyCRC                   uint32 // BodyCRC(Body), computed by the caller outside of any lock
	QueueID                   QueueID
	Flag                      int32
	SysFlag                   int32 // the two IPv6 bits are ignored and derived from the hosts
	ReconsumeTimes            int32
	QueueOffset               QueueOffset
	PhyOffset                 PhyOffset
	BornTimestamp             Millis
	StoreTimestamp            Millis
	BornHost                  Host
	StoreHost                 Host
	PreparedTransactionOffset PhyOffset
}

// needsV2 tells whether the topic is too long for a V1 record. RocketMQ asks for more than 127 UTF-16 units; topic names
// are ASCII there, so that counting bytes decides alike and can never cut off a length.
func (r *Record) needsV2() bool { return len(r.Topic) > TopicBytesMaxV1 }

// Size is the number of bytes EncodeTo writes.
//
// hot: 0 allocs.
func (r *Record) Size() int {
	n := fixedBytes + r.BornHost.Size() + r.StoreHost.Size() + 1 +
		len(r.Body) + len(r.Topic) + len(r.Properties) + len(r.PropertiesSuffix)
	if r.needsV2() {
		n++
	}
	return n
}

// EncodeTo writes the record to the start of dst and returns its size. dst must have at least Size bytes. It panics when
// topic or properties are longer than their length field can say: callers check those limits when they accept a message.
// Mirrors MessageExtEncoder.encode of 5.x.
//
// hot: 0 allocs.
func (r *Record) EncodeTo(dst []byte) int {
	size := r.Size()
	dst = dst[:size]
	propertiesLen := len(r.Properties) + len(r.PropertiesSuffix)
	if propertiesLen > PropertiesBytesMax || len(r.Topic) > TopicBytesMaxV2 {
		panic("BUG: message: topic or properties longer than the record layout allows")
	}
	magic := MagicV1
	if r.needsV2() {
		magic = MagicV2
	}
	sysFlag := r.SysFlag &^ (SysFlagBornHostV6 | SysFlagStoreHostV6)
	if r.BornHost.IPLen == 16 {
		sysFlag |= SysFlagBornHostV6
	}
	if r.StoreHost.IPLen == 16 {
		sysFlag |= SysFlagStoreHostV6
	}
	be := binary.BigEndian
	be.PutUint32(dst[offMagic:], uint32(magic))
	be.PutUint32(dst[offBodyCRC:], r.BodyCRC)
	be.PutUint32(dst[offQueueID:], uint32(r.QueueID))
	be.PutUint32(dst[offFlag:], uint32(r.Flag))
	be.PutUint64(dst[offQueueOffset:], uint64(r.QueueOffset))
	be.PutUint64(dst[offPhyOffset:], uint64(r.PhyOffset))
	be.PutUint32(dst[offSysFlag:], uint32(sysFlag))
	be.PutUint64(dst[offBornTimestamp:], uint64(r.BornTimestamp))
	at := r.BornHost.put(dst, offBornHost)
	be.PutUint64(dst[at:], uint64(r.StoreTimestamp))
	at = r.StoreHost.put(dst, at+8)
	be.PutUint32(dst[at:], uint32(r.ReconsumeTimes))
	be.PutUint64(dst[at+4:], uint64(r.PreparedTransactionOffset))
	be.PutUint32(dst[at+12:], uint32(len(r.Body)))
	at += 16
	at += copy(dst[at:], r.Body)
	if magic == MagicV2 {
		be.PutUint16(dst[at:], uint16(len(r.Topic)))
		at += 2
	} else {
		dst[at] = byte(len(r.Topic))
		at++
	}
	at += copy(dst[at:], r.Topic)
	be.PutUint16(dst[at:], uint16(propertiesLen))
	at += 2
	at += copy(dst[at:], r.Properties)
	at += copy(dst[at:], r.PropertiesSuffix)
	// The size last: in the mapping of a log, a process that is killed half-way leaves a record of size 0, which nobody takes
	// for one. The CRC would not notice properties that are missing.
	be.PutUint32(dst, uint32(size))
	return at
}
