package transaction

import (
	"bytes"
	"strconv"

	"peregrine/internal/message"
)

// opProperties is the text of every op message of 5.x.
var opProperties = message.AppendProperty(message.AppendProperty(nil, message.PropertyWait, "true"), message.PropertyTags, opTag)

const opTag = "d"

// appendOp adds one half offset to the body of an op message.
func appendOp(body []byte, half message.QueueOffset) []byte {
	return append(strconv.AppendInt(body, int64(half), 10), ',')
}

// eachOp calls visit with the half offsets in the body of an op message, which may be one number without comma (4.9). What is
// no number, or negative, is left out: it names no half.
func eachOp(body []byte, visit func(half message.QueueOffset)) {
	for len(body) > 0 {
		part := body
		if at := bytes.IndexByte(body, ','); at >= 0 {
			part, body = body[:at], body[at+1:]
		} else {
			body = nil
		}
		if offset, ok := parseNumber(part); ok && offset >= 0 {
			visit(message.QueueOffset(offset))
		}
	}
}

// parseNumber is Long.parseLong for the texts that occur.
func parseNumber(text []byte) (int64, bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// cutOps splits pending op text into bodies as the original fills them: a body is full with the offset that reaches bytesMax.
func cutOps(pending []byte, bytesMax int) (body, rest []byte) {
	if len(pending) <= bytesMax {
		return pending, nil
	}
	end := bytes.IndexByte(pending[max(bytesMax-1, 0):], ',')
	if end < 0 {
		return pending, nil
	}
	end += max(bytesMax-1, 0) + 1
	return pending[:end], pending[end:]
}
