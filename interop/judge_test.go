package interop

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A judge that lets everything pass is worse than none: each of its rules is broken here once, without any broker.

func place(queue int, offset int64) (*int, *int64) { return &queue, &offset }

func pair(id string, queue int, offset int64) (sent, got Event) {
	q, o := place(queue, offset)
	sent = Event{E: "sent", How: "sync", Status: "SEND_OK", Topic: "T", ID: id, OffsetID: "off-" + id, Queue: q, Offset: o, SHA256: "sha-" + id,
		SizeBytes: 3, Tag: "t", Keys: "k", Props: map[string]string{"名": "值"}}
	got = sent
	got.E, got.By = "got", "A"
	got.Props = map[string]string{"名": "值"}
	return sent, got
}

func rejects(t *testing.T, what, because string, found problems) {
	t.Helper()
	if !strings.Contains(strings.Join(found, "\n"), because) {
		t.Errorf("%s: want a problem with %q, got %q", what, because, found)
	}
}

func accepts(t *testing.T, what string, found problems) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%s: %q", what, found)
	}
}

func TestOnceMeansOnce(t *testing.T) {
	s0, g0 := pair("a", 0, 0)
	s1, g1 := pair("b", 0, 1)
	_, stranger := pair("c", 0, 2)
	sent := []Event{s0, s1}
	accepts(t, "all there", once(sent, []Event{g1, g0}))
	rejects(t, "one lost", "1 lost", once(sent, []Event{g0}))
	rejects(t, "one twice", "2 times", once(sent, []Event{g0, g1, g1}))
	rejects(t, "one too many", "nobody sent", once(sent, []Event{g0, g1, stranger}))
	accepts(t, "repeats allowed", atLeastOnce(sent, []Event{g0, g1, g1}))
	rejects(t, "loss is not", "lost", atLeastOnce(sent, []Event{g1, g1}))
}

func TestContentIsComparedByteForByte(t *testing.T) {
	for what, change := range map[string]func(*Event){
		"body":       func(e *Event) { e.SHA256 = "other" },
		"keys":       func(e *Event) { e.Keys = "" },
		"flag":       func(e *Event) { e.Flag = 1 },
		"properties": func(e *Event) { e.Props["名"] = "value" },
		"topic":      func(e *Event) { e.Topic = "other" },
		"offset":     func(e *Event) { e.Queue, e.Offset = place(0, 9) },
	} {
		sent, got := pair("a", 0, 0)
		change(&got)
		rejects(t, what, what, sameContent([]Event{sent}, []Event{got}))
	}
	oneway, got := pair("a", 0, 0)
	oneway.OffsetID, oneway.Queue, oneway.Offset = "", nil, nil
	accepts(t, "a one-way send knows only its own id", sameContent([]Event{oneway}, []Event{got}))
	sent, got := pair("", 0, 0)
	got.ID = "made by the broker"
	accepts(t, "a client without ids of its own", sameContent([]Event{sent}, []Event{got}))
}

func TestGapsAndSharesAreSeen(t *testing.T) {
	_, g0 := pair("a", 0, 0)
	_, g1 := pair("b", 0, 1)
	_, g2 := pair("c", 0, 2)
	accepts(t, "whole queue", noGaps([]Event{g2, g0, g1}))
	rejects(t, "hole", "offset 2 where 1 is due", noGaps([]Event{g0, g2}))
	rejects(t, "repeat", "offset 1 where 2 is due", noGaps([]Event{g0, g1, g1}))
	accepts(t, "repeats set aside", noGapsOnce([]Event{g0, g1, g1, g2}))

	share := func(by string, ms int64, queues ...int) Event {
		return Event{E: "assigned", When: "both", By: by, Ms: ms, Queues: queues}
	}
	accepts(t, "averaged", fair([]Event{share("A", 3, 0, 1), share("B", 3, 2, 3)}, "both", 2, 100, "A", "B"))
	rejects(t, "overlap", "held by", fair([]Event{share("A", 3, 0, 1), share("B", 3, 1, 2)}, "both", 2, 100, "A", "B"))
	rejects(t, "unequal", "2 expected", fair([]Event{share("A", 3, 0, 1, 2), share("B", 3, 3)}, "both", 2, 100, "A", "B"))
	rejects(t, "never", "-1", fair([]Event{share("A", -1), share("B", -1)}, "both", 2, 100, "A", "B"))
	rejects(t, "late", "at most 100", fair([]Event{share("A", 101, 0, 1), share("B", 3, 2, 3)}, "both", 2, 100, "A", "B"))
}

