package bench

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// progress shows each second of a load in one line of a terminal. It writes nothing anywhere else.
type progress struct {
	w       io.Writer // nil: nobody looks
	written bool
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok {
		return &progress{}
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) show(of float64, at SeriesPoint) {
	if p.w == nil {
		return
	}
	errors := ""
	if len(at.Errors) > 0 {
		errors = fmt.Sprint("  errors ", at.Errors)
	}
	rate := at.Acked
	if rate == 0 {
		rate = at.Received
	}
	fmt.Fprintf(p.w, "\r\033[K%3.0f of %.0f s  %s messages/s  p50 %s  p99 %s  max %s%s", at.Second+at.Length, of, grouped(int64(float64(rate)/max(at.Length, 1e-9))),
		short(at.P50Ns), short(at.P99Ns), short(at.MaxNs), errors)
	p.written = true
}

// end takes the line away.
func (p *progress) end() {
	if p.written {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
