package bench

import (
	"fmt"
	"os"
	"strings"
	"time"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// DefaultTopic is where the load goes when nothing else is said. Topics whose names begin with it are ours: the load
// generator creates them with the queues that it wants.
const DefaultTopic = "PeregrineBench"

// Options describes one load. Zero values are no defaults: see DefaultOptions.
type Options struct {
	Mode    string // the command: send, pull …
	Addr    string // broker; or
	Namesrv string // name servers, separated by ; or , of which the first that answers tells the brokers of Topic

	Topic       string
	Group       string  // producer group
	Queues      int     // sent to in turn, by each connection
	Connections int     // that send
	Inflight    int     // closed loop: unanswered requests per connection
	MaxInflight int     // open loop: unfinished requests of all connections; arrivals beyond are skipped and counted
	Rate        float64 // messages a second on a schedule (open loop); 0 = closed loop
	Poisson     bool    // open loop: arrivals at random instead of evenly spaced
	Size        int     // body bytes of a message
	Batch       int     // messages in a request
	Tags        string
	Keys        bool   // each message carries a key of its own, too; or
	Key         string // every message carries this one in KEYS; "" = none
	Encoding    wire.Encoding
	Threads     int // of the generator; 0 = half the cores, at most one a connection

	// Consumers; see the modes pull, e2e, mixed and catchup.
	Groups          int
	PullConnections int     // of each group
	PullBatch       int     // messages that a pull asks for
	Backlog         int     // messages that are there before; with sends beside it, the last group begins with them
	Delayed         float64 // share of messages with DelayLevel, 0 to 1
	DelayLevel      int
	consumes        consumeKind

	Warmup   time.Duration // not measured
	Duration time.Duration // measured
	Drain    time.Duration // at most, for the last answers and deliveries after the last send

	CheckDispatch bool
	Freeze        time.Duration // open loop: a process stands still for so long in the middle of the load; 0 = none
	FreezePid     int

	ProfileDir  string // folder for profiles of the broker during the load; "" = none
	ProfileHTTP string // address that serves its /debug/pprof/

	ProbeDir      string // folder on the device whose syncs are measured before; "" = none
	HistogramFile string // HdrHistogram log of the measured seconds; "" = none
}

// DefaultOptions is a short closed-loop load of small messages on a local broker.
func DefaultOptions() Options {
	return Options{
		Mode: "send", Addr: "127.0.0.1:10911", Topic: DefaultTopic, Group: "peregrine_bench", Queues: 8, Connections: 4, Inflight: 32, MaxInflight: 10_000,
		Size: 128, Batch: 1, Tags: "TagA", Encoding: wire.EncodingJSON, PullConnections: 4, PullBatch: 32, DelayLevel: 1, Warmup: 2 * time.Second, Duration: 10 * time.Second, Drain: 10 * time.Second,
	}
}

// check refuses what cannot be run, naming the flag.
func (o *Options) check() error {
	within := func(flag string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("--%s %d: expected %d to %d", flag, v, low, high)
		}
		return nil
	}
	for _, err := range []error{
		within("connections", o.Connections, 0, connectionsMax),
		within("pull-connections", o.PullConnections, 0, connectionsMax),
		within("groups", o.Groups, 0, groupsMax),
		within("pull-batch", o.PullBatch, 0, pullBatchMax),
		within("backlog", o.Backlog, 0, backlogMax),
		within("delay-level", o.DelayLevel, 0, delayLevelMax),
		within("queues", o.Queues, 1, queuesMax),
		within("inflight", o.Inflight, 1, inflightPerMax),
		within("inflight times --connections", o.Inflight*o.Connections, 0, inflightSumMax),
		within("max-inflight", o.MaxInflight, 1, inflightSumMax),
		within("size", o.Size, 1, bodyBytesMax),
		within("batch", o.Batch, 1, batchMax),
		within("threads", o.Threads, 0, threadsMax),
	} {
		if err != nil {
			return err
		}
	}
	consuming := o.consumes != consumeNothing
	switch {
	case o.Connections == 0 && (!consuming || o.consumes == consumeArriving):
		return fmt.Errorf("--connections 0: nothing would be sent")
	case consuming && (o.PullConnections == 0 || o.PullBatch == 0):
		return fmt.Errorf("--pull-connections, --pull-batch: nothing would be consumed")
	case o.consumes == consumeArriving && o.Size < stampBytes:
		return fmt.Errorf("--size %d: at least %d are needed to tell messages apart", o.Size, stampBytes)
	case !(o.Delayed >= 0 && o.Delayed <= 1) || o.Delayed > 0 && (o.DelayLevel == 0 || o.Batch > 1):
		return fmt.Errorf("--delayed %g: expected a share from 0 to 1, with --delay-level, without --batch", o.Delayed)
	case !(o.Rate >= 0 && o.Rate <= rateMax): // said so that NaN, which a flag may be, is refused; as everywhere here
		return fmt.Errorf("--rate %g: expected 0 (closed loop) to %d messages a second", o.Rate, rateMax)
	case o.Duration < 10*time.Millisecond || o.Duration > 24*time.Hour:
		return fmt.Errorf("--duration %v: expected 10ms to 24h", o.Duration)
	case o.Warmup < 0 || o.Warmup > time.Hour:
		return fmt.Errorf("--warmup %v: expected 0s to 1h", o.Warmup)
	case o.Freeze != 0 && (o.Freeze < 0 || o.Freeze > o.Duration || o.Rate == 0):
		return fmt.Errorf("--freeze %v: expected a time shorter than --duration, in an open loop", o.Freeze)
	case o.Freeze > 0 && (o.FreezePid <= 1 || o.FreezePid == os.Getpid()):
		return fmt.Errorf("--freeze-pid %d: expected the process id of the broker, which this program may signal", o.FreezePid)
	case o.Drain < 0 || o.Drain > drainMax:
		return fmt.Errorf("--drain %v: expected 0s to %v", o.Drain, drainMax)
	case o.Topic == "" || len(o.Topic) > 127:
		return fmt.Errorf("--topic %q: expected 1 to 127 characters", o.Topic)
	case o.Batch > 1 && o.Batch*(o.Size+200) > bodyBytesMax+o.Batch*200:
		return fmt.Errorf("--batch %d of --size %d: together more than %d bytes", o.Batch, o.Size, bodyBytesMax)
	case strings.ContainsAny(o.Tags, "\x01\x02"):
		return fmt.Errorf("--tags: the bytes 1 and 2 separate properties")
	case len(o.Key) > keyBytesMax || strings.ContainsAny(o.Key, "\x01\x02 "):
		return fmt.Errorf("--key: expected one key of at most %d bytes; space and the bytes 1 and 2 separate keys and properties", keyBytesMax)
	case o.Keys && o.Key != "":
		return fmt.Errorf("--keys and --key: a message gets a key of its own or the same as all, not both")
	case o.Addr == "" && o.Namesrv == "":
		return fmt.Errorf("--addr or --namesrv: one of them is needed")
	case o.Group == "":
		return fmt.Errorf("--group: must not be empty")
	}
	if o.consumes != consumeNothing && o.Groups == 0 {
		o.Groups = 1
	}
	if o.Threads == 0 {
		o.Threads = max(1, sysio.CPUCount()/2)
	}
	o.Threads = min(o.Threads, o.Connections+o.Groups*o.PullConnections)
	return nil
}

func (o *Options) frameSpec(t *target) frameSpec {
	return frameSpec{
		encoding: o.Encoding, group: o.Group, topic: o.Topic, brokerName: t.brokerName, queues: t.queues,
		bodyBytes: o.Size, batch: o.Batch, tags: o.Tags, keys: o.Keys, key: o.Key, delayLevel: o.delayLevel(),
	}
}

// delayLevel is that of the delayed messages, 0 when there are none.
func (o *Options) delayLevel() int {
	if o.Delayed == 0 {
		return 0
	}
	return o.DelayLevel
}
