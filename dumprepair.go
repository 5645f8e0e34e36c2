package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"peregrine/dispatch"
	"peregrine/internal/config"
	"peregrine/internal/message"
	"peregrine/perf"
	"peregrine/store"
	"peregrine/store/inspect"
	"peregrine/store/repair"
)

const (
	// repairShards is how many goroutines fill queues: repair has the machine to itself.
	repairShards = 4
	// repairFillsShown bounds what is listed of one damaged place.
	repairFillsShown = 20
	// repairRetry is how long index and queues wait after an error, which mostly is a full disk.
	repairRetry = time.Second
	// repairFailMax is how long they are waited for.
	repairFailMax = time.Minute
)

// repairRun is one run of dump --repair.
type repairRun struct {
	o      *dumpOptions
	where  inspect.Options
	p      *dumpPrinter
	stderr io.Writer
}

// errRepairNothing ends a repair that has nothing to do.
var errRepairNothing = errors.New("nothing to repair")

// dumpRepair says what a repair would do, or does it, and returns the exit code: that of --verify.
func dumpRepair(o *dumpOptions, where inspect.Options, p *dumpPrinter, stderr io.Writer) (int, error) {
	r := &repairRun{o, where, p, stderr}
	d, err := inspect.Open(where)
	if err != nil {
		return exitStore, err
	}
	cfg, err := o.startConfig(d)
	if err != nil {
		return exitUsage, err
	}
	if !o.yes {
		return r.dryRun(d, cfg)
	}
	return r.repair(cfg, false)
}

// sizesKnown refuses to write into a directory whose files do not tell their sizes well enough, without a configuration.
func (r *repairRun) sizesKnown(d *inspect.Directory) error {
	if r.o.config != "" {
		return nil
	}
	index, queues := false, false
	for _, f := range d.Index {
		index = index || f.Slots > 0
	}
	for _, q := range d.Queues {
		queues = queues || len(q.Files) > 0
	}
	var missing []string
	if r.where.SegmentBytes == 0 && len(d.Log) < 2 {
		missing = append(missing, "mappedFileSizeCommitLog")
	}
	if r.where.QueueFileBytes == 0 && !queues {
		missing = append(missing, "mappedFileSizeConsumeQueue")
	}
	if r.where.IndexSlots == 0 && !index && !r.where.WithoutIndex {
		missing = append(missing, "maxHashSlotNum and maxIndexNum")
	}
	if len(missing) > 0 {
		return fmt.Errorf("the files do not tell %s: give -c broker.conf, or key=value", strings.Join(missing, ", "))
	}
	return nil
}

// plan looks at everything and prints what is found and what is to be done.
func (r *repairRun) plan(verb string, d *inspect.Directory) (*repair.Plan, error) {
	plan, err := repair.Make(repair.Options{Inspect: r.where, Fill: r.o.fill, Refused: r.o.refusal(r.where, d), Heads: r.o.heads(r.where),
		Progress: r.progress("checking"), Found: func(f inspect.Finding) {
			if r.p.json {
				r.p.object(f)
			} else {
				r.p.line(f.String())
			}
		}})
	if err == nil {
		r.print(plan, verb)
	}
	return plan, err
}

func (r *repairRun) progress(what string) func(done, all int64) {
	return func(done, all int64) { fmt.Fprintf(r.stderr, "peregrine: %s: %d of %d MiB\n", what, done>>20, all>>20) }
}

// say prints one line of a plan.
func (r *repairRun) say(kind string, detail any, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if r.p.json {
		r.p.object(struct {
			Level  string `json:"level"`
			Kind   string `json:"kind"`
			What   string `json:"what"`
			Detail any    `json:"detail,omitempty"`
		}{"plan", kind, what, detail})
		return
	}
	r.p.line("plan " + kind + ": " + what)
}

