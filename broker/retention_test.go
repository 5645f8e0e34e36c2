package broker

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/wire"
)

// Forced cleaning takes messages that a group has not consumed: the group is told once that its offset moved and goes on at
// the new minimum; a line and a metric say how many it lost (R05).
func TestGroupLosesMessagesToForcedCleaning(t *testing.T) {
	fsys := sysio.NewFaultFS()
	b := startBroker(t, fsys, "store", smallFiles, "cleanResourceInterval=100", "deleteCommitLogFilesInterval=0")
	c := dial(t, b.addr, wire.EncodingBinary)
	const count = 60
	for i := range count {
		c.mustSend(sendHeader("Lossy", 0, ""), fmt.Appendf(make([]byte, 0, 100<<10), "%0*d", 100<<10, i))
	}
	c.drain("Lossy", 0, 0, count)
	b.groups.LookupOrCreate("late")
	b.groups.LookupOrCreate("early")
	b.offsets.Commit([]byte("late"), []byte("Lossy"), 0, 1)
	b.offsets.Commit([]byte("early"), []byte("Lossy"), 0, count-2)
	stats := b.GroupStats()
	if len(stats.Lag) != 2 || stats.Lag[1] != (GroupSeries{"late", "Lossy", count - 1}) || len(stats.Age) != 2 || stats.LeftOut != 0 {
		t.Errorf("before: %+v", stats)
	}

	use, err := fsys.DiskUsage("store")
	if err != nil {
		t.Fatal(err)
	}
	// Two files above the ratio of forced cleaning.
	total := (use.Used - 2<<20 + 1) * 100 / 85
	fsys.SetCapacity(total, 0)
	q := b.store.Queue("Lossy", 0)
	waitUntil(t, func() bool { return q.Min() > 0 })
	r := c.pull(pullHeader("Lossy", 0, 1, "*"))
	if r.Code != int32(wire.ResponsePullOffsetMoved) {
		t.Fatalf("pull below the minimum: %d %s", r.Code, r.Remark)
	}
	next, _ := r.GetExt("nextBeginOffset")
	lowest := q.Min()
	if string(next) != fmt.Sprint(lowest) || lowest > 30 {
		t.Errorf("it goes on at %s, the minimum is %d", next, lowest)
	}
	c.drain("Lossy", 0, int64(lowest), count-int(lowest))
	stats = b.GroupStats()
	if len(stats.Lost) != 1 || stats.Lost[0] != (GroupSeries{Group: "late", Value: float64(lowest - 1)}) || b.Stats().Lost != uint64(lowest-1) {
		t.Errorf("lost: %+v, the minimum is %d", stats.Lost, lowest)
	}
	if b.Stats().OldestStored < 0 || b.Stats().Retention.Forced == 0 {
		t.Errorf("%+v", b.Stats().Retention)
	}
	b.groups.Delete("late")
	b.offsets.RemoveGroup("late")
	if stats := b.GroupStats(); len(stats.Lost) != 0 || len(stats.Lag) != 1 {
		t.Errorf("the deleted group is there: %+v", stats)
	}
	fsys.SetCapacity(0, 0)
}

// A cold pull of records whose files were deleted steps over them; it is not an error.
func TestColdPullOfDeletedFiles(t *testing.T) {
	fsys := sysio.NewFaultFS()
	b := startBroker(t, fsys, "store", smallFiles)
	c := dial(t, b.addr, wire.EncodingBinary)
	for range 40 {
		c.mustSend(sendHeader("Cold", 0, ""), make([]byte, 100<<10))
	}
	c.drain("Cold", 0, 0, 40)
	b.stop()

	// The log begins later than the queue says: its oldest file is gone, as by hand.
	if err := fsys.Remove(fmt.Sprintf("store/commitlog/%020d", 0)); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, fsys, "store", smallFiles)
	c = dial(t, b.addr, wire.EncodingBinary)
	q := b.store.Queue("Cold", 0)
	if q.Min() == 0 {
		t.Fatal("the minimum did not move")
	}
	if r := c.pull(pullHeader("Cold", 0, 0, "*")); r.Code != int32(wire.ResponsePullOffsetMoved) {
		t.Errorf("below the minimum: %d %s", r.Code, r.Remark)
	}
	c.drain("Cold", 0, int64(q.Min()), 40-int(q.Min()))
	if n := b.coldErrors.Load(); n != 0 {
		t.Errorf("%d cold pulls failed", n)
	}
}

