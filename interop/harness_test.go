package interop

import (
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// clientMax bounds one client process with all its scenarios.
	clientMax = 200 * time.Second
	// parallelSuites: clients mostly wait for their own timers, so more of them than cores run side by side. The original needs
	// a core of its own while it starts.
	parallelSuites       = 4
	parallelSuitesApache = 2
)

// testbed is what the suites of one run share: the prepared programs and, for the original, one broker for the suites that do
// not restart it (it takes seconds and half a gigabyte to start; peregrine gets one process per suite).
type testbed struct {
	tools    *Toolchain
	dir      string
	required bool
	apache   bool

	once   sync.Once
	shared *Apache
	err    error
}

var bed *testbed

func TestMain(m *testing.M) {
	flag.Parse()
	parallel := max(parallelSuites, runtime.GOMAXPROCS(0))
	if os.Getenv("INTEROP_TARGET") == "apache" {
		parallel = parallelSuitesApache
	}
	if err := flag.Set("test.parallel", fmt.Sprint(parallel)); err != nil {
		panic(err)
	}
	root, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "peregrine-interop-")
	if err != nil {
		panic(err)
	}
	required := os.Getenv("PEREGRINE_INTEROP") == "required"
	bed = &testbed{tools: &Toolchain{Root: root, Download: required}, dir: dir, required: required,
		apache: os.Getenv("INTEROP_TARGET") == "apache"}
	code := m.Run()
	if os.Getenv("INTEROP_MATRIX") == "write" {
		if err := writeMatrix(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if bed.shared != nil {
		_ = bed.shared.Stop(syscall.SIGKILL)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// need gets what a suite cannot do without. Where interop is required its absence fails; else the suite says so in one line.
func need(t *testing.T, suite string, get func() (string, error)) string {
	t.Helper()
	value, err := get()
	if err == nil && bed.apache {
		_, err = bed.tools.ServerClassPath(apacheVersion)
	}
	if err == nil {
		return value
	}
	if bed.required {
		t.Fatalf("%s: %v", suite, err)
	}
	fmt.Printf("SKIPPED %s: %s\n", suite, strings.ReplaceAll(err.Error(), "\n", " "))
	t.Skip(err)
	return ""
}

// settings is one row of the matrix. The defaults of a small machine hide races, so 1 and 4 of each both run.
type settings struct {
	name   string
	values map[string]string
}

func matrix() []settings {
	if bed.apache {
		return []settings{{"apache", nil}}
	}
	row := func(n string) settings {
		return settings{"loops" + n, map[string]string{"peregrine.eventLoops": n, "peregrine.reputShards": n}}
	}
	return []settings{row("1"), row("4")}
}

// startBroker gives the suite its broker; alone means that it will be stopped or needs settings of its own.
func startBroker(t *testing.T, s settings, alone bool) Broker {
	t.Helper()
	var broker Broker
	switch {
	case bed.apache && !alone:
		bed.once.Do(func() { bed.shared, bed.err = startApache(filepath.Join(bed.dir, "apache"), nil) })
		if bed.err != nil {
			t.Fatal(bed.err)
		}
		return bed.shared
	case bed.apache:
		a, err := startApache(t.TempDir(), s.values)
		if err != nil {
			t.Fatal(err)
		}
		broker = a
	default:
		binary, err := bed.tools.PeregrineBinary(bed.dir)
		if err != nil {
			t.Fatal(err)
		}
		p, err := StartPeregrine(PeregrineOptions{Binary: binary, Dir: t.TempDir(), Settings: s.values})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("ready after %v: %s", p.ReadyAfter.Round(time.Millisecond), p.ReadyLine)
		broker = p
	}
	t.Cleanup(func() {
		if err := broker.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("broker:\n%s", broker.Logs())
		}
	})
	return broker
}

func startApache(dir string, values map[string]string) (*Apache, error) {
	classPath, err := bed.tools.ServerClassPath(apacheVersion)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// A busy machine must not make the original refuse: its flow control (200 ms in a queue, 1 s in the log's lock) is not what
	// is looked at here.
	all := map[string]string{"waitTimeMillsInSendQueue": "20000", "waitTimeMillsInPullQueue": "20000", "osPageCacheBusyTimeOutMills": "20000"}
	maps.Copy(all, values)
	return StartApache(ApacheOptions{ClassPath: classPath, Dir: dir, Heap: "512m", JVM: briefJVM("512m"), Settings: all})
}

// client is one client program: how to start it with options and scenarios.
type client struct {
	name    string
	command func(dir string, arguments ...string) (program string, line []string)
}

func javaClient(version, classPath string, options ...string) client {
	name := "java-" + version
	if slices.Contains(options, "-Drocketmq.serialize.type=ROCKETMQ") {
		name += " binary"
	}
	return client{name, func(dir string, arguments ...string) (string, []string) {
		line := append(briefJVM("512m"), "-Duser.home="+dir, "-Dfile.encoding=UTF-8")
		line = append(append(line, options...), "-cp", classPath, "peregrine.interop.Main")
		return "java", append(line, arguments...)
	}}
}

// threeClients are Java 5.5.0, Java 4.9.4 and Go, for the suites that all of them go through.
func threeClients(t *testing.T, suite string) (current, old, golang client) {
	t.Helper()
	class := func(version string) string {
		return need(t, suite, func() (string, error) { return bed.tools.ClientClassPath(version) })
	}
	return javaClient("5.5.0", class("5.5.0")), javaClient("4.9.4", class("4.9.4")),
		goClient(need(t, suite, func() (string, error) { return bed.tools.GoClient(bed.dir) }))
}

func goClient(binary string) client {
	return client{"go", func(_ string, arguments ...string) (string, []string) { return binary, arguments }}
}

func nodeClient(script string) client {
	return client{"node", func(_ string, arguments ...string) (string, []string) {
		return "node", append([]string{script}, arguments...)
	}}
}

func pythonClient(script string) client {
	return client{"python", func(_ string, arguments ...string) (string, []string) {
		if bed.apache {
			arguments = append([]string{"batch=whole"}, arguments...)
		}
		return venvPython(filepath.Dir(script)), append([]string{script}, arguments...)
	}}
}

// running is a client process and what it has printed so far.
type running struct {
	*Transcript
	t       *testing.T
	name    string
	dir     string
	process *Process
}

// start starts a client process against the broker. It is killed at the end of the test if it is still there.
func (c client) start(t *testing.T, broker Broker, run string, arguments ...string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{Transcript: newTranscript(), t: t, name: c.name, dir: dir}
	r.reset = func(asked Event) {
		found, err := resetOffsets(broker.Addr(), asked)
		if err != nil {
			t.Error(err)
		}
		r.add(found...)
	}
	program, line := c.command(dir, append([]string{"namesrv=" + broker.NameServer(), "broker=" + broker.Addr(), "run=" + run}, arguments...)...)
	var err error
	r.process, err = StartProcess(c.name, filepath.Join(dir, "client.log"), command(dir, program, line...), r.take)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.process.Stop(syscall.SIGKILL, killGrace) })
	return r
}

