package interop

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Broker is a running broker with its name server: peregrine or the original.
type Broker interface {
	// NameServer and Addr are HOST:PORT as clients are told. They survive a restart.
	NameServer() string
	Addr() string
	// StoreDir is storePathRootDir.
	StoreDir() string
	// Stop ends the broker with that signal and waits. The name server of the original ends with it, as peregrine's does.
	Stop(signal syscall.Signal) error
	// Start starts it again after Stop: same ports, same directory. It returns when clients can work.
	Start() error
	// Logs is the end of what it wrote, for a failure message.
	Logs() string
}

const (
	peregrineStopMax  = 30 * time.Second
	peregrineStartMax = 20 * time.Second // far above its own promise; the harness only wants to end
)

// PeregrineOptions chooses the binary, the directory and the settings of one broker.
type PeregrineOptions struct {
	Binary string
	// Dir holds store and log; it must exist and be empty at the first start.
	Dir string
	// Settings are broker.conf keys, given as trailing key=value arguments. Without bindAddress and brokerIP1 both are 127.0.0.1.
	Settings map[string]string
}

// Peregrine is one running peregrine.
type Peregrine struct {
	options PeregrineOptions
	ports   brokerPorts
	process *Process
	// ReadyLine is what it printed when it was ready, ReadyAfter how long that took.
	ReadyLine  string
	ReadyAfter time.Duration
}

// StartPeregrine starts it on free loopback ports and returns when it printed its ready line and answers.
func StartPeregrine(options PeregrineOptions) (*Peregrine, error) {
	ports, err := newBrokerPorts()
	if err != nil {
		return nil, err
	}
	p := &Peregrine{options: options, ports: ports}
	if err := p.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Peregrine) NameServer() string { return address(p.ports.nameServer) }
func (p *Peregrine) Addr() string {
	return net.JoinHostPort(cmp.Or(p.options.Settings["bindAddress"], loopback), strconv.Itoa(p.ports.broker))
}
func (p *Peregrine) StoreDir() string { return filepath.Join(p.options.Dir, "store") }
func (p *Peregrine) logFile() string  { return filepath.Join(p.options.Dir, "peregrine.log") }
func (p *Peregrine) Logs() string     { return LogTail(p.logFile()) }

func (p *Peregrine) Start() error {
	settings := map[string]string{"listenPort": fmt.Sprint(p.ports.broker), "bindAddress": loopback, "brokerIP1": loopback,
		"peregrine.namesrvListen": p.NameServer()}
	maps.Copy(settings, p.options.Settings)
	arguments := []string{"serve", "--store", p.StoreDir(), "--http", loopback + ":0"}
	for key, value := range settings {
		arguments = append(arguments, key+"="+value)
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "# %s %s\n", filepath.Base(p.options.Binary), strings.Join(arguments, " "))
	ready := make(chan string, 1)
	start := time.Now()
	p.process, err = StartProcess("peregrine", p.logFile(), command(p.options.Dir, p.options.Binary, arguments...), func(line []byte) {
		fmt.Fprintf(log, "%s\n", line)
		if strings.HasPrefix(string(line), "ready") {
			select {
			case ready <- string(line):
			default:
			}
		}
	})
	if err != nil {
		log.Close()
		return err
	}
	go func(p *Process) {
		<-p.Ended()
		log.Close()
	}(p.process)
	select {
	case p.ReadyLine = <-ready:
		p.ReadyAfter = time.Since(start)
	case <-p.process.Ended():
		return fmt.Errorf("peregrine ended with code %d before it was ready\n%s", p.process.ExitCode(), p.Logs())
	case <-time.After(peregrineStartMax):
		p.process.kill()
		return fmt.Errorf("peregrine printed no ready line within %v\n%s", peregrineStartMax, p.Logs())
	}
	// After "ready" there is nothing left to wait for: one question must be enough.
	if _, err := call(p.NameServer(), requestBrokerClusterInfo, nil, nil); err != nil {
		p.process.kill()
		return fmt.Errorf("peregrine said %q, but its name server does not answer: %w", p.ReadyLine, err)
	}
	return nil
}

func (p *Peregrine) Stop(signal syscall.Signal) error {
	err := p.process.Stop(signal, peregrineStopMax)
	if err == nil && signal == syscall.SIGTERM && p.process.ExitCode() != 0 {
		return fmt.Errorf("peregrine ended with code %d after SIGTERM", p.process.ExitCode())
	}
	return err
}

// Process is the running child (its pid, its end).
func (p *Peregrine) Process() *Process { return p.process }
