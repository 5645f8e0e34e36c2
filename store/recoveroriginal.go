package store

import (
	"path/filepath"

	"peregrine/internal/message"
)

// originalFilesBack is how many files the recovery of the original walks back to find a beginning (commitLogRecoverMaxNum).
const originalFilesBack = 10

// originalStarts is where a start of the original (5.5.0) would begin to scan the log as this start found it: it cuts the log at the first
// damage that it meets from there on. Package inspect finds the same for dump --verify, without this code.
type originalStarts struct {
	known        bool
	clean, crash message.PhyOffset // after a clean stop (CommitLog.recoverNormally), after a crash (recoverAbnormally)
}

// wouldDo says what the original makes of damage that it can notice.
func (o *originalStarts) wouldDo(phy message.PhyOffset) string {
	switch {
	case phy >= o.clean:
		return "every start of the original cuts the log here"
	case phy >= o.crash:
		return "a start of the original after a crash cuts the log here; after a clean stop it serves the record as it is"
	}
	return "no start of the original looks here; it serves the record as it is"
}

// originalOf says what the original makes of damage, "" where that cannot be found out.
func (r *recovery) originalOf(d *suspect) string {
	if d.unseen {
		return "the original does not notice it"
	}
	if !r.original.known {
		if err := r.findOriginalStarts(); err != nil {
			return ""
		}
	}
	return r.original.wouldDo(d.Phy)
}

func (r *recovery) findOriginalStarts() error {
	queuesEnd := message.PhyOffset(-1)
	r.s.queues.each(func(q *Queue) bool {
		if u, ok := r.lastUnit(q); ok {
			queuesEnd = max(queuesEnd, u.Phy+message.PhyOffset(u.Size))
		}
		return true
	})
	cp, view := &r.lay.checkpoint, &r.probe.view
	var err error
	r.original.clean, err = r.originalFile(func() bool { return view.PhyOffset <= queuesEnd })
	if err != nil {
		return err
	}
	r.original.crash, err = r.originalFile(func() bool {
		if cp.LogicsPhysicalOffset > 0 {
			return view.PhyOffset <= cp.LogicsPhysicalOffset
		}
		return view.StoreTimestamp <= cp.LogicsMsgTimestamp
	})
	r.original.known = err == nil
	return err
}

// originalFile returns the start of the newest file whose first record is good and fits, at most originalFilesBack files back.
func (r *recovery) originalFile(fits func() bool) (message.PhyOffset, error) {
	files := r.s.log.files.Load().files
	for i := len(files) - 1; ; i-- {
		if i == 0 || i == len(files)-originalFilesBack {
			return files[i].start, nil
		}
		v, err := r.probe.look(files[i].start)
		if err != nil {
			return 0, err
		}
		if (v == recordGood || v == recordDamaged && r.probe.unseen) && fits() {
			return files[i].start, nil
		}
	}
}

// tellDamaged is the line of the log about damage: what dump --verify says of it.
func (r *recovery) tellDamaged(d *suspect) {
	line := []any{"position", int64(d.Phy), "bytes", d.Bytes, "reason", d.Reason}
	if f := r.s.log.files.Load().at(d.Phy); f != nil {
		line = append(line, "file", filepath.Base(f.path), "at", int64(d.Phy-f.start))
	}
	if d.isRecord {
		line = append(line, "topic", d.topic, "queue", int32(d.queueID), "offset", int64(d.offset))
	}
	if text := r.originalOf(d); text != "" {
		line = append(line, "original", text)
	}
	r.logger.Warn("damaged part of the log stepped over", line...)
}
