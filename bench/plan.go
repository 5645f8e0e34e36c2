package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"

	"peregrine/internal/sysio"
	"peregrine/wire"
)

// capacity is what a broker needs for the messages of a load: what a capacity planner multiplies.
type capacity struct {
	Conditions Conditions `json:"conditions"`
	Rate       float64    `json:"rate"` // messages a second that are planned with

	LogBytes     float64 `json:"logBytes"`     // of the CommitLog, per message, as it grew
	QueueBytes   float64 `json:"queueBytes"`   // of the ConsumeQueue, per message
	IndexBytes   float64 `json:"indexBytes"`   // of index files, per message
	DiskBytes    float64 `json:"diskBytes"`    // of the disk that is planned with
	DiskRatio    float64 `json:"diskRatio"`    // the part of it from which the broker deletes early
	DiskDays     float64 `json:"diskDays"`     // how long that lasts
	ReservedDays float64 `json:"reservedDays"` // fileReservedTime: older files are deleted even if there is room

	CPUPer100k      *float64 `json:"cpuPer100k,omitempty"`      // cores that 100,000 messages a second take; with --pid, as the next
	ConnectionBytes *float64 `json:"connectionBytes,omitempty"` // anonymous memory of an idle connection
	QueueMemory     *float64 `json:"queueMemory,omitempty"`     // anonymous memory of a queue with a message
	Warnings        []string `json:"warnings,omitempty"`

	load *Report
}

const (
	planConnections = 1000
	planQueues      = 1000
	planSettle      = time.Second // before memory is looked at
	queueUnitBytes  = 20          // of a ConsumeQueue, for each message
	indexItemBytes  = 20
	indexSlotBytes  = 4
	planTopic       = DefaultTopic + "PlanQueues"
)

func planMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	disk, pid, rate := 1e12, 0, 0.0
	var out outputs
	o, code, done := modes[0].parse(args, stdout, stderr, "plan",
		"peregrine bench plan: disk, days of retention, CPU and memory that a broker needs for such messages; sends some, and with --pid makes a topic of its own with many queues",
		func(fs *pflag.FlagSet) {
			fs.Float64Var(&disk, "disk", disk, "bytes of the disk that is planned with")
			fs.Float64Var(&rate, "plan-rate", 0, "messages a second that are planned with; 0 = those of the load, which --rate sets")
			fs.IntVar(&pid, "pid", 0, "process of the broker on this machine: for CPU and memory")
			out.flags(fs)
		})
	if done {
		return code
	}
	if !(disk > 0 && disk <= math.MaxInt64 && rate >= 0 && rate <= rateMax) || o.Namesrv != "" || pid < 0 || out.htmlFile != "" {
		fmt.Fprintln(stderr, "peregrine bench plan: expected --addr, neither --namesrv nor --html, a --disk above 0, a --plan-rate and a --pid of at least 0")
		return exitUsage
	}
	c := &capacity{DiskBytes: disk, Rate: rate}
	err := c.measure(ctx, o, pid, stderr)
	if err == nil {
		err = out.write(stdout, c.write, c, nil)
	}
	if err != nil {
		fmt.Fprintln(stderr, "peregrine bench plan:", err)
		return exitBad
	}
	return exitGood
}

func (c *capacity) measure(ctx context.Context, o Options, pid int, notes io.Writer) error {
	control, err := dialControl(o.Addr)
	if err != nil {
		return err
	}
	defer control.close()
	settings, err := brokerSettings(control)
	if err != nil {
		return err
	}
	before, err := runtimeNumber(control, "commitLogMaxOffset")
	if err != nil {
		return err
	}
	cpuBefore := time.Duration(0)
	if pid != 0 {
		if cpuBefore, err = sysio.CPUOf(pid); err != nil {
			return fmt.Errorf("--pid: %w", err)
		}
	}
	o.CheckDispatch = true
	rep, err := Run(ctx, o, notes)
	if err != nil {
		return err
	}
	if len(rep.Failures) > 0 {
		return errors.New(strings.Join(rep.Failures, "; "))
	}
	c.load, c.Conditions, c.Warnings = rep, rep.Conditions, rep.Warnings
	after, err := runtimeNumber(control, "commitLogMaxOffset")
	if err != nil {
		return err
	}
	messages := float64(rep.Dispatch.Acknowledged)
	c.LogBytes, c.QueueBytes = (after-before)/messages, queueUnitBytes
	if settings["messageIndexEnable"] != "false" {
		keys := 1.0 // UNIQ_KEY
		if o.Keys || o.Key != "" {
			keys++
		}
		c.IndexBytes = keys * (indexItemBytes + indexSlotBytes*settingOr(settings, "maxHashSlotNum", 5_000_000)/settingOr(settings, "maxIndexNum", 20_000_000))
	}
	if c.Rate == 0 {
		c.Rate = rep.Rate
	}
	c.DiskRatio = settingOr(settings, "diskMaxUsedSpaceRatio", 75) / 100
	const day = 24 * 3600
	c.DiskDays = c.DiskBytes * c.DiskRatio / (c.Rate * (c.LogBytes + c.QueueBytes + c.IndexBytes)) / day
	c.ReservedDays = settingOr(settings, "fileReservedTime", 72) / 24
	if pid == 0 {
		return nil
	}
	cpuAfter, err := sysio.CPUOf(pid)
	if err != nil {
		return err
	}
	per := (cpuAfter - cpuBefore).Seconds() / messages * 100_000
	c.CPUPer100k = &per
	if c.ConnectionBytes, err = connectionMemory(o.Addr, pid); err == nil {
		c.QueueMemory, err = queueMemory(ctx, control, o, pid)
	}
	return err
}

