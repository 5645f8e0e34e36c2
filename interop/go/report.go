package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"sync"
)

// fields are the members of one event besides its scenario and name.
type fields map[string]any

// report writes facts, one JSON object a line, to standard output; the harness judges them. The vocabulary stands in
// interop/README.md and is the same for the Java and Node programs.
type report struct{ scenario string }

// stdout serialises whole lines of all scenarios.
type lineWriter struct {
	mu sync.Mutex
}

func (w *lineWriter) write(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func (s *session) event(name string, f fields) {
	line := fields{"s": s.report.scenario, "e": name}
	for k, v := range f {
		line[k] = v
	}
	encoded, err := json.Marshal(line)
	if err != nil {
		panic("BUG: an event that JSON cannot hold: " + err.Error())
	}
	s.out.write(encoded)
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
