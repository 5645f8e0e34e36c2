package wire

// Flags of a frame.
const (
	FlagResponse = flagResponse
	FlagOneway   = flagOneway
)

// AppendResponse appends a whole answer frame to dst. header is nil (no ext fields) or a struct, or pointer to one, with
// `wire` tags as DecodeHeader describes; body is copied. An answer that would not fit a frame is replaced by SYSTEM_ERROR
// with a remark that says so, because a longer frame would end the connection.
func AppendResponse(dst []byte, enc Encoding, opaque int32, code ResponseCode, remark string, header any, body []byte) []byte {
	begin := len(dst)
	w := beginFrame(dst, enc, int32(code), opaque, flagResponse, Version, LanguageJava, remark)
	if header != nil {
		w.beginExt()
		w.header(header)
		w.endExt()
	}
	dst = w.finish(len(body))
	if len(dst)-begin+len(body) > MaxFrameSize {
		w = beginFrame(dst[:begin], enc, int32(ResponseSystemError), opaque, flagResponse, Version, LanguageJava,
			"the answer is larger than a frame of the protocol may be")
		return w.finish(0)
	}
	return append(dst, body...)
}

// AppendRequest appends a whole request frame to dst; header and body as for AppendResponse. flag is 0 or FlagOneway. The
// caller keeps the frame below MaxFrameSize.
func AppendRequest(dst []byte, enc Encoding, code RequestCode, opaque, flag int32, language Language, version int32, header any, body []byte) []byte {
	w := beginFrame(dst, enc, int32(code), opaque, flag, version, language, "")
	if header != nil {
		w.beginExt()
		w.header(header)
		w.endExt()
	}
	return append(w.finish(len(body)), body...)
}

// AppendCommand appends c as a whole frame to dst in c.Encoding, ext fields in their order (RemotingCommand.encode).
func AppendCommand(dst []byte, c *Command) []byte {
	w := beginFrame(dst, c.Encoding, c.Code, c.Opaque, c.Flag, c.Version, c.Language, string(c.Remark))
	w.hasText = c.Remark != nil
	if c.HasExt {
		w.beginExt()
		for it := c.ext; ; {
			key, value, more := it.Next()
			if !more {
				break
			}
			at := w.escapedKey(key)
			if c.Encoding == EncodingJSON {
				w.dst = appendEscaped(w.dst, value)
			} else {
				w.dst = append(w.dst, value...)
			}
			w.endValue(at)
		}
		w.endExt()
	}
	return append(w.finish(len(c.Body)), c.Body...)
}

// escapedKey is key for names that come from elsewhere.
func (w *frameWriter) escapedKey(key []byte) int {
	if w.enc == EncodingJSON {
		return w.key(string(appendEscaped(nil, key)))
	}
	return w.key(string(key))
}
