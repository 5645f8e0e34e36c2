package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"peregrine/bench"
	"peregrine/internal/sysio"
	"peregrine/interop"
	"peregrine/wire"
)

const (
	memoryConnections = 1000
	memoryTopic       = bench.DefaultTopic + "Memory"
	memoryTopicQueues = 8
	memoryRatioMax    = 0.2 // of the original's
	queueVisibleMax   = 30 * time.Second
)

// memoryState is something that a broker holds. reach returns what gives it back.
type memoryState struct {
	name  string
	reach func(ctx context.Context, b interop.Broker) (release func(), err error)
}

// compareMemory brings both brokers, just started, to the same states, one after the other, and looks at their anonymous memory in each.
func compareMemory(ctx context.Context, o options, dir string, theirs *interop.Apache, ours *interop.Peregrine) (good bool, err error) {
	machine := sysio.Fingerprint(dir)
	t := table.NewWriter()
	t.AppendHeader(table.Row{"RssAnon with", original + ", MiB", peregrine + ", MiB", "ratio", "asked for", "verdict"})
	states := []memoryState{
		{"nothing", func(context.Context, interop.Broker) (func(), error) { return func() {}, nil }},
		{fmt.Sprintf("%d open connections that each sent a heartbeat", memoryConnections), openConnections},
		{fmt.Sprintf("%d queues that each hold a message, no connection", o.topics*memoryTopicQueues), func(ctx context.Context, b interop.Broker) (func(), error) {
			return func() {}, withClient(b, func(c *interop.RawClient) error { return fillQueues(ctx, c, o.topics) })
		}},
	}
	good = true
	for _, s := range states {
		memory := map[string]float64{}
		for _, on := range []struct {
			side
			pid int
		}{{side{original, theirs}, theirs.BrokerPID()}, {side{peregrine, ours}, ours.Process().Pid()}} {
			began := time.Now()
			release, err := s.reach(ctx, on.broker)
			if err != nil {
				return false, fmt.Errorf("%s, %s: %w\n%s", on.name, s.name, err, on.broker.Logs())
			}
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(settleAtStart):
			}
			anon, failed := sysio.RssAnonOf(on.pid)
			release()
			if err := errors.Join(err, failed); err != nil {
				return false, err
			}
			memory[on.name] = float64(anon) / bytesPerMiB
			fmt.Fprintf(os.Stderr, "%-10s %-55s %8.1f MiB, reached in %v\n", on.name, s.name, memory[on.name], time.Since(began).Round(time.Millisecond))
		}
		ratio, verdict := memory[peregrine]/memory[original], "holds"
		if ratio > memoryRatioMax {
			verdict, good = "MISSED", false
		}
		t.AppendRow(table.Row{s.name, fmt.Sprintf("%.1f", memory[original]), fmt.Sprintf("%.1f", memory[peregrine]), fmt.Sprintf("%.4f", ratio), fmt.Sprintf("<= %g", memoryRatioMax), verdict})
	}
	fmt.Printf("%s; load average %.2f before. The original's JVM heap (%s, touched at its start as its start script asks) is part of its RssAnon.\n\n%s\n",
		machine, machine.Load[0], o.heap, t.RenderMarkdown())
	return good, nil
}

func openConnections(ctx context.Context, b interop.Broker) (release func(), err error) {
	var open []*interop.RawClient
	release = func() {
		for _, c := range open {
			c.Close()
		}
	}
	for n := range memoryConnections {
		c, err := interop.DialRaw(b.Addr())
		if err == nil {
			open = append(open, c)
			err = answered(c.Call(wire.RequestHeartBeat, nil, wire.EncodeBody(wire.HeartbeatData{ClientID: fmt.Sprint("memory", n),
				ProducerDataSet: []wire.ProducerData{{GroupName: memoryTopic}}})))
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// fillQueues makes the topics, sends a message to each of their queues, and returns when a consumer could see them all.
func fillQueues(ctx context.Context, c *interop.RawClient, topics int) error {
	name := func(n int) string { return fmt.Sprint(memoryTopic, n) }
	for n := range topics {
		err := answered(c.Call(wire.RequestUpdateAndCreateTopic, &wire.CreateTopicRequestHeader{Topic: name(n), DefaultTopic: "TBW102",
			ReadQueueNums: memoryTopicQueues, WriteQueueNums: memoryTopicQueues, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil))
		for q := int32(0); q < memoryTopicQueues && err == nil; q++ {
			err = answered(c.Send(interop.SendHeader(name(n), q, ""), []byte("x")))
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", name(n), err)
		}
	}
	deadline := time.Now().Add(queueVisibleMax)
	for n := range topics {
		for q := int32(0); q < memoryTopicQueues; {
			cmd, err := c.Call(wire.RequestGetMaxOffset, &wire.GetMaxOffsetRequestHeader{Topic: name(n), QueueID: q}, nil)
			if err = errors.Join(answered(cmd, err), ctx.Err()); err != nil {
				return err
			}
			var h wire.OffsetResponseHeader
			if err := wire.DecodeHeader(cmd, &h); err != nil {
				return err
			}
			if h.Offset > 0 {
				q++
			} else if time.Now().After(deadline) {
				return fmt.Errorf("%s, queue %d: nothing to be seen within %v", name(n), q, queueVisibleMax)
			} else {
				time.Sleep(indexPollGap) // the broker needs the processor more than we need the answer
			}
		}
	}
	return nil
}
