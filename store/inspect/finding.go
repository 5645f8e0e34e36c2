package inspect

import "fmt"

// Level says what a Finding means for the verdict.
type Level string

const (
	// Fault is something wrong: the directory does not verify.
	Fault Level = "finding"
	// Note is a state that the next start takes care of, or something worth knowing.
	Note Level = "note"
)

// Kinds of findings. They are part of the JSON output and stay as they are.
const (
	KindRefused    = "refused"             // a start of peregrine refuses the directory
	KindLogFile    = "log-file"            // name or length of a CommitLog file, a gap between files
	KindRecord     = "record-damaged"      // a record whose lengths are right and whose content is not
	KindLogDamaged = "log-damaged"         // a part of the log without readable records, good ones behind it
	KindLogTail    = "log-tail"            // something behind the last good record
	KindOffset     = "queue-offset"        // queue offsets of records: given out twice, or jumping
	KindQueueFile  = "queue-file"          // name or length of a ConsumeQueue file, a gap between files
	KindExtFile    = "ext-file"            // name or length of a file in consumequeue_ext, a gap between files
	KindNoUnit     = "record-without-unit" // consumers do not get these records
	KindUnit       = "unit-wrong"          // the unit of a record has another position, size or tags code, or its ext unit has
	KindStrayUnit  = "unit-without-record"
	KindQueueAhead = "queue-ahead" // units that name records behind the end of the log
	KindHole       = "queue-hole"  // empty units with written ones behind them
	KindUnitOrder  = "unit-order"
	KindIndexFile  = "index-file" // name, length or header
	KindIndexItem  = "index-item" // an item that fits no key of a record at its position
	KindIndexTwice = "index-twice"
	KindNoIndex    = "record-without-index"
	KindIndexChain = "index-chain"
	KindCheckpoint = "checkpoint"
	KindForeign    = "not-read" // parts of the directory that this program does not read
	KindOriginal   = "original" // what the original does when it opens the directory as it is
	KindRetention  = "deleted"  // a file went away while it was to be read
)

// StartRefuses is how a finding begins that says with what.
const StartRefuses = "a start refuses the directory"

// Finding is one thing that verification, or the look at a directory, has to say.
type Finding struct {
	Level Level  `json:"level"`
	Kind  string `json:"kind"`
	// File is relative to the store directory, At a byte in it.
	File string `json:"file,omitempty"`
	At   int64  `json:"at"`
	// Position is the place in the log, -1 where there is none.
	Position int64  `json:"position"`
	Topic    string `json:"topic,omitempty"`
	Queue    *int32 `json:"queue,omitempty"`
	// Offset is the (first) queue offset or index item, Count how many it is about.
	Offset *int64 `json:"offset,omitempty"`
	Count  int64  `json:"count,omitempty"`
	What   string `json:"what"`
	// Original says what Apache RocketMQ 5.5.0 does about it, where it does something else than one would wish.
	Original string `json:"original,omitempty"`
}

func (f *Finding) format(format string, args ...any) *Finding {
	f.What = fmt.Sprintf(format, args...)
	return f
}

// String is the finding in one line.
func (f *Finding) String() string {
	text := string(f.Level) + " " + f.Kind + ": "
	if f.File != "" {
		text += Printable(f.File) + fmt.Sprintf(" at %d: ", f.At)
	}
	if f.Queue != nil {
		text += fmt.Sprintf("%s queue %d", Printable(f.Topic), *f.Queue)
		if f.Offset != nil {
			text += fmt.Sprintf(" offset %d", *f.Offset)
		}
		text += ": "
	}
	text += f.What
	if f.Original != "" {
		text += "; " + f.Original
	}
	return text
}
