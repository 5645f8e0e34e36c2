package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// IndexKind says what a query's key is.
type IndexKind uint8

// Kinds of keys.
const (
	IndexAnyKey IndexKind = iota // UNIQ_KEY, or one of KEYS
	IndexUnique                  // UNIQ_KEY
	IndexTag                     // TAGS, which 5.5.0 indexes too
)

// IndexQuery asks for the newest records of a topic with a key.
type IndexQuery struct {
	Topic, Key string
	Kind       IndexKind
	Begin, End message.Millis // of the store time, both included
	Max        int            // records
	BytesMax   int            // of all records together
}

// IndexResult answers an IndexQuery.
type IndexResult struct {
	Body     []byte // the records back to back, oldest first, each once
	Records  int
	LastTime message.Millis    // store time of the newest record in the index
	LastPhy  message.PhyOffset // its position
	// Cut says that a limit ended the search (BytesMax, indexItemsPerQueryMax, indexReadsPerQueryMax): there may be older
	// records. Recovering says that the index is not yet what it was before the last crash. Broken says that a file holds something
	// that it cannot hold, so that the items behind it were not found.
	Cut, Recovering, Broken bool
}

// Query looks the key up. The files only give hints, for what they hold is a hash: every record is read, and counts when topic, key
// and store time are right. Any goroutine; it reads files. Nil when reading is switched off.
func (x *Index) Query(q IndexQuery) (*IndexResult, error) {
	if !x.reads {
		return nil, nil
	}
	x.mu.RLock()
	files := make([]indexFile, len(x.files))
	if x.ready {
		for i, f := range x.files {
			files[i] = *f
		}
	} else {
		files = nil
	}
	ready := x.ready
	x.mu.RUnlock()

	run := &queryRun{x: x, q: q, hash: q.hash(), last: x.s.Confirmed(), result: &IndexResult{Recovering: !ready}}
	if n := len(files); n > 0 && (files[n-1].header.count > 1 || n > 1) {
		run.result.LastTime, run.result.LastPhy = files[n-1].header.endTime, files[n-1].header.endPhy
	}
	for i := len(files) - 1; i >= 0 && !run.done; i-- {
		f := &files[i]
		if f.header.count <= 1 || f.header.beginTime > q.End {
			continue
		}
		if f.header.endTime < q.Begin {
			break
		}
		broken, err := run.file(f)
		if err != nil {
			return nil, err
		}
		if broken {
			run.result.Broken = true
			x.doubt(f)
		}
	}
	run.finish()
	return run.result, nil
}

func (q *IndexQuery) hash() int32 {
	h := message.JavaHashOn(message.JavaHash([]byte(q.Topic)), indexSeparator[:])
	if q.Kind == IndexTag {
		h = message.JavaHashOn(h, indexTagMark[:])
	}
	return indexHash(message.JavaHashOn(h, []byte(q.Key)))
}

// matches tells whether a record is what the query asks for.
func (q *IndexQuery) matches(v *message.View) bool {
	if string(v.Topic) != q.Topic || v.StoreTimestamp < q.Begin || v.StoreTimestamp > q.End {
		return false
	}
	if q.Kind == IndexTag {
		tags, _ := message.GetProperty(v.Properties, message.PropertyTags)
		return string(tags) == q.Key
	}
	if uniq, _ := message.GetProperty(v.Properties, message.PropertyUniqKey); string(uniq) == q.Key {
		return true
	}
	if q.Kind == IndexUnique {
		return false
	}
	keys, _ := message.GetProperty(v.Properties, message.PropertyKeys)
	for len(keys) > 0 {
		var key []byte
		if key, keys = cutKey(keys); string(key) == q.Key {
			return true
		}
	}
	return false
}

// queryRun is one query at work.
type queryRun struct {
	x      *Index
	q      IndexQuery
	hash   int32
	last   message.PhyOffset // only records below it are looked at: going back, each comes once
	result *IndexResult
	done   bool // no older file can add anything

	items, reads int
	found        []byte // records, newest first
	ends         []int  // of each in found
	window       itemWindow
	view         message.View
}

