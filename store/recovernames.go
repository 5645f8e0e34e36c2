package store

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Where records go on behind a damaged place of the log is not searched for: bodies can hold bytes that look like records.
// Somebody has to name the place, and the record there has to be the one that was meant. Those who may:
//
//   - the units of a queue, which are in the order of the log (nextNamed)
//   - loose names: units behind a hole in a queue's files, and index items. Nothing says that these are in order, or of this log.
//   - the start of a file of the log

// looseName is a unit behind a hole (q is not nil) or an index item.
type looseName struct {
	phy    message.PhyOffset
	q      *Queue
	offset message.QueueOffset // of the unit
	size   int32               // that the unit says
	hash   int32               // of the item's key
}

// looseNames holds, in the order of the log, all of them that name something in (from, to): a directory may have more than fit
// in memory.
type looseNames struct {
	from, to message.PhyOffset
	list     []looseName
}

// nextLoose returns the first place behind pos and before limit where a loose name finds its record, -1 if there is none.
func (r *recovery) nextLoose(pos, limit message.PhyOffset) (message.PhyOffset, error) {
	w := &r.loose
	for pos < limit {
		if pos < w.from || pos >= w.to {
			if err := r.gatherLoose(pos, r.limit); err != nil {
				return -1, err
			}
		}
		i, _ := slices.BinarySearchFunc(w.list, pos+1, func(n looseName, phy message.PhyOffset) int { return cmp.Compare(n.phy, phy) })
		for ; i < len(w.list) && w.list[i].phy < limit; i++ {
			if holds, err := r.holds(&w.list[i]); holds || err != nil {
				return w.list[i].phy, err
			}
		}
		if w.to >= limit {
			break
		}
		pos = w.to - 1
	}
	return -1, nil
}

// holds tells whether the record that a loose name means is there: whole, at its own position, in that place of its queue or with
// that key.
func (r *recovery) holds(n *looseName) (bool, error) {
	v, err := r.probe.look(n.phy)
	view := &r.probe.view
	if err != nil || v != recordGood || !view.CheckCRC() {
		return false, err
	}
	if n.q != nil {
		return view.QueueOffset == n.offset && view.QueueID == n.q.id && view.Size == n.size && string(view.Topic) == n.q.topic, nil
	}
	hashes := r.keys.keysOf(&IndexRecord{Phy: n.phy, Topic: view.Topic, Properties: view.Properties})
	return slices.Contains(hashes, n.hash), nil
}

// gatherLoose collects what is named behind from and before to, the nearest looseNamesMax of it at least.
func (r *recovery) gatherLoose(from, to message.PhyOffset) error {
	w := &r.loose
	w.from, w.to, w.list = from, to, w.list[:0]
	add := func(n looseName) {
		if n.phy <= w.from || n.phy >= w.to {
			return
		}
		if w.list = append(w.list, n); len(w.list) >= 2*looseNamesMax {
			w.shorten()
		}
	}
	err := r.eachTail(func(q *Queue, offset message.QueueOffset, u Unit) {
		if !u.IsPreBlank() {
			add(looseName{phy: u.Phy, q: q, offset: offset, size: u.Size})
		}
	})
	if err == nil {
		err = r.eachItem(from, to, func(it indexItem) { add(looseName{phy: it.phy, hash: it.hash}) })
	}
	if err != nil {
		w.to = from // nothing is known
		return err
	}
	w.sort()
	return nil
}

func (w *looseNames) sort() {
	slices.SortFunc(w.list, func(a, b looseName) int { return cmp.Compare(a.phy, b.phy) })
}

// shorten keeps the nearest names. Those of one place stay together.
func (w *looseNames) shorten() {
	w.sort()
	if w.to = w.list[looseNamesMax].phy; w.to <= w.list[0].phy {
		w.to = w.list[0].phy + 1
	}
	keep, _ := slices.BinarySearchFunc(w.list, w.to, func(n looseName, phy message.PhyOffset) int { return cmp.Compare(n.phy, phy) })
	w.list = w.list[:min(keep, looseNamesMax)]
}

// noteTail notes that a queue's files reach up to limit, and may hold something behind the queue's end. It stays there until the
// scan is through: see clearTails.
func (r *recovery) noteTail(q *Queue, limit message.QueueOffset) {
	r.tailsMu.Lock()
	defer r.tailsMu.Unlock()
	if r.tails == nil {
		r.tails = map[*Queue]message.QueueOffset{}
	}
	r.tails[q] = max(limit, r.tails[q])
	r.loose = looseNames{}
}

// eachTail calls visit for all units behind the ends of queues.
func (r *recovery) eachTail(visit func(*Queue, message.QueueOffset, Unit)) error {
	fileBytes := r.s.set.queueFileBytes
	for q, limit := range r.tails {
		for at, stop := int64(q.Max())*unitBytes, int64(limit)*unitBytes; at < stop; {
			start := at - at%fileBytes
			err := eachWritten(r.s.fsys, q.filePath(start), at-start, fileBytes, unitBytes, func(off int64, b []byte) {
				if u := decodeUnit(b); u.valid() {
					visit(q, message.QueueOffset((start+off)/unitBytes), u)
				}
			})
			if err != nil {
				return err
			}
			at = start + fileBytes
		}
	}
	return nil
}

