package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"peregrine/perf"
)

var update = flag.Bool("update", false, "rewrite the table of metrics in OPERATIONS.md")

// Case R03: a disk that does not tell its use has no series, in particular none below 0.
func TestUnknownDiskUseHasNoSeries(t *testing.T) {
	for percent, want := range map[int]string{-1: "", 0: "\nperegrine_disk_used_percent 0\n", 91: "\nperegrine_disk_used_percent 91\n"} {
		registry := perf.NewRegistry()
		s := &service{}
		snap := &snapshot{service: s}
		snap.stats.Retention.UsedPercent = percent
		s.registerRetention(registry, snap)
		var page bytes.Buffer
		if _, err := registry.WriteTo(&page); err != nil {
			t.Fatal(err)
		}
		if want != "" && !strings.Contains(page.String(), want) || want == "" && strings.Contains(page.String(), "\nperegrine_disk_used_percent") {
			t.Errorf("%d: %s", percent, page.String())
		}
	}
}

// OPERATIONS.md has the table of metrics that the binary really shows.
func TestOperationsListsEveryMetric(t *testing.T) {
	const begin, end = "<!-- metrics: written by go test . -run TestOperationsListsEveryMetric -update -->\n", "<!-- end of metrics -->\n"
	registry := perf.NewRegistry()
	(&service{log: perf.NewLog(&bytes.Buffer{}, nil)}).registerMetrics(registry)
	var page bytes.Buffer
	if _, err := registry.WriteTo(&page); err != nil {
		t.Fatal(err)
	}
	table := "| metric | type | meaning |\n| --- | --- | --- |\n"
	lines := strings.Split(page.String(), "\n")
	for i, line := range lines {
		help, found := strings.CutPrefix(line, "# HELP peregrine_")
		if !found {
			continue
		}
		name, text, _ := strings.Cut(help, " ")
		kind := lines[i+1][strings.LastIndexByte(lines[i+1], ' ')+1:]
		table += "| `peregrine_" + name + "` | " + kind + " | " + text + " |\n"
	}
	doc, err := os.ReadFile("OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), begin)
	inside, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("OPERATIONS.md lacks the marks around the table of metrics")
	}
	if *update {
		if err := os.WriteFile("OPERATIONS.md", []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if inside != table {
		t.Error("OPERATIONS.md does not list the metrics as they are; run go test . -run TestOperationsListsEveryMetric -update")
	}
}
