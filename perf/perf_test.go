package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client keeps no connection, so that the leak check sees only what the server keeps.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
}

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestMetricsPageIsStrictPrometheusText(t *testing.T) {
	r := NewRegistry()
	var sent atomic.Uint64
	sent.Store(1 << 60)
	r.Counter("peregrine_messages_in_total", "Messages stored.\nSecond line, with a \\.", sent.Load)
	r.Gauge(`peregrine_loop_connections{loop="0"}`, "Connections of one event loop.", func() float64 { return 3 })
	r.Histogram(`peregrine_sync_seconds{mode="sync"}`, "Time of one sync.", []float64{0.001, 0.01}, func(counts []uint64) float64 {
		copy(counts, []uint64{5, 2, 1})
		return 0.75
	})
	r.Gauge(`peregrine_loop_connections{loop="1"}`, "Connections of one event loop.", func() float64 { return 0.5 })
	s := start(t, Options{Registry: r})

	status, text := get(t, s, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	samples, types, err := parseProm(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, samples, "peregrine_messages_in_total", ""); got != 1<<60 {
		t.Errorf("counter = %v", got)
	}
	if got := find(t, samples, "peregrine_loop_connections", `loop="1"`); got != 0.5 {
		t.Errorf("gauge = %v", got)
	}
	for le, want := range map[string]float64{"0.001": 5, "0.01": 7, "+Inf": 8} {
		if got := find(t, samples, "peregrine_sync_seconds_bucket", `mode="sync",le="`+le+`"`); got != want {
			t.Errorf("bucket %s = %v, want %v", le, got, want)
		}
	}
	if sum, count := find(t, samples, "peregrine_sync_seconds_sum", `mode="sync"`), find(t, samples, "peregrine_sync_seconds_count", `mode="sync"`); sum != 0.75 || count != 8 {
		t.Errorf("sum %v count %v", sum, count)
	}
	for name, kind := range map[string]string{"peregrine_messages_in_total": "counter", "peregrine_loop_connections": "gauge", "peregrine_sync_seconds": "histogram"} {
		if types[name] != kind {
			t.Errorf("type of %s = %q, want %q", name, types[name], kind)
		}
	}
	if find(t, samples, "go_goroutines", "") < 1 || find(t, samples, "process_resident_memory_bytes", "") < 1 {
		t.Error("the process's own metrics are missing")
	}
	if strings.Contains(text, "vmrange") {
		t.Error("a vmrange histogram, which plain Prometheus cannot read")
	}
}

func TestStrictParserRefusesWhatPrometheusRefuses(t *testing.T) {
	for _, bad := range []string{
		"a 1", "a 1\na 2\n", "a one\n", "a 1\nb 1\na{x=\"1\"} 1\n", "a{x=1} 1\n", "# TYPE a colour\n", "# TYPE a gauge\n# TYPE a gauge\n", "1a 1\n", "a  1\n",
	} {
		if _, _, err := parseProm(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestRegistryRefusesProgrammingErrors(t *testing.T) {
	zero := func() float64 { return 0 }
	for name, register := range map[string]func(r *Registry){
		"bad name":      func(r *Registry) { r.Gauge("peregrine bad", "", zero) },
		"twice":         func(r *Registry) { r.Gauge("a", "", zero); r.Gauge("a", "", zero) },
		"two kinds":     func(r *Registry) { r.Gauge("a", "", zero); r.Counter(`a{x="1"}`, "", func() uint64 { return 0 }) },
		"no bounds":     func(r *Registry) { r.Histogram("a", "", nil, func([]uint64) float64 { return 0 }) },
		"falling bound": func(r *Registry) { r.Histogram("a", "", []float64{2, 1}, func([]uint64) float64 { return 0 }) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "BUG: ") {
					t.Errorf("recovered %v, want a BUG panic", p)
				}
			}()
			register(NewRegistry())
		})
	}
}

func TestTwoRegistriesShareNothing(t *testing.T) {
	a, b := NewRegistry(), NewRegistry()
	a.Gauge("only_in_a", "", func() float64 { return 1 })
	b.Gauge("only_in_b", "", func() float64 { return 1 })
	var page bytes.Buffer
	if _, err := a.WriteTo(&page); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "only_in_a 1\n") || strings.Contains(page.String(), "only_in_b") {
		t.Error("registries leak into each other")
	}
}

func TestReadinessSaysWhyAndHowFar(t *testing.T) {
	var state atomic.Pointer[Readiness]
	state.Store(&Readiness{Code: "recovering", Reason: "recovering the CommitLog", Percent: 42})
	s := start(t, Options{Ready: func() Readiness { return *state.Load() }})

	status, text := get(t, s, "/readyz")
	if status != http.StatusServiceUnavailable || text != "not ready: recovering the CommitLog, 42 %\n" {
		t.Errorf("%d %q", status, text)
	}
	status, text = get(t, s, "/readyz", "Accept", "application/json")
	if status != http.StatusServiceUnavailable || strings.TrimSpace(text) != `{"ready":false,"code":"recovering","reason":"recovering the CommitLog","percent":42}` {
		t.Errorf("%d %s", status, text)
	}
	state.Store(&Readiness{Reason: "a sync failed: input/output error", Percent: -1})
	if _, text = get(t, s, "/readyz", "Accept", "application/json"); strings.TrimSpace(text) != `{"ready":false,"reason":"a sync failed: input/output error"}` {
		t.Errorf("%s", text)
	}
	if _, text = get(t, s, "/readyz"); text != "not ready: a sync failed: input/output error\n" {
		t.Errorf("%q", text)
	}
	state.Store(&Readiness{Ready: true, Percent: 100})
	if status, text = get(t, s, "/readyz"); status != http.StatusOK || text != "ready\n" {
		t.Errorf("%d %q", status, text)
	}
}

