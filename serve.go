package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"peregrine/broker"
	"peregrine/broker/statefile"
	"peregrine/flush"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/namesrv"
	"peregrine/netio"
	"peregrine/perf"
	"peregrine/store"
)

// fatalGrace is how long a broker that cannot go on keeps answering refusals before the process exits.
const fatalGrace = 2 * time.Second

// serve runs the broker until a signal or a fatal error and returns the exit code.
func serve(args []string, stdout, stderr io.Writer) int {
	cfg, report, err := config.Load(args, os.Getenv, os.ReadFile)
	if err != nil {
		if errors.Is(err, config.ErrHelp) {
			fmt.Fprint(stdout, usage, "\n", config.Usage())
			return exitOK
		}
		return fail(stderr, exitUsage, err)
	}
	cfg.Resolve(config.ThisMachine())
	if report.Print != config.PrintNothing {
		if err := cfg.Write(stdout, report.Print == config.PrintImportant); err != nil {
			return fail(stderr, exitFailed, err)
		}
		return exitOK
	}
	level := slog.LevelInfo
	if cfg.LogDebug {
		level = slog.LevelDebug
	}
	log := perf.NewLog(stderr, level)
	defer log.Close()
	for _, line := range report.Lines() {
		log.Warn(line)
	}
	s := &service{cfg: cfg, live: config.NewLive(cfg, report.Origins), log: log, logger: log.Logger, fs: sysio.OS{}, fatal: make(chan error, 1)}
	if report.File != "" {
		s.file, err = filepath.EvalSymlinks(report.File)
		if errors.Is(err, os.ErrNotExist) {
			s.file, err = report.File, nil // its .bak was read
		}
		if err == nil {
			s.file, err = filepath.Abs(s.file)
		}
		if err != nil {
			return fail(stderr, exitUsage, err)
		}
	}
	s.state.Store(&perf.Readiness{Code: "starting", Reason: "starting", Percent: 0})
	code, err := s.run(stdout)
	if err != nil {
		log.Close()
		return fail(stderr, code, err)
	}
	return code
}

// fail prints a line for each thing that is wrong, with what to do where that is known.
func fail(stderr io.Writer, code int, err error) int {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(stderr, "peregrine: %s\n", line)
	}
	return code
}

// service is the running graph.
type service struct {
	cfg    *config.Config // as of the start
	live   *config.Live
	file   string // broker.conf behind all links, "": there is none
	log    *perf.Log
	logger *slog.Logger
	fs     sysio.FS

	addr      string         // host:port that clients are told
	storeHost netip.AddrPort // the same as numbers

	store   *store.Store
	broker  *broker.Broker
	namesrv *namesrv.Server

	state     atomic.Pointer[perf.Readiness]
	running   atomic.Bool // the ports are open: metrics may ask the broker
	fatal     chan error
	fatalOnce sync.Once
}

