package message

import "testing"

// TestHotFunctionsDoNotAllocate covers every function marked hot.
func TestHotFunctionsDoNotAllocate(t *testing.T) {
	r := goldenRecord()
	b := make([]byte, r.Size())
	r.EncodeTo(b)
	var v View
	text := []byte("KEYS\x01k1 k2\x02UNIQ_KEY\x01FD0000000000000000000000000000020F0C5FFD2B27949CB14C0003\x02WAIT\x01true\x02TAGS\x01TagA\x02")
	batch := AppendBatchElement(AppendBatchElement(nil, 1, b, text), 2, b, text)
	g := NewUniqIDGen(r.BornHost, 1, 1)
	dst := make([]byte, 0, 4096)
	var element BatchElement
	var m PropertyMap
	name := []byte(PropertyRealTopic)
	for name, f := range map[string]func(){
		"EncodeTo":  func() { r.EncodeTo(b) },
		"ParseView": func() { _ = ParseView(b, &v); v.CheckCRC(); v.TagsCode() },
		"Properties": func() {
			for it := Properties(text); ; {
				if _, _, ok := it.Next(); !ok {
					break
				}
			}
			GetProperty(text, PropertyUniqKey)
		},
		"PropertyMap": func() {
			m.Parse(text)
			m.Set(name, text[:1])
			m.Get(PropertyTags)
			m.AppendTo(dst)
		},
		"AppendPropertiesWithout": func() { AppendPropertiesWithout(dst, text, PropertyPopCK, PropertyWait) },
		"Batch": func() {
			for it := Batch(batch); it.Next(&element); {
			}
		},
		"AppendOffsetMsgID": func() { AppendOffsetMsgID(dst, r.StoreHost, 77) },
		"UniqIDGen":         func() { g.Append(dst, 1795984872158) },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkParseView(b *testing.B) {
	r := goldenRecord()
	raw := make([]byte, r.Size())
	r.EncodeTo(raw)
	var v View
	for b.Loop() {
		_ = ParseView(raw, &v)
	}
}

func BenchmarkEncodeTo(b *testing.B) {
	r := goldenRecord()
	raw := make([]byte, r.Size())
	for b.Loop() {
		r.EncodeTo(raw)
	}
}

func BenchmarkProperties(b *testing.B) {
	text := []byte("KEYS\x01order-1234567\x02UNIQ_KEY\x010123456789ABCDEF0123456789ABCDEF\x02WAIT\x01true\x02TAGS\x01TagA\x02")
	for b.Loop() {
		it := Properties(text)
		for {
			if _, _, ok := it.Next(); !ok {
				break
			}
		}
	}
}