func TestRefusalMustNameTheLimitAndKeepTheConnection(t *testing.T) {
	_, g0 := pair("a", 0, 0)
	_, g1 := pair("b", 0, 1)
	g0.Born, g1.Born = "127.0.0.1:5", "127.0.0.1:5"
	refusal := Event{E: "refused", Code: 13, Remark: "limit 4096, size 4097", Limit: 4096, SizeBytes: 4097}
	accepts(t, "right", refusedOneOver([]Event{refusal, g0, g1}, Expectation{SizeInRemark: true}))
	vague := refusal
	vague.Remark = "too large"
	rejects(t, "vague", "limit 4096", refusedOneOver([]Event{vague, g0, g1}, Expectation{}))
	wrong := refusal
	wrong.Code = 1
	rejects(t, "code", "want 13", refusedOneOver([]Event{wrong, g0, g1}, Expectation{}))
	rejects(t, "accepted", "0 refusals", refusedOneOver([]Event{g0, g1}, Expectation{}))
	g1.Born = "127.0.0.1:6"
	rejects(t, "reconnected", "cost the connection", refusedOneOver([]Event{refusal, g0, g1}, Expectation{}))
}

func TestSearchIsALowerBound(t *testing.T) {
	_, g0 := pair("a", 0, 0)
	_, g1 := pair("b", 0, 1)
	g0.StoredMs, g1.StoredMs = 100, 200
	ask := func(time, answer int64) Event {
		q, o := place(0, answer)
		return Event{E: "search", Queue: q, Offset: o, TimeMs: time}
	}
	right := []Event{ask(0, 0), ask(100, 0), ask(101, 1), ask(200, 1), ask(201, 2)}
	accepts(t, "right", searched(right, []Event{g0, g1}))
	right[2] = ask(101, 0)
	rejects(t, "rounded down", "want 1", searched(right, []Event{g0, g1}))
}

func TestAScenarioThatSaysNothingFails(t *testing.T) {
	for _, scenario := range append([]string{"unheard-of"}, scenariosOf("java-5.5.0")...) {
		if len(verdict(scenario, nil, Expectation{})) == 0 {
			t.Errorf("scenario %s passes without a single event", scenario)
		}
	}
	rejects(t, "exchange", "did not end well", exchanged(map[string][]Event{"go": nil}))
	rejects(t, "restart", "did not end well", afterRestart(nil, nil))
	rejects(t, "survive", "did not end well", survived(nil, true))
}

func TestBareKeysAreQuoted(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":{0:1,1 :2}}`:       `{"a":{"0":1,1 :2}}`,
		`{-1:2}`:                 `{"-1":2}`,
		"{\n\t0:1,\n\t1:2\n}":    `{"0":1,"1":2}`,
		`{"x":"{0:1,\"2:3"}`:     `{"x":"{0:1,\"2:3"}`,
		`{"list":[1,2,3],"n":4}`: `{"list":[1,2,3],"n":4}`,
	} {
		if got := strings.Join(strings.Fields(string(quoteBareKeys([]byte(in)))), ""); got != strings.Join(strings.Fields(want), "") {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// The child's own children must not outlive it.
func TestKillReachesTheWholeGroup(t *testing.T) {
	pids := make(chan string, 1)
	p, err := StartProcess("sh", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", "sleep 60 & echo $!; wait"), func(line []byte) {
		pids <- string(line)
	})
	if err != nil {
		t.Fatal(err)
	}
	grandchild := <-pids
	p.kill()
	deadline := time.Now().Add(5 * time.Second)
	for exec.Command("sh", "-c", "kill -0 "+grandchild).Run() == nil {
		if time.Now().After(deadline) {
			t.Fatalf("process %s lives on", grandchild)
		}
	}
	if p.ExitCode() != -1 {
		t.Errorf("exit code %d after a kill", p.ExitCode())
	}
	if err := p.Stop(syscall.SIGTERM, time.Second); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
}

// A child lives as long as this process, not only as long as the thread on which it was started: the threads of the load generator end
// with each of its runs.
func TestAChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	children := make(chan *Process, 2)
	var locked sync.WaitGroup
	locked.Add(cap(children)) // so that one of the threads is not the first of the process, which never ends
	for range cap(children) {
		go func() { // its thread ends with it, for it is not unlocked
			runtime.LockOSThread()
			locked.Done()
			locked.Wait()
			p, err := StartProcess("cat", filepath.Join(t.TempDir(), "log"), exec.Command("cat"), nil)
			if err != nil {
				t.Error(err)
			}
			children <- p
		}()
	}
	for range cap(children) {
		p := <-children
		select {
		case <-p.Ended():
			t.Errorf("it ended with code %d", p.ExitCode())
		case <-time.After(200 * time.Millisecond): // the kernel takes microseconds
		}
		p.kill()
	}
}
