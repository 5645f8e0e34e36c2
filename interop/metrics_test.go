package interop

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// gauges scrapes /metrics until the values are as wished, at most 30 seconds, and returns them by series.
func gauges(t *testing.T, broker *Peregrine, wished func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	var last map[string]float64
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		values, err := scrape(broker)
		if err != nil {
			t.Fatal(err)
		}
		if last = values; wished(values) {
			return values
		}
		if time.Now().After(deadline) {
			t.Fatalf("the metrics do not settle: %v", interesting(last))
		}
	}
}

func interesting(values map[string]float64) map[string]float64 {
	some := map[string]float64{}
	for name, value := range values {
		if strings.HasPrefix(name, "peregrine_") && value != 0 {
			some[name] = value
		}
	}
	return some
}

// scrape reads /metrics once; the address stands in the ready line.
func scrape(broker *Peregrine) (map[string]float64, error) {
	_, rest, found := strings.Cut(broker.ReadyLine, "http on ")
	addr, _, _ := strings.Cut(rest, ",")
	if !found {
		return nil, fmt.Errorf("no http address in %q", broker.ReadyLine)
	}
	response, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(response.Body, 4<<20))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(line[at+1:], &value); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		values[line[:at]] = value
	}
	return values, lines.Err()
}