func TestLivenessFollowsItsCallback(t *testing.T) {
	var broken atomic.Bool
	s := start(t, Options{Live: func() error {
		if broken.Load() {
			return errors.New("the flusher ended")
		}
		return nil
	}})
	if status, text := get(t, s, "/livez"); status != http.StatusOK || text != "live\n" {
		t.Errorf("%d %q", status, text)
	}
	broken.Store(true)
	if status, text := get(t, s, "/livez"); status != http.StatusServiceUnavailable || text != "not live: the flusher ended\n" {
		t.Errorf("%d %q", status, text)
	}
}

// Blocking and contention are sampled while somebody asks for them, and only then.
func TestBlockAndMutexProfilesHaveSamplesWhenAsked(t *testing.T) {
	s := start(t, Options{})
	stop := make(chan struct{})
	var busy sync.WaitGroup
	var contended sync.Mutex
	for range 4 {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				contended.Lock()
				for began := time.Now(); time.Since(began) < 20*time.Microsecond; {
					continue
				}
				contended.Unlock()
			}
		})
	}
	for _, name := range []string{"block", "mutex"} {
		const empty = 250           // bytes of a profile without samples, and more
		for tries := 1; ; tries++ { // contention is chance, and a busy machine has less of it in a second
			status, text := get(t, s, "/debug/pprof/"+name+"?seconds=1")
			if status == http.StatusOK && len(text) > empty {
				break
			}
			if status != http.StatusOK || tries == 20 {
				t.Errorf("%s: %d, %d bytes", name, status, len(text))
				break
			}
		}
	}
	close(stop)
	busy.Wait()
	if n := runtime.SetMutexProfileFraction(-1); n != 0 {
		t.Errorf("one in %d contentions is sampled afterwards", n)
	}
}

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	s := start(t, Options{})
	if status, text := get(t, s, "/debug/pprof/goroutine?debug=1"); status != http.StatusOK || !strings.Contains(text, "goroutine profile") {
		t.Errorf("from loopback: %d %.80q", status, text)
	}
	if status, _ := get(t, s, "/debug/pprof/heap", "X-Forwarded-For", "192.0.2.1"); status != http.StatusForbidden {
		t.Errorf("through a proxy: %d", status)
	}
	if status, _ := get(t, s, "/debug/pprof/profile?seconds=100000"); status != http.StatusBadRequest {
		t.Errorf("endless profile: %d", status)
	}
	for peer, want := range map[string]int{
		"127.0.0.1:5": http.StatusOK, "[::1]:5": http.StatusOK, "[::ffff:127.0.0.1]:5": http.StatusOK,
		"192.0.2.1:5": http.StatusForbidden, "[2001:db8::1]:5": http.StatusForbidden, "@": http.StatusForbidden,
	} {
		req := httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil)
		req.RemoteAddr = peer
		rec := httptest.NewRecorder()
		s.routes().ServeHTTP(rec, req)
		if rec.Code != want {
			t.Errorf("peer %s: %d, want %d", peer, rec.Code, want)
		}
	}
}

func TestOnlyReadingIsServed(t *testing.T) {
	s := start(t, Options{})
	res, err := client().Post("http://"+s.Addr()+"/metrics", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: %d", res.StatusCode)
	}
	if status, _ := get(t, s, "/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing: %d", status)
	}
}

func TestAddressInUseIsOneClearLine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = Start(Options{Addr: ln.Addr().String()})
	if err == nil {
		t.Fatal("started on a taken port")
	}
	for _, want := range []string{ln.Addr().String(), "already in use", "--http", "peregrine.http", "off"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	if _, err := Start(Options{Addr: "nonsense"}); err == nil || !strings.Contains(err.Error(), "host:port or off") {
		t.Errorf("bad address: %v", err)
	}
}

func TestOffServesNothing(t *testing.T) {
	s := start(t, Options{Addr: Off})
	if s.Addr() != "" {
		t.Errorf("listens on %s", s.Addr())
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, Options{})
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range connectionsMax {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		// An answered request proves that the server holds this connection.
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	extra, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	_ = extra.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := extra.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("connection number %d was served", connectionsMax+1)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("connection number %d was left hanging", connectionsMax+1)
	}
}

func TestVersionAndFingerprintSaySomething(t *testing.T) {
	if v := Version("1.2.3"); !strings.HasPrefix(v, "peregrine 1.2.3 (") {
		t.Errorf("%q", v)
	}
	if v := Version(""); !strings.HasPrefix(v, "peregrine ") || strings.Contains(v, "(devel)") {
		t.Errorf("%q", v)
	}
	m := FingerprintAt(t.TempDir())
	if m.CPU == "" || m.LogicalCores < 1 || m.GoVersion == "" {
		t.Errorf("%+v", m)
	}
	if line := m.String(); !strings.Contains(line, m.CPU) || strings.Contains(line, "\n") {
		t.Errorf("%q", line)
	}
}

func TestSeriesComeAndGo(t *testing.T) {
	r := NewRegistry()
	groups := []string{"a", "b"}
	r.Series("peregrine_test_lag", "lag", false, func(add func(string, float64)) {
		for i, g := range groups {
			add(`group="`+g+`"`, float64(i))
		}
	})
	page := func() string {
		var b bytes.Buffer
		if _, err := r.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := page(); !strings.Contains(got, "# TYPE peregrine_test_lag gauge\nperegrine_test_lag{group=\"a\"} 0\nperegrine_test_lag{group=\"b\"} 1\n") {
		t.Error(got)
	}
	groups = groups[1:]
	if got := page(); strings.Contains(got, `group="a"`) || !strings.Contains(got, "peregrine_test_lag{group=\"b\"} 0\n") {
		t.Error(got)
	}
}
