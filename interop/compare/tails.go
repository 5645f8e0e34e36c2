package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/internal/message"
	"peregrine/interop"
	"peregrine/wire"
)

// What may happen to the tail of deliveries at half load while something else goes on.
const (
	tailRatioMax  = 2.0 // of p99.9
	tailColdTopic = bench.DefaultTopic + "Cold"
	tailColdCount = 300_000
	tailSlowPulls = 64 // of one connection that does not read
)

// disturbance is something that goes on beside the load. begin returns what ends it.
type disturbance struct {
	name  string
	small bool // the load runs on the broker with small files, which roll all the time
	begin func(ctx context.Context) (end func() error, err error)
}

// measureTails runs deliveries at half load without and with each disturbance, in turn, and compares p99.9 and the longest one.
func measureTails(ctx context.Context, o options, dir string) (good bool, err error) {
	plain, err := startPeregrine(o.binary, filepath.Join(dir, "plain"), nil)
	if err != nil {
		return false, err
	}
	defer stopBroker(plain)
	small, err := startPeregrine(o.binary, filepath.Join(dir, "small"), map[string]string{
		"mappedFileSizeCommitLog": "16777216", "mappedFileSizeConsumeQueue": "20000", "maxHashSlotNum": "20000", "maxIndexNum": "80000"})
	if err != nil {
		return false, err
	}
	defer stopBroker(small)
	probe, err := bench.ProbeDevice(dir)
	if err != nil {
		return false, err
	}
	load, _ := bench.OptionsOf("e2e")
	load.Addr, load.Duration, load.Warmup, load.Encoding = plain.Addr(), burstTry, time.Second, wire.EncodingBinary
	most, err := sustained(ctx, o, load)
	if err != nil {
		return false, err
	}
	load.Rate, load.Duration = most/2, o.duration
	longest := showTime(float64(max(probe.SyncWritten.MaxNs, probe.SyncFresh.MaxNs)))
	fmt.Printf("deliveries at %.0f/s, half of the %.0f/s that an open loop sustains; the longest sync of the device was %s\n\n", load.Rate, most, longest)

	t := table.NewWriter()
	t.AppendHeader(table.Row{"beside", "p99.9 without", "with", "ratio", "longest without", "with", "verdict"})
	good = true
	for _, d := range disturbances(plain) {
		var without, with, withoutMax, withMax []float64
		for round := range o.rounds {
			for turn := range 2 {
				disturbed := turn == round%2
				run := load
				end := func() error { return nil }
				if disturbed && d.small {
					run.Addr = small.Addr()
				} else if disturbed {
					if end, err = d.begin(ctx); err != nil {
						return false, fmt.Errorf("%s: %w", d.name, err)
					}
				}
				rep, err := o.load(ctx, run, io.Discard)
				if err = errors.Join(err, end(), ctx.Err()); err != nil {
					return false, fmt.Errorf("%s: %w", d.name, err)
				}
				l := rep.Consume.Delivery
				fmt.Fprintf(os.Stderr, "%-40s disturbed %-5v p50 %s p99 %s p99.9 %s max %s%s\n", d.name, disturbed, showTime(float64(l.P50Ns)), showTime(float64(l.P99Ns)),
					showTime(float64(l.P999Ns)), showTime(float64(l.MaxNs)), failures(rep))
				if disturbed {
					with, withMax = append(with, float64(l.P999Ns)), append(withMax, float64(l.MaxNs))
				} else {
					without, withoutMax = append(without, float64(l.P999Ns)), append(withoutMax, float64(l.MaxNs))
				}
			}
		}
		a, b := bench.Median(without), bench.Median(with)
		verdict := "holds"
		if b/a > tailRatioMax {
			verdict, good = "MISSED", false
		}
		t.AppendRow(table.Row{d.name, showTime(a), showTime(b), fmt.Sprintf("%.2f", b/a), showTime(bench.Median(withoutMax)), showTime(bench.Median(withMax)), verdict})
	}
	fmt.Println(t.RenderMarkdown())
	return good, nil
}