func (r *repairRun) print(plan *repair.Plan, verb string) {
	if plan.Nothing() {
		r.say("nothing", nil, "everything fits")
		return
	}
	for _, f := range plan.Short {
		r.say("length", nil, "%s: %s give it its length back, it has %d bytes", inspect.Printable(f.Name), verb, f.Size)
	}
	for i := range plan.Places {
		place := &plan.Places[i]
		where := fmt.Sprintf("%s at %d: position %d, %d bytes", inspect.Printable(place.File), place.At, place.Phy, place.Bytes)
		switch {
		case len(place.Fills) == 0:
			r.say("damaged", place, "%s stays: %s", where, place.Left)
			continue
		case !r.o.fill:
			r.say("damaged", place, "%s stays; --fill would put there %s", where, fillsText(place))
		default:
			r.say("fill", place, "%s: %s put there %s", where, verb, fillsText(place))
		}
		if place.Left != "" {
			r.say("damaged", nil, "%s: %s", where, place.Left)
		}
	}
	if plan.More > 0 {
		r.say("damaged", nil, "%d more damaged places: left to the next run", plan.More)
	}
	for i := range plan.Queues {
		q := &plan.Queues[i]
		if q.InPlace != "" {
			r.say("queue", q, "%s queue %d: %s cut and complete it in its files (%s); %s", inspect.Printable(q.Topic), q.Queue, verb, q.Why, q.InPlace)
		} else {
			r.say("queue", q, "%s queue %d: %s make it again from the log (%s)", inspect.Printable(q.Topic), q.Queue, verb, q.Why)
		}
	}
	if plan.Reindex {
		r.say("index", nil, "%s make the index again from the log; %d files are moved away", verb, len(plan.Index))
	}
	if t := &plan.Tail; t.Bytes > 0 {
		r.say("tail", t, "%s at %d: %s keep a copy of %d bytes behind the end of the log, %d, and cut them", inspect.Printable(t.File), t.At, verb, t.Bytes, plan.Report.End)
	}
	r.say("start", nil, "%s recover the directory as a start of the broker does, and leave it as after a clean stop", verb)
}

func fillsText(place *repair.Place) string {
	var parts []string
	for i := range place.Fills {
		if i == repairFillsShown {
			parts = append(parts, fmt.Sprintf("%d more", len(place.Fills)-i))
			break
		}
		parts = append(parts, place.Fills[i].String())
	}
	return strings.Join(parts, ", ")
}

func (r *repairRun) dryRun(d *inspect.Directory, cfg *config.Config) (int, error) {
	plan, err := r.plan("would", d)
	if err != nil {
		return exitStore, err
	}
	var refused []string
	if d.Held {
		refused = append(refused, (&store.LockedError{Path: filepath.Join(d.Root, "lock"), PID: d.Holder}).Error())
	}
	if err := store.Check(r.where.FS, cfg); err != nil && !store.Repairable(err) {
		refused = append(refused, err.Error())
	}
	if err := r.sizesKnown(d); err != nil {
		refused = append(refused, err.Error())
	}
	if plan.NeedsFill {
		refused = append(refused, repair.ErrNeedsFill.Error())
	}
	for _, why := range refused {
		r.say("refused", nil, "with --yes: %s", why)
	}
	if !plan.Nothing() {
		r.say("dry-run", nil, "nothing was changed; --yes does it")
	}
	if !plan.Report.Clean() {
		return exitFailed, nil
	}
	return exitOK, nil
}

