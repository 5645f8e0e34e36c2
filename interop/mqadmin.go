package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// toolsLogging is all that mqadmin 4.9.4 needs of its home: it refuses to start without this file. Quiet.
const toolsLogging = `<?xml version="1.0" encoding="UTF-8"?>
<configuration><root level="OFF"/></configuration>
`

// commandMax bounds one mqadmin command; most take a second.
const commandMax = 60 * time.Second

// writeToolsLogging makes dir a home that mqadmin accepts.
func writeToolsLogging(dir string) error {
	conf := filepath.Join(dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(conf, "logback_tools.xml"), []byte(toolsLogging), 0o644)
}

// briefJVM are the options of a JVM that lives for seconds beside others: it has no time to gain by a second compiler and a thread
// for each collector.
func briefJVM(heap string) []string {
	return []string{"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}

// toolsLine is the start of a command line for a class of the tools.
func toolsLine(home, classPath, class string) []string {
	return append(briefJVM("128m"), "-Duser.home="+home, "-Drocketmq.home.dir="+home, "-cp", classPath, class)
}

// Mqadmin is a JVM that runs one mqadmin command after the other. One goroutine uses it.
type Mqadmin struct {
	process *Process
	events  chan Event
}

// StartMqadmin starts the JVM; home is a directory of its own. The caller closes it.
func StartMqadmin(classPath, home string) (*Mqadmin, error) {
	if err := writeToolsLogging(home); err != nil {
		return nil, err
	}
	m := &Mqadmin{events: make(chan Event, 1)}
	var err error
	m.process, err = StartProcess("mqadmin", filepath.Join(home, "mqadmin.log"),
		command(home, "java", toolsLine(home, classPath, "peregrine.interop.Tools")...), func(line []byte) {
			var event Event
			if err := json.Unmarshal(line, &event); err == nil && event.E == "ran" {
				m.events <- event
			}
		})
	return m, err
}

// Run runs one command and returns what it printed. The tool ends with 0 after most failures, so there is no code to look at.
func (m *Mqadmin) Run(arguments ...string) (out, stderr string, err error) {
	if strings.ContainsAny(strings.Join(arguments, ""), "\t\n") {
		return "", "", errors.New("tabs separate the arguments")
	}
	if err := m.process.Say(strings.Join(arguments, "\t")); err != nil {
		return "", "", err
	}
	select {
	case event := <-m.events:
		return event.Out, event.Error, nil
	case <-m.process.Ended():
		return "", "", fmt.Errorf("mqadmin %v ended the JVM with code %d\n%s", arguments, m.process.ExitCode(), LogTail(m.process.LogFile))
	case <-time.After(commandMax):
		return "", "", fmt.Errorf("mqadmin %v did not end within %v\n%s", arguments, commandMax, LogTail(m.process.LogFile))
	}
}

// Close ends the JVM.
func (m *Mqadmin) Close() { _ = m.process.Stop(syscall.SIGKILL, killGrace) }
