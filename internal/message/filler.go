package message

import (
	"bytes"
	"encoding/binary"
)

// Filler is what takes the place of a record that was damaged on disk: a whole record of the same length, which the original takes
// for one as well, so that its recovery does not cut the log there and no queue offset shifts.
//
// A filler with a topic is an ordinary record of that queue and offset, with a body that says what it is. One without belongs to
// no queue: it has the type of a rolled-back record, which neither broker puts into a queue or an index.
//
// It is told from messages by its born host, 0.0.0.0:0, which no connection has, and its flag.
type Filler struct {
	Topic       string
	QueueID     QueueID
	QueueOffset QueueOffset
	PhyOffset   PhyOffset
	StoreTime   Millis // that of a neighbour: the original looks for its beginning by store times
	Size        int    // bytes, at least FillerBytesMin(Topic)
	// PropertyCRC ends the record with the checksum of enabledAppendPropCRC, if Size leaves room for it.
	PropertyCRC bool
}

// TagsCodeFiller is the tags code of a filler: no hash (those have 32 bits) and no ext address. Readers step over its unit; the low
// 32 bits, by which the original filters, are those of a message without tags.
const TagsCodeFiller TagsCode = 1 << 62

const (
	fillerFlag  int32 = 0x50524746
	fillerTopic       = "F" // of one that belongs to no queue
	fillerText        = "This is no message. A record was damaged on disk, and peregrine dump --repair put this filler in its place. " +
		"The damaged bytes are kept in the folder peregrine.repair of the broker's data directory.\n"
	propertyCRCBytes = len(PropertyCRC32) + 1 + propertyCRCDigits + 1
)

// wheelTopic holds the records of timer messages (TimerMessageStore.TIMER_TOPIC).
const wheelTopic = "rmq_sys_wheel_timer"

// FillerBytesMin is the length of the shortest filler for a queue of a topic; "" is one that belongs to no queue.
func FillerBytesMin(topic string) int {
	if topic == "" {
		topic = fillerTopic
	}
	r := Record{Topic: []byte(topic)}
	return r.Size()
}

// fillerProperties lets the original's services for delayed and timer messages get rid of a filler: they parse these. It goes to the
// self-test topic, which nobody reads.
func fillerProperties(topic string) string {
	if topic == ScheduleTopic || topic == wheelTopic {
		return "REAL_TOPIC\x01SELF_TEST_TOPIC\x02REAL_QID\x010\x02TIMER_OUT_MS\x010\x02"
	}
	return ""
}

// Encode returns the filler's bytes.
func (f *Filler) Encode() []byte {
	r := Record{Topic: []byte(f.Topic), QueueID: f.QueueID, QueueOffset: f.QueueOffset, PhyOffset: f.PhyOffset, StoreTimestamp: f.StoreTime, Flag: fillerFlag}
	if f.Topic == "" {
		r.Topic, r.SysFlag = []byte(fillerTopic), SysFlagTransactionRollback
	}
	room := f.Size - r.Size()
	if room < 0 {
		panic("BUG: message: a filler shorter than the shortest")
	}
	if p := fillerProperties(f.Topic); len(p) <= room {
		r.Properties = append(r.Properties, p...)
		room -= len(p)
	}
	withCRC := f.PropertyCRC && propertyCRCBytes <= room
	if withCRC {
		r.Properties = append(r.Properties, make([]byte, propertyCRCBytes)...)
		room -= propertyCRCBytes
	}
	r.Body = bytes.Repeat([]byte{' '}, room)
	copy(r.Body, fillerText)
	r.BodyCRC = BodyCRC(r.Body)
	b := make([]byte, f.Size)
	r.EncodeTo(b)
	if withCRC {
		putPropertyCRC(b)
	}
	return b
}

// propertyCRCDigits is how many digits the checksum in the properties has, the least significant first.
const propertyCRCDigits = 10

// putPropertyCRC fills the last bytes of a record with the checksum over all others (MessageExtEncoder, CommitLog.appendMessage
// with enabledAppendPropCRC, 5.5.0).
func putPropertyCRC(record []byte) {
	at := len(record) - propertyCRCBytes
	sum := BodyCRC(record[:at])
	at += copy(record[at:], PropertyCRC32)
	record[at] = NameValueSeparator
	for i := 1; i <= propertyCRCDigits; i++ {
		record[at+i] = '0' + byte(sum%10)
		sum /= 10
	}
	record[len(record)-1] = PropertySeparator
}

// HasPropertyCRC tells whether the record ends with the checksum that enabledAppendPropCRC adds.
func (v *View) HasPropertyCRC() bool {
	at := len(v.Properties) - propertyCRCBytes
	return at >= 0 && string(v.Properties[at:at+len(PropertyCRC32)]) == PropertyCRC32
}

// IsFiller tells whether the record is a Filler.
//
// hot: 0 allocs.
func (v *View) IsFiller() bool {
	return v.Flag == fillerFlag && v.BornTimestamp == 0 && v.BornHost.Port == 0 && v.BornHost.IP == [16]byte{}
}

// AppendBlank appends the end-of-file mark of a file in which left bytes are left.
func AppendBlank(dst []byte, left int64) []byte {
	blank := MagicBlank
	dst = binary.BigEndian.AppendUint32(dst, uint32(left))
	return binary.BigEndian.AppendUint32(dst, uint32(blank))
}
