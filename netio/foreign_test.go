package netio

import (
	"runtime/debug"
	"strings"
	"testing"
)

var foreign = []struct {
	name, bytes string
	want        *Reason
	says        string
}{
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ErrHTTP2, "gRPC"},
	{"GET", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", ErrHTTP, "HTTP request"},
	{"POST", "POST /x HTTP/1.1\r\n", ErrHTTP, "HTTP request"},
	{"HEAD", "HEAD / HTTP/1.1\r\n", ErrHTTP, "HTTP request"},
	{"PUT", "PUT / HTTP/1.1\r\n", ErrHTTP, "HTTP request"},
	{"OPTIONS", "OPTIONS / HTTP/1.1\r\n", ErrHTTP, "HTTP request"},
	{"CONNECT", "CONNECT x:1 HTTP/1.1\r\n", ErrHTTP, "HTTP request"},
	{"TLS ClientHello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ErrTLS, "TLS"},
	{"PROXY v1", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", ErrProxyProtocol, "PROXY"},
	{"noise", "\xde\xad\xbe\xef", ErrFrameLength, "frame length"},
}

func TestForeignProtocolsAreNamed(t *testing.T) {
	for _, f := range foreign {
		t.Run(f.name, func(t *testing.T) {
			s := startServer(t, &scripted{}, nil)
			for _, whole := range []bool{true, false} {
				c := dial(t, s.addr)
				if whole {
					c.send([]byte(f.bytes))
				} else {
					for i := range min(len(f.bytes), 4) {
						if _, err := c.Write([]byte{f.bytes[i]}); err != nil {
							break // TLS is known by its first byte
						}
					}
				}
				c.expectClosedAnyhow()
			}
			if got := s.Stats().Closed[f.want.Label()]; got != 2 {
				t.Errorf("counted %v", s.Stats().Closed)
			}
			if log := s.log.String(); !strings.Contains(log, f.says) || strings.Count(log, "\n") != 1 {
				t.Errorf("want one line that says %q, got:\n%s", f.says, log)
			}
		})
	}
}

// Case W11: 10,000 foreign connections cost no memory and one line.
func TestForeignProtocolsLeaveMemoryFlat(t *testing.T) {
	s := startServer(t, &scripted{}, nil)
	try := func(n int) {
		for i := range n {
			f := foreign[i%len(foreign)]
			c := dialQuiet(t, s.addr)
			_, _ = c.Write([]byte(f.bytes))
			c.expectClosedAnyhow()
			c.reset()
		}
	}
	try(1000)
	debug.FreeOSMemory()
	before := rssAnonKB(t)
	try(10_000)
	debug.FreeOSMemory()
	if grown := rssAnonKB(t) - before; grown > 10<<10 {
		t.Errorf("anonymous memory grew by %d KiB", grown)
	}
	if lines := strings.Count(s.log.String(), "\n"); lines > 3*len(foreign) {
		t.Errorf("%d log lines", lines)
	}
	if s.Stats().Connections != 0 {
		t.Errorf("%d connections left", s.Stats().Connections)
	}
}
