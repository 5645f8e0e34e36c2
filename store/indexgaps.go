package store

import (
	"encoding/binary"
	"errors"

	"peregrine/internal/message"
)

// The original deletes index files that it distrusts after a crash and goes on in a new one; their keys come back only with
// messageIndexSafe (IndexService.load, 5.5.0). What is left is in order, and complete but for what no file covers: in front of the
// first file, or between two. Not every gap is one: a log may hold records without a key, and begin behind a file's first record.

// firstGap returns the number of the first of files, which are in order, in front of which keys of the log are in no file; len(files)
// if there is none. It reads the log between the files, in most cases one record each.
func (x *Index) firstGap(files []*indexFile, quit func() bool) (int, error) {
	after := message.PhyOffset(-1) // the newest record of the files before
	for i, f := range files {
		to := f.header.beginPhy
		if f.header.count <= 1 {
			to = f.header.endPhy + 1 // indexing would go on behind it
		}
		keyed, err := x.keysBetween(after, to, quit)
		if err != nil {
			return 0, err
		}
		if keyed {
			return i, nil
		}
		after = f.header.endPhy
	}
	return len(files), nil
}

// keysBetween tells whether the index stage of dispatch would find a key in a record behind the one at after and before to. It goes on
// like that stage: by the length of records, over what recovery stepped over, and else at the next file.
func (x *Index) keysBetween(after, to message.PhyOffset, quit func() bool) (bool, error) {
	segment := message.PhyOffset(x.s.SegmentBytes())
	damaged := x.s.Recovery().Damaged
	var buf []byte
	var v message.View
	need := message.PhyOffset(indexGapBytes)
	for pos := after; ; {
		if quit() {
			return false, ErrShutdown
		}
		if pos = max(pos, x.s.MinPhy()); pos >= to {
			return false, nil
		}
		for len(damaged) > 0 && damaged[0].Phy+message.PhyOffset(damaged[0].Bytes) <= pos {
			damaged = damaged[1:]
		}
		stop := min(to, pos-pos%segment+segment)
		if len(damaged) > 0 && damaged[0].Phy < stop {
			if damaged[0].Phy <= pos {
				pos = damaged[0].Phy + message.PhyOffset(damaged[0].Bytes)
				continue
			}
			stop = damaged[0].Phy
		}
		want := int(min(need, stop-pos))
		if len(buf) < want {
			buf = make([]byte, want)
		}
		n, err := x.s.ReadAt(buf[:want], pos)
		if n == 0 && pos < x.s.MinPhy() {
			continue // retention came first
		}
		if n == 0 && err != nil {
			return false, err
		}
		from := pos
		for b := buf[:n]; len(b) > 0; b = buf[pos-from : n] {
			if err := message.ParseView(b, &v); err != nil || v.PhyOffset != pos {
				if size := sizeOfTorn(b, err); size > 0 && pos+size <= stop && (pos > from || size > need) {
					need = max(indexGapBytes, size)
				} else {
					pos = stop // the end of the file, or what nobody can read
				}
				break
			}
			if pos > after && v.SysFlag&message.SysFlagTransactionMask != message.SysFlagTransactionRollback &&
				len(x.keysOf(&IndexRecord{Topic: v.Topic, Properties: v.Properties})) > 0 {
				return true, nil
			}
			pos += message.PhyOffset(v.Size)
		}
	}
}

// sizeOfTorn returns the length of a record of which b holds the first bytes only, 0 if b is no such thing.
func sizeOfTorn(b []byte, err error) message.PhyOffset {
	if !errors.Is(err, message.ErrTornTail) || len(b) < message.BlankBytes {
		return 0
	}
	if size := int64(int32(binary.BigEndian.Uint32(b))); size > int64(len(b)) {
		return message.PhyOffset(size)
	}
	return 0
}
