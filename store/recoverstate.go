package store

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"peregrine/internal/message"
)

// trust is how much of a directory recovery takes as it is.
type trust uint8

const (
	// trustNothing: nobody knows how the queues came to be what they are. Every record of the log is looked at, and every
	// unit compared with its record.
	trustNothing trust = iota
	// trustDurable: peregrine crashed and the page cache is gone. The queues hold what was durable at the checkpoint.
	trustDurable
	// trustCache: peregrine was killed and the machine went on. What was written is there; only what was never written is not.
	trustCache
	// trustAll: the directory is as peregrine closed it.
	trustAll
)

// chooseTrust reads the state file, which it returns, nil if there is none, and compares it with the directory. With trustAll the queues
// are set.
func (r *recovery) chooseTrust() (st *savedState) {
	r.trust = trustNothing
	st, err := readState(r.s.fsys, r.s.set.root)
	if st != nil {
		r.known = st.damaged
	}
	var why string
	switch {
	case err != nil:
		why = err.Error()
	case r.lay.deletedLost:
		why = "the list of deleted topics was damaged or away"
	case st == nil:
		why = "it was not closed by peregrine"
	case st.running && st.run == 0:
		why = "damage was found in it" // by a reader, or by a start that did not come to its end
	case !st.running:
		if why = r.differs(st); why == "" {
			r.trust = trustAll
			r.adopt(st)
			return st
		}
	case !r.lay.crashed:
		why = "another broker closed it"
	case st.run != r.lay.run:
		why = "another broker ran on it"
	case st.boot != "" && st.boot == bootID(r.s.fsys):
		r.trust, r.saved = trustCache, st
		return st
	default:
		r.trust, r.saved = trustDurable, st
		return st
	}
	r.whyScan = why
	return st
}

// missingUnits looks for queues that hold less than what was durable once. Somebody took files away then: all records are looked
// at, lest a queue gives an offset out twice.
func (r *recovery) missingUnits() {
	if r.saved == nil {
		return
	}
	for i := range r.saved.queues {
		saved := &r.saved.queues[i]
		if mark, deleted := r.lay.deleted[saved.topic]; deleted && mark.at >= r.saved.end {
			continue // since the state file was written
		}
		q := r.s.queues.lookup([]byte(saved.topic), saved.id)
		if saved.firstFile >= 0 && (q == nil || q.Max() < saved.max) {
			r.trust = trustNothing
			r.whyScan = fmt.Sprintf("queue %s-%d lacks entries that it had", saved.topic, saved.id)
			return
		}
	}
}

// keepNext keeps queue offsets of damaged records from being given out again: the entries that named them were cut with the
// untrusted ones, and what was dispatched anew does not bring them back. After a power cut the file may know offsets of records that are lost:
// not to use these either costs blank entries, so only a damaged head is worth it.
func (r *recovery) keepNext() {
	head := func(d DamagedRange) bool { return strings.HasPrefix(d.Reason, headDamaged) }
	if r.saved == nil || !(r.trust == trustCache && len(r.known) > 0) && !slices.ContainsFunc(r.known, head) {
		return
	}
	for i := range r.saved.queues {
		saved := &r.saved.queues[i]
		if mark, deleted := r.lay.deleted[saved.topic]; deleted && mark.at >= r.saved.end {
			continue // since the state file was written
		}
		if q := r.s.queues.lookup([]byte(saved.topic), saved.id); q != nil && q.Next() < saved.next {
			q.next.Store(int64(saved.next))
		}
	}
}

