package broker

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// holdings is what a process holds.
type holdings struct {
	goroutines, descriptors, mappings int
	memoryBytes                       int64 // reachable heap and stacks
}

func (h holdings) exceeds(base holdings) bool {
	return h.goroutines > base.goroutines || h.descriptors > base.descriptors || h.memoryBytes > base.memoryBytes+heldBytesMax
}

// heldBytesMax is how much more memory may be held after any number of brokers: pools, and what the allocator splits badly. One
// broker that is kept holds more.
const heldBytesMax = 2 << 20

// holdingsNow counts, of mappings those of files below dir.
func holdingsNow(t *testing.T, dir string) holdings {
	t.Helper()
	runtime.GC() // twice: pools let go of what they hold with the second
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return holdings{runtime.NumGoroutine(), len(files), strings.Count(string(maps), dir), int64(m.HeapAlloc + m.StackInuse)}
}

// A broker that has stopped gives everything back: goroutines, descriptors, mappings, memory.
func TestAStoppedBrokerGivesEverythingBack(t *testing.T) {
	dir := t.TempDir()
	round := func(n int) {
		t.Run(fmt.Sprint(n), func(t *testing.T) { // whose end lets go of what the test itself holds of the broker
			b := startBroker(t, sysio.OS{}, dir, smallFiles, "enableConsumeQueueExt=true")
			c := dial(t, b.addr, wire.EncodingBinary)
			topic := fmt.Sprint("Topic", n%3)
			for i := range 30 {
				c.mustSend(sendHeader(topic, 0, fmt.Sprintf("TAGS\x01A\x02KEYS\x01k%d\x02", i)), make([]byte, 20<<10))
				c.mustSend(sendHeader(topic, 0, "DELAY\x011\x02"), []byte("later"))
			}
			c.drain(topic, 0, 0, 30)
			if holdingsNow(t, dir).mappings == 0 {
				t.Fatal("a running broker has no mapping: this test looks at the wrong place")
			}
			if n%3 == 2 {
				if cmd := c.call(wire.RequestDeleteTopicInBroker, &wire.TopicRequestHeader{Topic: topic}, nil); cmd.Code != 0 {
					t.Fatalf("delete: %d %s", cmd.Code, cmd.Remark)
				}
			}
			c.conn.Close()
			if !b.stop() {
				t.Fatal("the stop was not clean")
			}
		})
	}
	for n := range 5 {
		round(n)
	}
	base := holdingsNow(t, dir)
	for n := range 20 {
		round(n)
	}
	after := holdingsNow(t, dir)
	for deadline := time.Now().Add(30 * time.Second); after.exceeds(base) && time.Now().Before(deadline); after = holdingsNow(t, dir) {
		time.Sleep(100 * time.Millisecond) // workers of gnet's pool end after seconds of idling
	}
	if after.exceeds(base) || after.mappings != 0 {
		t.Errorf("more is held than before")
	}
	t.Logf("after 5 brokers: %+v, after 25: %+v", base, after)
}
