package inspect

import (
	"path/filepath"
	"strings"
	"testing"
)

// The damaged directories beside the checkout, where they are there: verification finds the damage of each.
func TestDamagedDirectoriesOfTheOriginal(t *testing.T) {
	packed, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "fixtures", "store", "damaged", "*.tar.gz"))
	must(t, err)
	kinds := map[string]string{
		"torn-tail": KindLogTail, "torn-properties": KindLogTail, "torn-header": KindLogTail, "short-file": KindLogFile,
		"flipped-last-file": KindRecord, "flipped-first-file": KindRecord, "zeroed-cq-tail": KindNoUnit, "cq-all-behind": KindNoUnit,
		"cq-ahead-of-log": KindQueueAhead, "cq-ahead-file-lost": KindQueueAhead, "missing-newest-index": KindNoIndex, "missing-all-index": KindNoIndex,
		"garbage-after-last": KindLogTail, "stale-record-after-last": KindLogTail, "missing-cq-queue": KindNoUnit, "missing-all-cq": KindNoUnit,
		"missing-checkpoint": KindCheckpoint, "intact": "",
	}
	for _, path := range packed {
		name := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
		all, _ := verify(t, load(t, path).open(t))
		kind, known := kinds[strings.TrimSuffix(name, "-abort")]
		found := !known || kind == ""
		for _, f := range all {
			found = found || f.Kind == kind
			if kind == "" {
				t.Errorf("%s: %s", name, f.String())
			}
		}
		if !found {
			t.Errorf("%s: no %s among %d findings", name, kind, len(all))
		}
	}
}
