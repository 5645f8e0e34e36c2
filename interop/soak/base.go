package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"peregrine/interop"
)

const (
	basePoll   = time.Second
	bytesPerKB = 1024
	mib        = 1 << 20
)

// usage is what a broker holds.
type usage struct {
	goroutines int
	anonBytes  int64 // RssAnon: heap and stacks, no mapped files
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d MiB of anonymous memory", u.goroutines, u.anonBytes/mib)
}

// measure asks a broker, after a collection: garbage is no leak.
func measure(broker *interop.Peregrine) (u usage, err error) {
	if _, err := fetch(broker, "/debug/pprof/heap?gc=1"); err != nil {
		return u, err
	}
	metrics, err := fetch(broker, "/metrics")
	if err != nil {
		return u, err
	}
	_, rest, found := strings.Cut(metrics, "\ngo_goroutines ")
	if _, err := fmt.Sscan(rest, &u.goroutines); err != nil || !found {
		return u, fmt.Errorf("no go_goroutines in the metrics: %w", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", broker.Process().Pid()))
	if err != nil {
		return u, err
	}
	_, rest, found = strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscan(rest, &u.anonBytes); err != nil || !found {
		return u, fmt.Errorf("no RssAnon in the process's status: %w", err)
	}
	u.anonBytes *= bytesPerKB
	return u, nil
}

// fetch gets a page of the broker's HTTP address, which stands in its ready line.
func fetch(broker *interop.Peregrine, path string) (string, error) {
	_, rest, found := strings.Cut(broker.ReadyLine, "http on ")
	addr, _, _ := strings.Cut(rest, ",")
	if !found {
		return "", fmt.Errorf("no http address in %q", broker.ReadyLine)
	}
	// A connection of its own, gone afterwards: a kept one would be a goroutine more.
	http := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callTimeout}
	response, err := http.Get("http://" + addr + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return "", fmt.Errorf("%s: %s", path, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// backToBase waits until a broker that nobody uses any more holds about what it held before.
func backToBase(ctx context.Context, broker *interop.Peregrine, base usage) error {
	for deadline := time.Now().Add(baseWithin); ; sleep(ctx, basePoll) {
		now, err := measure(broker)
		if err != nil {
			return err
		}
		if now.within(base) {
			fmt.Printf("before: %v; after: %v\n", base, now)
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			stacks, _ := fetch(broker, "/debug/pprof/goroutine?debug=1")
			return fmt.Errorf("before: %v; %v after the last client: %v\n%s", base, baseWithin, now, stacks[:min(len(stacks), stacksShown)])
		}
	}
}

const stacksShown = 4 << 10 // bytes

// within says whether this is about what base was.
func (u usage) within(base usage) bool {
	return u.goroutines <= base.goroutines+goroutinesOver && u.anonBytes <= base.anonBytes+anonOver
}
