package inspect

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peregrine/dispatch"
	"peregrine/internal/config"
	"peregrine/internal/sysio"
	"peregrine/store"
)

// recoverStore starts the store on a directory, lets it dispatch and index, and stops it.
func recoverStore(t *testing.T, root string, lines io.Writer) error {
	t.Helper()
	cfg, _, err := config.Load([]string{"--store", root, "mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=4000", "maxHashSlotNum=200", "maxIndexNum=1000",
		"fileReservedTime=876000"}, func(string) string { return "" }, os.ReadFile)
	must(t, err)
	s, err := store.Open(store.Options{Config: cfg, Logger: slog.New(slog.NewTextHandler(lines, nil))})
	if err != nil {
		return err
	}
	d := dispatch.New(dispatch.Options{Store: s, Shards: 2})
	index := dispatch.NewIndexer(d, s.Index(), dispatch.IndexerOptions{FlushInterval: time.Second, RetryInterval: time.Second})
	d.Start(s.Recovery().RedispatchFrom)
	index.Start()
	until := time.Now().Add(30 * time.Second)
	if !d.Stop(until) || !index.Stop(until) {
		t.Error("not everything was dispatched")
	}
	return s.Close(true)
}

// startLine is what a start has to say of damage in the log, "" when the finding is about something else.
func startLine(f *Finding) string {
	if f.Kind != KindRecord && f.Kind != KindLogDamaged {
		return ""
	}
	line := fmt.Sprintf("file=%s at=%d ", filepath.Base(f.File), f.At)
	if f.Queue != nil {
		line += fmt.Sprintf("topic=%s queue=%d offset=%d ", f.Topic, *f.Queue, *f.Offset)
	}
	return line + fmt.Sprintf("original=%q", f.Original)
}

// What recovery leaves verifies, but for damaged records, which stay where they are; of those a start says what verification does. The two share no code.
func TestWhatRecoveryLeavesVerifies(t *testing.T) {
	passed := map[string]string{
		"a unit of other tags":      "a start after a clean stop believes what is well formed",
		"a unit too many":           "the same",
		"a lost file in the middle": "the directory is refused",
		"a foreign file":            "it is left alone",
	}
	whole := fixture(t, "clean-5.5.0")
	for i, c := range damages() {
		if passed[c.name] != "" {
			continue
		}
		m := whole.clone()
		c.do(m)
		if i%2 == 1 {
			m.files["abort"] = []byte("1")
		}
		root := t.TempDir()
		for name, b := range m.files {
			path := filepath.Join(root, name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, b, 0o644))
		}
		before, _ := verify(t, m.open(t))
		var lines bytes.Buffer
		must(t, recoverStore(t, root, &lines))
		for _, f := range before {
			if want := startLine(&f); want != "" && !strings.Contains(lines.String(), want) {
				t.Errorf("%s: no line of the start has %s:\n%s", c.name, want, lines.String())
			}
		}
		d, err := Open(Options{FS: sysio.OS{}, Root: root})
		must(t, err)
		all, r := verify(t, d)
		for _, f := range all {
			if f.Level == Fault && f.Kind != KindRecord && f.Kind != KindLogDamaged && f.Kind != KindOriginal {
				t.Errorf("%s: %s", c.name, f.String())
			}
		}
		if r.Records != c.records {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}
