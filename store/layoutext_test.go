package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/internal/sysio"
)

// Lost ext files are said once a start, with the queue and how many of its entries name them; whole ones are not.
func TestLostExtFilesAreSaid(t *testing.T) {
	const says = "files in consumequeue_ext are gone"
	for name, lose := range map[string]func(dir string) error{
		"none":      func(string) error { return nil },
		"all":       func(dir string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(dir))) },
		"the first": func(dir string) error { return os.Remove(filepath.Join(dir, fileName(0))) },
		"the last": func(dir string) error {
			files, err := os.ReadDir(dir)
			return errors.Join(err, os.Remove(filepath.Join(dir, files[len(files)-1].Name())))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := unpack(t, "ext-5.5.0", t.TempDir())
			set := testSettings(root, asTheFixture)
			s := openTest(t, sysio.OS{}, set)
			mustDispatch(t, s, s.Recovery().RedispatchFrom)
			closeTest(t, s, true)
			if err := lose(filepath.Join(set.extDir, "ExtTopic", "0")); err != nil {
				t.Fatal(err)
			}
			for range 2 { // after the first start the directory is known
				var lines bytes.Buffer
				s := openLogged(t, sysio.OS{}, set, &lines)
				mustDispatch(t, s, s.Recovery().RedispatchFrom)
				want := 0
				for _, u := range unitsOf(t, s.Queue("ExtTopic", 0)) {
					if u.Tags.IsExtAddress() {
						want = 1
					}
				}
				if got := strings.Count(lines.String(), says); got != want || got > 0 && !strings.Contains(lines.String(), "topic=ExtTopic queue=0 entries=") {
					t.Errorf("%d lines, want %d:\n%s", got, want, lines.String())
				}
				if (want == 1) != (name != "none") {
					t.Errorf("units name ext files that are gone: %d", want)
				}
				closeTest(t, s, true)
			}
		})
	}
}
