package wire

import (
	"encoding/binary"
	"strconv"

	"peregrine/internal/message"
)

// SendMessageResponse is the ext part of the answer to a send (SendMessageResponseHeader).
type SendMessageResponse struct {
	// MsgID is a ready-made message id. When empty the id is made of StoreHost and PhyOffsets: one offset id for each
	// stored message, joined by commas.
	MsgID      []byte
	StoreHost  message.Host
	PhyOffsets []message.PhyOffset // borrowed; its first element gives the id of a single message

	QueueID       int32 // the queue really used
	QueueOffset   int64 // of the first message
	TransactionID []byte
	Region        string // MSG_REGION, left out when empty
	TraceOn       string // TRACE_ON: "true" or "false", left out when empty
}

// AppendSendResponse appends the whole answer frame to a send to dst. r is borrowed; nil leaves the ext fields out, which
// suits errors only: for codes 0, 10, 11 and 12 clients read them without looking.
//
// hot: 0 allocs when dst has room.
func AppendSendResponse(dst []byte, enc Encoding, opaque int32, code ResponseCode, remark string, r *SendMessageResponse) []byte {
	if r != nil && code == ResponseSuccess && remark == "" {
		return appendSent(dst, enc, opaque, r)
	}
	w := beginFrame(dst, enc, int32(code), opaque, flagResponse, Version, LanguageJava, remark)
	if r != nil {
		w.sendResponse(r)
	}
	return w.finish(0)
}

func (w *frameWriter) sendResponse(r *SendMessageResponse) {
	w.beginExt()
	w.num("queueId", int64(r.QueueID))
	if len(r.TransactionID) > 0 {
		w.text("transactionId", r.TransactionID)
	}
	at := w.key("msgId")
	w.dst = r.appendMsgID(w.dst)
	w.endValue(at)
	if r.TraceOn != "" {
		w.str("TRACE_ON", r.TraceOn)
	}
	if r.Region != "" {
		w.str("MSG_REGION", r.Region)
	}
	w.num("queueOffset", r.QueueOffset)
	w.endExt()
}

func (r *SendMessageResponse) appendMsgID(dst []byte) []byte {
	if len(r.MsgID) > 0 {
		return append(dst, r.MsgID...)
	}
	for i, phy := range r.PhyOffsets {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.StoreHost.AppendMsgID(dst, phy)
	}
	return dst
}

// sentPieces is what stands between the values of the answer to a send that succeeded.
type sentPieces struct{ queueID, transactionID, msgID, traceOn, region, queueOffset, opaque, end string }

// sentPiecesOf has them by encoding. The first ones begin with room for the frame's and the header's length. Binary ones end with room
// for the length of the value behind them; their first one has the opaque in it, at binaryOpaqueAt, and the length of all ext fields at
// binaryExtLenAt.
var sentPiecesOf = [2]sentPieces{
	EncodingJSON: {
		queueID:       "\x00\x00\x00\x00\x00\x00\x00\x00" + `{"code":0,"extFields":{"queueId":"`,
		transactionID: `","transactionId":"`,
		msgID:         `","msgId":"`,
		traceOn:       `","TRACE_ON":"`,
		region:        `","MSG_REGION":"`,
		queueOffset:   `","queueOffset":"`,
		opaque:        `"},"flag":1,"language":"JAVA","opaque":`,
		end:           `,"` + serializeTypeKey + `":"JSON","version":513}`,
	},
	EncodingBinary: {
		queueID: "\x00\x00\x00\x00\x01\x00\x00\x00" + "\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00" +
			"\x00\x07queueId\x00\x00\x00\x00", // code, language, version, opaque, flag, no remark, length of the ext fields
		transactionID: "\x00\x0dtransactionId\x00\x00\x00\x00",
		msgID:         "\x00\x05msgId\x00\x00\x00\x00",
		traceOn:       "\x00\x08TRACE_ON\x00\x00\x00\x00",
		region:        "\x00\x0aMSG_REGION\x00\x00\x00\x00",
		queueOffset:   "\x00\x0bqueueOffset\x00\x00\x00\x00",
	},
}

const (
	binaryOpaqueAt = 8 + 5
	binaryExtLenAt = 8 + 17
)

// appendSent writes the same as frameWriter does for a send that succeeded, without asking for the encoding at every step.
//
// hot: 0 allocs when dst has room.
func appendSent(dst []byte, enc Encoding, opaque int32, r *SendMessageResponse) []byte {
	begin, p, be, binaryForm := len(dst), &sentPiecesOf[enc], binary.BigEndian, enc == EncodingBinary
	dst = append(dst, p.queueID...)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(r.QueueID), 10)
	if binaryForm {
		be.PutUint32(dst[at-4:], uint32(len(dst)-at))
	}
	if len(r.TransactionID) > 0 {
		dst = append(dst, p.transactionID...)
		if at = len(dst); binaryForm {
			be.PutUint32(dst[at-4:], uint32(len(r.TransactionID)))
			dst = append(dst, r.TransactionID...)
		} else {
			dst = appendEscaped(dst, r.TransactionID)
		}
	}
	dst = append(dst, p.msgID...)
	at = len(dst)
	if dst = r.appendMsgID(dst); binaryForm {
		be.PutUint32(dst[at-4:], uint32(len(dst)-at))
	}
	if r.TraceOn != "" {
		dst = append(dst, p.traceOn...)
		if binaryForm {
			be.PutUint32(dst[len(dst)-4:], uint32(len(r.TraceOn)))
		}
		dst = append(dst, r.TraceOn...)
	}
	if r.Region != "" {
		dst = append(dst, p.region...)
		if binaryForm {
			be.PutUint32(dst[len(dst)-4:], uint32(len(r.Region)))
			dst = append(dst, r.Region...)
		} else {
			dst = appendEscaped(dst, r.Region)
		}
	}
	dst = append(dst, p.queueOffset...)
	at = len(dst)
	dst = strconv.AppendInt(dst, r.QueueOffset, 10)
	frame := dst[begin:]
	if binaryForm {
		be.PutUint32(dst[at-4:], uint32(len(dst)-at))
		be.PutUint32(frame[binaryOpaqueAt:], uint32(opaque))
		be.PutUint32(frame[binaryExtLenAt:], uint32(len(frame)-binaryExtLenAt-4))
	} else {
		dst = append(dst, p.opaque...)
		dst = strconv.AppendInt(dst, int64(opaque), 10)
		dst = append(dst, p.end...)
		frame = dst[begin:]
	}
	be.PutUint32(frame, uint32(len(frame)-4))
	be.PutUint32(frame[4:], uint32(enc)<<24|uint32(len(frame)-8)&0x00FFFFFF)
	return dst
}
