package interop

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The columns of the matrix of clients: what a client calls itself in the harness. The last one is all of them against the original.
var matrixColumns = []string{"java-4.9.4", "java-4.9.4 binary", "java-5.5.0", "java-5.5.0 binary", "go", "node", "python", "original"}

var (
	bothJava   = []string{"java-4.9.4", "java-4.9.4 binary", "java-5.5.0", "java-5.5.0 binary"}
	jsonJava   = []string{"java-4.9.4", "java-5.5.0"}
	javaAndGo  = append(slices.Clone(bothJava), "go")
	withPython = append(slices.Clone(javaAndGo), "python")
	everybody  = append(slices.Clone(javaAndGo), "node", "python")
)

// scenarioTable is the list of scenarios, in the order of the matrix: which clients run them, and what they are, for a reader. Those with
// a suite of their own need a broker of their own; the others share one process of a client.
var scenarioTable = []struct {
	name    string
	about   string
	clients []string
	ownTest bool
}{
	{"send", "send: synchronous, asynchronous, one-way, batch", withPython, false},
	{"topics", "topics made by a send and by an administrator", javaAndGo, false},
	{"bodies", "bodies up to the exact limit, one byte over it refused", javaAndGo, false},
	{"compressed", "compressed bodies", everybody, false},
	{"push-one", "push consumption, held pulls", everybody, false},
	{"push-two", "two members, one leaves, one joins", javaAndGo, false},
	{"broadcast", "broadcasting", javaAndGo, false},
	{"tags", "tags", everybody, false},
	{"consumer-restart", "a consumer goes on where the group had stopped", everybody, false},
	{"consumer-first", "a consumer is there before its topic", bothJava, false},
	{"pull", "pull by hand: statuses, long polling, offsets, search by time", javaAndGo, false},
	{"pull-all", "pull of whole topics: everything, then what is new, one tag", []string{"python"}, false},
	{"lite", "lite pull: subscribe, commit, assign", bothJava, false},
	{"seek", "lite pull: seek to begin, middle, end, time", bothJava, false},
	{"delay", "delay levels 1 to 3: never early, each once", withPython, false},
	{"retry", "failed deliveries come again, others do not wait", javaAndGo, false},
	{"dead-letter", "the last failure goes into the dead-letter topic at once", javaAndGo, false},
	{"orderly", "orderly: one owner, order kept, suspended queues, a hand-over", javaAndGo, false},
	{"ordered", "sends into the queue of a key, consumed in order by one member", []string{"python"}, false},
	{"request-reply", "request and reply, eight at once, one that nobody answers", javaAndGo, false},
	{"reset", "offsets reset while the consumer works", javaAndGo, false},
	{"where", "where a new group begins on an old topic", javaAndGo, false},
	{"strategies", "queues shared in a circle and by consistent hash", javaAndGo, false},
	{"subscriptions", "members that subscribe differently: what was said last counts", bothJava, false},
	{"heartbeats", "heartbeats with fingerprints, subscriptions that change, leaving", []string{"java-5.5.0", "java-5.5.0 binary"}, false},
	{"config-check", "client configuration checked: tags and SQL92", bothJava, false},
	{"relay", "running info, consume directly, consumer status", bothJava, false},
	{"time-span", "consume time span of a group", bothJava, false},
	{"clone", "offsets cloned, by the tool and by the broker", bothJava, false},
	{"skip", "a backlog skipped while the consumer works", bothJava, false},
	{"trace", "message trace of producer and consumer", bothJava, false},
	{"light", "messages for light queues and lite topics where these are off", bothJava, false},
	{"trimmed", "where a new group begins when the oldest messages are deleted", append(slices.Clone(jsonJava), "go"), true},
	{"transaction", "transactions: committed, rolled back, checked", append(slices.Clone(jsonJava), "go"), true},
	{"restart", "clients live through SIGTERM and SIGKILL of the broker", append(slices.Clone(jsonJava), "go"), true},
}

// scenariosOf lists what one client runs in one process.
func scenariosOf(client string) (names []string) {
	for _, row := range scenarioTable {
		if !row.ownTest && slices.Contains(row.clients, client) {
			names = append(names, row.name)
		}
	}
	return names
}

// outcomes are what this run of the tests saw: by "scenario column", whether every row of the settings passed.
var outcomes = struct {
	mu     sync.Mutex
	passed map[string]bool
}{passed: map[string]bool{}}

// record notes the outcome of one scenario with one client.
func record(scenario, client string, passed bool) {
	if bed.apache {
		client = "original"
	}
	outcomes.mu.Lock()
	defer outcomes.mu.Unlock()
	cell := scenario + " " + client
	before, known := outcomes.passed[cell]
	outcomes.passed[cell] = passed && (before || !known)
}

const (
	matrixFile  = "../COMPATIBILITY.md"
	matrixBegin = "<!-- matrix of clients: written by make interop-matrix -->\n"
	matrixEnd   = "<!-- end of the matrix -->\n"
)

