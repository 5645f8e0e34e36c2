package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peregrine/store/storetest"
)

// unpackStore unpacks a directory of the original from the tests of store and returns its root.
func unpackStore(t *testing.T, name string) string {
	t.Helper()
	return storetest.Unpack(t, filepath.Join("store", "testdata", name+".tar.gz"), t.TempDir())
}

// fingerprint is the name, length and time of every file below a directory.
func fingerprint(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			b.WriteString(path + " " + info.ModTime().String() + " " + info.Mode().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What dump prints stands in testdata/dump; go test . -run TestDumpPrints -update rewrites it. The directory stays as it is.
func TestDumpPrints(t *testing.T) {
	root := unpackStore(t, "clean-5.5.0")
	before := fingerprint(t, root)
	for name, args := range map[string]string{
		"summary":            "",
		"summary.json":       "--json",
		"commitlog":          "commitlog --topic FixIdx --count 5",
		"commitlog.json":     "commitlog --from 491401 --json",
		"record":             "commitlog --offset 13083",
		"no-record":          "commitlog --offset 13084",
		"consumequeue":       "consumequeue --topic FixA --queue 0 --from 497",
		"unit":               "consumequeue --topic FixOrder --queue 2 --offset 9",
		"index":              "index --from 990 --count 4",
		"index.json":         "index --topic FixIdx --count 2 --json",
		"checkpoint":         "checkpoint",
		"checkpoint.json":    "checkpoint --json",
		"config":             "config --count 0",
		"config.json":        "config --json --topic FixA",
		"verify":             "--verify",
		"verify.json":        "--verify --json",
		"verify-wrong-sizes": "--verify mappedFileSizeCommitLog=65536 mappedFileSizeConsumeQueue=4000 maxHashSlotNum=100 maxIndexNum=1000",
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(append([]string{"dump", "--store", root}, strings.Fields(args)...), &stdout, &stderr)
			want := exitOK
			if name == "verify-wrong-sizes" {
				want = exitFailed
			}
			if code != want {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
			got := strings.ReplaceAll(stdout.String(), root, "STORE")
			if strings.Contains(args, "--json") {
				for l := range strings.SplitSeq(strings.TrimSpace(got), "\n") {
					if !json.Valid([]byte(l)) {
						t.Errorf("not JSON: %s", l)
					}
				}
			}
			golden := filepath.Join("testdata", "dump", name+".golden")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(text) {
				t.Errorf("peregrine dump %s prints\n%s\n%s says\n%s", args, got, golden, text)
			}
		})
	}
	if after := fingerprint(t, root); after != before {
		t.Errorf("the directory changed:\n%s\nbefore:\n%s", after, before)
	}
}

func TestDumpExitCodes(t *testing.T) {
	root := unpackStore(t, "clean-5.5.0")
	empty := t.TempDir()
	log := filepath.Join(root, "commitlog", "00000000000000458752")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	b[14065+88] ^= 1 // a bit of a body
	if err := os.WriteFile(log, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		text string // in what it says
	}{
		{"--store " + root, exitOK, ""},
		{"--store " + root + " --verify", exitFailed, "finding record-damaged: commitlog/00000000000000458752 at 14065"},
		{"--store " + root + " --verify --json", exitFailed, `"kind":"record-damaged","file":"commitlog/00000000000000458752","at":14065`},
		{"--store " + root + " commitlog --topic Nope", exitFailed, "dump: commitlog: there is nothing with --topic Nope"},
		{"--store " + root + " commitlog --from 99999999", exitFailed, "nothing with --from 99999999"},
		{"--store " + root + " consumequeue --topic Nope", exitFailed, "nothing with --topic Nope"},
		{"--store " + root + " consumequeue --topic FixA --queue 77 --json", exitFailed, "nothing with --topic FixA --queue 77"},
		{"--store " + root + " consumequeue --topic FixA --queue 0 --offset 7777", exitFailed, "--offset 7777"},
		{"--store " + root + " consumequeue --topic FixEmpty", exitFailed, "nothing with --topic FixEmpty"}, // it has no message
		{"--store " + root + " index --topic Nope", exitFailed, "nothing with --topic Nope"},
		{"--store " + root + " config --topic Nope", exitFailed, "nothing with --topic Nope"},
		{"--store " + root + " config --topic FixEmpty", exitOK, "FixEmpty"},
		{"--store " + empty, exitStore, "not a store directory"},
		{"--store " + filepath.Join(empty, "none"), exitStore, "no such file"},
		{"--store " + root + " tail", exitUsage, `"tail": expected commitlog`},
		{"--store " + root + " commitlog index", exitUsage, "one at a time"},
		{"--store " + root + " --what", exitUsage, "unknown flag: --what"},
		{"--store " + root + " commitlog --count x", exitUsage, "invalid argument"},
		{"--store " + root + " commitlog --from -1", exitUsage, "numbers begin at 0"},
		{"--store " + root + " --topic T", exitUsage, "need commitlog"},
		{"--store " + root + " --verify commitlog", exitUsage, "--verify is about the whole directory"},
		{"--store " + root + " commitlog --from 1 --offset 2", exitUsage, "exclude each other"},
		{"--store " + root + " mappedFileSizeCommitLog=x", exitUsage, "mappedFileSizeCommitLog"},
		{"--store " + root + " --config " + filepath.Join(empty, "none.conf"), exitUsage, "none.conf"},
		{"--help", exitOK, "--verify"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"dump"}, strings.Fields(c.args)...), &stdout, &stderr)
		said := stdout.String() + stderr.String()
		if code != c.code || !strings.Contains(said, c.text) {
			t.Errorf("dump %s: exit code %d, expected %d with %q; it said\n%s", c.args, code, c.code, c.text, said)
		}
		if code == exitUsage && strings.Count(said, "\n") != 1 {
			t.Errorf("dump %s: more than one line: %s", c.args, said)
		}
	}
}
