package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strconv"
	"testing"
	"unicode/utf8"
)

// addFrameSeeds gives the headers of recorded frames in one encoding, or whole frames, to a fuzz target.
func addFrameSeeds(f *testing.F, enc Encoding, add func(frame []byte)) {
	f.Helper()
	seen := map[int32]int{}
	for _, frame := range capturedFrames(f) {
		if (frame.SerializeType == "JSON") == (enc == EncodingJSON) && seen[frame.Code] < 2 && len(frame.raw) < 4096 {
			seen[frame.Code]++
			add(frame.raw[4:])
		}
	}
}

// wantJSON is a JSON header as encoding/json sees it; ok is false when it cannot be a header of ours.
func wantJSON(header []byte) (numbers map[string]string, remark *string, ext map[string]string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(header))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, nil, nil, false
	}
	numbers = map[string]string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, nil, false
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil, nil, nil, false
		}
		switch key {
		case "code", "flag", "opaque", "version":
			numbers[key.(string)] = plainText(raw)
		case "remark":
			remark = nil
			if string(raw) != "null" {
				text := plainText(raw)
				remark = &text
			}
		case "extFields":
			ext = nil
			if string(raw) == "null" {
				continue
			}
			if raw[0] != '{' {
				return nil, nil, nil, false
			}
			var fields map[string]json.RawMessage
			if json.Unmarshal(raw, &fields) != nil {
				return nil, nil, nil, false
			}
			ext = map[string]string{}
			for name, value := range fields {
				ext[name] = plainText(value)
			}
		}
	}
	return numbers, remark, ext, true
}

func plainText(raw json.RawMessage) string {
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// FuzzFrameJSON compares with encoding/json: what that accepts we accept, with the same meaning.
func FuzzFrameJSON(f *testing.F) {
	addFrameSeeds(f, EncodingJSON, func(frame []byte) {
		n := int(binary.BigEndian.Uint32(frame) & 0x00FFFFFF)
		f.Add(frame[4 : 4+n])
	})
	f.Add([]byte(`{"opaque":"1","extFields":{"a":null,"b":1,"c":true,"d":[{}],"e":"\ud83d\ude00\ud83d\u0001"},"x":{"y":[]}}`))
	var d Decoder
	var c Command
	f.Fuzz(func(t *testing.T, header []byte) {
		err := d.Decode(jsonFrame(string(header)), &c)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
		if !json.Valid(header) || !utf8.Valid(header) {
			return
		}
		numbers, remark, ext, ok := wantJSON(header)
		if !ok {
			return
		}
		if err != nil {
			if err == ErrHeaderJSON {
				t.Fatalf("%s: %v", header, err)
			}
			return // a number out of range, a limit
		}
		for name, got := range map[string]int32{"code": c.Code, "flag": c.Flag, "opaque": c.Opaque, "version": c.Version} {
			text, there := numbers[name]
			want, err := strconv.ParseInt(text, 10, 32)
			if there && text != "null" && (err != nil || int32(want) != got) || (!there || text == "null") && got != 0 {
				t.Fatalf("%s: %s is %d", header, name, got)
			}
		}
		if (remark == nil) != (c.Remark == nil) || remark != nil && *remark != string(c.Remark) {
			t.Fatalf("%s: remark %q", header, c.Remark)
		}
		got := extMap(&c)
		for name, value := range ext { // null values are absent, unless an earlier duplicate was not
			if value == "null" {
				delete(got, name)
				delete(ext, name)
			}
		}
		if !maps.Equal(got, ext) || c.HasExt != (ext != nil) {
			t.Fatalf("%s: ext %v, want %v", header, got, ext)
		}
		checkRewritten(t, &c)
	})
}

// checkRewritten encodes c and decodes that again.
func checkRewritten(t *testing.T, c *Command) {
	t.Helper()
	var d2 Decoder
	var c2 Command
	frame := AppendCommand(nil, c)
	decodeWhole(t, &d2, frame, &c2)
	language := c.Language
	if c.Encoding == EncodingJSON && int(language) >= len(languageNames) {
		language = LanguageUnknown
	}
	if c2.Code != c.Code || c2.Language != language || c2.Version != c.Version || c2.Opaque != c.Opaque || c2.Flag != c.Flag ||
		string(c2.Remark) != string(c.Remark) || !maps.Equal(extMap(&c2), extMap(c)) || !bytes.Equal(c2.Body, c.Body) {
		t.Fatalf("%+v became %+v", *c, c2)
	}
}

func FuzzFrameBinary(f *testing.F) {
	addFrameSeeds(f, EncodingBinary, func(frame []byte) { f.Add(frame) })
	var d Decoder
	var c Command
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 4 {
			frame[0] = byte(EncodingBinary)
		}
		if err := d.Decode(frame, &c); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		checkRewritten(t, &c)
	})
}

