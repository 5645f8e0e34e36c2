// Command peregrine is a RocketMQ-compatible broker and name server in one static binary, with its own load generator.
//
// main reads the command line, builds the graph of rooms, handles signals and chooses exit codes. What the rooms are and
// how they fit together is in ARCHITECTURE.md.
package main

import (
	"fmt"
	"io"
	"os"

	"peregrine/bench"
	"peregrine/internal/config"
	"peregrine/perf"
	"peregrine/wire"
)

// version is stamped by the release build (-ldflags "-X main.version=…"); empty means what Go recorded.
var version string

// Exit codes. Scripts and supervisors may rely on them.
const (
	exitOK       = 0
	exitFailed   = 1 // anything that has no code of its own
	exitUsage    = 2 // command line or broker.conf
	exitStore    = 3 // the data directory cannot be used: locked, refused, no permission
	exitPort     = 4 // an address cannot be listened on
	exitSync     = 5 // a sync failed while running: nothing more was accepted
	exitNetwork  = 6 // the network engine ended by itself
	exitNotClean = 7 // stopped on request, but not everything was made durable: the next start recovers
)

const usage = `peregrine: RocketMQ-compatible broker and name server

  peregrine [serve] [flags] [key=value ...]   run broker and name server (peregrine serve --help)
  peregrine bench ...                         load generator (peregrine bench --help)
  peregrine dump ...                          look at a store directory, verify it (peregrine dump --help)
  peregrine version [--codes]                 version; with --codes the request codes that are served
  peregrine help                              this text
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 && isCommand(args[0]) {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return serve(args, stdout, stderr)
	case "bench":
		return bench.Main(args, stdout, stderr)
	case "dump":
		return dump(args, stdout, stderr)
	case "version":
		fmt.Fprintln(stdout, perf.Version(version))
		if len(args) > 0 && args[0] == "--codes" {
			printCodes(stdout)
		}
		return exitOK
	case "help":
		fmt.Fprint(stdout, usage, "\n", config.Usage())
		return exitOK
	}
	fmt.Fprintf(stderr, "peregrine: unknown command %q\n\n%s", command, usage)
	return exitUsage
}

// isCommand tells a command from the flags and key=value arguments of serve, which is what runs without a command.
func isCommand(arg string) bool {
	for i := range len(arg) {
		if arg[i] == '=' || arg[i] == '-' && i == 0 {
			return false
		}
	}
	return arg != ""
}

// printCodes lists the request codes that are served, one a line.
func printCodes(w io.Writer) {
	for _, row := range wire.SupportedCodes() {
		switch row.Role {
		case wire.RoleBroker:
			fmt.Fprintf(w, "%d %s broker\n", row.Code, row.Name)
		case wire.RoleNamesrv:
			fmt.Fprintf(w, "%d %s namesrv\n", row.Code, row.Name)
		}
	}
}
