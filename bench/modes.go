package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
)

// mode is one kind of load with the options that make it.
type mode struct {
	name   string
	intro  string
	change func(o *Options)

	sends, consumes bool // which flags there are
}

var modes = []mode{
	{name: "send", intro: "measure sends", sends: true, change: func(*Options) {}},
	{name: "sync", intro: "measure sends to a broker with flushDiskType=SYNC_FLUSH, and syncs of the device under --probe-dir", sends: true, change: func(o *Options) {
		o.Connections, o.Inflight, o.ProbeDir = 1, 1, "."
	}},
	{name: "pull", intro: "measure pulls of what is there, again and again", consumes: true, change: func(o *Options) {
		o.consumes, o.Connections, o.Backlog = consumeAgain, 0, 200_000
	}},
	{name: "catchup", intro: "measure how fast a backlog is read once; --duration is the most that it may take", consumes: true, change: func(o *Options) {
		o.consumes, o.Connections, o.Backlog, o.Warmup, o.Duration = consumeOnce, 0, 1_000_000, 0, 10*time.Minute
	}},
	{name: "e2e", intro: "measure the time from a message's intended send to its arrival by a held pull", sends: true, consumes: true, change: func(o *Options) {
		o.consumes, o.Rate = consumeArriving, 20_000
	}},
	{name: "mixed", intro: "measure deliveries beside a group that is behind, keys and delayed messages", sends: true, consumes: true, change: func(o *Options) {
		o.consumes, o.Rate, o.Groups, o.Backlog, o.Keys, o.Delayed = consumeArriving, 20_000, 3, 1_000_000, true, 0.05
	}},
}

// flags are those of the mode.
func (m *mode) flags(fs *pflag.FlagSet, o *Options) {
	fs.StringVar(&o.Addr, "addr", o.Addr, "broker, host:port")
	fs.StringVar(&o.Namesrv, "namesrv", "", "name servers, host:port;host:port: the brokers that they name for the topic, instead of --addr")
	fs.StringVar(&o.Topic, "topic", o.Topic, "topic; one that begins with "+DefaultTopic+" is created with --queues queues")
	fs.IntVar(&o.Queues, "queues", o.Queues, "queues to send to, in turn, and to pull from")
	fs.IntVar(&o.Size, "size", o.Size, "body bytes of a message")
	if m.sends {
		fs.StringVar(&o.Group, "group", o.Group, "producer group; consumer groups add a number to it")
		fs.IntVar(&o.Connections, "connections", o.Connections, "connections that send")
		fs.IntVar(&o.Inflight, "inflight", o.Inflight, "closed loop: unanswered requests per connection")
		fs.Float64Var(&o.Rate, "rate", o.Rate, "open loop: messages a second on a schedule; response times count from the intended send time. 0 = closed loop")
		fs.BoolVar(&o.Poisson, "poisson", false, "open loop: arrivals at random, as of many independent clients, instead of evenly spaced")
		fs.IntVar(&o.MaxInflight, "max-inflight", o.MaxInflight, "open loop: unfinished requests in all; arrivals beyond are skipped and counted")
		fs.IntVar(&o.Batch, "batch", o.Batch, "messages in a request")
		fs.StringVar(&o.Tags, "tags", o.Tags, "TAGS of every message; empty = none")
		fs.BoolVar(&o.Keys, "keys", o.Keys, "give every message a unique key in KEYS, too")
		fs.StringVar(&o.Key, "key", "", "give every message this one key in KEYS; empty = none")
		fs.BoolVar(&o.CheckDispatch, "check-dispatch", false, "wait until all acknowledged messages are visible to consumers; the rate counts only if that is so within "+dispatchLevelMax.String())
	}
	if m.consumes {
		fs.IntVar(&o.Groups, "groups", o.Groups, "consumer groups, each of which gets every message")
		fs.IntVar(&o.PullConnections, "pull-connections", o.PullConnections, "connections of each group; a queue is read by one of them")
		fs.IntVar(&o.PullBatch, "pull-batch", o.PullBatch, "messages that a pull asks for")
		fs.IntVar(&o.Backlog, "backlog", o.Backlog, "messages that have to be there before; what lacks is sent first"+map[bool]string{true: ". The last group begins with them", false: ""}[m.sends])
	}
	if m.sends && m.consumes {
		fs.Float64Var(&o.Delayed, "delayed", o.Delayed, "share of messages with a delay level, 0 to 1; they count as lost if they do not come, not in the times")
		fs.IntVar(&o.DelayLevel, "delay-level", o.DelayLevel, "their delay level")
	}
	fs.DurationVar(&o.Duration, "duration", o.Duration, "measured time")
	fs.DurationVar(&o.Warmup, "warmup", o.Warmup, "time before, not measured")
	fs.DurationVar(&o.Drain, "drain", o.Drain, "most time after it, for the last answers and deliveries")
	fs.IntVar(&o.Threads, "threads", 0, "threads of the generator; 0 = half the cores")
	if m.sends {
		fs.DurationVar(&o.Freeze, "freeze", 0, "drill, open loop: the process --freeze-pid stands still for this time in the middle of the load (SIGSTOP, SIGCONT)")
		fs.IntVar(&o.FreezePid, "freeze-pid", 0, "process of the broker, on this machine")
	}
	fs.StringVar(&o.ProfileDir, "profile", "", "folder for CPU, block, mutex and heap profiles of the broker during the load, beside report.json and report.html")
	fs.StringVar(&o.ProfileHTTP, "profile-http", "127.0.0.1:10920", "address that serves the broker's /debug/pprof/")
	fs.StringVar(&o.ProbeDir, "probe-dir", o.ProbeDir, "measure writes and syncs of the device that this folder is on, before the load; empty = do not")
	fs.StringVar(&o.HistogramFile, "hdr", "", "write an HdrHistogram log (.hlog), one histogram a second, to this file")
}

