package interop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"peregrine/internal/sysio"
)

// failedStart runs the binary, expects it to end by itself with that code within two seconds, and returns its one line.
func failedStart(t *testing.T, as *syscall.Credential, want int, args ...string) string {
	t.Helper()
	binary, err := bed.tools.PeregrineBinary(bed.dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir()
	if as != nil {
		// The work directory and the binary have to be reachable for the other user.
		reachable := filepath.Join(os.TempDir(), fmt.Sprintf("peregrine-test-%d", os.Getpid()))
		data, err := os.ReadFile(binary)
		if err == nil {
			err = os.WriteFile(reachable, data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(reachable)
		cmd = exec.Command(reachable, args...)
		cmd.Dir = os.TempDir()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Errorf("exit code %d, want %d\n%s%s", code, want, &stdout, &stderr)
	}
	// The promise is a second; a loaded machine gets ten.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if strings.Contains(stdout.String(), "ready") {
		t.Errorf("said ready:\n%s", &stdout)
	}
	var line string
	for _, l := range strings.Split(stderr.String(), "\n") {
		if strings.HasPrefix(l, "peregrine: ") {
			line += l + "\n"
		}
	}
	if line == "" {
		t.Errorf("no line that begins with peregrine:\n%s", &stderr)
	}
	return line
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freePorts(-2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Case U07: each port in use is named, and nothing is left half started.
func TestPortInUseIsNamed(t *testing.T) {
	if bed.apache {
		t.Skip("the start of peregrine")
	}
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for name, set := range map[string][]string{
		"broker":      {fmt.Sprintf("listenPort=%d", port), fmt.Sprintf("peregrine.namesrvListen=127.0.0.1:%d", freePort(t)), "peregrine.http=off"},
		"fast":        {fmt.Sprintf("listenPort=%d", port+2), fmt.Sprintf("peregrine.namesrvListen=127.0.0.1:%d", freePort(t)), "peregrine.http=off"},
		"name server": {fmt.Sprintf("listenPort=%d", freePort(t)), fmt.Sprintf("peregrine.namesrvListen=127.0.0.1:%d", port), "peregrine.http=off"},
		"http":        {fmt.Sprintf("listenPort=%d", freePort(t)), fmt.Sprintf("peregrine.namesrvListen=127.0.0.1:%d", freePort(t)), fmt.Sprintf("peregrine.http=127.0.0.1:%d", port)},
	} {
		dir := t.TempDir()
		line := failedStart(t, nil, 4, append([]string{"serve", "--store", dir, "bindAddress=127.0.0.1"}, set...)...)
		if !strings.Contains(line, strconv.Itoa(port)) || !strings.Contains(line, "in use") {
			t.Errorf("%s port: %s", name, line)
		}
		if _, err := os.Stat(filepath.Join(dir, "abort")); err == nil {
			t.Errorf("%s port: the directory looks as after a crash", name)
		}
	}
}

// Cases U07, U08: what is wrong with the configuration is said with file, line, key and expectation.
func TestWrongConfigurationIsNamed(t *testing.T) {
	if bed.apache {
		t.Skip("the start of peregrine")
	}
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "broker.conf")
	for text, want := range map[string][]string{
		"brokerName=a\nlistenPort=many\n":         {"broker.conf:2", "listenPort", "many"},
		"\nflushDiskType=SOMETIMES\n":             {"broker.conf:2", "flushDiskType", "SYNC_FLUSH"},
		"aclEnable=true\n":                        {"broker.conf:1", "aclEnable"},
		"# x\nbrokerRole = SLAVE\n":               {"broker.conf:2", "brokerRole"},
		"peregrine.eventloops=3\n":                {"broker.conf:1", "peregrine.eventloops", "peregrine.eventLoops"},
		"namesrvAddr=192.0.2.1:9876\n":            {"broker.conf:1", "namesrvAddr"},
		"enableDLegerCommitLog=true\nstoreType=x": {"broker.conf:1", "enableDLegerCommitLog"},
	} {
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "store")
		line := failedStart(t, nil, 2, "serve", "-c", conf, "--store", dir)
		for _, part := range want {
			if !strings.Contains(line, part) {
				t.Errorf("%q: %q is missing in: %s", text, part, line)
			}
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: the store directory was made", text)
		}
	}
	failedStart(t, nil, 2, "serve", "-c", filepath.Join(t.TempDir(), "nowhere.conf"))
	failedStart(t, nil, 2, "serve", "--no-such-flag")
	failedStart(t, nil, 2, "serve", "-n", "192.0.2.1:9876")
}

// Case U06: a directory without permission, below a file, and one of another uid.
func TestUnusableDirectoryIsExplained(t *testing.T) {
	if bed.apache {
		t.Skip("the start of peregrine")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if line := failedStart(t, nil, 3, "serve", "--store", filepath.Join(file, "store"), "peregrine.http=off"); !strings.Contains(line, file) {
		t.Errorf("below a file: %s", line)
	}
	if os.Getuid() != 0 {
		return // only root can become somebody else
	}
	dir, err := os.MkdirTemp("", "peregrine-foreign-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	foreign := func(unusable string) {
		t.Helper()
		line := failedStart(t, nobody, 3, "serve", "--store", dir, "bindAddress=127.0.0.1", fmt.Sprintf("listenPort=%d", freePort(t)),
			fmt.Sprintf("peregrine.namesrvListen=127.0.0.1:%d", freePort(t)), "peregrine.http=off")
		for _, part := range []string{unusable, "65534", "permission", "chown"} {
			if !strings.Contains(line, part) {
				t.Errorf("%q is missing in: %s", part, line)
			}
		}
	}
	foreign(dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"commitlog", "consumequeue", "config"} {
		folder := filepath.Join(dir, sub)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		foreign(folder)
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
	}
}

// Case S13: a second process on the same directory ends at once, names the holder and does no harm; a killed one leaves no lock
// behind.
func TestSecondProcessNamesTheHolder(t *testing.T) {
	if bed.apache {
		t.Skip("the start of peregrine")
	}
	t.Parallel()
	broker := startBroker(t, matrix()[0], true).(*Peregrine)
	args := []string{"serve", "--store", broker.StoreDir(), fmt.Sprintf("listenPort=%d", freePort(t)), fmt.Sprintf("peregrine.namesrvListen=127.0.0.1:%d", freePort(t)), "peregrine.http=off"}
	line := failedStart(t, nil, 3, args...)
	if !strings.Contains(line, broker.StoreDir()) || !strings.Contains(line, strconv.Itoa(broker.Process().Pid())) {
		t.Errorf("%s (the holder is %d)", line, broker.Process().Pid())
	}
	// A copied configuration with another root but the same log, and a lock file that somebody deleted.
	other := append([]string{"serve", "--store", t.TempDir(), "storePathCommitLog=" + filepath.Join(broker.StoreDir(), "commitlog")}, args[3:]...)
	if line := failedStart(t, nil, 3, other...); !strings.Contains(line, filepath.Join(broker.StoreDir(), "commitlog")) {
		t.Errorf("another root, the same log: %s", line)
	}
	if err := os.Remove(filepath.Join(broker.StoreDir(), "lock")); err != nil {
		t.Fatal(err)
	}
	if line := failedStart(t, nil, 3, args...); !strings.Contains(line, broker.StoreDir()) {
		t.Errorf("the lock file was deleted: %s", line)
	}
	c, err := DialRaw(broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if cmd, err := c.Send(SendHeader("AfterSecond", 0, ""), []byte("x")); err != nil || cmd.Code != 0 {
		t.Errorf("the first one is harmed: %v", err)
	}
	if err := broker.Stop(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Errorf("after kill -9: %v", err)
	}
}

// A broker that had nothing to recover says ready within a tenth of a second (here ten times that: the machine is shared) and
// idles below 40 MiB of anonymous memory.
func TestStartIsQuickAndSmall(t *testing.T) {
	if bed.apache {
		t.Skip("the start of peregrine")
	}
	broker := startBroker(t, matrix()[0], true).(*Peregrine)
	if broker.ReadyAfter > time.Second {
		t.Errorf("ready after %v", broker.ReadyAfter)
	}
	anon, err := sysio.RssAnonOf(broker.Process().Pid())
	if err != nil || anon > 40<<20 {
		t.Errorf("%d bytes of anonymous memory, %v", anon, err)
	}
	t.Logf("ready after %v, %.1f MiB anonymous", broker.ReadyAfter, float64(anon)/(1<<20))
}
