package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Decoder decodes frames. It owns the scratch memory for unescaped text and the table of ext fields, and is used by one
// goroutine. The zero Decoder is ready.
type Decoder struct {
	scratch []byte     // unescaped texts of the current header
	ext     []extEntry // fields of the current header
	json    jsonScanner
	send    SendMessageHeader // of the current header, if that is a send whose keys are letters
}

// Decode decodes frame, which is one whole frame without its four bytes of length (see SplitFrame), into c. It overwrites
// every field of c; after an error c is undefined. Any error is one of the ErrMalformed family: close the connection.
// Mirrors RemotingCommand.decode.
//
// hot: 0 allocs once the scratch has grown to the connection's headers, no maps.
func (d *Decoder) Decode(frame []byte, c *Command) error {
	if len(frame) < FrameLengthMin || len(frame) > FrameLengthMax {
		return ErrFrameLength
	}
	word := binary.BigEndian.Uint32(frame)
	encoding, headerLen := Encoding(word>>24), int(word&0x00FFFFFF)
	if headerLen > len(frame)-4 {
		return ErrHeaderLength
	}
	header := frame[4 : 4+headerLen : 4+headerLen]
	*c = Command{Encoding: encoding, Body: frame[4+headerLen : len(frame) : len(frame)]}
	d.ext = d.ext[:0]
	var err error
	switch encoding {
	case EncodingJSON:
		err = d.decodeJSON(header, c)
	case EncodingBinary:
		err = d.decodeBinary(header, c)
	default:
		err = ErrEncoding
	}
	if err != nil {
		return err
	}
	if c.send == nil {
		c.ext.table = d.ext
	}
	return nil
}

// decodeBinary mirrors RocketMQSerializable.rocketMQProtocolDecode.
func (d *Decoder) decodeBinary(h []byte, c *Command) error {
	if len(h) < binaryHeaderFixedLength {
		return ErrHeaderBinary
	}
	be := binary.BigEndian
	c.Code = int32(int16(be.Uint16(h)))
	c.Language = Language(h[2])
	c.Version = int32(int16(be.Uint16(h[3:])))
	c.Opaque = int32(be.Uint32(h[5:]))
	c.Flag = int32(be.Uint32(h[9:]))
	n := int(int32(be.Uint32(h[13:])))
	h = h[17:]
	if n < 0 || n > len(h)-4 {
		return ErrHeaderBinary
	}
	if n > 0 {
		c.Remark = h[:n:n]
		h = h[n:]
	}
	n = int(int32(be.Uint32(h)))
	h = h[4:]
	if n < 0 || n > len(h) {
		return ErrHeaderBinary
	}
	c.HasExt = n > 0
	h = h[:n:n] // bytes behind the entries are ignored, as RocketMQ does
	switch RequestCode(c.Code) {
	case RequestSendMessageV2, RequestSendBatchMessage:
		if d.send.decodeLetters(h) {
			c.send, c.ext.letters = &d.send, h
			return nil
		}
	}
	ext := d.ext
	for len(h) > 0 {
		if len(h) < 6 {
			return ErrHeaderBinary
		}
		keyLen := int(int16(be.Uint16(h)))
		if keyLen < 0 || keyLen > len(h)-6 {
			return ErrHeaderBinary
		}
		valueLen := int(int32(be.Uint32(h[2+keyLen:])))
		at := 6 + keyLen
		if valueLen < 0 || valueLen > len(h)-at {
			return ErrHeaderBinary
		}
		if len(ext) == ExtEntriesMax {
			return ErrTooManyExt
		}
		ext = addExt(ext, h[2:2+keyLen:2+keyLen], h[at:at+valueLen:at+valueLen])
		h = h[at+valueLen:]
	}
	d.ext = ext
	return nil
}

// decodeJSON mirrors RemotingSerializable.decode of a RemotingCommand, with the tolerance of fastjson that clients rely
// on: numbers as text, ext values that are numbers or booleans, white space, unknown keys, any order.
func (d *Decoder) decodeJSON(h []byte, c *Command) error {
	s := &d.json
	s.start(h, d.scratchFor(h))
	if !s.open('{') {
		return ErrHeaderJSON
	}
	hasOpaque := false
	for first := true; ; first = false {
		key, more, err := s.nextKey(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch string(key) {
		case "code":
			err = s.int32Value(&c.Code)
		case "flag":
			err = s.int32Value(&c.Flag)
		case "opaque":
			hasOpaque = true
			err = s.int32Value(&c.Opaque)
		case "version":
			err = s.int32Value(&c.Version)
		case "language":
			err = s.languageValue(&c.Language)
		case "remark":
			c.Remark, _, err = s.textValue()
		case "extFields":
			err = d.decodeExt(s, c)
		default:
			err = s.skipValue()
		}
		if err != nil {
			return err
		}
	}
	if !s.atEnd() {
		return ErrHeaderJSON
	}
	if !hasOpaque {
		return ErrMissingOpaque
	}
	return nil
}

// decodeExt reads the value of extFields.
func (d *Decoder) decodeExt(s *jsonScanner, c *Command) error {
	ext := d.ext[:0] // a repeated extFields replaces the earlier one
	d.ext, c.HasExt = ext, false
	if s.peek() != '{' {
		_, null, err := s.textValue()
		if err == nil && !null {
			err = ErrHeaderJSON
		}
		return err
	}
	s.open('{')
	for first := true; ; first = false {
		var value []byte
		var null bool
		key, more, err := []byte(nil), true, error(nil)
		if !first {
			key = s.letterKey()
		}
		if key != nil {
			value, err = s.text()
		} else if key, more, err = s.nextKey(first); err == nil && more {
			value, null, err = s.textValue()
		}
		if !more && err == nil {
			break
		}
		if err != nil {
			return err
		}
		if null {
			continue
		}
		if len(ext) == ExtEntriesMax {
			return ErrTooManyExt
		}
		ext = addExt(ext, key, value)
	}
	d.ext, c.HasExt = ext, true
	return nil
}

// addExt appends an entry, field by field: put together first, its copy would wait for what was written a moment before.
func addExt(ext []extEntry, key, value []byte) []extEntry {
	n := len(ext)
	if n == cap(ext) {
		ext = slices.Grow(ext, 1)
	}
	ext = ext[:n+1]
	e := &ext[n]
	e.key, e.value = key, value
	return ext
}

// scratchFor gives room for everything unescaping h can yield, so that the scanner need not check: unescaped text is never
// longer than its escaped form. Headers without a backslash need none.
func (d *Decoder) scratchFor(h []byte) []byte {
	if bytes.IndexByte(h, '\\') < 0 {
		if cap(d.scratch) > scratchKeepBytes {
			d.scratch = nil
		}
		return nil
	}
	need := len(h) + wordBytes
	switch {
	case need > scratchKeepBytes:
		if cap(d.scratch) < need {
			d.scratch = make([]byte, need)
		}
	case cap(d.scratch) < need || cap(d.scratch) > scratchKeepBytes:
		// A power of two, so that headers of slowly growing size do not allocate each time.
		d.scratch = make([]byte, max(1024, 1<<bits.Len(uint(need-1))))
	}
	return d.scratch
}
