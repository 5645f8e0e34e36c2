package bench

import "strconv"

// Outcomes that no broker sends are counted under negative codes.
const (
	codeConnectionLost = -1 // the connection ended before the answer came
	codeUnanswered     = -2 // no answer until drainMax after the last send
	codeOther          = -3 // the table of distinct codes is full
)

// tally counts errors by code in fixed space, and keeps the first remark of each code as an example.
type tally struct {
	rows [errorCodesMax]tallyRow
	n    int
}

type tallyRow struct {
	code   int32
	count  uint64
	remark string
}

// add counts n errors. remark is copied the first time that its code is seen.
func (t *tally) add(code int32, n uint64, remark []byte) {
	for i := range t.rows[:t.n] {
		if t.rows[i].code == code {
			t.rows[i].count += n
			return
		}
	}
	if t.n >= len(t.rows)-1 && code != codeOther {
		t.add(codeOther, n, remark)
		return
	}
	t.rows[t.n] = tallyRow{code: code, count: n, remark: string(remark[:min(len(remark), remarkBytesMax)])}
	t.n++
}

func (t *tally) merge(from *tally) {
	for _, r := range from.rows[:from.n] {
		t.add(r.code, r.count, []byte(r.remark))
	}
}

func (t *tally) sum() (n uint64) {
	for _, r := range t.rows[:t.n] {
		n += r.count
	}
	return n
}

// codeName is what a report calls an outcome.
func codeName(code int32) string {
	switch code {
	case codeConnectionLost:
		return "connection lost"
	case codeUnanswered:
		return "no answer"
	case codeOther:
		return "other codes"
	case 1:
		return "1 SYSTEM_ERROR"
	case 2:
		return "2 SYSTEM_BUSY"
	case 3:
		return "3 REQUEST_CODE_NOT_SUPPORTED"
	case 10:
		return "10 FLUSH_DISK_TIMEOUT"
	case 11:
		return "11 SLAVE_NOT_AVAILABLE"
	case 12:
		return "12 FLUSH_SLAVE_TIMEOUT"
	case 13:
		return "13 MESSAGE_ILLEGAL"
	case 14:
		return "14 SERVICE_NOT_AVAILABLE"
	case 16:
		return "16 NO_PERMISSION"
	case 17:
		return "17 TOPIC_NOT_EXIST"
	}
	return strconv.Itoa(int(code))
}