// A group that loses again and again is named now and then, with the sum; many groups cost a bounded number of lines.
func TestLossLinesAreBounded(t *testing.T) {
	var lines []string
	now := time.Now()
	l := newLosses(nil, slog.New(slog.NewTextHandler(writerFunc(func(b []byte) { lines = append(lines, string(b)) }), nil)))
	l.now = func() time.Time { return now }
	l.count(map[string]uint64{"g": 5})
	for range 50 {
		now = now.Add(10 * time.Second)
		l.count(map[string]uint64{"g": 1})
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "group=g messages=5") {
		t.Errorf("%q", lines)
	}
	now = now.Add(lossRepeatInterval)
	l.count(map[string]uint64{"g": 1})
	if len(lines) != 2 || !strings.Contains(lines[1], "messages=51 sinceStart=56") {
		t.Errorf("%q", lines)
	}
	many := map[string]uint64{}
	for i := range groupSeriesMax + 50 {
		many[fmt.Sprintf("group%05d", i)] = 1
	}
	l.count(many)
	if len(lines) != 2+lossLinesMax {
		t.Errorf("%d lines", len(lines))
	}
	if series, leftOut := l.series(func(string) bool { return true }); len(series) != groupSeriesMax || leftOut != 51 {
		t.Errorf("%d series, %d left out", len(series), leftOut)
	}
	if series, _ := l.series(func(group string) bool { return group == "g" }); len(series) != 1 || series[0].Value != 56 || l.sum() != 56+groupSeriesMax+50 {
		t.Errorf("%v", series)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

// The committed offsets of more pairs than a scrape looks at give no series, and say so.
func TestPairsAreBounded(t *testing.T) {
	b := startBroker(t, sysio.NewFaultFS(), "store", smallFiles)
	for i := range 5 {
		b.offsets.Commit(fmt.Appendf(nil, "g%d", i), []byte("T"), message.QueueID(i), 1)
	}
	if pairs, total := b.offsets.Pairs(5); len(pairs) != 5 || total != 5 || pairs[4].Group != "g4" {
		t.Errorf("%v of %d", pairs, total)
	}
	if pairs, total := b.offsets.Pairs(4); len(pairs) != 0 || total != 5 {
		t.Errorf("%v of %d", pairs, total)
	}
}

// Delete and make a topic again, with and without a restart between: no old message, offsets from 0, no old offsets (C15).
func TestTopicMadeAgainIsEmpty(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart=", restart), func(t *testing.T) {
			fsys := sysio.NewFaultFS()
			b := startBroker(t, fsys, "store", smallFiles)
			c := dial(t, b.addr, wire.EncodingBinary)
			for i := range 100 {
				c.mustSend(sendHeader("Again", 0, ""), fmt.Append(nil, "old", i))
			}
			c.drain("Again", 0, 0, 100)
			b.offsets.Commit([]byte("g"), []byte("Again"), 0, 100)
			pulled := func() bool {
				_, ok := b.pulled.Query([]byte("TOOLS_CONSUMER"), []byte("Again"), 0)
				return ok
			}
			if !pulled() {
				t.Fatal("the table of pulls knows nothing of the topic's")
			}
			if r := c.call(wire.RequestDeleteTopicInBroker, wire.TopicRequestHeader{Topic: "Again"}, nil); r.Code != 0 {
				t.Fatalf("delete: %d %s", r.Code, r.Remark)
			}
			if restart {
				b.stop()
				b = startBroker(t, fsys, "store", smallFiles)
				c = dial(t, b.addr, wire.EncodingBinary)
			}
			if _, err := fsys.Stat("store/consumequeue/Again"); err == nil {
				t.Error("the folder of the deleted topic is there")
			}
			if _, ok := b.offsets.Query([]byte("g"), []byte("Again"), 0); ok {
				t.Error("the group's old offset is there")
			}
			if pulled() {
				t.Error("the old offset of a pull is there")
			}
			for i := range 5 {
				answer := c.mustSend(sendHeader("Again", 0, ""), fmt.Append(nil, "new", i))
				if offset, _ := answer.GetExt("queueOffset"); string(offset) != fmt.Sprint(i) {
					t.Errorf("message %d got offset %s", i, offset)
				}
			}
			if got := strings.Join(c.drain("Again", 0, 0, 5), " "); got != "new0 new1 new2 new3 new4" {
				t.Errorf("pulled: %s", got)
			}
			b.groups.LookupOrCreate("g")
			b.offsets.Commit([]byte("g"), []byte("Again"), 0, 0)
			if stats := b.GroupStats(); len(stats.Lag) != 1 || stats.Lag[0].Value != 5 {
				t.Errorf("lag: %+v", stats.Lag)
			}
			b.offsets.Commit([]byte("g"), []byte("Again"), 0, 5)
			if stats := b.GroupStats(); len(stats.Lag) != 1 || stats.Lag[0].Value != 0 {
				t.Errorf("lag after all is consumed: %+v", stats.Lag)
			}
			// Another start finds nothing of the deleted topic either.
			b.stop()
			b = startBroker(t, fsys, "store", smallFiles)
			if q := b.store.LookupQueue([]byte("Again"), 0); q == nil || q.Min() != 0 || q.Max() != 5 {
				t.Errorf("after another start: %+v", q)
			}
		})
	}
}