// repair does it. The start in it may show more heads to be damaged than the check did: these are filled by a second run.
func (r *repairRun) repair(cfg *config.Config, second bool) (int, error) {
	d, err := inspect.Open(r.where)
	if err != nil {
		return exitStore, err
	}
	if err := r.sizesKnown(d); err != nil {
		return exitUsage, err
	}
	log := perf.NewLog(r.stderr, slog.LevelInfo)
	defer log.Close()
	r.where.LockHolder = nil // this process holds it
	r.where.SegmentBytes, r.where.QueueFileBytes = cfg.MappedFileSizeCommitLog, (cfg.MappedFileSizeConsumeQueue+19)/20*20
	var applied repair.Applied
	st, err := store.Open(store.Options{FS: r.where.FS, Config: cfg, Logger: log.Logger,
		Progress: func(p store.RecoveryProgress) { r.progress("recovering")(int64(p.At-p.From), int64(p.End-p.From)) },
		Prepare: func(begin func() error) error {
			plan, err := r.plan("will", d)
			if err == nil && plan.Nothing() {
				err = errRepairNothing
			}
			if err == nil && r.p.flush() == nil { // before it happens
				applied, err = plan.Apply(begin)
			}
			return err
		}})
	switch {
	case errors.Is(err, errRepairNothing):
		return exitOK, nil
	case errors.Is(err, repair.ErrNeedsFill):
		r.say("refused", nil, "%s", repair.ErrNeedsFill)
		return exitFailed, nil
	case err != nil:
		return exitStore, errors.Join(err, keptNote(applied))
	}
	if err := rebuild(st, cfg, r.progress); err != nil {
		return exitFailed, errors.Join(err, keptNote(applied))
	}
	r.say("done", applied, "%d fillers and end marks written, %d files moved away%s", applied.Filled, applied.Moved, keptText(applied))
	if r.o.fill && !second && len(r.o.heads(r.where)) > 0 {
		return r.repair(cfg, true)
	}
	after, err := inspect.Open(r.where)
	if err != nil {
		return exitStore, err
	}
	return dumpVerify(after, r.o, r.where, r.p, r.stderr)
}

func keptText(a repair.Applied) string {
	if a.Folder == "" {
		return ""
	}
	return "; what was there is kept in " + inspect.Printable(a.Folder)
}

func keptNote(a repair.Applied) error {
	if a.Folder == "" {
		return nil
	}
	return fmt.Errorf("what was replaced is kept in %s; run the repair again", inspect.Printable(a.Folder))
}

// rebuild fills queues and index from the log, as a start of the broker does, and closes the store as after a clean stop.
func rebuild(st *store.Store, cfg *config.Config, progress func(what string) func(done, all int64)) error {
	d := dispatch.New(dispatch.Options{Store: st, Shards: repairShards, OnError: st.SetDispatchError})
	keeper := dispatch.NewKeeper(d, st, dispatch.KeeperOptions{KeeperPace: dispatch.KeeperPace{Interval: time.Duration(cfg.FlushIntervalConsumeQueue) * time.Millisecond,
		LeastPages: cfg.FlushConsumeQueueLeastPages, ThoroughInterval: time.Duration(cfg.FlushConsumeQueueThoroughInterval) * time.Millisecond}})
	var index *dispatch.Indexer
	if x := st.Index(); x != nil && x.Writes() {
		index = dispatch.NewIndexer(d, x, dispatch.IndexerOptions{FlushInterval: store.IndexFlushInterval, RetryInterval: repairRetry})
	}
	report := st.Recovery()
	d.Start(report.RedispatchFrom)
	keeper.Start()
	if index != nil {
		index.Start()
	}
	err := follow(d, index, report, progress)
	deadline := time.Now().Add(repairFailMax)
	drained := d.Stop(deadline)
	complete := index == nil || index.Stop(deadline)
	err = errors.Join(err, keeper.Stop())
	if err == nil && !drained {
		err = errors.New("not every record got into its queue")
	}
	if err == nil && !complete {
		err = errors.Join(errors.New("the index is not complete"), index.Err())
	}
	return errors.Join(err, st.Close(err == nil))
}

// follow waits until everything is in its queue and in the index, or until nothing has moved for long.
func follow(d *dispatch.Dispatcher, index *dispatch.Indexer, report store.RecoveryReport, progress func(what string) func(done, all int64)) error {
	tick := time.NewTicker(time.Second / 50)
	defer tick.Stop()
	var last message.PhyOffset
	moved, told := time.Now(), time.Now()
	for now := range tick.C {
		at := d.LowWater()
		what, mark := "filling queues", at
		if at >= report.End && index != nil {
			what, mark = "filling the index", max(index.Mark(), 0)
		}
		if at >= report.End && (index == nil || index.Mark() >= report.End) {
			return nil
		}
		if mark != last {
			last, moved = mark, now
		}
		err := d.Err()
		if index != nil {
			err = errors.Join(err, index.Err())
		}
		if err != nil && now.Sub(moved) >= repairFailMax {
			return err
		}
		if now.Sub(told) >= time.Second {
			told = now
			progress(what)(int64(mark), int64(report.End))
		}
	}
	return nil
}
