package inspect

import (
	"fmt"
	"io"
	"sort"
	"time"

	"peregrine/internal/message"
)

// VerifyOptions says whom to tell.
type VerifyOptions struct {
	// Refused is the sentence with which a start of peregrine refuses the directory, "" when it does not: the store's to say (store.Check).
	Refused string
	// Heads are the records, by position with their lengths, that an earlier start knows for ones with a damaged head (store.DamagedHeads).
	Heads    map[message.PhyOffset]int64
	Found    func(Finding)         // with each finding, in the order they are met; not nil
	Progress func(done, all int64) // bytes of the log, about once a second; may be nil
	Damaged  func(Damage)          // with each damaged part that good records follow, in order; may be nil
	Queue    func(QueueEnd)        // with each queue, at the end; may be nil
	// Hidden is called with each good record whose unit only keeps the offset; may be nil.
	Hidden func(topic string, queue message.QueueID, offset message.QueueOffset)
}

// Report is what a verification counted.
type Report struct {
	Begin    message.PhyOffset `json:"begin"`    // of the log
	End      message.PhyOffset `json:"end"`      // behind the last good record, or where the check ended on a running broker
	Records  int64             `json:"records"`  // good ones
	Damaged  int64             `json:"damaged"`  // records and stretches
	Units    int64             `json:"units"`    // that name their records
	Kept     int64             `json:"kept"`     // units that only keep a queue offset occupied
	Expired  int64             `json:"expired"`  // units and index items of records that were deleted
	Items    int64             `json:"items"`    // index items that fit their records
	Queues   int64             `json:"queues"`   // with units or records
	Findings int64             `json:"findings"` // Fault
	Notes    int64             `json:"notes"`
	Running  bool              `json:"running"` // a broker held the directory
}

// Clean tells whether everything fits.
func (r *Report) Clean() bool { return r.Findings == 0 }

type verifier struct {
	d      *Directory
	o      VerifyOptions
	report Report

	log, peek *logReader
	units     *unitReader
	ext       *extReader
	queues    map[string]map[message.QueueID]*queueState
	listed    []*queueState // those with a directory, then those met in the log only
	index     *indexWalk

	unitsEnd message.PhyOffset // behind the record of the newest unit when the check began; -1 without units
	end      message.PhyOffset // behind the last good record, as far as the walk came
	suspects []suspect         // damage with nothing good behind it so far
	damage   []stretch         // with good records behind it, by position
	late     []lateRecord
	heads    map[message.PhyOffset]bool // reported: see damagedHead
	clean    cut                        // what the original would do after a clean stop
	crash    cut                        // and after a crash
	told     time.Time

	lastStore message.Millis // store time of the last good record; 0 = none met
}

// suspect is a damaged part of the log.
type suspect struct {
	phy    message.PhyOffset
	bytes  int64
	reason string
	unseen bool // by the original
	record bool // the lengths are right: it has a place in its queue
	view   message.View
}

// Verify cross-checks log, queues and index. The error is that of a file that could not be read; what is wrong in the
// directory goes to Found.
func (d *Directory) Verify(o VerifyOptions) (Report, error) {
	v := d.newVerifier(o)
	defer v.close()
	v.report.Running = d.Held
	if o.Refused != "" {
		v.found((&Finding{Level: Fault, Kind: KindRefused, Position: -1}).format("%s: %s", StartRefuses, Printable(o.Refused)))
	}
	for i := range d.Findings {
		v.found(&d.Findings[i])
	}
	err := v.run()
	return v.report, err
}

func (d *Directory) newVerifier(o VerifyOptions) *verifier {
	v := &verifier{d: d, o: o, log: d.newLogReader(scanBlockBytes), peek: d.newLogReader(peekBlockBytes), units: d.newUnitReader(), ext: d.newExtReader(),
		queues: map[string]map[message.QueueID]*queueState{}, told: time.Now(), heads: map[message.PhyOffset]bool{}}
	v.index = newIndexWalk(v)
	return v
}

func (v *verifier) close() {
	v.log.close()
	v.peek.close()
	v.index.close()
}

