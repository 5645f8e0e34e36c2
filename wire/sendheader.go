package wire

import "encoding/binary"

// SendMessageHeader is the header of SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE and the reply forms
// (SendMessageRequestHeader and SendMessageRequestHeaderV2). The []byte fields alias the Command's memory.
type SendMessageHeader struct {
	ProducerGroup         []byte
	Topic                 []byte
	DefaultTopic          []byte // template for a topic that does not exist yet
	DefaultTopicQueueNums int32
	QueueID               int32 // negative: any queue
	SysFlag               int32
	BornTimestamp         int64 // client clock, epoch ms
	Flag                  int32
	Properties            []byte // properties text, nil when absent
	ReconsumeTimes        int32  // 0 when absent
	MaxReconsumeTimes     int32
	HasMaxReconsumeTimes  bool
	UnitMode              bool
	Batch                 bool // the body is a batch
	BrokerName            []byte
}

// Bits that note which fields were seen.
const (
	seenProducerGroup = 1 << iota
	seenTopic
	seenDefaultTopic
	seenDefaultTopicQueueNums
	seenQueueID
	seenSysFlag
	seenBornTimestamp
	seenFlag
	sendRequired = 1<<iota - 1
)

// sendFieldNames are the names of the required fields by the bits above, for errors.
var sendFieldNames = [...]string{"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
	"bornTimestamp", "flag"}

// DecodeV2 reads the one-letter fields of codes 310, 320 and 325. The error is a *HeaderError.
//
// hot: 0 allocs without error.
func (h *SendMessageHeader) DecodeV2(c *Command) error {
	if c.send != nil {
		*h = *c.send
		return nil
	}
	*h = SendMessageHeader{}
	seen := 0
	for i := range c.ext.table {
		e := &c.ext.table[i]
		if len(e.key) != 1 {
			continue
		}
		bit, ok := h.set(e.key[0], e.value)
		if !ok {
			return sendFieldInvalid(e.key[0], e.value)
		}
		seen |= bit
	}
	return h.checkSeen(seen)
}

// decodeLetters reads the fields of a binary header in one pass, as most sends come. After false, somebody else has to say what is
// wrong, if anything is.
//
// hot: 0 allocs.
func (h *SendMessageHeader) decodeLetters(fields []byte) bool {
	*h = SendMessageHeader{}
	seen := 0
	for count := 0; len(fields) > 0; count++ {
		if len(fields) < 7 || binary.BigEndian.Uint16(fields) != 1 || count == ExtEntriesMax {
			return false
		}
		size := int(int32(binary.BigEndian.Uint32(fields[3:])))
		if size < 0 || size > len(fields)-7 {
			return false
		}
		bit, ok := h.set(fields[2], fields[7:7+size:7+size])
		if !ok {
			return false
		}
		seen |= bit
		fields = fields[7+size:]
	}
	return seen == sendRequired
}

// set takes the value of one field. seen is its bit if it is required.
func (h *SendMessageHeader) set(letter byte, value []byte) (seen int, ok bool) {
	ok = true
	switch letter {
	case 'a':
		h.ProducerGroup = value
		return seenProducerGroup, true
	case 'b':
		h.Topic = value
		return seenTopic, true
	case 'c':
		h.DefaultTopic = value
		return seenDefaultTopic, true
	case 'd':
		h.DefaultTopicQueueNums, ok = parseInt32(value)
		return seenDefaultTopicQueueNums, ok
	case 'e':
		h.QueueID, ok = parseInt32(value)
		return seenQueueID, ok
	case 'f':
		h.SysFlag, ok = parseInt32(value)
		return seenSysFlag, ok
	case 'g':
		h.BornTimestamp, ok = parseInt64(value)
		return seenBornTimestamp, ok
	case 'h':
		h.Flag, ok = parseInt32(value)
		return seenFlag, ok
	case 'i':
		h.Properties = value
	case 'j':
		h.ReconsumeTimes, _, ok = optionalInt32(value)
	case 'k':
		h.UnitMode = parseBool(value)
	case 'l':
		h.MaxReconsumeTimes, h.HasMaxReconsumeTimes, ok = optionalInt32(value)
	case 'm':
		h.Batch = parseBool(value)
	case 'n':
		h.BrokerName = value
	}
	return 0, ok
}

// DecodeV1 reads the full names of codes 10 and 324. The error is a *HeaderError.
//
// hot: 0 allocs without error.
func (h *SendMessageHeader) DecodeV1(c *Command) error {
	*h = SendMessageHeader{}
	seen := 0
	for i := range c.ext.table {
		e := &c.ext.table[i]
		letter := sendLetter(e.key)
		bit, ok := h.set(letter, e.value)
		if !ok {
			return sendFieldInvalid(letter, e.value)
		}
		seen |= bit
	}
	return h.checkSeen(seen)
}

// sendLetter is what the V2 form calls a field of the V1 form, 0 for an unknown one.
func sendLetter(name []byte) byte {
	switch string(name) {
	case "producerGroup":
		return 'a'
	case "topic":
		return 'b'
	case "defaultTopic":
		return 'c'
	case "defaultTopicQueueNums":
		return 'd'
	case "queueId":
		return 'e'
	case "sysFlag":
		return 'f'
	case "bornTimestamp":
		return 'g'
	case "flag":
		return 'h'
	case "properties":
		return 'i'
	case "reconsumeTimes":
		return 'j'
	case "unitMode":
		return 'k'
	case "maxReconsumeTimes":
		return 'l'
	case "batch":
		return 'm'
	case "bname":
		return 'n'
	}
	return 0
}

func (h *SendMessageHeader) checkSeen(seen int) error {
	if seen == sendRequired {
		return nil
	}
	for i, name := range sendFieldNames {
		if seen&(1<<i) == 0 {
			return fieldMissing(name)
		}
	}
	return nil
}

// sendFieldInvalid names the numeric field behind a letter.
func sendFieldInvalid(letter byte, value []byte) error {
	switch letter {
	case 'g':
		return fieldInvalid("bornTimestamp", ReasonInt64, value)
	case 'j':
		return fieldInvalid("reconsumeTimes", ReasonInt32, value)
	case 'l':
		return fieldInvalid("maxReconsumeTimes", ReasonInt32, value)
	}
	return fieldInvalid(sendFieldNames[letter-'a'], ReasonInt32, value)
}

// optionalInt32 reads a number that may be left out; empty text is how a binary header says null.
func optionalInt32(value []byte) (n int32, has, ok bool) {
	if len(value) == 0 {
		return 0, false, true
	}
	n, ok = parseInt32(value)
	return n, ok, ok
}

// optionalInt64 is optionalInt32 for 64 bits.
func optionalInt64(value []byte) (n int64, ok bool) {
	if len(value) == 0 {
		return 0, true
	}
	return parseInt64(value)
}
