package wire

import (
	"encoding/binary"
	"strconv"
)

// frameWriter appends one frame: header fields first, then ext fields, then finish. Its methods mirror the field order of
// both encodings; it lives on the caller's stack.
type frameWriter struct {
	dst    []byte
	begin  int // position of the length field
	extLen int // binary: position of the ext length, 0 when no ext was begun
	enc    Encoding
	// What JSON writes behind the ext fields.
	opaque   int32
	flag     int32
	version  int32
	language Language
	remark   string
	hasText  bool // the remark is written, even when empty
	first    bool // no ext field yet
}

// beginFrame starts a frame. A remark is written when it is not empty.
func beginFrame(dst []byte, enc Encoding, code, opaque, flag, version int32, language Language, remark string) frameWriter {
	w := frameWriter{dst: dst, begin: len(dst), enc: enc, opaque: opaque, flag: flag, version: version, language: language,
		remark: remark, hasText: remark != "", first: true}
	w.dst = append(w.dst, 0, 0, 0, 0, byte(enc), 0, 0, 0)
	if enc == EncodingBinary {
		be := binary.BigEndian
		w.dst = be.AppendUint16(w.dst, uint16(code))
		w.dst = append(w.dst, byte(language))
		w.dst = be.AppendUint16(w.dst, uint16(version))
		w.dst = be.AppendUint32(w.dst, uint32(opaque))
		w.dst = be.AppendUint32(w.dst, uint32(flag))
		w.dst = be.AppendUint32(w.dst, uint32(len(remark)))
		w.dst = append(w.dst, remark...)
		w.extLen = len(w.dst)
		w.dst = be.AppendUint32(w.dst, 0)
		return w
	}
	w.dst = append(w.dst, `{"code":`...)
	w.dst = strconv.AppendInt(w.dst, int64(code), 10)
	return w
}

// beginExt starts the ext fields, which may stay empty. Without it there are none.
func (w *frameWriter) beginExt() {
	if w.enc == EncodingJSON {
		w.dst = append(w.dst, `,"extFields":{`...)
	}
}

// endExt ends the ext fields.
func (w *frameWriter) endExt() {
	if w.enc == EncodingJSON {
		w.dst = append(w.dst, '}')
		return
	}
	binary.BigEndian.PutUint32(w.dst[w.extLen:], uint32(len(w.dst)-w.extLen-4))
}

// key writes the key of an ext field and leaves room for the value's length; value then ends it. key must need no escape.
func (w *frameWriter) key(key string) (valueLenAt int) {
	if w.enc == EncodingJSON {
		if !w.first {
			w.dst = append(w.dst, ',')
		}
		w.first = false
		w.dst = append(w.dst, '"')
		w.dst = append(w.dst, key...)
		w.dst = append(w.dst, `":"`...)
		return 0
	}
	w.dst = binary.BigEndian.AppendUint16(w.dst, uint16(len(key)))
	w.dst = append(w.dst, key...)
	w.dst = append(w.dst, 0, 0, 0, 0)
	return len(w.dst)
}

// endValue ends the value that was appended to dst since key returned valueLenAt.
func (w *frameWriter) endValue(valueLenAt int) {
	if w.enc == EncodingJSON {
		w.dst = append(w.dst, '"')
		return
	}
	binary.BigEndian.PutUint32(w.dst[valueLenAt-4:], uint32(len(w.dst)-valueLenAt))
}

// text writes a field whose value may need escapes.
func (w *frameWriter) text(key string, value []byte) {
	at := w.key(key)
	if w.enc == EncodingJSON {
		w.dst = appendEscaped(w.dst, value)
	} else {
		w.dst = append(w.dst, value...)
	}
	w.endValue(at)
}

// str is text for strings.
func (w *frameWriter) str(key, value string) {
	at := w.key(key)
	if w.enc == EncodingJSON {
		w.dst = appendEscaped(w.dst, value)
	} else {
		w.dst = append(w.dst, value...)
	}
	w.endValue(at)
}

// num writes an integer field.
func (w *frameWriter) num(key string, value int64) {
	at := w.key(key)
	w.dst = strconv.AppendInt(w.dst, value, 10)
	w.endValue(at)
}

// boolean writes a boolean field.
func (w *frameWriter) boolean(key string, value bool) {
	at := w.key(key)
	w.dst = strconv.AppendBool(w.dst, value)
	w.endValue(at)
}

// finish ends the header and fills in the lengths for a body of bodyLen bytes, which the caller appends.
func (w *frameWriter) finish(bodyLen int) []byte {
	if w.enc == EncodingJSON {
		w.dst = append(w.dst, `,"flag":`...)
		w.dst = strconv.AppendInt(w.dst, int64(w.flag), 10)
		w.dst = append(w.dst, `,"language":"`...)
		w.dst = append(w.dst, w.language.String()...)
		w.dst = append(w.dst, `","opaque":`...)
		w.dst = strconv.AppendInt(w.dst, int64(w.opaque), 10)
		if w.hasText {
			w.dst = append(w.dst, `,"remark":"`...)
			w.dst = appendEscaped(w.dst, w.remark)
			w.dst = append(w.dst, '"')
		}
		w.dst = append(w.dst, `,"`+serializeTypeKey+`":"JSON","version":`...)
		w.dst = strconv.AppendInt(w.dst, int64(w.version), 10)
		w.dst = append(w.dst, '}')
	}
	headerLen := len(w.dst) - w.begin - 8
	binary.BigEndian.PutUint32(w.dst[w.begin:], uint32(4+headerLen+bodyLen))
	binary.BigEndian.PutUint32(w.dst[w.begin+4:], uint32(w.enc)<<24|uint32(headerLen)&0x00FFFFFF)
	return w.dst
}

const hexLower = "0123456789abcdef"

// mustEscape tells which bytes a JSON text cannot hold as they are.
var mustEscape = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// appendEscaped appends the inside of a JSON text: quotes, backslashes and control characters are escaped, everything else
// stays as it is, as fastjson writes it. The bytes need not be valid UTF-8.
//
// hot: 0 allocs when dst has room.
func appendEscaped[T ~string | ~[]byte](dst []byte, text T) []byte {
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !mustEscape[c] {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexLower[c>>4], hexLower[c&15])
		}
	}
	return append(dst, text[start:]...)
}
