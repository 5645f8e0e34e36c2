package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// running is a store with everything that belongs to this package, as broker puts it together.
type running struct {
	store      *store.Store
	dispatcher *Dispatcher
	keeper     *Keeper
	witness    *witness
}

func run(t testing.TB, o storeOptions, shards int, ko KeeperOptions) *running {
	t.Helper()
	o.keepsOpen = true
	r := &running{store: openStore(t, o), witness: newWitness(t)}
	r.witness.gaps = o.gaps
	r.dispatcher = New(Options{Store: r.store, Shards: shards, Announcer: r.witness, OnError: r.store.SetDispatchError})
	r.keeper = NewKeeper(r.dispatcher, r.store, ko)
	report := r.store.Recovery()
	r.dispatcher.Start(report.RedispatchFrom)
	r.keeper.Start()
	if err := r.dispatcher.CaughtUp(report.End, soon()); err != nil {
		t.Fatal(err)
	}
	return r
}

// stop ends it; clean as a broker does on SIGTERM, or roughly, for a test that has no more use for it.
func (r *running) stop(t testing.TB, clean bool) {
	t.Helper()
	drained := r.dispatcher.Stop(soon())
	err := r.keeper.Stop()
	if clean && (!drained || err != nil) {
		t.Fatal(drained, err)
	}
	if err := r.store.Close(clean && drained && err == nil); clean && err != nil {
		t.Fatal(err)
	}
}

// append puts one batch of records into random queues.
func (r *running) append(rnd *rand.Rand) (end message.PhyOffset, sent int, err error) {
	batch := make([]store.Message, 1+rnd.IntN(20))
	for i := range batch {
		topic, id := fmt.Sprint("Topic", rnd.IntN(6)), message.QueueID(rnd.IntN(4))
		batch[i].Record = message.Record{
			Topic: []byte(topic), QueueID: id, Body: make([]byte, rnd.IntN(400)),
			Properties: message.AppendProperty(nil, message.PropertyTags, fmt.Sprint("Tag", rnd.IntN(3))),
			BornHost:   message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4},
		}
		batch[i].BodyCRC = message.BodyCRC(batch[i].Body)
		batch[i].Queue = r.store.Queue(topic, id)
	}
	end = r.store.Append(batch)
	for i := range batch {
		if batch[i].Err != nil {
			err = batch[i].Err
		} else {
			sent++
		}
	}
	return end, sent, err
}

// send appends one batch and wakes who has to be woken. Without sync, the log is synced now and then only, as in ASYNC_FLUSH.
func (r *running) send(rnd *rand.Rand, sync bool) (sent int, err error) {
	end, sent, err := r.append(rnd)
	if sync || rnd.IntN(30) == 0 {
		if _, serr := r.store.CommitLog().Sync(end); serr != nil {
			return 0, serr
		}
	}
	r.dispatcher.Wake()
	return sent, err
}

// checkQueues walks the log and compares every queue with it: each record once, in order, without a gap, and nothing else. The
// log is whole, unless torn says that a crash may have left places in it that are no record: their offsets are held by
// pre-blank units. (FaultFS.Kill copies one file after the other while others write, so it leaves such places too.)
func checkQueues(t testing.TB, s *store.Store, torn bool) (records int) {
	t.Helper()
	next := make(map[*store.Queue]message.QueueOffset)
	limit := make(map[*store.Queue]message.QueueOffset) // behind the newest record, damaged ones included
	segment := message.PhyOffset(s.SegmentBytes())
	var v message.View
	steps := make(map[message.PhyOffset]message.PhyOffset)
	for _, d := range s.Recovery().Damaged {
		steps[d.Phy] = message.PhyOffset(d.Bytes)
	}
	for phy := s.MinPhy(); phy < s.Confirmed(); {
		b := make([]byte, min(segment-phy%segment, s.Confirmed()-phy))
		if n, err := s.ReadAt(b, phy); n != len(b) {
			t.Fatal(n, err)
		}
		for len(b) > 0 {
			err := message.ParseView(b, &v)
			if errors.Is(err, message.ErrBlank) {
				phy += message.PhyOffset(v.Size)
				break
			}
			if err != nil && torn {
				if steps[phy] == 0 {
					t.Fatalf("the log at %d: %v, and recovery did not say so", phy, err)
				}
				phy += steps[phy]
				break
			}
			if err != nil {
				t.Fatalf("the log at %d: %v", phy, err)
			}
			q := s.Queue(string(v.Topic), v.QueueID)
			limit[q] = max(limit[q], v.QueueOffset+1)
			if torn && (!v.CheckCRC() || v.Properties[len(v.Properties)-1] != message.PropertySeparator) {
				phy += message.PhyOffset(v.Size)
				b = b[v.Size:]
				continue
			}
			var u [1]store.Unit
			for torn && next[q] < v.QueueOffset {
				if n, err := q.ReadUnits(u[:], max(next[q], q.Min())); n != 1 || err != nil || next[q] >= q.Min() && !u[0].IsPreBlank() {
					t.Fatalf("%s-%d: unit %d names no record of the log: %+v %v", q.Topic(), q.ID(), next[q], u[0], err)
				}
				next[q]++
			}
			if v.QueueOffset != next[q] {
				t.Fatalf("the log itself jumps: %s-%d has %d after %d", q.Topic(), q.ID(), v.QueueOffset, next[q])
			}
			if n, err := q.ReadUnits(u[:], next[q]); n != 1 || err != nil {
				t.Fatalf("%s-%d: unit %d: %v (max %d)", q.Topic(), q.ID(), next[q], err, q.Max())
			}
			if want := (store.Unit{Phy: phy, Size: v.Size, Tags: v.TagsCode()}); u[0] != want {
				t.Fatalf("%s-%d: unit %d is %+v, want %+v", q.Topic(), q.ID(), next[q], u[0], want)
			}
			next[q]++
			records++
			phy += message.PhyOffset(v.Size)
			b = b[v.Size:]
		}
	}
	s.Queues(func(q *store.Queue) bool {
		kept := len(steps) > 0 // offsets of records that cannot be read are not given out again
		if q.Max() < next[q] || q.Next() < q.Max() || (q.Next() > limit[q] && !kept) {
			t.Errorf("%s-%d shows %d units and gives out %d, the log has %d", q.Topic(), q.ID(), q.Max(), q.Next(), next[q])
		}
		return true
	})
	return records
}

