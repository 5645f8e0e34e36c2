package wire

import "errors"

// Reply is the answer to a request, made by whoever serves the request's code; how and where it is written is not its
// business.
type Reply struct {
	Code   ResponseCode
	Remark string
	Header any // nil or a struct (or pointer to one) with `wire` tags
	Body   []byte
	None   bool // nothing is sent at all
}

// AppendReply appends r as a whole answer frame to dst; nothing when r.None is set. The body is copied.
func AppendReply(dst []byte, enc Encoding, opaque int32, r *Reply) []byte {
	if r.None {
		return dst
	}
	return AppendResponse(dst, enc, opaque, r.Code, r.Remark, r.Header, r.Body)
}

// Refusal is an error that knows what to tell the client: the original's code and remark.
type Refusal struct {
	Code   ResponseCode
	Remark string
}

// Refuse makes a Refusal.
func Refuse(code ResponseCode, remark string) *Refusal { return &Refusal{Code: code, Remark: remark} }

func (r *Refusal) Error() string { return r.Remark }

// Reply is the answer that carries the refusal.
func (r *Refusal) Reply() Reply { return Reply{Code: r.Code, Remark: r.Remark} }

// ReplyOf is the answer for an error: a Refusal says itself what to send, everything else is a SYSTEM_ERROR with its text.
func ReplyOf(err error) Reply {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Reply()
	}
	return Reply{Code: ResponseSystemError, Remark: err.Error()}
}
