package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The charts' library is what its authors released (see uplot/README.md).
func TestEmbeddedLibraryIsUnmodified(t *testing.T) {
	for text, want := range map[string]string{
		uplotScript: "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		uplotStyle:  "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%.40s… has the checksum %x", text, sum)
		}
	}
}

// A page loads nothing, holds the figures of its run, and what a broker says in it stays text.
func TestPagesStandAlone(t *testing.T) {
	f := startFakeBroker(t, nil)
	o := shortLoad(f)
	o.Rate = 2000
	rep := send(t, o)
	rep.Warnings = append(rep.Warnings, "<script>alert(1)</script>")
	rep.Conditions.Brokers[0].Version = "</script><b>"
	var b bytes.Buffer
	if err := pageOf(&runs{Rounds: []*Report{rep}}).write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, banned := range []string{"<script>alert", "</script><b>", "src=", "href=", "@import", "url("} {
		if strings.Contains(text, banned) {
			t.Errorf("the page has %s", banned)
		}
	}
	_, data, _ := strings.Cut(text, "const data = ")
	data, _, _ = strings.Cut(data, ";\n")
	var charts struct {
		Lines []pageLine `json:"lines"`
	}
	if err := json.Unmarshal([]byte(data), &charts); err != nil {
		t.Fatal(err)
	}
	if line := charts.Lines[0]; line.What != "response" || len(line.Curve) < 20 || line.Curve[3]*1e6 < float64(rep.Response.P50Ns)*0.9 || len(line.Series) != len(rep.Series) {
		t.Errorf("%+v", charts.Lines[0])
	}
}

func TestCompareGivesRatios(t *testing.T) {
	slow := startFakeBroker(t, func(f *fakeBroker) { f.before = func(uint64) { time.Sleep(2 * time.Millisecond) } })
	fast := startFakeBroker(t, nil)
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	code := Main([]string{"compare", "send", "--addr", slow.addr(), "--with", fast.addr(), "--rounds", "2", "--duration", "100ms", "--warmup", "0s", "--connections", "1", "--inflight", "1",
		"--json", filepath.Join(dir, "c.json"), "--html", filepath.Join(dir, "c.html"), "--markdown"}, &stdout, &stderr)
	if code != exitGood {
		t.Fatalf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
	var c comparison
	text, err := os.ReadFile(filepath.Join(dir, "c.json"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || len(c.A) != 2 || len(c.B) != 2 {
		t.Fatalf("%v, %d and %d runs", err, len(c.A), len(c.B))
	}
	for _, r := range c.Ratios {
		if r.Name == "messages/s acknowledged" && r.Of.Min < 2 || r.Name == "service p50" && r.Of.Max > 0.5 {
			t.Errorf("%+v", r)
		}
	}
	if !strings.Contains(stdout.String(), "| service p99 |") {
		t.Errorf("no Markdown: %s", stdout.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "c.html")); err != nil {
		t.Error(err)
	}
}

// A broker that answers a request a millisecond, one at a time, keeps up with less than 1,000 messages/s.
func TestSweepFindsTheLargestRate(t *testing.T) {
	f := startFakeBroker(t, func(f *fakeBroker) {
		gate := make(chan struct{}, 1)
		f.before = func(uint64) {
			gate <- struct{}{}
			time.Sleep(time.Millisecond)
			<-gate
		}
	})
	s := &sweep{LimitNs: 50 * time.Millisecond}
	o := shortLoad(f)
	o.Mode, o.Warmup, o.Duration, o.Drain = "send", 100*time.Millisecond, 700*time.Millisecond, 100*time.Millisecond
	if err := s.run(context.Background(), o, 100, 10_000, 2, time.Second, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	// The machine may be slow, never faster than the gate.
	if s.Largest >= 1100 || s.Largest == 0 && len(s.HoldTimes) < sweepHoldsMax && s.Points[0].Good {
		t.Errorf("%+v\n%+v", s.Points, s.HoldTimes)
	}
	if last := s.Points[len(s.Points)-1]; last.Good || last.Why == "" {
		t.Errorf("the highest rate is good: %+v", last)
	}
	var b bytes.Buffer
	s.write(&b, true)
	if !strings.Contains(b.String(), "messages/s |") {
		t.Error(b.String())
	}
}

func TestKnee(t *testing.T) {
	points := []SweepPoint{{Rate: 100, P99Ns: 100}, {Rate: 200, P99Ns: 110}, {Rate: 400, P99Ns: 120}, {Rate: 500, P99Ns: 4_000}, {Rate: 550, P99Ns: 100_000}}
	if got := kneeOf(points); got != 400 {
		t.Errorf("the knee is at %v", got)
	}
	if got := kneeOf(points[:2]); got != 0 {
		t.Errorf("two points have a knee at %v", got)
	}
}
