package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// jsonFrame puts a header text into a frame without its length field.
func jsonFrame(header string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(header)))
	return append(frame, header...)
}

func TestJSONHeadersAreReadTolerantly(t *testing.T) {
	for _, c := range []struct {
		name, header string
		want         Command
		ext          map[string]string
	}{
		{"numbers as texts", `{"code":"105","flag":"2","opaque":"-7","version":"401"}`,
			Command{Code: 105, Flag: 2, Opaque: -7, Version: 401}, nil},
		{"white space, any order, unknown keys", " {\n\t\"opaque\" : 3 , \"unknown\":{\"a\":[1,{\"b\":\"}\"}]} ,\"code\":1 } ",
			Command{Code: 1, Opaque: 3}, nil},
		{"languages", `{"opaque":1,"language":"NODE_JS"}`, Command{Opaque: 1, Language: LanguageNodeJS}, nil},
		{"unknown language", `{"opaque":1,"language":"COBOL"}`, Command{Opaque: 1, Language: LanguageUnknown}, nil},
		{"language as number", `{"opaque":1,"language":9}`, Command{Opaque: 1, Language: LanguageGo}, nil},
		{"language as wrong number", `{"opaque":1,"language":99}`, Command{Opaque: 1, Language: LanguageUnknown}, nil},
		{"nulls", `{"opaque":1,"remark":null,"extFields":null,"code":null,"language":null}`, Command{Opaque: 1, Language: LanguageUnknown}, nil},
		{"ext values of the C++ and ali-ons clients", `{"opaque":1,"extFields":{"a":4,"b":true,"c":null,"d":-1.5,"e":"x","f":{"g":"]"},"h":false}}`,
			Command{Opaque: 1, HasExt: true}, map[string]string{"a": "4", "b": "true", "d": "-1.5", "e": "x", "f": `{"g":"]"}`, "h": "false"}},
		{"duplicate keys", `{"opaque":1,"opaque":2,"extFields":{"a":"1"},"extFields":{"b":"1","b":"2"}}`,
			Command{Opaque: 2, HasExt: true}, map[string]string{"b": "2"}},
		{"escapes", `{"opaque":1,"remark":"\"\\\/\b\f\n\r\t\u0001\u00e9\u8ba2\ud83d\ude00","extFields":{"\u006bey":"v\u0002"}}`,
			Command{Opaque: 1, HasExt: true, Remark: []byte("\"\\/\b\f\n\r\t\x01é订😀")}, map[string]string{"key": "v\x02"}},
		{"lone surrogates", `{"opaque":1,"remark":"\ud83d \ude00 \ud83d\u0041 \ud83d"}`,
			Command{Opaque: 1, Remark: []byte("\uFFFD \uFFFD \uFFFDA \uFFFD")}, nil},
		{"raw UTF-8 and invalid UTF-8 pass through", "{\"opaque\":1,\"remark\":\"订\xff\"}", Command{Opaque: 1, Remark: []byte("订\xff")}, nil},
		{"serialize type is ignored", `{"opaque":1,"serializeTypeCurrentRPC":{"odd":1}}`, Command{Opaque: 1}, nil},
		{"empty ext", `{"opaque":1,"extFields":{}}`, Command{Opaque: 1, HasExt: true}, nil},
	} {
		var d Decoder
		var got Command
		if err := d.Decode(jsonFrame(c.header), &got); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		w := c.want
		if got.Code != w.Code || got.Flag != w.Flag || got.Opaque != w.Opaque || got.Version != w.Version || got.Language != w.Language ||
			string(got.Remark) != string(w.Remark) || (got.Remark == nil) != (w.Remark == nil) || got.HasExt != w.HasExt {
			t.Errorf("%s: %+v, want %+v", c.name, got, w)
		}
		if ext := extMap(&got); !maps.Equal(ext, c.ext) {
			t.Errorf("%s: ext %v, want %v", c.name, ext, c.ext)
		}
	}
}

