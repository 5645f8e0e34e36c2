package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// savedState is the content of peregrine's own state file, <root>/peregrine.state, which the original neither knows nor minds.
//
// A clean stop writes a complete one: what the directory was like at the end. While it still is like that, a start needs no
// look at the log. A running store writes another kind: the boot, the run that the lock file names, and how far each queue is durable at
// least. After a crash that tells whether the page cache survived, and whether a queue lacks what it once had.
//
// Everything is big-endian; texts have an i32 length before them:
//
//	i64 magic and version   i64 1 = running   text boot id   i64 run number
//	i64 first position of the log   i64 end of the log   i64 CRC-32C of the bytes before the end   i64 newest store time
//	i64 file size of the log   i64 file size of queues   48 bytes checkpoint
//	i64 damaged places   i64 listed ones: i64 position, i64 bytes, text reason
//	i64 queues: text topic, i64 id, i64 start of its oldest file (-1: none), i64 min, max, next, 20 bytes its last unit
//	i64 CRC-32C of everything before
type savedState struct {
	running                      bool
	boot                         string
	run                          uint64 // 0: it speaks for no run, see chooseTrust
	minPhy, end                  message.PhyOffset
	tail                         uint32
	lastStore                    message.Millis
	segmentBytes, queueFileBytes int64
	checkpoint                   checkpointFields
	damagedCount                 int64
	damaged                      []DamagedRange
	queues                       []savedQueue
}

// savedQueue is a queue in the state file. Of a running store max is what is durable, and last is not filled in.
type savedQueue struct {
	topic          string
	id             message.QueueID
	firstFile      int64
	min, max, next message.QueueOffset
	last           Unit // the unit at max-1
}

