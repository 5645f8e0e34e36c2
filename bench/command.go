package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"peregrine/wire"
)

// Exit codes of Main.
const (
	exitGood  = 0 // measured, and nothing speaks against the numbers
	exitBad   = 1 // errors, a missed target, dispatch behind, or nothing could be measured
	exitUsage = 2
)

const usage = `peregrine bench: a load generator for RocketMQ-compatible brokers (Remoting protocol)

  peregrine bench send       send messages at a fixed rate (open loop) or as fast as answers come (closed loop)
  peregrine bench longpoll   how fast a message reaches a pull that the broker holds
  peregrine bench delay      how late delayed messages come

Each takes --help. Exit code 0: measured; 1: errors, target missed or check failed; 2: wrong usage.
`

// Main runs `peregrine bench` with the arguments behind that word and returns the exit code. It reacts to SIGINT and
// SIGTERM by ending the load early and reporting what there is.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "send":
		return sendMain(ctx, args[1:], stdout, stderr)
	case "longpoll", "wake":
		return longpollMain(ctx, args[1:], stdout, stderr)
	case "delay":
		return delayMain(ctx, args[1:], stdout, stderr)
	case "ceiling": // a tool for the budget table, of no use to anybody else: not in the help
		return ceilingMain(ctx, args[1:], stdout, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return exitGood
	}
	fmt.Fprintf(stderr, "peregrine bench: unknown command %q\n\n%s", args[0], usage)
	return exitUsage
}

// parse reads flags and says what is wrong with them in one line. done is true when the command ends here with code.
func parse(fs *pflag.FlagSet, args []string, stdout, stderr io.Writer, intro string) (code int, done bool) {
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "%s\n\n%s", intro, fs.FlagUsages())
		return exitGood, true
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "peregrine bench %s: %v (--help lists the flags)\n", fs.Name(), err)
		return exitUsage, true
	}
	return exitGood, false
}

func sendMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := DefaultSendOptions()
	fs := pflag.NewFlagSet("send", pflag.ContinueOnError)
	fs.StringVar(&o.Addr, "addr", o.Addr, "broker, host:port")
	fs.StringVar(&o.Namesrv, "namesrv", "", "name servers, host:port;host:port: send to the brokers that they name for the topic, instead of --addr")
	fs.StringVar(&o.Topic, "topic", o.Topic, "topic; one that begins with "+DefaultTopic+" is created with --queues queues")
	fs.StringVar(&o.Group, "group", o.Group, "producer group")
	fs.IntVar(&o.Queues, "queues", o.Queues, "queues to send to, in turn")
	fs.IntVar(&o.Connections, "connections", o.Connections, "connections")
	fs.IntVar(&o.Inflight, "inflight", o.Inflight, "closed loop: unanswered requests per connection")
	fs.Float64Var(&o.Rate, "rate", 0, "open loop: messages a second on a fixed schedule; response times count from the intended send time. 0 = closed loop")
	fs.IntVar(&o.MaxInflight, "max-inflight", o.MaxInflight, "open loop: unfinished requests in all; arrivals beyond are skipped and counted")
	fs.IntVar(&o.Size, "size", o.Size, "body bytes of a message")
	fs.IntVar(&o.Batch, "batch", o.Batch, "messages in a request")
	fs.StringVar(&o.Tags, "tags", o.Tags, "TAGS of every message; empty = none")
	fs.BoolVar(&o.Keys, "keys", false, "give every message a unique key in KEYS, too")
	fs.StringVar(&o.Key, "key", "", "give every message this one key in KEYS; empty = none")
	encoding := fs.String("encoding", "json", "header encoding: json or binary")
	fs.DurationVar(&o.Duration, "duration", o.Duration, "measured time")
	fs.DurationVar(&o.Warmup, "warmup", o.Warmup, "time before, not measured")
	fs.BoolVar(&o.CheckDispatch, "check-dispatch", false, "wait until all acknowledged messages are visible to consumers; the rate counts only if that is so within "+dispatchLevelMax.String())
	fs.IntVar(&o.Threads, "threads", 0, "threads of the generator; 0 = half the cores")
	jsonFile := fs.String("json", "", "write the report to this file; - = standard output instead of the table")
	fs.StringVar(&o.HistogramFile, "hdr", "", "write an HdrHistogram log (.hlog), one histogram a second, to this file")
	if code, done := parse(fs, args, stdout, stderr, "peregrine bench send: measure sends"); done {
		return code
	}
	var err error
	if o.Encoding, err = encodingOf(*encoding); err == nil {
		err = (&o).check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "peregrine bench send:", err)
		return exitUsage
	}
	rep, err := Send(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "peregrine bench send:", err)
		return exitBad
	}
	if *jsonFile != "-" {
		rep.WriteText(stdout)
	}
	if *jsonFile != "" {
		if err := writeJSON(*jsonFile, rep, stdout); err != nil {
			fmt.Fprintln(stderr, "peregrine bench send:", err)
			return exitBad
		}
	}
	if len(rep.Failures) > 0 {
		return exitBad
	}
	return exitGood
}

func encodingOf(name string) (wire.Encoding, error) {
	switch strings.ToLower(name) {
	case "json":
		return wire.EncodingJSON, nil
	case "binary", "rocketmq":
		return wire.EncodingBinary, nil
	}
	return 0, fmt.Errorf("--encoding %q: expected json or binary", name)
}

func writeJSON(path string, doc any, stdout io.Writer) error {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
