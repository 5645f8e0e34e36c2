package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"peregrine/store"
)

// refusals makes directories that a start refuses: by the row of the table in OPERATIONS.md, "A directory that is refused". What do returns
// is given to start and dump in addition.
func refusals(root string) map[string][]func() (args []string, err error) {
	at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	logFile := func(n int) string { return at(fmt.Sprintf("commitlog/%020d", n*65536)) }
	put := func(name string, size int) error {
		return errors.Join(os.RemoveAll(at(name)), os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), make([]byte, size), 0o644))
	}
	folder := func(name string) error { return errors.Join(os.RemoveAll(at(name)), os.MkdirAll(at(name), 0o755)) }
	do := func(err func() error) func() ([]string, error) { return func() ([]string, error) { return nil, err() } }
	return map[string][]func() ([]string, error){
		"no file of the log, or only empty ones": {
			do(func() error { return os.RemoveAll(at("commitlog")) }),
			do(func() error { return folder("commitlog") }),
			do(func() error { return errors.Join(folder("commitlog"), put("commitlog/00000000000000000000", 65536)) }),
		},
		"a file of a queue that is too short": {
			do(func() error { return os.Truncate(at("consumequeue/FixA/0/00000000000000000000"), 4020) }),
			do(func() error { return os.Truncate(at("consumequeue/FixA/0/00000000000000000000"), 20) }),
			do(func() error { return os.Truncate(at("index/20261129201413014"), 20860) }),
		},
		"all files of queues, of the index or of the log have another length": {
			func() ([]string, error) { return []string{"mappedFileSizeConsumeQueue=8000"}, nil },
			func() ([]string, error) { return []string{"mappedFileSizeCommitLog=131072"}, nil },
			func() ([]string, error) { return []string{"maxHashSlotNum=100"}, nil },
		},
		"the only file of the log is shorter than configured": {
			do(func() (err error) {
				for n := range 7 {
					err = errors.Join(err, os.Remove(logFile(n)))
				}
				return errors.Join(err, os.Truncate(logFile(7), 40000))
			}),
		},
		"a file of the log whose records belong to another": {
			do(func() error {
				return errors.Join(os.Rename(logFile(1), at("aside")), os.Rename(logFile(2), logFile(1)), os.Rename(at("aside"), logFile(2)))
			}),
		},
		"a file of the log that is too short or empty": {
			do(func() error { return os.Truncate(logFile(3), 500) }),
			do(func() error { return os.Truncate(logFile(0), 0) }),
		},
		"a gap in the log": {do(func() error { return os.Remove(logFile(3)) })},
		"a file where a folder is expected": {
			do(func() error { return put("commitlog", 3) }),
			do(func() error { return put("consumequeue", 3) }),
			do(func() error { return put("consumequeue/FixA", 3) }),
			do(func() error { return put("consumequeue/FixA/0", 3) }),
			do(func() error { return put("index", 3) }),
			do(func() error { return folder("checkpoint") }),
			do(func() error { return folder("config/topics.json") }),
			do(func() error { return folder("commitlog/00000000000000524288") }),
		},
		"RocksDB queues, DLedger, BatchCQ": {
			do(func() error { return put("consumequeue/CURRENT", 16) }),
			do(func() error { return put("dledger-n0/data/00000000000000000000", 10) }),
			do(func() error { return put("batchconsumequeue/B/0/00000000000000000000", 46) }),
		},
	}
}

// Whatever a start refuses, --verify refuses in the same words, and promises nothing of that start. So do the others.
func TestVerifySaysWhatTheStartRefuses(t *testing.T) {
	text, err := os.ReadFile("OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A directory that is refused\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.HasPrefix(line, "| what is there") {
			rows = append(rows, line[2:])
		}
	}
	all := refusals("")
	for _, row := range rows {
		covered := false
		for name := range all {
			covered = covered || strings.HasPrefix(row, name)
		}
		if !covered {
			t.Errorf("no directory is made for the row %q", row)
		}
	}
	if len(rows) != len(all) {
		t.Errorf("%d rows, %d kinds of directories", len(rows), len(all))
	}
	for name, kinds := range all {
		for i := range kinds {
			if testing.Short() && i > 0 {
				continue
			}
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				root := unpackStore(t, "clean-5.5.0")
				given, err := refusals(root)[name][i]()
				if err != nil {
					t.Fatal(err)
				}
				args := slices.Concat([]string{"--store", root}, repairSizes, given)
				o, err := parseDump(args)
				if err != nil {
					t.Fatal(err)
				}
				cfg, err := o.startConfig(nil)
				if err != nil {
					t.Fatal(err)
				}
				before := fingerprint(t, root)
				st, err := store.Open(store.Options{Config: cfg})
				if err == nil {
					st.Close(false)
				}
				if !errors.Is(err, store.ErrRefused) {
					t.Fatalf("the start says %v", err)
				}
				said := strings.TrimPrefix(err.Error(), "store: ")
				for _, flags := range [][]string{{}, {"--verify"}, {"--repair"}, {"--repair", "--fill"}} {
					var stdout, stderr bytes.Buffer
					code := dump(append(flags, args...), &stdout, &stderr)
					if len(flags) > 0 && code != exitFailed && code != exitStore {
						t.Errorf("%v: exit code %d", flags, code)
					}
					printed := stdout.String() + stderr.String()
					if !strings.Contains(printed, "a start refuses the directory: "+said+"\n") || strings.Contains(printed, "the next start") {
						t.Errorf("%v: the start says\n%s\ndump says\n%s", flags, said, printed)
					}
				}
				if fingerprint(t, root) != before {
					t.Error("the directory changed")
				}
			})
		}
	}
}
