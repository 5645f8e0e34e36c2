package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peregrine/internal/message"
)

// The low-water mark against its definition: the smallest position of a record that is not done, else what is read.
func TestLowWaterIsTheOldestRecordNotDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 4).Draw(t, "shards")
		start := message.PhyOffset(rapid.Int64Range(0, 1000).Draw(t, "start"))
		p := newProgress(shards)
		p.begin(start)
		type record struct {
			phy  message.PhyOffset
			done bool
		}
		var records []*record
		pending := make([][][]*record, shards) // per shard, batches of records
		read := Mark{Pos: start, Newest: NoRecord}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "read") {
				open := make([]*batch, shards)
				filled := make([][]*record, shards)
				for range rapid.IntRange(0, 8).Draw(t, "records") {
					sh := rapid.IntRange(0, shards).Draw(t, "shard")
					if sh < shards { // else a record that no queue shows
						if len(pending[sh]) == batchesPerShard {
							break
						}
						if open[sh] == nil {
							open[sh] = &batch{before: read}
						}
						r := &record{phy: read.Pos}
						records = append(records, r)
						filled[sh] = append(filled[sh], r)
					}
					read = Mark{Pos: read.Pos + 10, Newest: read.Pos, StoreTime: message.Millis(read.Pos)}
				}
				p.handOut(open, read)
				for sh, f := range filled {
					if f != nil {
						pending[sh] = append(pending[sh], f)
					}
				}
			} else {
				sh := rapid.IntRange(0, shards-1).Draw(t, "done")
				if len(pending[sh]) == 0 {
					continue
				}
				for _, r := range pending[sh][0] {
					r.done = true
				}
				pending[sh] = pending[sh][1:]
				p.done(sh)
			}
			want := read.Pos
			for _, r := range records {
				if !r.done {
					want = min(want, r.phy)
				}
			}
			got := p.mark()
			if got.Pos != want || message.PhyOffset(p.low.Load()) != want {
				t.Fatalf("low is %d, want %d", got.Pos, want)
			}
			if got.Newest == NoRecord != (want == start) || got.Newest != NoRecord && (got.Newest != want-10 || got.StoreTime != message.Millis(want-10)) {
				t.Fatalf("the record before %d is %+v", want, got)
			}
		}
	})
}

func TestCaughtUpWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(1)
		p.begin(100)
		if err := p.wait(100, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := p.wait(101, time.Now().Add(time.Second)); !errors.Is(err, ErrTimeout) {
			t.Fatal(err)
		}
		reached, never := make(chan error, 1), make(chan error, 1)
		go func() { reached <- p.wait(150, time.Time{}) }()
		go func() { never <- p.wait(151, time.Now().Add(time.Hour)) }()
		synctest.Wait()
		p.handOut([]*batch{{before: Mark{Pos: 100}}}, Mark{Pos: 150})
		select {
		case <-reached:
			t.Fatal("released although a batch is pending")
		default:
		}
		p.done(0)
		if err := <-reached; err != nil {
			t.Fatal(err)
		}
		p.end(ErrStopped)
		p.end(ErrTimeout) // the first one stays
		if err := <-never; !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		if err := p.wait(200, time.Time{}); !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		if err := p.wait(150, time.Time{}); err != nil {
			t.Fatal(err)
		}
	})
}
