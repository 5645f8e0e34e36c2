package bench

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peregrine/wire"
)

// Each message of a run is in one of the sets at its end, whatever order, repeats and gaps the consumers saw.
func TestSequenceIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.IntRange(0, 60).Draw(t, "sent")
		arrivals := rapid.SliceOfN(rapid.IntRange(0, max(sent-1, 0)), 0, 90).Draw(t, "arrivals")
		if sent == 0 {
			arrivals = nil
		}
		unsure := map[uint64]struct{}{}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 59), 0, 5).Draw(t, "unsure") {
			unsure[uint64(n)] = struct{}{}
		}
		var s sequence
		seen, highest := map[int]bool{}, -1
		duplicates, reordered := 0, 0
		for _, n := range arrivals {
			if first := s.observe(uint64(n)); first == seen[n] {
				t.Fatalf("%d arrives for the first time: %v", n, first)
			}
			switch {
			case seen[n]:
				duplicates++
			case n < highest:
				reordered++
			}
			seen[n], highest = true, max(highest, n)
		}
		lost := 0
		for n := range sent {
			if _, doubtful := unsure[uint64(n)]; !doubtful && !seen[n] {
				lost++
			}
		}
		if got := s.lost(uint64(sent), unsure); got != uint64(lost) || s.duplicates != uint64(duplicates) || s.reordered != uint64(reordered) {
			t.Fatalf("lost %d, twice %d, out of order %d; want %d, %d, %d", got, s.duplicates, s.reordered, lost, duplicates, reordered)
		}
	})
}

// A gap of any length is counted and does not fill the memory.
func TestSequenceIsBounded(t *testing.T) {
	var s sequence
	s.observe(math.MaxUint32)
	if len(s.holes) != holesMax || s.lost(math.MaxUint32+1, nil) != math.MaxUint32 {
		t.Errorf("%d holes, %d lost", len(s.holes), s.lost(math.MaxUint32+1, nil))
	}
}

func TestStampsShowEveryChangedByte(t *testing.T) {
	want := stamp{run: 7, stream: 8, sequence: 1 << 40, intendedNs: -5}
	body := filler(100)
	want.put(body)
	if got, stamped, good := stampOf(body); got != want || !stamped || !good {
		t.Fatalf("%+v %v %v", got, stamped, good)
	}
	for i := range body {
		spoiled := slices.Clone(body)
		spoiled[i] ^= 0x20
		if _, stamped, good := stampOf(spoiled); stamped && good {
			t.Errorf("byte %d is changed, and nobody sees it", i)
		}
	}
	if _, stamped, _ := stampOf(filler(100)); stamped {
		t.Error("a body of others counts as ours")
	}
}

func TestPoissonArrivalsHaveTheRateAndNoPattern(t *testing.T) {
	s := newPoisson(0, 100e9, 1000, 1, 1)
	var gaps, squares float64
	n, last := 0, int64(0)
	for ; s.nextNs() != math.MaxInt64; n++ {
		gap := float64(s.nextAt - last)
		last = s.nextAt
		gaps, squares = gaps+gap, squares+gap*gap
		s.advance()
	}
	mean := gaps / float64(n)
	if deviation := math.Sqrt(squares/float64(n) - mean*mean); n < 98_500 || n > 101_500 || deviation/mean < 0.97 || deviation/mean > 1.03 {
		t.Errorf("%d arrivals in 100 s at 1000/s, gaps of %.0f ns on average, deviation %.2f of that", n, mean, deviation/mean)
	}
}

// consuming is an e2e load that a test can afford. The fake broker answers a connection's pulls one after the other, so each has one queue.
func consuming(f *fakeBroker) Options {
	o := shortLoad(f)
	o.Mode, o.consumes, o.Rate, o.Queues, o.PullConnections, o.Groups = "e2e", consumeArriving, 2000, 2, 2, 2
	return o
}

// besidesRate are the failures that a slow machine does not explain.
func besidesRate(rep *Report) []string {
	return slices.DeleteFunc(slices.Clone(rep.Failures), func(s string) bool {
		return strings.HasPrefix(s, "target missed") || strings.HasPrefix(s, "the generator was so late")
	})
}

func TestConsumersGetWhatIsSent(t *testing.T) {
	for _, batch := range []int{1, 4} {
		f := startFakeBroker(t, nil)
		o := consuming(f)
		o.Batch, o.HistogramFile = batch, filepath.Join(t.TempDir(), "e2e.hlog")
		rep := send(t, o)
		if bad := besidesRate(rep); len(bad) > 0 {
			t.Fatal(bad)
		}
		for _, g := range rep.Consume.Groups {
			if g.Received != f.messages.Load() || g.Lost+g.Duplicates+g.Reordered+g.Corrupt+g.Foreign != 0 {
				t.Errorf("%+v of %d messages", g, f.messages.Load())
			}
		}
		if d := rep.Consume.Delivery; d.Count < 2*200 || d.Count > 2*int64(f.messages.Load()) || d.MinNs <= 0 {
			t.Errorf("deliveries: %+v", d)
		} else if logged, _ := loggedTimes(t, o.HistogramFile); logged.TotalCount() != d.Count || logged.Max() != d.MaxNs {
			t.Errorf("the histogram log has %d deliveries up to %d ns, the report %+v", logged.TotalCount(), logged.Max(), d)
		}
	}
}

