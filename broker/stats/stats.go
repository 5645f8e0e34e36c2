// Package stats counts traffic by topic and by group, as administrators ask for it (BrokerStatsManager, StatsItem of RocketMQ
// 5.5.0): sums over a minute, an hour and a day, from samples that are taken now and then.
//
// Goroutines: all methods, from anywhere; Add is for event loops. The lock of the table is a leaf.
package stats

import (
	"sync"
	"sync/atomic"

	"peregrine/internal/message"
)

// Kind is one family of items; its key is a topic, or topic@group.
type Kind uint8

// Kinds, with the names that VIEW_BROKER_STATS_DATA knows them by (Stats).
const (
	TopicPutNums  Kind = iota // messages stored, by topic
	TopicPutSize              // bytes of their records
	GroupGetNums              // messages handed out, by topic@group
	GroupGetSize              // bytes of their records
	SendBackNums              // messages that a group sent back, by topic@group
	BrokerPutNums             // messages stored, by cluster
	BrokerGetNums             // messages handed out, by cluster
	UserPutNums               // as BrokerPutNums, system topics left out
	UserGetNums               // as BrokerGetNums, system topics left out
	kinds
)

var names = [kinds]string{"TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS", "BROKER_PUT_NUMS", "BROKER_GET_NUMS",
	"BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"}

// String is the original's name.
func (k Kind) String() string { return names[k] }

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	for k, n := range names {
		if n == name {
			return Kind(k), true
		}
	}
	return 0, false
}

// Item counts one thing. The zero Item is ready.
type Item struct {
	value, times atomic.Int64

	mu                sync.Mutex // guards the samples; leaf
	minute, hour, day window
}

// Add counts value, as one of the times that Data.Average divides by.
//
// hot: 0 allocs, two atomic additions.
func (i *Item) Add(value int64) {
	i.value.Add(value)
	i.times.Add(1)
}

// Value is the sum since the start.
func (i *Item) Value() int64 { return i.value.Load() }

// window holds the newest samples of one spacing, oldest first.
type window struct {
	samples []sample
}

type sample struct {
	at           message.Millis
	value, times int64
}

// Spacing and number of the samples: a minute, an hour, a day.
const (
	MinuteEvery message.Millis = 10_000
	HourEvery   message.Millis = 600_000
	DayEvery    message.Millis = 3_600_000

	minuteSamples = 7
	hourSamples   = 7
	daySamples    = 25
)

func (w *window) take(s sample, every message.Millis, keep int) {
	if len(w.samples) == 0 {
		w.samples = append(w.samples, sample{at: s.at - every}) // nothing was counted before the first one
	}
	if w.samples = append(w.samples, s); len(w.samples) > keep {
		w.samples = append(w.samples[:0], w.samples[1:]...)
	}
}

// Data is what a window says.
type Data struct {
	Average float64 `json:"avgpt"` // per time counted
	Sum     int64   `json:"sum"`
	TPS     float64 `json:"tps"` // per second
}

func (w *window) data() (d Data) {
	if len(w.samples) == 0 {
		return d
	}
	first, last := w.samples[0], w.samples[len(w.samples)-1]
	d.Sum = last.value - first.value
	if ms := last.at - first.at; ms > 0 {
		d.TPS = float64(d.Sum) * 1000 / float64(ms)
	}
	if times := last.times - first.times; times > 0 {
		d.Average = float64(d.Sum) / float64(times)
	}
	return d
}

// Minute, Hour and Day are the sums of the last windows.
func (i *Item) Minute() Data { return i.read(&i.minute) }
func (i *Item) Hour() Data   { return i.read(&i.hour) }
func (i *Item) Day() Data    { return i.read(&i.day) }

func (i *Item) read(w *window) Data {
	i.mu.Lock()
	defer i.mu.Unlock()
	return w.data()
}

func (i *Item) sample(now message.Millis, minute, hour, day bool) {
	s := sample{now, i.value.Load(), i.times.Load()}
	i.mu.Lock()
	defer i.mu.Unlock()
	if minute {
		i.minute.take(s, MinuteEvery, minuteSamples)
	}
	if hour {
		i.hour.take(s, HourEvery, hourSamples)
	}
	if day {
		i.day.take(s, DayEvery, daySamples)
	}
}

// Table holds the items of a broker.
type Table struct {
	mu      sync.RWMutex // guards the fields below, not what is in items
	items   [kinds]map[string]*Item
	count   int
	refused uint64
	last    [3]message.Millis // of minute, hour, day: when sampled
}

// New makes an empty table. now is when the first windows begin.
func New(now message.Millis) *Table {
	t := &Table{last: [3]message.Millis{now, now, now}}
	for k := range t.items {
		t.items[k] = make(map[string]*Item)
	}
	return t
}

// Item returns the item of a key, which it makes when there is none. nil: there are too many.
//
// hot: 0 allocs once the item is there, one read lock.
func (t *Table) Item(k Kind, key []byte) *Item {
	t.mu.RLock()
	i := t.items[k][string(key)]
	t.mu.RUnlock()
	if i == nil {
		i = t.add(k, string(key))
	}
	return i
}

func (t *Table) add(k Kind, key string) *Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.items[k][key]
	if i == nil {
		if t.count >= ItemsMax {
			t.refused++
			return nil
		}
		i = &Item{}
		t.items[k][key] = i
		t.count++
	}
	return i
}

// Add counts value for a key; a key over the limit is not counted.
//
// hot: 0 allocs once the item is there.
func (t *Table) Add(k Kind, key []byte, value int64) {
	if i := t.Item(k, key); i != nil {
		i.Add(value)
	}
}

// Find returns the item of a key, nil when nothing was ever counted for it.
func (t *Table) Find(k Kind, key string) *Item {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.items[k][key]
}

// Remove forgets the items whose key matches (a deleted topic or group).
func (t *Table) Remove(matches func(k Kind, key string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, items := range t.items {
		for key := range items {
			if matches(Kind(k), key) {
				delete(items, key)
				t.count--
			}
		}
	}
}

// Sample takes the samples that are due. Call it at least every MinuteEvery; a late call takes one sample, not several.
func (t *Table) Sample(now message.Millis) {
	var due [3]bool
	t.mu.Lock()
	for w, every := range [3]message.Millis{MinuteEvery, HourEvery, DayEvery} {
		if due[w] = now-t.last[w] >= every; due[w] {
			t.last[w] = now
		}
	}
	var all []*Item
	if due[0] || due[1] || due[2] {
		all = make([]*Item, 0, t.count)
		for _, items := range t.items {
			for _, i := range items {
				all = append(all, i)
			}
		}
	}
	t.mu.Unlock()
	for _, i := range all {
		i.sample(now, due[0], due[1], due[2])
	}
}

// Counts returns how many items there are, and how often one was refused.
func (t *Table) Counts() (items int, refused uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.count, t.refused
}
