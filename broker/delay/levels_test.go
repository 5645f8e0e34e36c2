package delay

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/store/storetest"
)

func TestLevelsAreTheOriginals(t *testing.T) {
	data, err := os.ReadFile("testdata/delay-level.json")
	must(t, err)
	var file struct {
		Entries []struct {
			MessageDelayLevel string
			Parsed            bool
			MaxDelayLevel     int32
			DelayLevelTable   map[string]int64
			Due               map[string]int64 `json:"deliverTimestampOfStore1700000000000"`
		}
	}
	must(t, json.Unmarshal(data, &file))
	for _, e := range file.Entries {
		delays, err := config.ParseDelayLevels(e.MessageDelayLevel)
		if (err == nil) != e.Parsed {
			t.Errorf("%q: %v", e.MessageDelayLevel, err)
		}
		if err != nil {
			continue
		}
		levels := NewLevels(delays)
		if levels.Max() != e.MaxDelayLevel || len(levels) != len(e.DelayLevelTable) {
			t.Errorf("%q: %v", e.MessageDelayLevel, levels)
		}
		for text, want := range e.Due {
			level, err := strconv.Atoi(text)
			must(t, err)
			if got := levels.DueTime(int32(level), 1700000000000); int64(got) != want {
				t.Errorf("%q, level %d: %d, want %d", e.MessageDelayLevel, level, got, want)
			}
		}
	}
}

func TestLevelTextsAreJavas(t *testing.T) {
	for text, want := range map[string]int32{"0": 0, "3": 3, "+3": 3, "-1": -1, "007": 7, "2147483647": 2147483647, "-2147483648": -2147483648} {
		if got, ok := ParseLevel([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", "+", "3 ", " 3", "3.0", "x", "2147483648", "-2147483649", "99999999999999999999", "--1"} {
		if got, ok := ParseLevel([]byte(text)); ok {
			t.Errorf("%q is %d", text, got)
		}
	}
}

// goldenRecords calls visit with the records of a directory of the original, in the order of its log.
func goldenRecords(t *testing.T, name string, visit func(v *message.View)) {
	t.Helper()
	storetest.Walk(t, filepath.Join("..", "..", "store", "testdata", name+".tar.gz"), func(path string, content []byte) error {
		if !strings.Contains(path, "/commitlog/") {
			return nil
		}
		for b := content; len(b) > 0; {
			var v message.View
			if message.ParseView(b, &v) != nil {
				break
			}
			visit(&v)
			b = b[v.Size:]
		}
		return nil
	})
}

func defaultLevels(t testing.TB) Levels {
	t.Helper()
	delays, err := config.ParseDelayLevels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
	must(t, err)
	return NewLevels(delays)
}

// Each record of the schedule topic of a 5.5.0 broker is what Divert makes of its message, and what it delivered is what
// Restore makes of that, byte for byte up to the place in the log.
func TestDivertAndRestoreMakeTheOriginalsRecords(t *testing.T) {
	levels := defaultLevels(t)
	var scheduled []message.View
	delivered := 0
	goldenRecords(t, "clean-5.5.0", func(v *message.View) {
		if string(v.Topic) == message.ScheduleTopic {
			scheduled = append(scheduled, *v)
			var p message.PropertyMap
			p.Parse(v.Properties)
			r := v.Record()
			r.Topic = p.Get(message.PropertyRealTopic)
			level, _ := ParseLevel(p.Get(message.PropertyDelay))
			queue, _ := ParseLevel(p.Get(message.PropertyRealQueueID))
			r.QueueID = message.QueueID(queue)
			p.Delete(message.PropertyRealTopic)
			p.Delete(message.PropertyRealQueueID)
			levels.Divert(&r, level, &p, nil)
			compare(t, &r, v)
			return
		}
		value, _ := message.GetProperty(v.Properties, message.PropertyDelay)
		if level, _ := ParseLevel(value); level <= 0 {
			return
		}
		for i := range scheduled {
			if bytes.Equal(scheduled[i].Properties, v.Properties) && scheduled[i].BornTimestamp == v.BornTimestamp {
				r, ok := Restore(&scheduled[i])
				if !ok {
					t.Fatal("not restored")
				}
				compare(t, &r, v)
				delivered++
			}
		}
	})
	if len(scheduled) != 12 || delivered != 9 {
		t.Errorf("%d scheduled, %d delivered", len(scheduled), delivered)
	}
}

// compare encodes r at the place of v and compares the bytes.
func compare(t *testing.T, r *message.Record, v *message.View) {
	t.Helper()
	want := v.Record()
	for _, x := range []*message.Record{r, &want} {
		x.StoreHost, x.PhyOffset, x.QueueOffset, x.StoreTimestamp = v.StoreHost, v.PhyOffset, v.QueueOffset, v.StoreTimestamp
	}
	a, b := make([]byte, r.Size()), make([]byte, want.Size())
	r.EncodeTo(a)
	want.EncodeTo(b)
	if !bytes.Equal(a, b) {
		t.Errorf("got  %q\nwant %q", a, b)
	}
}

func TestDivertClampsAndTheLevelWins(t *testing.T) {
	levels := Levels{1000, 2000}
	r := message.Record{Topic: []byte("T"), QueueID: 7}
	var p message.PropertyMap
	p.Parse([]byte("DELAY\x0199\x02TIMER_DELAY_SEC\x015\x02TIMER_DELIVER_MS\x011\x02TIMER_DELAY_MS\x011\x02"))
	levels.Divert(&r, 99, &p, nil)
	if got := string(r.Properties); got != "DELAY\x012\x02REAL_TOPIC\x01T\x02REAL_QID\x017\x02" {
		t.Errorf("%q", got)
	}
	if string(r.Topic) != message.ScheduleTopic || r.QueueID != 1 {
		t.Errorf("%s %d", r.Topic, r.QueueID)
	}
}

func TestRestoreRefusesWhatNamesNoPlace(t *testing.T) {
	for _, text := range []string{"", "REAL_TOPIC\x01T\x02", "REAL_QID\x010\x02", "REAL_TOPIC\x01T\x02REAL_QID\x01x\x02", "REAL_TOPIC\x01T\x02REAL_QID\x01-1\x02",
		"REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x010\x02", "REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010\x02"} {
		if r, ok := Restore(&message.View{Properties: []byte(text)}); ok {
			t.Errorf("%q: %s %d", text, r.Topic, r.QueueID)
		}
	}
}

func TestTagsOfTheScheduleTopicAreDueTimes(t *testing.T) {
	levels := Levels{1000, 2000}
	for text, want := range map[string]message.TagsCode{"DELAY\x012\x02": 5000, "DELAY\x019\x02": 5000, "DELAY\x011\x02TAGS\x01a\x02": 4000, "DELAY\x010\x02TAGS\x01a\x02": 97, "TAGS\x01a\x02": 97} {
		if got := levels.ScheduleTags(&message.View{Properties: []byte(text), StoreTimestamp: 3000}); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
