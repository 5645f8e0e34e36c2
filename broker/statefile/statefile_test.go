package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"peregrine/internal/sysio"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func valid(data []byte) error {
	if !json.Valid(data) {
		return errors.New("no JSON")
	}
	return nil
}

func read(t *testing.T, fsys sysio.FS, path string) string {
	t.Helper()
	data, err := sysio.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(data)
}

func always(text string, generation uint64) func() ([]byte, uint64) {
	return func() ([]byte, uint64) { return []byte(text), generation }
}

func TestNothingIsWrittenBeforeItWasRead(t *testing.T) {
	x := sysio.NewFaultFS()
	must(t, sysio.AtomicWriteFile(x, "f", []byte(`"precious"`), false))
	f := New(x, "f", quiet())
	if err := f.Save(1, always(`"empty"`, 1)); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("got %v", err)
	}
	// A file that is there but cannot be read is as good as not loaded.
	x.Inject(sysio.Fault{Op: sysio.OpRead, Path: "f", Err: syscall.EIO})
	if _, err := f.Load(valid); err == nil {
		t.Error("an unreadable file counts as an empty one")
	}
	if err := f.Save(1, always(`"empty"`, 1)); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("got %v", err)
	}
	if got := read(t, x.Kill(), "f"); got != `"precious"` {
		t.Errorf("the file holds %s", got)
	}
}

