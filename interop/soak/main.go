// Command soak lets one broker live through what a busy week has, in minutes: `make soak`.
//
// Eight producers send plain, delayed and transactional messages to one topic; a concurrent group, an orderly group and
// broadcasting members read it, joining and leaving all the time, politely or not; some messages are consumed in vain and sent back; once
// the broker is killed with SIGKILL and started again. A judge hears of everything:
//
//   - every acknowledged message reaches both groups and each broadcasting member; what was in flight at the kill may or may not;
//   - a delayed message, or one that was sent back, never comes early; what was rolled back never comes;
//   - each reader gets the messages of a queue in order, without gaps; two orderly members never have one queue at once;
//   - a message comes again only after it was sent back, or from an offset on that the group had not committed when its queue
//     changed hands or the broker was killed; a second copy exists only of a transaction whose end the kill made the broker forget;
//   - at the end the broker has no more goroutines, and little more memory, than it had before.
//
// A failure prints what was violated and the command with its seed. The seed decides what each client does, not how fast
// the machine is, so the same seed is the same load, not the same interleaving.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"peregrine/interop"
	"peregrine/wire"
)

const (
	brokerName     = "soak"
	calibrateFor   = 3 * time.Second
	calibratedMax  = 20_000 // messages a second
	warmUp         = 2 * time.Second
	settleMax      = 3 * time.Minute // the longest delay of a message that was sent back twice, checks of transactions, a slow machine
	quietTail      = 4 * time.Second // after the last expected message: nothing more may come
	reportEvery    = 10 * time.Second
	missingPoll    = 500 * time.Millisecond
	onlineMin      = 2 * time.Second
	onlineSpread   = 6 * time.Second
	offlineSpread  = 3 * time.Second
	baseWithin     = 90 * time.Second
	goroutinesOver = 4        // runtime helpers and the scrape's own connections
	anonOver       = 64 << 20 // bytes: queue rings, tables of what was there, what the allocator keeps
)

type options struct {
	binary  string
	dir     string
	seed    uint64
	seconds int
	rate    float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	var o options
	fs := pflag.NewFlagSet("soak", pflag.ContinueOnError)
	fs.StringVar(&o.binary, "binary", filepath.Join("bin", "peregrine"), "peregrine's binary")
	fs.StringVar(&o.dir, "dir", os.TempDir(), "where the store lies; the folder made there is removed at the end")
	fs.Uint64Var(&o.seed, "seed", 0, "what the clients do; 0 takes one from the clock")
	fs.IntVar(&o.seconds, "seconds", 600, "how long producers send")
	fs.Float64Var(&o.rate, "rate", 0, "messages a second of all producers; 0: half of what 3 seconds of calibration reach, at most 20000")
	if err := fs.Parse(args); err != nil {
		if !errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		return 2
	}
	if o.seconds < 10 || o.rate < 0 {
		fmt.Fprintln(os.Stderr, "--seconds is at least 10, --rate at least 0")
		return 2
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	fmt.Printf("soak: seed %d, %d s, rate %v (0: half of a calibration)\n", o.seed, o.seconds, o.rate)
	if err := soak(ctx, o); err != nil {
		fmt.Printf("soak FAILED, seed %d: %v\nagain: go run ./interop/soak --seed %d --seconds %d --rate %v\n", o.seed, err, o.seed, o.seconds, o.rate)
		return 1
	}
	fmt.Println("soak passed")
	return 0
}

// world is what all clients share.
type world struct {
	addr    string
	seed    uint64
	judge   *judge
	pace    pace
	refused atomic.Int64 // sends: told to slow down
	checks  atomic.Int64 // of transactions
}

// connection is a client with the life of the broker that it was made in.
type connection struct {
	client *client
	epoch  int
	since  time.Time
	abrupt atomic.Bool // it ends with nothing committed
}

// dial connects; every second client uses binary headers.
func (w *world) dial(number int, onRequest func(*client, *frame)) (*connection, error) {
	life := &connection{epoch: w.judge.life(), since: time.Now()}
	enc := wire.EncodingJSON
	if number%2 == 1 {
		enc = wire.EncodingBinary
	}
	ready := make(chan struct{})
	var err error
	life.client, err = dial(w.addr, enc, func(f *frame) {
		<-ready
		onRequest(life.client, f)
	})
	close(ready)
	return life, err
}

// note reports an error unless it is only a connection that broke, which tells nothing: a broker that dies by itself is seen by its
// process, and a connection that it drops without need shows as offsets that go back.
func (w *world) note(err error) {
	var broken *net.OpError
	if err == nil || errors.As(err, &broken) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return
	}
	w.judge.complain("answer", "%v", err)
}

