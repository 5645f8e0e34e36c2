package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/internal/sysio"
	"peregrine/store/inspect"
)

const dumpUsage = `peregrine dump: look at a store directory, also of the original and while a broker runs on it. It only reads, but for --repair --yes.

  peregrine dump [flags] [key=value ...]              what is there
  peregrine dump commitlog [flags] [key=value ...]    records
  peregrine dump consumequeue ...                     units
  peregrine dump index ...                            items of index files
  peregrine dump checkpoint ...
  peregrine dump config ...                           topics, groups, consumer offsets
  peregrine dump --verify ...                         cross-check log, queues and index; exit 1 on a finding
  peregrine dump --repair ...                         verify, and say what a repair would do: queues and index made again from the log
  peregrine dump --repair --fill ...                  likewise, and damaged records replaced by fillers that the original accepts
  peregrine dump --repair [--fill] --yes ...          do it, on the directory of a broker that is stopped

A directory may also stand alone, if its name has a slash: peregrine dump /data/store --repair.
Sizes of files are not stored: they are taken from --config or key=value (mappedFileSizeCommitLog, mappedFileSizeConsumeQueue,
maxHashSlotNum, maxIndexNum), else from names and lengths of the files.
`

// dumpOptions is the command line of dump.
type dumpOptions struct {
	what           string
	store, config  string
	topic          string
	queue          int32
	from, at       int64
	count          int64
	json, verify   bool
	repair         bool
	fill, yes      bool     // of a repair: replace damaged records; do it
	settings       []string // key=value
	queueSet, only bool     // --queue and --offset were given
	shown, beside  int64    // what limited let through; of that, damage, which is listed whatever was asked for
}

// dump prints parts of a store directory and returns the exit code: 1 after a verification with findings, 3 for a directory that
// cannot be read.
func dump(args []string, stdout, stderr io.Writer) int {
	o, err := parseDump(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, dumpUsage, "\nFlags:\n", o.flags().FlagUsages())
		return exitOK
	}
	if err != nil {
		return fail(stderr, exitUsage, fmt.Errorf("dump: %w; see peregrine dump --help", err))
	}
	where, err := o.where()
	if err != nil {
		return fail(stderr, exitUsage, err)
	}
	d, err := inspect.Open(where)
	if err != nil {
		if refused := o.refusal(where, nil); refused != "" {
			err = fmt.Errorf("%w; %s: %s", err, inspect.StartRefuses, refused)
		}
	}
	if err != nil {
		return fail(stderr, exitStore, fmt.Errorf("dump: %w", err))
	}
	p := newDumpPrinter(stdout, o.json)
	code := exitOK
	switch {
	case o.repair:
		code, err = dumpRepair(o, where, p, stderr)
	case o.verify:
		code, err = dumpVerify(d, o, where, p, stderr)
	case o.what == "":
		err = dumpSummary(d, o.refusal(where, d), p)
	case o.what == "commitlog":
		err = dumpRecords(d, o, p)
	case o.what == "consumequeue":
		err = dumpUnits(d, o, p)
	case o.what == "index":
		err = dumpIndex(d, o, p)
	case o.what == "checkpoint":
		dumpCheckpoint(d, p)
	case o.what == "config":
		err = dumpConfig(where.FS, where.Root, o, p)
	}
	if ferr := p.flush(); err == nil && ferr != nil {
		return fail(stderr, exitFailed, fmt.Errorf("dump: %w", ferr))
	}
	if err != nil {
		if code == exitOK {
			code = exitStore
		}
		return fail(stderr, code, fmt.Errorf("dump: %w", err))
	}
	if selectors := o.selectors(); o.shown == o.beside && selectors != "" {
		return fail(stderr, exitFailed, fmt.Errorf("dump: %s: there is nothing with %s", o.what, selectors))
	}
	if p.more {
		fmt.Fprintf(stderr, "peregrine: dump: %d shown, there is more: --count N, 0 for all\n", o.count)
	}
	return code
}

