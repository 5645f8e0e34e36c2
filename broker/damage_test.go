package broker

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"peregrine/internal/sysio"
	"peregrine/store"
	"peregrine/wire"
)

// A start that takes the directory as the last run left it looks at no record. What was damaged meanwhile is met by pulls: they step
// over that record or entry alone, whatever is wrong with it, and say so; the next start looks at everything, after which a damaged
// entry is whole again and a damaged record is one known place.
func TestDamageBehindATrustedStart(t *testing.T) {
	const count, hit = 100, 50
	const unitBytes = 20
	flip := func(at int64) func(record, unit []byte) {
		return func(record, _ []byte) { record[at] ^= 0x40 }
	}
	unit := func(u store.Unit) func(record, unit []byte) {
		return func(_, b []byte) {
			binary.BigEndian.PutUint64(b, uint64(u.Phy))
			binary.BigEndian.PutUint32(b[8:], uint32(u.Size))
			binary.BigEndian.PutUint64(b[12:], uint64(u.Tags))
		}
	}
	for name, damage := range map[string]struct {
		do    func(record, unit []byte)
		entry bool // the queue's entry is damaged, not the record
	}{
		"head of zeros":         {do: func(record, _ []byte) { clear(record[:48]) }},
		"all zeros":             {do: func(record, _ []byte) { clear(record) }},
		"total size":            {do: flip(3)},
		"total size huge":       {do: flip(1)},
		"magic":                 {do: flip(5)},
		"position":              {do: flip(34)},
		"body":                  {do: func(record, _ []byte) { record[len(record)/2] ^= 1 }},
		"queue offset":          {do: flip(27)},
		"queue":                 {do: flip(15)},
		"entry of zeros":        {do: unit(store.Unit{}), entry: true},
		"entry behind the log":  {do: unit(store.Unit{Phy: 1 << 40, Size: 200}), entry: true},
		"entry with a negative": {do: unit(store.Unit{Phy: -5, Size: 200}), entry: true},
		"entry without size":    {do: unit(store.Unit{Phy: 300, Size: -1}), entry: true},
		"entry of a huge size":  {do: func(_, unit []byte) { unit[9] ^= 0x04 }, entry: true},
		"entry of a size less":  {do: func(_, unit []byte) { unit[11]-- }, entry: true},
		"entry of the first":    {do: func(_, unit []byte) { clear(unit[:8]) }, entry: true},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := sysio.NewFaultFS()
			settings := []string{smallFiles, "mappedFileSizeConsumeQueue=" + strconv.Itoa(unitBytes*1000)}
			b := startBroker(t, fsys, "/s", settings...)
			c := dial(t, b.addr, wire.EncodingBinary)
			var want []string
			for i := range count {
				body := "message " + strconv.Itoa(i) + strings.Repeat("x", 1000+i)
				c.mustSend(sendHeader("Hit", 0, ""), []byte(body))
				c.mustSend(sendHeader("Other", 0, ""), []byte(body))
				want = append(want, body)
			}
			c.drain("Hit", 0, 0, count)
			var one [1]store.Unit
			q := b.store.Queue("Hit", 0)
			if n, err := q.ReadUnits(one[:], hit); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			b.stop()

			edit(t, fsys, "/s/commitlog/00000000000000000000", int64(one[0].Phy), int(one[0].Size), func(record []byte) {
				edit(t, fsys, "/s/consumequeue/Hit/0/00000000000000000000", hit*unitBytes, unitBytes, func(unit []byte) { damage.do(record, unit) })
			})
			less := slices.Delete(slices.Clone(want), hit, hit+1)
			b = startBroker(t, fsys, "/s", settings...)
			if from := b.store.Recovery().From; from != b.store.Recovery().End {
				t.Fatalf("the start looked at records from %d on", from)
			}
			c = dial(t, b.addr, wire.EncodingBinary)
			for range 2 {
				c.expect("Hit", less)
			}
			c.expect("Other", want)
			if got := b.Stats().Damaged; got != 1 {
				t.Errorf("%d damaged places, not 1", got)
			}
			if lines := b.lines.String(); strings.Count(lines, "stepped over") != 1 || !strings.Contains(lines, "topic=Hit") || !strings.Contains(lines, "offset=50") ||
				!damage.entry && !strings.Contains(lines, "/s/commitlog/0") || !strings.Contains(lines, "/s/consumequeue/Hit/0/0") {
				t.Errorf("it said:\n%s", lines)
			}
			b.stop()

			b = startBroker(t, fsys, "/s", settings...)
			c = dial(t, b.addr, wire.EncodingBinary)
			if from := b.store.Recovery().From; from != 0 {
				t.Errorf("the start after it looked at records from %d on only", from)
			}
			if damage.entry {
				c.expect("Hit", want)
			} else {
				c.expect("Hit", less)
			}
			c.expect("Other", want)
			b.stop()
		})
	}
}

// edit changes n bytes of a file in place.
func edit(t *testing.T, fsys sysio.FS, path string, at int64, n int, change func([]byte)) {
	t.Helper()
	f, err := fsys.OpenFile(filepath.FromSlash(path), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err = f.ReadAt(b, at); err == nil {
		change(b)
		_, err = f.WriteAt(b, at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expect pulls queue 0 of a topic from its start to its end: exactly these bodies.
func (c *client) expect(topic string, bodies []string) {
	c.t.Helper()
	var got []string
	for from := int64(0); ; {
		cmd := c.pull(pullHeader(topic, 0, from, "*"))
		switch wire.ResponseCode(cmd.Code) {
		case wire.ResponseSuccess:
			for _, v := range records(c.t, cmd.Body) {
				got = append(got, string(v.Body))
				if int64(v.QueueOffset) < from {
					c.t.Fatalf("%s: offset %d behind %d", topic, v.QueueOffset, from)
				}
			}
		case wire.ResponsePullRetryImmediately:
		case wire.ResponsePullNotFound:
			if !slices.Equal(got, bodies) {
				c.t.Errorf("%s: %d messages, not the %d that are due", topic, len(got), len(bodies))
			}
			return
		default:
			c.t.Fatalf("pull: code %d %s", cmd.Code, cmd.Remark)
		}
		next, _ := cmd.GetExt("nextBeginOffset")
		at, err := strconv.ParseInt(string(next), 10, 64)
		if err != nil || at <= from {
			c.t.Fatalf("%s: pull at %d goes on at %q", topic, from, next)
		}
		from = at
	}
}
