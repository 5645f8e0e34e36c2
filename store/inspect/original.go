package inspect

import (
	"peregrine/internal/message"
)

// originalStarts returns where the recovery of the original (5.5.0) would begin to scan: after a clean stop in the newest file
// whose first record is good and not behind the queues (CommitLog.recoverNormally), after a crash in the newest one that the
// checkpoint covers (isMmapFileMatchedRecover); at most ten files back in both cases.
func (d *Directory) originalStarts(peek *logReader, queuesEnd message.PhyOffset) (clean, crash message.PhyOffset, err error) {
	find := func(fits func() bool) (message.PhyOffset, error) {
		for i := len(d.Log) - 1; ; i-- {
			start := message.PhyOffset(d.Log[i].Start)
			if i == 0 || i == len(d.Log)-originalFilesBack {
				return start, nil
			}
			v, err := peek.look(start)
			if err != nil {
				return 0, err
			}
			if (v == isGood || v == isDamaged && peek.unseen) && fits() {
				return start, nil
			}
		}
	}
	if len(d.Log) == 0 {
		return 0, 0, nil
	}
	if clean, err = find(func() bool { return peek.view.PhyOffset <= queuesEnd }); err != nil {
		return 0, 0, err
	}
	cp := &d.Checkpoint
	crash, err = find(func() bool {
		if cp.LogicsPhysicalOffset > 0 {
			return peek.view.PhyOffset <= cp.LogicsPhysicalOffset
		}
		return peek.view.StoreTimestamp <= cp.LogicsMsgTimestamp
	})
	return clean, crash, err
}

// cut is where one kind of start of the original would cut the log.
type cut struct {
	from message.PhyOffset // its scan begins here
	at   message.PhyOffset // -1 = nowhere
	why  string
	lost int64 // good records behind it
}

// meet notes damage that the original notices.
func (c *cut) meet(at message.PhyOffset, why string) {
	if c.at < 0 && at >= c.from {
		c.at, c.why = at, why
	}
}
