package message

import "encoding/binary"

// BatchElement is one message inside the body of a batch send. Body and Properties alias the batch body.
type BatchElement struct {
	Flag       int32
	Body       []byte
	Properties []byte // as sent: stored untouched
}

// BatchIter walks the elements of a batch body (MessageDecoder.decodeMessages, MessageExtEncoder.encode of a batch):
//
//	size  type    content
//	4     int32   size of the element, this field included
//	4     int32   magic, 0 on the wire, ignored
//	4     int32   body CRC, 0 on the wire, ignored
//	4     int32   the client's flag
//	4+n   bytes   body
//	2+p   bytes   properties text, int16 length
type BatchIter struct {
	rest []byte
	err  error
}

// Batch starts an iteration over body, which is borrowed for as long as iterator and elements are used.
func Batch(body []byte) BatchIter { return BatchIter{rest: body} }

// Next decodes the next element into e. It returns false at the end and at the first malformed element; Err tells which.
//
// hot: 0 allocs.
func (it *BatchIter) Next(e *BatchElement) bool {
	b := it.rest
	if len(b) == 0 || it.err != nil {
		return false
	}
	be := binary.BigEndian
	if len(b) < batchElementBytesMin {
		it.err = ErrBatchTornTail
		return false
	}
	size := int(int32(be.Uint32(b)))
	bodyLen := int(int32(be.Uint32(b[16:])))
	switch {
	case size < batchElementBytesMin || bodyLen < 0 || bodyLen > size-batchElementBytesMin:
		it.err = ErrBadBatch
		return false
	case size > len(b):
		it.err = ErrBatchTornTail
		return false
	}
	at := 20 + bodyLen
	propertiesLen := int(int16(be.Uint16(b[at:])))
	if propertiesLen < 0 || at+2+propertiesLen != size {
		it.err = ErrBadBatch
		return false
	}
	e.Flag = int32(be.Uint32(b[12:]))
	e.Body = b[20:at:at]
	e.Properties = b[at+2 : size : size]
	it.rest = b[size:]
	return true
}

// Err is nil after a complete iteration, else a member of the ErrCorrupt family.
func (it *BatchIter) Err() error { return it.err }

// AppendBatchElement appends one element to dst (MessageDecoder.encodeMessage). Properties longer than
// PropertiesBytesMax do not fit the layout: the caller checks.
func AppendBatchElement(dst []byte, flag int32, body, properties []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(batchElementBytesMin+len(body)+len(properties)))
	dst = be.AppendUint64(dst, 0) // magic and body CRC
	dst = be.AppendUint32(dst, uint32(flag))
	dst = be.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, body...)
	dst = be.AppendUint16(dst, uint16(len(properties)))
	return append(dst, properties...)
}
