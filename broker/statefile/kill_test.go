package statefile

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"peregrine/internal/sysio"
)

// writerEnv makes this test binary a process that saves the state files of a folder over and over, until it is killed.
const writerEnv = "PEREGRINE_TEST_STATEFILES"

// kills is how many such processes are killed (case S05).
func kills() int {
	if testing.Short() {
		return 20
	}
	return 200
}

func writtenFiles() []string {
	return []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"}
}

// versioned is the content of a file's version: some pages, so that a save is more than one moment.
func versioned(version int) string {
	return fmt.Sprintf(`{"version":%d,"filling":%q,"again":%d}`, version, strings.Repeat("x", 20_000), version)
}

// versionOf returns the version of a whole content.
func versionOf(data []byte) (int, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(string(data), `{"version":`), ",")
	version, err := strconv.Atoi(text)
	if err != nil || string(data) != versioned(version) {
		return 0, fmt.Errorf("%d bytes that are no version", len(data))
	}
	return version, nil
}

func loadVersion(dir, name string, logger *slog.Logger) (f *File, source sysio.Source, version int, err error) {
	f = New(sysio.OS{}, filepath.Join(dir, name), logger)
	source, err = f.Load(func(data []byte) (err error) {
		version, err = versionOf(data)
		return err
	})
	return f, source, version, err
}

// saveForEver is the process: it says which version of which file it is about to save, and that it has.
func saveForEver(dir string) error {
	var files []*File
	next := 1
	for _, name := range writtenFiles() {
		f, _, version, err := loadVersion(dir, name, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		files, next = append(files, f), max(next, version+1)
	}
	for generation := uint64(1); ; generation, next = generation+1, next+1 {
		for i, f := range files {
			fmt.Printf("saving %d %d\n", i, next)
			if err := f.Save(generation, func() ([]byte, uint64) { return []byte(versioned(next)), generation }); err != nil {
				return err
			}
			fmt.Printf("saved %d %d\n", i, next)
		}
	}
}

// Case S05: whenever kill -9 comes while state files are being saved, each file is whole afterwards: the version saved last or the
// one that was being saved. Its backup is whole, too.
func TestKillsLeaveWholeFiles(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	saved := make([]int, len(writtenFiles()))
	for range kills() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		saving := append([]int(nil), saved...)
		take := func(line string) {
			var what string
			var i, version int
			if _, err := fmt.Sscan(line, &what, &i, &version); err != nil {
				t.Fatalf("the writer says %q", line)
			}
			if what == "saving" {
				saving[i] = version
			} else {
				saved[i] = version
			}
		}
		for range 1 + random.IntN(20) { // any step; behind it a moment
			if !lines.Scan() {
				t.Fatalf("the writer ended: %v", cmd.Wait())
			}
			take(lines.Text())
		}
		for until := time.Now().Add(time.Duration(random.IntN(1000)) * time.Microsecond); time.Now().Before(until); {
		}
		must(t, cmd.Process.Kill())
		for lines.Scan() {
			take(lines.Text())
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // it was killed
		for i, name := range writtenFiles() {
			_, source, version, err := loadVersion(dir, name, slog.New(slog.DiscardHandler))
			if saving[i] == 0 && source == sysio.SourceNone && err == nil {
				continue
			}
			if err != nil || version != saved[i] && version != saving[i] || source == sysio.SourceNone && saved[i] > 0 || source == sysio.SourceBackup {
				t.Fatalf("%s: version %d from %v, %v; saved was %d, and %d was being saved", name, version, source, err, saved[i], saving[i])
			}
			saved[i] = version
			if data, err := os.ReadFile(filepath.Join(dir, name+backupSuffix)); err == nil {
				if _, err := versionOf(data); err != nil {
					t.Fatalf("%s: the backup has %v", name, err)
				}
			}
		}
	}
	t.Logf("%d kills, %d saves of each file", kills(), saved[0])
}