func TestBrokenJSONHeadersAreErrors(t *testing.T) {
	deep := strings.Repeat("[", JSONDepthMax+1) + strings.Repeat("]", JSONDepthMax+1)
	var many []string
	for i := range ExtEntriesMax + 1 {
		many = append(many, fmt.Sprintf(`"%d":""`, i))
	}
	for _, c := range []struct {
		header string
		want   error
	}{
		{``, ErrHeaderJSON}, {`{`, ErrHeaderJSON}, {`{}`, ErrMissingOpaque}, {`null`, ErrHeaderJSON}, {`[]`, ErrHeaderJSON},
		{`{"opaque":1`, ErrHeaderJSON}, {`{"opaque":1}x`, ErrHeaderJSON}, {`{"opaque":1,}`, ErrHeaderJSON}, {`{"opaque" 1}`, ErrHeaderJSON},
		{`{opaque:1}`, ErrHeaderJSON}, {`{'opaque':1}`, ErrHeaderJSON}, {`{"opaque":}`, ErrHeaderJSON}, {`{"opaque":1.5}`, ErrHeaderNumber},
		{`{"opaque":2147483648}`, ErrHeaderNumber}, {`{"opaque":"x"}`, ErrHeaderNumber}, {`{"opaque":true}`, ErrHeaderNumber},
		{`{"opaque":1,"remark":"`, ErrHeaderJSON}, {`{"opaque":1,"remark":"\`, ErrHeaderJSON}, {`{"opaque":1,"remark":"\x"}`, ErrHeaderJSON},
		{`{"opaque":1,"remark":"\u12"}`, ErrHeaderJSON}, {`{"opaque":1,"remark":"\u12g4"}`, ErrHeaderJSON},
		{`{"opaque":1,"extFields":[]}`, ErrHeaderJSON}, {`{"opaque":1,"extFields":"x"}`, ErrHeaderJSON}, {`{"opaque":1,"extFields":{"a"}}`, ErrHeaderJSON},
		{`{"opaque":1,"x":{]}`, ErrHeaderJSON}, {`{"opaque":1,"x":[}]}`, ErrHeaderJSON}, {`{"opaque":1,"x":nul}`, ErrHeaderJSON},
		{`{"opaque":1,"x":` + deep + `}`, ErrDepth}, {`{"opaque":1,"extFields":{"x":` + deep + `}}`, ErrDepth},
		{`{"opaque":1,"extFields":{` + strings.Join(many, ",") + `}}`, ErrTooManyExt},
		{"{\"opaque\":1,\"x\":\x00}", ErrHeaderJSON},
	} {
		var d Decoder
		var got Command
		if err := d.Decode(jsonFrame(c.header), &got); err != c.want || !errors.Is(err, ErrMalformed) {
			t.Errorf("%.80s: %v, want %v", c.header, err, c.want)
		}
	}
}

func TestBinaryHeaderLengthsAreChecked(t *testing.T) {
	whole := AppendSendRequestV2(nil, EncodingBinary, 7, 0, sampleSend(), nil)[4:]
	var d Decoder
	var c Command
	for n := 4; n < len(whole); n++ { // every cut, with a header length that fits
		cut := slices.Clone(whole[:n])
		binary.BigEndian.PutUint32(cut, 1<<24|uint32(n-4))
		if err := d.Decode(cut, &c); err == nil {
			t.Fatalf("cut to %d bytes: no error", n)
		}
	}
	for _, at := range []int{17, 21, 25, 28} { // remark, ext, key and value length
		for _, value := range []uint32{0x7FFFFFFF, 0x80000000, 0xFFFFFFFF} {
			bad := slices.Clone(whole)
			if at == 25 {
				binary.BigEndian.PutUint16(bad[at:], uint16(value>>16))
			} else {
				binary.BigEndian.PutUint32(bad[at:], value)
			}
			if err := d.Decode(bad, &c); err != ErrHeaderBinary {
				t.Errorf("%#x at %d: %v", value, at, err)
			}
		}
	}
}

// TestPopCodesAreCutByBinaryHeaders is what 5.5.0 does, too: code 200050 arrives as 3442.
func TestPopCodesAreCutByBinaryHeaders(t *testing.T) {
	var d Decoder
	var c Command
	decodeWhole(t, &d, AppendRequest(nil, EncodingBinary, RequestPopMessage, 1, 0, LanguageJava, Version, nil, nil), &c)
	if c.Code != 3442 {
		t.Errorf("code %d", c.Code)
	}
}

func TestScratchShrinksAgain(t *testing.T) {
	var d Decoder
	var c Command
	big := jsonFrame(`{"opaque":1,"remark":"` + strings.Repeat(`\n`, scratchKeepBytes) + `"}`)
	small := jsonFrame(`{"opaque":1,"remark":"\n"}`)
	for _, next := range [][]byte{small, jsonFrame(`{"opaque":1}`)} {
		if err := d.Decode(big, &c); err != nil || cap(d.scratch) <= scratchKeepBytes || len(c.Remark) != scratchKeepBytes {
			t.Fatalf("%v, scratch of %d bytes", err, cap(d.scratch))
		}
		if err := d.Decode(next, &c); err != nil || cap(d.scratch) > scratchKeepBytes {
			t.Errorf("%v, scratch of %d bytes", err, cap(d.scratch))
		}
	}
}

func TestMissingAndWrongFieldsAreNamed(t *testing.T) {
	frame := func(ext map[string]string) *Command {
		c := &Command{}
		for k, v := range ext {
			c.ext.table = append(c.ext.table, extEntry{[]byte(k), []byte(v)})
		}
		return c
	}
	v2 := map[string]string{"a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
	names := map[string]string{"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
		"f": "sysFlag", "g": "bornTimestamp", "h": "flag", "j": "reconsumeTimes", "l": "maxReconsumeTimes"}
	var send SendMessageHeader
	check := func(what string, err error, field string) {
		t.Helper()
		var h *HeaderError
		if !errors.As(err, &h) || h.Field != field || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error about %s", what, err, field)
		}
	}
	for letter, name := range names {
		without, wrong := maps.Clone(v2), maps.Clone(v2)
		delete(without, letter)
		wrong[letter] = "1x"
		if _, required := v2[letter]; required {
			check("V2 without "+letter, send.DecodeV2(frame(without)), name)
			v1 := map[string]string{}
			for k, v := range without {
				v1[names[k]] = v
			}
			check("V1 without "+name, send.DecodeV1(frame(v1)), name)
		}
		if letter > "c" {
			check("V2 with wrong "+letter, send.DecodeV2(frame(wrong)), name)
			v1 := map[string]string{}
			for k, v := range wrong {
				v1[names[k]] = v
			}
			check("V1 with wrong "+name, send.DecodeV1(frame(v1)), name)
		}
	}
	pull := extMap(mustDecode(t, AppendPullRequest(nil, EncodingJSON, RequestPullMessage, 1, samplePull())))
	var h PullMessageHeader
	for _, name := range pullFieldNames {
		without := maps.Clone(pull)
		delete(without, name)
		check("pull without "+name, h.Decode(frame(without)), name)
		if name != "consumerGroup" && name != "topic" {
			without[name] = "99999999999999999999"
			check("pull with wrong "+name, h.Decode(frame(without)), name)
		}
	}
	var cold UpdateConsumerOffsetRequestHeader
	check("cold", DecodeHeader(frame(map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "0"}), &cold), "commitOffset")
	check("cold", DecodeHeader(frame(map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "4294967296", "commitOffset": "1"}), &cold), "queueId")
	check("cold", DecodeHeader(frame(map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": ""}), &cold), "commitOffset")
}

func mustDecode(t testing.TB, frame []byte) *Command {
	t.Helper()
	var d Decoder
	c := &Command{}
	decodeWhole(t, &d, frame, c)
	return c
}

func TestBooleansAreReadInEverySpelling(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "TRUE": true, "True": true, "1": true, "false": false, "0": false, "FALSE": false, "": false, "yes": false} {
		var h DeleteSubscriptionGroupRequestHeader
		c := Command{ext: ExtIter{table: []extEntry{{[]byte("groupName"), []byte("g")}, {[]byte("cleanOffset"), []byte(text)}}}}
		if err := DecodeHeader(&c, &h); err != nil || h.CleanOffset != want {
			t.Errorf("%q: %v, %v", text, h.CleanOffset, err)
		}
	}
}

func TestOptionalFieldsStayNilWhenAbsent(t *testing.T) {
	ext := []extEntry{{[]byte("consumerGroup"), []byte("g")}, {[]byte("topic"), []byte("t")}, {[]byte("queueId"), []byte("3")}}
	var h QueryConsumerOffsetRequestHeader
	if err := DecodeHeader(&Command{ext: ExtIter{table: ext}}, &h); err != nil || h.SetZeroIfNotFound != nil || h.QueueID != 3 {
		t.Errorf("%+v, %v", h, err)
	}
	ext = append(ext, extEntry{[]byte("setZeroIfNotFound"), []byte("false")})
	if err := DecodeHeader(&Command{ext: ExtIter{table: ext}}, &h); err != nil || h.SetZeroIfNotFound == nil || *h.SetZeroIfNotFound {
		t.Errorf("%+v, %v", h, err)
	}
	for _, enc := range bothEncodings {
		c := mustDecode(t, AppendRequest(nil, enc, RequestQueryConsumerOffset, 1, 0, LanguageJava, Version,
			&QueryConsumerOffsetRequestHeader{ConsumerGroup: "g", Topic: "t"}, nil))
		if got := extMap(c); !maps.Equal(got, map[string]string{"consumerGroup": "g", "topic": "t", "queueId": "0"}) {
			t.Errorf("%v", got)
		}
	}
}

func TestNumbersHaveJavasRange(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-0": 0, "+5": 5, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "0000000000000000000000001": 1} {
		if n, ok := parseInt64([]byte(text)); !ok || n != want {
			t.Errorf("%s: %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "-", "+", "9223372036854775808", "-9223372036854775809", "99999999999999999999999", "1 ", " 1", "1.0", "0x1", "1_0"} {
		if n, ok := parseInt64([]byte(text)); ok {
			t.Errorf("%q is %d", text, n)
		}
	}
}

func TestSupportedCodesAreSortedAndComplete(t *testing.T) {
	rows := SupportedCodes()
	if !slices.IsSortedFunc(rows, func(a, b SupportedCode) int { return int(a.Code) - int(b.Code) }) {
		t.Error("not sorted")
	}
	for i, row := range rows {
		if i > 0 && rows[i-1].Code == row.Code {
			t.Errorf("%d is there twice", row.Code)
		}
		if found, ok := FindCode(row.Code); !ok || found.Name != row.Name || row.Role < RoleBroker || row.Role > RoleClient {
			t.Errorf("%d: %+v", row.Code, found)
		}
	}
	for _, code := range []RequestCode{RequestPopMessage, RequestRecallMessage} {
		if row, ok := FindCode(code); ok {
			t.Errorf("%+v is served", row)
		}
	}
}

// TestOversizedAnswersBecomeErrors keeps the connection of a client that asks for more than a frame can hold.
func TestOversizedAnswersBecomeErrors(t *testing.T) {
	for _, enc := range bothEncodings {
		c := mustDecode(t, AppendResponse(nil, enc, 9, ResponseSuccess, "", nil, make([]byte, MaxFrameSize-8)))
		if ResponseCode(c.Code) != ResponseSystemError || len(c.Body) != 0 || c.Opaque != 9 || len(c.Remark) == 0 {
			t.Errorf("%+v", c)
		}
	}
}

// TestAnswersAreStandardJSON decodes what we write with a strict reader.
func TestAnswersAreStandardJSON(t *testing.T) {
	remark := "a\"b\\c\x01\n订\u2028</script>"
	frame := AppendResponse(nil, EncodingJSON, -1, ResponseTopicNotExist, remark, OffsetResponseHeader{Offset: -1}, nil)
	var got struct {
		Code, Flag, Opaque, Version int32
		Language, Remark            string
		ExtFields                   map[string]string
	}
	if err := json.Unmarshal(frame[8:], &got); err != nil {
		t.Fatal(err)
	}
	if got.Remark != remark || got.ExtFields["offset"] != "-1" || got.Opaque != -1 || got.Flag != 1 || got.Code != 17 || got.Version != Version {
		t.Errorf("%+v", got)
	}
}