func disturbances(p *interop.Peregrine) []disturbance {
	_, addr, _ := strings.Cut(p.ReadyLine, "http on ")
	addr, _, _ = strings.Cut(addr, ",")
	// often does something at a pace until it is ended.
	often := func(pause time.Duration, do func(n int) error) func(context.Context) (func() error, error) {
		return func(ctx context.Context) (func() error, error) {
			ctx, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { // ends with ctx
				for n := 0; ; n++ {
					if err := do(n); err != nil {
						ended <- err
						return
					}
					select {
					case <-ctx.Done():
						ended <- nil
						return
					case <-time.After(pause):
					}
				}
			}()
			return func() error { stop(); return <-ended }, nil
		}
	}
	get := func(path string) func(int) error {
		return func(int) error {
			res, err := http.Get("http://" + addr + path)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			return errors.Join(err, res.Body.Close())
		}
	}
	return []disturbance{
		{name: "files of log, queues and index that end all the time", small: true},
		{name: "ten new topics a second", begin: often(100*time.Millisecond, func(n int) error {
			return withClient(p, func(c *interop.RawClient) error {
				return answered(c.Call(wire.RequestUpdateAndCreateTopic, &wire.CreateTopicRequestHeader{Topic: fmt.Sprint("Tail", time.Now().UnixNano()), DefaultTopic: "TBW102",
					ReadQueueNums: 8, WriteQueueNums: 8, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil))
			})
		})},
		{name: "settings written ten times a second", begin: often(100*time.Millisecond, func(n int) error {
			return withClient(p, func(c *interop.RawClient) error {
				return answered(c.Call(wire.RequestUpdateBrokerConfig, nil, fmt.Appendf(nil, "fileReservedTime=%d\n", 70+n%2)))
			})
		})},
		{name: "ten scrapes a second", begin: often(100*time.Millisecond, get("/metrics"))},
		{name: "CPU and heap profiles", begin: often(0, func(n int) error {
			return errors.Join(get("/debug/pprof/profile?seconds=1")(n), get("/debug/pprof/heap")(n))
		})},
		{name: "a consumer that does not read", begin: slowReader(p)},
		{name: "a consumer of what has left memory", begin: coldReader(p)},
	}
}

func withClient(b interop.Broker, do func(*interop.RawClient) error) error {
	c, err := interop.DialRaw(b.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

func answered(cmd *wire.Command, err error) error {
	if err == nil && cmd.Code != 0 {
		err = fmt.Errorf("code %d %s", cmd.Code, cmd.Remark)
	}
	return err
}

// slowReader pulls more than the socket holds and reads none of it.
func slowReader(p *interop.Peregrine) func(context.Context) (func() error, error) {
	return func(context.Context) (func() error, error) {
		c, err := interop.DialRaw(p.Addr())
		if err != nil {
			return nil, err
		}
		for n := range tailSlowPulls {
			h := interop.PullHeader(bench.DefaultTopic, int32(n%8), 0)
			h.MaxMsgNums = 1024
			if err := c.Write(wire.AppendPullRequest(nil, wire.EncodingBinary, wire.RequestPullMessage, c.NextOpaque(), h)); err != nil {
				c.Close()
				return nil, err
			}
		}
		return func() error { c.Close(); return nil }, nil
	}
}

// coldReader reads old messages whose pages the kernel has dropped, from the begin again and again.
func coldReader(p *interop.Peregrine) func(context.Context) (func() error, error) {
	return func(ctx context.Context) (func() error, error) {
		fill, _ := bench.OptionsOf("catchup")
		fill.Addr, fill.Topic, fill.Backlog, fill.Size = p.Addr(), tailColdTopic, tailColdCount, 1024
		if _, err := bench.Run(ctx, fill, io.Discard); err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(p.StoreDir(), "commitlog", "0*"))
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { // ends with ctx
			ended <- withClient(p, func(c *interop.RawClient) error {
				for ctx.Err() == nil {
					for _, name := range files {
						f, err := os.Open(name)
						if err == nil {
							err = errors.Join(forgetPages(f), f.Close())
						}
						if err != nil {
							return err
						}
					}
					for q := range int32(8) {
						_, err := c.ReadQueue(tailColdTopic, q, 0, func(*message.View) error { return ctx.Err() })
						if err != nil && ctx.Err() == nil {
							return err
						}
					}
				}
				return nil
			})
		}()
		return func() error { stop(); return <-ended }, nil
	}
}
