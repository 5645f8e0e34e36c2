package inspect

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"

	"peregrine/internal/message"
)

// Unit is an entry of a ConsumeQueue.
type Unit struct {
	Phy  message.PhyOffset
	Size int32
	Tags message.TagsCode
}

// Written tells a unit from free space.
func (u Unit) Written() bool { return u.Phy >= 0 && u.Size > 0 }

// PreBlank tells a unit that only keeps its queue offset occupied.
func (u Unit) PreBlank() bool { return u.Size == preBlankSize }

func parseUnit(b []byte) Unit {
	return Unit{
		Phy:  message.PhyOffset(binary.BigEndian.Uint64(b)),
		Size: int32(binary.BigEndian.Uint32(b[8:])),
		Tags: message.TagsCode(binary.BigEndian.Uint64(b[12:])),
	}
}

// unitReader reads units through a bounded number of blocks: the walk over the log asks for those of all queues in turn.
type unitReader struct {
	d      *Directory
	blocks map[blockKey]*list.Element
	used   *list.List                     // of *unitBlock, the most recently used in front
	behind map[*Queue]message.QueueOffset // what lastWritten found
}

type blockKey struct {
	q     *Queue
	first message.QueueOffset
}

type unitBlock struct {
	key blockKey
	b   []byte // shorter than the block where the file ends
}

func (d *Directory) newUnitReader() *unitReader {
	return &unitReader{d: d, blocks: map[blockKey]*list.Element{}, used: list.New(), behind: map[*Queue]message.QueueOffset{}}
}

func (d *Directory) unitsPerFile() message.QueueOffset {
	return message.QueueOffset(max(d.QueueFileBytes/unitBytes, 1))
}

// file returns the index of the file that holds an offset, -1 without one.
func (q *Queue) file(d *Directory, off message.QueueOffset) int {
	at := int64(off) * unitBytes
	i := sort.Search(len(q.Files), func(i int) bool { return q.Files[i].Start > at }) - 1
	if i < 0 || at >= q.Files[i].Start+d.QueueFileBytes {
		return -1
	}
	return i
}

// nextFile returns the first offset at or behind off that a file has room for, limit without one: a name may be far off.
func (q *Queue) nextFile(d *Directory, off, limit message.QueueOffset) message.QueueOffset {
	if q.file(d, off) >= 0 {
		return off
	}
	i := sort.Search(len(q.Files), func(i int) bool { return q.Files[i].Start >= int64(off)*unitBytes })
	if i == len(q.Files) {
		return limit
	}
	return min(message.QueueOffset(q.Files[i].Start/unitBytes), limit)
}

// at returns the unit at an offset; a zero Unit where no file is.
func (r *unitReader) at(q *Queue, off message.QueueOffset) (Unit, error) {
	if off < 0 {
		return Unit{}, nil
	}
	inFile := off % r.d.unitsPerFile()
	first := off - inFile%blockUnits
	key := blockKey{q, first}
	e := r.blocks[key]
	if e == nil {
		b, err := r.load(q, first)
		if err != nil {
			return Unit{}, err
		}
		if len(r.blocks) >= blocksMax {
			oldest := r.used.Back()
			delete(r.blocks, oldest.Value.(*unitBlock).key)
			r.used.Remove(oldest)
		}
		e = r.used.PushFront(&unitBlock{key, b})
		r.blocks[key] = e
	} else {
		r.used.MoveToFront(e)
	}
	b := e.Value.(*unitBlock).b
	at := int64(off-first) * unitBytes
	if at+unitBytes > int64(len(b)) {
		return Unit{}, nil
	}
	return parseUnit(b[at:]), nil
}

// forget drops the block of an offset: a running broker may have written since it was read.
func (r *unitReader) forget(q *Queue, off message.QueueOffset) {
	key := blockKey{q, off - off%r.d.unitsPerFile()%blockUnits}
	if e := r.blocks[key]; e != nil {
		delete(r.blocks, key)
		r.used.Remove(e)
	}
}

// load reads the block that begins at an offset. A queue may have grown by files since the directory was listed.
func (r *unitReader) load(q *Queue, first message.QueueOffset) ([]byte, error) {
	i := q.file(r.d, first)
	if i < 0 {
		return nil, nil
	}
	f, err := r.d.opts.FS.OpenFile(q.Files[i].Path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := int64(first)*unitBytes - q.Files[i].Start
	b := make([]byte, min(blockUnits*unitBytes, r.d.QueueFileBytes-at))
	n, err := f.ReadAt(b, at)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s at %d: %w", q.Files[i].Name, at, err)
	}
	return b[:n], nil
}

