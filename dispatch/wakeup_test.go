package dispatch

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"peregrine/internal/message"
)

// A lost wake-up leaves the reader asleep in front of confirmed records. Each round confirms one record and waits until it
// is dispatched, so that the reader goes to sleep all the time and no later Wake repairs a loss.
func TestNoWakeUpIsLost(t *testing.T) {
	rounds := int64(200_000)
	if testing.Short() {
		rounds /= 20
	}
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			b := begin(t, shards, nil)
			for i := range rounds + 1 {
				s := sample{topic: "T", queue: message.QueueID(i % 7)}
				if i%4 != 0 {
					// No shard has work with these: the reader itself moves the low-water mark, and the next record is
					// confirmed just when it goes to sleep. With all others it sleeps long before.
					s.flag = message.SysFlagTransactionPrepared
				}
				b.log.put(s)
			}
			b.Start(0)
			stuck := time.AfterFunc(2*time.Minute, func() {
				buf := make([]byte, 1<<20)
				panic(fmt.Sprintf("a wake-up was lost: %+v\n%s", b.Stats(), buf[:runtime.Stack(buf, true)]))
			})
			defer stuck.Stop()
			for _, end := range b.log.starts[1:] {
				b.log.confirm(end)
				b.Wake()
				for b.LowWater() < end {
					runtime.Gosched()
				}
			}
			if s := b.Stats(); s.Parks < rounds/10 {
				t.Fatalf("the reader slept only %d times: this proves nothing", s.Parks)
			}
		})
	}
}

func TestWakeAllocatesNothing(t *testing.T) {
	b := begin(t, 1, nil)
	if n := testing.AllocsPerRun(1000, b.Wake); n != 0 {
		t.Errorf("%v allocations a Wake", n)
	}
}
