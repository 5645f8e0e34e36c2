package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

func TestEveryCutAndEveryWrongLengthIsAnError(t *testing.T) {
	r := goldenRecord()
	whole := make([]byte, r.Size())
	r.EncodeTo(whole)
	var v View
	for n := range whole {
		if err := ParseView(whole[:n], &v); err != ErrTornTail {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	// at: position of a field; the values that must not pass.
	for _, c := range []struct {
		what  string
		at    int
		value uint32
		want  error
	}{
		{"negative size", 0, 0xFFFFFFFF, ErrBadSize},
		{"size below the fixed part", 0, 90, ErrBadSize},
		{"size one too small", 0, uint32(len(whole) - 1), ErrBadLength},
		{"size above the input", 0, uint32(len(whole) + 1), ErrTornTail},
		{"unknown magic", 4, 1, ErrBadMagic},
		{"negative body length", 84, 0x80000000, ErrBadLength},
		{"body length past the end", 84, 200, ErrBadLength},
		{"body length one too small", 84, 4, ErrBadLength},
		{"IPv6 flag without room", 36, 0x30, ErrBadLength},
	} {
		b := bytes.Clone(whole)
		binary.BigEndian.PutUint32(b[c.at:], c.value)
		err := ParseView(b, &v)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.want != ErrTornTail && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v is not of the corrupt family", c.what, err)
		}
	}
	if b := append(bytes.Clone(whole[:93]), 0x80); true {
		b = append(b, whole[94:]...)
		if err := ParseView(b, &v); !errors.Is(err, ErrCorrupt) {
			t.Errorf("negative topic length: %v", err)
		}
	}
	blank := []byte{0, 0, 0, 0xB5, 0xCB, 0xD4, 0x31, 0x94, 7}
	if err := ParseView(blank, &v); err != ErrBlank || v.Size != 181 || v.Magic != MagicBlank {
		t.Errorf("blank: %v, %d bytes", err, v.Size)
	}
	blank[3] = 7
	if err := ParseView(blank, &v); err != ErrBadSize {
		t.Errorf("blank of 7 bytes: %v", err)
	}
	if err := ParseView(make([]byte, 200), &v); err != ErrNoRecord || errors.Is(err, ErrCorrupt) {
		t.Errorf("zeros: %v", err)
	}
}

func TestCRCFindsAFlippedBit(t *testing.T) {
	r := goldenRecord()
	b := make([]byte, r.Size())
	r.EncodeTo(b)
	b[88] ^= 1
	var v View
	if err := ParseView(b, &v); err != nil || v.CheckCRC() {
		t.Errorf("%v, the CRC fits", err)
	}
}

func TestEncodePanicsPastItsLengthFields(t *testing.T) {
	r := goldenRecord()
	r.Properties = make([]byte, PropertiesBytesMax)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r.EncodeTo(make([]byte, r.Size()))
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		in, want string
		size     int
	}{
		{"10.0.0.1:10911", "10.0.0.1:10911", 8},
		{"[::ffff:10.0.0.1]:80", "10.0.0.1:80", 8},
		{"[2001:db8::1]:65535", "[2001:db8::1]:65535", 20},
		{"[fe80::1%eth0]:1", "[fe80::1]:1", 20},
	} {
		if h := HostOf(netip.MustParseAddrPort(c.in)); h.String() != c.want || h.Size() != c.size {
			t.Errorf("%s became %s of %d bytes", c.in, h, h.Size())
		}
	}
	if h := HostOf(netip.AddrPort{}); h.Size() != 8 {
		t.Error("an invalid address is not four bytes")
	}
}

func TestPropertiesAreSetByLeavingOutAndAppending(t *testing.T) {
	text := []byte("A\x011\x02B\x012\x02A\x013\x02C\x01\x02junk\x02D\x014")
	for _, c := range []struct {
		drop []string
		want string
	}{
		{nil, "A\x013\x02B\x012\x02D\x014\x02"},
		{[]string{"A", "D"}, "B\x012\x02"},
		{[]string{"A", "B", "D"}, ""},
	} {
		if got := AppendPropertiesWithout([]byte("x"), text, c.drop...); string(got) != "x"+c.want {
			t.Errorf("without %q: %q", c.drop, got)
		}
	}
}

// TestManyPropertiesAreNormalisedAlike crosses from the small array into the map.
func TestManyPropertiesAreNormalisedAlike(t *testing.T) {
	var text, want []byte
	for i := range 3 * smallPropertyCount {
		text = AppendProperty(text, fmt.Sprint("k", i), "old")
		want = AppendProperty(want, fmt.Sprint("k", i), fmt.Sprint("new", i))
	}
	for i := range 3 * smallPropertyCount {
		text = AppendProperty(text, fmt.Sprint("k", i), fmt.Sprint("new", i))
	}
	if got := NormalizeProperties(nil, text); !bytes.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestUniqIDsNeverRepeat(t *testing.T) {
	host := HostOf(netip.MustParseAddrPort("10.0.0.1:1"))
	a, b := NewUniqIDGen(host, 7, 1), NewUniqIDGen(host, 7, 2)
	const start Millis = 1795984872158
	seen := make(map[string]bool)
	var buf []byte
	for i := range 200_000 { // far more than 65,536 without the clock moving
		now := start
		switch {
		case i > 150_000:
			now = start - 5 // the clock was set back
		case i > 140_000:
			now = start + Millis(i-140_000)
		}
		for _, g := range []*UniqIDGen{&a, &b} {
			buf = g.Append(buf[:0], now)
			if len(buf) != 32 || seen[string(buf)] {
				t.Fatalf("id %d is %s, again or of a wrong length", i, buf)
			}
			seen[string(buf)] = true
		}
	}
}

func TestBatchElements(t *testing.T) {
	// From the wire reference: body hi, WAIT=true, TAGS=A.
	golden := unhex(t, "000000290000000000000000000000000000000268690011"+"57414954017472756502"+"5441475301"+"41"+"02")
	body := AppendBatchElement(nil, 0, []byte("hi"), []byte("WAIT\x01true\x02TAGS\x01A\x02"))
	if !bytes.Equal(body, golden) {
		t.Fatalf("got %x", body)
	}
	body = AppendBatchElement(body, -5, nil, nil)
	it := Batch(body)
	var e BatchElement
	if !it.Next(&e) || string(e.Body) != "hi" || string(e.Properties) != "WAIT\x01true\x02TAGS\x01A\x02" || e.Flag != 0 {
		t.Errorf("first element %+v", e)
	}
	if !it.Next(&e) || e.Flag != -5 || len(e.Body) != 0 || len(e.Properties) != 0 || it.Next(&e) || it.Err() != nil {
		t.Errorf("second element %+v, %v", e, it.Err())
	}
	for n := 1; n < len(golden); n++ {
		if it = Batch(golden[:n]); it.Next(&e) || !errors.Is(it.Err(), ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, it.Err())
		}
	}
	for at, value := range map[int]uint32{0: 40, 16: 0x80000000, 12: 0} {
		b := bytes.Clone(golden)
		binary.BigEndian.PutUint32(b[at:], value)
		it = Batch(b)
		if ok := it.Next(&e); ok != (at == 12) {
			t.Errorf("%d at %d: %v, %v", value, at, ok, it.Err())
		}
	}
}
