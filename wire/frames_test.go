package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"peregrine/internal/message"
)

// capturedFrame is one line of a frames file: a frame that a real client or server sent.
type capturedFrame struct {
	Client        string
	Kind          string
	Code          int32
	RequestCode   RequestCode
	SerializeType string
	Header        struct {
		Code      int32
		Language  string
		Version   int32
		Opaque    int32
		Flag      int32
		Remark    *string // its first line, without blanks at the end
		ExtFields map[string]string
	}
	BodyLen      int
	BodyMessages int
	Hex          string

	where string
	raw   []byte
}

// capturedFrames reads the frames in testdata and, where the complete capture lies beside the checkout, that as well.
func capturedFrames(t testing.TB) []capturedFrame {
	t.Helper()
	var frames []capturedFrame
	for _, dir := range []string{filepath.Join("testdata", "frames"), filepath.Join("..", "..", "shared", "fixtures", "wire")} {
		files, err := filepath.Glob(filepath.Join(dir, "frames-*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				frame := capturedFrame{where: filepath.Base(name)}
				if err := json.Unmarshal(lines.Bytes(), &frame); err != nil {
					t.Fatal(err)
				}
				if frame.raw, err = hex.DecodeString(frame.Hex); err != nil {
					t.Fatal(err)
				}
				frames = append(frames, frame)
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	if len(frames) < 500 {
		t.Fatalf("only %d frames", len(frames))
	}
	return frames
}

// decodeWhole decodes a frame with its length field.
func decodeWhole(t testing.TB, d *Decoder, raw []byte, c *Command) {
	t.Helper()
	frame, size, err := SplitFrame(raw)
	if err != nil || size != len(raw) || frame == nil {
		t.Fatalf("SplitFrame: %d bytes of %d, %v", size, len(raw), err)
	}
	if err := d.Decode(frame, c); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
}

func extMap(c *Command) map[string]string {
	m := map[string]string{}
	for it := c.Ext(); ; {
		key, value, ok := it.Next()
		if !ok {
			return m
		}
		m[string(key)] = string(value)
	}
}

// TestCapturedHeadersDecode compares every header with what was recorded beside it.
func TestCapturedHeadersDecode(t *testing.T) {
	var d Decoder
	var c Command
	for _, f := range capturedFrames(t) {
		decodeWhole(t, &d, f.raw, &c)
		h := f.Header
		if c.Code != h.Code || c.Language.String() != h.Language || c.Version != h.Version || c.Opaque != h.Opaque || c.Flag != h.Flag {
			t.Fatalf("%s: decoded %+v, want %+v", f.where, c, h)
		}
		if (f.SerializeType == "JSON") != (c.Encoding == EncodingJSON) || len(c.Body) != f.BodyLen {
			t.Errorf("%s: encoding %v, body of %d bytes", f.where, c.Encoding, len(c.Body))
		}
		if c.IsResponse() != (f.Kind == "response") || c.IsOneway() != (f.Kind == "oneway") {
			t.Errorf("%s: response %v, oneway %v, want %s", f.where, c.IsResponse(), c.IsOneway(), f.Kind)
		}
		remark, _, _ := strings.Cut(string(c.Remark), "\n")
		remark = strings.TrimRight(remark, " ")
		if (h.Remark == nil) != (c.Remark == nil) || h.Remark != nil && remark != strings.TrimRight(*h.Remark, " ") {
			t.Errorf("%s: remark is %q", f.where, c.Remark)
		}
		if got := extMap(&c); !maps.Equal(got, h.ExtFields) || c.HasExt != (h.ExtFields != nil) {
			t.Errorf("%s: ext %v, want %v", f.where, got, h.ExtFields)
		}
		for name, want := range h.ExtFields {
			if got, ok := c.GetExt(name); !ok || string(got) != want {
				t.Errorf("%s: %s is %q, want %q", f.where, name, got, want)
			}
		}
	}
}

// TestCapturedFramesAreRewrittenByteForByte decodes and encodes. Go's client has its own order of keys: there the
// rewritten frame must mean the same.
func TestCapturedFramesAreRewrittenByteForByte(t *testing.T) {
	var d, d2 Decoder
	var c, c2 Command
	same := 0
	for _, f := range capturedFrames(t) {
		decodeWhole(t, &d, f.raw, &c)
		got := AppendCommand([]byte("before"), &c)[len("before"):]
		if bytes.Equal(got, f.raw) {
			same++
			continue
		}
		if c.Language != LanguageGo {
			t.Errorf("%s:\n got %q\nwant %q", f.where, got, f.raw)
			continue
		}
		decodeWhole(t, &d2, got, &c2)
		if !maps.Equal(extMap(&c), extMap(&c2)) || !bytes.Equal(c.Body, c2.Body) || c.Code != c2.Code || c.Opaque != c2.Opaque ||
			c.Flag != c2.Flag || c.Version != c2.Version || string(c.Remark) != string(c2.Remark) {
			t.Errorf("%s: %q became %q", f.where, f.raw, got)
		}
	}
	t.Logf("%d frames came out byte for byte", same)
}

// looseKeys are ext fields that any request may carry beside those of its header.
var looseKeys = []string{"ns", "nsd", "bname", "oway", "lo", "AccessKey", "Signature", "SecurityToken", "OnsChannel", "ReqT",
	"maxMsgBytes", "requestSource"}

func withoutLooseKeys(m map[string]string) map[string]string {
	m = maps.Clone(m)
	for _, key := range looseKeys {
		delete(m, key)
	}
	return m
}

// TestTypedHeadersKeepEveryField decodes the ext fields of each code we have a header for and writes them again.
func TestTypedHeadersKeepEveryField(t *testing.T) {
	var d, d2 Decoder
	var c, c2 Command
	seen := map[RequestCode]bool{}
	for _, f := range capturedFrames(t) {
		row, ok := FindCode(f.RequestCode)
		if !ok {
			continue
		}
		decodeWhole(t, &d, f.raw, &c)
		prototype := row.Header
		if f.Kind == "response" {
			prototype = row.Response
		}
		want := withoutLooseKeys(f.Header.ExtFields)
		if prototype == nil || f.Kind == "response" && len(want) == 0 {
			if len(want) != 0 {
				t.Errorf("%s: %s has no header for %v", f.where, row.Name, want)
			}
			continue
		}
		seen[f.RequestCode] = true
		var rewritten []byte
		switch prototype.(type) {
		case SendMessageHeader:
			var h SendMessageHeader
			if f.RequestCode == RequestSendMessage || f.RequestCode == RequestSendReplyMessage {
				checkV1(t, &h, &c, want)
				continue
			}
			if err := h.DecodeV2(&c); err != nil {
				t.Fatal(err)
			}
			rewritten = AppendSendRequestV2(nil, c.Encoding, c.Opaque, c.Flag, &h, c.Body)
			if f.RequestCode == RequestSendReplyMessageV2 {
				c.Code = int32(RequestSendMessageV2) // the same header; the writer is for sends
			}
		case PullMessageHeader:
			var h PullMessageHeader
			if err := h.Decode(&c); err != nil {
				t.Fatal(err)
			}
			rewritten = AppendPullRequest(nil, c.Encoding, f.RequestCode, c.Opaque, &h)
		default:
			h := reflect.New(reflect.TypeOf(prototype)).Interface()
			if err := DecodeHeader(&c, h); err != nil {
				t.Errorf("%s: %s: %v", f.where, row.Name, err)
				continue
			}
			if f.Kind == "response" {
				rewritten = AppendResponse(nil, c.Encoding, c.Opaque, ResponseCode(c.Code), string(c.Remark), h, c.Body)
			} else {
				rewritten = AppendRequest(nil, c.Encoding, RequestCode(c.Code), c.Opaque, c.Flag, c.Language, c.Version, h, c.Body)
			}
		}
		decodeWhole(t, &d2, rewritten, &c2)
		if got := withoutLooseKeys(extMap(&c2)); !maps.Equal(got, want) && !onlyDefaultsAdded(got, want) {
			t.Errorf("%s: %s: %v became %v", f.where, row.Name, want, got)
		}
		if c2.Code != c.Code || c2.Opaque != c.Opaque || c2.Flag != c.Flag || !bytes.Equal(c2.Body, c.Body) {
			t.Errorf("%s: %s: %+v became %+v", f.where, row.Name, c, c2)
		}
	}
	if len(seen) < 25 {
		t.Errorf("only %d codes were seen", len(seen))
	}
}

// onlyDefaultsAdded allows what an absent optional field means, and the empty group of UNREGISTER_CLIENT to vanish.
func onlyDefaultsAdded(got, want map[string]string) bool {
	for key, value := range got {
		if original, ok := want[key]; ok && original != value || !ok && value != "false" && value != "0" {
			return false
		}
	}
	for key, value := range want {
		if _, ok := got[key]; !ok && value != "" {
			return false
		}
	}
	return true
}

// checkV1 compares a V1 header, for which there is no encoder, field by field.
func checkV1(t *testing.T, h *SendMessageHeader, c *Command, want map[string]string) {
	t.Helper()
	if err := h.DecodeV1(c); err != nil {
		t.Fatal(err)
	}
	// The V2 letters of the same fields, decoded by the V2 decoder, must give the same header.
	letters := map[string]string{"producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
		"sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
		"maxReconsumeTimes": "l", "batch": "m", "bname": "n"}
	var v2 Command
	for key, value := range want {
		if letters[key] == "" {
			t.Errorf("unknown V1 field %s", key)
		}
		v2.ext.table = append(v2.ext.table, extEntry{[]byte(letters[key]), []byte(value)})
	}
	var h2 SendMessageHeader
	if err := h2.DecodeV2(&v2); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*h, h2) {
		t.Errorf("V1 gives %+v, V2 %+v", *h, h2)
	}
}

// TestRecordsInBodiesAreRewrittenByteForByte walks the stored messages in answers and the elements of batches.
func TestRecordsInBodiesAreRewrittenByteForByte(t *testing.T) {
	var d Decoder
	var c Command
	records, elements := 0, 0
	for _, f := range capturedFrames(t) {
		decodeWhole(t, &d, f.raw, &c)
		if f.Kind != "response" && f.RequestCode == RequestSendBatchMessage {
			var e message.BatchElement
			var again []byte
			it := message.Batch(c.Body)
			for it.Next(&e) {
				elements++
				again = message.AppendBatchElement(again, e.Flag, e.Body, e.Properties)
			}
			if it.Err() != nil || !bytes.Equal(again, c.Body) {
				t.Errorf("%s: batch %x became %x, %v", f.where, c.Body, again, it.Err())
			}
		}
		if f.BodyMessages == 0 {
			continue
		}
		rest, n := c.Body, 0
		for ; len(rest) > 0; n++ {
			var v message.View
			if err := message.ParseView(rest, &v); err != nil {
				t.Fatalf("%s: %v in %x", f.where, err, rest)
			}
			if !v.CheckCRC() {
				t.Errorf("%s: CRC of %+v", f.where, v)
			}
			again := make([]byte, v.Size)
			if got := recordOf(&v).EncodeTo(again); got != int(v.Size) || !bytes.Equal(again, rest[:v.Size]) {
				t.Errorf("%s: %x became %x", f.where, rest[:v.Size], again)
			}
			rest = rest[v.Size:]
			records++
		}
		if n != f.BodyMessages {
			t.Errorf("%s: %d records, want %d", f.where, n, f.BodyMessages)
		}
	}
	if records < 50 || elements < 10 {
		t.Errorf("only %d records, %d batch elements", records, elements)
	}
}

// recordOf is the Record that encodes to what v was read from.
func recordOf(v *message.View) *message.Record {
	return &message.Record{
		Topic: v.Topic, Body: v.Body, Properties: v.Properties, BodyCRC: v.BodyCRC, QueueID: v.QueueID, Flag: v.Flag,
		SysFlag: v.SysFlag, ReconsumeTimes: v.ReconsumeTimes, QueueOffset: v.QueueOffset, PhyOffset: v.PhyOffset,
		BornTimestamp: v.BornTimestamp, StoreTimestamp: v.StoreTimestamp, BornHost: v.BornHost, StoreHost: v.StoreHost,
		PreparedTransactionOffset: v.PreparedTransactionOffset,
	}
}

// TestFrameEncodeVectors encodes the commands that RemotingCommand.encode of 5.5.0 encoded.
func TestFrameEncodeVectors(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", "frame-encode.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Entries []struct {
			SerializeType string
			Code          int32
			Opaque        int32
			Version       int32
			Remark        *string
			ExtFields     map[string]string
			Body          *string
			Frame         string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for i, e := range file.Entries {
		c := Command{Code: e.Code, Opaque: e.Opaque, Version: e.Version, HasExt: true}
		if e.SerializeType == "ROCKETMQ" {
			c.Encoding = EncodingBinary
		}
		if e.Remark != nil {
			c.Remark = []byte(*e.Remark)
		}
		for key, value := range e.ExtFields {
			c.ext.table = append(c.ext.table, extEntry{[]byte(key), []byte(value)})
		}
		if e.Body != nil {
			c.Body = []byte(*e.Body)
		}
		if got := hex.EncodeToString(AppendCommand(nil, &c)); got != e.Frame {
			t.Errorf("entry %d:\n got %s\nwant %s", i, got, e.Frame)
		}
	}
}

func TestFrameLengthLimits(t *testing.T) {
	for prefix, ok := range map[int32]bool{-1: false, 0: false, 3: false, 4: true, 16777212: true, 16777213: false, 0x16030100: false} {
		if n, err := FrameLength(prefix); (err == nil) != ok || ok && n != int(prefix) {
			t.Errorf("%d: %d, %v", prefix, n, err)
		}
	}
	var d Decoder
	var c Command
	for _, bad := range []string{"00000001", "00FFFFFF", "0000000200", "0200000000", "000000", "01000014" + strings.Repeat("00", 20)} {
		frame, _ := hex.DecodeString(bad)
		if err := d.Decode(frame, &c); err == nil {
			t.Errorf("%s was decoded to %+v", bad, c)
		}
	}
	whole := AppendRequest(nil, EncodingBinary, RequestGetBrokerClusterInfo, 1, 0, LanguageJava, Version, nil, nil)
	for n := range whole {
		frame, size, err := SplitFrame(whole[:n])
		if frame != nil || err != nil || size != 4 && size != int(binary.BigEndian.Uint32(whole))+4 {
			t.Errorf("%d bytes: frame %x of %d, %v", n, frame, size, err)
		}
	}
}