func (s *service) run(stdout io.Writer) (code int, err error) {
	began := time.Now()
	if _, err := sysio.RaiseNoFile(); err != nil {
		s.logger.Warn("the limit of open files could not be raised", "err", err)
	}
	sysio.AddSpareProcessor()
	if err := s.resolveAddr(); err != nil {
		return exitUsage, err
	}
	httpAddr, ok := s.cfg.HTTPAddr()
	if !ok {
		httpAddr = perf.Off
	}
	registry := perf.NewRegistry()
	s.registerMetrics(registry)
	web, err := perf.Start(perf.Options{Addr: httpAddr, Registry: registry, Ready: s.readiness, Logger: s.logger})
	if err != nil {
		return exitPort, err
	}
	defer web.Close(context.Background())

	// Before the directory is touched, and perhaps recovered for long: who listens there already is known at once.
	if err := netio.ProbeAddrs(s.listenAddrs()); err != nil {
		return exitPort, err
	}
	if err := s.checkDirs(); err != nil {
		return exitStore, s.explainStore(err)
	}
	if code, err := s.open(); err != nil {
		return code, err
	}
	stopped := false
	defer func() {
		if !stopped {
			// The start failed for another reason, which is reported; the directory need not look as after a crash.
			_ = s.store.Close(s.broker.Stop(time.Second))
		}
	}()
	if code, err := s.listen(); err != nil {
		return code, err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	s.state.Store(&perf.Readiness{Ready: true, Percent: 100})
	s.running.Store(true)
	s.announce(stdout, web.Addr(), time.Since(began))
	select {
	case err := <-s.fatal:
		s.state.Store(&perf.Readiness{Code: reasonCode(err), Reason: err.Error(), Percent: -1})
		s.logger.Error("the broker cannot go on and exits", "err", err)
		time.Sleep(fatalGrace) // the loops answer who waits; nothing is made durable any more
		stopped = true
		if errors.Is(err, flush.ErrFlushFailed) {
			return exitSync, err
		}
		return exitNetwork, err
	case sig := <-signals:
		s.state.Store(&perf.Readiness{Code: "shutting_down", Reason: "shutting down", Percent: -1})
		s.logger.Info("stopping", "signal", sig.String())
		stopped = true
		return s.stop()
	}
}

// resolveAddr finds out what clients are told, as text and as numbers: records and message ids hold addresses, no names.
func (s *service) resolveAddr() error {
	if s.cfg.ListenPort == 0 {
		l, err := net.Listen("tcp", s.cfg.BrokerAddr())
		if err != nil {
			return err
		}
		s.cfg.ListenPort = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	s.addr = s.cfg.Advertised.HostPort(s.cfg.ListenPort)
	resolved, err := net.ResolveTCPAddr("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("the advertised address %s cannot be resolved, set --advertise or brokerIP1 to an address: %w", s.addr, err)
	}
	s.storeHost = resolved.AddrPort()
	return nil
}

// listenAddrs are the addresses of the Remoting ports.
func (s *service) listenAddrs() []string {
	addrs := []string{s.cfg.BrokerAddr()}
	if fast, ok := s.cfg.FastAddr(); ok {
		addrs = append(addrs, fast)
	}
	if nameserver, ok := s.cfg.NamesrvAddrToListen(); ok {
		addrs = append(addrs, nameserver)
	}
	return addrs
}

// checkDirs finds the folder of an existing directory that this process may not write (case U06): a broker that starts all the
// same would refuse every send, or take messages that nobody ever sees.
func (s *service) checkDirs() error {
	root := s.cfg.StorePathRootDir
	for _, dir := range []string{root, s.cfg.CommitLogDir(), filepath.Join(root, "consumequeue"), filepath.Join(root, "config"),
		filepath.Join(root, "index"), filepath.Join(root, "namesrv")} {
		if err := sysio.Writable(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// open takes the data directory, recovers it and brings the queues up to the log.
func (s *service) open() (int, error) {
	st, err := store.Open(store.Options{FS: s.fs, Config: s.cfg, Logger: s.logger, Progress: func(p store.RecoveryProgress) {
		percent := 0
		if span := p.End - p.From; span > 0 {
			percent = int((p.At - p.From) * 100 / span)
		}
		s.state.Store(&perf.Readiness{Code: "recovering", Reason: "recovering the CommitLog", Percent: percent})
		s.logger.Info("recovering the CommitLog", "from", p.From, "at", p.At, "end", p.End, "records", p.Checked)
	}})
	if err != nil {
		return exitStore, s.explainStore(err)
	}
	s.store = st
	recovered := st.Recovery()
	close := func(err error) (int, error) {
		// Nothing was served: what was as after a clean stop is so again. The first error is the one to tell.
		_ = st.Close(recovered.Clean && recovered.RedispatchFrom >= recovered.End)
		return exitStore, s.explainStore(err)
	}
	if err := s.openNamesrv(); err != nil {
		return close(err)
	}
	options := broker.Options{Config: s.live, ConfigFile: s.file, FS: s.fs, Store: st, Logger: s.logger, Addr: s.addr, StoreHost: s.storeHost,
		Fatal: func(err error) { s.fatalOnce.Do(func() { s.fatal <- err }) }}
	if s.namesrv != nil {
		options.Nameserver, options.Registrar = s.namesrv, s.namesrv
	}
	if s.broker, err = broker.New(options); err != nil {
		return close(err)
	}
	s.state.Store(&perf.Readiness{Code: "recovering", Reason: "bringing the queues up to the log", Percent: 99})
	if err := s.broker.Recover(recovered); err != nil {
		return close(err)
	}
	s.logger.Info("log recovered", "clean", recovered.Clean, "records", recovered.Checked, "from", recovered.From, "end", recovered.End,
		"redispatched", s.broker.DispatchedRecords(), "redispatchedFrom", recovered.RedispatchFrom, "cutBytes", recovered.Cut, "queues", recovered.Queues, "took", recovered.Took)
	return exitOK, nil
}

func (s *service) openNamesrv() (err error) {
	if _, on := s.cfg.NamesrvAddrToListen(); !on {
		return nil
	}
	dir := filepath.Join(s.cfg.StorePathRootDir, "namesrv")
	if err := errors.Join(s.fs.MkdirAll(dir, 0o755), s.fs.SyncDir(s.cfg.StorePathRootDir)); err != nil {
		return err
	}
	s.namesrv, err = namesrv.New(namesrv.Options{
		KV: s.stateFile(dir, "kvConfig.json"), Settings: s.stateFile(dir, "namesrv.properties"),
		Facts:  map[string]string{"kvConfigPath": filepath.Join(dir, "kvConfig.json"), "configStorePath": filepath.Join(dir, "namesrv.properties"), "listenPort": s.cfg.NamesrvListen},
		Logger: s.logger, Now: func() message.Millis { return message.Millis(time.Now().UnixMilli()) },
		Close: func(conn any, reason string) {
			if ref, ok := conn.(netio.ConnRef); ok {
				s.broker.CloseConn(ref, reason)
			}
		},
	})
	return err
}

// listen registers the broker with the embedded name server and opens the ports: who gets through to them gets whole routes.
func (s *service) listen() (int, error) {
	fast, _ := s.cfg.FastAddr()
	nameserver, _ := s.cfg.NamesrvAddrToListen()
	if s.namesrv != nil {
		configs, version := s.broker.Topics()
		s.namesrv.RegisterEmbedded(namesrv.Embedded{Cluster: s.cfg.BrokerClusterName, Broker: s.cfg.BrokerName, Addr: s.addr,
			HAAddr: net.JoinHostPort(s.cfg.BrokerIP2, strconv.Itoa(int(s.storeHost.Port())+1)), ID: s.cfg.BrokerId}, configs, version)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.broker.Start(ctx, s.cfg.BrokerAddr(), fast, nameserver); err != nil {
		return exitPort, err
	}
	return exitOK, nil
}

// announce prints the one ready line and the banner.
func (s *service) announce(stdout io.Writer, web string, took time.Duration) {
	advertised := s.cfg.Advertised
	if web == "" {
		web = perf.Off
	}
	nameserver := "off"
	if addr := s.broker.NamesrvAddr(); addr != "" {
		nameserver = addr
	}
	s.logger.Info(perf.Version(version), "machine", perf.Fingerprint(), "flush", s.cfg.FlushDiskType, "store", s.cfg.StorePathRootDir,
		"advertised", s.addr, "why", advertised.Reason)
	if advertised.Warning != "" {
		s.logger.Warn("the advertised address: " + advertised.Warning)
	}
	s.logger.Info("loss window", "what", s.lossWindow())
	fmt.Fprintf(stdout, "ready: clients will be told broker %s (%s of %s), name server listens on %s, http on %s, started in %s\n",
		s.addr, s.cfg.BrokerName, s.cfg.BrokerClusterName, nameserver, web, took.Round(time.Millisecond))
}

// lossWindow says in words what a power cut may cost (ARCHITECTURE.md has the table).
func (s *service) lossWindow() string {
	if s.cfg.SyncFlushed() {
		return "SYNC_FLUSH: acknowledged messages survive kill -9 and power cuts"
	}
	return "ASYNC_FLUSH: acknowledged messages survive kill -9; a power cut may cost up to " +
		strconv.FormatInt(s.cfg.FlushIntervalCommitLog, 10) + " ms of them, or " + strconv.FormatInt(s.cfg.FlushCommitLogThoroughInterval, 10) + " ms at a few messages a second"
}

// stop ends everything in order: no new work, answers, durability, then the mark of a clean stop.
func (s *service) stop() (int, error) {
	clean := s.broker.Stop(time.Duration(s.cfg.DrainMs) * time.Millisecond)
	if err := s.store.Close(clean); err != nil {
		return exitNotClean, fmt.Errorf("stopped, but not everything is durable: %w", err)
	}
	if !clean {
		return exitNotClean, errors.New("stopped, but not cleanly (the log says why); the next start recovers")
	}
	s.logger.Info("stopped")
	return exitOK, nil
}

func (s *service) readiness() perf.Readiness {
	state := *s.state.Load()
	if state.Ready {
		if err := s.broker.Err(); err != nil {
			return perf.Readiness{Code: reasonCode(err), Reason: err.Error(), Percent: -1}
		}
	}
	return state
}

// reasonCode is the word for machines behind an error of the broker (OPERATIONS.md lists them).
func reasonCode(err error) string {
	switch {
	case errors.Is(err, store.ErrSyncFailed), errors.Is(err, flush.ErrFlushFailed):
		return "sync_failed"
	case errors.Is(err, store.ErrDiskFull):
		return "disk_full"
	case errors.Is(err, store.ErrShutdown):
		return "shutting_down"
	case errors.Is(err, store.ErrWriteFailed):
		return "write_failed"
	}
	return "failed"
}

// explainStore adds what to do to the errors of a directory that cannot be used (cases U06, S13).
func (s *service) explainStore(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the store directory %s needs read, write and search permission for uid %d: %w; try: chown -R %d %s", s.cfg.StorePathRootDir, os.Getuid(), err, os.Getuid(), s.cfg.StorePathRootDir)
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: expected is a folder; move the file away, or bring the folder back", err)
	}
	if errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("the store directory %s is on a read-only file system: %w; choose another one with --store", s.cfg.StorePathRootDir, err)
	}
	return err
}

// stateFile is a small file of the name server.
type stateFile struct {
	file  *statefile.File
	saves uint64 // generation; the name server saves one at a time
}

func (s *service) stateFile(dir, name string) *stateFile {
	return &stateFile{file: statefile.New(s.fs, filepath.Join(dir, name), s.logger)}
}

func (f *stateFile) Load(valid func([]byte) error) (used []byte, err error) {
	_, err = f.file.Load(func(data []byte) error {
		if err := valid(data); err != nil {
			return err
		}
		used = data
		return nil
	})
	return used, err
}

func (f *stateFile) Save(data []byte) error {
	f.saves++
	return f.file.Save(f.saves, func() ([]byte, uint64) { return data, f.saves })
}