// renderMatrix writes the table. A cell that this run did not decide stays as it was; one that no run ever decided is "?".
func renderMatrix(old map[string]string, passed map[string]bool) string {
	var out strings.Builder
	out.WriteString("| scenario | | " + strings.Join(matrixColumns, " | ") + " |\n")
	out.WriteString("| --- " + strings.Repeat("| --- ", 1+len(matrixColumns)) + "|\n")
	for _, row := range scenarioTable {
		fmt.Fprintf(&out, "| %s | `%s` |", row.about, row.name)
		for _, column := range matrixColumns {
			cell := row.name + " " + column
			text, before := "?", old[cell]
			if ok, decided := passed[cell]; decided && ok {
				text = "passes"
			} else if decided {
				text = "FAILS"
			} else if column != "original" && !slices.Contains(row.clients, column) {
				text = "–"
			} else if before != "" && before != "–" {
				text = before
			}
			out.WriteString(" " + text + " |")
		}
		out.WriteString("\n")
	}
	return out.String()
}

// parseMatrix reads a table back: the cells by "scenario column".
func parseMatrix(text string) map[string]string {
	cells := map[string]string{}
	var columns []string
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range parts {
			parts[i] = strings.Trim(strings.TrimSpace(parts[i]), "`")
		}
		if columns == nil {
			columns = parts
			continue
		}
		for i := 2; i < min(len(parts), len(columns)); i++ {
			cells[parts[1]+" "+columns[i]] = parts[i]
		}
	}
	return cells
}

// cutMatrix splits the document around its table.
func cutMatrix(document string) (before, table, after string, err error) {
	before, rest, begun := strings.Cut(document, matrixBegin)
	table, after, ended := strings.Cut(rest, matrixEnd)
	if !begun || !ended {
		return "", "", "", fmt.Errorf("%s has no matrix of clients", matrixFile)
	}
	return before, table, after, nil
}

// writeMatrix puts the outcomes of this run into COMPATIBILITY.md.
func writeMatrix() error {
	document, err := os.ReadFile(matrixFile)
	if err != nil {
		return err
	}
	before, table, after, err := cutMatrix(string(document))
	if err != nil {
		return err
	}
	outcomes.mu.Lock()
	defer outcomes.mu.Unlock()
	table = renderMatrix(parseMatrix(table), outcomes.passed)
	return os.WriteFile(matrixFile, []byte(before+matrixBegin+table+matrixEnd+after), 0o644)
}

// The table that the document shows is the one that these scenarios give when all is well.
func TestMatrixOfClientsIsFresh(t *testing.T) {
	document, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _, err := cutMatrix(string(document))
	if err != nil {
		t.Fatal(err)
	}
	if problem := matrixProblem(table); problem != "" {
		t.Errorf("%s: make interop-matrix writes the matrix anew: %s", matrixFile, problem)
	}
}

// matrixProblem says what is wrong with a table: a row, a column or a text that the code has not, or a cell that is not decided or fails.
func matrixProblem(table string) string {
	if want := renderMatrix(parseMatrix(table), nil); table != want {
		return fmt.Sprintf("it shows\n%sthe scenarios are\n%s", table, want)
	}
	for cell, text := range parseMatrix(table) {
		if text != "passes" && text != "–" && !strings.Contains(text, "---") {
			return fmt.Sprintf("%s: %s", cell, text)
		}
	}
	return ""
}

func TestAStaleMatrixIsSeen(t *testing.T) {
	all := map[string]bool{}
	for _, row := range scenarioTable {
		for _, client := range append(slices.Clone(row.clients), "original") {
			all[row.name+" "+client] = true
		}
	}
	right := renderMatrix(nil, all)
	if problem := matrixProblem(right); problem != "" {
		t.Errorf("a complete table: %s", problem)
	}
	rejectsTable := func(what, because, table string) {
		t.Helper()
		if problem := matrixProblem(table); !strings.Contains(problem, because) {
			t.Errorf("%s: want a problem with %q, got %q", what, because, problem)
		}
	}
	all["delay go"] = false
	failing := renderMatrix(nil, all)
	rejectsTable("a failure", "delay go: FAILS", failing)
	if again := renderMatrix(parseMatrix(failing), nil); again != failing {
		t.Errorf("what a run did not decide changed:\n%s\n%s", failing, again)
	}
	delete(all, "delay go")
	rejectsTable("never run", "delay go: ?", renderMatrix(nil, all))
	rejectsTable("a client left out", "the scenarios are", strings.Replace(right, "passes | – | passes |", "– | – | passes |", 1))
	lines := slices.Collect(strings.Lines(right))
	rejectsTable("a row too few", "the scenarios are", strings.Join(slices.Delete(slices.Clone(lines), 5, 6), ""))
	rejectsTable("a row too many", "the scenarios are", right+strings.Replace(lines[5], "push", "shove", 1))
	rejectsTable("another column", "the scenarios are", strings.Replace(right, " node |", " nodejs |", 1))
	rejectsTable("nothing", "the scenarios are", "")
}
