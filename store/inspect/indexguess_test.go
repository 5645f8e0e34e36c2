package inspect

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"peregrine/internal/message"
)

// The geometry of an index file is found whatever its hashes are: also in the first file of a log, whose first record lies at 0 as the
// empty item in front of it does, and whose last record has several items.
func TestGeometryIsGuessedWhateverTheHashes(t *testing.T) {
	const slots, items, records = 100, 300, 100
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, seed))
		b := make([]byte, indexFileBytes(slots, items))
		h := IndexHeader{Next: 1}
		for record := range records {
			h.EndPhy = message.PhyOffset(record * 200)
			for range 2 {
				hash := random.Int32()
				slot := b[indexHeadBytes+int64(hash)%slots*indexSlotBytes:]
				item := b[indexHeadBytes+slots*indexSlotBytes+int64(h.Next)*indexItemBytes:]
				binary.BigEndian.PutUint32(item, uint32(hash))
				binary.BigEndian.PutUint64(item[4:], uint64(h.EndPhy))
				copy(item[16:20], slot[:4])
				binary.BigEndian.PutUint32(slot, uint32(h.Next))
				h.Next++
			}
		}
		if s, i := guessIndexGeometry(b, h); s != slots || i != items {
			t.Fatalf("seed %d: %d slots and %d items", seed, s, i)
		}
	}
}