// FuzzSplitFrame walks a stream as a connection does.
func FuzzSplitFrame(f *testing.F) {
	for _, enc := range bothEncodings {
		addFrameSeeds(f, enc, func(frame []byte) {
			f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		})
	}
	f.Add([]byte("\x16\x03\x01\x02\x00TLS"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	var d Decoder
	var c Command
	f.Fuzz(func(t *testing.T, stream []byte) {
		for {
			frame, size, err := SplitFrame(stream)
			if err != nil || frame == nil {
				if err == nil && size <= len(stream) {
					t.Fatalf("%d bytes are there, %d are wanted", len(stream), size)
				}
				return
			}
			if d.Decode(frame, &c) != nil {
				return
			}
			stream = stream[size:]
		}
	})
}

// The same fields as in SendMessageHeader and PullMessageHeader for the generic decoder, to compare the hot ones with.
type coldSend struct {
	ProducerGroup         string  `wire:"a,required"`
	Topic                 string  `wire:"b,required"`
	DefaultTopic          string  `wire:"c,required"`
	DefaultTopicQueueNums int32   `wire:"d,required"`
	QueueID               int32   `wire:"e,required"`
	SysFlag               int32   `wire:"f,required"`
	BornTimestamp         int64   `wire:"g,required"`
	Flag                  int32   `wire:"h,required"`
	Properties            *string `wire:"i"`
	ReconsumeTimes        int32   `wire:"j"`
	UnitMode              bool    `wire:"k"`
	MaxReconsumeTimes     *int32  `wire:"l"`
	Batch                 bool    `wire:"m"`
	BrokerName            *string `wire:"n"`
}

type coldPull struct {
	ConsumerGroup        string  `wire:"consumerGroup,required"`
	Topic                string  `wire:"topic,required"`
	QueueID              int32   `wire:"queueId,required"`
	QueueOffset          int64   `wire:"queueOffset,required"`
	MaxMsgNums           int32   `wire:"maxMsgNums,required"`
	SysFlag              int32   `wire:"sysFlag,required"`
	CommitOffset         int64   `wire:"commitOffset,required"`
	SuspendTimeoutMillis int64   `wire:"suspendTimeoutMillis,required"`
	Subscription         *string `wire:"subscription"`
	SubVersion           int64   `wire:"subVersion,required"`
	ExpressionType       *string `wire:"expressionType"`
	BrokerName           *string `wire:"bname"`
	MaxMsgBytes          int32   `wire:"maxMsgBytes"`
	RequestSource        int32   `wire:"requestSource"`
}

// commandOf makes a Command of fuzzed bytes: entries of a binary ext map. Duplicates go, because the hot decoders stop at
// a wrong duplicate and the generic one only looks at the last.
func commandOf(t *testing.T, code RequestCode, ext []byte) (*Command, bool) {
	frame := binary.BigEndian.AppendUint32(nil, 1<<24|uint32(binaryHeaderFixedLength+len(ext)))
	frame = binary.BigEndian.AppendUint16(frame, uint16(code))
	frame = append(frame, make([]byte, 15)...)
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(ext))), ext...)
	var d Decoder
	c := &Command{}
	if d.Decode(frame, c) != nil {
		return nil, false
	}
	kept := map[string]bool{}
	for it := c.Ext(); ; {
		key, _, more := it.Next()
		if !more {
			return c, true
		}
		if kept[string(key)] {
			return nil, false
		}
		kept[string(key)] = true
	}
}

