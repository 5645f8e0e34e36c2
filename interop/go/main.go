// Command scenarios drives the unmodified Apache RocketMQ Go client through the same scenarios as the Java program beside it
// and prints what it saw. The harness in the parent folder starts it and judges.
//
// Usage: scenarios namesrv=HOST:PORT broker=HOST:PORT run=ID [limit=BYTES] [peers=N] SCENARIO…
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func scenarios() map[string]func(*session) error {
	return map[string]func(*session) error{
		"send": send, "bodies": bodies, "compressed": compressed, "push-one": pushOne, "push-two": pushTwo, "broadcast": broadcast,
		"tags": tags, "consumer-restart": consumerRestart, "pull": pull, "exchange": exchange, "survive": survive, "before": before,
		"after": after, "topics": topics, "transaction": transaction, "delay": delay, "retry": retry, "dead-letter": deadLetter, "orderly": orderly,
		"request-reply": requestReply, "where": where, "trimmed": trimmed, "reset": reset,
		"strategies": strategies,
	}
}

func main() {
	rlog.SetLogLevel("error")
	all := scenarios()
	options := map[string]string{}
	var chosen []string
	for _, argument := range os.Args[1:] {
		if key, value, isOption := strings.Cut(argument, "="); isOption {
			options[key] = value
		} else if all[argument] != nil {
			chosen = append(chosen, argument)
		} else {
			fmt.Fprintln(os.Stderr, "no scenario", argument)
			os.Exit(2)
		}
	}
	gate := make(chan struct{})
	go listen(gate)
	out := &lineWriter{}
	var running sync.WaitGroup
	for _, name := range chosen {
		s := newSession(name, options, gate, out)
		running.Go(func() {
			start := time.Now()
			if err := all[name](s); err != nil {
				s.event("failed", fields{"error": err.Error()})
			} else {
				s.event("done", fields{"ms": time.Since(start).Milliseconds()})
			}
			s.closeAll()
		})
	}
	running.Wait()
}

// listen closes the gate at the first line "continue".
func listen(gate chan<- struct{}) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "continue" {
			close(gate)
			return
		}
	}
}
