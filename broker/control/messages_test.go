package control

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/store"
	"peregrine/wire"
)

func noQuit() bool { return false }

// keyed stores a message with properties and puts it into the index, as dispatch would.
func (b *bench) keyed(topic, uniq, keys, tags string) message.PhyOffset {
	b.t.Helper()
	var props []byte
	for _, p := range [][2]string{{message.PropertyUniqKey, uniq}, {message.PropertyKeys, keys}, {message.PropertyTags, tags}} {
		if p[1] != "" {
			props = message.AppendProperty(props, p[0], p[1])
		}
	}
	batch := []store.Message{{Queue: b.deps.Store.Queue(topic, 0), Record: message.Record{Topic: []byte(topic), Body: []byte(uniq), BodyCRC: message.BodyCRC([]byte(uniq)), Properties: props}}}
	b.deps.Store.Append(batch)
	must(b.t, batch[0].Err)
	record := []store.IndexRecord{{Phy: batch[0].PhyOffset, StoreTime: b.now(), Topic: []byte(topic), Properties: props}}
	for {
		_, err := b.deps.Store.Index().Add(record)
		if err == nil {
			return batch[0].PhyOffset
		}
		if !errors.Is(err, store.ErrIndexFull) {
			b.t.Fatal(err)
		}
		must(b.t, b.deps.Store.Index().NextFile())
	}
}

// indexed is a bench whose index is ready.
func indexed(t *testing.T, settings ...string) *bench {
	b := newBench(t, settings...)
	_, err := b.deps.Store.Index().Recover(noQuit)
	must(t, err)
	return b
}

func queryFields(topic, key string, more ...string) []string {
	fields := map[string]string{"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": "9223372036854775807"}
	for i := 0; i < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	var ext []string
	for name, value := range fields {
		if value != "-" {
			ext = append(ext, name, value)
		}
	}
	return ext
}

// bodies are those of the records in an answer.
func bodies(t *testing.T, answer []byte) []string {
	t.Helper()
	var list []string
	for len(answer) > 0 {
		var v message.View
		must(t, message.ParseView(answer, &v))
		list = append(list, string(v.Body))
		answer = answer[v.Size:]
	}
	return list
}

func TestMessagesAreFoundByKey(t *testing.T) {
	b := indexed(t)
	first := b.keyed("T", "id-1", "a b", "red")
	b.keyed("T", "id-2", "b", "blue")
	last := b.keyed("T", "id-3", "id-1", "red")
	for _, c := range []struct {
		key  string
		more []string
		want []string
	}{
		{"a", nil, []string{"id-1"}},
		{"b", nil, []string{"id-1", "id-2"}},
		{"b", []string{"maxNum", "1"}, []string{"id-2"}},
		{"id-1", []string{"indexType", "K", "lastKey", "x"}, []string{"id-1", "id-3"}},
		{"id-1", []string{"_UNIQUE_KEY_QUERY", "true", "maxNum", "0"}, []string{"id-1"}},
		{"id-1", []string{"_UNIQUE_KEY_QUERY", "true", "indexType", "U"}, []string{"id-1"}},
		{"id-1", []string{"indexType", "U"}, []string{"id-1"}},
		{"red", []string{"indexType", "T"}, []string{"id-1", "id-3"}},
		{"b", []string{"beginTimestamp", strconv.FormatInt(int64(b.now()), 10), "endTimestamp", strconv.FormatInt(int64(b.now()), 10)}, []string{"id-1", "id-2"}},
	} {
		reply := b.ask(wire.RequestQueryMessage, "", queryFields("T", c.key, c.more...)...)
		if got := bodies(t, reply.Body); reply.Code != wire.ResponseSuccess || !slices.Equal(got, c.want) {
			t.Errorf("%s %v: %d %q %v, want %v", c.key, c.more, reply.Code, reply.Remark, got, c.want)
		}
		if h := reply.Header.(wire.QueryMessageResponseHeader); h.IndexLastUpdatePhyoffset != int64(last) || h.IndexLastUpdateTimestamp != int64(b.now()) {
			t.Errorf("%s: the index ends at %+v", c.key, h)
		}
	}
	reply := b.ask(wire.RequestViewMessageByID, "", "offset", strconv.FormatInt(int64(first), 10), "topic", "T")
	if got := bodies(t, reply.Body); reply.Code != wire.ResponseSuccess || !slices.Equal(got, []string{"id-1"}) {
		t.Errorf("by position: %d %q %v", reply.Code, reply.Remark, got)
	}
}

