package store

import (
	"fmt"
	"strings"
	"testing"

	"peregrine/internal/sysio"
)

// One record of 128 B with the properties that a Java client sends, by batch size and append form, without syncs. The device
// sets the limit of a long run: -benchtime 2000000x is about 0.7 GB.
func BenchmarkAppend(b *testing.B) {
	for _, direct := range []bool{false, true} {
		for _, n := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("direct=%v/batch=%d", direct, n), func(b *testing.B) {
				s := openTest(b, sysio.OS{}, testSettings(b.TempDir(), func(s *settings) { s.direct, s.segmentBytes = direct, 1<<30 }))
				defer s.abandon()
				q := s.Queue("TopicTest", 0)
				batch := make([]Message, n)
				for i := range batch {
					batch[i] = newMessage(q, strings.Repeat("b", 128))
					batch[i].Properties = []byte("UNIQ_KEY\x017F000001000018B4AAC2123456789ABC\x02WAIT\x01true\x02TAGS\x01TagA\x02")
				}
				b.ReportAllocs()
				b.SetBytes(int64(batch[0].Size()))
				for i := 0; i < b.N; i += n {
					if s.Append(batch); batch[0].Err != nil {
						b.Fatal(batch[0].Err)
					}
				}
			})
		}
	}
}

// A pull of 32 units that are in memory, with their records.
func BenchmarkHotRead(b *testing.B) {
	s := openTest(b, sysio.OS{}, testSettings(b.TempDir(), func(s *settings) { s.segmentBytes = 64 << 20 }))
	defer s.abandon()
	q := s.Queue("TopicTest", 0)
	for range 2000 {
		send(b, s, q, strings.Repeat("b", 128))
	}
	mustDispatch(b, s, 0)
	topic, units := []byte("TopicTest"), make([]Unit, 32)
	b.ReportAllocs()
	for b.Loop() {
		q := s.LookupQueue(topic, 0)
		n, _ := q.Units(units, q.Max()-32)
		for _, u := range units[:n] {
			if s.IsHot(u.Phy) && s.Slice(u.Phy, int(u.Size)) == nil {
				b.Fatal("not mapped")
			}
		}
	}
}
