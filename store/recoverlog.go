package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

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
	buf      []byte
	from     message.PhyOffset // buf[:filled] is the log from here on, in one file
	filled   int
	file     sysio.File
	cur      *mappedFile
	view     message.View
	reason   string // why the last verdict was not good
}

func (s *logScanner) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
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
	n := min(int64(max(want, scanBlockBytes)), left)
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

// look judges the record at phy. For recordGood and recordDamaged s.view holds it until the next call.
func (s *logScanner) look(phy message.PhyOffset) (verdict, error) {
	b, err := s.at(phy, 4<<10)
	if err != nil {
		return recordNone, err
	}
	err = message.ParseView(b, &s.view)
	if errors.Is(err, message.ErrTornTail) && len(b) >= blankBytes {
		size := int64(int32(binary.BigEndian.Uint32(b)))
		if size <= int64(s.cur.end()-phy) && s.headerNames(b, phy) {
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
		s.reason = "an end-of-file mark with a wrong length"
		return recordNone, nil
	case err != nil:
		s.reason = err.Error()
		return recordNone, nil
	case s.view.PhyOffset != phy:
		s.reason = fmt.Sprintf("a record that belongs to position %d", s.view.PhyOffset)
		return recordNone, nil
	case s.checkCRC && !s.view.CheckCRC():
		s.reason = "the body does not match its CRC"
		return recordDamaged, nil
	case tornProperties(s.view.Properties):
		s.reason = "the properties are torn"
		return recordDamaged, nil
	}
	return recordGood, nil
}

// headerNames tells whether the first bytes of a record claim this position: only then is a record larger than one block
// read as a whole, so that a damaged length does not cost memory.
func (s *logScanner) headerNames(b []byte, phy message.PhyOffset) bool {
	const phyField = 28
	return len(b) >= phyField+8 && message.PhyOffset(binary.BigEndian.Uint64(b[phyField:])) == phy
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
	var from message.PhyOffset
	var err error
	if r.lay.crashed {
		from, err = r.crashStart(sc)
	} else {
		from, err = r.cleanStart(sc)
	}
	if err != nil {
		return 0, err
	}
	r.beginAt(from)
	r.seen = map[*Queue]seenOffsets{}
	end, err := r.walk(sc, from, table.last().end())
	if err != nil {
		return 0, err
	}
	if r.lay.crashed {
		if err := r.walkBackForHoles(sc, from); err != nil {
			return 0, err
		}
	}
	r.report.RedispatchFrom = min(r.report.RedispatchFrom, end)
	r.report.From = min(r.report.From, end)
	r.report.Checked = r.checked.Load()
	return end, nil
}

// cleanStart returns where the scan after a clean stop begins: at the record of the newest queue entry, for nothing but
// records without entries follows it; the entry itself is skipped by dispatch. Without a usable entry it is the start of the
// newest file whose first record is not newer than the entries (at most all of them; store.md 7.2 with >=).
func (r *recovery) cleanStart(sc *logScanner) (message.PhyOffset, error) {
	newest := r.newestUnit()
	if newest >= sc.table.files[0].start && sc.table.at(newest) != nil {
		v, err := sc.look(newest)
		if err != nil {
			return 0, err
		}
		if v == recordGood {
			return newest, nil
		}
	}
	for i := len(sc.table.files) - 1; i > 0; i-- {
		f := sc.table.files[i]
		if f.start > newest {
			continue
		}
		v, err := sc.look(f.start)
		if err != nil {
			return 0, err
		}
		if v == recordGood {
			return f.start, nil
		}
	}
	return sc.table.files[0].start, nil
}

// crashStart returns where the scan after a crash begins: the newest file whose first record lies at or before the record
// up to which the queues are known to be durable (CommitLog.isMmapFileMatchedRecover, 5.5.0), by its store time when the
// checkpoint is older than that field. The original gives up after ten files and leaves holes; here it is the first file then.
func (r *recovery) crashStart(sc *logScanner) (message.PhyOffset, error) {
	cp := r.lay.checkpoint
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
		} else if cp.LogicsMsgTimestamp > 0 && sc.view.StoreTimestamp <= cp.LogicsMsgTimestamp {
			return f.start, nil
		}
	}
	return sc.table.files[0].start, nil
}

