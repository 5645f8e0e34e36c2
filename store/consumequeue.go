package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// chunkPool lends the buffer that units are encoded into.
type chunkPool struct{ pool sync.Pool }

func newChunkPool() *chunkPool {
	return &chunkPool{sync.Pool{New: func() any { return new([unitChunk * unitBytes]byte) }}}
}

func (p *chunkPool) get() *[unitChunk * unitBytes]byte {
	return p.pool.Get().(*[unitChunk * unitBytes]byte)
}

func (p *chunkPool) put(b *[unitChunk * unitBytes]byte) { p.pool.Put(b) }

func encodeUnit(dst []byte, u Unit) {
	binary.BigEndian.PutUint64(dst, uint64(u.Phy))
	binary.BigEndian.PutUint32(dst[8:], uint32(u.Size))
	binary.BigEndian.PutUint64(dst[12:], uint64(u.Tags))
}

func decodeUnit(b []byte) Unit {
	return Unit{
		Phy:  message.PhyOffset(binary.BigEndian.Uint64(b)),
		Size: int32(binary.BigEndian.Uint32(b[8:])),
		Tags: message.TagsCode(binary.BigEndian.Uint64(b[12:])),
	}
}

// valid tells whether the unit was written: free space is zero, and so has size 0.
func (u Unit) valid() bool { return u.Phy >= 0 && u.Size > 0 }

// AppendUnits adds units whose first has queue offset first. For dispatch: one goroutine per queue, in log order. Units below
// Max are there already and are skipped. A gap in front of first is filled with pre-blank units, so that no offset shifts.
// When it returns nil the units are in the file (not durable: FlushQueues), in memory, and visible. After an error nothing
// became visible and the same call may be made again.
//
// Units that belong to a topic of this name that was deleted are passed over, as are all once this one is.
//
// ErrBadTopic and ErrQueueGap tell of units that no queue can take, however often it is tried: the topic cannot name a
// directory, or the offset is so far off that only a damaged record can hold it. Append accepts no such record.
func (q *Queue) AppendUnits(first message.QueueOffset, units []Unit) error {
	if q.badTopic {
		return fmt.Errorf("%w: %q", ErrBadTopic, q.topic)
	}
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	if q.gone.Load() {
		return nil
	}
	for len(units) > 0 && units[0].Phy < q.bornAt {
		units, first = units[1:], first+1
	}
	if len(units) > 0 && units[0].Phy < q.store.report.End && first >= q.Max() {
		var err error
		if first, units, err = q.passNamed(first, units); err != nil {
			return err
		}
	}
	if len(units) == 0 {
		return nil
	}
	end := q.Max()
	if first < 0 || (first-end > preBlankUnitsMax && q.firstFile >= 0) {
		return fmt.Errorf("%w: %s-%d: the queue ends at %d, a unit has %d", ErrQueueGap, q.topic, q.id, end, first)
	}
	if skip := end - first; skip > 0 {
		if int64(skip) >= int64(len(units)) {
			return nil
		}
		units, first = units[skip:], end
	}
	if len(units) == 0 {
		return nil
	}
	if len(q.store.damaged) > 0 {
		units = q.store.hideDamaged(units)
	}
	if first > end {
		if err := q.fillGap(end, first); err != nil {
			return err
		}
	}
	if err := q.writeNamed(first, units); err != nil {
		return err
	}
	nothingBelow := q.Min() == end
	q.publish(first, units)
	if first > end && nothingBelow {
		q.min.Store(int64(first)) // after max: a reader may meet pre-blank units, but never a queue with min above max
	}
	return nil
}

// writeNamed writes units, with ext files their ext units before them.
func (q *Queue) writeNamed(first message.QueueOffset, units []Unit) error {
	if !q.store.set.extWrite {
		return q.write(first, units, len(units))
	}
	b := q.store.extBatches.get()
	defer q.store.extBatches.put(b)
	named, err := q.writeExt(units, b)
	switch {
	case errors.Is(err, ErrDiskFull):
		return err
	case err != nil:
		q.extFailed(err)
		return q.write(first, units, len(units))
	}
	q.ext.failing = false
	if err := q.write(first, named, len(named)); err != nil {
		return err
	}
	q.ext.end = b.end
	return nil
}

// hideDamaged puts pre-blank units in the place of those that name damaged records: the offset stays occupied, nothing is shown.
func (s *Store) hideDamaged(units []Unit) []Unit {
	var copied []Unit
	for i, u := range units {
		if !s.damaged[u.Phy] || u.IsPreBlank() {
			continue
		}
		if copied == nil {
			copied = append(copied, units...) // the caller's are borrowed
		}
		copied[i] = Unit{Size: preBlankSize}
	}
	if copied == nil {
		return units
	}
	return copied
}