func (w *world) rng(stream int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(stream))) }

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// soak is the whole run; its error says everything that was violated.
func soak(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "peregrine-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	broker, err := interop.StartPeregrine(interop.PeregrineOptions{Binary: o.binary, Dir: dir, Settings: map[string]string{"brokerName": brokerName,
		"transactionTimeOut": "3000", "transactionCheckInterval": "2000"}})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, broker.Logs())
		}
	}()
	w := &world{addr: broker.Addr(), seed: o.seed, judge: newJudge()}
	sleep(ctx, warmUp)
	base, err := measure(broker)
	if err != nil {
		return err
	}
	if err := w.createTopic(); err != nil {
		return err
	}
	if err := w.load(ctx, o, broker); err != nil {
		_ = broker.Stop(syscall.SIGKILL)
		return err
	}
	if err := backToBase(ctx, broker, base); err != nil {
		w.judge.complain("base", "%v", err)
	}
	if err := broker.Stop(syscall.SIGTERM); err != nil {
		w.judge.complain("stop", "%v", err)
	}
	return w.report()
}

func (w *world) createTopic() error {
	life, err := w.dial(0, func(*client, *frame) {})
	if err != nil {
		return err
	}
	defer life.client.close()
	_, err = life.client.call(wire.RequestUpdateAndCreateTopic, wire.CreateTopicRequestHeader{Topic: topic, DefaultTopic: "TBW102", ReadQueueNums: queueCount,
		WriteQueueNums: queueCount, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
	return err
}

// load runs producers and consumers and the kill, waits for what has to come, and lets all clients go.
func (w *world) load(ctx context.Context, o options, broker *interop.Peregrine) error {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	moving, settle := context.WithCancel(ctx) // consumers come and go until settle
	defer settle()
	for i, r := range []reader{concurrent, concurrent, orderly, orderly, broadcastSteady} {
		m := w.member(fmt.Sprintf("steady%d", i), i, r)
		clients.Go(func() { m.run(ctx, true) })
	}
	for i, r := range []reader{concurrent, orderly, broadcastLeaver} {
		clients.Go(func() { w.comeAndGo(ctx, moving, 100+i, r) })
	}
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	w.pace.set(o.rate)
	start := time.Now()
	for i := range producerCount {
		p := &producer{w: w, number: i, rng: w.rng(200 + i)}
		clients.Go(func() { p.run(ctx, sending) })
	}
	if o.rate == 0 {
		sleep(ctx, calibrateFor)
		_, _, f := w.judge.verdict()
		rate := min(float64(f.acked)/time.Since(start).Seconds()/2, calibratedMax)
		fmt.Printf("calibration: %d messages in %v; the rate is %.0f a second\n", f.acked, time.Since(start).Round(time.Millisecond), rate)
		w.pace.set(rate)
	}
	length := time.Duration(o.seconds) * time.Second
	killAt := time.Duration(float64(length) * (0.4 + 0.2*w.rng(300).Float64()))
	w.watch(ctx, broker, start, killAt)
	if err := ended(ctx, broker); err != nil {
		return err
	}
	if err := w.kill(broker); err != nil {
		return err
	}
	w.watch(ctx, broker, start, length)
	stopSending()
	settle()
	fmt.Printf("%4.0f s: producers are done\n", time.Since(start).Seconds())
	for deadline := time.Now().Add(settleMax); ; sleep(ctx, missingPoll) {
		if err := ended(ctx, broker); err != nil {
			return err
		}
		if count, _ := w.judge.missing(); count == 0 || time.Now().After(deadline) {
			break
		}
	}
	sleep(ctx, quietTail)
	fmt.Printf("%4.0f s: all is there, clients leave\n", time.Since(start).Seconds())
	return ended(ctx, broker)
}

// ended tells that there is no sense in going on.
func ended(ctx context.Context, broker *interop.Peregrine) error {
	select {
	case <-broker.Process().Ended():
		return fmt.Errorf("the broker ended by itself with code %d", broker.Process().ExitCode())
	default:
		return ctx.Err()
	}
}

// watch waits until the run is so old, and says now and then how it stands.
func (w *world) watch(ctx context.Context, broker *interop.Peregrine, start time.Time, until time.Duration) {
	for ctx.Err() == nil {
		age := time.Since(start)
		if age >= until || ended(ctx, broker) != nil {
			return
		}
		sleep(ctx, min(until-age, reportEvery))
		_, violations, f := w.judge.verdict()
		fmt.Printf("%4.0f s: %d sent, %d delivered (%d repeats, %d sessions), %d sent back, %d checks, %d told to wait, %d violations\n",
			time.Since(start).Seconds(), f.acked, f.delivered, f.repeats, f.sessions, f.sentBack, w.checks.Load(), w.refused.Load(), violations)
	}
}

// kill ends the broker with SIGKILL under load and starts it again.
func (w *world) kill(broker *interop.Peregrine) error {
	w.judge.killing(time.Now())
	if err := broker.Stop(syscall.SIGKILL); err != nil {
		return err
	}
	w.judge.killDone()
	if err := broker.Start(); err != nil {
		return fmt.Errorf("the start after the kill: %w", err)
	}
	fmt.Printf("killed with SIGKILL; ready again after %v\n", broker.ReadyAfter.Round(time.Millisecond))
	return nil
}

func (w *world) member(id string, number int, r reader) *member {
	return &member{w: w, id: id, number: number, reader: r, rng: w.rng(number), wakeUp: make(chan struct{}, 1)}
}

// comeAndGo is one consumer after the other, in groups under a new name each time. The broadcasting one stays once moving ends,
// as it has to get everything.
func (w *world) comeAndGo(ctx, moving context.Context, number int, r reader) {
	rng := w.rng(1000 + number)
	m := w.member(fmt.Sprintf("leaver%d", number), number, r)
	for life := 0; ctx.Err() == nil; life++ {
		if r.group() {
			if moving.Err() != nil {
				return
			}
			m = w.member(fmt.Sprintf("leaver%d-%d", number, life), number+life*2000, r)
		}
		online, leave := context.WithCancel(ctx)
		stay := onlineMin + time.Duration(rng.Int64N(int64(onlineSpread)))
		politely := rng.IntN(2) == 0
		left := make(chan struct{})
		go func() {
			defer close(left)
			m.run(online, politely)
		}()
		sleep(moving, stay)
		if !r.group() && moving.Err() != nil {
			<-ctx.Done()
		}
		leave()
		<-left
		sleep(moving, time.Duration(rng.Int64N(int64(offlineSpread))))
	}
}

// report is nil when nothing was violated and nothing is missing.
func (w *world) report() error {
	missing, some := w.judge.missing()
	violations, count, f := w.judge.verdict()
	fmt.Printf("messages: %d sent, %d acknowledged, %d delivered, %d of them repeats, in %d sessions; %d sent back, %d came back; %d checks, %d copies of transactions\n",
		f.sent, f.acked, f.delivered, f.repeats, f.sessions, f.sentBack, f.returned, w.checks.Load(), f.copies)
	if count+missing == 0 {
		return nil
	}
	text := fmt.Sprintf("%d violations, %d messages missing", count, missing)
	for _, line := range append(violations, some...) {
		text += "\n  " + line
	}
	return errors.New(text)
}