// OptionsOf are the defaults of a load by its name: send, sync, pull, catchup, e2e or mixed.
func OptionsOf(name string) (o Options, ok bool) {
	m := modeNamed(name)
	if m == nil {
		return o, false
	}
	o = DefaultOptions()
	m.change(&o)
	o.Mode = m.name
	return o, true
}

// modeFirst takes the name of a load from the front of a command's arguments, send where none stands there; nil for an unknown one.
func modeFirst(args []string) (m *mode, rest []string) {
	if len(args) == 0 || args[0] == "" || args[0][0] == '-' {
		return &modes[0], args
	}
	return modeNamed(args[0]), args[1:]
}

func modeNamed(name string) *mode {
	for i := range modes {
		if modes[i].name == name {
			return &modes[i]
		}
	}
	return nil
}

// parse makes the options of the mode out of a command's arguments; more adds flags of the command. done is true when the command ends here with code.
func (m *mode) parse(args []string, stdout, stderr io.Writer, command, intro string, more func(*pflag.FlagSet)) (o Options, code int, done bool) {
	o, _ = OptionsOf(m.name)
	fs := pflag.NewFlagSet(command, pflag.ContinueOnError)
	m.flags(fs, &o)
	more(fs)
	encoding := fs.String("encoding", "json", "header encoding: json or binary")
	if code, done := parse(fs, args, stdout, stderr, intro); done {
		return o, code, true
	}
	var err error
	if o.Encoding, err = encodingOf(*encoding); err == nil {
		err = (&o).check()
	}
	if err != nil {
		fmt.Fprintf(stderr, "peregrine bench %s: %v\n", command, err)
		return o, exitUsage, true
	}
	return o, exitGood, false
}

// main runs the mode's command.
func (m *mode) main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	rounds := 1
	var out outputs
	o, code, done := m.parse(args, stdout, stderr, m.name, "peregrine bench "+m.name+": "+m.intro, func(fs *pflag.FlagSet) {
		fs.IntVar(&rounds, "rounds", rounds, "runs, one after the other; more than one are reported with their spread")
		out.flags(fs)
	})
	if done {
		return code
	}
	if rounds < 1 || rounds > roundsMax || rounds > 1 && (o.HistogramFile != "" || o.ProfileDir != "") {
		fmt.Fprintf(stderr, "peregrine bench %s: --rounds %d: expected 1 to %d, and 1 with --hdr or --profile\n", m.name, rounds, roundsMax)
		return exitUsage
	}
	if o.ProfileDir != "" { // the report belongs to its profiles
		out.jsonFile, out.htmlFile = cmp.Or(out.jsonFile, filepath.Join(o.ProfileDir, "report.json")), cmp.Or(out.htmlFile, filepath.Join(o.ProfileDir, "report.html"))
	}
	var all runs
	for i := range rounds {
		rep, err := Run(ctx, o, stderr)
		if err != nil {
			fmt.Fprintf(stderr, "peregrine bench %s: %v\n", m.name, err)
			return exitBad
		}
		if all.Rounds = append(all.Rounds, rep); rounds > 1 {
			fmt.Fprintf(stderr, "run %d of %d: %s\n", i+1, rounds, rep.line())
		}
		if ctx.Err() != nil {
			break
		}
	}
	all.Spread = spreads(all.Rounds)
	var doc any = &all
	if rounds == 1 {
		doc = all.Rounds[0]
	}
	if err := out.write(stdout, all.write, doc, func() *page { return pageOf(&all) }); err != nil {
		fmt.Fprintf(stderr, "peregrine bench %s: %v\n", m.name, err)
		return exitBad
	}
	if len(all.failures()) > 0 {
		return exitBad
	}
	return exitGood
}

// outputs is where a report goes.
type outputs struct {
	jsonFile, htmlFile string
	markdown           bool
}

func (out *outputs) flags(fs *pflag.FlagSet) {
	fs.Var((*reportFile)(&out.jsonFile), "json", "write the report to this file; - = standard output instead of the table")
	fs.Var((*reportFile)(&out.htmlFile), "html", "write the report with charts to this file, which needs nothing else")
	fs.BoolVar(&out.markdown, "markdown", false, "tables in Markdown")
}

// reportFile is the flag of a file whose folder has to be there before the load, not only after it.
type reportFile string

func (f *reportFile) String() string { return string(*f) }
func (f *reportFile) Type() string   { return "string" }
func (f *reportFile) Set(path string) error {
	*f = reportFile(path)
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	return nil
}

// write puts a report where it is wanted: text for people, doc as JSON, page as HTML.
func (out *outputs) write(stdout io.Writer, text func(w io.Writer, markdown bool), doc any, page func() *page) error {
	if out.jsonFile != "-" {
		text(stdout, out.markdown)
	}
	var failed error
	if out.jsonFile != "" {
		failed = writeJSON(out.jsonFile, doc, stdout)
	}
	if out.htmlFile == "" {
		return failed
	}
	f, err := os.Create(out.htmlFile)
	if err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, page().write(f), f.Close())
}
