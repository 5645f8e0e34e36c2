package delay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// On a virtual clock, where nothing but waiting takes time, every message is stored at the millisecond when it is due.
func TestMessagesComeWhenTheyAreDue(t *testing.T) {
	for _, syncFlush := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, sysio.NewFaultFS(), options{syncFlush: syncFlush})
			defer b.stop()
			r := rand.New(rand.NewPCG(1, 2))
			due := map[message.QueueID][]message.Millis{}
			for i := range 200 {
				level := 1 + r.Int32N(4)
				m := b.send(level, fmt.Sprint(i))
				due[message.QueueID(level)] = append(due[message.QueueID(level)], m.StoreTimestamp+b.service.Levels[level-1])
				time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
			}
			time.Sleep(2*time.Hour + time.Second)
			for level, want := range due {
				if _, got := b.arrived(level); !slices.Equal(got, want) {
					t.Errorf("level %d: stored at\n%v, due at\n%v", level, got, want)
				}
			}
			stats := b.service.Stats().Levels
			for _, l := range stats {
				if l.Delivered != uint64(len(due[message.QueueID(l.Level)])) || l.Lateness[0] != l.Delivered || l.Pending() != 0 {
					t.Errorf("%+v", l)
				}
			}
		})
	}
}

// A broker without delayed messages does nothing for them; with one that waits it looks at the clock now and then.
func TestNothingIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, sysio.NewFaultFS(), options{})
		defer b.stop()
		var looks atomic.Int64
		synctest.Wait()
		b.service.opts.Now = func() message.Millis { looks.Add(1); return b.now() }
		time.Sleep(time.Hour)
		if n := looks.Load(); n != 0 {
			t.Errorf("%d looks at the clock in an idle hour", n)
		}
		b.send(4, "in two hours")
		time.Sleep(time.Hour)
		if n := looks.Load(); n > int64(time.Hour/clockLookInterval)+2 {
			t.Errorf("%d looks at the clock while one message waits", n)
		}
	})
}

// What cannot be stored now is tried again, in order, and holds up no other level.
func TestARefusedMessageWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, sysio.NewFaultFS(), options{})
		defer b.stop()
		full := func(m *store.Message) error {
			if m.QueueID == 1 {
				return store.ErrDiskFull
			}
			return nil
		}
		b.refuse.Store(&full)
		for i := range 3 {
			b.send(1, fmt.Sprint(i))
			b.send(2, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		if got, _ := b.arrived(1); len(got) != 0 {
			t.Errorf("refused and stored: %v", got)
		}
		if got, _ := b.arrived(2); fmt.Sprint(got) != "[0 1 2]" {
			t.Errorf("the other level has %v", got)
		}
		if n := b.service.Stats().Levels[0].Failures; n < uint64(time.Minute/retryPauseMax)-2 || n > uint64(time.Minute/retryPauseMin) {
			t.Errorf("%d attempts in a minute", n)
		}
		b.refuse.Store(nil)
		time.Sleep(retryPauseMax)
		if got, _ := b.arrived(1); fmt.Sprint(got) != "[0 1 2]" {
			t.Errorf("after the refusals: %v", got)
		}
	})
}

// A record that can never be delivered does not stop those behind it.
func TestAPoisonedRecordIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, sysio.NewFaultFS(), options{})
		defer b.stop()
		b.send(1, "before")
		for _, text := range []string{"DELAY\x011\x02", "DELAY\x011\x02REAL_TOPIC\x01a/b\x02REAL_QID\x010\x02", "DELAY\x011\x02REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x010\x02"} {
			b.append([]store.Message{{Record: message.Record{Topic: scheduleTopic, Body: []byte("x"), BodyCRC: message.BodyCRC([]byte("x")), Properties: []byte(text),
				BornHost: message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4}}}})
		}
		b.send(1, "behind")
		time.Sleep(2 * time.Second)
		if got, _ := b.arrived(1); fmt.Sprint(got) != "[before behind]" {
			t.Errorf("got %v", got)
		}
		if n := b.service.Stats().Levels[0].Undeliverable; n != 3 || !b.log.has("cannot be delivered") {
			t.Errorf("%d undeliverable", n)
		}
	})
}

