package perf

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Readiness is the answer to "may clients be sent here?".
type Readiness struct {
	Ready bool `json:"ready"`
	// Code is the reason for machines, a word that does not change: "starting", "disk_full".
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"` // one short sentence when not ready: "recovering the CommitLog", "a sync failed: …"
	// Percent says how far a start or a recovery has come, 0 to 100; negative = unknown or not applicable, the answer leaves it out.
	Percent int `json:"-"`
}

// MarshalJSON writes "percent" only when there is one.
func (r Readiness) MarshalJSON() ([]byte, error) {
	type plain Readiness
	doc := struct {
		plain
		Percent *int `json:"percent,omitempty"`
	}{plain: plain(r)}
	if r.Percent >= 0 {
		doc.Percent = &r.Percent
	}
	return json.Marshal(doc)
}

// livez answers 200 as long as the process is worth keeping: only a state that nothing but a restart repairs is an error.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	if s.opts.Live != nil {
		if err := s.opts.Live(); err != nil {
			writeHealth(w, r, http.StatusServiceUnavailable, "not live: "+err.Error(), map[string]any{"live": false, "reason": err.Error()})
			return
		}
	}
	writeHealth(w, r, http.StatusOK, "live", map[string]any{"live": true})
}

// readyz answers 200 when traffic is welcome, else 503 with the reason and how far the start has come.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	state := Readiness{Ready: true, Percent: 100}
	if s.opts.Ready != nil {
		state = s.opts.Ready()
	}
	if state.Ready {
		writeHealth(w, r, http.StatusOK, "ready", state)
		return
	}
	if state.Reason == "" {
		state.Code, state.Reason = "starting", "starting"
	}
	text := "not ready: " + state.Reason
	if state.Percent >= 0 {
		text = fmt.Sprintf("%s, %d %%", text, state.Percent)
	}
	writeHealth(w, r, http.StatusServiceUnavailable, text, state)
}

// writeHealth answers in JSON when the peer asks for it (Accept or ?format=json), else in one line of text.
func writeHealth(w http.ResponseWriter, r *http.Request, status int, text string, doc any) {
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		body, err := json.Marshal(doc)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n')) // a peer that went away is its own affair
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
