package dispatch

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// queueWrites is the fault of writing to ConsumeQueue files: their names are digits, and the mapped log is not written to.
func queueWrites(err error, times int) sysio.Fault {
	return sysio.Fault{Op: sysio.OpWrite, Path: "0*", Err: err, Times: times}
}

// alarms collects what OnError is told.
type alarms struct {
	mu   sync.Mutex
	told []error
}

func (a *alarms) tell(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, err)
}

func (a *alarms) all() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.told)
}

// faulty is a dispatcher over a store on a disk that can be told to fail.
func faulty(t testing.TB, shards int) (*sysio.FaultFS, *running, *alarms) {
	disk := sysio.NewFaultFS()
	r := &running{store: openStore(t, storeOptions{fs: disk, keepsOpen: true}), witness: newWitness(t)}
	a := &alarms{}
	r.dispatcher = New(Options{Store: r.store, Shards: shards, Announcer: r.witness, OnError: func(err error) {
		a.tell(err)
		r.store.SetDispatchError(err)
	}})
	r.keeper = NewKeeper(r.dispatcher, r.store, hasty())
	r.dispatcher.Start(0)
	r.keeper.Start()
	return disk, r, a
}

func TestAQueueMayBeUnwritableForAMoment(t *testing.T) {
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "error": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, r, a := faulty(t, 4)
				rnd := rand.New(rand.NewPCG(1, 1))
				disk.Inject(queueWrites(cause, 40))
				for range 50 {
					if _, err := r.send(rnd, false); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.dispatcher.CaughtUp(r.store.Wrote(), soon()); err != nil {
					t.Fatal(err)
				}
				checkQueues(t, r.store, false)
				if len(a.all()) != 0 {
					t.Fatal("an alarm for what went away by itself:", a.all())
				}
				r.stop(t, true)
			})
		})
	}
}

// Rule 9 of store.md 5.7: what cannot be made visible must not be accepted. A full disk heals, in order and without a gap.
func TestAFullDiskRefusesSendsUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, r, a := faulty(t, 4)
		rnd := rand.New(rand.NewPCG(2, 2))
		heal := disk.Inject(queueWrites(syscall.ENOSPC, 0))
		begin := time.Now()
		for range 50 {
			if _, err := r.send(rnd, false); err != nil {
				t.Fatal(err)
			}
		}
		for r.dispatcher.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if waited := time.Since(begin); waited < retryTimeMax || waited > retryTimeMax+2*retryPauseMax {
			t.Fatal("the alarm came after", waited)
		}
		var qe *QueueError
		if err := r.dispatcher.Err(); !errors.Is(err, ErrQueueWrite) || !errors.As(err, &qe) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		if sent, err := r.send(rnd, false); err == nil || sent != 0 {
			t.Fatal("sends are accepted although they would not become visible")
		}
		time.Sleep(10 * time.Minute)
		heal()
		if err := r.dispatcher.CaughtUp(r.store.Wrote(), time.Now().Add(2*retryPauseMax)); err != nil {
			t.Fatal(err)
		}
		if told := a.all(); len(told) != 2 || told[0] == nil || told[1] != nil || r.dispatcher.Err() != nil {
			t.Fatal("told", told)
		}
		if _, err := r.send(rnd, false); err != nil {
			t.Fatal("still refused:", err)
		}
		if err := r.dispatcher.CaughtUp(r.store.Wrote(), soon()); err != nil {
			t.Fatal(err)
		}
		checkQueues(t, r.store, false)
		r.stop(t, true)
	})
}

func TestABrokenDiskIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, r, a := faulty(t, 4)
		rnd := rand.New(rand.NewPCG(3, 3))
		heal := disk.Inject(queueWrites(syscall.EIO, 0))
		for range 50 {
			if _, err := r.send(rnd, false); err != nil {
				t.Fatal(err)
			}
		}
		err := r.dispatcher.CaughtUp(r.store.Wrote(), time.Now().Add(time.Hour))
		if !errors.Is(err, ErrQueueWrite) || !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		heal()
		r.dispatcher.Wake()
		time.Sleep(time.Hour)
		if told := a.all(); len(told) != 1 || r.dispatcher.Err() != err {
			t.Fatal(told)
		}
		if sent, err := r.send(rnd, false); err == nil || sent != 0 {
			t.Fatal("sends are accepted")
		}
		if r.dispatcher.Stop(soon()) {
			t.Fatal("a stop with something left is not clean")
		}
		r.stop(t, false)
	})
}

func TestStopDoesNotWaitForAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, r, _ := faulty(t, 1)
		disk.Inject(queueWrites(syscall.ENOSPC, 0))
		if _, err := r.send(rand.New(rand.NewPCG(4, 4)), false); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if r.dispatcher.Stop(begin.Add(5*time.Second)) || time.Since(begin) != 5*time.Second {
			t.Fatal("stopped after", time.Since(begin))
		}
		r.stop(t, false)
	})
}

// A disk that hangs inside a write holds up its shard; Stop comes back all the same.
func TestStopDoesNotWaitForAHangingDisk(t *testing.T) {
	disk, r, _ := faulty(t, 1)
	gate := sysio.NewGate()
	fault := queueWrites(nil, 0)
	fault.Gate = gate
	disk.Inject(fault)
	if _, err := r.send(rand.New(rand.NewPCG(5, 5)), false); err != nil {
		t.Fatal(err)
	}
	gate.Await(1)
	if r.dispatcher.Stop(time.Now()) {
		t.Fatal("drained?")
	}
	gate.Open()
	<-r.dispatcher.done
	r.stop(t, false)
}

// What recovery has stepped over, dispatch steps over; the messages around it are there.
func TestDamageThatRecoverySteppedOver(t *testing.T) {
	disk := sysio.NewFaultFS()
	rnd := rand.New(rand.NewPCG(6, 6))
	r := &running{store: openStore(t, storeOptions{fs: disk, keepsOpen: true}), dispatcher: New(Options{})} // never started
	for r.store.Wrote() < 3*256<<10 {
		if _, err := r.send(rnd, false); err != nil {
			t.Fatal(err)
		}
	}
	crashed := disk.Kill()
	places := damageablePlaces(t, r.store)
	if err := r.store.Close(false); err != nil {
		t.Fatal(err)
	}
	// A body that its CRC contradicts in the first file, and a header that is nonsense in the second.
	for _, place := range places {
		f, err := crashed.OpenFile(place.path, syscall.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xEE, 0xEE, 0xEE}, place.at); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	again := run(t, storeOptions{fs: crashed, gaps: true}, 4, hasty())
	report := again.store.Recovery()
	if report.DamagedCount != 2 || report.End < 3*256<<10 {
		t.Fatalf("%+v", report)
	}
	if s := again.dispatcher.Stats(); s.Failed || s.DamagedBytes != report.Damaged[0].Bytes+report.Damaged[1].Bytes {
		t.Fatalf("%+v, %+v", s, report)
	}
	shown := 0
	again.store.Queues(func(q *store.Queue) bool {
		for at := q.Min(); at < q.Max(); at++ {
			var u [1]store.Unit
			if _, err := q.ReadUnits(u[:], at); err != nil {
				t.Fatal(err)
			}
			if u[0].IsPreBlank() {
				continue // it keeps the place of one that is lost
			}
			for _, d := range report.Damaged {
				if u[0].Phy >= d.Phy && u[0].Phy < d.Phy+message.PhyOffset(d.Bytes) {
					t.Errorf("%s-%d shows a damaged record", q.Topic(), q.ID())
				}
			}
			shown++
		}
		return true
	})
	if shown == 0 {
		t.Fatal("nothing is shown")
	}
	again.stop(t, true)
}
