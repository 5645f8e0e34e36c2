package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

// Both take seconds on an idle machine.
const (
	apacheStartMax = 2 * time.Minute
	apacheStopMax  = 2 * time.Minute
)

// shippedBrokerConf is what conf/broker.conf of the original's release says, key by key.
func shippedBrokerConf() map[string]string {
	return map[string]string{
		"brokerClusterName": "DefaultCluster",
		"brokerName":        "broker-a",
		"brokerId":          "0",
		"deleteWhen":        "04",
		"fileReservedTime":  "48",
		"brokerRole":        "ASYNC_MASTER",
		"flushDiskType":     "ASYNC_FLUSH",
	}
}

// ApacheOptions says how to start the original.
type ApacheOptions struct {
	// ClassPath as ServerClassPath returns it.
	ClassPath string
	// Dir holds store, logs and configuration; it must exist.
	Dir string
	// Heap is the value of both -Xms and -Xmx of the broker, such as "512m" or "4g".
	Heap string
	// JVM are further options of the broker's JVM, before the class name.
	JVM []string
	// Settings are added to the shipped broker.conf or replace its values.
	Settings map[string]string
}

// Apache is a running original: one name server and one broker.
type Apache struct {
	options            ApacheOptions
	ports              brokerPorts
	nameServer, broker *Process
}

// StartApache starts the original's name server and broker on free loopback ports and returns when the broker is registered.
// The caller stops it with Stop, and starts it again in the same place with Start.
func StartApache(options ApacheOptions) (*Apache, error) {
	ports, err := newBrokerPorts()
	if err != nil {
		return nil, err
	}
	a := &Apache{options: options, ports: ports}
	if err := a.Start(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Apache) NameServer() string { return address(a.ports.nameServer) }
func (a *Apache) Addr() string       { return address(a.ports.broker) }
func (a *Apache) StoreDir() string   { return filepath.Join(a.options.Dir, "store") }

// BrokerPID is the process to measure.
func (a *Apache) BrokerPID() int { return a.broker.cmd.Process.Pid }

// Logs shows both consoles and the broker's own log.
func (a *Apache) Logs() string {
	return strings.Join([]string{LogTail(filepath.Join(a.options.Dir, "namesrv.log")), LogTail(filepath.Join(a.options.Dir, "broker.log")),
		LogTail(filepath.Join(a.options.Dir, "logs", "rocketmqlogs", "broker.log"))}, "\n")
}

func (a *Apache) Start() error {
	settings := shippedBrokerConf()
	settings["brokerIP1"] = loopback
	for key, value := range a.options.Settings {
		settings[key] = value
	}
	settings["listenPort"] = fmt.Sprint(a.ports.broker)
	settings["namesrvAddr"] = a.NameServer()
	settings["storePathRootDir"] = a.StoreDir()
	brokerConf, err := a.writeConf("broker.conf", settings)
	if err != nil {
		return err
	}
	nameServerConf, err := a.writeConf("namesrv.conf", map[string]string{"listenPort": fmt.Sprint(a.ports.nameServer),
		"kvConfigPath": filepath.Join(a.options.Dir, "kvConfig.json"), "configStorePath": filepath.Join(a.options.Dir, "namesrv.properties")})
	if err != nil {
		return err
	}
	a.nameServer, err = StartProcess("Apache name server", filepath.Join(a.options.Dir, "namesrv.log"),
		a.java(briefJVM("256m"), "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", nameServerConf), nil)
	if err != nil {
		return err
	}
	a.broker, err = StartProcess("Apache broker", filepath.Join(a.options.Dir, "broker.log"),
		a.java(append([]string{"-Xms" + a.options.Heap, "-Xmx" + a.options.Heap}, a.options.JVM...),
			"org.apache.rocketmq.broker.BrokerStartup", "-c", brokerConf), nil)
	if err != nil {
		a.nameServer.kill()
		return err
	}
	if err := awaitRegistration(a.NameServer(), apacheStartMax, a.broker.Ended()); err != nil {
		logs := a.Logs()
		_ = a.Stop(syscall.SIGKILL)
		return fmt.Errorf("the original did not start: %w\n%s", err, logs)
	}
	return nil
}

// Stop ends the broker by the signal, then its name server, which has nothing to lose, by SIGKILL.
func (a *Apache) Stop(signal syscall.Signal) error {
	err := a.broker.Stop(signal, apacheStopMax)
	a.nameServer.kill()
	return err
}

// java runs a class of the original with everything that it writes below Dir.
func (a *Apache) java(jvm []string, class string, arguments ...string) *exec.Cmd {
	line := append([]string{
		// What the release's start scripts add for Java 9 and later.
		"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
		"--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
		"-Duser.home=" + a.options.Dir, "-Drocketmq.home.dir=" + a.options.Dir, "-Djava.io.tmpdir=" + a.options.Dir,
	}, jvm...)
	line = append(line, "-cp", a.options.ClassPath, class)
	return command(a.options.Dir, "java", append(line, arguments...)...)
}

func (a *Apache) writeConf(name string, settings map[string]string) (string, error) {
	keys := make([]string, 0, len(settings))
	for key := range settings {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var text strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
	}
	file := filepath.Join(a.options.Dir, name)
	return file, os.WriteFile(file, []byte(text.String()), 0o644)
}

// command is a child that works in dir and calls it home.
func command(dir, program string, arguments ...string) *exec.Cmd {
	cmd := exec.Command(program, arguments...)
	cmd.Dir = dir
	cmd.Env = cleanEnvironment("HOME=" + dir)
	return cmd
}
