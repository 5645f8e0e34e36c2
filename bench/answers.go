package bench

import (
	"encoding/binary"

	"peregrine/wire"
)

// answer is what the load generator needs of one response.
type answer struct {
	opaque int32
	code   int32
	remark []byte // aliases the frame or the decoder; only for codes other than 0
}

// answerReader takes responses out of one connection's read buffer. It belongs to one worker.
type answerReader struct {
	dec wire.Decoder
	cmd wire.Command
}

// next looks at the first bytes of buf. size 0 means that no whole frame is there yet and need bytes are wanted; otherwise
// size bytes are used up. ok is false for a frame that is no response (a broker may push requests): it is to be skipped.
// An error means that the stream makes no sense any more.
//
// hot: 0 allocs
func (r *answerReader) next(buf []byte) (a answer, size, need int, ok bool, err error) {
	frame, n, err := wire.SplitFrame(buf)
	if err != nil {
		return answer{}, 0, 0, false, err
	}
	if frame == nil {
		return answer{}, 0, n, false, nil
	}
	// A binary header has code, opaque and flag at fixed places, and of a success nothing else is wanted: walking its ext
	// fields would cost more than the rest of the turn. JSON headers and errors are decoded in full.
	if len(frame) >= 4+21 && wire.Encoding(frame[0]) == wire.EncodingBinary {
		h := frame[4:]
		code, flag := int16(binary.BigEndian.Uint16(h)), binary.BigEndian.Uint32(h[9:])
		if code == 0 && flag&1 == 1 {
			return answer{opaque: int32(binary.BigEndian.Uint32(h[5:]))}, n, 0, true, nil
		}
	}
	if err := r.dec.Decode(frame, &r.cmd); err != nil {
		return answer{}, 0, 0, false, err
	}
	if !r.cmd.IsResponse() {
		return answer{}, n, 0, false, nil
	}
	a = answer{opaque: r.cmd.Opaque, code: r.cmd.Code}
	if a.code != 0 {
		a.remark = r.cmd.Remark
	}
	return a, n, 0, true, nil
}