// walk checks records from from on and returns the end of the last good one, at most limit. Damaged records with good ones
// behind them are stepped over: by their own length when the header is sound, else to the next file.
func (r *recovery) walk(sc *logScanner, from, limit message.PhyOffset) (message.PhyOffset, error) {
	end, pos := from, from
	var suspects []suspect // damage since end; kept if a good record follows, else it is the torn end
	good := func() {
		for i := range suspects {
			r.noteDamaged(&suspects[i])
		}
		suspects = suspects[:0]
	}
	for pos < limit {
		r.at.Store(int64(pos))
		v, err := sc.look(pos)
		if err != nil {
			return 0, err
		}
		switch v {
		case recordGood:
			good()
			r.noteRecord(&sc.view)
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
				DamagedRange: DamagedRange{Phy: pos, Bytes: int64(v.Size), Reason: sc.reason}, isRecord: true,
				topic: string(v.Topic), queueID: v.QueueID, offset: v.QueueOffset, sysFlag: v.SysFlag, storeTime: v.StoreTimestamp,
			})
			r.checked.Add(1)
			pos += message.PhyOffset(sc.view.Size)
			continue
		}
		reason := sc.reason
		f := sc.table.at(pos)
		if f == nil || sc.table.at(f.end()) == nil || f.end() >= limit {
			return end, nil
		}
		if v, err = sc.look(f.end()); err != nil {
			return 0, err
		}
		if v != recordGood {
			return end, nil
		}
		suspects = append(suspects, suspect{DamagedRange: DamagedRange{Phy: pos, Bytes: int64(f.end() - pos), Reason: reason}})
		pos = f.end()
	}
	return end, nil
}

// suspect is a damaged part of the log with nothing good behind it so far.
type suspect struct {
	DamagedRange
	isRecord  bool // lengths, magic and position are right: it has a place in its queue
	topic     string
	queueID   message.QueueID
	offset    message.QueueOffset
	sysFlag   int32
	storeTime message.Millis
}

// noteDamaged keeps what turned out to be damage in the middle of the log. A damaged record is never shown: its queue offset
// is kept by a pre-blank unit, which AppendUnits writes for it, or which takes the place of its unit here.
func (r *recovery) noteDamaged(d *suspect) {
	r.report.DamagedCount++
	if len(r.report.Damaged) < damagedListMax {
		r.report.Damaged = append(r.report.Damaged, d.DamagedRange)
	}
	if r.report.DamagedCount <= damagedLinesMax {
		r.logger.Warn("damaged part of the log stepped over", "position", int64(d.Phy), "bytes", d.Bytes, "reason", d.Reason)
	}
	if !d.isRecord {
		return
	}
	r.s.damaged[d.Phy] = true
	r.noteRecord(&message.View{Topic: []byte(d.topic), QueueID: d.queueID, QueueOffset: d.offset, SysFlag: d.sysFlag, StoreTimestamp: d.storeTime, PhyOffset: d.Phy})
	if q := r.s.queues.lookup([]byte(d.topic), d.queueID); q != nil && entersQueue(d.sysFlag) {
		if err := r.hideUnit(q, d.offset, d.Phy); err != nil {
			r.logger.Warn("take a damaged record out of its queue", "topic", q.topic, "queue", int32(q.id), "offset", int64(d.offset), "error", err)
		}
	}
}

// noteRecord takes what a good record tells about its queue: the next offset to give out is at least one more than its own.
func (r *recovery) noteRecord(v *message.View) {
	r.checked.Add(1)
	r.last = max(r.last, v.StoreTimestamp)
	if !entersQueue(v.SysFlag) || v.QueueOffset < 0 {
		return
	}
	q := r.s.queues.lookup(v.Topic, v.QueueID)
	if q == nil {
		q = r.s.Queue(string(v.Topic), v.QueueID)
	}
	next := q.Next()
	seen, known := r.seen[q]
	// The header is not covered by the CRC: an offset far off must not take the queue with it.
	if v.QueueOffset-next > preBlankUnitsMax && (known || next > 0) {
		r.logger.Warn("queue offset of a record jumps; ignored", "position", int64(v.PhyOffset), "topic", q.topic, "queue", int32(q.id),
			"offset", int64(v.QueueOffset), "expected", int64(next))
		return
	}
	if !known || v.QueueOffset < seen.first {
		seen.first = v.QueueOffset
	}
	seen.next = max(seen.next, v.QueueOffset+1)
	r.seen[q] = seen
	if v.QueueOffset >= next {
		q.next.Store(int64(v.QueueOffset) + 1)
	}
}

// walkBackForHoles looks at older files as long as a queue lacks units in front of the first one that the scan met: then the
// checkpoint promised more than the queue holds (its folder was deleted, say).
func (r *recovery) walkBackForHoles(sc *logScanner, from message.PhyOffset) error {
	first, checkpoint := sc.table.files[0].start, from
	for from > first && r.anyHole() {
		f := sc.table.at(from - 1)
		r.logger.Warn("a queue lacks entries before the checkpoint; looking further back", "from", int64(f.start))
		if _, err := r.walk(sc, f.start, from); err != nil {
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