// Case D01: offsets outside of the queue are corrected, logged and written back within one interval; what is sent then comes.
func TestStoredOffsetsOutsideOfTheQueueAreCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sysio.NewFaultFS()
		b := start(t, disk, options{})
		for range 3 {
			b.send(2, "old")
			b.send(3, "old")
		}
		time.Sleep(11 * time.Second)
		b.stop()
		must(t, sysio.AtomicWriteFile(disk, stateFile, []byte(`{"offsetTable":{2:-5,3:1000000000}}`), false))
		b = start(t, disk, options{})
		defer b.stop()
		b.send(2, "new")
		b.send(3, "new")
		time.Sleep(10*time.Second + 100*time.Millisecond)
		text, err := sysio.ReadFile(disk, stateFile)
		must(t, err)
		if l, _, err := parse(text); err != nil || l.OffsetTable[2] != 4 || l.OffsetTable[3] < 3 || l.OffsetTable[3] > 4 {
			t.Errorf("after one interval the file says %s", text)
		}
		if b.service.Stats().Corrected != 2 || !b.log.has("stored=-5 corrected=0") || !b.log.has("stored=1000000000 corrected=3") {
			t.Errorf("%d corrected; %s", b.service.Stats().Corrected, b.log.text.String())
		}
		time.Sleep(time.Second)
		// Level 2 began again at 0, as in the original.
		if got, _ := b.arrived(2); fmt.Sprint(got) != "[old old old old old old new]" {
			t.Errorf("level 2: %v", got)
		}
		if got, _ := b.arrived(3); fmt.Sprint(got) != "[old old old new]" {
			t.Errorf("level 3: %v", got)
		}
	})
}

// A shorter delay in the table counts at once for messages that were stored with the longer one, and levels that are gone stay.
func TestAnotherTableOfLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sysio.NewFaultFS()
		b := start(t, disk, options{levels: "1h 1h 1h"})
		b.send(1, "long")
		b.send(3, "gone")
		synctest.Wait()
		b.stop()
		b = start(t, disk, options{levels: "5s 10s"})
		if got, _ := b.arrived(1); fmt.Sprint(got) != "[long]" {
			t.Errorf("the shorter level has %v", got)
		}
		if !b.log.has("messageDelayLevel does not have") {
			t.Error("nobody says that a message has no level")
		}
		b.stop()
		b = start(t, disk, options{levels: "5s 10s 1h"})
		defer b.stop()
		time.Sleep(time.Hour)
		if got, _ := b.arrived(3); fmt.Sprint(got) != "[gone]" {
			t.Errorf("the level that is back has %v", got)
		}
	})
}

// What a level delivered before a kill is found in the log also when the starts in between had no such level.
func TestDeliveredBeforeTheLevelWasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sysio.NewFaultFS()
		b := start(t, disk, options{levels: "1s 1s 1s 1h"})
		for i := range 3 {
			b.send(3, fmt.Sprint(i))
		}
		b.send(4, "late")
		time.Sleep(3 * time.Second)
		if got, _ := b.arrived(3); len(got) != 3 {
			t.Fatalf("before the kill: %v", got)
		}
		disk = b.kill(disk.Kill)
		for range 2 {
			b = start(t, disk, options{levels: "1s 5s"})
			b.send(1, "short")
			time.Sleep(time.Minute)
			b.stop()
		}
		b = start(t, disk, options{levels: "1s 1s 1s 1h"})
		defer b.stop()
		b.send(3, "3")
		time.Sleep(2 * time.Hour)
		if got, _ := b.arrived(3); fmt.Sprint(got) != "[0 1 2 3]" {
			t.Errorf("the level that is back has %v", got)
		}
		if got, _ := b.arrived(1); fmt.Sprint(got) != "[short short]" {
			t.Errorf("the level that was there has %v", got)
		}
		if got, _ := b.arrived(4); fmt.Sprint(got) != "[late]" {
			t.Errorf("the late one: %v", got)
		}
	})
}

// A clock that is set back makes nothing early. What waits then waits for its whole delay again at most.
func TestAClockThatIsSetBackMakesNothingEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, sysio.NewFaultFS(), options{})
		defer b.stop()
		b.send(3, "before")
		began := time.Now()
		b.skew.Store(-3_600_000)
		b.send(3, "after")
		time.Sleep(10*time.Second - time.Millisecond)
		if got, _ := b.arrived(3); len(got) != 0 {
			t.Fatalf("%v after %s", got, time.Since(began))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if got, _ := b.arrived(3); fmt.Sprint(got) != "[before after]" {
			t.Errorf("after 20 s: %v", got)
		}
		// Set forward again: seen within clockLookInterval.
		b.send(4, "in two hours")
		synctest.Wait()
		b.skew.Store(4 * 3_600_000)
		time.Sleep(clockLookInterval)
		if got, _ := b.arrived(4); fmt.Sprint(got) != "[in two hours]" {
			t.Errorf("after the clock jumped: %v", got)
		}
	})
}

