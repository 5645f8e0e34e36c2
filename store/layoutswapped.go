package store

import (
	"encoding/binary"
	"io"
	"os"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// refuseSwapped refuses a log in which a file has the name of another one: files were swapped, renamed or copied over each other. Recovery
// would end the log in front of it, cut the queues to that end and give their offsets out again. It reads two heads of records per file.
func (lay *layout) refuseSwapped(fsys sysio.FS, set settings) error {
	for _, f := range lay.log {
		belongs, err := belongsTo(fsys, f, set.segmentBytes)
		if err != nil {
			return err
		}
		if belongs >= 0 {
			return refuse(f.path, "its records are those of position %d, the file %s: were files swapped or renamed? "+
				"Give it that name back, or bring the right files back from a copy", belongs, fileName(belongs))
		}
	}
	return nil
}

// belongsTo returns where the file begins, of those of a log, to which the records of f belong; -1 when that is f, or when nothing says so.
// One record does not: the position of a damaged one may be anything. The one behind it has to agree.
func belongsTo(fsys sysio.FS, f dataFile, segmentBytes int64) (int64, error) {
	file, err := fsys.OpenFile(f.path, os.O_RDONLY, 0)
	if err != nil {
		return -1, err
	}
	defer file.Close()
	size, first, err := headAt(file, 0)
	if err != nil || first < 0 || first == f.start || first%segmentBytes != 0 || size > segmentBytes {
		return -1, err
	}
	_, second, err := headAt(file, size)
	if err != nil || second != first+size {
		return -1, err
	}
	return first, nil
}

// headAt reads the head of a record: its length, and the position that it says of itself, -1 if there is no such thing.
func headAt(file sysio.File, at int64) (size, phy int64, err error) {
	var b [message.StoreTimePrefixBytes]byte
	n, err := file.ReadAt(b[:], at)
	if err != nil && err != io.EOF {
		return 0, -1, err
	}
	if _, isRecord := message.StoreTimeOf(b[:n]); !isRecord {
		return 0, -1, nil
	}
	size, phy = int64(int32(binary.BigEndian.Uint32(b[:]))), int64(binary.BigEndian.Uint64(b[phyFieldEnd-8:]))
	if size <= 0 {
		return 0, -1, nil
	}
	return size, phy, nil
}
