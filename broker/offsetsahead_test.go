package broker

import (
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// Case S07 with ASYNC_FLUSH: a group consumed what a power cut took from the log. Its offsets do not stay ahead of the queues, one of which is gone
// as a whole, so that it gets the next message.
func TestNoOffsetIsAheadOfItsQueueAfterAPowerCut(t *testing.T) {
	fsys := sysio.NewFaultFS()
	b := startBroker(t, fsys, "/s", smallFiles, "flushIntervalCommitLog=3600000", "flushCommitLogThoroughInterval=3600000")
	c := dial(t, b.addr, wire.EncodingBinary)
	c.makeTopic("Cut", 2)
	send := func(queue int32, n int) {
		for range n {
			c.mustSend(sendHeader("Cut", queue, ""), make([]byte, 2000))
		}
	}
	send(0, 5)
	if _, err := b.store.CommitLog().Sync(b.store.Wrote()); err != nil {
		t.Fatal(err)
	}
	send(0, 5)
	send(1, 3)
	ends := map[message.QueueID]message.QueueOffset{0: 10, 1: 3}
	b.groups.LookupOrCreate("g")
	for id, end := range ends {
		c.drain("Cut", int32(id), 0, int(end))
		b.offsets.Commit([]byte("g"), []byte("Cut"), id, end)
		b.offsets.Commit([]byte("g"), []byte("Unknown"), id, end)
	}
	if err := b.offsets.Persist(); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for seed := range uint64(4) {
		dead := startBroker(t, fsys.PowerCut(newRand(seed)), "/s", smallFiles)
		c := dial(t, dead.addr, wire.EncodingBinary)
		for id, end := range ends {
			at := dead.store.Queue("Cut", id).Next()
			c.mustSend(sendHeader("Cut", int32(id), ""), []byte("next"))
			got, known := dead.offsets.Query([]byte("g"), []byte("Cut"), id)
			if !known || got != at {
				t.Errorf("seed %d: queue %d goes on at %d, the group at %d, known %v", seed, id, at, got, known)
			}
			if at < end {
				lost++
				if !strings.Contains(dead.lines.String(), "a group had consumed messages that the log lost") {
					t.Errorf("seed %d: no line says so", seed)
				}
			}
			if got, _ := dead.offsets.Query([]byte("g"), []byte("Unknown"), id); got != end {
				t.Errorf("seed %d: the offset of a topic that is not there is %d", seed, got)
			}
		}
		dead.stop()
	}
	if lost == 0 {
		t.Error("no seed lost a message: nothing was tested")
	}
}
