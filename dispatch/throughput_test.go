package dispatch

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// manyRecords is a log of n small records over the given number of queues, with the properties that a Java client sends.
func manyRecords(b *begun, n, queues int) {
	for i := range n {
		q := i % queues
		b.log.put(sample{topic: fmt.Sprint("BenchmarkTopic", q/8), queue: message.QueueID(q % 8), tags: "TagA", body: 128, unique: true})
	}
	b.log.confirm(b.log.end())
}

// onDisk is a store in a directory of its own with files of the usual size.
func onDisk(t testing.TB, shards int) *begun {
	s := openStore(t, storeOptions{fs: sysio.OS{}, root: t.TempDir(), queueFile: 6_000_000, segment: 64 << 20})
	b := &begun{log: newMemLog(s), store: s}
	b.Dispatcher = New(Options{Store: s, Log: b.log, Shards: shards})
	t.Cleanup(func() { b.Stop(time.Now()) })
	return b
}

// The budget is 0.01 of an allocation a record, everything included: queues, rings, files, batches.
func TestDispatchAllocatesNothingPerRecord(t *testing.T) {
	warm, measured := 100_000, 300_000
	if testing.Short() {
		warm, measured = warm/3, measured/3 // of fewer, what the runtime allocates by itself counts
	}
	for _, shards := range []int{1, 4} {
		b := onDisk(t, shards)
		manyRecords(b, warm+measured, 16)
		end := b.log.end()
		b.log.confirm(b.log.starts[warm])
		b.Start(0)
		b.mustCatchUp(t, b.log.starts[warm])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b.log.confirm(end)
		b.Wake()
		b.mustCatchUp(t, end)
		runtime.ReadMemStats(&after)
		if per := float64(after.Mallocs-before.Mallocs) / float64(measured); per > 0.01 {
			t.Errorf("%d shards: %.4f allocations a record", shards, per)
		} else {
			t.Logf("%d shards: %.5f allocations a record", shards, per)
		}
	}
}

// BenchmarkDispatch is the whole way from confirmed records to visible units, with real files. Run it with -cpu 1 for the
// rate of reader and shard on one core. The rate per second of processor time is the one to look at on a busy machine.
func BenchmarkDispatch(b *testing.B) {
	const records = 500_000
	for _, c := range []struct{ shards, queues int }{{1, 8}, {4, 8}, {1, 512}, {4, 512}} {
		b.Run(fmt.Sprintf("%d shards %d queues", c.shards, c.queues), func(b *testing.B) {
			source := onDisk(b, 1)
			manyRecords(source, records, c.queues)
			log := source.log
			b.ReportAllocs()
			b.SetBytes(int64(log.end()))
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				s := openStore(b, storeOptions{fs: sysio.OS{}, root: b.TempDir(), queueFile: 6_000_000, segment: 64 << 20})
				d := New(Options{Store: s, Log: log, Shards: c.shards})
				before := processorTime(b)
				b.StartTimer()
				d.Start(0)
				if err := d.CaughtUp(log.end(), soon()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				cpu += processorTime(b) - before
				d.Stop(soon())
				b.StartTimer()
			}
			b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
			b.ReportMetric(records*float64(b.N)/cpu.Seconds()/1e6, "Mrecords/cpu-s")
		})
	}
}

// processorTime is what this process has used.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