// bounds returns the offsets that the queue's files have room for.
func (q *Queue) bounds(d *Directory) (first, limit message.QueueOffset) {
	if len(q.Files) == 0 {
		return 0, 0
	}
	return message.QueueOffset(q.Files[0].Start / unitBytes), message.QueueOffset((q.Files[len(q.Files)-1].Start + d.QueueFileBytes) / unitBytes)
}

// end returns the first offset without a unit, by search: a queue without holes is written from its first file on.
func (r *unitReader) end(q *Queue) (message.QueueOffset, error) {
	first, _ := q.bounds(r.d)
	perFile := r.d.unitsPerFile()
	for i := len(q.Files) - 1; i >= 0; i-- {
		start := message.QueueOffset(q.Files[i].Start / unitBytes)
		var failed error
		n := sort.Search(int(perFile), func(n int) bool {
			u, err := r.at(q, start+message.QueueOffset(n))
			failed = errors.Join(failed, err)
			return !u.Written()
		})
		if failed != nil || n > 0 {
			return start + message.QueueOffset(n), failed
		}
	}
	return first, nil
}

// lastWritten returns the offset behind the last unit, whatever holes lie in front of it.
func (r *unitReader) lastWritten(q *Queue) (message.QueueOffset, error) {
	if end, known := r.behind[q]; known {
		return end, nil
	}
	first, _ := q.bounds(r.d)
	end := first
	for i := len(q.Files) - 1; i >= 0 && end == first; i-- {
		start := message.QueueOffset(q.Files[i].Start / unitBytes)
		err := r.d.eachUnit(q, start, start+r.d.unitsPerFile(), func(off message.QueueOffset, u Unit) error {
			if u.Written() {
				end = off + 1
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	r.behind[q] = end
	return end, nil
}

// real returns the first unit at or behind off that names a record, and its offset; end where there is none.
func (r *unitReader) real(q *Queue, off, end message.QueueOffset) (Unit, message.QueueOffset, error) {
	for off = q.nextFile(r.d, off, end); off < end; off = q.nextFile(r.d, off+1, end) {
		u, err := r.at(q, off)
		if err != nil || u.Written() && !u.PreBlank() {
			return u, off, err
		}
	}
	return Unit{}, end, nil
}

// lowerBound returns the first unit that names a position at or behind phy. Positions grow within a queue.
func (r *unitReader) lowerBound(q *Queue, phy message.PhyOffset, end message.QueueOffset) (message.QueueOffset, error) {
	low, _ := q.bounds(r.d)
	high := end
	for low < high {
		mid := low + (high-low)/2
		u, at, err := r.real(q, mid, end)
		if err != nil {
			return 0, err
		}
		if at >= end || u.Phy >= phy {
			high = mid
		} else {
			low = at + 1
		}
	}
	_, at, err := r.real(q, low, end)
	return at, err
}

// eachUnit reads units one behind the other, with large reads. Missing files count as free space.
func (d *Directory) eachUnit(q *Queue, from, to message.QueueOffset, visit func(message.QueueOffset, Unit) error) error {
	const chunk = 16 * blockUnits
	buf := make([]byte, chunk*unitBytes)
	for from = q.nextFile(d, from, to); from < to; from = q.nextFile(d, from, to) {
		i := q.file(d, from)
		file, err := d.opts.FS.OpenFile(q.Files[i].Path, os.O_RDONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			from += d.unitsPerFile() - from%d.unitsPerFile()
			continue
		}
		if err != nil {
			return err
		}
		stop := min(to, message.QueueOffset((q.Files[i].Start+d.QueueFileBytes)/unitBytes))
		for from < stop && err == nil {
			n := min(chunk, int(stop-from))
			var m int
			m, err = file.ReadAt(buf[:n*unitBytes], int64(from)*unitBytes-q.Files[i].Start)
			if err == io.EOF {
				clear(buf[m : n*unitBytes])
				err = nil
			}
			for k := 0; k < n && err == nil; k++ {
				err = visit(from+message.QueueOffset(k), parseUnit(buf[k*unitBytes:]))
			}
			from += message.QueueOffset(n)
		}
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// unitPlace fills in the place of a unit.
func (d *Directory) unitPlace(f *Finding, q *Queue, off message.QueueOffset) *Finding {
	id, o := int32(q.ID), int64(off)
	f.Topic, f.Queue, f.Offset = q.Topic, &id, &o
	if i := q.file(d, off); i >= 0 {
		f.File, f.At = q.Files[i].Name, o*unitBytes-q.Files[i].Start
	} else {
		f.File, f.At = q.Name, 0
	}
	return f
}
