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
  peregrine bench pull       read the same messages again and again, as fast as answers come
  peregrine bench catchup    read a backlog once, from its begin to its end
  peregrine bench e2e        send, and receive by held pulls; time from the intended send to the arrival
  peregrine bench mixed      e2e with several groups, one of them behind, keys, and a share of delayed messages
  peregrine bench sync       send to a broker that syncs before it answers, beside what the device takes for a sync
  peregrine bench sweep      rate against latency: the knee, and the largest rate whose p99 keeps a limit
  peregrine bench compare    one load on two brokers, in turn, with ratios and their spread
  peregrine bench plan       bytes on disk, days of retention, CPU and memory for such messages
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
	case "sweep":
		return sweepMain(ctx, args[1:], stdout, stderr)
	case "compare":
		return compareMain(ctx, args[1:], stdout, stderr)
	case "plan":
		return planMain(ctx, args[1:], stdout, stderr)
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
	if m := modeNamed(args[0]); m != nil {
		return m.main(ctx, args[1:], stdout, stderr)
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
