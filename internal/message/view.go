package message

import "encoding/binary"

// View is one decoded record. Topic, Body and Properties alias the parsed bytes and are valid as long as those are.
type View struct {
	Size                      int32 // TOTALSIZE in bytes; behind an ErrBlank: bytes left in the file
	Magic                     int32
	BodyCRC                   uint32
	QueueID                   QueueID
	Flag                      int32
	SysFlag                   int32
	QueueOffset               QueueOffset
	PhyOffset                 PhyOffset
	BornTimestamp             Millis
	StoreTimestamp            Millis
	BornHost                  Host
	StoreHost                 Host
	ReconsumeTimes            int32
	PreparedTransactionOffset PhyOffset
	Topic                     []byte
	Body                      []byte
	Properties                []byte
}

// ParseView decodes the record at the start of b into v; bytes behind the record are ignored. It checks magic, every
// length and that the parts add up to TOTALSIZE, but no CRC (see CheckCRC). Mirrors CommitLog.checkMessageAndReturnSize.
//
// Errors: ErrTornTail when b ends too early, ErrBlank at an end-of-file mark (v.Size and v.Magic are set), ErrNoRecord at
// zeros, otherwise a member of the ErrCorrupt family. Apart from ErrBlank, v is undefined after an error.
//
// hot: 0 allocs.
func ParseView(b []byte, v *View) error {
	if len(b) < BlankBytes {
		return ErrTornTail
	}
	be := binary.BigEndian
	v.Size = int32(be.Uint32(b))
	v.Magic = int32(be.Uint32(b[offMagic:]))
	switch v.Magic {
	case MagicV1, MagicV2:
	case MagicBlank:
		if v.Size < BlankBytes {
			return ErrBadSize
		}
		return ErrBlank
	default:
		if v.Size == 0 && v.Magic == 0 {
			return ErrNoRecord
		}
		return ErrBadMagic
	}
	size := int(v.Size)
	if size < RecordBytesMin {
		return ErrBadSize
	}
	if size > len(b) {
		return ErrTornTail
	}
	b = b[:size]
	v.BodyCRC = be.Uint32(b[offBodyCRC:])
	v.QueueID = QueueID(be.Uint32(b[offQueueID:]))
	v.Flag = int32(be.Uint32(b[offFlag:]))
	v.QueueOffset = QueueOffset(be.Uint64(b[offQueueOffset:]))
	v.PhyOffset = PhyOffset(be.Uint64(b[offPhyOffset:]))
	v.SysFlag = int32(be.Uint32(b[offSysFlag:]))
	v.BornTimestamp = Millis(be.Uint64(b[offBornTimestamp:]))
	bornBytes, storeBytes := 4, 4
	if v.SysFlag&SysFlagBornHostV6 != 0 {
		bornBytes = 16
	}
	if v.SysFlag&SysFlagStoreHostV6 != 0 {
		storeBytes = 16
	}
	topicLenBytes := 1
	if v.Magic == MagicV2 {
		topicLenBytes = 2
	}
	// Everything but body, topic and properties; one check makes all reads below safe up to the body.
	variable := size - (fixedBytes + bornBytes + 4 + storeBytes + 4 + topicLenBytes)
	if variable < 0 {
		return ErrBadSize
	}
	at := v.BornHost.get(b, offBornHost, bornBytes)
	v.StoreTimestamp = Millis(be.Uint64(b[at:]))
	at = v.StoreHost.get(b, at+8, storeBytes)
	v.ReconsumeTimes = int32(be.Uint32(b[at:]))
	v.PreparedTransactionOffset = PhyOffset(be.Uint64(b[at+4:]))
	n := int(int32(be.Uint32(b[at+12:])))
	at += 16
	if n < 0 || n > variable {
		return ErrBadLength
	}
	variable -= n
	v.Body = b[at : at+n : at+n]
	at += n
	if topicLenBytes == 2 {
		n = int(int16(be.Uint16(b[at:])))
	} else {
		n = int(int8(b[at]))
	}
	at += topicLenBytes
	if n < 0 || n > variable {
		return ErrBadLength
	}
	variable -= n
	v.Topic = b[at : at+n : at+n]
	at += n
	n = int(int16(be.Uint16(b[at:])))
	at += 2
	if n < 0 || n > variable {
		return ErrBadLength
	}
	if n != variable {
		return ErrSizeMismatch
	}
	v.Properties = b[at : at+n : at+n]
	return nil
}

// CheckCRC compares the stored body CRC with the body. An empty body passes, as in RocketMQ: its field is 0.
//
// hot: 0 allocs.
func (v *View) CheckCRC() bool {
	return len(v.Body) == 0 || BodyCRC(v.Body) == v.BodyCRC
}

// Record is the message in v, to be stored once more: what belongs to the place in the log (offsets, store time and store
// host) and to a transaction is left out. Its slices are v's.
//
// hot: 0 allocs.
func (v *View) Record() Record {
	return Record{Topic: v.Topic, Body: v.Body, Properties: v.Properties, BodyCRC: v.BodyCRC, QueueID: v.QueueID, Flag: v.Flag, SysFlag: v.SysFlag,
		ReconsumeTimes: v.ReconsumeTimes, BornTimestamp: v.BornTimestamp, BornHost: v.BornHost}
}

// TagsCode is the tags code of the record's TAGS property; TagsCodeFiller for a filler.
//
// hot: 0 allocs.
func (v *View) TagsCode() TagsCode {
	if v.IsFiller() {
		return TagsCodeFiller
	}
	tags, _ := GetProperty(v.Properties, PropertyTags)
	return TagsCodeOf(tags)
}
