package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// verdict is what a look at one place of the log gave.
type verdict uint8

const (
	recordGood    verdict = iota
	recordDamaged         // lengths, magic and position are right, the content is not
	recordBlank           // a valid end-of-file mark
	recordNone            // nothing that can be stepped over by its own length
)

// logScanner walks over records with large reads. It belongs to one goroutine.
type logScanner struct {
	fsys     sysio.FS
	table    *fileTable
	checkCRC bool
	block    int // bytes of one read at least, 0: scanBlockBytes
	buf      []byte
	from     message.PhyOffset // buf[:filled] is the log from here on, in one file
	filled   int
	file     sysio.File
	cur      *mappedFile
	view     message.View
	reason   string // why the last verdict was not good
	unseen   bool   // the original does not notice that
}

func (s *logScanner) close() {
	if s.file != nil {
		s.file.Close()
		s.file, s.cur = nil, nil
	}
}

// at returns at least want bytes of the log at phy, fewer at the end of the file.
func (s *logScanner) at(phy message.PhyOffset, want int) ([]byte, error) {
	if s.cur == nil || !s.cur.contains(phy) {
		s.close()
		f := s.table.at(phy)
		if f == nil {
			return nil, nil
		}
		file, err := s.fsys.OpenFile(f.path, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		s.file, s.cur, s.from, s.filled = file, f, phy, 0
	}
	left := int64(s.cur.end() - phy)
	want = int(min(int64(want), left))
	if phy >= s.from && int64(phy-s.from)+int64(want) <= int64(s.filled) {
		return s.buf[phy-s.from : s.filled], nil
	}
	n := min(int64(max(want, s.blockBytes())), left)
	if int64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	s.buf = s.buf[:cap(s.buf)]
	m, err := s.file.ReadAt(s.buf[:n], int64(phy-s.cur.start))
	if err != nil && err != io.EOF {
		return nil, err
	}
	s.from, s.filled = phy, m
	return s.buf[:m], nil
}

func (s *logScanner) blockBytes() int {
	if s.block > 0 {
		return s.block
	}
	return scanBlockBytes
}

// look judges the record at phy. For recordGood and recordDamaged s.view holds it until the next call.
func (s *logScanner) look(phy message.PhyOffset) (verdict, error) {
	s.unseen = false
	b, err := s.at(phy, 4<<10)
	if err != nil {
		return recordNone, err
	}
	err = message.ParseView(b, &s.view)
	if errors.Is(err, message.ErrTornTail) && len(b) >= blankBytes {
		size := int64(int32(binary.BigEndian.Uint32(b)))
		if size <= int64(s.cur.end()-phy) && namesPosition(b, phy) {
			if b, err = s.at(phy, int(size)); err != nil {
				return recordNone, err
			}
			err = message.ParseView(b, &s.view)
		}
	}
	switch {
	case errors.Is(err, message.ErrBlank):
		if message.PhyOffset(s.view.Size) == s.cur.end()-phy {
			return recordBlank, nil
		}
		s.reason, s.unseen = "an end-of-file mark with a wrong length", true // it takes any for the end of the file
		return recordNone, nil
	case err != nil:
		s.reason = err.Error()
		return recordNone, nil
	case s.view.PhyOffset != phy:
		s.reason, s.unseen = fmt.Sprintf("a record that belongs to position %d", s.view.PhyOffset), s.view.CheckCRC()
		return recordNone, nil
	case s.checkCRC && !s.view.CheckCRC():
		s.reason = "the body does not match its CRC"
		return recordDamaged, nil
	case tornProperties(s.view.Properties):
		s.reason, s.unseen = "the properties are torn", true
		return recordDamaged, nil
	}
	return recordGood, nil
}

// tornProperties tells whether a properties text ends in a zero byte, as it does when its last page never reached the disk.
// The CRC covers the body only. No client ends a text like that.
func tornProperties(p []byte) bool { return len(p) > 0 && p[len(p)-1] == 0 }

// scanLog chooses where to begin, walks to the end of the log and returns it.
func (r *recovery) scanLog() (message.PhyOffset, error) {
	l := r.s.log
	table := l.files.Load()
	if len(table.files) == 0 {
		return 0, nil
	}
	sc := &logScanner{fsys: l.fsys, table: table, checkCRC: l.set.checkCRC}
	defer sc.close()
	from, err := r.scanFrom(table)
	if err != nil {
		return 0, err
	}
	r.beginAt(from)
	r.missing = table.last().end()
	r.seen = map[*Queue]seenOffsets{}
	end, err := r.walk(sc, from, table.last().end(), false)
	if err != nil {
		return 0, err
	}
	if r.trust != trustNothing {
		if err := r.walkBackForHoles(sc, from); err != nil {
			return 0, err
		}
	}
	if !r.lay.crashed {
		r.durableTo = end
	}
	switch r.trust {
	case trustCache:
		r.report.RedispatchFrom = r.missing
	case trustNothing:
		r.report.RedispatchFrom = min(r.missing, r.durableTo)
	}
	r.report.RedispatchFrom = min(r.report.RedispatchFrom, end)
	r.report.From = min(r.report.From, end)
	r.report.Checked = r.checked.Load()
	return end, nil
}

// scanFrom returns where the scan begins, and sets durableTo after a crash.
func (r *recovery) scanFrom(table *fileTable) (message.PhyOffset, error) {
	first := table.files[0].start
	if r.trust == trustNothing && (len(r.lay.queues) > 0 || len(table.files) > 1) {
		r.logger.Info("the directory is not as peregrine left it: all records are looked at, once", "why", r.whyScan,
			"from", int64(first), "end", int64(table.last().end()))
	}
	if !r.lay.crashed {
		return first, nil
	}
	from, err := r.crashStart()
	if err != nil {
		return 0, err
	}
	if r.trust == trustCache && r.lay.checkpoint.LogicsPhysicalOffset > from {
		// Every record before that one has its unit. The start of a file is only for those who cannot be sure of the rest.
		v, err := r.probe.look(r.lay.checkpoint.LogicsPhysicalOffset)
		if err != nil {
			return 0, err
		}
		if v == recordGood {
			from = r.lay.checkpoint.LogicsPhysicalOffset
		}
	}
	r.durableTo = from
	if r.trust == trustNothing {
		return first, nil
	}
	return from, nil
}

// crashStart returns where the scan after a crash begins: the newest file whose first record lies at or before the record
// up to which the queues are known to be durable (CommitLog.isMmapFileMatchedRecover, 5.5.0), by its store time when the
// checkpoint is older than that field. The original gives up after ten files and leaves holes; here it is the first file then.
func (r *recovery) crashStart() (message.PhyOffset, error) {
	sc, cp := r.probe, r.lay.checkpoint
	for i := len(sc.table.files) - 1; i > 0; i-- {
		f := sc.table.files[i]
		v, err := sc.look(f.start)
		if err != nil {
			return 0, err
		}
		if v != recordGood {
			continue
		}
		if cp.LogicsPhysicalOffset > 0 {
			if f.start <= cp.LogicsPhysicalOffset {
				return f.start, nil
			}
		} else if sc.view.StoreTimestamp < cp.LogicsMsgTimestamp { // a record of the same millisecond may lie behind it
			return f.start, nil
		}
	}
	return sc.table.files[0].start, nil
}

// walk checks records from from on and returns the end of the last good one, at most limit. Damaged records with good ones
// behind them are stepped over: by their own length when the header is sound, else to where somebody names the next. followed says that
// the log goes on at limit.
func (r *recovery) walk(sc *logScanner, from, limit message.PhyOffset, followed bool) (message.PhyOffset, error) {
	r.order, r.walkFrom = map[*Queue]*queueOrder{}, from
	end, err := r.walkRecords(sc, from, limit, followed)
	if err != nil {
		return 0, err
	}
	return end, r.settleOdds()
}

func (r *recovery) walkRecords(sc *logScanner, from, limit message.PhyOffset, followed bool) (message.PhyOffset, error) {
	end, pos := from, from
	var suspects []suspect // damage since end; kept if a good record follows, else it is the torn end
	good := func() error {
		for i := range suspects {
			if err := r.noteDamaged(&suspects[i]); err != nil {
				return err
			}
		}
		suspects = suspects[:0]
		return nil
	}
	for pos < limit {
		r.at.Store(int64(pos))
		v, err := sc.look(pos)
		if err != nil {
			return 0, err
		}
		switch v {
		case recordGood:
			if err := errors.Join(good(), r.noteRecord(&sc.view)); err != nil {
				return 0, err
			}
			pos += message.PhyOffset(sc.view.Size)
			end = pos
			continue
		case recordBlank:
			pos = sc.cur.end()
			if len(suspects) == 0 {
				end = pos
			}
			continue
		case recordDamaged:
			v := &sc.view
			suspects = append(suspects, suspect{
				DamagedRange: DamagedRange{Phy: pos, Bytes: int64(v.Size), Reason: sc.reason}, isRecord: true, unseen: sc.unseen,
				topic: string(v.Topic), queueID: v.QueueID, offset: v.QueueOffset, sysFlag: v.SysFlag, storeTime: v.StoreTimestamp,
			})
			r.checked.Add(1)
			pos += message.PhyOffset(sc.view.Size)
			continue
		}
		reason, unseen := sc.reason, sc.unseen
		next, err := r.nextGood(sc, pos, limit)
		if err != nil {
			return 0, err
		}
		if next < 0 && !followed {
			return end, nil
		}
		if next < 0 {
			next = limit
		}
		suspects = append(suspects, suspect{DamagedRange: DamagedRange{Phy: pos, Bytes: int64(next - pos), Reason: reason}, unseen: unseen})
		pos = next
	}
	if followed {
		return limit, good()
	}
	return end, nil
}

// nextGood returns where records go on behind a place that cannot be stepped over by its own length: the nearest place that a queue
// entry, an index item or the start of a file names and that holds a good record; -1 if there is none before limit.
func (r *recovery) nextGood(sc *logScanner, pos, limit message.PhyOffset) (message.PhyOffset, error) {
	if again, err := r.nextAsBefore(pos, limit); again >= 0 || err != nil {
		return again, err
	}
	// The end of the log is the usual case: nothing but zeros.
	written, err := r.nextWritten(pos, limit)
	if written < 0 || err != nil {
		return -1, err
	}
	pos = max(pos, written-4) // a record's length begins with zeros
	next, err := r.nextNamed(pos, limit)
	if err != nil {
		return -1, err
	}
	if next >= 0 {
		limit = next
	}
	if loose, err := r.nextLoose(pos, limit); loose >= 0 || err != nil {
		next, limit = loose, loose
		if err != nil {
			return -1, err
		}
	}
	for f := sc.table.at(pos); f != nil && f.end() < limit; f = sc.table.at(f.end()) {
		v, err := r.probe.look(f.end())
		if err != nil {
			return -1, err
		}
		if v == recordGood {
			return f.end(), nil
		}
	}
	return next, nil
}

// nextAsBefore returns where an earlier start found that records go on behind the damage at pos, below limit; -1 if it knew of none.
// What named the place then may have been cut since, and be lost with the power.
func (r *recovery) nextAsBefore(pos, limit message.PhyOffset) (message.PhyOffset, error) {
	known := r.known
	i, found := slices.BinarySearchFunc(known, pos, func(d DamagedRange, pos message.PhyOffset) int { return cmp.Compare(d.Phy, pos) })
	if !found || pos+message.PhyOffset(known[i].Bytes) >= limit {
		return -1, nil
	}
	next := pos + message.PhyOffset(known[i].Bytes)
	if v, err := r.probe.look(next); v != recordGood || err != nil {
		return -1, err
	}
	return next, nil
}

// suspect is a damaged part of the log with nothing good behind it so far.
type suspect struct {
	DamagedRange
	isRecord  bool // lengths, magic and position are right: it has a place in its queue
	unseen    bool // by the original
	topic     string
	queueID   message.QueueID
	offset    message.QueueOffset
	sysFlag   int32
	storeTime message.Millis
}

// noteDamaged keeps what turned out to be damage in the middle of the log. A damaged record is never shown: its queue offset
// is kept by a pre-blank unit, which AppendUnits writes for it, or which takes the place of its unit here.
func (r *recovery) noteDamaged(d *suspect) error {
	r.report.DamagedCount++
	if len(r.report.Damaged) < damagedListMax {
		r.report.Damaged = append(r.report.Damaged, d.DamagedRange)
	}
	if r.told++; r.told <= damagedLinesMax {
		r.tellDamaged(d)
	}
	if !d.isRecord {
		return r.hideRange(d.DamagedRange)
	}
	r.s.damaged[d.Phy] = true
	r.livedOn(d.Phy)
	v := &message.View{Topic: []byte(d.topic), QueueID: d.queueID, QueueOffset: d.offset, SysFlag: d.sysFlag, StoreTimestamp: d.storeTime, PhyOffset: d.Phy}
	if err := r.passInOrder(v); err != nil {
		return err
	}
	q := r.noteQueue(v)
	if q == nil {
		return nil
	}
	if d.offset >= q.Max() {
		r.missing = min(r.missing, d.Phy)
	}
	r.windows.forget(q)
	return r.hideUnit(q, d.offset, d.Phy)
}

// takeRecord takes what a good record tells about its queue: the next offset to give out is at least one more than its own.
func (r *recovery) takeRecord(v *message.View) error {
	q := r.noteQueue(v)
	if q == nil || (r.trust != trustNothing && r.trust != trustCache) {
		return nil
	}
	return r.verify(q, v)
}

// queueOf returns the queue that a record says it is in, nil when it is in none.
func (r *recovery) queueOf(v *message.View) *Queue {
	if !entersQueue(v.SysFlag) {
		return nil
	}
	q := r.s.queues.lookup(v.Topic, v.QueueID)
	if q == nil {
		q = r.s.Queue(string(v.Topic), v.QueueID)
	}
	if v.PhyOffset < q.bornAt {
		return nil // the topic was deleted since
	}
	return q
}

// noteQueue is takeRecord without a look at the unit. It returns the queue, nil when the record is in none.
func (r *recovery) noteQueue(v *message.View) *Queue {
	r.last = max(r.last, v.StoreTimestamp)
	if v.QueueOffset < 0 {
		return nil
	}
	q := r.queueOf(v)
	if q == nil {
		return nil
	}
	if v.QueueOffset >= q.Max() {
		if earlier, err := r.ofEarlierLife(q, v); earlier && err == nil { // verify meets the error again
			return nil
		}
	}
	next := q.Next()
	seen, known := r.seen[q]
	// The header is not covered by the CRC: an offset far off must not take the queue with it.
	if v.QueueOffset-next > preBlankUnitsMax && (known || next > 0) {
		r.logger.Warn("queue offset of a record jumps; ignored", "position", int64(v.PhyOffset), "topic", q.topic, "queue", int32(q.id),
			"offset", int64(v.QueueOffset), "expected", int64(next))
		return nil
	}
	if !known || v.QueueOffset < seen.first {
		seen.first = v.QueueOffset
	}
	seen.next = max(seen.next, v.QueueOffset+1)
	r.seen[q] = seen
	if v.QueueOffset >= next {
		q.next.Store(int64(v.QueueOffset) + 1)
	}
	return q
}

// walkBackForHoles looks at older files as long as a queue lacks units in front of the first one that the scan met: then the
// checkpoint promised more than the queue holds (its folder was deleted, say).
func (r *recovery) walkBackForHoles(sc *logScanner, from message.PhyOffset) error {
	first, checkpoint := sc.table.files[0].start, from
	for from > first && r.anyHole() {
		f := sc.table.at(from - 1)
		r.logger.Warn("a queue lacks entries before the checkpoint; looking further back", "from", int64(f.start))
		if _, err := r.walk(sc, f.start, from, true); err != nil {
			return err
		}
		from = f.start
		r.beginAt(from)
	}
	if from == checkpoint {
		return nil
	}
	// Entries from here on are made anew. Were the process killed before they are durable, the next start would take them for
	// durable because they are there.
	return r.s.checkpoint.lowerTo(from)
}

func (r *recovery) beginAt(from message.PhyOffset) {
	r.report.From, r.report.RedispatchFrom = from, from
	r.from.Store(int64(from))
}

func (r *recovery) anyHole() bool {
	for q, seen := range r.seen {
		if seen.first > q.Max() {
			return true
		}
	}
	return false
}