// Retention that overtakes a level is counted and named; the level goes on behind it.
func TestRetentionOvertakesALevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sysio.NewFaultFS()
		disk.SetClock(time.Now)
		b := start(t, disk, options{segment: 1 << 16})
		defer b.stop()
		b.send(4, "expired")
		for range 40 {
			b.append([]store.Message{{Record: message.Record{Topic: []byte("Filler"), Body: make([]byte, 8000), BodyCRC: message.BodyCRC(make([]byte, 8000)),
				BornHost: message.Host{IPLen: 4}, StoreHost: message.Host{IPLen: 4}}}})
		}
		time.Sleep(90 * time.Minute)
		b.send(4, "kept")
		synctest.Wait()
		b.store.DeleteExpiredLog()
		if first := b.store.Queue(message.ScheduleTopic, 3).Min(); first != 1 {
			t.Fatalf("the queue begins at %d", first)
		}
		time.Sleep(2 * time.Hour)
		if got, _ := b.arrived(4); fmt.Sprint(got) != "[kept]" {
			t.Errorf("got %v", got)
		}
		if n := b.service.Stats().Levels[3].Expired; n != 1 || !b.log.has("retention deleted delayed messages") {
			t.Errorf("%d expired", n)
		}
	})
}

// Killed or cut off from power at any moment: every message that the log has is delivered, and exactly once unless the power
// cut damaged the copy of one that was delivered before: then it is delivered again, and so are those behind it.
func TestACrashDeliversNothingTwiceAndLosesNothing(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			o := options{syncFlush: seed%2 == 1, segment: 1 << (15 + seed%3)}
			disk := sysio.NewFaultFS()
			sent, damaged := 0, int64(0)
			for range 4 {
				b := start(t, disk, o)
				damaged += b.store.Recovery().DamagedCount
				for range r.IntN(60) {
					b.send(1+r.Int32N(3), fmt.Sprint(sent))
					sent++
					time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
				}
				time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
				switch r.IntN(3) {
				case 0:
					disk = b.kill(disk.Kill)
				case 1:
					current := disk
					disk = b.kill(func() *sysio.FaultFS { return current.PowerCut(r) })
				default:
					b.stop()
				}
			}
			b := start(t, disk, o)
			defer b.stop()
			damaged += b.store.Recovery().DamagedCount
			time.Sleep(time.Minute)
			for level := range message.QueueID(3) {
				var want []string
				q := b.store.Queue(message.ScheduleTopic, level)
				for offset := q.Min(); offset < q.Max(); offset++ {
					var unit [1]store.Unit
					_, err := q.ReadUnits(unit[:], offset)
					must(t, err)
					if unit[0].IsPreBlank() {
						continue // its record was damaged by the cut
					}
					var v message.View
					_, err = b.store.ReadRecord(nil, unit[0].Phy, &v)
					must(t, err)
					want = append(want, string(v.Body))
				}
				got, _ := b.arrived(level + 1)
				if damaged > 0 {
					for _, body := range want {
						if !slices.Contains(got, body) {
							t.Fatalf("seed %d, level %d: %s is not delivered", seed, level+1, body)
						}
					}
					continue
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, level %d: delivered\n%v\nwant\n%v", seed, level+1, got, want)
				}
			}
		})
	}
}

// The offsets are never ahead of what is durable, so a power cut right behind a write loses nothing (above); and a disk that
// fails keeps them from being written at all.
func TestOffsetsAreNotWrittenBeforeTheirMessagesAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := sysio.NewFaultFS()
		b := start(t, disk, options{})
		b.send(1, "m")
		time.Sleep(5 * time.Second)
		remove := disk.Inject(sysio.Fault{Op: sysio.OpSyncRange | sysio.OpDatasync | sysio.OpSync, Path: "0*"})
		b.send(1, "n")
		time.Sleep(2 * time.Second)
		if err := b.service.Persist(); err == nil {
			t.Error("written although the sync failed")
		}
		remove()
		b.kill(disk.Kill)
		if text, err := sysio.ReadFile(disk, stateFile); err == nil && strings.Contains(string(text), `"1":2`) {
			t.Errorf("the file says %s", text)
		}
	})
}