func (o *dumpOptions) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("dump", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.SortFlags = false
	f.StringVar(&o.store, "store", "", "`DIR` of the data (default storePathRootDir)")
	f.StringVarP(&o.config, "config", "c", "", "`FILE` broker.conf of the broker that made it")
	f.BoolVar(&o.verify, "verify", false, "cross-check log, queues and index")
	f.BoolVar(&o.repair, "repair", false, "say what a repair would do; it changes nothing without --yes")
	f.BoolVar(&o.fill, "fill", false, "with --repair: put fillers in the place of damaged records")
	f.BoolVar(&o.yes, "yes", false, "with --repair: do it")
	f.BoolVar(&o.json, "json", false, "one JSON object a line")
	f.StringVar(&o.topic, "topic", "", "only this `TOPIC`")
	f.Int32Var(&o.queue, "queue", 0, "only this queue `ID`")
	f.Int64Var(&o.from, "from", 0, "begin here: a position in the log, a queue offset, an item `NUMBER`")
	f.Int64Var(&o.count, "count", 100, "at most so many, 0 for all")
	f.Int64Var(&o.at, "offset", 0, "only what stands at this position, offset or item `NUMBER`, with everything about it")
	return f
}

func parseDump(args []string) (*dumpOptions, error) {
	o := &dumpOptions{}
	f := o.flags()
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.queueSet, o.only = f.Changed("queue"), f.Changed("offset")
	for _, arg := range f.Args() {
		switch {
		case strings.Contains(arg, "="):
			o.settings = append(o.settings, arg)
		case strings.ContainsRune(arg, '/') && o.store == "":
			o.store = arg
		case o.what != "":
			return o, fmt.Errorf("%q and %q: one at a time", o.what, arg)
		case arg == "commitlog", arg == "consumequeue", arg == "index", arg == "checkpoint", arg == "config":
			o.what = arg
		default:
			return o, fmt.Errorf("%q: expected commitlog, consumequeue, index, checkpoint, config or key=value", arg)
		}
	}
	filtered := o.topic != "" || o.queueSet || f.Changed("from") || f.Changed("count") || o.only
	switch {
	case (o.fill || o.yes) && !o.repair:
		return o, errors.New("--fill and --yes belong to --repair")
	case o.repair && (o.verify || o.what != "" || filtered):
		return o, errors.New("--repair is about the whole directory and verifies it, too")
	case o.verify && (o.what != "" || filtered):
		return o, errors.New("--verify is about the whole directory")
	case filtered && (o.what == "" || o.what == "checkpoint"):
		return o, errors.New("--topic, --queue, --from, --count and --offset need commitlog, consumequeue, index or config")
	case o.only && f.Changed("from"):
		return o, errors.New("--from and --offset exclude each other")
	case o.from < 0 || o.at < 0 || o.count < 0 || o.queue < 0:
		return o, errors.New("numbers begin at 0")
	}
	if o.only {
		o.from = o.at
	}
	return o, nil
}

// configArgs is the part of the command line that a broker would get.
func (o *dumpOptions) configArgs() []string {
	args := o.settings
	if o.config != "" {
		args = append([]string{"--config", o.config}, args...)
	}
	if o.store != "" {
		args = append([]string{"--store", o.store}, args...)
	}
	return args
}

// where finds the directory and its sizes: those that somebody set, 0 for the others.
func (o *dumpOptions) where() (inspect.Options, error) {
	cfg, report, err := config.Load(o.configArgs(), os.Getenv, os.ReadFile)
	if err != nil {
		return inspect.Options{}, err
	}
	w := inspect.Options{FS: sysio.OS{}, Root: cfg.StorePathRootDir, LogDir: cfg.CommitLogDir(), LockHolder: sysio.LockState,
		WithoutIndex: !cfg.MessageIndexEnable || !cfg.IndexFileWriteEnable}
	if _, set := report.Origins["mappedFileSizeCommitLog"]; set {
		w.SegmentBytes = cfg.MappedFileSizeCommitLog
	}
	if _, set := report.Origins["mappedFileSizeConsumeQueue"]; set {
		w.QueueFileBytes = (cfg.MappedFileSizeConsumeQueue + 19) / 20 * 20
	}
	if _, set := report.Origins["mappedFileSizeConsumeQueueExt"]; set {
		w.ExtFileBytes = cfg.MappedFileSizeConsumeQueueExt
	}
	_, slots := report.Origins["maxHashSlotNum"]
	_, items := report.Origins["maxIndexNum"]
	if slots || items {
		w.IndexSlots, w.IndexItems = cfg.MaxHashSlotNum, cfg.MaxIndexNum
	}
	return w, nil
}

