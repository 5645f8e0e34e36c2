package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"peregrine/internal/message"
	"peregrine/wire"
)

// frames makes the send requests of one worker for one broker. A frame is built once for each queue by package wire and
// then only copied and patched: opaque, born time, UNIQ_KEY and, if wanted, KEYS. All of these have a fixed width, so no
// length in the frame ever changes. It belongs to one worker.
type frames struct {
	heads  []head // one per queue; behind them, if some are delayed, as many with a delay level
	queues int
	body   []byte // of a single message, or the whole batch
	marks  []mark // what to patch in a batch body
	bodies []int  // where the bodies of messages begin in body
	size   int    // of one of them
	binary bool   // header encoding

	ids      message.UniqIDGen
	keySalt  uint32 // tells the keys of the workers apart
	keyCount uint64

	bornMs   int64
	bornText [bornDigits]byte // decimal of bornMs, renewed once a millisecond at most
}

// head is length word and header of a frame for one queue.
type head struct {
	bytes    []byte
	opaqueAt int
	bornAt   int
	marks    []mark
}

// mark is where a value that differs from message to message stands.
type mark struct {
	at    int
	isKey bool // KEYS, otherwise UNIQ_KEY
}

const (
	bornDigits  = 13 // milliseconds since 1970 until the year 2286
	opaqueWidth = 10
	uniqWidth   = 32 // IPv4 form, which the Java client uses on IPv4 hosts
	keyWidth    = 24 // salt and counter in hexadecimal
)

// Texts that stand in a template for what is patched later. None can occur by chance: every one is searched for and has to
// be found exactly as often as it was put in.
const (
	uniqSentinel   = "UNIQUNIQUNIQUNIQUNIQUNIQUNIQUNIQ"
	keySentinel    = "KEYSKEYSKEYSKEYSKEYSKEYS"
	bornSentinel   = 9_090_909_090_909
	opaqueSentinel = 1_919_191_919
)

// frameSpec says what a message looks like.
type frameSpec struct {
	encoding   wire.Encoding
	group      string
	topic      string
	brokerName string
	queues     int
	bodyBytes  int
	batch      int // messages in one request; 1 = no batch
	tags       string
	delayLevel int    // of the delayed ones; 0 = there are none
	keys       bool   // a key of its own for each message; or
	key        string // the same for all; "" = none
}

// newFrames builds the templates. salt tells this worker's ids from those of the other workers of this process.
func newFrames(spec frameSpec, host message.Host, pid int, salt uint32) (*frames, error) {
	f := &frames{binary: spec.encoding == wire.EncodingBinary, ids: message.NewUniqIDGen(host, pid, salt), keySalt: salt, size: spec.bodyBytes, queues: spec.queues, bodies: []int{0}}
	var properties []byte
	if spec.batch == 1 {
		properties = spec.properties()
		f.body = filler(spec.bodyBytes)
	} else {
		// The header of a batch names one id of its own, each element carries the rest (DefaultMQProducer.batch of 5.x).
		properties = message.AppendProperty(nil, message.PropertyUniqKey, uniqSentinel)
		properties = message.AppendProperty(properties, message.PropertyWait, "true")
		element := message.AppendBatchElement(nil, 0, filler(spec.bodyBytes), spec.properties())
		f.body = bytes.Repeat(element, spec.batch)
		f.bodies = f.bodies[:0]
		first := bytes.Index(element, filler(spec.bodyBytes))
		for at := 0; at < len(f.body); at += len(element) {
			f.bodies = append(f.bodies, at+first)
		}
		f.marks = findMarks(f.body)
		if want := spec.batch * spec.marksPerMessage(); len(f.marks) != want {
			return nil, fmt.Errorf("bench: BUG: %d marks in the batch body, want %d", len(f.marks), want)
		}
	}
	kinds := [][]byte{properties}
	if spec.delayLevel > 0 { // of single messages only: brokers refuse batches with a delay
		kinds = append(kinds, message.AppendProperty(slices.Clone(properties), message.PropertyDelay, strconv.Itoa(spec.delayLevel)))
	}
	for _, properties := range kinds {
		for q := range spec.queues {
			h, err := spec.head(q, properties, f.body)
			if err != nil {
				return nil, err
			}
			f.heads = append(f.heads, h)
		}
	}
	return f, nil
}

func (s frameSpec) marksPerMessage() int {
	if s.keys {
		return 2
	}
	return 1
}

// properties is the property text in the order in which the Java client writes it.
func (s frameSpec) properties() []byte {
	var p []byte
	if s.keys {
		p = message.AppendProperty(p, message.PropertyKeys, keySentinel)
	} else if s.key != "" {
		p = message.AppendProperty(p, message.PropertyKeys, s.key)
	}
	p = message.AppendProperty(p, message.PropertyUniqKey, uniqSentinel)
	p = message.AppendProperty(p, message.PropertyWait, "true")
	if s.tags != "" {
		p = message.AppendProperty(p, message.PropertyTags, s.tags)
	}
	return p
}

