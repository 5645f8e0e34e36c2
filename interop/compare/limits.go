package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/internal/sysio"
)

const (
	copyBytes     = 256 << 20 // of the mapping that is copied into, some times over
	copyRounds    = 8
	copyPiece     = 64 << 10
	loopbackBytes = 4 << 30
	loopbackPiece = 256 << 10
)

// measureLimits prints what this machine can do at most, whatever a broker does.
func measureLimits(ctx context.Context, o options, dir string) error {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"limit", "measured"})
	bare, stop, err := startBareGnet(ctx, o.binary)
	if err != nil {
		return err
	}
	defer stop()
	for _, r := range budgetRows() {
		opts, _ := bench.OptionsOf(r.mode)
		r.change(&opts)
		if r.mode != "send" || opts.ProbeDir != "" || strings.HasPrefix(r.name, "SYNC") {
			continue
		}
		opts.Addr, opts.Duration = bare, o.duration
		rep, err := o.load(ctx, opts, os.Stderr)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		t.AppendRow(table.Row{"bare gnet server: " + r.name, fmt.Sprintf("%.0f/s, p50 %s, p99 %s, generator %.2f cores", rep.Rate, showTime(p50Of(rep)), showTime(p99Of(rep)), rep.GeneratorCores)})
	}
	probe, err := bench.ProbeDevice(dir)
	if err != nil {
		return err
	}
	for name, l := range map[string]*bench.Latency{"fdatasync of 4 KiB over written blocks": probe.SyncWritten, "fdatasync of 4 KiB into allocated blocks": probe.SyncFresh} {
		t.AppendRow(table.Row{name, fmt.Sprintf("p50 %s, p99 %s, max %s", showTime(float64(l.P50Ns)), showTime(float64(l.P99Ns)), showTime(float64(l.MaxNs)))})
	}
	t.AppendRow(table.Row{"sequential writes with a sync at their end", fmt.Sprintf("%.0f MB/s", probe.WriteRate/1e6)})
	copied, err := copyRate(dir)
	if err != nil {
		return err
	}
	t.AppendRow(table.Row{"copies of 64 KiB into a mapping whose pages are there", fmt.Sprintf("%.1f GB/s", copied/1e9)})
	looped, err := loopbackRate()
	if err != nil {
		return err
	}
	t.AppendRow(table.Row{"one loopback connection, writes of 256 KiB", fmt.Sprintf("%.1f GB/s", looped/1e9)})
	t.SortBy([]table.SortBy{{Number: 1}})
	machine := sysio.Fingerprint(dir)
	text := fmt.Sprintf("%s; load average %.2f.\n\n%s\n", machine, machine.Load[0], t.RenderMarkdown())
	fmt.Print(text)
	if o.results == "" {
		return nil
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.results, "limits-"+time.Now().Format("20060102-150405")+".md"), []byte(text), 0o644)
}

// copyRate is bytes a second into a shared mapping of a file, second time over.
func copyRate(dir string) (float64, error) {
	f, err := sysio.OS{}.OpenFile(filepath.Join(dir, "copies"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := f.Allocate(0, copyBytes); err != nil {
		return 0, err
	}
	m, err := f.Map(copyBytes)
	if err != nil {
		return 0, err
	}
	defer m.Unmap()
	piece, to := make([]byte, copyPiece), m.Bytes()
	round := func() {
		for at := 0; at < copyBytes; at += copyPiece {
			copy(to[at:], piece)
		}
	}
	round() // pages get there
	began := time.Now()
	for range copyRounds {
		round()
	}
	return copyRounds * copyBytes / time.Since(began).Seconds(), nil
}

func loopbackRate() (float64, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	sent := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			piece := make([]byte, loopbackPiece)
			for n := 0; n < loopbackBytes && err == nil; n += loopbackPiece {
				_, err = c.Write(piece)
			}
			_ = c.Close()
		}
		sent <- err
	}()
	c, err := ln.Accept()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, loopbackPiece))
	took := time.Since(began)
	if err == nil {
		err = <-sent
	}
	return float64(n) / took.Seconds(), err
}
