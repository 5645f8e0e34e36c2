package broker

import (
	"sync"
	"testing"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// wakeRounds is the number of rounds of TestNoWakeUpIsLost in all, over both shapes.
const wakeRounds = 200_000

// Each round sends a message while the pull that waits for it is being parked. A lost wake-up would leave the pull held
// until its deadline, which is far behind the moment at which this test gives up.
func TestNoWakeUpIsLost(t *testing.T) {
	const queues = 8
	rounds := wakeRounds / 2 / queues
	if testing.Short() {
		rounds /= 20
	}
	shapes(t, func(t *testing.T, settings ...string) {
		b := startBroker(t, sysio.OS{}, t.TempDir(), append(settings, "mappedFileSizeCommitLog=67108864")...)
		dial(t, b.addr, wire.EncodingBinary).makeTopic("Wake", queues)
		var all sync.WaitGroup
		for q := range int32(queues) {
			consumer, producer := dial(t, b.addr, wire.EncodingBinary), dial(t, b.addr, wire.EncodingBinary)
			all.Go(func() {
				send := wire.AppendSendRequestV2(nil, wire.EncodingBinary, 1, 0, sendHeader("Wake", q, "UNIQ_KEY\x01k\x02"), []byte("x"))
				h := pullHeader("Wake", q, 0, "*")
				h.SysFlag |= wire.PullSysFlagSuspend
				h.SuspendTimeoutMillis = 60_000
				var pull []byte
				for i := range rounds {
					h.QueueOffset = int64(i)
					pull = wire.AppendPullRequest(pull[:0], wire.EncodingBinary, wire.RequestPullMessage, 1, h)
					if _, err := consumer.conn.Write(pull); err != nil {
						t.Error(err)
						return
					}
					if _, err := producer.conn.Write(send); err != nil {
						t.Error(err)
						return
					}
					if cmd, err := consumer.tryReceive(waitMax); err != nil || cmd.Code != 0 {
						t.Errorf("queue %d round %d: %v, code %d: lost wake-up", q, i, err, consumer.cmd.Code)
						return
					}
					if cmd, err := producer.tryReceive(waitMax); err != nil || cmd.Code != 0 {
						t.Errorf("queue %d round %d: send: %v", q, i, err)
						return
					}
				}
			})
		}
		all.Wait()
		if held := b.polls.Held(); held != 0 {
			t.Errorf("%d pulls are still held", held)
		}
		t.Logf("%d rounds, %d woken by an arrival", rounds*queues, b.polls.Woken())
	})
}
