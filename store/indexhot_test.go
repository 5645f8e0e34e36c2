package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// BenchmarkHotKey is case I07: a million records with one key between others, in a file of the usual geometry, and queries for
// the newest 64 of them, for a window of the past that is a million items back, and for a key whose hash they share.
func BenchmarkHotKey(b *testing.B) {
	const records = 1_000_000
	now := message.Millis(1_700_000_000_000)
	set := testSettings(b.TempDir(), withIndex(5_000_000, 20_000_000), func(s *settings) { s.segmentBytes = 256 << 20 })
	s, err := open(sysio.OS{}, set, quietLogger(), func() message.Millis { return now }, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(true)
	if _, err := s.index.Recover(never); err != nil {
		b.Fatal(err)
	}
	q := s.Queue("T", 0)
	uniq := []byte("0A00000100002A9F0000000000000000")
	batch := make([]Message, 500)
	var indexing time.Duration
	for i := 0; i < records; i += len(batch) {
		now += 10
		for k := range batch {
			for at, n := len(uniq)-1, i+k; n > 0; at, n = at-1, n/10 {
				uniq[at] = byte('0' + n%10)
			}
			batch[k] = indexedMessage(q, string(uniq), "Aa", "TagA")
		}
		s.Append(batch)
		keys := make([]IndexRecord, 0, len(batch))
		for k := range batch {
			if batch[k].Err != nil {
				b.Fatal(batch[k].Err)
			}
			keys = append(keys, IndexRecord{Phy: batch[k].PhyOffset, StoreTime: now, Topic: batch[k].Record.Topic, Properties: batch[k].Record.Properties})
		}
		began := time.Now()
		if n, err := s.index.Add(keys); errors.Is(err, ErrIndexFull) && n == 0 && i == 0 {
			if err := s.index.NextFile(); err != nil {
				b.Fatal(err)
			}
			if _, err := s.index.Add(keys); err != nil {
				b.Fatal(err)
			}
		} else if err != nil {
			b.Fatal(err)
		}
		indexing += time.Since(began)
	}
	b.Logf("%d records indexed in %v", records, indexing)
	for _, c := range []struct {
		name  string
		query IndexQuery
		want  int
	}{
		{"newest", IndexQuery{Topic: "T", Key: "Aa"}, 64},
		{"tag", IndexQuery{Topic: "T", Key: "TagA", Kind: IndexTag}, 64},
		{"past", IndexQuery{Topic: "T", Key: "Aa", End: 1_700_000_000_010}, 64},
		{"second", IndexQuery{Topic: "T", Key: "Aa", Begin: 1_700_000_010_000, End: 1_700_000_010_010}, 64},
		{"unique", IndexQuery{Topic: "T", Key: "0A00000100002A9F0000000000012345", Kind: IndexUnique}, 1},
		{"twin", IndexQuery{Topic: "T", Key: "BB"}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				r, views := query(b, s, c.query)
				took = append(took, time.Since(began))
				if len(views) != c.want || r.Cut != (c.name == "twin") {
					b.Fatalf("%d records, cut %v", len(views), r.Cut)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