// publish makes written units visible. The caller holds writeMu.
func (q *Queue) publish(first message.QueueOffset, units []Unit) {
	end := first + message.QueueOffset(len(units))
	if q.next.Load() < int64(end) {
		// Only records of an earlier run get here: an append of this run raised next before dispatch saw the record.
		q.store.log.raiseNext(q, end)
	}
	q.ringMu.Lock()
	q.ring.push(first, units, &q.store.rings)
	q.idle = 0
	if q.own.Load() < 0 {
		q.own.Store(int64(first))
	}
	q.max.Store(int64(end))
	q.ringMu.Unlock()
	if !q.dirty {
		q.dirty = true
		q.store.noteDirty(q)
	}
}

// raiseNext lifts the queue's next offset to at least end.
func (l *CommitLog) raiseNext(q *Queue, end message.QueueOffset) {
	l.mu.Lock()
	if q.next.Load() < int64(end) {
		q.next.Store(int64(end))
	}
	l.mu.Unlock()
}

// fillGap writes pre-blank units from end up to first. A queue without files begins with the file that holds first; the part
// of that file in front of it is filled (ConsumeQueue.fillPreBlank of 5.5.0). The caller holds writeMu.
func (q *Queue) fillGap(end, first message.QueueOffset) error {
	from := end
	if q.firstFile < 0 && end == 0 {
		from = first - first%q.store.unitsPerFile()
	}
	return q.write(from, nil, int(first-from))
}

// write puts count units, pre-blank ones where units is nil, at offset first, one pwrite per contiguous chunk in a file. The
// caller holds writeMu.
func (q *Queue) write(first message.QueueOffset, units []Unit, count int) error {
	buf := q.store.chunks.get()
	defer q.store.chunks.put(buf)
	fileBytes := q.store.set.queueFileBytes
	for done := 0; done < count; {
		off := int64(first+message.QueueOffset(done)) * unitBytes
		at := off % fileBytes
		n := min(count-done, unitChunk, int((fileBytes-at)/unitBytes))
		for i := range n {
			u := Unit{Size: preBlankSize}
			if units != nil {
				u = units[done+i]
			}
			encodeUnit(buf[i*unitBytes:], u)
		}
		if err := q.writeTo(fileKey{queue: q, start: off - at}, at, buf[:n*unitBytes]); err != nil {
			return err
		}
		if q.firstFile < 0 {
			q.firstFile = off - at
		}
		done += n
	}
	return nil
}

// writeTo writes into a file of the queue and makes it first if need be, full length.
func (q *Queue) writeTo(key fileKey, at int64, p []byte) error {
	open, err := q.openToWrite(key)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrWriteFailed, q.path(key), err)
	}
	_, err = open.file.WriteAt(p, at)
	q.store.cold.release(open)
	if err == nil {
		return nil
	}
	if sysio.IsNoSpace(err) {
		return noSpace(q.store.fsys, q.path(key), q.store.set.now().warnPct, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrWriteFailed, q.path(key), err)
}

// openToWrite returns a file of the queue, full length, which it makes if need be. The caller releases it.
func (q *Queue) openToWrite(key fileKey) (*openFile, error) {
	open := q.store.cold.acquire(key)
	if open == nil {
		file, err := q.openForWriting(key)
		if err != nil {
			return nil, err
		}
		open = q.keepOpen(key, file)
	}
	// Whoever reads or syncs may have opened one whose length could not be set.
	if !open.whole {
		if err := q.fillLength(open.file, key.ext); err != nil {
			q.store.cold.release(open)
			return nil, err
		}
		open.whole = true
	}
	return open, nil
}

// openForWriting opens a file of the queue, and makes it if need be.
func (q *Queue) openForWriting(key fileKey) (sysio.File, error) {
	fsys, path := q.store.fsys, q.path(key)
	file, err := fsys.OpenFile(path, os.O_RDWR, 0o644)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if key.ext {
		q.ext.newNames = true
	} else {
		q.newNames = true
	}
	file, err = fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = fsys.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			file, err = fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		}
	}
	return file, err
}

// fillLength gives a short file the length of its kind.
func (q *Queue) fillLength(file sysio.File, ext bool) error {
	length := q.store.set.queueFileBytes
	if ext {
		length = q.store.set.extFileBytes
	}
	size, err := file.Size()
	if err == nil && size < length {
		err = file.Truncate(length)
	}
	return err
}

