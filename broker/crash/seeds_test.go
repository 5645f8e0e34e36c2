package crash

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/sysio"
)

var (
	seedsFlag   = flag.Uint64("crash.seeds", 400, "how many lives, at most")
	secondsFlag = flag.Float64("crash.seconds", 8, "how long, at most")
	seedFlag    = flag.Uint64("crash.seed", 0, "run this seed only")
	firstFlag   = flag.Uint64("crash.first", 1, "the first seed")
)

// TestMain lets garbage grow, up to a point: a life is short and drops whole disks. No allocation is sampled: what the runtime notes of
// each place is never given back.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(512 << 20)
	runtime.MemProfileRate = 0
	os.Exit(m.Run())
}

// lifeTimeMax is how long a life may take on a busy machine before it counts as hanging. The longest takes some 100 ms.
const lifeTimeMax = 2 * time.Minute

// live runs a seed in a bubble of its own and returns what went wrong.
func live(t *testing.T, seed uint64, covered *coverage, spoil spoiler) (err error) {
	watchdog := time.AfterFunc(lifeTimeMax, func() {
		buf := make([]byte, 1<<20)
		panic(fmt.Sprintf("seed %d hangs: %s\n%s", seed, rerun(seed), buf[:runtime.Stack(buf, true)]))
	})
	defer watchdog.Stop()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("seed %d, %s: %v", seed, rerun(seed), p))
		}
	}()
	synctest.Test(t, func(t *testing.T) { err = newLife(seed, covered, spoil).run() })
	return err
}

func rerun(seed uint64) string {
	return fmt.Sprintf("run it again with: go test ./broker/crash -run TestSeeds -crash.seed=%d -v -count=1", seed)
}

// TestSeeds lives as many lives as the flags say.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		covered := &coverage{}
		if err := live(t, *seedFlag, covered, spoiler{}); err != nil {
			t.Fatalf("seed %d: %v", *seedFlag, err)
		}
		return
	}
	covered := &coverage{}
	before := residue()
	began := time.Now()
	deadline := began.Add(time.Duration(*secondsFlag * float64(time.Second)))
	next, lives := atomic.Uint64{}, atomic.Uint64{}
	next.Store(*firstFlag - 1)
	t.Run("lives", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for time.Now().Before(deadline) && !t.Failed() {
					seed := next.Add(1)
					if seed >= *firstFlag+*seedsFlag {
						return
					}
					if err := live(t, seed, covered, spoiler{}); err != nil {
						t.Errorf("seed %d: %v\n%s", seed, err, rerun(seed))
					}
					lives.Add(1)
				}
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d lives in %v, %.0f a second; cuts by phase, operation, file and moment:\n%s", lives.Load(), took.Round(time.Millisecond),
		float64(lives.Load())/took.Seconds(), covered)
	after := residue()
	t.Logf("before the lives: %+v, after them: %+v", before, after)
	if after.goroutines > before.goroutines {
		t.Errorf("the lives left %d goroutines behind", after.goroutines-before.goroutines)
	}
	if more := after.heapBytes - before.heapBytes; more > heapGrowthMax {
		t.Errorf("the lives left %d bytes on the heap behind", more)
	}
	if more := after.otherBytes - before.otherBytes; more > otherGrowthMax && !raceEnabled { // its shadow memory is anonymous, too
		t.Errorf("the lives left the process %d bytes larger", more)
	}
}

// What may be left of the memory of any number of lives: the table of coverage, pools, stacks.
const (
	heapGrowthMax  = 4 << 20
	otherGrowthMax = 8 << 20
)

// leftBehind is what a process holds when nothing is going on.
type leftBehind struct {
	goroutines int
	heapBytes  int64 // reachable
	anonBytes  int64 // RssAnon, 0 where the system does not tell
	otherBytes int64 // anonBytes less the heap and what the runtime holds for itself
}

// residue measures what is held after all garbage is gone. (Goroutines of a life cannot outlive it: its bubble waits for them.
// Files and mappings are counted by the disk, life by life.) What the runtime holds for itself grows by some 1.1 KB a life: it forgets
// to give back its notes of which sync.WaitGroup belonged to which bubble (runtime.removespecial of go1.26 frees none).
func residue() leftBehind {
	runtime.GC() // twice: pools let go of what they hold with the second
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r := leftBehind{goroutines: runtime.NumGoroutine(), heapBytes: int64(m.HeapAlloc)}
	if anon, err := sysio.RssAnon(); err == nil {
		r.anonBytes, r.otherBytes = anon, anon-int64(m.Sys-m.HeapReleased)
	}
	return r
}

// firstNoticed returns the first of some seeds in which the harness notices something, 0 if it never does.
func firstNoticed(t *testing.T, spoil spoiler) (uint64, error) {
	for seed := uint64(1); seed <= 200; seed++ {
		if err := live(t, seed, &coverage{}, spoil); err != nil {
			return seed, err
		}
	}
	return 0, nil
}

func TestTheHarnessNoticesALyingDisk(t *testing.T) {
	seed, err := firstNoticed(t, spoiler{lies: true})
	if err == nil {
		t.Fatal("a disk that acknowledges and does not write goes unnoticed")
	}
	t.Logf("seed %d: %.200s", seed, err)
}

func TestTheHarnessNoticesEarlyAcknowledgements(t *testing.T) {
	seed, err := firstNoticed(t, spoiler{early: true})
	if err == nil {
		t.Fatal("ASYNC_FLUSH that is taken for SYNC_FLUSH goes unnoticed")
	}
	t.Logf("seed %d: %.200s", seed, err)
}

// One byte of a body, of something durable, changes.
func TestTheHarnessNoticesDamage(t *testing.T) {
	spoil := spoiler{after: func(disk *sysio.FaultFS) {
		f, err := disk.OpenFile("/data/commitlog/00000000000000000000", 2, 0)
		if err != nil {
			return
		}
		defer f.Close()
		var b [1]byte
		if _, err := f.ReadAt(b[:], 89); err == nil {
			b[0] ^= 1
			f.WriteAt(b[:], 89)
		}
	}}
	seed, err := firstNoticed(t, spoil)
	if err == nil {
		t.Fatal("a changed byte goes unnoticed")
	}
	t.Logf("seed %d: %.200s", seed, err)
}
