package message

import (
	"bytes"
	"strings"
	"testing"
)

// A filler of any length from the shortest on is a whole record of its queue, with a body that says what it is, and told from messages.
func TestFillersAreRecords(t *testing.T) {
	for _, topic := range []string{"T", "", ScheduleTopic, wheelTopic, strings.Repeat("l", 127), strings.Repeat("m", 200)} {
		for _, crc := range []bool{false, true} {
			for _, more := range []int{0, 1, 19, 20, 21, 70, 90, 400, 70_000} {
				f := Filler{Topic: topic, QueueID: 3, QueueOffset: 42, PhyOffset: 4711, StoreTime: 1234, Size: FillerBytesMin(topic) + more, PropertyCRC: crc}
				b := f.Encode()
				var v View
				if err := ParseView(append(b, 1, 2, 3), &v); err != nil || len(b) != f.Size || int(v.Size) != f.Size {
					t.Fatalf("%q and %d: %d bytes: %v", topic, more, len(b), err)
				}
				if !v.CheckCRC() || !v.IsFiller() || v.TagsCode() != TagsCodeFiller || v.PhyOffset != 4711 || v.StoreTimestamp != 1234 {
					t.Errorf("%q and %d: %+v", topic, more, v)
				}
				inQueue := v.SysFlag&SysFlagTransactionMask == 0
				if inQueue != (topic != "") || inQueue && (string(v.Topic) != topic || v.QueueID != 3 || v.QueueOffset != 42) {
					t.Errorf("%q and %d: belongs to %q queue %d offset %d, type %x", topic, more, v.Topic, v.QueueID, v.QueueOffset, v.SysFlag)
				}
				if more >= 400 && !bytes.Contains(v.Body, []byte("peregrine dump --repair")) {
					t.Errorf("%q and %d says %q", topic, more, v.Body)
				}
				if more == 400 && (topic == ScheduleTopic || topic == wheelTopic) {
					if real, _ := GetProperty(v.Properties, PropertyRealTopic); string(real) != "SELF_TEST_TOPIC" {
						t.Errorf("%q would be delivered to %q", topic, real)
					}
				}
				if crc != v.HasPropertyCRC() && more >= 90 {
					t.Errorf("%q and %d: checksum %v", topic, more, v.HasPropertyCRC())
				}
			}
		}
	}
}

// The checksum in the properties covers all bytes before it, in decimal, the least significant digit first..
func TestFillerChecksumCoversTheRecord(t *testing.T) {
	f := Filler{Topic: "T", Size: 400, PropertyCRC: true}
	b := f.Encode()
	var v View
	if err := ParseView(b, &v); err != nil {
		t.Fatal(err)
	}
	text, _ := GetProperty(v.Properties, PropertyCRC32)
	sum := uint32(0)
	for i := len(text) - 1; i >= 0; i-- {
		sum = sum*10 + uint32(text[i]-'0')
	}
	if len(text) != propertyCRCDigits || sum != BodyCRC(b[:len(b)-propertyCRCBytes]) {
		t.Errorf("%q is %d, want %d", text, sum, BodyCRC(b[:len(b)-propertyCRCBytes]))
	}
	// Nothing that a client sends is one: its born host is that of its connection.
	v.BornHost.Port = 1
	if v.IsFiller() {
		t.Error("a record with a born host is taken for a filler")
	}
}

func TestAppendBlank(t *testing.T) {
	var v View
	if err := ParseView(AppendBlank(nil, 181), &v); err != ErrBlank || v.Size != 181 {
		t.Errorf("%v, %d", err, v.Size)
	}
}
