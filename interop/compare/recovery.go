package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/interop"
	"peregrine/wire"
)

const (
	recoveryRatioMin = 5.0              // the original's time, as a multiple of peregrine's
	lastWordsRate    = 4000             // messages a second written before each stop
	lastWords        = 3 * time.Second  // for that long
	fillStep         = 2 * time.Second  // of one kind of load
	readBlockBytes   = 1 << 20          // of the plain read of the log
	levelWithin      = 30 * time.Second // until the queues show what was written
)

// situations are the ways in which a broker finds a directory, in the order of one round.
var situations = []string{"closed by the other broker", "closed by itself", "killed (-9)"}

// recoveryLoads fill a directory: small and larger messages, keyed and not, on few and on many queues.
func recoveryLoads() []bench.Options {
	small, large := bench.DefaultOptions(), bench.DefaultOptions()
	small.Topic, small.Queues, small.Size, small.Keys = "RecoverySmall", 64, 128, true
	large.Topic, large.Queues, large.Size, large.Encoding = "RecoveryLarge", 8, 1024, wire.EncodingBinary
	return []bench.Options{small, large}
}

// recovery is one directory that both brokers open in turn.
type recovery struct {
	o     options
	dir   string
	ends  string // what the queues held at the last stop
	bytes int64  // of the log
	took  map[string]map[string][]time.Duration
	read  []float64 // plain reads of the log, bytes per second
}

// compareRecovery fills a directory with peregrine and then starts both brokers on it in turn, each in all situations, from a cold
// page cache, until the broker answers and its queues are complete.
func compareRecovery(ctx context.Context, o options, dir string) (good bool, err error) {
	r := &recovery{o: o, dir: dir, took: map[string]map[string][]time.Duration{"original": {}, "peregrine": {}}}
	if err := r.fill(ctx); err != nil {
		return false, err
	}
	for round := range o.rounds {
		for _, name := range []string{"original", "peregrine"} {
			for i, situation := range situations {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				if err := r.round(ctx, name, situation, i == 1); err != nil {
					return false, fmt.Errorf("round %d, %s, %s: %w", round+1, name, situation, err)
				}
			}
		}
	}
	return r.summarise(), nil
}

// start starts a broker on the directory.
func (r *recovery) start(name string) (interop.Broker, error) {
	if name == "original" {
		return startApache(r.o, r.dir)
	}
	return startPeregrine(r.o.binary, r.dir, nil)
}

// fill writes until the log has as many files as were asked for.
func (r *recovery) fill(ctx context.Context) error {
	b, err := r.start("peregrine")
	if err != nil {
		return err
	}
	defer stopBroker(b)
	for {
		for _, load := range recoveryLoads() {
			load.Addr, load.Warmup, load.Duration = b.Addr(), 0, fillStep
			if _, err := bench.Run(ctx, load, io.Discard); err != nil {
				return err
			}
		}
		files, err := filepath.Glob(filepath.Join(r.dir, "store", "commitlog", "0*"))
		if err != nil {
			return err
		}
		if len(files) > r.o.segments { // one lies ahead
			break
		}
	}
	return r.await(b)
}

// round makes one measured start. killNext says that this run of the broker is to be ended by kill -9.
func (r *recovery) round(ctx context.Context, name, situation string, killNext bool) error {
	rate, err := r.coldRead()
	if err != nil {
		return err
	}
	r.read = append(r.read, rate)
	if err := r.forget(); err != nil {
		return err
	}
	began := time.Now()
	b, err := r.start(name)
	took := time.Since(began)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = b.Stop(syscall.SIGKILL)
		}
	}()
	now, err := queueEnds(b.Addr())
	if err != nil {
		return err
	}
	if now != r.ends {
		return fmt.Errorf("the queues end at\n%s\nthey ended at\n%s", now, r.ends)
	}
	r.took[name][situation] = append(r.took[name][situation], took)
	fmt.Fprintf(os.Stderr, "%-10s %-28s %10v   (a plain read of %.2f GB: %.2f GB/s)\n", name, situation, took.Round(time.Millisecond), float64(r.bytes)/1e9, rate/1e9)
	load := recoveryLoads()[0]
	load.Addr, load.Warmup, load.Duration, load.Rate = b.Addr(), 0, lastWords, lastWordsRate
	if _, err := bench.Run(ctx, load, io.Discard); err != nil {
		return fmt.Errorf("sending before the stop: %w", err)
	}
	if err := r.await(b); err != nil {
		return fmt.Errorf("%w\n%s", err, b.Logs())
	}
	signal := syscall.SIGTERM
	if killNext {
		signal = syscall.SIGKILL
	}
	stopped = true
	return b.Stop(signal)
}

