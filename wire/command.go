package wire

import "encoding/binary"

// Encoding is the form of a header (org.apache.rocketmq.remoting.protocol.SerializeType). Answers mirror the request's.
type Encoding uint8

// Encodings, with their codes on the wire.
const (
	EncodingJSON   Encoding = 0
	EncodingBinary Encoding = 1
)

// String is the name that RocketMQ gives the encoding.
func (e Encoding) String() string {
	if e == EncodingBinary {
		return "ROCKETMQ"
	}
	return "JSON"
}

// Version is what peregrine writes into the version field of everything it sends: 5.5.0 (MQVersion).
const Version int32 = 513

// Versions that decide what a peer may be sent.
const (
	VersionResetOffsetPush  int32 = 28  // a client from here on takes RESET_CONSUMER_CLIENT_OFFSET
	VersionMaxReconsume     int32 = 121 // maxReconsumeTimes of a request overrides the group's
	VersionStandardJSON     int32 = 401 // a client from here on gets routes with quoted integer keys
	VersionV5               int32 = 413 // a broker from here on packs queue mappings into its registration
	VersionGoAwayAfter      int32 = 475 // a client above may be answered GO_AWAY
	flagResponse            int32 = 1
	flagOneway              int32 = 2
	serializeTypeKey              = "serializeTypeCurrentRPC"
	binaryHeaderFixedLength       = 21
)

// Command is one decoded frame (RemotingCommand). A zero Command may be decoded into any number of times. See the package
// documentation for how long its slices live.
type Command struct {
	Encoding Encoding
	Language Language
	// HasExt tells that extFields was there, perhaps empty. A binary header cannot tell empty from absent.
	HasExt  bool
	Code    int32
	Version int32
	Opaque  int32
	Flag    int32
	Remark  []byte // nil when absent
	Body    []byte // never nil after Decode
	ext     ExtIter
	send    *SendMessageHeader // ext.letters, decoded; nil = not yet
}

// extEntry is one ext field, unescaped.
type extEntry struct{ key, value []byte }

// IsResponse tells an answer from a request.
func (c *Command) IsResponse() bool { return c.Flag&flagResponse != 0 }

// IsOneway tells that the sender wants no answer, not even an error.
func (c *Command) IsOneway() bool { return c.Flag&flagOneway != 0 && !c.IsResponse() }

// Send is the header of a send if Decode has read it already, as it does with binary headers whose keys are letters; nil: use
// SendMessageHeader.DecodeV1 or DecodeV2. It lives as long as the Command's slices.
func (c *Command) Send() *SendMessageHeader { return c.send }

// ExtIter walks the ext fields of a Command in the order of the frame. Duplicates come one by one; the last counts.
type ExtIter struct {
	table   []extEntry
	letters []byte // instead: fields whose lengths were checked and whose keys are letters, as they lie in a binary header
}

// Ext starts a walk over the ext fields.
func (c *Command) Ext() ExtIter { return c.ext }

// Next yields the next field. A value is always text: numbers and booleans of a JSON header in their own spelling. Null
// values are left out.
//
// hot: 0 allocs.
func (it *ExtIter) Next() (key, value []byte, ok bool) {
	if h := it.letters; len(h) > 0 {
		end := 7 + int(binary.BigEndian.Uint32(h[3:]))
		it.letters = h[end:]
		return h[2:3:3], h[7:end:end], true
	}
	if len(it.table) == 0 {
		return nil, nil, false
	}
	e := &it.table[0]
	it.table = it.table[1:]
	return e.key, e.value, true
}

// GetExt is the value of the ext field called name.
//
// hot: 0 allocs.
func (c *Command) GetExt(name string) (value []byte, ok bool) {
	for it := c.ext; ; {
		key, v, more := it.Next()
		if !more {
			return value, ok
		}
		if string(key) == name {
			value, ok = v, true
		}
	}
}

// ExtLen is the number of ext fields.
func (c *Command) ExtLen() (n int) {
	for it := c.ext; ; n++ {
		if _, _, more := it.Next(); !more {
			return n
		}
	}
}
