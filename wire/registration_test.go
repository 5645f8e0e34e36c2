package wire

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
)

func sampleRegistration() *RegisterBrokerBody {
	return &RegisterBrokerBody{
		FilterServerList: []string{},
		TopicConfigSerializeWrapper: TopicConfigSerializeWrapper{
			DataVersion: DataVersion{Counter: 12, Timestamp: 1700000000000},
			TopicConfigTable: map[string]TopicConfig{
				"T":      {Perm: 6, ReadQueueNums: 8, WriteQueueNums: 4, TopicName: "T", TopicFilterType: TopicFilterSingleTag},
				"TBW102": {Perm: 7, ReadQueueNums: 8, WriteQueueNums: 8, TopicName: "TBW102", TopicFilterType: TopicFilterMultiTag, Attributes: map[string]string{"message.type": "NORMAL"}},
			},
			TopicQueueMappingInfoMap: map[string]json.RawMessage{"S": json.RawMessage(`{"bname":"b","topic":"S"}`)},
		},
	}
}

func TestPackedRegistrationComesBack(t *testing.T) {
	want := sampleRegistration()
	got, err := DecodeRegistration(AppendRegistration(nil, want, true, Version), true)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	// A broker of 4.9 has no mappings.
	got, err = DecodeRegistration(AppendRegistration(nil, want, true, VersionStandardJSON), true)
	want.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap = nil
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPlainRegistrationComesBack(t *testing.T) {
	want := sampleRegistration()
	body := AppendRegistration(nil, want, false, Version)
	got, err := DecodeRegistration(body, false)
	if err != nil || !bytes.Equal(EncodeBody(got), body) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := DecodeRegistration(nil, false); err != nil || len(got.TopicConfigSerializeWrapper.TopicConfigTable) != 0 {
		t.Errorf("empty body: %+v, %v", got, err)
	}
}

// TestPackedLayout spells out the bytes inside the zlib stream.
func TestPackedLayout(t *testing.T) {
	r := &RegisterBrokerBody{}
	r.TopicConfigSerializeWrapper.DataVersion = DataVersion{Counter: 1, StateVersion: 2, Timestamp: 3}
	r.TopicConfigSerializeWrapper.TopicConfigTable = map[string]TopicConfig{
		"T": {ReadQueueNums: 4, WriteQueueNums: 5, Perm: 6, TopicName: "T", TopicFilterType: TopicFilterSingleTag}}
	raw, err := unpack(AppendRegistration(nil, r, true, Version))
	if err != nil {
		t.Fatal(err)
	}
	want := "0000002c" + hex.EncodeToString([]byte(`{"counter":1,"stateVersion":2,"timestamp":3}`)) + "00000001" +
		"00000012" + hex.EncodeToString([]byte("T 4 5 6 SINGLE_TAG")) + "00000002" + hex.EncodeToString([]byte("[]")) + "00000000"
	if got := hex.EncodeToString(raw); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func unpack(packed []byte) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func pack(raw []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

func TestHostileRegistrationsAreErrors(t *testing.T) {
	be := binary.BigEndian
	version := []byte(`{"counter":1}`)
	head := append(be.AppendUint32(nil, uint32(len(version))), version...)
	for name, raw := range map[string][]byte{
		"empty":             {},
		"negative length":   {0xFF, 0xFF, 0xFF, 0xFF},
		"huge length":       {0x7F, 0xFF, 0xFF, 0xFF, 1},
		"negative count":    be.AppendUint32(bytes.Clone(head), 0x80000000),
		"huge count":        be.AppendUint32(bytes.Clone(head), 0x7FFFFFFF),
		"count without end": be.AppendUint32(bytes.Clone(head), 1000),
		"short topic":       append(be.AppendUint32(be.AppendUint32(bytes.Clone(head), 1), 5), "T 4 4"...),
		"wrong number":      append(be.AppendUint32(be.AppendUint32(bytes.Clone(head), 1), 18), "T 4 x 6 SINGLE_TAG"...),
		"wrong version":     append(be.AppendUint32(nil, 2), "[]"...),
	} {
		if got, err := DecodeRegistration(pack(raw), true); !errors.Is(err, ErrBody) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := DecodeRegistration([]byte("no zlib"), true); !errors.Is(err, ErrBody) {
		t.Error(err)
	}
	whole := AppendRegistration(nil, sampleRegistration(), true, Version)
	for n := range whole[:len(whole)-8] { // the last bytes are only a checksum
		if _, err := DecodeRegistration(whole[:n], true); err != nil && !errors.Is(err, ErrBody) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

// TestInflatedRegistrationIsBounded feeds more than RegistrationBytesMax of sound topics, packed into a small body.
func TestInflatedRegistrationIsBounded(t *testing.T) {
	be := binary.BigEndian
	topic := append(bytes.Repeat([]byte("t"), RegistrationTextBytesMax-len(" 4 4 6 SINGLE_TAG")), " 4 4 6 SINGLE_TAG"...)
	const count = RegistrationBytesMax/RegistrationTextBytesMax + 1
	var b bytes.Buffer
	z, _ := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	z.Write(append(be.AppendUint32(nil, 2), "{}"...))
	z.Write(be.AppendUint32(nil, count))
	for range count {
		z.Write(be.AppendUint32(nil, uint32(len(topic))))
		z.Write(topic)
	}
	z.Write(append(be.AppendUint32(nil, 2), "[]"...))
	z.Close()
	if b.Len() > MaxFrameSize {
		t.Fatalf("packed into %d bytes", b.Len())
	}
	if _, err := DecodeRegistration(b.Bytes(), true); !errors.Is(err, ErrBody) {
		t.Error(err)
	}
}