// file walks the chain of the key in one file, from the newest item to the oldest. broken says that it ends where no chain can.
func (r *queryRun) file(f *indexFile) (broken bool, err error) {
	file, err := r.x.fsys.OpenFile(f.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // deleted meanwhile, with its records
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	var slot [indexSlotBytes]byte
	r.x.mu.RLock() // else the slot could be read while it is written
	_, err = file.ReadAt(slot[:], r.x.geo.slotAt(r.hash))
	r.x.mu.RUnlock()
	if err != nil {
		return false, err
	}
	count := int64(f.header.count)
	n := int64(int32(binary.BigEndian.Uint32(slot[:])))
	r.window = itemWindow{geo: r.x.geo, file: file, count: count, buf: r.window.buf}
	for n != 0 && !r.done {
		if n >= count {
			// Added behind our look at the header: one look more, and it counts.
			if count = r.x.countOf(f.name); n >= count {
				return count > 0, nil // else the file was deleted meanwhile
			}
			r.window.count = count
		}
		if n < 0 {
			return true, nil
		}
		if r.items++; r.items > indexItemsPerQueryMax {
			r.result.Cut, r.done = true, true
			break
		}
		it, err := r.window.item(n)
		if err != nil {
			return false, err
		}
		if it == (indexItem{}) || it.hash < 0 || r.x.geo.slotAt(it.hash) != r.x.geo.slotAt(r.hash) || it.phy < f.header.beginPhy || int64(it.prev) >= n {
			return true, nil
		}
		if it.phy < r.x.s.MinPhy() {
			r.done = true // and so is everything older
			break
		}
		if it.hash == r.hash && it.phy < r.last {
			t := f.header.beginTime + 1000*message.Millis(it.seconds)
			switch {
			case t > r.q.End && n != 1: // item 1 of a later file may count from the end of the file before
			case t+999 < r.q.Begin && n != 1:
				r.done = true
			case (t+999 > r.q.End || t < r.q.Begin) && !r.inTime(it.phy):
				r.last = it.phy
			default:
				if err := r.candidate(it.phy); err != nil {
					return false, err
				}
			}
		}
		n = int64(it.prev)
	}
	return false, nil
}

// inTime reads the time of a record whose second lies on the border of the window. That costs far less than reading the record, and
// a hot key has many in a second.
func (r *queryRun) inTime(phy message.PhyOffset) bool {
	stored, ok := r.x.storeTimeAt(phy)
	return ok && stored >= r.q.Begin && stored <= r.q.End
}

// countOf returns the count of a file now.
func (x *Index) countOf(name string) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, f := range x.files {
		if f.name == name {
			return int64(f.header.count)
		}
	}
	return 0
}

// candidate reads a record and keeps it if it is one that was asked for.
func (r *queryRun) candidate(phy message.PhyOffset) error {
	r.last = phy
	if r.reads++; r.reads > indexReadsPerQueryMax {
		r.result.Cut, r.done = true, true
		return nil
	}
	b, err := r.x.s.ReadRecord(r.found, phy, &r.view)
	switch {
	case errors.Is(err, ErrNoRecord), errors.Is(err, ErrOutOfRange):
		return nil // a queue's reader notes it
	case err != nil:
		return err
	case !r.q.matches(&r.view):
		r.found = b[:len(r.found)]
		return nil
	case len(b) > r.q.BytesMax:
		r.result.Cut, r.done = true, true
		return nil
	}
	r.found = b
	r.ends = append(r.ends, len(b))
	r.done = len(r.ends) >= r.q.Max
	return nil
}

// finish turns the records round: the answer begins with the oldest.
func (r *queryRun) finish() {
	r.result.Records = len(r.ends)
	r.result.Body = make([]byte, 0, len(r.found))
	for i := len(r.ends) - 1; i >= 0; i-- {
		from := 0
		if i > 0 {
			from = r.ends[i-1]
		}
		r.result.Body = append(r.result.Body, r.found[from:r.ends[i]]...)
	}
}

// itemWindow reads items that a chain visits from back to front. Chains of hot keys are dense: the window grows while the next
// item lies just in front of it, so that a million items are a few thousand reads.
type itemWindow struct {
	geo      indexGeometry
	file     sysio.File
	count    int64 // items below it are complete
	from, to int64 // items in buf
	size     int64 // items of the next read
	buf      []byte
}

func (w *itemWindow) item(n int64) (indexItem, error) {
	if n < w.from || n >= w.to {
		switch {
		case w.size == 0, n >= w.to, n < w.from-w.size:
			w.size = indexWindowItemsMin
		default:
			w.size = min(2*w.size, indexWindowItemsMax)
		}
		from := max(1, n+1-w.size)
		length := int((n + 1 - from) * indexItemBytes)
		if cap(w.buf) < length {
			w.buf = make([]byte, length)
		}
		w.buf = w.buf[:length]
		w.from, w.to = 0, 0
		if _, err := w.file.ReadAt(w.buf, w.geo.itemAt(from)); err != nil {
			return indexItem{}, err
		}
		w.from, w.to = from, n+1
	}
	return decodeIndexItem(w.buf[(n-w.from)*indexItemBytes:]), nil
}
