package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// rooms reads the import graph out of ARCHITECTURE.md: who may lean on whom. A package below a room (broker/topics) has the rights
// of its room and may also import its own room's packages. "" is main.
func rooms(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| room |")
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]string{} // rooms by what the last column calls them
	lists := map[string]string{} // the last column by rooms
	var everything []string      // but interop
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$").FindAllStringSubmatch(table, -1) {
		room := strings.TrimPrefix(row[1], "main")
		named[path.Base(row[1])], lists[room] = room, row[2]
		if room != "" && room != "interop" {
			everything = append(everything, room)
		}
	}
	graph := map[string][]string{}
	for room, list := range lists {
		graph[room] = nil
		switch list {
		case "–":
		case "everything but interop":
			graph[room] = everything
		default:
			for name := range strings.SplitSeq(list, ", ") {
				other, known := named[name]
				if !known {
					t.Errorf("the table of rooms lets %s import %q, which is no room", room, name)
				}
				graph[room] = append(graph[room], other)
			}
		}
	}
	if len(graph) != strings.Count(table, "\n| `") || len(graph) < 10 {
		t.Fatalf("the table of rooms has %d rows, %d were understood", strings.Count(table, "\n| `"), len(graph))
	}
	return graph
}

const modulePath = "peregrine"

// roomOf names the room that a package of this module belongs to; "" is main itself.
func roomOf(graph map[string][]string, importPath string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(importPath, modulePath), "/")
	best := ""
	for room := range graph {
		if room != "" && (rel == room || strings.HasPrefix(rel, room+"/")) && len(room) > len(best) {
			best = room
		}
	}
	if best == "" {
		return rel
	}
	return best
}

func ours(importPath string) bool {
	return importPath == modulePath || strings.HasPrefix(importPath, modulePath+"/")
}

func TestImportGraphIsTheOneWeDrew(t *testing.T) {
	out, err := exec.Command("go", "list", "-pgo=off", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	graph := rooms(t)
	dec := json.NewDecoder(bytes.NewReader(out))
	seen := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		room := roomOf(graph, p.ImportPath)
		allowed, known := graph[room]
		if !known {
			t.Errorf("package %s belongs to no room of the import graph", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !ours(imp) || roomOf(graph, imp) == room {
				continue
			}
			ok := false
			for _, a := range allowed {
				ok = ok || roomOf(graph, imp) == a
			}
			if !ok {
				t.Errorf("%s imports %s, which its room may not", p.ImportPath, imp)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("go list named only %d packages", seen)
	}
}

const (
	goFileLinesMax = 700 // past this a file holds more than one job
	lineRunesMax   = 200
)

// walkGo visits every Go file of the module, without vendored or generated trees.
func walkGo(t *testing.T, visit func(path string, lines []string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "node_modules", "venv", "target", "testdata", "bin", "peregrine-data":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var lines []string
		sc := bufio.NewScanner(f)
		sc.Buffer(make([]byte, 1<<20), 1<<20)
		for sc.Scan() {
			lines = append(lines, sc.Text())
		}
		if err := sc.Err(); err != nil {
			return err
		}
		visit(path, lines)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesStayReadable(t *testing.T) {
	leftover := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	walkGo(t, func(path string, lines []string) {
		if len(lines) > goFileLinesMax {
			t.Errorf("%s has %d lines (at most %d)", path, len(lines), goFileLinesMax)
		}
		for i, l := range lines {
			if n := len([]rune(l)); n > lineRunesMax {
				t.Errorf("%s:%d has %d characters (at most %d)", path, i+1, n, lineRunesMax)
			}
			if leftover.MatchString(l) {
				t.Errorf("%s:%d holds a left-over mark: %s", path, i+1, strings.TrimSpace(l))
			}
		}
	})
}

// Every room documents its duty in one package comment, so that the map in ARCHITECTURE.md has something to point at.
func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	walkGo(t, func(path string, lines []string) {
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if _, ok := documented[dir]; !ok {
			documented[dir] = false
		}
		for i, l := range lines {
			if strings.HasPrefix(l, "package ") {
				if i > 0 && strings.HasPrefix(lines[i-1], "//") || i > 0 && strings.HasSuffix(lines[i-1], "*/") {
					documented[dir] = true
				}
				break
			}
		}
	})
	var bare []string
	for dir, ok := range documented {
		if !ok {
			bare = append(bare, dir)
		}
	}
	sort.Strings(bare)
	if len(bare) > 0 {
		t.Errorf("no package comment in: %s", strings.Join(bare, ", "))
	}
}

// What is padded so that two cores do not fight for one cache line is padded far enough for the machine at hand.
func TestPaddingCoversACacheLine(t *testing.T) {
	pad := regexp.MustCompile(`cacheLinePad\s*(?:= (\d+)|\[(\d+)\]byte)$`)
	found := 0
	walkGo(t, func(path string, lines []string) {
		for i, l := range lines {
			m := pad.FindStringSubmatch(l)
			if m == nil {
				continue
			}
			found++
			if n, err := strconv.Atoi(m[1] + m[2]); err != nil || n < cpuid.CPU.CacheLine {
				t.Errorf("%s:%d pads %s%s bytes, a cache line has %d", path, i+1, m[1], m[2], cpuid.CPU.CacheLine)
			}
		}
	})
	if found < 3 {
		t.Errorf("only %d paddings found", found)
	}
}

// The binary never starts another program (case X01: a configuration update led to command execution).
func TestTheBinaryStartsNoProcess(t *testing.T) {
	out, err := exec.Command("go", "list", "-pgo=off", "-deps", "-f", "{{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, p := range strings.Fields(string(out)) {
		if p == "os/exec" || p == "plugin" {
			t.Errorf("the binary links %s", p)
		}
	}
}

// Lines go through the logger that main made, which limits them (case R10): nobody else writes to the terminal or makes a logger.
func TestEveryLineIsLimited(t *testing.T) {
	writes := regexp.MustCompile(`slog\.New(Text|JSON)Handler|slog\.(Default|SetDefault)\(|os\.Std(err|out)\b|\blog\.(Print|Fatal|Panic|SetOutput)|slog\.(Info|Warn|Error|Debug)\(`)
	walkGo(t, func(path string, lines []string) {
		room, _, inside := strings.Cut(filepath.ToSlash(path), "/")
		if strings.HasSuffix(path, "_test.go") || !inside || room == "perf" || room == "bench" || room == "interop" {
			return
		}
		for i, l := range lines {
			if writes.MatchString(l) {
				t.Errorf("%s:%d writes past the limited log: %s", path, i+1, strings.TrimSpace(l))
			}
		}
	})
}

// The table of field cases in COMPATIBILITY.md names tests that exist.
func TestFieldCasesNameTests(t *testing.T) {
	text, err := os.ReadFile("COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), "<!-- field cases:")
	table, _, ended := strings.Cut(rest, "<!-- end of field cases -->")
	names := regexp.MustCompile("`([a-z/]+):(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(table, -1)
	if !begun || !ended || len(names) < 30 {
		t.Fatalf("%d tests in the table of field cases", len(names))
	}
	sources := map[string]string{} // of the tests, by folder
	for _, name := range names {
		folder, test := name[1], name[2]
		if sources[folder] == "" {
			files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[folder] += string(source)
			}
		}
		if !strings.Contains(sources[folder], "\nfunc "+test+"(t *testing.T)") {
			t.Errorf("%s has no test %s", folder, test)
		}
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| case") && !strings.HasPrefix(line, "| ---") && !strings.Contains(line, "Test") {
			t.Errorf("no test: %s", line)
		}
	}
}