const (
	stateName  = "peregrine.state"
	stateMagic = 0x50455245_47520001 // "PEREGR", version 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errStateFile = errors.New("not a state file of this version, or damaged")

func (st *savedState) encode() []byte {
	b := make([]byte, 0, 256+len(st.queues)*96)
	num := func(values ...int64) {
		for _, v := range values {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
	}
	text := func(s string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	running := int64(0)
	if st.running {
		running = 1
	}
	num(stateMagic, running)
	text(st.boot)
	num(int64(st.run), int64(st.minPhy), int64(st.end), int64(st.tail), int64(st.lastStore), st.segmentBytes, st.queueFileBytes)
	var cp [checkpointUsed]byte
	st.checkpoint.encode(cp[:])
	b = append(b, cp[:]...)
	num(st.damagedCount, int64(len(st.damaged)))
	for _, d := range st.damaged {
		num(int64(d.Phy), d.Bytes)
		text(d.Reason)
	}
	num(int64(len(st.queues)))
	for i := range st.queues {
		q := &st.queues[i]
		text(q.topic)
		num(int64(q.id), q.firstFile, int64(q.min), int64(q.max), int64(q.next))
		var unit [unitBytes]byte
		encodeUnit(unit[:], q.last)
		b = append(b, unit[:]...)
	}
	num(int64(crc32.Checksum(b, castagnoli)))
	return b
}

// stateReader takes values off the front of a state file. Once something is missing, everything is zero.
type stateReader struct {
	b     []byte
	short bool
}

func (r *stateReader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) {
		r.short, r.b = true, nil
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *stateReader) num() int64 {
	if b := r.bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *stateReader) text() string {
	if b := r.bytes(4); b != nil {
		return string(r.bytes(int64(binary.BigEndian.Uint32(b))))
	}
	return ""
}

func decodeState(b []byte) (*savedState, error) {
	if len(b) < 16 || binary.BigEndian.Uint64(b) != stateMagic {
		return nil, errStateFile
	}
	body := b[:len(b)-8]
	if binary.BigEndian.Uint64(b[len(body):]) != uint64(crc32.Checksum(body, castagnoli)) {
		return nil, errStateFile
	}
	r := &stateReader{b: body[8:]}
	st := &savedState{running: r.num() == 1, boot: r.text(), run: uint64(r.num())}
	st.minPhy, st.end, st.tail, st.lastStore = message.PhyOffset(r.num()), message.PhyOffset(r.num()), uint32(r.num()), message.Millis(r.num())
	st.segmentBytes, st.queueFileBytes = r.num(), r.num()
	if cp := r.bytes(checkpointUsed); cp != nil {
		st.checkpoint = decodeCheckpoint(cp)
	}
	st.damagedCount = r.num()
	for n := r.num(); n > 0 && !r.short; n-- {
		st.damaged = append(st.damaged, DamagedRange{Phy: message.PhyOffset(r.num()), Bytes: r.num(), Reason: r.text()})
	}
	for n := r.num(); n > 0 && !r.short; n-- {
		q := savedQueue{topic: r.text(), id: message.QueueID(r.num()), firstFile: r.num()}
		q.min, q.max, q.next = message.QueueOffset(r.num()), message.QueueOffset(r.num()), message.QueueOffset(r.num())
		if unit := r.bytes(unitBytes); unit != nil {
			q.last = decodeUnit(unit)
		}
		st.queues = append(st.queues, q)
	}
	if r.short || len(r.b) != 0 {
		return nil, errStateFile
	}
	return st, nil
}

// readState returns nil without an error when there is no state file.
func readState(fsys sysio.FS, root string) (*savedState, error) {
	path := filepath.Join(root, stateName)
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size > stateBytesMax {
		return nil, fmt.Errorf("%s has %d bytes: %w", path, info.Size, errStateFile)
	}
	b, err := sysio.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	st, err := decodeState(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return st, nil
}

// bootID returns the boot of the file system's machine, "" when it is not known: then no page cache is trusted.
func bootID(fsys sysio.FS) string {
	if f, ok := fsys.(interface{ BootID() (string, error) }); ok {
		if id, err := f.BootID(); err == nil {
			return id
		}
	}
	return ""
}

// stateOf collects what the state file says about the store now.
func (s *Store) stateOf(running bool) (*savedState, error) {
	st := &savedState{
		running: running, boot: bootID(s.fsys), run: s.run,
		minPhy: s.log.MinPhy(), end: s.log.Wrote(), lastStore: message.Millis(s.log.storeTime.Load()),
		segmentBytes: s.set.segmentBytes, queueFileBytes: s.set.queueFileBytes,
		checkpoint: s.checkpoint.now(), damagedCount: s.report.DamagedCount, damaged: s.report.Damaged,
	}
	if s.DamageNoted() > 0 {
		st.running, st.run = true, 0
	}
	var err error
	s.queues.each(func(q *Queue) bool {
		var saved savedQueue
		if saved, err = q.saved(running); err == nil {
			st.queues = append(st.queues, saved)
		}
		return err == nil
	})
	if err == nil && !running {
		st.tail, err = tailSum(s.fsys, s.log.files.Load(), st.end)
	}
	return st, err
}

func (q *Queue) saved(running bool) (savedQueue, error) {
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	saved := savedQueue{topic: q.topic, id: q.id, firstFile: q.firstFile, min: q.Min(), max: q.Max(), next: q.Next()}
	if running {
		saved.max = min(q.synced, saved.max)
		return saved, nil
	}
	if q.firstFile < 0 || int64(saved.max)*unitBytes <= q.firstFile {
		return saved, nil
	}
	var one [1]Unit
	_, err := q.readUnits(one[:], saved.max-1, saved.max)
	saved.last = one[0]
	return saved, err
}

// saveDamaged writes down what was stepped over before anything is cut that led there: if the machine goes down in the middle of
// this, the next start knows. The rest of the file stays as it is; without one that speaks for this directory, the new one speaks for
// no run at all.
func (r *recovery) saveDamaged() {
	if slices.Equal(r.report.Damaged, r.known) && !r.lay.deletedLost {
		return
	}
	st := &savedState{running: true}
	if r.saved != nil {
		copied := *r.saved
		copied.queues = r.withNext(copied.queues)
		st = &copied
	}
	st.damagedCount, st.damaged = r.report.DamagedCount, r.report.Damaged
	path := filepath.Join(r.s.set.root, stateName)
	if err := sysio.AtomicWriteFile(r.s.fsys, path, st.encode(), false); err != nil {
		r.logger.Warn("the state file cannot be written; should this start not come to its end, the next one may find less", "file", path, "error", err)
	}
}

// withNext returns what the state file says of queues with the next offsets that the walk has found: once their units are cut nobody knows those
// of damaged heads, see keepNext.
func (r *recovery) withNext(saved []savedQueue) []savedQueue {
	all := slices.Clone(saved)
	there := make(map[*Queue]bool, len(all))
	for i := range all {
		if q := r.s.queues.lookup([]byte(all[i].topic), all[i].id); q != nil {
			all[i].next = max(all[i].next, q.Next())
			there[q] = true
		}
	}
	r.s.queues.each(func(q *Queue) bool {
		if !there[q] {
			all = append(all, savedQueue{topic: q.topic, id: q.id, firstFile: -1, next: q.Next()})
		}
		return true
	})
	return all
}

// tailSum is the checksum of the last bytes before the end of the log, without the zeros there: those behind the mark of a file's end
// would tell nothing. Records hold their time and position, so two ends with equal sums are the same end.
func tailSum(fsys sysio.FS, table *fileTable, end message.PhyOffset) (uint32, error) {
	f := table.at(end - 1)
	if f == nil {
		return 0, nil
	}
	file, err := fsys.OpenFile(f.path, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	at, buf := int64(end-f.start), make([]byte, stateTailBytes)
	for used := 0; at > 0 && used == 0; at += int64(used) {
		n := min(at, stateTailBytes)
		at -= n
		if _, err := file.ReadAt(buf[:n], at); err != nil {
			return 0, err
		}
		used = withoutZeros(buf[:n])
	}
	buf = buf[:min(at, stateTailBytes)]
	if _, err := file.ReadAt(buf, at-int64(len(buf))); err != nil {
		return 0, err
	}
	return crc32.Checksum(buf, castagnoli), nil
}

// saveState replaces the state file. It is an aid, not a need: when it cannot be written, an older one must not speak for
// this run, and the next start looks at more.
func (s *Store) saveState(running bool) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.saveStateLocked(running)
}

// saveStateNowAndThen is saveState of a running store, not more often than every stateInterval.
func (s *Store) saveStateNowAndThen() {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if now := time.Now(); now.Sub(s.lastState) >= stateInterval {
		s.lastState = now
		s.saveStateLocked(true)
	}
}

func (s *Store) saveStateLocked(running bool) {
	path := filepath.Join(s.set.root, stateName)
	st, err := s.stateOf(running)
	if err == nil {
		err = sysio.AtomicWriteFile(s.fsys, path, st.encode(), false)
	}
	if err == nil {
		return
	}
	s.logger.Warn("the state file cannot be written; the next start will take longer", "file", path, "error", err)
	if err := s.fsys.Remove(path); err == nil {
		_ = s.fsys.SyncDir(s.set.root)
	}
}