func (v *verifier) run() error {
	for _, q := range v.d.Queues {
		v.addQueue(&queueState{dir: q, topic: q.Topic, id: q.ID, next: -1})
	}
	if err := v.findUnitsEnd(); err != nil {
		return err
	}
	v.report.Begin = v.d.MinPhy()
	v.clean, v.crash = cut{at: -1}, cut{at: -1}
	var err error
	if v.clean.from, v.crash.from, err = v.d.originalStarts(v.peek, v.unitsEnd); err != nil {
		return err
	}
	pos, err := v.walk()
	if err != nil {
		return err
	}
	if err := v.settleLate(); err != nil {
		return err
	}
	v.report.End = v.end
	if !v.d.Held {
		if err := v.tail(pos); err != nil {
			return err
		}
	}
	v.lostLog()
	for _, q := range v.listed {
		if err := v.finishQueue(q); err != nil {
			return err
		}
		if v.o.Queue != nil {
			v.o.Queue(QueueEnd{q.topic, q.id, q.next, q.dir})
		}
	}
	if err := v.index.finish(); err != nil {
		return err
	}
	v.finishCheckpoint()
	v.tellOriginal()
	return nil
}

// nextStart says what the next start of peregrine does, as the end of a sentence: nothing when there is none.
func (v *verifier) nextStart(does string) string {
	if v.o.Refused != "" {
		return ""
	}
	return "; the next start " + does
}

func (v *verifier) found(f *Finding) {
	if f.Level == Fault {
		v.report.Findings++
	} else {
		v.report.Notes++
	}
	v.o.Found(*f)
}

// findUnitsEnd finds the newest unit of all queues.
func (v *verifier) findUnitsEnd() error {
	v.unitsEnd = -1
	for _, q := range v.d.Queues {
		u, _, err := v.lastUnit(q)
		if err != nil {
			return err
		}
		if u.Written() {
			v.unitsEnd = max(v.unitsEnd, u.Phy+message.PhyOffset(u.Size))
		}
	}
	return v.d.refreshLog()
}

// lastUnit returns the last unit of a queue that names a record, and its offset.
func (v *verifier) lastUnit(q *Queue) (Unit, message.QueueOffset, error) {
	first, _ := q.bounds(v.d)
	end, err := v.units.end(q)
	for off := end - 1; off >= first && err == nil; off-- {
		var u Unit
		if u, err = v.units.at(q, off); err == nil && !u.PreBlank() {
			if u.Written() {
				return u, off, nil
			}
			break
		}
	}
	return Unit{}, first, err
}

// walk goes through the log and returns where it ended.
func (v *verifier) walk() (message.PhyOffset, error) {
	pos := v.d.MinPhy()
	v.end = pos
	for len(v.d.Log) > 0 {
		if v.d.Held && pos >= v.unitsEnd {
			return pos, v.keepSuspects()
		}
		v.progress(pos)
		verdict, err := v.log.look(pos)
		if err != nil {
			return pos, err
		}
		switch verdict {
		case isGood:
			if len(v.suspects) > 0 {
				if err := v.keepSuspects(); err != nil {
					return pos, err
				}
			}
			if err := v.goodRecord(&v.log.view); err != nil {
				return pos, err
			}
			pos += message.PhyOffset(v.log.view.Size)
			v.end = pos
		case isBlank:
			pos = message.PhyOffset(v.log.cur.Start + v.d.SegmentBytes)
			if len(v.suspects) == 0 {
				v.end = pos
			}
		case isDamaged:
			view := v.log.view
			view.Topic, view.Body, view.Properties = append([]byte(nil), view.Topic...), nil, nil
			v.suspect(suspect{phy: pos, bytes: int64(view.Size), reason: v.log.reason, unseen: v.log.unseen, record: true, view: view})
			pos += message.PhyOffset(view.Size)
		case isGone:
			if err := v.d.refreshLog(); err != nil {
				return pos, err
			}
			next := v.d.nextLogFile(pos)
			if next == nil {
				return pos, nil
			}
			if v.d.Held {
				v.found((&Finding{Level: Note, Kind: KindRetention, Position: int64(pos)}).format("the file of this position was deleted meanwhile"))
			}
			pos = message.PhyOffset(next.Start)
		case isNothing:
			reason, unseen := v.log.reason, v.log.unseen
			next, ok, err := v.resume(pos)
			if err != nil || !ok {
				return pos, err
			}
			v.suspect(suspect{phy: pos, bytes: int64(next - pos), reason: reason, unseen: unseen})
			pos = next
		}
	}
	return pos, nil
}

