package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The first program that a newcomer copies out of README.md sends and receives its message.
func TestReadmeExampleWorks(t *testing.T) {
	t.Parallel()
	classPath := need(t, "readme", func() (string, error) { return bed.tools.ClientClassPath("5.5.0") })
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```java\n")
	program, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no Java example")
	}
	if runs, err := os.ReadFile("java/First.java"); err != nil || string(runs) != program {
		t.Errorf("make first-message runs another program than README.md shows (%v)", err)
	}
	broker := startBroker(t, matrix()[0], false)
	program = strings.ReplaceAll(program, "127.0.0.1:9876", broker.NameServer())
	program = strings.ReplaceAll(program, "FirstTopic", "FirstTopicOfTheReadme")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "First.java"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.log")
	var lines []string
	p, err := StartProcess("First", out, command(dir, "java", append(briefJVM("256m"), "-Duser.home="+dir, "-cp", classPath, "First.java")...), func(line []byte) {
		lines = append(lines, string(line))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(2 * time.Minute); err != nil {
		t.Fatalf("%v\n%s\n%s", err, strings.Join(lines, "\n"), LogTail(out))
	}
	text := strings.Join(lines, "\n")
	if !strings.Contains(text, "SEND_OK") || !strings.Contains(text, "received hello") {
		t.Errorf("the example printed:\n%s\n%s", text, LogTail(out))
	}
}
