package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func addBodySeeds(f *testing.F) {
	f.Helper()
	seen := map[RequestCode]bool{}
	for _, frame := range capturedFrames(f) {
		body := mustDecode(f, frame.raw).Body
		if len(body) > 0 && body[0] == '{' && len(body) < 8192 && !seen[frame.RequestCode] {
			seen[frame.RequestCode] = true
			f.Add(body)
		}
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "config", "*.json"))
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{`{0:{"$ref":"$.a[0]"},"a":[{"@type":"x","b":1}]}`, `{{"a":1}:{"$ref":"$.x\\.y"}}`, `[1.5e3,null,"\u0001\ud83d"]`} {
		f.Add([]byte(text))
	}
}

// FuzzStandardJSON: what comes out is standard JSON, stays as it is the second time, and standard JSON without references
// and type marks keeps its meaning.
func FuzzStandardJSON(f *testing.F) {
	addBodySeeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := StandardJSON(src)
		if err != nil {
			if !errors.Is(err, ErrBody) {
				t.Fatal(err)
			}
			if json.Valid(src) && !bytes.Contains(src, []byte(`$ref`)) && !bytes.Contains(src, []byte(`\u`)) && !strings.Contains(err.Error(), "deep") {
				t.Fatalf("%s: %v", src, err)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%s became %s", src, out)
		}
		if !bytes.Contains(src, []byte("ref")) { // a reference to an object that looks like a reference may resolve again
			if again, err := StandardJSON(out); err != nil || !bytes.Equal(again, out) {
				t.Fatalf("%s became %s, %v", out, again, err)
			}
		}
		if json.Valid(src) && !bytes.ContainsAny(src, `$@\`) {
			var compact bytes.Buffer
			if json.Compact(&compact, src) != nil || !bytes.Equal(compact.Bytes(), out) {
				t.Fatalf("%s became %s", src, out)
			}
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	addBodySeeds(f)
	prototypes := []any{HeartbeatData{}, RegisterBrokerBody{}, SubscriptionGroupWrapper{}, ConsumerOffsetWrapper{}, TopicRouteData{},
		ClusterInfo{}, CheckClientConfigBody{}, KVTable{}, TopicList{}, BrokerMemberGroupBody{}}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, prototype := range prototypes {
			first, second := reflect.New(reflect.TypeOf(prototype)).Interface(), reflect.New(reflect.TypeOf(prototype)).Interface()
			if err := DecodeBody(src, first); err != nil {
				if !errors.Is(err, ErrBody) {
					t.Fatal(err)
				}
				continue
			}
			text := EncodeBody(first)
			if !json.Valid(text) {
				t.Fatalf("%s was written as %s", src, text)
			}
			if err := DecodeBody(text, second); err != nil || !bytes.Equal(EncodeBody(second), text) {
				t.Fatalf("%s became %s, %v", text, EncodeBody(second), err)
			}
		}
	})
}

// FuzzRegistration feeds the inside of the zlib stream, which the fuzzer would hardly ever get right itself.
func FuzzRegistration(f *testing.F) {
	inside := func(r *RegisterBrokerBody, version int32) []byte {
		stream, err := unpack(AppendRegistration(nil, r, true, version))
		if err != nil {
			f.Fatal(err)
		}
		return stream
	}
	f.Add(inside(sampleRegistration(), Version))
	f.Add(inside(sampleRegistration(), VersionStandardJSON))
	f.Add(inside(&RegisterBrokerBody{}, Version))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = DecodeRegistration(raw, true)
		got, err := DecodeRegistration(pack(raw), true)
		if err != nil {
			if !errors.Is(err, ErrBody) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeRegistration(AppendRegistration(nil, got, true, Version), true)
		if err != nil || !bytes.Equal(EncodeBody(again), EncodeBody(got)) {
			t.Fatalf("%s became %s, %v", EncodeBody(got), EncodeBody(again), err)
		}
	})
}

func FuzzBareIntKeys(f *testing.F) {
	addBodySeeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		standard, err := StandardJSON(src)
		if err != nil || bytes.Contains(standard, []byte("$ref")) || bytes.Contains(standard, []byte("@type")) {
			return
		}
		bare := AppendBareIntKeys(nil, standard)
		if again, err := StandardJSON(bare); err != nil || !bytes.Equal(again, standard) {
			t.Fatalf("%s became %s, %v", standard, again, err)
		}
	})
}

func FuzzBuildSubscription(f *testing.F) {
	for _, text := range []string{"*", "", "TagA || TagB", "||", " a|||b ", "订单"} {
		f.Add(text, "TAG")
	}
	f.Fuzz(func(t *testing.T, expression, expressionType string) {
		s, err := BuildSubscription("T", expression, expressionType)
		if err != nil {
			return
		}
		for _, tag := range s.TagsSet {
			if tag == "" || strings.Contains(tag, "||") {
				t.Fatalf("%q has the tag %q", expression, tag)
			}
		}
		if len(s.CodeSet) > len(s.TagsSet) {
			t.Fatalf("%q: %+v", expression, s)
		}
	})
}