func (v *verifier) suspect(s suspect) {
	if len(v.suspects) == suspectsMax { // the last one takes it in
		last := &v.suspects[suspectsMax-1]
		last.record, last.bytes = false, int64(s.phy-last.phy)+s.bytes
		return
	}
	v.suspects = append(v.suspects, s)
}

// keepSuspects reports damage in the middle of the log: good records follow.
func (v *verifier) keepSuspects() error {
	for i := range v.suspects {
		s := &v.suspects[i]
		v.report.Damaged++
		v.noteDamage(s)
		v.tellDamage(s)
		f := v.d.place(&Finding{Level: Fault, Kind: KindLogDamaged, Count: s.bytes}, s.phy)
		if s.record {
			id, off := int32(s.view.QueueID), int64(s.view.QueueOffset)
			f.Kind, f.Topic, f.Queue, f.Offset = KindRecord, string(s.view.Topic), &id, &off
		}
		f.format("%d bytes, stepped over: %s", s.bytes, s.reason)
		if s.unseen {
			f.Original = "the original does not notice it"
		} else {
			v.clean.meet(s.phy, s.reason)
			v.crash.meet(s.phy, s.reason)
			switch {
			case s.phy >= v.clean.from:
				f.Original = "every start of the original cuts the log here"
			case s.phy >= v.crash.from:
				f.Original = "a start of the original after a crash cuts the log here; after a clean stop it serves the record as it is"
			default:
				f.Original = "no start of the original looks here; it serves the record as it is"
			}
		}
		v.found(f)
		if s.record {
			if err := v.claim(&s.view, true); err != nil {
				return err
			}
			if err := v.index.skip(s.phy); err != nil {
				return err
			}
		}
	}
	v.suspects = v.suspects[:0]
	return nil
}

// stretch is a damaged part of the log.
type stretch struct{ from, end message.PhyOffset }

// noteDamage keeps where it is. When there is no room for more the last one reaches as far.
func (v *verifier) noteDamage(s *suspect) {
	end := s.phy + message.PhyOffset(s.bytes)
	if len(v.damage) == stretchesMax {
		v.damage[stretchesMax-1].end = end
		return
	}
	v.damage = append(v.damage, stretch{s.phy, end})
}

// inDamage tells whether a position lies in a damaged part of the log, as far as the walk came.
func (v *verifier) inDamage(phy message.PhyOffset) bool {
	i := sort.Search(len(v.damage), func(i int) bool { return v.damage[i].end > phy })
	return i < len(v.damage) && phy >= v.damage[i].from
}

func (v *verifier) goodRecord(view *message.View) error {
	v.report.Records++
	v.lastStore = view.StoreTimestamp
	if v.clean.at >= 0 {
		v.clean.lost++
	}
	if v.crash.at >= 0 {
		v.crash.lost++
	}
	if v.o.Heads[view.PhyOffset] == int64(view.Size) && !view.IsFiller() {
		v.damagedHead(view, nil, 0)
		return v.index.skip(view.PhyOffset)
	}
	if err := v.claim(view, false); err != nil {
		return err
	}
	return v.index.record(view)
}

func (v *verifier) progress(pos message.PhyOffset) {
	if v.o.Progress == nil || v.report.Records&0x3FF != 0 {
		return
	}
	if now := time.Now(); now.Sub(v.told) >= progressInterval {
		v.told = now
		v.o.Progress(int64(pos-v.d.MinPhy()), int64(len(v.d.Log))*v.d.SegmentBytes)
	}
}