// head builds the frame for queue q and finds the places to patch.
func (s frameSpec) head(q int, properties, body []byte) (head, error) {
	frame := appendSendFrame(nil, s, q, properties, body)
	h := head{bytes: frame[:len(frame)-len(body)]}
	if s.encoding == wire.EncodingBinary {
		h.opaqueAt = uniqueIndex(h.bytes, binary.BigEndian.AppendUint32(nil, opaqueSentinel))
	} else {
		h.opaqueAt = uniqueIndex(h.bytes, strconv.AppendInt(nil, opaqueSentinel, 10))
	}
	h.bornAt = uniqueIndex(h.bytes, strconv.AppendInt(nil, bornSentinel, 10))
	h.marks = findMarks(h.bytes)
	want := 1
	if s.batch == 1 {
		want = s.marksPerMessage()
	}
	if h.opaqueAt < 0 || h.bornAt < 0 || len(h.marks) != want {
		return head{}, fmt.Errorf("bench: BUG: the frame template for queue %d has no unique place for opaque, born time or ids", q)
	}
	return h, nil
}

// uniqueIndex is the only index of part in b, -1 if there is none or more than one.
func uniqueIndex(b, part []byte) int {
	at := bytes.Index(b, part)
	if at < 0 || bytes.Contains(b[at+1:], part) {
		return -1
	}
	return at
}

// findMarks finds all sentinels of ids and keys, in ascending order.
func findMarks(b []byte) []mark {
	var out []mark
	for at := 0; at < len(b); {
		rest := b[at:]
		switch {
		case bytes.HasPrefix(rest, []byte(uniqSentinel)):
			out = append(out, mark{at: at})
			at += uniqWidth
		case bytes.HasPrefix(rest, []byte(keySentinel)):
			out = append(out, mark{at: at, isKey: true})
			at += keyWidth
		default:
			at++
		}
	}
	return out
}

// filler is a message body: printable, and the same in every run, so that two runs send the same bytes.
func filler(n int) []byte {
	const text = "peregrine bench 0123456789abcdefghijklmnopqrstuvwxyz "
	b := make([]byte, n)
	for i := range b {
		b[i] = text[i%len(text)]
	}
	return b
}

// append appends one whole frame for queue q to dst. Its messages are stamped with what follows from, unless they are too short.
//
// hot: 0 allocs when dst has room
func (f *frames) append(dst []byte, q int, delayed bool, opaque int32, bornMs int64, from stamp) []byte {
	if delayed {
		q += f.queues
	}
	h := &f.heads[q]
	start := len(dst)
	dst = append(dst, h.bytes...)
	dst = append(dst, f.body...)
	frame := dst[start:]
	if f.binary {
		binary.BigEndian.PutUint32(frame[h.opaqueAt:], uint32(opaque))
	} else {
		putDecimal(frame[h.opaqueAt:h.opaqueAt+opaqueWidth], int64(opaque))
	}
	if bornMs != f.bornMs {
		f.bornMs = bornMs
		putDecimal(f.bornText[:], bornMs)
	}
	copy(frame[h.bornAt:], f.bornText[:])
	f.patch(frame, h.marks)
	body := frame[len(h.bytes):]
	f.patch(body, f.marks)
	if f.size >= stampBytes {
		for _, at := range f.bodies {
			from.put(body[at : at+f.size])
			from.sequence++
		}
	}
	return dst
}

func (f *frames) patch(b []byte, marks []mark) {
	for i := range marks {
		at := marks[i].at
		if marks[i].isKey {
			f.keyCount++
			putHex(b[at:at+8], uint64(f.keySalt))
			putHex(b[at+8:at+keyWidth], f.keyCount)
			continue
		}
		// In place: the id is as long as the sentinel it replaces.
		f.ids.Append(b[at:at:at+uniqWidth], message.Millis(f.bornMs))
	}
}

// putDecimal fills b with the last len(b) decimal digits of v.
func putDecimal(b []byte, v int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
}

// putHex fills b with the last len(b) hexadecimal digits of v.
func putHex(b []byte, v uint64) {
	const digits = "0123456789ABCDEF"
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = digits[v&15]
		v >>= 4
	}
}

// appendSendFrame appends the template frame for queue q: single messages go as SEND_MESSAGE_V2, batches as SEND_BATCH_MESSAGE,
// like the Java client's.
func appendSendFrame(dst []byte, s frameSpec, q int, properties, body []byte) []byte {
	return wire.AppendSendRequestV2(dst, s.encoding, opaqueSentinel, 0, &wire.SendMessageHeader{
		ProducerGroup:         []byte(s.group),
		Topic:                 []byte(s.topic),
		DefaultTopic:          []byte(templateTopic),
		DefaultTopicQueueNums: int32(s.queues),
		QueueID:               int32(q),
		BornTimestamp:         bornSentinel,
		Properties:            properties,
		Batch:                 s.batch > 1,
		BrokerName:            []byte(s.brokerName),
	}, body)
}
