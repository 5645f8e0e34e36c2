package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"peregrine/bench"
	"peregrine/internal/message"
	"peregrine/interop"
	"peregrine/wire"
)

// The promises of case I07, and how they are measured.
const (
	hotKey          = "hot"
	hotMessagesMin  = 1_000_000
	hotRoundsMax    = 100 // pairs, if the machine is too slow for hotMessagesMin in fewer
	hotQueries      = 100
	hotQueryMax     = 50 * time.Millisecond // p99
	hotSendRatioMax = 1.2                   // p99 of sends, of that with unique keys
	hotNewest       = 64                    // messages of one answer
	indexWaitMax    = 2 * time.Minute
	indexPollGap    = 2 * time.Millisecond
)

// measureHotKey sends messages with unique keys and with one and the same in turn, at full speed, until 1,000,000 have the latter,
// and then asks for it.
func measureHotKey(ctx context.Context, o options, addr string) (good bool, err error) {
	c, err := interop.DialRaw(addr)
	if err != nil {
		return false, err
	}
	defer c.Close()
	load := bench.DefaultOptions()
	load.Addr, load.Duration, load.Warmup = addr, o.duration, time.Second
	var unique, hot []*bench.Report
	run := func(key string) (*bench.Report, error) {
		opts := load
		opts.Keys, opts.Key = key == "", key
		rep, err := o.load(ctx, opts, os.Stderr)
		if err != nil {
			return nil, err
		}
		if err = ctx.Err(); err == nil && len(rep.Failures) > 0 {
			err = fmt.Errorf("key %q: %s", key, failures(rep))
		}
		if err == nil {
			// The next load meets a level index, so that none pays for the one before.
			err = awaitProbe(c)
		}
		return rep, err
	}
	sent := uint64(0)
	for round := 0; round < o.rounds || sent < hotMessagesMin && round < hotRoundsMax; round++ {
		keys := []string{"", hotKey}
		if round%2 == 1 {
			slices.Reverse(keys)
		}
		for _, key := range keys {
			rep, err := run(key)
			if err != nil {
				return false, err
			}
			name := "unique keys"
			if key == "" {
				unique = append(unique, rep)
			} else {
				hot, sent, name = append(hot, rep), sent+rep.Acked, "the hot key"
			}
			fmt.Printf("round %d  %-12s %9d messages %9.0f/s  p50 %-10v p99 %-10v p99.9 %v\n", round+1, name, rep.Acked, rep.Rate,
				time.Duration(rep.Service.P50Ns), time.Duration(rep.Service.P99Ns), time.Duration(rep.Service.P999Ns))
		}
	}
	fmt.Printf("%s\n\n", hot[0].Conditions.Machine)

	good = verdict("messages with the hot key", fmt.Sprint(sent), fmt.Sprintf("at least %d", hotMessagesMin), sent >= hotMessagesMin)
	a, b := medianP99(unique), medianP99(hot)
	ratio := b / a
	good = verdict("median of send p99, the hot key : unique keys", fmt.Sprintf("%s : %s = %.2f", showTime(b), showTime(a), ratio),
		fmt.Sprintf("at most %.1f", hotSendRatioMax), ratio <= hotSendRatioMax) && good
	var pairs []float64 // neighbours in time had the same machine, whatever else ran on it
	for i := range hot {
		pairs = append(pairs, float64(hot[i].Service.P99Ns)/float64(unique[i].Service.P99Ns))
	}
	slices.Sort(pairs)
	fmt.Printf("  (by round, sorted: %.2f)\n", pairs)
	times, wrong, err := queryHotKey(ctx, c)
	if err != nil {
		return false, err
	}
	p99 := times[len(times)*99/100-1]
	good = verdict(fmt.Sprintf("%d queries for it, p99 (p50 %v, max %v)", len(times), times[len(times)/2].Round(time.Microsecond), times[len(times)-1].Round(time.Microsecond)),
		p99.Round(time.Microsecond).String(), "under "+hotQueryMax.String(), p99 < hotQueryMax) && good
	return verdict(fmt.Sprintf("answers that are not the newest %d, in order", hotNewest), fmt.Sprint(wrong), "0", wrong == 0) && good, nil
}

func medianP99(reports []*bench.Report) float64 {
	var values []float64
	for _, r := range reports {
		values = append(values, float64(r.Service.P99Ns))
	}
	return bench.Median(values)
}

// queryHotKey sends as many messages with the key as one answer holds, one after another, and then counts the answers that are not exactly
// these. The times are sorted.
func queryHotKey(ctx context.Context, c *interop.RawClient) (times []time.Duration, wrong int, err error) {
	var want []message.PhyOffset
	for range hotNewest {
		at, err := sendWithKey(c, hotKey)
		if err != nil {
			return nil, 0, err
		}
		want = append(want, at)
	}
	if err := awaitProbe(c); err != nil {
		return nil, 0, err
	}
	for range hotQueries {
		start := time.Now()
		got, err := queryKey(c, hotKey)
		if err != nil {
			return nil, 0, err
		}
		times = append(times, time.Since(start))
		if !slices.Equal(got, want) {
			wrong++
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
	}
	slices.Sort(times)
	return times, wrong, nil
}

// awaitProbe sends a message with a key of its own and returns when a query finds it: then the index has all that was sent before.
func awaitProbe(c *interop.RawClient) error {
	start := time.Now()
	key := fmt.Sprint("probe", start.UnixNano())
	at, err := sendWithKey(c, key)
	if err != nil {
		return err
	}
	for time.Since(start) < indexWaitMax {
		got, err := queryKey(c, key)
		if err != nil {
			return err
		}
		if slices.Equal(got, []message.PhyOffset{at}) {
			return nil
		}
		time.Sleep(indexPollGap)
	}
	return fmt.Errorf("a message is not found by its key within %v", indexWaitMax)
}

func sendWithKey(c *interop.RawClient, key string) (message.PhyOffset, error) {
	cmd, err := c.Send(interop.SendHeader(bench.DefaultTopic, 0, string(message.AppendProperty(nil, message.PropertyKeys, key))), []byte("x"))
	if err != nil {
		return 0, err
	}
	var h wire.SendMessageResponseHeader
	if cmd.Code != int32(wire.ResponseSuccess) {
		return 0, fmt.Errorf("send: code %d %s", cmd.Code, cmd.Remark)
	}
	if err := wire.DecodeHeader(cmd, &h); err != nil {
		return 0, err
	}
	_, at, err := message.ParseOffsetMsgID([]byte(h.MsgID))
	return at, err
}

// queryKey returns where the messages with a key stand, in the order of the answer.
func queryKey(c *interop.RawClient, key string) ([]message.PhyOffset, error) {
	cmd, err := c.Call(wire.RequestQueryMessage, &wire.QueryMessageRequestHeader{Topic: bench.DefaultTopic, Key: key, MaxNum: hotNewest, EndTimestamp: math.MaxInt64}, nil)
	if err != nil {
		return nil, err
	}
	switch wire.ResponseCode(cmd.Code) {
	case wire.ResponseSuccess:
	case wire.ResponseQueryNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("query for %q: code %d %s", key, cmd.Code, cmd.Remark)
	}
	var at []message.PhyOffset
	for body := cmd.Body; len(body) > 0; {
		var v message.View
		if err := message.ParseView(body, &v); err != nil {
			return nil, err
		}
		at = append(at, v.PhyOffset)
		body = body[v.Size:]
	}
	return at, nil
}
