package store

import (
	"path/filepath"

	"peregrine/internal/message"
)

// No CRC covers the checkpoint. What it says too much would cost units: a scan begins behind records that lack theirs, and nothing in front
// of it is written once more. So a start believes it only where the log agrees; one that is not believed counts like one that is lost.

// judgeCheckpoint forgets a checkpoint that cannot be right. st is the state file, nil if there is none.
func (r *recovery) judgeCheckpoint(st *savedState) error {
	why, err := r.doubtCheckpoint(st)
	if why == "" || err != nil {
		return err
	}
	r.logger.Warn("the checkpoint is damaged: it is made anew out of the log", "file", r.checkpointPath(), "why", why)
	r.lay.checkpoint = checkpointFields{}
	return r.s.checkpoint.replace(checkpointFields{})
}

func (r *recovery) checkpointPath() string { return filepath.Join(r.s.set.root, checkpointName) }

// doubtCheckpoint says why the checkpoint cannot be right, "" if it can.
func (r *recovery) doubtCheckpoint(st *savedState) (why string, err error) {
	cp := &r.lay.checkpoint
	newest := r.s.log.now()
	known := message.PhyOffset(0)
	if st != nil {
		if st.checkpoint == *cp {
			return "", nil
		}
		newest, known = max(newest, st.lastStore), st.checkpoint.LogicsPhysicalOffset
	}
	table := r.s.log.files.Load()
	if last := table.last(); last != nil { // the clock may have been set back since
		v, err := r.probe.look(last.start)
		if err != nil {
			return "", err
		}
		if v == recordGood {
			newest = max(newest, r.probe.view.StoreTimestamp)
		}
	}
	for _, t := range []message.Millis{cp.PhysicMsgTimestamp, cp.LogicsMsgTimestamp, cp.IndexMsgTimestamp} {
		if t < 0 || t > newest {
			return "it has a time that was not yet", nil
		}
	}
	at := cp.LogicsPhysicalOffset
	switch {
	case at < 0:
		return "it has a negative position", nil
	case at == 0, at <= known, len(table.files) > 0 && at < table.files[0].start:
		return "", nil // the file of such a record may have expired; and less than what was promised costs time only
	}
	if table.at(at) == nil {
		return "no file of the log has the position that it names", nil
	}
	if v, err := r.probe.look(at); v != recordGood && v != recordDamaged || err != nil {
		return "no record begins at the position that it names", err
	}
	// The original writes time and position one after the other, so that they may be of two records.
	if st != nil && st.running && st.run == r.lay.run && r.probe.view.StoreTimestamp != cp.LogicsMsgTimestamp {
		return "the record that it names has another time", nil
	}
	return "", nil
}

// judgeTimes forgets times that are later than all records: brokers of 5.3 and older begin where they say.
func (r *recovery) judgeTimes() error {
	if r.last == 0 {
		return nil // no record tells
	}
	forgot, err := r.s.checkpoint.forgetBehind(r.last)
	if forgot {
		r.logger.Warn("the checkpoint names a time behind the newest record; forgotten", "file", r.checkpointPath(), "newest", int64(r.last))
	}
	return err
}
