package bench

import (
	"encoding/binary"
	"hash/crc32"
)

// stampBytes is what the begin of every body says about it; a shorter body carries nothing, and cannot be verified.
//
//	CRC-32C of all that follows in the body  4
//	stampMagic                               4
//	run                                      4   tells the messages of this run from those of others
//	stream                                   4   the connection that sent it; see run.streamOf
//	sequence                                 8   counts a stream's messages to one queue, from 0
//	intended                                 8   ns on the run's clock: when the schedule wanted it sent
const stampBytes = 32

const stampMagic = 0x50674231

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp is the place of a message in what was sent.
type stamp struct {
	run        uint32
	stream     uint32
	sequence   uint64
	intendedNs int64
}

// put writes the stamp over the begin of body, which has at least stampBytes.
//
// hot: 0 allocs
func (s stamp) put(body []byte) {
	be := binary.BigEndian
	be.PutUint32(body[4:], stampMagic)
	be.PutUint32(body[8:], s.run)
	be.PutUint32(body[12:], s.stream)
	be.PutUint64(body[16:], s.sequence)
	be.PutUint64(body[24:], uint64(s.intendedNs))
	be.PutUint32(body, crc32.Checksum(body[4:], castagnoli))
}

// stampOf reads the stamp of a body. stamped is false when it has none (another program sent it), good is false when it has one and a byte of
// the body is not what was sent.
//
// hot: 0 allocs
func stampOf(body []byte) (s stamp, stamped, good bool) {
	be := binary.BigEndian
	if len(body) < stampBytes || be.Uint32(body[4:]) != stampMagic {
		return stamp{}, false, false
	}
	s = stamp{run: be.Uint32(body[8:]), stream: be.Uint32(body[12:]), sequence: be.Uint64(body[16:]), intendedNs: int64(be.Uint64(body[24:]))}
	return s, true, be.Uint32(body) == crc32.Checksum(body[4:], castagnoli)
}
