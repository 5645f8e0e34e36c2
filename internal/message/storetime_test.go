package message

import (
	"net/netip"
	"testing"
)

func TestStoreTimeOfAgreesWithTheWholeRecord(t *testing.T) {
	for _, born := range []string{"10.0.0.1:1", "[2001:db8::1]:1"} {
		r := Record{Topic: []byte("T"), Body: []byte("hello"), StoreTimestamp: 1700000000001, BornHost: HostOf(netip.MustParseAddrPort(born)),
			StoreHost: HostOf(netip.MustParseAddrPort("10.0.0.2:2"))}
		raw := make([]byte, r.Size())
		r.EncodeTo(raw)
		got, ok := StoreTimeOf(raw[:min(len(raw), StoreTimePrefixBytes)])
		if !ok || got != r.StoreTimestamp {
			t.Errorf("born at %s: got %d, %v", born, got, ok)
		}
		for n := range 40 {
			if _, ok := StoreTimeOf(raw[:n]); ok {
				t.Errorf("%d bytes were enough", n)
			}
		}
	}
	if _, ok := StoreTimeOf(make([]byte, 100)); ok {
		t.Error("zeros have a store time")
	}
}