// await waits until the ends of the queues stand still, and keeps them.
func (r *recovery) await(b interop.Broker) error {
	deadline := time.Now().Add(levelWithin)
	for {
		now, err := queueEnds(b.Addr())
		if err != nil {
			return err
		}
		if now == r.ends {
			r.bytes, err = logEnd(b.Addr())
			return err
		}
		r.ends = now
		if time.Now().After(deadline) {
			return errors.New("the queues do not come to rest")
		}
		time.Sleep(time.Second) // longer than any pause of dispatch
	}
}

// queueEnds asks for the largest offset of every queue.
func queueEnds(addr string) (string, error) {
	c, err := interop.DialRaw(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text := ""
	for _, load := range recoveryLoads() {
		for id := range int32(load.Queues) {
			cmd, err := c.Call(wire.RequestGetMaxOffset, &wire.GetMaxOffsetRequestHeader{Topic: load.Topic, QueueID: id}, nil)
			if err != nil {
				return "", err
			}
			var h wire.OffsetResponseHeader
			if cmd.Code != 0 {
				return "", fmt.Errorf("the end of %s-%d: code %d %s", load.Topic, id, cmd.Code, cmd.Remark)
			}
			if err := wire.DecodeHeader(cmd, &h); err != nil {
				return "", err
			}
			text += fmt.Sprintf("%s-%d:%d ", load.Topic, id, h.Offset)
		}
	}
	return text, nil
}

// logEnd asks for the end of the log, which begins at 0.
func logEnd(addr string) (int64, error) {
	c, err := interop.DialRaw(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	cmd, err := c.Call(wire.RequestGetBrokerRuntimeInfo, nil, nil)
	if err != nil {
		return 0, err
	}
	var info struct {
		Table map[string]string `json:"table"`
	}
	if err := json.Unmarshal(cmd.Body, &info); err != nil {
		return 0, fmt.Errorf("runtime info: code %d %s: %w", cmd.Code, cmd.Remark, err)
	}
	return strconv.ParseInt(info.Table["commitLogMaxOffset"], 10, 64)
}

// eachFile opens every file of the store.
func (r *recovery) eachFile(do func(path string, f *os.File) error) error {
	return filepath.WalkDir(filepath.Join(r.dir, "store"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(path, f)
	})
}

// forget makes the kernel drop the pages of the store's files.
func (r *recovery) forget() error {
	return r.eachFile(func(_ string, f *os.File) error { return forgetPages(f) })
}

// coldRead reads the log once from the disk, one block after the other, and returns bytes per second.
func (r *recovery) coldRead() (float64, error) {
	if err := r.forget(); err != nil {
		return 0, err
	}
	left := r.bytes
	buf := make([]byte, readBlockBytes)
	began := time.Now()
	err := r.eachFile(func(path string, f *os.File) error {
		if filepath.Base(filepath.Dir(path)) != "commitlog" {
			return nil
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(f, left), buf)
		left -= n
		return err
	})
	return float64(r.bytes) / time.Since(began).Seconds(), err
}

// summarise prints the medians as Markdown.
func (r *recovery) summarise() (good bool) {
	good = true
	slices.Sort(r.read)
	disk := r.read[len(r.read)/2]
	fmt.Printf("Start until the first answer with complete queues, medians of %d interleaved rounds; %.2f GB of log, %d and %d queues, page cache dropped before each start; heap of the original %s.\n",
		r.o.rounds, float64(r.bytes)/1e9, recoveryLoads()[0].Queues, recoveryLoads()[1].Queues, r.o.heap)
	fmt.Printf("A plain read of the log from the disk: %.2f GB/s (%.2f to %.2f).\n\n", disk/1e9, r.read[0]/1e9, r.read[len(r.read)-1]/1e9)
	t := table.NewWriter()
	t.AppendHeader(table.Row{"the directory was", "original", "peregrine", "ratio", "asked for", "verdict", "peregrine, log per second"})
	for _, situation := range situations {
		theirs, ours := medianTime(r.took["original"][situation]), medianTime(r.took["peregrine"][situation])
		ratio := theirs.Seconds() / ours.Seconds()
		verdict := "holds"
		if ratio < recoveryRatioMin {
			verdict, good = "FAILS", false
		}
		scanned := ""
		if situation == situations[0] { // the only one that reads all of it
			scanned = fmt.Sprintf("%.2f GB/s", float64(r.bytes)/ours.Seconds()/1e9)
		}
		t.AppendRow(table.Row{situation, theirs.Round(time.Millisecond), ours.Round(time.Millisecond), fmt.Sprintf("%.1f", ratio), fmt.Sprintf(">= %.0f", recoveryRatioMin), verdict, scanned})
	}
	fmt.Println(t.RenderMarkdown())
	return good
}

func medianTime(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
