package wire

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"peregrine/internal/message"
)

// RegisterBrokerBody is the body of REGISTER_BROKER (body.RegisterBrokerBody). It has two forms on the wire: JSON, and,
// when the header says compressed, a zlib stream of
//
//	int32 length + DataVersion as JSON
//	int32 count n, then n × (int32 length + "name readQueues writeQueues perm filterType[ attributes as JSON]")
//	int32 length + filter server list as JSON
//	brokers from VersionV5 on: int32 count m, then m × (int32 length + queue mapping as JSON)
//
// The packed form has neither order nor topicSysFlag nor mappingDataVersion.
type RegisterBrokerBody struct {
	FilterServerList            []string                    `json:"filterServerList"`
	TopicConfigSerializeWrapper TopicConfigSerializeWrapper `json:"topicConfigSerializeWrapper"`
}

// RegistrationCRC is the value for bodyCrc32 of a registration body as sent.
func RegistrationCRC(body []byte) int32 { return int32(message.BodyCRC(body)) }

// DecodeRegistration reads the body of a registration in the form that the header's compressed flag tells. Errors match
// ErrBody; sizes and counts are bounded by RegistrationBytesMax and RegistrationItemsMax. body is borrowed.
func DecodeRegistration(body []byte, compressed bool) (*RegisterBrokerBody, error) {
	var r RegisterBrokerBody
	if !compressed {
		if len(body) == 0 {
			return &r, nil
		}
		if err := DecodeBody(body, &r); err != nil {
			return nil, err
		}
		return &r, nil
	}
	stream, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, bodyError("registration: %v", err)
	}
	p := packedReader{limited: io.LimitedReader{R: stream, N: RegistrationBytesMax}}
	if err := p.registration(&r); err != nil {
		return nil, bodyError("registration: %v", err)
	}
	return &r, nil
}

var errPacked = errors.New("wrong length, count or topic text")

// packedReader reads the packed form piece by piece, so that a claimed length costs no memory before its bytes are there.
type packedReader struct {
	limited io.LimitedReader
	piece   bytes.Buffer
}

func (p *packedReader) int32() (int, error) {
	var raw [4]byte
	if _, err := io.ReadFull(&p.limited, raw[:]); err != nil {
		return 0, err
	}
	n := int32(binary.BigEndian.Uint32(raw[:]))
	if n < 0 {
		return 0, errPacked
	}
	return int(n), nil
}

// text reads a length and as many bytes; the result is valid until the next call.
func (p *packedReader) text() ([]byte, error) {
	n, err := p.int32()
	if err != nil {
		return nil, err
	}
	if n > RegistrationTextBytesMax {
		return nil, errPacked
	}
	p.piece.Reset()
	if _, err := io.CopyN(&p.piece, &p.limited, int64(n)); err != nil {
		return nil, errPacked
	}
	return p.piece.Bytes(), nil
}

func (p *packedReader) registration(r *RegisterBrokerBody) error {
	wrapper := &r.TopicConfigSerializeWrapper
	text, err := p.text()
	if err != nil {
		return err
	}
	if err := DecodeBody(text, &wrapper.DataVersion); err != nil {
		return err
	}
	n, err := p.int32()
	if err != nil || n > RegistrationItemsMax {
		return errPacked
	}
	wrapper.TopicConfigTable = make(map[string]TopicConfig)
	for range n {
		if text, err = p.text(); err != nil {
			return err
		}
		topic, ok := parsePackedTopic(string(text))
		if !ok {
			return errPacked
		}
		wrapper.TopicConfigTable[topic.TopicName] = topic
	}
	if text, err = p.text(); err != nil {
		return err
	}
	var filters struct {
		List []string `json:"list"`
	}
	if len(text) > 0 {
		list := append(append([]byte(`{"list":`), text...), '}')
		if err := DecodeBody(list, &filters); err != nil {
			return err
		}
	}
	r.FilterServerList = filters.List
	if n, err = p.int32(); err == io.EOF {
		return nil // a broker of 4.9
	}
	if err != nil || n > RegistrationItemsMax {
		return errPacked
	}
	return p.mappings(n, wrapper)
}

// mappings reads n queue mappings into the table, by the topic inside.
func (p *packedReader) mappings(n int, wrapper *TopicConfigSerializeWrapper) error {
	wrapper.TopicQueueMappingInfoMap = make(map[string]json.RawMessage)
	for range n {
		text, err := p.text()
		if err != nil {
			return err
		}
		standard, err := StandardJSON(text)
		if err != nil {
			return err
		}
		var mapping struct {
			Topic string `json:"topic"`
		}
		if err := DecodeBody(standard, &mapping); err != nil {
			return err
		}
		wrapper.TopicQueueMappingInfoMap[mapping.Topic] = standard
	}
	return nil
}

// parsePackedTopic mirrors TopicConfig.decode.
func parsePackedTopic(text string) (t TopicConfig, ok bool) {
	t.setDefaults()
	parts := strings.SplitN(text, " ", 6)
	if len(parts) < 5 || parts[0] == "" {
		return t, false
	}
	t.TopicName, t.TopicFilterType = parts[0], parts[4]
	for i, dst := range []*int32{&t.ReadQueueNums, &t.WriteQueueNums, &t.Perm} {
		n, ok := parseInt32([]byte(parts[1+i]))
		if !ok {
			return t, false
		}
		*dst = n
	}
	if len(parts) == 6 && parts[5] != "" {
		var wrapped struct {
			Attributes map[string]string `json:"attributes"`
		}
		if DecodeBody([]byte(`{"attributes":`+parts[5]+`}`), &wrapped) != nil {
			return t, false
		}
		t.Attributes = wrapped.Attributes
	}
	return t, true
}

// AppendRegistration appends the registration to dst, packed when compressed is set. version is that of the broker that
// registers: below VersionV5 the packed form has no queue mappings.
func AppendRegistration(dst []byte, r *RegisterBrokerBody, compressed bool, version int32) []byte {
	if !compressed {
		return AppendBody(dst, r)
	}
	wrapper := &r.TopicConfigSerializeWrapper
	be := binary.BigEndian
	text := func(raw, piece []byte) []byte { return append(be.AppendUint32(raw, uint32(len(piece))), piece...) }
	raw := text(nil, EncodeBody(wrapper.DataVersion))
	raw = be.AppendUint32(raw, uint32(len(wrapper.TopicConfigTable)))
	var piece []byte
	for name, topic := range wrapper.TopicConfigTable {
		piece = append(piece[:0], name...)
		for _, n := range []int32{topic.ReadQueueNums, topic.WriteQueueNums, topic.Perm} {
			piece = append(piece, ' ')
			piece = strconv.AppendInt(piece, int64(n), 10)
		}
		piece = append(piece, ' ')
		piece = append(piece, topic.TopicFilterType...)
		if len(topic.Attributes) > 0 {
			piece = append(piece, ' ')
			piece = AppendBody(piece, topic.Attributes)
		}
		raw = text(raw, piece)
	}
	raw = text(raw, EncodeBody(r.FilterServerList))
	if version >= VersionV5 {
		raw = be.AppendUint32(raw, uint32(len(wrapper.TopicQueueMappingInfoMap)))
		for _, mapping := range wrapper.TopicQueueMappingInfoMap {
			raw = text(raw, mapping)
		}
	}
	packed := bytes.NewBuffer(dst)
	// A bytes.Buffer takes every write, so zlib cannot fail either.
	z, _ := zlib.NewWriterLevel(packed, zlib.BestCompression)
	z.Write(raw)
	z.Close()
	return packed.Bytes()
}
