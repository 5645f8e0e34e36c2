package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"

	"peregrine/internal/message"
	"peregrine/wire"
)

// delayOptions describes the measurement of how punctually delayed messages come.
type delayOptions struct {
	addr   string
	topic  string
	group  string
	delays []time.Duration // of levels 1, 2, 3 …, as the broker has them
	count  int             // messages of each level
	spread time.Duration   // the sends are spread over it
	limit  time.Duration   // of the 99th percentile
}

// delayLevelReport is the result of one level. Times count from when the message was due, which is its delay after the
// first byte of its send was written, to the last byte of the answer that brings it to a held pull.
type delayLevelReport struct {
	Level   int           `json:"level"`
	Delay   time.Duration `json:"delayNs"`
	Arrived int           `json:"arrived"`
	Early   int           `json:"early"`
	Late    *Latency      `json:"late"`
	Err     string        `json:"error,omitempty"`
}

func delayMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := delayOptions{}
	fs := pflag.NewFlagSet("delay", pflag.ContinueOnError)
	fs.StringVar(&o.addr, "addr", "127.0.0.1:10911", "broker, host:port")
	fs.StringVar(&o.topic, "topic", DefaultTopic+"Delay", "topic; each level uses a queue of it, and nobody else should")
	fs.StringVar(&o.group, "group", "peregrine_bench", "producer and consumer group")
	fs.DurationSliceVar(&o.delays, "delays", []time.Duration{time.Second, 5 * time.Second, 10 * time.Second}, "delays of the broker's levels 1, 2, 3 …")
	fs.IntVar(&o.count, "count", 1000, "messages of each level")
	fs.DurationVar(&o.spread, "spread", 5*time.Second, "the sends are spread over this time")
	fs.DurationVar(&o.limit, "limit", 50*time.Millisecond, "the check fails if the 99th percentile of a level is later")
	jsonFile := fs.String("json", "", "write the result to this file; - = standard output instead of the table")
	if code, done := parse(fs, args, stdout, stderr, "peregrine bench delay: how late delayed messages come"); done {
		return code
	}
	if len(o.delays) < 1 || len(o.delays) > queuesMax || o.count < 1 || o.count > 1_000_000 || o.spread < 0 || o.spread > time.Hour {
		fmt.Fprintf(stderr, "peregrine bench delay: expected 1 to %d --delays, 1 to 1000000 as --count, up to 1h as --spread\n", queuesMax)
		return exitUsage
	}
	levels, err := measureDelays(ctx, o, stderr)
	if err == nil && *jsonFile != "" {
		err = writeJSON(*jsonFile, levels, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "peregrine bench delay:", err)
		return exitBad
	}
	good := true
	t := newTable("level", "messages", "early", "late p50", "p99", "max", "promised p99", "verdict")
	for _, l := range levels {
		word := "ok"
		if l.Early > 0 || l.Arrived < o.count || l.Late == nil || l.Late.P99Ns > int64(o.limit) || l.Err != "" {
			word, good = "MISSED "+l.Err, false
		}
		late := l.Late
		if late == nil {
			late = &Latency{}
		}
		t.AppendRow(table.Row{fmt.Sprintf("%d (%v)", l.Level, l.Delay), l.Arrived, l.Early, short(late.P50Ns), short(late.P99Ns), short(late.MaxNs), "under " + o.limit.String(), word})
	}
	if *jsonFile != "-" {
		fmt.Fprintln(stdout, t.Render())
	}
	if !good {
		return exitBad
	}
	return exitGood
}

