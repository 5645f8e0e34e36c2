package message

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func FuzzParseView(f *testing.F) {
	r := goldenRecord()
	b := make([]byte, r.Size())
	r.EncodeTo(b)
	f.Add(b)
	r.Topic = bytes.Repeat([]byte("t"), 200)
	r.BornHost.IPLen, r.StoreHost.IPLen = 16, 16
	b = make([]byte, r.Size())
	r.EncodeTo(b)
	f.Add(b)
	f.Add(unhex(f, "000000B5CBD43194"))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v View
		if err := ParseView(b, &v); err != nil {
			known := err == ErrTornTail || err == ErrBlank || err == ErrNoRecord || errors.Is(err, ErrCorrupt)
			if !known {
				t.Fatal(err)
			}
			return
		}
		if int(v.Size) > len(b) {
			t.Fatalf("a record of %d bytes in %d", v.Size, len(b))
		}
		v.CheckCRC()
		v.TagsCode()
		if (v.Magic == MagicV2) != (len(v.Topic) > TopicBytesMaxV1) {
			return // a long layout for a short topic is readable, but never written
		}
		again := Record{Topic: v.Topic, Body: v.Body, Properties: v.Properties, BodyCRC: v.BodyCRC, QueueID: v.QueueID, Flag: v.Flag,
			SysFlag: v.SysFlag, ReconsumeTimes: v.ReconsumeTimes, QueueOffset: v.QueueOffset, PhyOffset: v.PhyOffset,
			BornTimestamp: v.BornTimestamp, StoreTimestamp: v.StoreTimestamp, BornHost: v.BornHost, StoreHost: v.StoreHost,
			PreparedTransactionOffset: v.PreparedTransactionOffset}
		out := make([]byte, again.Size())
		again.EncodeTo(out)
		if !bytes.Equal(out, b[:v.Size]) {
			t.Fatalf("%x became %x", b[:v.Size], out)
		}
	})
}

// javaProperties is string2messageProperties written down without regard to speed.
func javaProperties(text string) map[string]string {
	m := map[string]string{}
	for piece := range strings.SplitSeq(text, "\x02") {
		if name, value, ok := strings.Cut(piece, "\x01"); ok && name != "" && value != "" {
			m[name] = value
		}
	}
	return m
}

func addPropertySeeds(f *testing.F) {
	for _, text := range []string{"", "TAGS\x01TagA\x02", "a\x011\x02a\x012", "\x01\x02\x01\x01\x02a\x01\x01\x02", "KEYS\x01k 1\x02junk\x02WAIT\x01true", "订单\x01值\x02"} {
		f.Add([]byte(text), "a")
	}
	var many []byte
	for i := range 100 {
		many = AppendProperty(many, string(rune('a'+i%60)), "v")
	}
	f.Add(many, "TAGS")
	f.Add([]byte("\x01\x010"), "\x01")
	f.Add([]byte("\x01v\x02a\x01b\x01v\x02"), "")
	f.Add([]byte("a\x01b\x01v\x02"), "a\x01b")
}

func FuzzProperties(f *testing.F) {
	addPropertySeeds(f)
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		want, got := javaProperties(string(text)), map[string]string{}
		for it := Properties(text); ; {
			n, v, ok := it.Next()
			if !ok {
				break
			}
			got[string(n)] = string(v)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%q is %v, want %v", text, got, want)
		}
		value, ok := GetProperty(text, name)
		if wantValue, wantOK := want[name]; ok != wantOK || string(value) != wantValue {
			t.Fatalf("%q in %q is %q", name, text, value)
		}
	})
}

func FuzzNormalizeProperties(f *testing.F) {
	addPropertySeeds(f)
	f.Fuzz(func(t *testing.T, text []byte, drop string) {
		normal := NormalizeProperties(nil, text)
		want := javaProperties(string(text))
		if !maps.Equal(javaProperties(string(normal)), want) {
			t.Fatalf("%q became %q", text, normal)
		}
		if again := NormalizeProperties(nil, normal); !bytes.Equal(again, normal) {
			t.Fatalf("%q became %q", normal, again)
		}
		if bytes.Count(normal, []byte{PropertySeparator}) != len(want) {
			t.Fatalf("%q has not one entry a name", normal)
		}
		delete(want, drop)
		if got := AppendPropertiesWithout(nil, text, drop); !maps.Equal(javaProperties(string(got)), want) {
			t.Fatalf("%q without %q is %q", text, drop, got)
		}
	})
}

func FuzzBatch(f *testing.F) {
	body := AppendBatchElement(nil, 1, []byte("hi"), []byte("TAGS\x01A\x02"))
	f.Add(body)
	f.Add(AppendBatchElement(body, 2, nil, nil))
	f.Add(body[:len(body)-1])
	f.Fuzz(func(t *testing.T, body []byte) {
		var again []byte
		var e BatchElement
		it := Batch(body)
		for it.Next(&e) {
			again = AppendBatchElement(again, e.Flag, e.Body, e.Properties)
		}
		if it.Err() != nil {
			if !errors.Is(it.Err(), ErrCorrupt) {
				t.Fatal(it.Err())
			}
			return
		}
		if len(again) != len(body) {
			t.Fatalf("%d bytes became %d", len(body), len(again))
		}
		// Magic and CRC are ignored on reading and written as zero; the rest must be the same.
		for at := 0; at < len(body); {
			copy(again[at+4:at+12], body[at+4:at+12])
			at += int(uint32(body[at])<<24 | uint32(body[at+1])<<16 | uint32(body[at+2])<<8 | uint32(body[at+3]))
		}
		if !bytes.Equal(again, body) {
			t.Fatalf("%x became %x", body, again)
		}
	})
}

func FuzzOffsetMsgID(f *testing.F) {
	f.Add([]byte("7F00000100002A9F0000000000000000"))
	f.Add([]byte("20010DB8000000000000FF000042832900002A9F0000000200000000"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		host, phy, err := ParseOffsetMsgID(text)
		if err != nil {
			return
		}
		if got := AppendOffsetMsgID(nil, host, phy); !bytes.Equal(got, bytes.ToUpper(text)) {
			t.Fatalf("%s became %s", text, got)
		}
	})
}

func FuzzJavaHash(f *testing.F) {
	for _, s := range []string{"", "TagA", "订单", "a😀b", "\xff", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			JavaHash([]byte(s))
			return
		}
		var want int32
		for _, unit := range utf16.Encode([]rune(s)) {
			want = 31*want + int32(unit)
		}
		if got := JavaHash([]byte(s)); got != want {
			t.Fatalf("%q: %d, want %d", s, got, want)
		}
	})
}
