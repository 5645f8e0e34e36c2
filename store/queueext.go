package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"peregrine/internal/message"
)

// queueExt is what a queue knows of its files in consumequeue_ext. Readers need nothing of it: a ConsumeQueue unit names its ext
// unit by position. All but goneBelow is under Queue.writeMu.
//
// What lies behind the ext unit that the queue's newest one names is nobody's: a crash, or a queue that was cut, leaves it. It is
// cleared before the first unit of a run is written, since the original walks over ext files from unit to unit.
type queueExt struct {
	opened   bool
	end      int64 // where the next unit goes, once it is opened
	dirty    span  // written and not synced
	newNames bool  // a file or folder was made or deleted since the last sync
	failing  bool  // the last write failed, which was said

	// goneBelow publishes up to which byte files were deleted: no descriptor of them may stay in the cache.
	goneBelow atomic.Int64
}

// span is a range of bytes.
type span struct{ from, to int64 }

func (s *span) add(from, to int64) {
	if s.from == s.to {
		*s = span{from, to}
	} else if from < to {
		s.from, s.to = min(s.from, from), max(s.to, to)
	}
}

// extBatch is the memory that units get their addresses in.
type extBatch struct {
	units  []Unit
	buf    []byte
	prefix [message.StoreTimePrefixBytes]byte // of a record
	end    int64                              // behind the last ext unit
}

type extBatchPool struct{ pool sync.Pool }

func newExtBatchPool() *extBatchPool {
	return &extBatchPool{sync.Pool{New: func() any { return new(extBatch) }}}
}

func (p *extBatchPool) get() *extBatch  { return p.pool.Get().(*extBatch) }
func (p *extBatchPool) put(b *extBatch) { p.pool.Put(b) }

// writeExt writes an ext unit for each of the units and returns, in b, what goes to the ConsumeQueue: addresses in the place of tags
// codes (ConsumeQueue.putMessagePositionInfoWrapper, 5.5.0). The files' end is b.end once the ConsumeQueue is written: what a
// failed append leaves is written over. A unit whose record is gone already, or that the address space has no room for, keeps
// its tags code. The caller holds writeMu.
//
// hot: 0 allocs once b has grown.
func (q *Queue) writeExt(units []Unit, b *extBatch) ([]Unit, error) {
	if !q.ext.opened {
		if err := q.openExt(); err != nil {
			return nil, err
		}
	}
	b.units, b.buf = append(b.units[:0], units...), b.buf[:0]
	fileBytes := q.store.set.extFileBytes
	from, at := q.ext.end, q.ext.end // b.buf goes to from, the next unit to at
	for i := range b.units {
		u := &b.units[i]
		if u.Hidden() || !u.valid() {
			continue
		}
		stored, ok := q.store.storeTime(u, b.prefix[:])
		if !ok || at > extPositionMax {
			continue
		}
		if at%fileBytes+extUnitBytes+extBlankBytes > fileBytes {
			b.buf = append(b.buf, 0xff, 0xff) // -1 ends a file
			if err := q.writeExtAt(from, b.buf); err != nil {
				return nil, err
			}
			at += fileBytes - at%fileBytes
			from, b.buf = at, b.buf[:0]
		}
		n := len(b.buf)
		b.buf = slices.Grow(b.buf, extUnitBytes)[:n+extUnitBytes]
		encodeExt(b.buf[n:], u.Tags, stored)
		u.Tags = extAddress(at)
		at += extUnitBytes
	}
	b.end = at
	return b.units, q.writeExtAt(from, b.buf)
}

// storeTime reads the store time of the record that a unit names, through prefix; false when it is not in the log any more.
func (s *Store) storeTime(u *Unit, prefix []byte) (message.Millis, bool) {
	n := min(int(u.Size), len(prefix))
	if b := s.Slice(u.Phy, n); b != nil {
		return message.StoreTimeOf(b)
	}
	n, err := s.ReadAt(prefix[:n], u.Phy)
	if err != nil {
		return 0, false
	}
	return message.StoreTimeOf(prefix[:n])
}

// extFailed is told of a failed write: the units go out with their tags codes, as in the original.
func (q *Queue) extFailed(err error) {
	if !q.ext.failing {
		q.store.logger.Warn("ext units cannot be written; the queue's entries hold their tags codes instead", "topic", q.topic, "queue", int32(q.id), "error", err)
	}
	q.ext.failing = true
}

// writeExtAt writes into one file.
func (q *Queue) writeExtAt(pos int64, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	key := q.extKey(pos)
	q.ext.dirty.add(pos, pos+int64(len(p)))
	return q.writeTo(key, pos-key.start, p)
}

