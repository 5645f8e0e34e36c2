package broker

import (
	"testing"

	"peregrine/internal/sysio"
	"peregrine/store/storetest"
	"peregrine/wire"
)

// A consumer that has fallen behind what a queue keeps in memory (4,096 units) is served by its loop, as long as the page cache
// has the rest: were it handed to the cold readers, which wait for a processor under load, it would fall behind for good.
func TestABacklogInThePageCacheNeedsNoColdReader(t *testing.T) {
	const count = 12_000
	dir := t.TempDir()
	b := startBroker(t, sysio.OS{}, dir)
	c := dial(t, b.addr, wire.EncodingBinary)
	c.makeTopic("Behind", 1)
	p := newPipeline(t, b, 64, wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, sendHeader("Behind", 0, "UNIQ_KEY\x01k\x02"), make([]byte, 128)))
	if err := p.run(count); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() bool { return b.dispatcher.BehindBytes() == 0 })
	for offset := int64(0); offset < count; {
		for _, v := range records(t, c.pull(pullHeader("Behind", 0, offset, "*")).Body) {
			if int64(v.QueueOffset) != offset {
				t.Fatalf("offset %d where %d is due", v.QueueOffset, offset)
			}
			offset++
		}
	}
	if cold := b.Stats().ColdPulls; (cold == 0) != storetest.TellsWhatIsCached(t, dir) {
		t.Errorf("%d cold pulls", cold)
	}
}
