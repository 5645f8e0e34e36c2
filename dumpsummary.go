package main

import (
	"fmt"

	"peregrine/store/inspect"
)

// summaryLine is the first object of a summary in JSON.
type summaryLine struct {
	Kind           string          `json:"kind"`
	Directory      string          `json:"directory"`
	Running        bool            `json:"running"`
	Holder         int             `json:"holder,omitempty"`
	Abort          bool            `json:"abort"`
	AbortText      string          `json:"abortText,omitempty"`
	SegmentBytes   int64           `json:"mappedFileSizeCommitLog"`
	QueueFileBytes int64           `json:"mappedFileSizeConsumeQueue"`
	LogFiles       int             `json:"logFiles"`
	LogBytes       int64           `json:"logBytes"`
	Begin          int64           `json:"begin"`
	End            int64           `json:"end"`
	First          *inspect.Record `json:"first,omitempty"`
	Last           *inspect.Record `json:"last,omitempty"`
}

// indexFileLine is an index file in a summary.
type indexFileLine struct {
	Kind  string `json:"kind"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Slots int32  `json:"slots"`
	Items int32  `json:"items"`
	Used  int32  `json:"used"`
	Begin int64  `json:"beginTime"`
	End   int64  `json:"endTime"`
	From  int64  `json:"beginPosition"`
	To    int64  `json:"endPosition"`
}

// dumpSummary prints what is in a directory.
func dumpSummary(d *inspect.Directory, refused string, p *dumpPrinter) error {
	s, err := d.Summarize()
	if err != nil {
		return err
	}
	if p.json {
		p.object(summaryLine{"summary", d.Root, d.Held, d.Holder, d.Abort, d.AbortText, d.SegmentBytes, d.QueueFileBytes, s.LogFiles, s.LogBytes,
			int64(s.Begin), int64(s.End), s.First, s.Last})
	} else {
		p.line("directory   " + inspect.Printable(d.Root))
		p.line("state       " + stateText(d, refused))
		p.line(fmt.Sprintf("commitlog   %d files of %d bytes, positions %d to %d", s.LogFiles, d.SegmentBytes, s.Begin, s.End))
		for _, r := range []struct {
			name string
			*inspect.Record
		}{{"  first     ", s.First}, {"  last      ", s.Last}} {
			if r.Record != nil && r.Damage != "" {
				p.line(fmt.Sprintf("%s%d: %s", r.name, r.Position, r.Damage))
			} else if r.Record != nil {
				p.line(fmt.Sprintf("%s%s at %d, %d bytes, %s queue %d offset %d", r.name, millis(r.StoreTime), r.Position, r.Size, inspect.Printable(r.Topic), r.Queue, r.Offset))
			}
		}
	}
	p.columns("topic", "queue", "files", "min", "max", "last position")
	for _, q := range s.Queues {
		p.row(struct {
			Kind string `json:"kind"`
			inspect.QueueSummary
		}{"queue", q}, q.Topic, q.Queue, q.Files, q.Min, q.Max, q.Position)
	}
	p.columns("index file", "slots", "items", "used", "from (UTC)", "to (UTC)", "positions")
	for _, f := range d.Index {
		p.row(indexFileLine{"index", f.Name, f.Size, f.Slots, f.Items, f.Head.Next - 1, int64(f.Head.BeginTimestamp), int64(f.Head.EndTimestamp),
			int64(f.Head.BeginPhy), int64(f.Head.EndPhy)},
			f.Name, f.Slots, f.Items, f.Head.Next-1, millis(int64(f.Head.BeginTimestamp)), millis(int64(f.Head.EndTimestamp)),
			fmt.Sprintf("%d to %d", f.Head.BeginPhy, f.Head.EndPhy))
	}
	dumpCheckpoint(d, p)
	for _, f := range d.Findings {
		if p.json {
			p.object(f)
		} else {
			p.line(f.String())
		}
	}
	return nil
}

// stateText says whether a broker runs and how the last one ended.
func stateText(d *inspect.Directory, refused string) string {
	switch {
	case d.Held && d.Holder > 0:
		return fmt.Sprintf("a broker runs on it: process %d", d.Holder)
	case d.Held:
		return "a broker runs on it: process " + inspect.Printable(d.AbortText) + ", says the abort file"
	}
	state, next := "stopped cleanly", ""
	if d.Abort {
		state = "crashed: the abort file is there (process " + inspect.Printable(d.AbortText) + ") and nobody holds the lock"
		next = "; the next start recovers"
	}
	if refused != "" {
		next = "; " + inspect.StartRefuses + ": " + inspect.Printable(refused)
	}
	return state + next
}
