package wire

import (
	"bytes"
	"math"
	"net/netip"
	"testing"

	"peregrine/internal/message"
)

// The pieces must make what frameWriter makes, whatever the values are.
func TestAnswersToSendsAreAsFrameWriterMakesThem(t *testing.T) {
	offsets := []message.PhyOffset{0, 77, math.MaxInt64}
	hosts := []message.Host{message.HostOf(netip.MustParseAddrPort("127.0.0.1:10911")), message.HostOf(netip.MustParseAddrPort("[2001:db8::1]:65535"))}
	n := 0
	for _, enc := range bothEncodings {
		for _, opaque := range []int32{0, 1, -1, math.MaxInt32, math.MinInt32} {
			for _, queueID := range []int32{0, 7, 12345, -1} {
				for _, transaction := range []string{"", "FD000000020F0C5FFD2B27949CB1600007", "quote\" and \x01 and \\"} {
					for _, region := range []string{"", "DefaultRegion", "r\"x"} {
						for _, traceOn := range []string{"", "true", "false"} {
							r := &SendMessageResponse{StoreHost: hosts[n%2], PhyOffsets: offsets[:n%4], QueueID: queueID, QueueOffset: int64(n) << (n % 50),
								TransactionID: []byte(transaction), Region: region, TraceOn: traceOn}
							if n%7 == 0 {
								r.MsgID = []byte("ready")
							}
							n++
							w := beginFrame([]byte("before"), enc, int32(ResponseSuccess), opaque, flagResponse, Version, LanguageJava, "")
							w.sendResponse(r)
							want := w.finish(0)
							if got := AppendSendResponse([]byte("before"), enc, opaque, ResponseSuccess, "", r); !bytes.Equal(got, want) {
								t.Fatalf("%+v\n got %q\nwant %q", r, got, want)
							}
						}
					}
				}
			}
		}
	}
}
