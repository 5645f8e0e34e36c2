package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProfilesLieBesideTheReport(t *testing.T) {
	profiles := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " ", r.FormValue("seconds"))
	}))
	defer profiles.Close()
	f := startFakeBroker(t, nil)
	dir := filepath.Join(t.TempDir(), "profiles")
	var out, errs strings.Builder
	args := []string{"send", "--addr", f.addr(), "--duration", "200ms", "--warmup", "0s", "--profile", dir, "--profile-http", strings.TrimPrefix(profiles.URL, "http://")}
	if code := Main(args, &out, &errs); code != exitGood {
		t.Fatalf("exit %d\n%s%s", code, out.String(), errs.String())
	}
	for name, want := range map[string]string{"cpu.pprof": "profile 1", "block.pprof": "block 1", "mutex.pprof": "mutex 1", "heap.pprof": "heap "} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "/debug/pprof/"+want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"report.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A broker without profiles costs a warning, not the run.
func TestNoProfilesIsAWarning(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	f := startFakeBroker(t, nil)
	o := shortLoad(f)
	o.Duration, o.ProfileDir, o.ProfileHTTP = 100*time.Millisecond, t.TempDir(), strings.TrimPrefix(none.URL, "http://")
	rep := send(t, o)
	if said := strings.Join(rep.Warnings, "\n"); len(rep.Failures) > 0 || !strings.Contains(said, "profile cpu: 404") {
		t.Errorf("%q, %v", said, rep.Failures)
	}
}