// eachItem calls visit for the items of all index files that may name something behind from and before to. What a header says is
// believed where the file was durable as a whole; of the others all items are looked at.
func (r *recovery) eachItem(from, to message.PhyOffset, visit func(indexItem)) error {
	set := &r.s.set
	for i, f := range r.lay.index {
		path := filepath.Join(set.indexDir, f.name)
		header, err := readIndexHeader(r.s.fsys, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		durable := i < len(r.lay.index)-1 && (!r.lay.crashed || header.endTime <= r.s.checkpoint.indexTime())
		if durable && header.beginPhy <= header.endPhy && (header.endPhy <= from || header.beginPhy >= to) {
			continue
		}
		err = eachWritten(r.s.fsys, path, set.index.itemAt(1), set.index.fileBytes(), indexItemBytes, func(_ int64, b []byte) {
			if it := decodeIndexItem(b); it != (indexItem{}) {
				visit(it)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func readIndexHeader(fsys sysio.FS, path string) (indexHeader, error) {
	var b [indexHeaderBytes]byte
	err := readHead(fsys, path, b[:])
	return decodeIndexHeader(b[:]), err
}

// dataSeeker is a File that can pass over what was never written.
type dataSeeker interface {
	NextData(off int64) (int64, error)
}

// nextData returns the first offset at or behind off that may hold something else than zeros.
func nextData(file sysio.File, off int64) (int64, error) {
	if s, ok := file.(dataSeeker); ok {
		return s.NextData(off)
	}
	return off, nil
}

// readWrittenOnly keeps reads of a file from being read ahead of: a page of an allocated, never written place that is in memory counts
// as data for SEEK_DATA, so with read-ahead each block that is read makes the next one, up to the end of the file. A hint only.
func readWrittenOnly(file sysio.File) { _ = file.AdviseRandom() }

// eachWritten calls visit for the entries of a file from at up to stop, without those that were never written. The bytes are borrowed
// until it returns. A file that is not there, or ends early, has none.
func eachWritten(fsys sysio.FS, path string, at, stop, entry int64, visit func(off int64, b []byte)) error {
	file, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	readWrittenOnly(file)
	buf := make([]byte, min(looseBlockBytes, stop-at)/entry*entry)
	for at < stop {
		data, err := nextData(file, at)
		if err != nil {
			return err
		}
		at += (data - at) / entry * entry
		n := min(int64(len(buf)), stop-at)
		if n < entry {
			return nil
		}
		got, err := file.ReadAt(buf[:n], at)
		if err != nil && err != io.EOF {
			return err
		}
		for b := buf[:got]; int64(len(b)) >= entry; b = b[entry:] {
			visit(at, b[:entry])
			at += entry
		}
		if err == io.EOF {
			return nil
		}
	}
	return nil
}

// nextWritten returns the first byte of the log in [pos, limit) that is not zero, -1 if there is none.
func (r *recovery) nextWritten(pos, limit message.PhyOffset) (message.PhyOffset, error) {
	for pos < limit {
		f := r.probe.table.at(pos)
		if f == nil {
			break
		}
		at, err := firstWritten(r.s.fsys, f.path, int64(pos-f.start), int64(min(limit, f.end())-f.start))
		if at >= 0 || err != nil {
			return f.start + message.PhyOffset(at), err
		}
		pos = f.end()
	}
	return -1, nil
}

func firstWritten(fsys sysio.FS, path string, at, stop int64) (int64, error) {
	file, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return -1, err
	}
	defer file.Close()
	readWrittenOnly(file)
	buf := make([]byte, max(0, min(looseBlockBytes, stop-at)))
	if at, err = nextData(file, at); err != nil {
		return -1, err
	}
	for at < stop {
		n := min(int64(len(buf)), stop-at)
		next, err := nextData(file, at+n) // before the read: what a read brings into memory counts as data
		if err != nil {
			return -1, err
		}
		if _, err := file.ReadAt(buf[:n], at); err != nil {
			return -1, err
		}
		for i, c := range buf[:n] {
			if c != 0 {
				return at + int64(i), nil
			}
		}
		at = next
	}
	return -1, nil
}

// clearTails takes away what lies behind the ends of queues: it would come to light once the hole is filled. Dispatch brings it
// again. What was found behind damage is on disk before: the names that led there are gone then.
func (r *recovery) clearTails() error {
	if len(r.tails) == 0 {
		return nil
	}
	if err := r.keepOffsetsOfTails(); err != nil {
		return err
	}
	return r.eachQueue(func(q *Queue) error {
		limit, has := r.tails[q]
		if !has {
			return nil
		}
		if r.lay.crashed {
			return r.cutFiles(q, q.Max(), limit)
		}
		return r.clearUnits(q, q.Max(), limit)
	})
}

// keepOffsetsOfTails keeps the queue offsets of records that were lost with the units before them: their own units name a damaged
// part of the log. After a crash a unit there may be of an earlier life that a power cut brought back.
func (r *recovery) keepOffsetsOfTails() error {
	if len(r.report.Damaged) == 0 || r.lay.crashed {
		return nil
	}
	return r.eachTail(func(q *Queue, offset message.QueueOffset, u Unit) {
		if !u.IsPreBlank() && r.isDamaged(u.Phy) && offset-q.Next() <= preBlankUnitsMax {
			r.keepOffset(q, offset)
		}
	})
}

// isDamaged tells whether a position lies in a part of the log that was stepped over.
func (r *recovery) isDamaged(phy message.PhyOffset) bool {
	i, found := slices.BinarySearchFunc(r.report.Damaged, phy, func(d DamagedRange, phy message.PhyOffset) int { return cmp.Compare(d.Phy, phy) })
	if found {
		return true
	}
	return i > 0 && phy < r.report.Damaged[i-1].Phy+message.PhyOffset(r.report.Damaged[i-1].Bytes)
}
