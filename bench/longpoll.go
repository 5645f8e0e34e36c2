package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"

	"peregrine/internal/message"
	"peregrine/wire"
)

// longpollOptions describes the measurement of one message that reaches one held pull, again and again.
type longpollOptions struct {
	addr     string
	topic    string
	group    string
	size     int
	rounds   int
	pause    time.Duration // between the pull and the send: the broker has parked the pull by then
	limit    time.Duration // no round may take longer
	encoding wire.Encoding
}

// longpollReport is its result. Times count from just before the send is written.
type longpollReport struct {
	Machine   string       `json:"machine"`
	Broker    Broker       `json:"broker"`
	Rounds    int          `json:"rounds"`
	Delivered *Latency     `json:"delivered"` // until the pull's answer with the message is complete
	Acked     *Latency     `json:"acked"`     // until the send's answer is complete
	Late      int          `json:"late"`      // rounds above the limit
	Early     int          `json:"early"`     // pulls answered before the message was sent: the broker did not hold them
	Errors    []ErrorCount `json:"errors,omitempty"`
	LimitNs   int64        `json:"limitNs"`
}

func longpollMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := longpollOptions{}
	fs := pflag.NewFlagSet("longpoll", pflag.ContinueOnError)
	fs.StringVar(&o.addr, "addr", "127.0.0.1:10911", "broker, host:port")
	fs.StringVar(&o.topic, "topic", DefaultTopic+"Longpoll", "topic; queue 0 is used, and nobody else should")
	fs.StringVar(&o.group, "group", "peregrine_bench", "producer and consumer group")
	fs.IntVar(&o.size, "size", 128, "body bytes of a message")
	fs.IntVar(&o.rounds, "rounds", 200, "messages, one after the other")
	fs.DurationVar(&o.pause, "pause", 20*time.Millisecond, "time between the pull and the send, in which the broker parks the pull")
	fs.DurationVar(&o.limit, "limit", 10*time.Millisecond, "the check fails if one message takes longer")
	encoding := fs.String("encoding", "json", "header encoding: json or binary")
	jsonFile := fs.String("json", "", "write the result to this file; - = standard output instead of the table")
	if code, done := parse(fs, args, stdout, stderr, "peregrine bench longpoll: time from a send to its delivery by a pull that the broker holds"); done {
		return code
	}
	var err error
	if o.encoding, err = encodingOf(*encoding); err == nil && (o.rounds < 1 || o.rounds > 1_000_000) {
		err = fmt.Errorf("--rounds %d: expected 1 to 1000000", o.rounds)
	}
	if err == nil && (o.size < 1 || o.size > bodyBytesMax) {
		err = fmt.Errorf("--size %d: expected 1 to %d", o.size, bodyBytesMax)
	}
	if err == nil && (o.pause < 0 || o.pause > longpollHoldMax/2) {
		err = fmt.Errorf("--pause %v: expected 0s to %v", o.pause, longpollHoldMax/2)
	}
	if err != nil {
		fmt.Fprintln(stderr, "peregrine bench longpoll:", err)
		return exitUsage
	}
	rep, err := measureLongpoll(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "peregrine bench longpoll:", err)
		return exitBad
	}
	if *jsonFile != "-" {
		rep.writeText(stdout)
	}
	if *jsonFile != "" {
		if err := writeJSON(*jsonFile, rep, stdout); err != nil {
			fmt.Fprintln(stderr, "peregrine bench longpoll:", err)
			return exitBad
		}
	}
	if rep.Late+rep.Early > 0 || len(rep.Errors) > 0 || rep.Rounds < o.rounds {
		return exitBad
	}
	return exitGood
}

// pulled is what the puller saw of one pull.
type pulled struct {
	at   time.Time // when its answer was complete
	code int32
	next int64 // where to pull next
	err  error
}

func measureLongpoll(ctx context.Context, o longpollOptions, notes io.Writer) (*longpollReport, error) {
	t, err := directTarget(o.addr, 1)
	if err != nil {
		return nil, err
	}
	producer, err := dialControl(t.ap.String())
	if err != nil {
		return nil, err
	}
	defer producer.close()
	consumer, err := dialControl(t.ap.String())
	if err != nil {
		return nil, err
	}
	defer consumer.close()
	note, err := prepareTopic(producer, t, o.topic, strings.HasPrefix(o.topic, DefaultTopic))
	if err != nil {
		return nil, err
	}
	if note != "" {
		fmt.Fprintln(notes, note)
	}
	rep := &longpollReport{Machine: conditionsOf(&Options{}).Machine.String(), LimitNs: int64(o.limit)}
	rep.Broker = Broker{Addr: o.addr, Queues: 1}
	rep.Broker.Version, rep.Broker.Settings = brokerFacts(producer)

	spec := frameSpec{encoding: o.encoding, group: o.group, topic: o.topic, queues: 1, bodyBytes: o.size, batch: 1, tags: "TagA"}
	frames, err := newFrames(spec, localHost(t.ap), os.Getpid(), uint32(time.Now().UnixNano()))
	if err != nil {
		return nil, err
	}
	sender := &longpollSender{c: producer, frames: frames}
	// One message first: it creates the topic where the broker would not, and shows that sends work.
	if code, remark, err := sender.send(); err != nil || code != 0 {
		return nil, fmt.Errorf("the first send failed: %w", orCode(err, code, remark))
	}
	offset, err := settledOffset(ctx, producer, t, o.topic)
	if err != nil {
		return nil, err
	}

	delivered, acked := newHistogram(), newHistogram()
	var errors tally
	pulls, results := make(chan int64), make(chan pulled, 1)
	defer close(pulls)
	go func() { // ends when pulls is closed
		for from := range pulls {
			results <- pull(consumer, o, from)
		}
	}()
	for rep.Rounds < o.rounds && ctx.Err() == nil {
		pulls <- offset
		time.Sleep(o.pause) // the pull has to be parked before the message comes; the protocol has no sign of that
		start := time.Now()
		code, remark, err := sender.send()
		ackedAt := time.Now()
		if err != nil {
			return nil, err
		}
		if code != 0 {
			return nil, fmt.Errorf("send: %w", orCode(nil, code, remark))
		}
		_ = acked.RecordValue(min(int64(ackedAt.Sub(start)), latencyMaxNs))
		got := <-results
		if got.err != nil {
			return nil, fmt.Errorf("pull: %w", got.err)
		}
		rep.Rounds++
		offset = got.next
		switch {
		case got.code != 0:
			errors.add(got.code, 1, nil)
			if offset, err = settledOffset(ctx, producer, t, o.topic); err != nil {
				return nil, err
			}
		case got.at.Before(start):
			rep.Early++
		default:
			took := got.at.Sub(start)
			_ = delivered.RecordValue(min(max(int64(took), 1), latencyMaxNs))
			if took > o.limit {
				rep.Late++
			}
		}
	}
	rep.Delivered, rep.Acked = latencyOf(delivered), latencyOf(acked)
	for _, e := range errors.rows[:errors.n] {
		rep.Errors = append(rep.Errors, ErrorCount{Code: e.code, Name: codeName(e.code), Count: e.count})
	}
	return rep, nil
}