func TestBothBrokersFilesLoadAndKeepWhatIsUnknown(t *testing.T) {
	for version, want := range map[string]map[int]message.QueueOffset{"5.5.0": {1: 8, 2: 1, 17: 0, 18: 0}, "4.9.4": {1: 8, 2: 1}} {
		synctest.Test(t, func(t *testing.T) {
			text, err := sysio.ReadFile(sysio.OS{}, "testdata/delayOffset-"+version+".json")
			must(t, err)
			l, extra, err := parse(text)
			if err != nil || fmt.Sprint(l.OffsetTable) != fmt.Sprint(want) || l.LogPosition != nil || len(extra) != 0 {
				t.Fatalf("%s: %+v, %v", version, l, err)
			}
			disk := sysio.NewFaultFS()
			must(t, disk.MkdirAll(root+"/config", 0o755))
			must(t, sysio.AtomicWriteFile(disk, stateFile, []byte(`{"newer":[1],"offsetTable":{9:4,1:0}}`), false))
			b := start(t, disk, options{})
			b.send(1, "m")
			time.Sleep(2 * time.Second)
			b.stop()
			text, err = sysio.ReadFile(disk, stateFile)
			must(t, err)
			if l, extra, err = parse(text); err != nil || l.OffsetTable[9] != 4 || l.OffsetTable[1] != 1 || !strings.Contains(string(extra["newer"]), "1") || l.DataVersion == nil {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

func TestTheDataVersionGrowsWithDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, sysio.NewFaultFS(), options{}) // VersionStep 2
		defer b.stop()
		for range 5 {
			b.send(1, "m")
		}
		time.Sleep(2 * time.Second)
		if v := b.service.snapshot().layout.DataVersion; v.Counter != 2 {
			t.Errorf("version %+v after 5 deliveries", v)
		}
	})
}

// Arrivals race with a level that falls asleep: no wake-up is lost.
func TestNoArrivalIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, sysio.NewFaultFS(), options{})
		defer b.stop()
		for i := range 300 {
			b.send(1, fmt.Sprint(i))
			time.Sleep(time.Duration(999+i%3) * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if got, _ := b.arrived(1); len(got) != 300 {
			t.Errorf("%d of 300 came", len(got))
		}
	})
}

func FuzzDelayOffsetFile(f *testing.F) {
	for _, name := range []string{"delayOffset-5.5.0.json", "delayOffset-4.9.4.json"} {
		text, err := sysio.ReadFile(sysio.OS{}, "testdata/"+name)
		must(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"offsetTable":{"1":8},"peregrineLogPosition":77,"x":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, extra, err := parse(text)
		if err != nil {
			return
		}
		again, extraAgain, err := parse((&snapshot{layout: l, extra: extra}).encode(true))
		if err != nil || fmt.Sprint(again.OffsetTable) != fmt.Sprint(l.OffsetTable) || len(extra) != len(extraAgain) {
			t.Fatalf("%q: %+v, %v", text, again, err)
		}
	})
}

// Times of delivery lie in ext files where they are written. Without such a file the time is reckoned from the record: not at once.
func TestLostExtFilesMakeNothingEarly(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost=", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := sysio.NewFaultFS()
				b := start(t, disk, options{ext: true})
				m := b.send(3, "in ten seconds")
				synctest.Wait()
				b.stop()
				if lost {
					must(t, disk.Remove(root+"/consumequeue_ext/"+message.ScheduleTopic+"/2/00000000000000000000"))
				}
				b = start(t, disk, options{ext: true})
				defer b.stop()
				time.Sleep(9 * time.Second)
				if bodies, _ := b.arrived(3); len(bodies) != 0 {
					t.Errorf("%v came early", bodies)
				}
				time.Sleep(2 * time.Second)
				if bodies, stored := b.arrived(3); len(bodies) != 1 || stored[0] < m.StoreTimestamp+10_000 {
					t.Errorf("%v came at %v, stored at %d", bodies, stored, m.StoreTimestamp)
				}
			})
		})
	}
}