// selectors says what of the whole is wanted, "" if it is all of it. What stands at one place of the log is shown whatever it is.
func (o *dumpOptions) selectors() string {
	if o.only && o.what == "commitlog" {
		return ""
	}
	var all []string
	if o.topic != "" {
		all = append(all, "--topic "+o.topic)
	}
	if o.queueSet {
		all = append(all, fmt.Sprintf("--queue %d", o.queue))
	}
	if o.only {
		all = append(all, fmt.Sprintf("--offset %d", o.at))
	} else if o.from > 0 {
		all = append(all, fmt.Sprintf("--from %d", o.from))
	}
	return strings.Join(all, " ")
}

func (o *dumpOptions) place() inspect.Place {
	p := inspect.Place{Topic: o.topic}
	if o.queueSet {
		p.Queue = &o.queue
	}
	return p
}

// dumpVerify prints findings as they come, and the totals.
func dumpVerify(d *inspect.Directory, o *dumpOptions, where inspect.Options, p *dumpPrinter, stderr io.Writer) (int, error) {
	var progress func(done, all int64)
	if isTerminal(stderr) {
		progress = func(done, all int64) { fmt.Fprintf(stderr, "\r%d of %d MiB ", done>>20, all>>20) }
	}
	report, err := d.Verify(inspect.VerifyOptions{Refused: o.refusal(where, d), Heads: o.heads(where), Progress: progress, Found: func(f inspect.Finding) {
		if p.json {
			p.object(f)
		} else {
			p.line(f.String())
		}
	}})
	if progress != nil {
		fmt.Fprint(stderr, "\r                              \r")
	}
	if err != nil {
		return exitStore, err
	}
	if p.json {
		p.object(struct {
			Level string `json:"level"`
			inspect.Report
		}{"total", report})
	} else {
		p.line(fmt.Sprintf("log %d to %d: %d good records, %d damaged places; %d queues: %d units fit, %d keep a place, %d of deleted records; index: %d items fit",
			report.Begin, report.End, report.Records, report.Damaged, report.Queues, report.Units, report.Kept, report.Expired, report.Items))
		if report.Running {
			p.line(fmt.Sprintf("a broker runs on the directory: what it wrote behind %d was not looked at", report.End))
		}
		p.line(fmt.Sprintf("%d findings, %d notes", report.Findings, report.Notes))
	}
	if !report.Clean() {
		return exitFailed, nil
	}
	return exitOK, nil
}

// isTerminal tells whether people look at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}

// limited counts what is shown and says when it is enough.
func (o *dumpOptions) limited(p *dumpPrinter) func() bool {
	return func() bool {
		if o.count > 0 && o.shown == o.count {
			p.more = true
			return false
		}
		o.shown++
		return true
	}
}

func dumpRecords(d *inspect.Directory, o *dumpOptions, p *dumpPrinter) error {
	if o.only {
		r, err := d.RecordAt(message.PhyOffset(o.at))
		if err == nil && r.Version == 0 && !p.json {
			p.line(fmt.Sprintf("%d (%s at %d): %s", r.Position, inspect.Printable(r.File), r.At, r.Damage))
		} else if err == nil {
			p.fields(r)
		}
		return err
	}
	room := o.limited(p)
	p.columns("position", "bytes", "topic", "queue", "offset", "type", "stored (UTC)", "body", "tags", "keys", "unique key", "damage")
	return d.Records(o.place(), message.PhyOffset(o.from), func(r inspect.Record) bool {
		if !room() {
			return false
		}
		if r.Damage != "" {
			o.beside++
		}
		return p.row(r, r.Position, r.Size, r.Topic, r.Queue, r.Offset, r.Type, millis(r.StoreTime), r.BodyBytes, r.Tags, r.Keys, r.UniqKey, r.Damage)
	})
}