func TestConsumersSeeWhatABrokerDoesToMessages(t *testing.T) {
	once := func(change func(offsets []int) []int) func(*fakeBroker) {
		done := false
		return func(f *fakeBroker) {
			f.deliver = func(queue int32, offsets []int) []int {
				if done || queue != 1 || len(offsets) == 0 {
					return offsets
				}
				done = true
				return change(offsets)
			}
		}
	}
	var held []int
	for name, c := range map[string]struct {
		broker func(*fakeBroker)
		want   string
	}{
		"loses one":      {once(func(o []int) []int { return o[1:] }), "did not get 1 acknowledged"},
		"gives it twice": {once(func(o []int) []int { return append(o, o[0]) }), "got 1 messages twice"},
		"overtakes": {func(f *fakeBroker) {
			f.deliver = func(queue int32, offsets []int) []int {
				if queue != 1 {
					return offsets
				}
				switch {
				case held == nil:
					held = offsets[:1:1]
					return offsets[1:]
				case len(held) > 0:
					offsets, held = append(offsets, held...), []int{}
				}
				return offsets
			}
		}, "behind ones"},
		"spoils one": {func(f *fakeBroker) {
			done := false
			f.spoil = func(records []byte) {
				if i := bytes.Index(records, []byte("peregrine")); !done && i >= 0 {
					done, records[i] = true, 'P'
				}
			}
		}, "not what was sent"},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFakeBroker(t, c.broker)
			o := consuming(f)
			o.Groups, o.Connections, o.Size, o.Drain = 1, 1, 200, 200*time.Millisecond
			rep := send(t, o)
			if said := strings.Join(append(rep.Failures, rep.Warnings...), "\n"); !strings.Contains(said, c.want) {
				t.Errorf("the report says %q and %+v", said, rep.Consume.Groups)
			}
		})
	}
}

// Sends that were not acknowledged are no loss when they do not come, and no surprise when they do.
func TestWhatWasNotAcknowledgedIsNotMissed(t *testing.T) {
	f := startFakeBroker(t, func(f *fakeBroker) {
		f.answer = func(n uint64) (code wire.ResponseCode, remark string) {
			if n%100 == 7 {
				return 2, "busy"
			}
			return 0, ""
		}
	})
	rep := send(t, consuming(f))
	for _, g := range rep.Consume.Groups {
		if g.Lost+g.Duplicates != 0 || g.Received != f.messages.Load() {
			t.Errorf("%+v of %d", g, f.messages.Load())
		}
	}
	if len(rep.Errors) != 1 || rep.Errors[0].Code != 2 {
		t.Errorf("errors %+v", rep.Errors)
	}
}

func TestPullAndCatchupReadWhatIsThere(t *testing.T) {
	for _, kind := range []consumeKind{consumeAgain, consumeOnce} {
		f := startFakeBroker(t, func(f *fakeBroker) { f.topicKnown = 2 })
		o := consuming(f)
		o.consumes, o.Connections, o.Rate, o.Groups, o.Backlog, o.Warmup, o.Duration = kind, 0, 0, 1, 3000, 0, 3*time.Second
		o.HistogramFile = filepath.Join(t.TempDir(), "pull.hlog")
		rep := send(t, o)
		got, there := rep.Consume.Groups[0], f.messages.Load()
		if len(rep.Failures) > 0 || there < 3000 || got.Corrupt+got.Foreign > 0 {
			t.Fatalf("%+v, %v, %d there", got, rep.Failures, there)
		}
		if kind == consumeOnce && got.Received != there || kind == consumeAgain && got.Received < 2*there {
			t.Errorf("kind %d: %d received of %d", kind, got.Received, there)
		}
		if rep.Seconds <= 0 || rep.Consume.Rate <= 0 || rep.Consume.Pull.Count == 0 {
			t.Errorf("%+v", rep.Consume)
		}
		if logged, _ := loggedTimes(t, o.HistogramFile); logged.TotalCount() != rep.Consume.Pull.Count {
			t.Errorf("kind %d: the histogram log has %d pulls, the report %d", kind, logged.TotalCount(), rep.Consume.Pull.Count)
		}
	}
}

func TestReadingABacklogForTooLongFails(t *testing.T) {
	f := startFakeBroker(t, func(f *fakeBroker) {
		f.topicKnown = 2
		f.deliver = func(_ int32, offsets []int) []int {
			time.Sleep(time.Millisecond)
			return offsets
		}
	})
	o := consuming(f)
	o.consumes, o.Connections, o.Rate, o.Groups, o.Backlog, o.Warmup, o.Duration, o.PullBatch = consumeOnce, 0, 0, 1, 3000, 0, 50*time.Millisecond, 1
	rep, err := Run(context.Background(), o, &bytes.Buffer{})
	if err != nil || !strings.Contains(strings.Join(rep.Failures, " "), "was not read to its end") {
		t.Errorf("%v, %v", err, rep.Failures)
	}
}