// hasty syncs and moves the checkpoint as often as possible, so that crashes find it in every state.
func hasty() KeeperOptions {
	return KeeperOptions{KeeperPace: KeeperPace{Interval: time.Millisecond, LeastPages: 1, ThoroughInterval: 5 * time.Millisecond}}
}

// Kill -9 and power cuts in the middle of sends, again and again on the same directory. Afterwards every queue has each
// record of the log once, in order and without a gap; the log has everything that was acknowledged, except after a power cut
// in ASYNC_FLUSH.
func TestQueuesSurviveCrashes(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for _, shards := range []int{1, 4} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d shards sync %v", shards, sync), func(t *testing.T) {
				seed := uint64(shards)
				rnd := rand.New(rand.NewPCG(seed, 7))
				disk := sysio.NewFaultFS()
				acked := 0
				for round := range rounds {
					r := run(t, storeOptions{fs: disk, sync: sync, gaps: true}, shards, hasty())
					if n := checkQueues(t, r.store, true); n < acked {
						t.Fatalf("round %d: %d records are left of %d acknowledged ones", round, n, acked)
					}
					var crash atomic.Pointer[sysio.FaultFS]
					var ackedNow atomic.Int64
					var senders waitGroup
					for sender := range 2 {
						senders.Go(func() {
							rnd := rand.New(rand.NewPCG(seed, uint64(round*10+sender)))
							for crash.Load() == nil {
								n, err := r.send(rnd, sync)
								if err != nil {
									t.Error(err)
									return
								}
								if crash.Load() == nil {
									ackedNow.Add(int64(n))
								}
							}
						})
					}
					for target := int64(200 + rnd.IntN(3000)); ackedNow.Load() < target && !t.Failed(); {
						time.Sleep(100 * time.Microsecond)
					}
					sofar := ackedNow.Load()
					var next *sysio.FaultFS
					kill := round%2 == 0
					if kill {
						next = disk.Kill()
					} else {
						next = disk.PowerCut(rand.New(rand.NewPCG(seed, uint64(round))))
					}
					crash.Store(next)
					senders.Wait()
					r.stop(t, false)
					if kill || sync {
						acked += int(sofar)
					} else {
						acked = 0 // ASYNC_FLUSH: a power cut may cost whatever is not synced
					}
					disk = next
				}
				r := run(t, storeOptions{fs: disk, sync: sync, gaps: true}, shards, hasty())
				checkQueues(t, r.store, true)
				r.stop(t, true)
			})
		}
	}
}

// waitGroup is sync.WaitGroup under a name that the parameter sync does not hide.
type waitGroup = sync.WaitGroup

// A clean stop leaves nothing to do for the next start, and it too shows everything.
func TestCleanRestart(t *testing.T) {
	disk := sysio.NewFaultFS()
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 4 {
		r := run(t, storeOptions{fs: disk}, 4, hasty())
		checkQueues(t, r.store, false)
		if !r.store.Recovery().Clean {
			t.Fatal("the start after a clean stop is not clean")
		}
		for range 100 {
			if _, err := r.send(rnd, false); err != nil {
				t.Fatal(err)
			}
		}
		r.stop(t, true)
		disk = disk.PowerCut(nil) // a clean stop has synced everything
	}
}

func TestSyncFlushShowsNothingThatIsNotSynced(t *testing.T) {
	for _, shards := range []int{1, 4} {
		r := run(t, storeOptions{sync: true}, shards, hasty())
		rnd := rand.New(rand.NewPCG(3, 3))
		for range 20 {
			before := r.dispatcher.LowWater()
			end, _, err := r.append(rnd)
			if err != nil {
				t.Fatal(err)
			}
			r.dispatcher.Wake()
			if err := r.dispatcher.CaughtUp(end, time.Now().Add(time.Millisecond)); !errors.Is(err, ErrTimeout) {
				t.Fatal("dispatched what is not synced:", err)
			}
			if r.dispatcher.LowWater() != before {
				t.Fatal("the low-water mark passed the flushed position")
			}
			checkQueuesUpTo(t, r.store)
			if _, err := r.store.CommitLog().Sync(end); err != nil {
				t.Fatal(err)
			}
			r.dispatcher.Wake()
			if err := r.dispatcher.CaughtUp(end, soon()); err != nil {
				t.Fatal(err)
			}
		}
		checkQueues(t, r.store, false)
		r.stop(t, true)
	}
}

// checkQueuesUpTo checks that no queue names a record beyond Confirmed.
func checkQueuesUpTo(t testing.TB, s *store.Store) {
	t.Helper()
	s.Queues(func(q *store.Queue) bool {
		var u [1]store.Unit
		if q.Max() > 0 {
			if n, err := q.ReadUnits(u[:], q.Max()-1); n != 1 || err != nil || u[0].Phy+message.PhyOffset(u[0].Size) > s.Confirmed() {
				t.Fatalf("%s-%d shows %+v, confirmed is %d (%v)", q.Topic(), q.ID(), u[0], s.Confirmed(), err)
			}
		}
		return true
	})
}
