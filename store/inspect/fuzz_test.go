package inspect

import (
	"encoding/binary"
	"slices"
	"testing"

	"peregrine/internal/message"
)

// small is a directory of a few records in files of 1 KiB, 4 units and an index of 7 slots and 20 items.
func small() memFS {
	log, units := make([]byte, 2048), make([]byte, 160)
	const slots, items = 7, 20
	ix := make([]byte, indexFileBytes(slots, items))
	ext := make([]byte, 44) // of the last two units
	pos, next := int64(0), int32(1)
	for i := range 6 {
		r := message.Record{Topic: []byte("T"), Body: []byte("body of a message"), QueueOffset: message.QueueOffset(i), StoreTimestamp: 1000,
			Properties: []byte("TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01u\x02")}
		r.StoreHost.IPLen, r.BornHost.IPLen = 4, 4
		r.BodyCRC = message.BodyCRC(r.Body)
		if size := int64(r.Size()); pos/1024 != (pos+size+8-1)/1024 {
			binary.BigEndian.PutUint32(log[pos:], uint32(1024-pos))
			blank := message.MagicBlank
			binary.BigEndian.PutUint32(log[pos+4:], uint32(blank))
			pos = 1024
		}
		r.PhyOffset = message.PhyOffset(pos)
		n := r.EncodeTo(log[pos:])
		tags := int64(message.TagsCodeOf([]byte("a")))
		if at := (i - 4) * extUnitBytes; at >= 0 {
			binary.BigEndian.PutUint16(ext[at:], extUnitBytes)
			binary.BigEndian.PutUint64(ext[at+2:], uint64(tags))
			binary.BigEndian.PutUint64(ext[at+10:], 1000)
			tags = int64(at) + -1<<63
		}
		copy(units[i*unitBytes:], unitBytesOf(pos, int32(n), tags))
		for _, key := range []string{"T#u", "T#k1", "T#k2", "T#T#a"} {
			if next == items {
				break
			}
			hash := IndexHash([]byte(key))
			slot := ix[indexHeadBytes+hash%slots*indexSlotBytes:]
			item := ix[indexHeadBytes+slots*indexSlotBytes+int64(next)*indexItemBytes:]
			binary.BigEndian.PutUint32(item, uint32(hash))
			binary.BigEndian.PutUint64(item[4:], uint64(pos))
			copy(item[16:20], slot[:4])
			binary.BigEndian.PutUint32(slot, uint32(next))
			binary.BigEndian.PutUint64(ix[24:], uint64(pos))
			next++
		}
		pos += int64(n)
	}
	binary.BigEndian.PutUint64(ix, 1000)
	binary.BigEndian.PutUint32(ix[36:], uint32(next))
	return memFS{files: map[string][]byte{
		"checkpoint": make([]byte, checkpointBytes), "commitlog/00000000000000000000": log[:1024], "commitlog/00000000000000001024": log[1024:],
		"consumequeue/T/0/00000000000000000000": units[:80], "consumequeue/T/0/00000000000000000080": units[80:],
		"consumequeue_ext/T/0/00000000000000000000": ext, "index/20260101000000000": ix,
	}}
}

func TestSmallDirectoryVerifies(t *testing.T) {
	all, r := verify(t, small().open(t))
	for _, f := range all {
		if f.Kind != KindNoIndex { // the index is full
			t.Error(f.String())
		}
	}
	if r.Records != 6 || r.Units != 6 || r.Items != 19 {
		t.Errorf("%+v", r)
	}
}

// Whatever stands in the files, everything that reads them ends, without a panic, and listings stay within what the files hold.
func FuzzDirectory(f *testing.F) {
	whole := small()
	names := []string{"commitlog/00000000000000000000", "commitlog/00000000000000001024", "consumequeue/T/0/00000000000000000000",
		"consumequeue/T/0/00000000000000000080", "index/20260101000000000", "checkpoint", "consumequeue_ext/T/0/00000000000000000000"}
	f.Add([]byte{0, 0, 0, 1, 2, 3}, false)
	f.Add([]byte{2, 0, 8, 0x7f, 4, 0, 36, 0xff}, true)
	f.Add([]byte{0, 0, 100, 0, 2, 0, 20, 0, 3, 0, 0, 9, 4, 0, 60, 1, 5, 0, 47, 200}, false)
	f.Add([]byte{6, 0, 21, 34, 6, 0, 39, 14, 6, 0, 2, 1}, false)
	f.Add([]byte{3, 0, 12, 0xff, 3, 0, 13, 0x7f, 6, 0, 44, 100}, false)
	f.Fuzz(func(t *testing.T, changes []byte, crashed bool) {
		m := whole.clone()
		for ; len(changes) >= 4; changes = changes[4:] {
			b := m.files[names[int(changes[0])%len(names)]]
			at := int(binary.BigEndian.Uint16(changes[1:])) % (len(b) + 1)
			if at == len(b) {
				name := names[int(changes[0])%len(names)]
				m.files[name] = slices.Clip(b[:len(b)*int(changes[3])/255])
				continue
			}
			b[at] = changes[3]
		}
		if crashed {
			m.files["abort"] = []byte("1")
		}
		d, err := Open(Options{FS: m, Root: "/store", SegmentBytes: 1024, QueueFileBytes: 80})
		must(t, err)
		found := 0
		r, err := d.Verify(VerifyOptions{Found: func(f Finding) { found++; _ = f.String() }, Damaged: func(x Damage) {
			lost, err := d.LostUnits(x.Phy, x.Phy+message.PhyOffset(x.Bytes), 100)
			must(t, err)
			if x.Bytes <= 0 || len(lost) > 100 {
				t.Errorf("%+v, %d units", x, len(lost))
			}
			_, _, err = d.Neighbours(x.Topic, x.Queue, x.Offset, x.Phy)
			must(t, err)
		}, Queue: func(e QueueEnd) {
			if e.Dir == nil {
				return
			}
			kept, err := d.KeptBelow(e.Dir, message.PhyOffset(2048))
			must(t, err)
			if kept < 0 || kept > 8 {
				t.Errorf("offsets up to %d", kept)
			}
		}})
		must(t, err)
		if int64(found) != r.Findings+r.Notes || r.Records > 6 {
			t.Errorf("%d findings told, %+v", found, r)
		}
		from, to, err := d.Behind(r.End)
		must(t, err)
		if from > to || to-from > 1024 {
			t.Errorf("%d to %d behind the end, %d", from, to, r.End)
		}
		_, err = d.Summarize()
		must(t, err)
		records := 0
		must(t, d.Records(Place{}, 0, func(Record) bool { records++; return records < 100 }))
		if records == 100 {
			t.Error("more places than the files have room for")
		}
		must(t, d.Units(Place{}, 0, func(QueueUnit) bool { return true }))
		must(t, d.IndexItems(Place{}, 0, func(IndexLine) bool { return true }))
	})
}
