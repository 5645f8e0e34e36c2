package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The fake broker stores 300 bytes a message; this process plays its process.
func TestPlanMultipliesWhatItMeasured(t *testing.T) {
	f := startFakeBroker(t, nil)
	file := filepath.Join(t.TempDir(), "plan.json")
	var stdout, stderr bytes.Buffer
	args := []string{"plan", "--addr", f.addr(), "--duration", "100ms", "--warmup", "0s", "--disk", "1e9",
		"--plan-rate", "1000", "--pid", fmt.Sprint(os.Getpid()), "--json", file}
	if code := Main(args, &stdout, &stderr); code != exitGood {
		t.Fatalf("exit %d\n%s%s", code, stdout.String(), stderr.String())
	}
	var c capacity
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	// 341 bytes for each of 86,400,000 messages a day, on three quarters of 10^9 bytes.
	if c.LogBytes != 300 || c.QueueBytes != 20 || c.IndexBytes != 21 || c.DiskDays < 0.0254 || c.DiskDays > 0.0255 || c.ReservedDays != 3 {
		t.Errorf("%+v", c)
	}
	if c.CPUPer100k == nil || *c.CPUPer100k < 0 || c.ConnectionBytes == nil || c.QueueMemory == nil {
		t.Errorf("%+v", c)
	}
	f.look(func() {
		if len(f.deleted) != 1 || !strings.HasPrefix(f.deleted[0], planTopic) {
			t.Errorf("deleted topics: %q", f.deleted)
		}
	})
	if !strings.Contains(stdout.String(), "0.02 days") && !strings.Contains(stdout.String(), "0.03 days") {
		t.Error(stdout.String())
	}
}