func dumpUnits(d *inspect.Directory, o *dumpOptions, p *dumpPrinter) error {
	room := o.limited(p)
	p.columns("topic", "queue", "offset", "position", "bytes", "tags code", "note")
	var failed error
	err := d.Units(o.place(), message.QueueOffset(o.from), func(u inspect.QueueUnit) bool {
		if o.only && u.Offset != o.at {
			return true
		}
		kept := ""
		if u.Kept {
			kept = "no record, the place is kept"
		} else if u.Ext != nil {
			kept = strings.TrimSpace(fmt.Sprintf("ext unit at %d %s", u.Ext.Position, u.Ext.Problem))
		}
		if !room() || !p.row(u, u.Topic, u.Queue, u.Offset, u.Position, u.Size, u.TagsCode, kept) {
			return false
		}
		if o.only && !u.Kept {
			var r inspect.Record
			if r, failed = d.RecordAt(message.PhyOffset(u.Position)); failed != nil {
				return false
			}
			p.fields(r)
		}
		return true
	})
	return errors.Join(err, failed)
}

func dumpIndex(d *inspect.Directory, o *dumpOptions, p *dumpPrinter) error {
	room := o.limited(p)
	p.columns("file", "item", "hash", "slot", "previous", "position", "time (UTC)", "topic", "key", "problem")
	return d.IndexItems(o.place(), int32(min(o.from, 1<<31-1)), func(l inspect.IndexLine) bool {
		if o.only && int64(l.Item) != o.at {
			return true
		}
		return room() && p.row(l, l.File, l.Item, l.Hash, l.Slot, l.Previous, l.Position, millis(l.Time), l.Topic, l.Key, l.Problem)
	})
}

// checkpointLine is the checkpoint as it is printed: times in ms, 0 = not known.
type checkpointLine struct {
	Kind                 string `json:"kind"`
	Exists               bool   `json:"exists"`
	PhysicMsgTimestamp   int64  `json:"physicMsgTimestamp"`
	LogicsMsgTimestamp   int64  `json:"logicsMsgTimestamp"`
	IndexMsgTimestamp    int64  `json:"indexMsgTimestamp"`
	MasterFlushedOffset  int64  `json:"masterFlushedOffset"`
	ConfirmPhyOffset     int64  `json:"confirmPhyOffset"`
	LogicsPhysicalOffset int64  `json:"logicsPhysicalOffset"`
}

func dumpCheckpoint(d *inspect.Directory, p *dumpPrinter) {
	c := &d.Checkpoint
	line := checkpointLine{"checkpoint", c.Exists, int64(c.PhysicMsgTimestamp), int64(c.LogicsMsgTimestamp), int64(c.IndexMsgTimestamp),
		int64(c.MasterFlushedOffset), int64(c.ConfirmPhyOffset), int64(c.LogicsPhysicalOffset)}
	if p.json {
		p.object(line)
		return
	}
	if !c.Exists {
		p.line("checkpoint: missing")
		return
	}
	p.columns("checkpoint", "value", "time (UTC)")
	for _, f := range []struct {
		name  string
		value int64
		time  bool
	}{
		{"physicMsgTimestamp", line.PhysicMsgTimestamp, true}, {"logicsMsgTimestamp", line.LogicsMsgTimestamp, true},
		{"indexMsgTimestamp", line.IndexMsgTimestamp, true}, {"masterFlushedOffset", line.MasterFlushedOffset, false},
		{"confirmPhyOffset", line.ConfirmPhyOffset, false}, {"logicsPhysicalOffset", line.LogicsPhysicalOffset, false},
	} {
		when := ""
		if f.time {
			when = millis(f.value)
		}
		p.row(nil, f.name, f.value, when)
	}
}

// marshalLine is a value as one line of JSON.
func marshalLine(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // values of this package have no type that cannot be written
		b, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return append(b, '\n')
}