func orCode(err error, code int32, remark string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("code %s %s", codeName(code), remark)
}

// settledOffset is the maximum offset of queue 0 once it has stopped growing, which is at once on a broker that is level.
func settledOffset(ctx context.Context, c *control, t *target, topic string) (int64, error) {
	last, err := maxOffsets(c, t, topic)
	for err == nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond) // long enough for a broker that dispatches by polling
		now, nextErr := maxOffsets(c, t, topic)
		if nextErr != nil || now == last {
			return now, nextErr
		}
		last = now
	}
	return last, err
}

// longpollSender sends single messages on a blocking connection.
type longpollSender struct {
	c      *control
	frames *frames
	buf    []byte
}

func (s *longpollSender) send() (code int32, remark string, err error) {
	s.c.opaque++
	now := time.Now()
	s.buf = s.frames.append(s.buf[:0], 0, false, opaqueBase+s.c.opaque, now.UnixMilli(), stamp{})
	_ = s.c.conn.SetDeadline(now.Add(controlTimeout))
	if _, err := s.c.conn.Write(s.buf); err != nil {
		return 0, "", fmt.Errorf("%s: %w", s.c.addr, rootCause(err))
	}
	res, err := s.c.receiveOpaque(opaqueBase + s.c.opaque)
	if err != nil {
		return 0, "", err
	}
	return res.Code, string(res.Remark), nil
}

// pull asks for messages from offset on and lets the broker hold the request, as the push consumers of all clients do.
func pull(c *control, o longpollOptions, from int64) pulled {
	c.opaque++
	c.buf = wire.AppendPullRequest(c.buf[:0], o.encoding, wire.RequestPullMessage, c.opaque, &wire.PullMessageHeader{
		ConsumerGroup: []byte(o.group), Topic: []byte(o.topic), QueueOffset: from, MaxMsgNums: 32, SysFlag: wire.PullSysFlagSuspend | wire.PullSysFlagSubscription,
		SuspendTimeoutMillis: longpollHoldMax.Milliseconds(), Subscription: []byte("*"), ExpressionType: []byte("TAG"),
	})
	_ = c.conn.SetDeadline(time.Now().Add(longpollHoldMax + controlTimeout))
	if _, err := c.conn.Write(c.buf); err != nil {
		return pulled{err: fmt.Errorf("%s: %w", c.addr, rootCause(err))}
	}
	res, err := c.receive()
	p := pulled{at: time.Now(), err: err}
	if err != nil {
		return p
	}
	p.code = res.Code
	var header wire.PullMessageResponse
	if err := header.Decode(res); err != nil {
		return pulled{err: err}
	}
	p.next = header.NextBeginOffset
	if p.code != 0 {
		return p
	}
	var view message.View
	if err := message.ParseView(res.Body, &view); err != nil {
		return pulled{err: fmt.Errorf("the pulled message does not parse: %w", err)}
	}
	return p
}

func (rep *longpollReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "send during a held pull, %d rounds\n  broker   %s\n  machine  %s\n", rep.Rounds, rep.Broker, rep.Machine)
	t := newTable("from the send's first byte to", "p50", "p90", "p99", "max")
	for _, row := range []struct {
		name string
		l    *Latency
	}{{"the delivery by the held pull", rep.Delivered}, {"the acknowledgement of the send", rep.Acked}} {
		t.AppendRow(table.Row{row.name, short(row.l.P50Ns), short(row.l.P90Ns), short(row.l.P99Ns), short(row.l.MaxNs)})
	}
	rightAlign(t, 2, 5)
	fmt.Fprintln(w, t.Render())
	for _, e := range rep.Errors {
		fmt.Fprintf(w, "FAILED: %d pulls were answered with %s\n", e.Count, e.Name)
	}
	if rep.Early > 0 {
		fmt.Fprintf(w, "FAILED: %d pulls were answered before their message was sent\n", rep.Early)
	}
	verdict := "within"
	if rep.Late > 0 {
		verdict = fmt.Sprintf("FAILED: %d rounds above", rep.Late)
	}
	fmt.Fprintf(w, "%s the limit of %v\n", verdict, time.Duration(rep.LimitNs))
}
