package inspect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

func TestRecordsAndUnitsAreListed(t *testing.T) {
	d := fixture(t, "clean-5.5.0").open(t)
	count := func(place Place, from int64) (n int, first Record) {
		must(t, d.Records(place, message.PhyOffset(from), func(r Record) bool {
			if n++; n == 1 {
				first = r
			}
			return true
		}))
		return n, first
	}
	if n, _ := count(Place{}, 0); n != 733 {
		t.Errorf("%d records", n)
	}
	id := int32(1)
	if n, r := count(Place{Topic: "FixA", Queue: &id}, 0); n != 45 || r.Position != 121108 || r.Offset != 0 {
		t.Errorf("FixA queue 1: %d records, the first %+v", n, r)
	}
	for _, from := range []int64{13083, 13000} { // at a record, and between two
		if _, r := count(Place{}, from); r.Position != 13083 || r.Offset != 50 || r.Topic != "FixA" {
			t.Errorf("from %d: %+v", from, r)
		}
	}
	units := 0
	must(t, d.Units(Place{Topic: "FixA"}, 40, func(u QueueUnit) bool { units++; return true }))
	if units != 460+5+5 {
		t.Errorf("%d units of FixA from offset 40 on", units)
	}
	units = 0
	must(t, d.Units(Place{}, 0, func(u QueueUnit) bool { units++; return units < 3 }))
	if units != 3 {
		t.Errorf("%d units after the third was enough", units)
	}
	items := 0
	must(t, d.IndexItems(Place{}, 0, func(l IndexLine) bool {
		if items++; l.Key == "" || l.Problem != "" {
			t.Errorf("%+v", l)
		}
		return true
	}))
	if items != 1966 {
		t.Errorf("%d index items", items)
	}
	r, err := d.RecordAt(13083)
	must(t, err)
	if r.MsgID != "7F00000100002E87000000000000331B" || r.Tags == "" || r.Properties == "" || r.BodyHead == "" {
		t.Errorf("%+v", r)
	}
	if r, err = d.RecordAt(13084); err != nil || r.Damage == "" || r.Topic != "" {
		t.Errorf("no record's place: %+v, %v", r, err)
	}
}

func TestDirectoriesThatAreNone(t *testing.T) {
	root := t.TempDir()
	if _, err := Open(Options{FS: readOnly{t: t}, Root: root}); !errors.Is(err, ErrNoStore) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := Open(Options{FS: readOnly{t: t}, Root: filepath.Join(root, "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(root, "commitlog"), 0o755))
	d, err := Open(Options{FS: readOnly{t: t}, Root: root, LockHolder: sysio.LockState})
	must(t, err)
	all, r := verify(t, d)
	if len(all) != 0 || r.Records != 0 {
		t.Errorf("a new directory: %v %+v", all, r)
	}
	s, err := d.Summarize()
	must(t, err)
	if s.First != nil || s.End != 0 {
		t.Errorf("%+v", s)
	}
}

// Values of store.md, computed by the original's classes.
func TestIndexHash(t *testing.T) {
	for key, want := range map[string]int32{
		"TopicTest#Key1": 1656937772, "OrderTopic#order-1001": 151414111, "TopicTest#T#TagA": 1311325016, "订单主题#订单1": 480923787, "polygenelubricants": 0,
	} {
		if got := IndexHash([]byte(key)); got != want {
			t.Errorf("%s: %d, the original has %d", key, got, want)
		}
	}
}

func TestPrintableEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"TagA": "TagA", "订单 é😀": "订单 é😀", "a\x1b[31mb": `a\x1b[31mb`, "a\xffb": `a\xffb`, "\u202eabc": `\u202eabc`, "say \"hi\"\n": `say "hi"\n`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %s, expected %s", in, got, want)
		}
	}
}
