package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// deliberate lists where the effective value differs from the reference's objects, with the reason.
var deliberate = map[string]string{
	"02-trailing-blanks autoCreateTopicEnable":    "true with blanks behind it is true; the original reads false",
	"02-trailing-blanks listenPort":               "10921 with blanks behind it is a number; the original keeps 10911",
	"02-trailing-blanks fileReservedTime":         "the same",
	"05-old-spellings mappedFileSizeCommitLog":    "old spellings mean what they say; the original 5.x ignores them",
	"05-old-spellings mappedFileSizeConsumeQueue": "the same",
	"17-articles peregrine.reputShards":           "the key that articles recommend does what they say",
	"19-ratios brokerId":                          "a master is 0; the original sets it later in its start",
	"19-ratios diskSpaceCleanForciblyRatio":       "clamped when read; the original clamps when it is used",
	"19-ratios diskSpaceWarningLevelRatio":        "the same",
}

func confFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/conf/*.conf")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	return files
}

func TestRealWorldFilesMeanWhatTheyMeanToTheOriginal(t *testing.T) {
	for _, path := range confFiles(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".conf")
		t.Run(name, func(t *testing.T) {
			c, report, err := Load([]string{"-c", path}, noEnv, os.ReadFile)
			if err != nil {
				t.Fatal(err)
			}
			reference := readReference(t, strings.TrimSuffix(path, ".conf")+".reference")
			for _, k := range Keys() {
				want, ok := reference[k.Name]
				if !ok {
					want = k.Default
				}
				if k.Name == "haListenPort" {
					continue // derived
				}
				if got := k.Get(c); got != want && deliberate[name+" "+k.Name] == "" {
					t.Errorf("%s = %q, the original has %q", k.Name, got, want)
				}
				delete(reference, k.Name)
			}
			for key := range reference {
				if !slices.ContainsFunc(report.NotApplicable, func(r Remark) bool { return r.Key == key }) {
					t.Errorf("%s means something to the original and is not listed as without effect", key)
				}
			}
			var keys []string
			for key, origin := range report.Origins {
				keys = append(keys, fmt.Sprintf("%s=%s (%s)", key, escapeValue(keyNamed(t, key).Get(c)), origin))
			}
			slices.Sort(keys)
			golden(t, strings.TrimSuffix(path, ".conf")+".report", lines(keys)+"\n"+lines(report.Lines()))
		})
	}
}

func readReference(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if strings.Contains(value, `\u`) {
			if value, err = strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(value, `\`, `\\`), `\\u`, `\u`) + `"`); err != nil {
				t.Fatal(err)
			}
		}
		values[key] = value
	}
	return values
}

func TestPrintedConfigurationsReadBack(t *testing.T) {
	for _, path := range confFiles(t) {
		c, _, err := Load([]string{"-c", path}, noEnv, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		var printed strings.Builder
		if err := c.Write(&printed, false); err != nil {
			t.Fatal(err)
		}
		again, report := mustLoad(t, printed.String())
		if *again != *c {
			t.Errorf("%s: read back as\n%+v\nwas\n%+v", path, again, c)
		}
		if len(report.Unknown)+len(report.NotApplicable)+len(report.Notes) > 0 {
			t.Errorf("%s: %q", path, report.Lines())
		}
	}
}

func TestPrintIsSortedAndShort(t *testing.T) {
	c, _ := mustLoad(t, "")
	var all, important strings.Builder
	c.Write(&all, false)
	c.Write(&important, true)
	list := strings.Split(strings.TrimSuffix(all.String(), "\n"), "\n")
	if !slices.IsSorted(list) || len(list) != len(Keys()) {
		t.Errorf("%d lines, sorted %v", len(list), slices.IsSorted(list))
	}
	few := strings.Count(important.String(), "\n")
	if few < 20 || few >= len(list)/2 || !strings.Contains(important.String(), "\nflushDiskType=ASYNC_FLUSH\n") {
		t.Errorf("%d important lines:\n%s", few, important.String())
	}
	for line := range strings.Lines(important.String()) {
		if !strings.Contains(all.String(), line) {
			t.Errorf("%q is printed by -m only", line)
		}
	}
}
