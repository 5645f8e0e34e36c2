package inspect

import "peregrine/internal/message"

// Summary is a directory at a glance.
type Summary struct {
	LogFiles   int
	LogBytes   int64 // that the files are long
	Begin, End message.PhyOffset
	First      *Record // nil in an empty log
	Last       *Record
	Queues     []QueueSummary
}

// QueueSummary is a queue at a glance. Min and Max are what consumers are told: the first offset whose record is still there,
// and one past the last.
type QueueSummary struct {
	Topic    string `json:"topic"`
	Queue    int32  `json:"queue"`
	Files    int    `json:"files"`
	Min      int64  `json:"min"`
	Max      int64  `json:"max"`
	Position int64  `json:"lastPosition"` // of the record of the last unit, -1 without one
}

// Summarize reads the ends of everything, not what lies between.
func (d *Directory) Summarize() (Summary, error) {
	v := d.newVerifier(VerifyOptions{Found: func(Finding) {}})
	defer v.close()
	s := Summary{LogFiles: len(d.Log), Begin: d.MinPhy(), End: d.MinPhy()}
	for _, f := range d.Log {
		s.LogBytes += f.Size
	}
	newest := message.PhyOffset(-1)
	for _, q := range d.Queues {
		line, err := v.summarizeQueue(q)
		if err != nil {
			return s, err
		}
		newest = max(newest, message.PhyOffset(line.Position))
		s.Queues = append(s.Queues, line)
	}
	if err := d.refreshLog(); err != nil {
		return s, err
	}
	if err := d.Records(Place{}, s.Begin, func(r Record) bool {
		s.First = &r
		return false
	}); err != nil {
		return s, err
	}
	return s, v.findEnd(&s, newest)
}

func (v *verifier) summarizeQueue(q *Queue) (QueueSummary, error) {
	line := QueueSummary{Topic: q.Topic, Queue: int32(q.ID), Files: len(q.Files), Position: -1}
	end, err := v.units.end(q)
	if err != nil {
		return line, err
	}
	line.Max = int64(end)
	low, err := v.units.lowerBound(q, v.d.MinPhy(), end)
	if err != nil {
		return line, err
	}
	line.Min = int64(low)
	u, _, err := v.lastUnit(q)
	if err == nil && u.Written() {
		line.Position = int64(u.Phy)
	}
	return line, err
}

// findEnd walks from the newest unit's record, or from the newest file that begins with a record, to the end of the log.
func (v *verifier) findEnd(s *Summary, newest message.PhyOffset) error {
	pos := newest
	verdict, err := v.log.look(max(pos, 0))
	if err != nil {
		return err
	}
	if pos < v.d.MinPhy() || verdict != isGood {
		pos = v.d.MinPhy()
		for i := len(v.d.Log) - 1; i > 0; i-- {
			if verdict, err = v.log.look(message.PhyOffset(v.d.Log[i].Start)); err != nil {
				return err
			}
			if verdict == isGood {
				pos = message.PhyOffset(v.d.Log[i].Start)
				break
			}
		}
	}
	for {
		verdict, err := v.log.look(pos)
		if err != nil {
			return err
		}
		switch verdict {
		case isGood, isDamaged:
			r := v.log.record(v.d, pos, verdict)
			pos += message.PhyOffset(r.Size)
			if verdict == isGood {
				s.Last, s.End = &r, pos
			}
		case isBlank:
			pos = message.PhyOffset(v.log.cur.Start + v.d.SegmentBytes)
			s.End = pos
		default:
			return nil
		}
	}
}