// differs says in what the directory is not as the state file has it, "" if it is.
func (r *recovery) differs(st *savedState) string {
	set := &r.s.set
	table := r.s.log.files.Load()
	switch last := table.last(); {
	case st.segmentBytes != set.segmentBytes || st.queueFileBytes != set.queueFileBytes:
		return "file sizes changed"
	case st.checkpoint != r.lay.checkpoint:
		return "the checkpoint changed"
	case st.minPhy != r.s.log.MinPhy():
		return "the log begins elsewhere"
	case last == nil && st.end != 0, last != nil && (last.start >= st.end || last.end() < st.end):
		return "the log ends elsewhere"
	}
	if sum, err := tailSum(r.s.fsys, table, st.end); err != nil {
		return err.Error()
	} else if sum != st.tail {
		return "the end of the log changed"
	}
	if f := table.at(st.end); f != nil {
		file, err := r.s.fsys.OpenFile(f.path, os.O_RDONLY, 0)
		if err != nil {
			return err.Error()
		}
		n, err := countCut(file, int64(st.end-f.start), f.size)
		file.Close()
		if err != nil || n > 0 {
			return "something follows the end of the log"
		}
	}
	return r.queuesDiffer(st)
}

// queuesDiffer compares the files of all queues with the state file, and the end of each queue.
func (r *recovery) queuesDiffer(st *savedState) string {
	type name struct {
		topic string
		id    message.QueueID
	}
	dirs := make(map[name]*queueDir, len(r.lay.queues))
	for i := range r.lay.queues {
		if d := &r.lay.queues[i]; len(d.files) > 0 {
			dirs[name{d.topic, d.id}] = d
		}
	}
	withFiles := 0
	for i := range st.queues {
		q := &st.queues[i]
		if q.firstFile < 0 {
			continue
		}
		withFiles++
		if !r.filesFit(dirs[name{q.topic, q.id}], q) {
			return fmt.Sprintf("the files of queue %s-%d changed", q.topic, q.id)
		}
	}
	if withFiles != len(dirs) {
		return "there are queues that peregrine did not leave"
	}
	if err := r.parallel(len(st.queues), func(i int) error { return r.endFits(&st.queues[i]) }); err != nil {
		return err.Error()
	}
	return ""
}

func (r *recovery) filesFit(d *queueDir, q *savedQueue) bool {
	if d == nil {
		return false
	}
	fileBytes := r.s.set.queueFileBytes
	files := newestRun(d.files, fileBytes)
	for _, f := range files {
		if f.size != fileBytes {
			return false
		}
	}
	end, last := int64(q.max)*unitBytes, files[len(files)-1].start
	return files[0].start == q.firstFile && end >= q.firstFile && end <= last+fileBytes && (end > last || last == q.firstFile)
}

// endFits checks that the queue's last unit is the one of the state file and that none follows.
func (r *recovery) endFits(saved *savedQueue) error {
	if saved.firstFile < 0 {
		return nil
	}
	q := r.s.Queue(saved.topic, saved.id)
	var two [2]Unit
	from, want := saved.max-1, 2
	if int64(saved.max)*unitBytes == saved.firstFile {
		from, want = saved.max, 1
	}
	n, err := q.readUnits(two[:want], from, saved.max+1)
	if err != nil {
		return err
	}
	units := two[:n]
	if want == 2 {
		if units[0] != saved.last {
			return fmt.Errorf("the last entry of queue %s-%d changed", saved.topic, saved.id)
		}
		units = units[1:]
	}
	if len(units) == 1 && units[0].valid() {
		return fmt.Errorf("queue %s-%d has more entries", saved.topic, saved.id)
	}
	return nil
}

// adopt takes everything from the state file: the directory is as it says.
func (r *recovery) adopt(st *savedState) {
	r.lay.crashed = false // also when the machine went down between the state file and the end of the abort file
	r.report.Clean = true
	r.report.From, r.report.End, r.report.RedispatchFrom = st.end, st.end, st.end
	r.durableTo = st.end
	r.last = st.lastStore
	r.report.DamagedCount, r.report.Damaged = st.damagedCount, st.damaged
	for i := range st.damaged {
		r.s.damaged[st.damaged[i].Phy] = true
	}
	for i := range st.queues {
		saved := &st.queues[i]
		q := r.s.Queue(saved.topic, saved.id)
		q.firstFile = saved.firstFile
		r.setEnd(q, saved.max)
		q.next.Store(int64(saved.next))
		q.min.Store(int64(saved.min))
		if saved.last.Tags.IsExtAddress() {
			r.extQueues = append(r.extQueues, q)
		}
	}
}