// openExt finds the end of the ext files, behind the unit that the queue names last, and clears what follows. Where that unit
// is not there the next file begins. The caller holds writeMu.
func (q *Queue) openExt() error {
	last, err := q.newestExt()
	if err != nil {
		return err
	}
	starts, err := q.extFiles()
	if err != nil {
		return err
	}
	fileBytes := q.store.set.extFileBytes
	end := int64(0)
	if last >= 0 {
		end = (last/fileBytes + 1) * fileBytes
		if u, ok := q.extAt(last); ok {
			end = last + int64(u.size)
		}
	}
	fsys := q.store.fsys
	for _, start := range slices.Backward(starts) {
		if start < end {
			break
		}
		q.store.cold.drop(fileKey{queue: q, start: start, ext: true})
		if err := fsys.Remove(q.extPath(start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if key := q.extKey(end); slices.Contains(starts, key.start) && end > key.start {
		open, err := q.openToWrite(key)
		if err != nil {
			return err
		}
		err = zeroTail(open.file, end-key.start, fileBytes)
		q.store.cold.release(open)
		if err != nil {
			return err
		}
		q.ext.dirty.add(end, end+1) // the zeros
	}
	q.ext.newNames = true // of a run that was killed perhaps
	q.ext.opened, q.ext.end = true, end
	return nil
}

// newestExt returns the position of the newest ext unit that the queue's files name, -1 without one.
func (q *Queue) newestExt() (int64, error) {
	newest := int64(-1)
	if q.firstFile < 0 {
		return newest, nil
	}
	units := make([]Unit, unitChunk)
	perFile, low := q.store.unitsPerFile(), message.QueueOffset(q.firstFile/unitBytes)
	for to := q.Max(); to > low && newest < 0; {
		from := max(to-unitChunk, low, (to-1)-(to-1)%perFile)
		n, err := q.readUnits(units[:to-from], from, to)
		if err != nil {
			return 0, err
		}
		for _, u := range units[:n] {
			if u.Tags.IsExtAddress() {
				newest = max(newest, extPosition(u.Tags))
			}
		}
		to = from
	}
	return newest, nil
}

// resolve puts tags codes in the place of addresses. Where the ext unit cannot be read the address stays: nobody knows the
// tags then, and everybody may want the message (ConsumeQueue's iterator, 5.5.0).
func (q *Queue) resolve(units []Unit) {
	for len(units) > 0 && !units[0].Tags.IsExtAddress() {
		units = units[1:]
	}
	if len(units) == 0 || !q.store.extReadable {
		return
	}
	block := q.store.chunks.get()
	defer q.store.chunks.put(block)
	var have []byte // of the file, from position from on
	from, missing := int64(0), int64(-1)
	for i := range units {
		if !units[i].Tags.IsExtAddress() {
			continue
		}
		pos := extPosition(units[i].Tags)
		start := q.extKey(pos).start
		if start == missing {
			continue
		}
		if pos < from || pos-from > int64(len(have))-extUnitBytes {
			n, err := q.readExt(block[:extReadBytes(units[i:], pos, start+q.store.set.extFileBytes-pos)], pos)
			if n == 0 && err != nil {
				missing = start
			}
			have, from = block[:n], pos
		}
		if u, ok := decodeExt(have[min(pos-from, int64(len(have))):], start+q.store.set.extFileBytes-pos); ok {
			units[i].Tags = u.tags
		}
	}
}

// extReadBytes is how much to read at pos to have the units that follow, too: not more than room, nor than a block.
func extReadBytes(units []Unit, pos, room int64) int64 {
	limit := min(room, unitChunk*unitBytes)
	n := min(limit, extUnitBytes)
	for i := range units {
		if units[i].Tags.IsExtAddress() {
			if behind := extPosition(units[i].Tags) - pos + extUnitBytes; behind <= limit {
				n = max(n, behind)
			}
		}
	}
	return n
}

// extAt reads one ext unit; false where there is none.
func (q *Queue) extAt(pos int64) (extUnit, bool) {
	var b [extUnitBytes]byte
	if !q.store.extReadable {
		return extUnit{}, false
	}
	n, _ := q.readExt(b[:], pos)
	return decodeExt(b[:n], q.extKey(pos).start+q.store.set.extFileBytes-pos)
}

// readExt reads from one file, which it may end before b is full.
func (q *Queue) readExt(b []byte, pos int64) (int, error) {
	key := q.extKey(pos)
	open := q.store.cold.acquire(key)
	if open == nil {
		// For writing as well: the cache may hand the descriptor to AppendUnits.
		file, err := q.store.fsys.OpenFile(q.extPath(key.start), os.O_RDWR, 0)
		if err != nil {
			return 0, err
		}
		open = q.keepOpen(key, file)
	}
	defer q.store.cold.release(open)
	b = b[:min(int64(len(b)), key.start+q.store.set.extFileBytes-pos)]
	n, err := open.file.ReadAt(b, pos-key.start)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// rewriteExt writes the ext units once more that units name: see rewriteUnits.
func (q *Queue) rewriteExt(units []Unit) error {
	var run span // of one file
	for i := range units {
		if !units[i].Tags.IsExtAddress() {
			continue
		}
		pos := extPosition(units[i].Tags)
		u, ok := q.extAt(pos)
		if !ok {
			continue
		}
		if run.to > run.from && q.extKey(pos) != q.extKey(run.from) {
			if err := q.rewriteExtSpan(run); err != nil {
				return err
			}
			run = span{}
		}
		run.add(pos, pos+int64(u.size))
	}
	return q.rewriteExtSpan(run)
}

func (q *Queue) rewriteExtSpan(s span) error {
	q.ext.newNames = q.ext.newNames || s.from < s.to
	block := q.store.chunks.get()
	defer q.store.chunks.put(block)
	for s.from < s.to {
		n, err := q.readExt(block[:min(int64(len(block)), s.to-s.from)], s.from)
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = q.writeExtAt(s.from, block[:n])
		}
		if err != nil {
			return err
		}
		s.from += int64(n)
	}
	return nil
}

// deleteExtBelowMin deletes the ext files that no unit from the queue's minimum on names (ConsumeQueueExt.truncateByMinAddress,
// 5.5.0), oldest first, but never the newest one, and returns how many.
func (q *Queue) deleteExtBelowMin() (n int, err error) {
	if !q.store.extThere {
		return 0, nil
	}
	starts, err := q.extFiles()
	if err != nil || len(starts) < 2 {
		return 0, err
	}
	first, err := q.firstExt(starts[len(starts)-1])
	if err != nil {
		return 0, err
	}
	for _, start := range starts[:len(starts)-1] {
		if start+q.store.set.extFileBytes > first {
			break
		}
		if err := q.deleteExt(start); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// firstExt returns the position of the first ext unit that is named from the queue's minimum on, none without one.
func (q *Queue) firstExt(none int64) (int64, error) {
	var units [64]Unit
	for from, end := q.Min(), q.Max(); from < end; {
		n, err := q.readUnits(units[:], from, end)
		if err != nil {
			return 0, err
		}
		for _, u := range units[:n] {
			if u.Tags.IsExtAddress() {
				return extPosition(u.Tags), nil
			}
		}
		from += message.QueueOffset(n)
	}
	return none, nil
}

func (q *Queue) deleteExt(start int64) error {
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	if q.gone.Load() {
		return nil
	}
	return q.removeExt(start)
}

// removeExt deletes one file and sees to it that no descriptor of it stays in the cache. The caller holds writeMu.
func (q *Queue) removeExt(start int64) error {
	q.ext.goneBelow.Store(max(q.ext.goneBelow.Load(), start+q.store.set.extFileBytes)) // before the name goes, see keepOpen
	if err := q.store.fsys.Remove(q.extPath(start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	q.store.cold.drop(fileKey{queue: q, start: start, ext: true})
	return nil
}

// removeExtFiles deletes the ext files of a queue, and their folder. The caller holds writeMu.
func (q *Queue) removeExtFiles() error {
	if !q.store.extThere {
		return nil
	}
	starts, err := q.extFiles()
	if err != nil {
		return err
	}
	for _, start := range starts {
		if err := q.removeExt(start); err != nil {
			return err
		}
	}
	q.ext.opened, q.ext.newNames, q.ext.dirty = false, false, span{}
	return removeDir(q.store.fsys, q.extDir())
}

// extFiles lists the starts of the queue's ext files.
func (q *Queue) extFiles() ([]int64, error) {
	entries, err := readDirIfThere(q.store.fsys, q.extDir())
	var starts []int64
	for _, e := range entries {
		if start, ok := parseFileName(e.Name); ok && !e.Dir {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return starts, err
}

func (q *Queue) extKey(pos int64) fileKey {
	return fileKey{queue: q, start: pos - pos%q.store.set.extFileBytes, ext: true}
}

func (q *Queue) extDir() string {
	return filepath.Join(q.store.set.extDir, q.topic, strconv.FormatInt(int64(q.id), 10))
}

func (q *Queue) extPath(start int64) string { return dataPath(q.extDir(), start) }