func extOf(frame []byte) []byte { return frame[8+binaryHeaderFixedLength:] }

func sameText(a []byte, b *string) bool {
	return (a == nil) == (b == nil) && (b == nil || string(a) == *b)
}

func FuzzSendHeaderV2(f *testing.F) {
	f.Add(extOf(AppendSendRequestV2(nil, EncodingBinary, 1, 0, sampleSend(), nil)))
	all := sampleSend()
	all.HasMaxReconsumeTimes, all.MaxReconsumeTimes, all.Batch, all.UnitMode, all.ReconsumeTimes = true, -3, true, true, 7
	f.Add(extOf(AppendSendRequestV2(nil, EncodingBinary, 1, 0, all, nil)))
	f.Fuzz(func(t *testing.T, ext []byte) {
		c, ok := commandOf(t, 0, ext)
		if !ok {
			return
		}
		var hot SendMessageHeader
		var cold coldSend
		hotErr, coldErr := hot.DecodeV2(c), DecodeHeader(c, &cold)
		// With the code of a send the decoder may read the letters itself: the same has to come out.
		once, ok := commandOf(t, RequestSendMessageV2, ext)
		if !ok || !maps.Equal(extMap(once), extMap(c)) || once.ExtLen() != c.ExtLen() {
			t.Fatalf("as a send %v, ext %v instead of %v", ok, extMap(once), extMap(c))
		}
		var direct SendMessageHeader
		directErr := direct.DecodeV2(once)
		if (directErr == nil) != (hotErr == nil) || hotErr == nil && !reflect.DeepEqual(direct, hot) || hotErr != nil && directErr.Error() != hotErr.Error() {
			t.Fatalf("in one pass %+v %v, in two %+v %v", direct, directErr, hot, hotErr)
		}
		if header := once.Send(); header != nil && !reflect.DeepEqual(*header, hot) {
			t.Fatalf("the decoder's header %+v, in two passes %+v", *header, hot)
		}
		if (hotErr == nil) != (coldErr == nil) {
			t.Fatalf("%v: hot %v, generic %v", extMap(c), hotErr, coldErr)
		}
		if hotErr != nil {
			return
		}
		if string(hot.ProducerGroup) != cold.ProducerGroup || string(hot.Topic) != cold.Topic || string(hot.DefaultTopic) != cold.DefaultTopic ||
			hot.DefaultTopicQueueNums != cold.DefaultTopicQueueNums || hot.QueueID != cold.QueueID || hot.SysFlag != cold.SysFlag ||
			hot.BornTimestamp != cold.BornTimestamp || hot.Flag != cold.Flag || !sameText(hot.Properties, cold.Properties) ||
			hot.ReconsumeTimes != cold.ReconsumeTimes || hot.UnitMode != cold.UnitMode || hot.Batch != cold.Batch ||
			hot.HasMaxReconsumeTimes != (cold.MaxReconsumeTimes != nil) || !sameText(hot.BrokerName, cold.BrokerName) ||
			cold.MaxReconsumeTimes != nil && *cold.MaxReconsumeTimes != hot.MaxReconsumeTimes {
			t.Fatalf("hot %+v, generic %+v", hot, cold)
		}
	})
}

func FuzzSendHeaderV1(f *testing.F) {
	f.Add(extOf(sampleV1(EncodingBinary))[:len(extOf(sampleV1(EncodingBinary)))-128])
	f.Fuzz(func(t *testing.T, ext []byte) {
		c, ok := commandOf(t, 0, ext)
		if !ok {
			return
		}
		var v1, v2 SendMessageHeader
		err := v1.DecodeV1(c)
		// The same fields under their letters must decode alike.
		letters := map[string]string{"producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
			"sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
			"maxReconsumeTimes": "l", "batch": "m", "bname": "n"}
		c2 := &Command{}
		for it := c.Ext(); ; {
			key, value, more := it.Next()
			if !more {
				break
			}
			if letter, ok := letters[string(key)]; ok {
				c2.ext.table = append(c2.ext.table, extEntry{[]byte(letter), value})
			}
		}
		if err2 := v2.DecodeV2(c2); (err == nil) != (err2 == nil) || err == nil && !reflect.DeepEqual(v1, v2) {
			t.Fatalf("V1 %+v %v, V2 %+v %v", v1, err, v2, err2)
		}
	})
}

