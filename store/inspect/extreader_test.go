package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/message"
	"peregrine/store/storetest"
)

// The ext files of a directory of the original verify, every unit is shown with what its ext unit says, and each damage is found,
// once for all units that it concerns.
func TestExtFilesAreChecked(t *testing.T) {
	const dir = "consumequeue_ext/ExtTopic/0/"
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, root string) error
		want   []string // parts of the findings, in order
	}{
		{name: "none"},
		{"one gone", func(_ *testing.T, root string) error {
			return os.Remove(filepath.Join(root, dir, "00000000000000001024"))
		},
			[]string{"finding ext-file", "unit-wrong: consumequeue/ExtTopic/0/00000000000000000000 at 1020: ExtTopic queue 0 offset 51: each of 51 units, " +
				"offsets 51 to 101, positions 11210 to 22211, has unknown tags: its ext file is missing"}},
		{"all gone", func(_ *testing.T, root string) error { return os.RemoveAll(filepath.Join(root, "consumequeue_ext")) },
			[]string{"each of 130 units"}},
		{"zeros", func(t *testing.T, root string) error {
			return patch(root+"/"+dir+"00000000000000000000", 40, make([]byte, 60))
		},
			[]string{"offset 2: each of 3 units, offsets 2 to 4, positions 438 to 876, has unknown tags: no ext unit is at its address"}},
		{"another tag", func(t *testing.T, root string) error { return patch(root+"/"+dir+"00000000000000002048", 9, []byte{1}) },
			[]string{"the ext unit of the first has tags code 2598657, the record 2598902"}},
		{"another time", func(t *testing.T, root string) error {
			return patch(root+"/"+dir+"00000000000000000000", 13, []byte{1})
		},
			[]string{"offset 0: the unit of position 0: its ext unit has another store time"}},
		{"longer", func(t *testing.T, root string) error {
			return os.Truncate(filepath.Join(root, dir, "00000000000000002048"), 1025)
		},
			[]string{"finding ext-file: " + dir + "00000000000000002048 at 0: it has 1025 bytes, expected are 1024 (mappedFileSizeConsumeQueueExt)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := storetest.Unpack(t, "../testdata/ext-5.5.0.tar.gz", t.TempDir())
			if test.damage != nil {
				must(t, test.damage(t, root))
			}
			d, err := Open(Options{FS: readOnly{t: t}, Root: root, WithoutIndex: true, ExtFileBytes: 1024})
			must(t, err)
			found, report := verify(t, d)
			if len(found) != len(test.want) {
				t.Errorf("%d findings: %v", len(found), found)
			}
			for i, f := range found {
				if i < len(test.want) && !strings.Contains(f.String(), test.want[i]) {
					t.Errorf("%s\nshould say %s", f.String(), test.want[i])
				}
			}
			if test.want == nil && report.Units != 130 {
				t.Errorf("%+v", report)
			}
			problems := 0
			must(t, d.Units(Place{}, 0, func(u QueueUnit) bool {
				switch {
				case u.Ext == nil:
					t.Errorf("%+v names no ext unit", u)
				case u.Ext.Problem != "":
					problems++
				case u.TagsCode != int64(u.Ext.Tags) || message.TagsCode(u.TagsCode).IsExtAddress():
					t.Errorf("%+v is shown with ext unit %+v", u, *u.Ext)
				}
				return true
			}))
			if want := map[string]int{"one gone": 51, "all gone": 130, "zeros": 3}[test.name]; problems != want {
				t.Errorf("%d units are shown with a problem", problems)
			}
		})
	}
}

func patch(path string, at int64, with []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(with, at)
	return err
}
