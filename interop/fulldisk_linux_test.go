package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/message"
	"peregrine/wire"
)

// A real full disk (R01, R07, and the first of R03): somebody else's file fills it, sends are refused with the cause, pulls go on;
// within two seconds after the file is gone sends are accepted, and everything acknowledged is there.
func TestRealDiskFillsUpAndHeals(t *testing.T) {
	if bed.apache {
		t.Skip("what peregrine does on a full disk")
	}
	dir := need(t, "full disk", func() (string, error) {
		dir := t.TempDir()
		if err := syscall.Mount("peregrine-test", dir, "tmpfs", 0, "size=300m"); err != nil {
			return "", fmt.Errorf("mounting a tmpfs: %w (be root)", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		return dir, nil
	})
	binary, err := bed.tools.PeregrineBinary(bed.dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartPeregrine(PeregrineOptions{Binary: binary, Dir: dir, Settings: map[string]string{"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Stop(syscall.SIGTERM) }()
	c, err := DialRaw(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acknowledged := int64(0)
	send := func() (wire.ResponseCode, string) {
		t.Helper()
		answer, err := c.Send(SendHeader("Full", 0, "TAGS\x01a\x02KEYS\x01k\x02"), make([]byte, 1000))
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Logs())
		}
		if wire.ResponseCode(answer.Code) == wire.ResponseSuccess {
			acknowledged++
		}
		return wire.ResponseCode(answer.Code), string(answer.Remark)
	}
	// sendUntil sends until the answer has the code and returns its remark.
	sendUntil := func(code wire.ResponseCode, within time.Duration) string {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			got, remark := send()
			if got == code {
				return remark
			}
			if time.Since(began) > within {
				t.Fatalf("still code %d %s after %v, expected is %d\n%s", got, remark, within, code, p.Logs())
			}
		}
	}
	sendUntil(wire.ResponseSuccess, 10*time.Second)
	for round := range 2 {
		foreign := filepath.Join(dir, "foreign")
		fillTo(t, dir, foreign, 96)
		remark := sendUntil(wire.ResponseServiceNotAvailable, 10*time.Second)
		for _, part := range []string{"disk full", p.StoreDir(), "% used", "threshold 90 %"} {
			if !strings.Contains(strings.ReplaceAll(remark, " %", "%"), strings.ReplaceAll(part, " %", "%")) {
				t.Errorf("round %d: %q is missing in %q", round, part, remark)
			}
		}
		// Case R07: not ready for old and for new topics, with a reason for machines, in every look.
		for look := range 3 {
			for _, topic := range []string{"Full", fmt.Sprintf("New%d%d", round, look)} {
				answer, err := c.Send(SendHeader(topic, 0, ""), make([]byte, 1000))
				if err != nil {
					t.Fatalf("%v\n%s", err, p.Logs())
				}
				if code := wire.ResponseCode(answer.Code); code != wire.ResponseServiceNotAvailable {
					t.Errorf("round %d: a send to %s on the full disk: code %d", round, topic, code)
				}
				if ready, code := readiness(t, p); ready || code != "disk_full" {
					t.Errorf("round %d: /readyz on the full disk: ready %v, code %q", round, ready, code)
				}
			}
			time.Sleep(300 * time.Millisecond) // so that the looks lie on both sides of the broker's own one
		}
		if next, err := c.ReadQueue("Full", 0, 0, func(*message.View) error { return nil }); err != nil || next != acknowledged {
			t.Errorf("round %d: pulls on the full disk came to %d of %d, %v", round, next, acknowledged, err)
		}
		if err := os.Remove(foreign); err != nil {
			t.Fatal(err)
		}
		sendUntil(wire.ResponseSuccess, 10*time.Second) // the disk is looked at once a second
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			ready, code := readiness(t, p)
			if ready {
				break
			}
			if code != "disk_full" || time.Since(began) > 20*time.Second {
				t.Fatalf("round %d: /readyz with space on the disk: code %q after %v", round, code, time.Since(began))
			}
		}
	}
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v\n%s", err, p.Logs())
	}
}

// readiness asks /readyz as a machine does.
func readiness(t *testing.T, p *Peregrine) (ready bool, code string) {
	t.Helper()
	_, rest, _ := strings.Cut(p.ReadyLine, "http on ")
	addr, _, _ := strings.Cut(rest, ",")
	response, err := http.Get("http://" + addr + "/readyz?format=json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Ready bool
		Code  string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Ready != (response.StatusCode == http.StatusOK) {
		t.Fatalf("status %d, %+v, %v", response.StatusCode, answer, err)
	}
	return answer.Ready, answer.Code
}

// fillTo writes a file until the partition of dir is used to that share.
func fillTo(t *testing.T, dir, path string, percent uint64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for {
		var use syscall.Statfs_t
		if err := syscall.Statfs(dir, &use); err != nil {
			t.Fatal(err)
		}
		if (use.Blocks-use.Bfree)*100 >= use.Blocks*percent {
			return
		}
		if _, err := file.Write(block); err != nil {
			return // fuller than that it does not get
		}
	}
}