// tail says what stands behind the last good record of a directory at rest.
func (v *verifier) tail(pos message.PhyOffset) error {
	cuts := v.nextStart("cuts it")
	for i := range v.suspects {
		s := &v.suspects[i]
		f := v.d.place(&Finding{Level: Fault, Kind: KindLogTail, Count: s.bytes}, s.phy)
		if s.record {
			id, off := int32(s.view.QueueID), int64(s.view.QueueOffset)
			f.Topic, f.Queue, f.Offset = string(s.view.Topic), &id, &off
		}
		f.format("%d bytes, nothing good follows: %s%s", s.bytes, s.reason, cuts)
		if s.unseen {
			f.Original = "the original serves it"
		}
		v.found(f)
	}
	verdict, err := v.peek.look(pos)
	if err != nil || verdict == isGone {
		return err
	}
	if verdict == isNothing && !v.peek.zero {
		f := v.d.place(&Finding{Level: Fault, Kind: KindLogTail}, pos).format("behind the last record: %s%s", v.peek.reason, cuts)
		if v.peek.stale {
			f.Original = "the original takes it for a part of the log: its end moves behind it"
		}
		v.found(f)
	} else if at, err := v.firstByte(pos); err != nil {
		return err
	} else if at >= 0 {
		v.found(v.d.place(&Finding{Level: Fault, Kind: KindLogTail}, at).format("bytes behind the end of the log, which is at %d%s", pos, cuts))
	}
	for f := v.d.nextLogFile(pos); f != nil; f = v.d.nextLogFile(message.PhyOffset(f.Start)) {
		if verdict, err = v.peek.look(message.PhyOffset(f.Start)); err != nil {
			return err
		}
		if verdict != isGone && !v.peek.zero {
			v.found(v.d.place(&Finding{Level: Fault, Kind: KindLogTail}, message.PhyOffset(f.Start)).format(
				"a file behind the end of the log, which is at %d, is not empty: %s", pos, v.peek.reason))
		}
	}
	return nil
}

// firstByte returns where in the file of pos, at or behind it, something stands; -1 when nothing does.
func (v *verifier) firstByte(pos message.PhyOffset) (message.PhyOffset, error) {
	f := v.d.logFile(pos)
	buf := make([]byte, 1<<20)
	for at := int64(pos) - f.Start; at < v.d.SegmentBytes; {
		n, err := v.d.readFile(f.Path, buf[:min(int64(len(buf)), v.d.SegmentBytes-at)], at)
		for i, b := range buf[:n] {
			if b != 0 {
				return message.PhyOffset(f.Start + at + int64(i)), nil
			}
		}
		at += int64(n)
		if err == io.EOF || n == 0 {
			break
		}
		if err != nil {
			return -1, err
		}
	}
	return -1, nil
}

// lostLog tells of queues whose whole log is missing.
func (v *verifier) lostLog() {
	if v.d.Held || v.report.Records > 0 || v.report.Damaged > 0 || len(v.suspects) > 0 || v.unitsEnd <= v.report.Begin {
		return
	}
	f := &Finding{Level: Fault, Kind: KindLogFile, File: v.d.relative(v.d.opts.LogDir), Position: int64(v.report.Begin)}
	f.Original = "a start of the original deletes all queues or cuts them to nothing"
	v.found(f.format("the log holds no record, queues name records up to %d: bring its files back; a start is refused unless all says that nothing was ever synced", v.unitsEnd))
}

func (v *verifier) finishCheckpoint() {
	cp := &v.d.Checkpoint
	if !v.d.Held && cp.LogicsPhysicalOffset > v.end {
		v.found((&Finding{Level: Fault, Kind: KindCheckpoint, File: "checkpoint", At: 40, Position: int64(cp.LogicsPhysicalOffset)}).format(
			"logicsPhysicalOffset lies behind the end of the log, %d", v.end))
	}
}

// tellOriginal says what moving the directory to the original would cost.
func (v *verifier) tellOriginal() {
	for i, c := range []*cut{&v.clean, &v.crash} {
		if c.at < 0 || c.lost == 0 {
			continue
		}
		f := v.d.place(&Finding{Level: Note, Kind: KindOriginal, Count: c.lost}, c.at)
		start := "a clean stop (no abort file)"
		if i == 1 {
			start = "a crash (an abort file)"
		}
		if v.d.Abort == (i == 1) {
			start += ", its next one here,"
			f.Level = Fault
		}
		v.found(f.format("a start of the original after %s begins at %d and cuts the log at %d (%s): %d good records behind it are lost", start, c.from, c.at, c.why, c.lost))
	}
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}