func measureDelays(ctx context.Context, o delayOptions, notes io.Writer) ([]delayLevelReport, error) {
	t, err := directTarget(o.addr, len(o.delays))
	if err != nil {
		return nil, err
	}
	producer, err := dialControl(t.ap.String())
	if err != nil {
		return nil, err
	}
	defer producer.close()
	note, err := prepareTopic(producer, t, o.topic, true)
	if err != nil {
		return nil, err
	}
	if note != "" {
		fmt.Fprintln(notes, note)
	}
	levels := make([]delayLevelReport, len(o.delays))
	var consumers sync.WaitGroup
	for i := range levels {
		levels[i] = delayLevelReport{Level: i + 1, Delay: o.delays[i]}
		from, err := queueEnd(producer, o.topic, i)
		if err != nil {
			return nil, err
		}
		c, err := dialControl(t.ap.String())
		if err != nil {
			return nil, err
		}
		consumers.Go(func() {
			defer c.close()
			if err := levels[i].receive(c, o, from); err != nil {
				levels[i].Err = err.Error()
			}
		})
	}
	start := time.Now()
	for n := range o.count {
		for i := range levels {
			time.Sleep(time.Until(start.Add(o.spread * time.Duration(n*len(levels)+i) / time.Duration(o.count*len(levels)))))
			if err := sendDelayed(producer, o, i); err != nil {
				return nil, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	consumers.Wait()
	return levels, nil
}

// queueEnd is where the next message of a queue comes.
func queueEnd(c *control, topic string, queue int) (int64, error) {
	answer, err := c.ask(wire.RequestGetMaxOffset, &wire.GetMaxOffsetRequestHeader{Topic: topic, QueueID: int32(queue)})
	if err != nil {
		return 0, err
	}
	var header wire.OffsetResponseHeader
	if err := wire.DecodeHeader(answer, &header); err != nil {
		return 0, err
	}
	return header.Offset, nil
}

// sendDelayed sends a message of a level into the queue of its own; its body is the time just before.
func sendDelayed(c *control, o delayOptions, level int) error {
	c.opaque++
	now := time.Now()
	properties := message.AppendProperty(message.AppendProperty(nil, message.PropertyDelay, fmt.Sprint(level+1)), message.PropertyWait, "true")
	c.buf = wire.AppendSendRequestV2(c.buf[:0], wire.EncodingJSON, c.opaque, 0, &wire.SendMessageHeader{ProducerGroup: []byte(o.group), Topic: []byte(o.topic),
		DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: int32(len(o.delays)), QueueID: int32(level), BornTimestamp: now.UnixMilli(), Properties: properties},
		binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())))
	_ = c.conn.SetDeadline(now.Add(controlTimeout))
	if _, err := c.conn.Write(c.buf); err != nil {
		return fmt.Errorf("%s: %w", c.addr, rootCause(err))
	}
	answer, err := c.receive()
	if err == nil && answer.Code != 0 {
		err = orCode(nil, answer.Code, string(answer.Remark))
	}
	return err
}

// receive pulls the level's queue until all messages came, or none does for a long time.
func (l *delayLevelReport) receive(c *control, o delayOptions, from int64) error {
	late := hdr.New(1, latencyMaxNs, latencyDigits)
	defer func() { l.Late = latencyOf(late) }()
	for silence := time.Now().Add(l.Delay + o.spread + controlTimeout); l.Arrived < o.count; {
		if time.Now().After(silence) {
			return errors.New("messages stay away")
		}
		c.opaque++
		c.buf = wire.AppendPullRequest(c.buf[:0], wire.EncodingJSON, wire.RequestPullMessage, c.opaque, &wire.PullMessageHeader{
			ConsumerGroup: []byte(o.group), Topic: []byte(o.topic), QueueID: int32(l.Level - 1), QueueOffset: from, MaxMsgNums: 32,
			SysFlag: wire.PullSysFlagSuspend | wire.PullSysFlagSubscription, SuspendTimeoutMillis: 1000, Subscription: []byte("*"), ExpressionType: []byte("TAG"),
		})
		_ = c.conn.SetDeadline(time.Now().Add(time.Second + controlTimeout))
		if _, err := c.conn.Write(c.buf); err != nil {
			return fmt.Errorf("%s: %w", c.addr, rootCause(err))
		}
		answer, err := c.receive()
		at := time.Now()
		if err != nil {
			return err
		}
		for body := answer.Body; answer.Code == 0 && len(body) > 0; {
			var v message.View
			if err := message.ParseView(body, &v); err != nil || len(v.Body) != 8 {
				return fmt.Errorf("a pulled message does not parse: %w", err)
			}
			due := time.Unix(0, int64(binary.BigEndian.Uint64(v.Body))).Add(l.Delay)
			body = body[v.Size:]
			from = int64(v.QueueOffset) + 1
			l.Arrived++
			silence = at.Add(l.Delay + o.spread + controlTimeout)
			// Store times are whole milliseconds, cut off: a message is due up to one before its delay has passed since it was sent.
			if at.Add(time.Millisecond).Before(due) {
				l.Early++
			}
			_ = late.RecordValue(min(max(int64(at.Sub(due)), 1), latencyMaxNs))
		}
	}
	return nil
}