// connectionMemory opens idle connections, each of which has asked once, and looks at what the broker's memory grew by.
func connectionMemory(addr string, pid int) (*float64, error) {
	before, err := sysio.RssAnonOf(pid)
	if err != nil {
		return nil, err
	}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range planConnections {
		c, err := dialControl(addr)
		if err != nil {
			return nil, err
		}
		open = append(open, c.conn)
		if _, err := c.ask(wire.RequestGetBrokerRuntimeInfo, nil); err != nil {
			return nil, err
		}
	}
	time.Sleep(planSettle)
	after, err := sysio.RssAnonOf(pid)
	per := float64(max(after-before, 0)) / planConnections
	return &per, err
}

// queueMemory sends messages to each of many new queues and looks at what the broker's memory grew by. It deletes their topic in the end.
func queueMemory(ctx context.Context, control *control, o Options, pid int) (memory *float64, err error) {
	before, err := sysio.RssAnonOf(pid)
	if err != nil {
		return nil, err
	}
	o.Topic, o.Queues, o.Connections, o.Inflight, o.Rate, o.Warmup, o.Duration = fmt.Sprint(planTopic, time.Now().Unix()), planQueues, 1, 1, 0, 0, 2*time.Second
	rep, err := Run(ctx, o, io.Discard)
	if err != nil {
		return nil, err
	}
	if rep.Acked < planQueues {
		return nil, fmt.Errorf("only %d of %d queues got a message: %s", rep.Acked, planQueues, strings.Join(rep.Failures, "; "))
	}
	defer func() {
		res, failed := control.ask(wire.RequestDeleteTopicInBroker, topicHeader{Topic: o.Topic})
		if failed == nil && res.Code != 0 {
			failed = answerError("delete topic "+o.Topic, res)
		}
		err = errors.Join(err, failed)
	}()
	time.Sleep(planSettle)
	after, err := sysio.RssAnonOf(pid)
	per := float64(max(after-before, 0)) / float64(rep.Conditions.Brokers[0].Queues)
	return &per, err
}

// settingOr is a setting that is a number above 0.
func settingOr(settings map[string]string, key string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(settings[key], 64); err == nil && v > 0 {
		return v
	}
	return otherwise
}

// runtimeNumber is one of the numbers that a broker tells of itself.
func runtimeNumber(c *control, key string) (float64, error) {
	_, table, err := runtimeInfo(c)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(table[key], 64)
	if err != nil {
		return 0, fmt.Errorf("the broker does not tell its %s", key)
	}
	return v, nil
}

func (c *capacity) write(w io.Writer, markdown bool) {
	c.load.writeConditions(w)
	t := newTable("capacity", "", "")
	row := func(name, value, note string) { t.AppendRow(table.Row{name, value, note}) }
	perMessage := c.LogBytes + c.QueueBytes + c.IndexBytes
	row("CommitLog", fmt.Sprintf("%.0f bytes a message", c.LogBytes), "as it grew; whoever else sends counts, too")
	row("ConsumeQueue", fmt.Sprintf("%.0f bytes a message", c.QueueBytes), "")
	row("index files", fmt.Sprintf("%.1f bytes a message", c.IndexBytes), "with UNIQ_KEY and KEYS")
	row("disk", fmt.Sprintf("%.1f GB a day", perMessage*c.Rate*24*3600/1e9), fmt.Sprintf("at %s messages/s", grouped(int64(c.Rate))))
	row("the disk lasts", fmt.Sprintf("%s days", digits3(c.DiskDays)), fmt.Sprintf("%.0f GB up to %.0f %%, from where the broker deletes early", c.DiskBytes/1e9, 100*c.DiskRatio))
	row("retention", fmt.Sprintf("%s days", digits3(min(c.DiskDays, c.ReservedDays))), fmt.Sprintf("fileReservedTime keeps at most %s days", digits3(c.ReservedDays)))
	if c.CPUPer100k == nil {
		row("CPU, memory", "not measured", "give --pid of a broker on this machine")
	} else {
		row("CPU", fmt.Sprintf("%.2f cores for 100,000 messages/s", *c.CPUPer100k), "of the broker")
		row("memory of a connection", fmt.Sprintf("%.1f KiB", *c.ConnectionBytes/1024), fmt.Sprintf("anonymous, %d idle ones", planConnections))
		row("memory of a queue", fmt.Sprintf("%.1f KiB", *c.QueueMemory/1024), fmt.Sprintf("anonymous, %d with messages", planQueues))
	}
	fmt.Fprintf(w, "\n%s\n", render(t, markdown))
	for _, s := range c.Warnings {
		fmt.Fprintf(w, "- warning: %s\n", s)
	}
}