// ReadUnits reads units from offset from on out of the files and returns how many; fewer than len(dst) at Max or at the end
// of a file. ErrOutOfRange outside of [Min, Max). A tags code that is still an address (IsExtAddress) is not known: its ext
// unit cannot be read. Any goroutine; it may wait for the disk.
func (q *Queue) ReadUnits(dst []Unit, from message.QueueOffset) (int, error) {
	if from < q.Min() || from >= q.Max() {
		return 0, fmt.Errorf("%w: %s-%d has %d to %d, asked for %d", ErrOutOfRange, q.topic, q.id, q.Min(), q.Max(), from)
	}
	n, err := q.readUnits(dst, from, q.Max())
	q.resolve(dst[:n])
	if err != nil && from < q.Min() {
		return 0, fmt.Errorf("%w: %s-%d now begins at %d, asked for %d", ErrOutOfRange, q.topic, q.id, q.Min(), from)
	}
	return n, err
}

// CachedUnits reads units from offset from on out of a file that is open, as far as they are in the page cache, and returns how
// many: it waits for no disk. 0: ask ReadUnits. Units of earlier runs are not among them, since nobody has looked at their
// records yet (ReadRecord does). Any goroutine.
// hot: 0 allocs, one preadv2, the lock of the open files
func (q *Queue) CachedUnits(dst []Unit, from message.QueueOffset) int {
	if own := q.own.Load(); own < 0 || int64(from) < own || from < q.Min() {
		return 0
	}
	key, at, n := q.place(len(dst), from, q.Max())
	open := q.store.cold.acquire(key)
	if open == nil {
		return 0
	}
	defer q.store.cold.releaseAside(open)
	buf := q.store.chunks.get()
	defer q.store.chunks.put(buf)
	n = open.file.ReadCachedAt(buf[:min(n, unitChunk)*unitBytes], at) / unitBytes
	for i := range n {
		if dst[i] = decodeUnit(buf[i*unitBytes:]); dst[i].Tags.IsExtAddress() {
			return i
		}
	}
	return n
}

// place is the file that holds unit from, where in it, and how many of want units it has below end.
func (q *Queue) place(want int, from, end message.QueueOffset) (key fileKey, at int64, n int) {
	fileBytes := q.store.set.queueFileBytes
	off := int64(from) * unitBytes
	at = off % fileBytes
	return fileKey{queue: q, start: off - at}, at, int(max(0, min(int64(want), int64(end-from), (fileBytes-at)/unitBytes)))
}

// keepOpen puts an open file of the queue into the cache, for the time of its use only if it was deleted meanwhile.
func (q *Queue) keepOpen(key fileKey, file sysio.File) *openFile {
	open := q.store.cold.insert(key, file)
	goneBelow := &q.goneBelow
	if key.ext {
		goneBelow = &q.ext.goneBelow
	}
	if key.start < goneBelow.Load() {
		q.store.cold.drop(key)
	}
	return open
}

// readUnits is ReadUnits with a given end, for recovery too: addresses of ext units stay as they are.
func (q *Queue) readUnits(dst []Unit, from, end message.QueueOffset) (int, error) {
	key, at, n := q.place(len(dst), from, end)
	if n == 0 {
		return 0, nil
	}
	open := q.store.cold.acquire(key)
	if open == nil {
		// For writing as well: the cache may hand the descriptor to AppendUnits.
		file, err := q.store.fsys.OpenFile(q.path(key), os.O_RDWR, 0)
		if err != nil {
			return 0, err
		}
		open = q.keepOpen(key, file)
	}
	defer q.store.cold.release(open)
	buf := q.store.chunks.get()
	defer q.store.chunks.put(buf)
	for done := 0; done < n; {
		k := min(n-done, unitChunk)
		m, err := open.file.ReadAt(buf[:k*unitBytes], at+int64(done)*unitBytes)
		for i := range m / unitBytes {
			dst[done+i] = decodeUnit(buf[i*unitBytes:])
		}
		if m < k*unitBytes {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return done + m/unitBytes, fmt.Errorf("read %s at %d: %w", q.path(key), at, err)
		}
		done += k
	}
	return n, nil
}

func (q *Queue) dir() string {
	return filepath.Join(q.store.set.queueDir, q.topic, strconv.FormatInt(int64(q.id), 10))
}

func (q *Queue) filePath(start int64) string { return dataPath(q.dir(), start) }

// path is where a file of the queue lies.
func (q *Queue) path(key fileKey) string {
	if key.ext {
		return q.extPath(key.start)
	}
	return q.filePath(key.start)
}

// topicCanBeStored tells whether a topic name can name a directory. What clients may call a topic is the broker's matter.
func topicCanBeStored(topic string) bool {
	return topic != "" && len(topic) <= topicNameBytesMax && topic != "." && topic != ".." && !strings.ContainsAny(topic, "/\x00")
}