// finish waits for the end of the process.
func (r *running) finish() {
	r.t.Helper()
	if err := r.process.Wait(clientMax); err != nil {
		r.t.Errorf("%s: %v", r.name, err)
	}
}

// awaitReady waits until the client says that its scenario has come to the point where the harness acts.
func (r *running) awaitReady(scenario string) {
	r.t.Helper()
	select {
	case <-r.Ready():
	case <-r.process.Ended():
		r.t.Fatalf("%s ended before it was ready: %q", r.name, ended(r.Of(scenario)))
	case <-time.After(clientMax):
		r.t.Fatalf("%s never got ready", r.name)
	}
}

// explain prints what the client wrote besides its events, once, when the test failed.
func (r *running) explain() {
	if !r.t.Failed() {
		return
	}
	r.t.Logf("%s:\n%s", r.name, LogTail(r.process.LogFile))
	if own := filepath.Join(r.dir, "logs", "rocketmqlogs", "rocketmq_client.log"); fileExists(own) {
		r.t.Log(LogTail(own))
	}
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// newRun names one run, so that several can share a broker.
func newRun() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func expectation() Expectation { return Expectation{SizeInRemark: !bed.apache, BatchOne: !bed.apache} }

// complain makes a failure of each problem.
func complain(t *testing.T, found problems) {
	t.Helper()
	for _, problem := range found {
		t.Error(problem)
	}
}

// judge makes failures of what is wrong with a scenario and notes the outcome.
func judge(t *testing.T, client, scenario string, events []Event) {
	t.Helper()
	complain(t, verdict(scenario, events, expectation()))
	record(scenario, client, !t.Failed())
}

// runScenarios runs all scenarios in one client process and judges each as a sub-test.
func runScenarios(t *testing.T, c client, broker Broker, options []string, scenarios ...string) {
	t.Helper()
	if chosen := os.Getenv("INTEROP_SCENARIOS"); chosen != "" {
		scenarios = slices.DeleteFunc(slices.Clone(scenarios), func(name string) bool { return !slices.Contains(strings.Split(chosen, ","), name) })
	}
	r := c.start(t, broker, newRun(), append(options, scenarios...)...)
	r.finish()
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) { judge(t, c.name, scenario, r.Of(scenario)) })
	}
	r.explain()
}
