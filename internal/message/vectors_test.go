package message

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectors reads the entries of a file that classes of RocketMQ 5.5.0 produced; testdata/README.md says which.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Entries []T }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Entries) == 0 {
		t.Fatal("no entries")
	}
	return file.Entries
}

func TestHashIsJavas(t *testing.T) {
	for _, e := range vectors[struct {
		UTF8     string
		HashCode int32
		TagsCode int64
	}](t, "hash.json") {
		s := unhex(t, e.UTF8)
		if got := JavaHash(s); got != e.HashCode {
			t.Errorf("%q: hash %d, want %d", s, got, e.HashCode)
		}
		if got := TagsCodeOf(s); int64(got) != e.TagsCode {
			t.Errorf("%q: tags code %d, want %d", s, got, e.TagsCode)
		}
	}
	if TagsCodeOf([]byte("polygenelubricants")) != -2147483648 || TagsCodeOf([]byte("GydZG_")) != -2147483648 {
		t.Error("tags code is not sign-extended")
	}
}

func TestBodyCRCIsJavas(t *testing.T) {
	for _, e := range vectors[struct {
		Body    string
		BodyCRC uint32
	}](t, "crc32.json") {
		if got := BodyCRC(unhex(t, e.Body)); got != e.BodyCRC {
			t.Errorf("%s: %d, want %d", e.Body, got, e.BodyCRC)
		}
	}
}

func TestOffsetMsgIDIsJavas(t *testing.T) {
	for _, e := range vectors[struct {
		IP     string
		Port   uint16
		Offset PhyOffset
		MsgID  string
	}](t, "message-id.json") {
		host := HostOf(netip.AddrPortFrom(netip.MustParseAddr(e.IP), e.Port))
		if got := string(AppendOffsetMsgID(nil, host, e.Offset)); got != e.MsgID {
			t.Errorf("%s, want %s", got, e.MsgID)
		}
		for _, text := range []string{e.MsgID, strings.ToLower(e.MsgID)} {
			h, phy, err := ParseOffsetMsgID([]byte(text))
			if err != nil || h != host || phy != e.Offset {
				t.Errorf("%s is %v at %d, %v", text, h, phy, err)
			}
		}
	}
	for _, bad := range []string{"", "7F", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32), strings.Repeat("0", 57)} {
		if _, _, err := ParseOffsetMsgID([]byte(bad)); err != ErrBadMessageID {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestUniqIDLayoutIsJavas makes ids from the parts that Java decoded from its own.
func TestUniqIDLayoutIsJavas(t *testing.T) {
	for _, e := range vectors[struct {
		UniqKey    string
		IP         string
		PID        int
		NearlyTime Millis
	}](t, "uniq-key.json") {
		raw, ip := unhex(t, e.UniqKey), unhex(t, e.IP)
		addr, _ := netip.AddrFromSlice(ip)
		salt := uint32(raw[len(ip)+2])<<24 | uint32(raw[len(ip)+3])<<16 | uint32(raw[len(ip)+4])<<8 | uint32(raw[len(ip)+5])
		g := NewUniqIDGen(HostOf(netip.AddrPortFrom(addr, 0)), e.PID, salt)
		g.counter = uint16(raw[len(raw)-2])<<8 | uint16(raw[len(raw)-1])
		// The vectors were made in UTC; this machine's zone only shifts the start of the month.
		g.startMonth(e.NearlyTime)
		since := Millis(uint32(raw[len(raw)-6])<<24 | uint32(raw[len(raw)-5])<<16 | uint32(raw[len(raw)-4])<<8 | uint32(raw[len(raw)-3]))
		g.monthStart = e.NearlyTime - since
		if got := string(g.Append(nil, e.NearlyTime)); got != e.UniqKey {
			t.Errorf("%s, want %s", got, e.UniqKey)
		}
	}
}

func TestPropertiesAreReadAsJavaDoes(t *testing.T) {
	for _, e := range vectors[struct {
		Properties map[string]string
		Hex        string
		ParsedBack map[string]string
	}](t, "properties.json") {
		text := unhex(t, e.Hex)
		parsed := map[string]string{}
		it := Properties(text)
		for {
			name, value, ok := it.Next()
			if !ok {
				break
			}
			parsed[string(name)] = string(value)
		}
		if !maps.Equal(parsed, e.ParsedBack) {
			t.Errorf("%q is read as %v, want %v", text, parsed, e.ParsedBack)
		}
		for name, want := range e.ParsedBack {
			if got, ok := GetProperty(text, name); !ok || string(got) != want {
				t.Errorf("%q: %s is %q, want %q", text, name, got, want)
			}
		}
		if len(e.Properties) == 1 {
			for name, value := range e.Properties {
				if got := AppendProperty(nil, name, value); !bytes.Equal(got, text) {
					t.Errorf("%s=%s is written %s, want %s", name, value, hex.EncodeToString(got), e.Hex)
				}
			}
		}
		// What is left after normalising reads the same and does not change any more.
		normal := NormalizeProperties(nil, text)
		it = Properties(normal)
		n := 0
		for {
			name, value, ok := it.Next()
			if !ok {
				break
			}
			n++
			if e.ParsedBack[string(name)] != string(value) {
				t.Errorf("%q normalised is %q", text, normal)
			}
		}
		if n != len(e.ParsedBack) || !bytes.Equal(NormalizeProperties(nil, normal), normal) {
			t.Errorf("%q normalised is %q", text, normal)
		}
	}
}
