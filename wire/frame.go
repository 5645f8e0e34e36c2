package wire

import "encoding/binary"

// FrameLength checks the length field of a frame, given as its first four bytes read as a big-endian int32, and returns it
// as the number of bytes that follow the field. The error is ErrFrameLength.
//
// hot: 0 allocs.
func FrameLength(prefix int32) (n int, err error) {
	if prefix < FrameLengthMin || prefix > FrameLengthMax {
		return 0, ErrFrameLength
	}
	return int(prefix), nil
}

// SplitFrame looks at the start of buf. When a whole frame is there, frame is that frame without its length field, as
// Decoder.Decode takes it, aliasing buf, and size counts its bytes with the field. When it is not, frame is nil and size is
// how many bytes are needed: 4 until the length is known, then the whole frame.
//
// hot: 0 allocs.
func SplitFrame(buf []byte) (frame []byte, size int, err error) {
	if len(buf) < 4 {
		return nil, 4, nil
	}
	n, err := FrameLength(int32(binary.BigEndian.Uint32(buf)))
	if err != nil {
		return nil, 0, err
	}
	if len(buf) < 4+n {
		return nil, 4 + n, nil
	}
	return buf[4 : 4+n : 4+n], 4 + n, nil
}
