package clients

import "peregrine/internal/message"

// warning lets one line a minute through and counts the rest.
type warning struct {
	written    bool
	last       message.Millis
	suppressed int
}

// due says whether to write the line now, and how many were left out since the last one.
func (w *warning) due(now message.Millis) (suppressed int, write bool) {
	if w.written && now-w.last < warnEvery {
		w.suppressed++
		return 0, false
	}
	suppressed = w.suppressed
	w.written, w.last, w.suppressed = true, now, 0
	return suppressed, true
}
