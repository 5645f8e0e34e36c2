package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	profileBytesMax   = 256 << 20
	profileSecondsMax = 30 // of the sampled time; a broker's own limit may be lower
	profileSlack      = 10 * time.Second
)

// capture fetches profiles of a broker while it is under load, from the address that serves its /debug/pprof/ (peregrine's http address).
type capture struct {
	dir, addr string
	done      chan error
}

// begin makes the folder and waits in the background for from before it samples; so a broker that serves no profiles is noticed at the end only.
func (c *capture) begin(ctx context.Context, from time.Duration, seconds int) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	c.done = make(chan error, 1)
	go func() { // ends when all are fetched, or with ctx
		select {
		case <-ctx.Done():
			c.done <- ctx.Err()
			return
		case <-time.After(from):
		}
		ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+profileSlack)
		defer cancel()
		sampled := map[string]string{"profile": "cpu", "block": "block", "mutex": "mutex"}
		fetched := make(chan error, len(sampled))
		for what, name := range sampled {
			go func() { fetched <- c.fetch(ctx, fmt.Sprint(what, "?seconds=", seconds), name) }()
		}
		var all error
		for range sampled {
			all = errors.Join(all, <-fetched)
		}
		c.done <- errors.Join(all, c.fetch(ctx, "heap", "heap"))
	}()
	return nil
}

func (c *capture) fetch(ctx context.Context, what, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+"/debug/pprof/"+what, nil)
	if err != nil {
		return fmt.Errorf("--profile-http: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, profileBytesMax))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", res.Status, body)
	}
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(c.dir, name+".pprof"), body, 0o644)
}