func FuzzPullHeader(f *testing.F) {
	f.Add(extOf(AppendPullRequest(nil, EncodingBinary, RequestPullMessage, 1, samplePull())))
	f.Fuzz(func(t *testing.T, ext []byte) {
		c, ok := commandOf(t, 0, ext)
		if !ok {
			return
		}
		var hot PullMessageHeader
		cold := coldPull{RequestSource: -1}
		hotErr, coldErr := hot.Decode(c), DecodeHeader(c, &cold)
		if (hotErr == nil) != (coldErr == nil) {
			t.Fatalf("%v: hot %v, generic %v", extMap(c), hotErr, coldErr)
		}
		if hotErr != nil {
			return
		}
		if string(hot.ConsumerGroup) != cold.ConsumerGroup || string(hot.Topic) != cold.Topic || hot.QueueID != cold.QueueID ||
			hot.QueueOffset != cold.QueueOffset || hot.MaxMsgNums != cold.MaxMsgNums || hot.SysFlag != cold.SysFlag ||
			hot.CommitOffset != cold.CommitOffset || hot.SuspendTimeoutMillis != cold.SuspendTimeoutMillis ||
			!sameText(hot.Subscription, cold.Subscription) || hot.SubVersion != cold.SubVersion || !sameText(hot.ExpressionType, cold.ExpressionType) ||
			!sameText(hot.BrokerName, cold.BrokerName) || hot.MaxMsgBytes != cold.MaxMsgBytes || hot.RequestSource != cold.RequestSource {
			t.Fatalf("hot %+v, generic %+v", hot, cold)
		}
	})
}

// FuzzPullResponse feeds what bench reads.
func FuzzPullResponse(f *testing.F) {
	f.Add(extOf(AppendPullResponse(nil, EncodingBinary, 1, ResponseSuccess, "", &PullMessageResponse{NextBeginOffset: 1, MaxOffset: 2}, 0)))
	f.Fuzz(func(t *testing.T, ext []byte) {
		c, ok := commandOf(t, 0, ext)
		if !ok {
			return
		}
		var r, again PullMessageResponse
		if r.Decode(c) != nil {
			return
		}
		r.ForbiddenType = 0 // not written with this code
		if err := again.Decode(mustDecode(t, AppendPullResponse(nil, EncodingJSON, 1, ResponseSuccess, "", &r, 0))); err != nil || again != r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzDecodeHeader runs the generic decoder with every header of the table.
func FuzzDecodeHeader(f *testing.F) {
	for _, frame := range capturedFrames(f) {
		if frame.SerializeType != "JSON" && frame.Header.ExtFields != nil {
			c := mustDecode(f, frame.raw)
			c.Body, c.Remark = nil, nil
			f.Add(extOf(AppendCommand(nil, c)), int32(frame.RequestCode), frame.Kind == "response")
		}
	}
	f.Fuzz(func(t *testing.T, ext []byte, code int32, response bool) {
		row, ok := FindCode(RequestCode(code))
		if !ok {
			row = supportedCodes[uint32(code)%uint32(len(supportedCodes))]
		}
		prototype := row.Header
		if response {
			prototype = row.Response
		}
		switch prototype.(type) {
		case nil, SendMessageHeader, PullMessageHeader:
			return
		}
		c, ok := commandOf(t, 0, ext)
		if !ok {
			return
		}
		first, second := reflect.New(reflect.TypeOf(prototype)).Interface(), reflect.New(reflect.TypeOf(prototype)).Interface()
		if err := DecodeHeader(c, first); err != nil {
			var h *HeaderError
			if !errors.As(err, &h) || h.Field == "" {
				t.Fatal(err)
			}
			return
		}
		for _, enc := range bothEncodings {
			if err := DecodeHeader(mustDecode(t, AppendRequest(nil, enc, row.Code, 1, 0, LanguageJava, Version, first, nil)), second); err != nil || !reflect.DeepEqual(first, second) {
				t.Fatalf("%+v became %+v, %v", first, second, err)
			}
		}
	})
}