// Case I03: an error names its cause, and nothing found is no success.
func TestQueriesThatFindNothingSaySo(t *testing.T) {
	b := indexed(t)
	b.keyed("T", "id-1", "a", "red")
	notFound := "can not find message, maybe time range not correct"
	for _, more := range [][]string{{"key", "b"}, {"topic", "U"}, {"maxNum", "0"}, {"beginTimestamp", "5", "endTimestamp", "4"},
		{"beginTimestamp", strconv.FormatInt(int64(b.now())+1, 10)}, {"endTimestamp", strconv.FormatInt(int64(b.now())-1, 10)}, {"indexType", "T"}} {
		reply := b.ask(wire.RequestQueryMessage, "", queryFields("T", "a", more...)...)
		if reply.Code != wire.ResponseQueryNotFound || !strings.HasPrefix(reply.Remark, notFound) || len(reply.Body) > 0 || reply.Header != (wire.QueryMessageResponseHeader{}) {
			t.Errorf("%v: %d %q %+v", more, reply.Code, reply.Remark, reply.Header)
		}
		if more[0] == "maxNum" && !strings.Contains(reply.Remark, "maxNum") {
			t.Errorf("%v: %q names no field", more, reply.Remark)
		}
	}
	for _, field := range []string{"topic", "key", "maxNum", "beginTimestamp", "endTimestamp"} {
		reply := b.ask(wire.RequestQueryMessage, "", queryFields("T", "a", field, "-", "begin", "0", "end", "9")...)
		want := wire.ResponseSystemError
		if field == "topic" || field == "key" {
			want = wire.ResponseQueryNotFound // as the original
		}
		if reply.Code != want || !strings.Contains(reply.Remark, field) {
			t.Errorf("without %s: %d %q", field, reply.Code, reply.Remark)
		}
	}
	b.expect("a negative maxNum", b.ask(wire.RequestQueryMessage, "", queryFields("T", "a", "maxNum", "-3")...), wire.ResponseSystemError, "maxNum", "")
	for _, offset := range []string{"1", "-1", "100000000000"} {
		b.expect("position "+offset, b.ask(wire.RequestViewMessageByID, "", "offset", offset), wire.ResponseSystemError, "can not find message by the offset, "+offset, "")
	}
	b.expect("no position", b.ask(wire.RequestViewMessageByID, ""), wire.ResponseSystemError, "offset", "")
}

func TestQueriesAreCapped(t *testing.T) {
	b := indexed(t, "maxMsgsNumBatch=5", "defaultQueryMaxNum=3")
	for i := range 10 {
		b.keyed("T", "same", "k", fmt.Sprint(i))
	}
	for _, c := range []struct {
		unique string
		want   int
	}{{"false", 5}, {"true", 3}} {
		reply := b.ask(wire.RequestQueryMessage, "", queryFields("T", "same", "maxNum", "1000", "_UNIQUE_KEY_QUERY", c.unique)...)
		if got := len(bodies(t, reply.Body)); got != c.want {
			t.Errorf("unique %s: %d messages, want %d", c.unique, got, c.want)
		}
	}
}

func TestAnIncompleteIndexSaysSo(t *testing.T) {
	b := newBench(t)
	reply := b.ask(wire.RequestQueryMessage, "", queryFields("T", "a")...)
	b.expect("before recovery", reply, wire.ResponseQueryNotFound, "the index is incomplete", "")
	_, err := b.deps.Store.Index().Recover(noQuit)
	must(t, err)
	b.keyed("T", "id-1", "a", "")
	b.indexBehind = 1 << 30
	reply = b.ask(wire.RequestQueryMessage, "", queryFields("T", "a")...)
	b.expect("behind", reply, wire.ResponseSuccess, "1073741824 bytes", "id-1")
	b.indexBehind, b.indexMending = 100, true // however little it is: it was found before the start
	b.expect("mending", b.ask(wire.RequestQueryMessage, "", queryFields("T", "b")...), wire.ResponseQueryNotFound, "the index is incomplete, 100 bytes", "")
	b.indexMending = false
	b.expect("some sends behind", b.ask(wire.RequestQueryMessage, "", queryFields("T", "a")...), wire.ResponseSuccess, "", "id-1")
	b = newBench(t, "indexFileReadEnable=false")
	b.expect("off", b.ask(wire.RequestQueryMessage, "", queryFields("T", "a")...), wire.ResponseSystemError, "indexFileReadEnable", "")
	b = newBench(t, "indexFileReadEnable=false", "messageIndexEnable=false")
	b.expect("off", b.ask(wire.RequestQueryMessage, "", queryFields("T", "a")...), wire.ResponseSystemError, "indexFileReadEnable", "")
}