// Case S05: each wreck of the main file, with and without a backup.
func TestDamagedFilesAreSurvivedAndKept(t *testing.T) {
	wrecks := map[string]string{"empty": "", "half": `{"a":`, "zeros": strings.Repeat("\x00", 50), "garbage": "\xff\xfe{{{"}
	for name, wreck := range wrecks {
		for _, backup := range []string{"", `{"a":1}`} {
			x := sysio.NewFaultFS()
			w, err := x.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
			must(t, err)
			_, err = w.WriteAt([]byte(wreck), 0)
			must(t, err)
			must(t, w.Close())
			if backup != "" {
				must(t, sysio.AtomicWriteFile(x, "f.bak", []byte(backup), false))
			}
			f := New(x, "f", quiet())
			used := ""
			source, err := f.Load(func(data []byte) error {
				if err := valid(data); err != nil {
					return err
				}
				used = string(data)
				return nil
			})
			if err != nil || (source == sysio.SourceBackup) != (backup != "") || source == sysio.SourceMain || used != backup {
				t.Errorf("%s: source %v, used %q, %v", name, source, used, err)
			}
			if got := read(t, x, "f"); got != wreck {
				t.Errorf("%s: loading changed the file to %q", name, got)
			}
			must(t, f.Save(1, always(`{"a":2}`, 1)))
			must(t, f.Save(2, always(`{"a":3}`, 2)))
			want := `{"a":3}|{"a":2}|` + wreck
			if got := read(t, x, "f") + "|" + read(t, x, "f.bak") + "|" + read(t, x, "f.damaged"); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

func TestTheFirstSaveAfterDamageLeavesTheGoodBackup(t *testing.T) {
	x := sysio.NewFaultFS()
	must(t, sysio.AtomicWriteFile(x, "f", []byte(`{`), false))
	must(t, sysio.AtomicWriteFile(x, "f.bak", []byte(`{"a":1}`), false))
	f := New(x, "f", quiet())
	_, err := f.Load(valid)
	must(t, err)
	must(t, f.Save(1, always(`{"a":2}`, 1)))
	if got := read(t, x, "f") + read(t, x, "f.bak"); got != `{"a":2}{"a":1}` {
		t.Error(got)
	}
}

func TestMissingFilesStartEmpty(t *testing.T) {
	x := sysio.NewFaultFS()
	source, err := New(x, "f", quiet()).Load(valid)
	if source != sysio.SourceNone || err != nil {
		t.Errorf("source %v, %v", source, err)
	}
}

// Nobody has to delete anything by hand: with both copies broken the owner starts without, and both are kept.
func TestTwoDamagedCopiesAreKept(t *testing.T) {
	for _, main := range []string{"{", "", "-"} {
		x := sysio.NewFaultFS()
		if main != "-" {
			must(t, sysio.AtomicWriteFile(x, "f", []byte(main), false))
		}
		must(t, sysio.AtomicWriteFile(x, "f.bak", []byte("{{"), false))
		var lines bytes.Buffer
		f := New(x, "f", slog.New(slog.NewTextHandler(&lines, nil)))
		source, err := f.Load(valid)
		if source != sysio.SourceNone || err != nil {
			t.Errorf("%q: source %v, %v", main, source, err)
		}
		if !strings.Contains(lines.String(), "file=f.bak ") || strings.Contains(lines.String(), "file=f ") != (main != "-") {
			t.Errorf("%q: it said %s", main, lines.String())
		}
		for i := uint64(1); i <= 2; i++ {
			must(t, f.Save(i, always(fmt.Sprint(i), i)))
		}
		if got := read(t, x, "f") + "|" + read(t, x, "f.bak") + "|" + read(t, x, "f.damaged") + "|" + read(t, x, "f.bak.damaged"); got != "2|1|"+main+"|{{" {
			t.Errorf("%q: %s", main, got)
		}
	}
}

func TestACopyThatCannotBeReadStopsTheStart(t *testing.T) {
	for _, path := range []string{"f", "f.bak"} {
		x := sysio.NewFaultFS()
		must(t, sysio.AtomicWriteFile(x, path, []byte("1"), false))
		x.Inject(sysio.Fault{Op: sysio.OpRead, Path: path, Err: syscall.EIO})
		if _, err := New(x, "f", quiet()).Load(valid); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestSavesOfOneFileShareWrites(t *testing.T) {
	x := sysio.NewFaultFS()
	f := New(x, "f", quiet())
	_, err := f.Load(valid)
	must(t, err)
	encoded := 0
	encode := func() ([]byte, uint64) { encoded++; return []byte(fmt.Sprint(encoded)), 100 }
	var wg sync.WaitGroup
	for want := uint64(1); want <= 100; want++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f.Save(want, encode); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if encoded != 1 {
		t.Errorf("%d writes", encoded)
	}
}

func TestAFailedSaveIsTriedAgain(t *testing.T) {
	x := sysio.NewFaultFS()
	f := New(x, "f", quiet())
	_, err := f.Load(valid)
	must(t, err)
	must(t, f.Save(1, always("1", 1)))
	lift := x.Inject(sysio.Fault{Op: sysio.OpWrite, Err: syscall.ENOSPC})
	if err := f.Save(2, always("2", 2)); !sysio.IsNoSpace(err) {
		t.Errorf("got %v", err)
	}
	if got := read(t, x, "f"); got != "1" {
		t.Errorf("the file holds %q", got)
	}
	lift()
	must(t, f.Save(2, always("2", 2)))
	if got := read(t, x, "f"); got != "2" {
		t.Errorf("the file holds %q", got)
	}
}

// Whenever the power goes, the next start finds the last saved state or the one being saved.
func TestSavedSurvivesPowerCut(t *testing.T) {
	for seed := range uint64(40) {
		x := sysio.NewFaultFS()
		r := rand.New(rand.NewPCG(seed, 1))
		if seed%2 == 0 {
			must(t, sysio.AtomicWriteFile(x, "f", []byte(`{`), false))
			must(t, sysio.AtomicWriteFile(x, "f.bak", []byte(`0`), false))
			must(t, x.SyncDir("."))
		}
		f := New(x, "f", quiet())
		_, err := f.Load(valid)
		must(t, err)
		var cuts []*sysio.FaultFS
		x.Observe(func(sysio.Event) { cuts = append(cuts, x.PowerCut(r), x.Kill()) })
		for i := 1; i <= 3; i++ {
			cuts = cuts[:0]
			must(t, f.Save(uint64(i), always(fmt.Sprint(i), uint64(i))))
			for n, y := range cuts {
				got := "0"
				source, err := New(y, "f", quiet()).Load(func(data []byte) error { got = string(data); return valid(data) })
				if err != nil || got != fmt.Sprint(i) && got != fmt.Sprint(i-1) || source == sysio.SourceNone && i > 1 {
					t.Fatalf("seed %d, save %d, cut %d: source %v %q, %v", seed, i, n, source, got, err)
				}
			}
		}
		x.Observe(nil)
	}
}

func TestPrettyTextIsTheOriginals(t *testing.T) {
	for _, file := range []string{"topics/testdata/topics-5.5.0.json", "groups/testdata/subscriptionGroup-5.5.0.json"} {
		want, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		must(t, err)
		var compact bytes.Buffer
		must(t, json.Compact(&compact, want))
		if got := AppendPretty(nil, compact.Bytes()); !bytes.Equal(got, want) {
			t.Errorf("%s differs after compacting and laying out", file)
		}
	}
	if got := string(AppendPretty(nil, []byte(`{"a":[],"b":{},"c":["x{\"},y",1],"d":[ ]}`))); got != "{\n\t\"a\":[],\n\t\"b\":{},\n\t\"c\":[\n\t\t\"x{\\\"},y\",\n\t\t1\n\t],\n\t\"d\":[]\n}" {
		t.Errorf("%q", got)
	}
}

func TestUnknownMembersSurvive(t *testing.T) {
	type known struct {
		A int    `json:"a"`
		B string `json:"b,omitempty"`
	}
	extra := Unknown(json.RawMessage(`{"a":1,"b":"x","z":{"q":[1,2]},"c":null}`), known{})
	if got := string(Merge(known{A: 5}, extra)); got != `{"a":5,"c":null,"z":{"q":[1,2]}}` {
		t.Error(got)
	}
	if got := string(Merge(known{A: 5}, nil)); got != `{"a":5}` {
		t.Error(got)
	}
	if Unknown(json.RawMessage(`{"a":1}`), known{}) != nil || Unknown(json.RawMessage(`[`), known{}) != nil {
		t.Error("members out of nothing")
	}
}
