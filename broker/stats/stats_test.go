package stats

import (
	"math/rand/v2"
	"strings"
	"testing"

	"peregrine/internal/message"
)

// A model that keeps everything that was ever counted says the same as the windows, at every second of two days.
func TestWindowsAgreeWithAFullHistory(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	table := New(0)
	key := []byte("T")
	type point struct{ value, times int64 }
	history := map[message.Millis]point{}
	var sum point
	item := table.Item(TopicPutNums, key)
	check := func(now message.Millis, got Data, every message.Millis, keep int) {
		t.Helper()
		last := now / every * every
		if last == 0 {
			if got != (Data{}) {
				t.Fatalf("%d: %+v before the first sample", now, got)
			}
			return
		}
		first := max(last-every*message.Millis(keep-1), 0)
		want := history[last].value - history[first].value
		if got.Sum != want || got.TPS != float64(want)*1000/float64(last-first) {
			t.Fatalf("%d: %+v, want sum %d over %d ms", now, got, want, last-first)
		}
		if times := history[last].times - history[first].times; times > 0 && got.Average != float64(want)/float64(times) || times == 0 && got.Average != 0 {
			t.Fatalf("%d: average %v of %d in %d", now, got.Average, want, times)
		}
	}
	for now := message.Millis(1000); now <= 48*3_600_000; now += 1000 {
		if r.IntN(3) > 0 {
			n := r.Int64N(100)
			table.Add(TopicPutNums, key, n)
			sum.value, sum.times = sum.value+n, sum.times+1
		}
		if now%MinuteEvery == 0 {
			history[now] = sum
		}
		table.Sample(now)
		check(now, item.Minute(), MinuteEvery, minuteSamples)
		check(now, item.Hour(), HourEvery, hourSamples)
		check(now, item.Day(), DayEvery, daySamples)
	}
	if item.Value() != sum.value {
		t.Error(item.Value(), sum.value)
	}
}

func TestItemsAreBoundedAndRemoved(t *testing.T) {
	table := New(0)
	for range ItemsMax {
		table.Add(GroupGetNums, []byte("t@g"+strings.Repeat("x", table.count%7)+string(rune(table.count))), 1)
		if table.count == 10 {
			break
		}
	}
	table.count = ItemsMax // as if the rest were there
	table.Add(TopicPutNums, []byte("one more"), 1)
	if _, refused := table.Counts(); refused != 1 || table.Find(TopicPutNums, "one more") != nil {
		t.Error("over the limit")
	}
	table.Remove(func(k Kind, key string) bool { return k == GroupGetNums })
	if count, _ := table.Counts(); count != ItemsMax-10 || len(table.items[GroupGetNums]) != 0 {
		t.Error(count)
	}
	for k := range kinds {
		if found, ok := KindOf(k.String()); !ok || found != k {
			t.Error(k.String())
		}
	}
	if _, ok := KindOf("NOTHING"); ok {
		t.Error("NOTHING is no kind")
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	table, key := New(0), []byte("topic@group")
	table.Add(GroupGetNums, key, 1)
	if n := testing.AllocsPerRun(100, func() { table.Add(GroupGetNums, key, 32) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
