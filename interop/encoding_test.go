package interop

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// Frames by hand, in both header encodings, so that no codec of ours judges itself.

const (
	jsonHeader   = 0
	binaryHeader = 1

	requestPullMessage   = 11
	requestSendMessageV2 = 310
)

type header struct {
	encoding byte
	code     int
	opaque   int
	flag     int
	remark   string
	fields   map[string]string
	body     []byte
}

func (h header) frame() ([]byte, error) {
	var head []byte
	if h.encoding == jsonHeader {
		var err error
		head, err = json.Marshal(map[string]any{"code": h.code, "language": "JAVA", "version": 513, "opaque": h.opaque, "flag": h.flag,
			"extFields": h.fields, "serializeTypeCurrentRPC": "JSON"})
		if err != nil {
			return nil, err
		}
	} else {
		head = binary.BigEndian.AppendUint16(head, uint16(h.code))
		head = append(head, 0) // JAVA
		head = binary.BigEndian.AppendUint16(head, 513)
		head = binary.BigEndian.AppendUint32(head, uint32(h.opaque))
		head = binary.BigEndian.AppendUint32(head, uint32(h.flag))
		head = binary.BigEndian.AppendUint32(head, 0) // no remark
		var fields []byte
		for key, value := range h.fields {
			fields = binary.BigEndian.AppendUint16(fields, uint16(len(key)))
			fields = append(fields, key...)
			fields = binary.BigEndian.AppendUint32(fields, uint32(len(value)))
			fields = append(fields, value...)
		}
		head = binary.BigEndian.AppendUint32(head, uint32(len(fields)))
		head = append(head, fields...)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+len(h.body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(h.encoding)<<24|uint32(len(head)))
	return append(append(frame, head...), h.body...), nil
}

func readAnswer(conn net.Conn) (header, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(conn, prefix[:]); err != nil {
		return header{}, err
	}
	length, headLength := int(binary.BigEndian.Uint32(prefix[:4])), int(binary.BigEndian.Uint32(prefix[4:])&0xFFFFFF)
	if length > answerMax || headLength > length-4 {
		return header{}, fmt.Errorf("frame length %d, header length %d", length, headLength)
	}
	rest := make([]byte, length-4)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return header{}, err
	}
	h := header{encoding: prefix[4], body: rest[headLength:], fields: map[string]string{}}
	head := rest[:headLength]
	if h.encoding == jsonHeader {
		var a answer
		err := json.Unmarshal(head, &a)
		h.code, h.opaque, h.flag, h.remark, h.fields = a.Code, a.Opaque, a.Flag, a.Remark, a.ExtFields
		return h, err
	}
	return h, h.readBinary(bytes.NewReader(head))
}

func (h *header) readBinary(r *bytes.Reader) error {
	var fixed struct {
		Code           int16
		Language       uint8
		Version        int16
		Opaque, Flag   int32
		RemarkLenBytes int32
	}
	if err := binary.Read(r, binary.BigEndian, &fixed); err != nil {
		return err
	}
	h.code, h.opaque, h.flag = int(fixed.Code), int(fixed.Opaque), int(fixed.Flag)
	text := func(length int) (string, error) {
		if length < 0 || length > r.Len() {
			return "", fmt.Errorf("a text of %d bytes in %d", length, r.Len())
		}
		b := make([]byte, length)
		_, err := io.ReadFull(r, b)
		return string(b), err
	}
	var err error
	if h.remark, err = text(int(fixed.RemarkLenBytes)); err != nil {
		return err
	}
	var total int32
	if err := binary.Read(r, binary.BigEndian, &total); err != nil {
		return err
	}
	if int(total) != r.Len() {
		return fmt.Errorf("fields of %d bytes in %d", total, r.Len())
	}
	for r.Len() > 0 {
		var keyLength uint16
		var valueLength int32
		if err := binary.Read(r, binary.BigEndian, &keyLength); err != nil {
			return err
		}
		key, err := text(int(keyLength))
		if err != nil {
			return err
		}
		if err := binary.Read(r, binary.BigEndian, &valueLength); err != nil {
			return err
		}
		if h.fields[key], err = text(int(valueLength)); err != nil {
			return err
		}
	}
	return nil
}

// Case W04: one connection that changes the header encoding with each request. Each answer comes in the encoding of its request
// (the original 5.x answers in its own; its clients read both), and text outside ASCII and empty values survive either way.
func TestOneConnectionAlternatesEncodings(t *testing.T) {
	t.Parallel()
	if bed.apache {
		need(t, "encodings", func() (string, error) { return "", nil })
	}
	for _, s := range matrix() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			broker := startBroker(t, s, false)
			topic := "alternate-" + newRun()
			if err := createTopic(broker.Addr(), topic, 1); err != nil {
				t.Fatal(err)
			}
			alternate(t, broker.Addr(), topic)
		})
	}
}

func alternate(t *testing.T, addr, topic string) {
	conn, err := net.DialTimeout("tcp", addr, callTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(clientMax)); err != nil {
		t.Fatal(err)
	}
	opaque := 0
	ask := func(encoding byte, code int, fields map[string]string, body []byte) header {
		t.Helper()
		opaque++
		frame, err := header{encoding: encoding, code: code, opaque: opaque, fields: fields, body: body}.frame()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		answer, err := readAnswer(conn)
		if err != nil {
			t.Fatalf("request %d in encoding %d: %v", code, encoding, err)
		}
		if answer.opaque != opaque || answer.flag&1 != 1 {
			t.Fatalf("request %d: answer with opaque %d, flag %d", code, answer.opaque, answer.flag)
		}
		if answer.encoding != encoding && !bed.apache {
			t.Errorf("request %d in encoding %d was answered in %d", code, encoding, answer.encoding)
		}
		if answer.code != 0 {
			t.Fatalf("request %d in encoding %d: code %d %s", code, encoding, answer.code, answer.remark)
		}
		return answer
	}
	pairs := []string{"KEYS\x01ключ 键", "名字\x01值 é \U0001F426", "json\x01{\"a\":\"\\\"}"}
	for round := range 8 {
		encoding := byte(round % 2)
		body := fmt.Appendf(nil, "body %d", round)
		answer := ask(encoding, requestSendMessageV2, map[string]string{"a": "G-alternate", "b": topic, "c": templateTopic, "d": "4", "e": "0", "f": "0",
			"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "i": pairs[0] + "\x02" + pairs[1] + "\x02" + pairs[2], "j": "0", "k": "false",
			"m": "false", "n": "", "an unknown key": "", "ключ": ""}, body)
		if answer.fields["queueOffset"] != strconv.Itoa(round) {
			t.Errorf("send %d: queue offset %q", round, answer.fields["queueOffset"])
		}
		// The queue entry follows the acknowledgement; a pull that may wait is answered once it is there. Read with the other encoding.
		answer = ask(1-encoding, requestPullMessage, map[string]string{"consumerGroup": "G-alternate-pull", "topic": topic, "queueId": "0",
			"queueOffset": strconv.Itoa(round), "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000",
			"subscription": "*", "subVersion": "0", "expressionType": "TAG", "bname": ""}, nil)
		if answer.fields["nextBeginOffset"] != strconv.Itoa(round+1) {
			t.Errorf("pull %d: next offset %q", round, answer.fields["nextBeginOffset"])
		}
		for _, part := range append([]string{string(body)}, pairs...) {
			if !bytes.Contains(answer.body, []byte(part)) {
				t.Errorf("message %d came back without %q", round, part)
			}
		}
	}
}
