package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// Recover makes the index agree with the log and returns the position from which records have to be added. After a clean stop
// it reads headers only. Files are doubtful after a crash when they are not known to be full and durable (endTime beyond the
// checkpoint's indexMsgTimestamp), and always when they name records that the log does not have. Of a doubtful file the
// items are walked from the first on: what one has to hold follows from those before it, so that the first torn, lost or
// foreign one shows. It and all behind it, other files too, are dropped and made again from the log, with the last record before
// it, of which items may be lacking. Neither count nor slots on disk are believed. Where files are missing, those behind are made
// again, too: see firstGap.
//
// quit is asked now and then; when it says yes the result is ErrShutdown. Any error leaves the index not ready; Recover may be
// called again.
func (x *Index) Recover(quit func() bool) (message.PhyOffset, error) {
	x.mu.Lock()
	found := x.files
	x.mu.Unlock()
	for dropped := false; ; dropped = true {
		kept, cut, split, err := x.recoverFiles(found, quit)
		if err != nil {
			return 0, err
		}
		gap, err := x.firstGap(kept, quit)
		if errors.Is(err, ErrShutdown) {
			return 0, err
		}
		if err != nil {
			return 0, fmt.Errorf("store: index: %w", err)
		}
		if gap == len(kept) {
			return x.settle(kept, dropped || cut, split)
		}
		x.logger.Warn("the index lacks keys of messages that are in the log; it is made again from there", "in front of", kept[gap].path, "files", len(kept)-gap)
		if err := x.drop(kept[gap:]); err != nil {
			return 0, fmt.Errorf("store: index: %w", err)
		}
		found = kept[:gap] // of which the last is the newest now, and may lack a part of its last record
		x.mu.Lock()
		x.files = found
		x.mu.Unlock()
	}
}

// recoverFiles makes files agree with the log. kept are those that count; dropped says that something was taken away, split is for settle.
func (x *Index) recoverFiles(found []*indexFile, quit func() bool) (kept []*indexFile, dropped, split bool, err error) {
	report := x.s.Recovery()
	after := message.PhyOffset(-1) // endPhy of the file before
	for i, f := range found {
		doubtful, err := x.open(f, report, i == len(found)-1, after)
		if errors.Is(err, fs.ErrNotExist) {
			break // an earlier call has dropped it, and those behind it
		}
		if err != nil {
			return nil, false, false, fmt.Errorf("store: index: %w", err)
		}
		if !doubtful {
			kept = append(kept, f)
			after = f.header.endPhy
			continue
		}
		whole, last, err := x.repair(found, i, after, report.End, quit)
		if err != nil {
			return nil, false, false, fmt.Errorf("store: index: %w", err)
		}
		if f.header.count > 1 {
			kept = append(kept, f)
		}
		if !whole {
			dropped, split = true, last == after && i > 0
			break
		}
		after = f.header.endPhy
	}
	return kept, dropped, split, nil
}

// load takes the files as they are, for queries only: nothing will be added, so nothing has to be complete. A query looks at every
// record that it answers with.
func (x *Index) load() error {
	kept := x.files[:0]
	for _, f := range x.files {
		doubtful, err := x.open(f, RecoveryReport{Clean: true, End: math.MaxInt64}, false, -1)
		if err != nil {
			return fmt.Errorf("store: index: %w", err)
		}
		if !doubtful {
			kept = append(kept, f)
		}
	}
	x.files, x.ready = kept, true
	return nil
}

// settle publishes the files that count. split says that the newest record has only a part of its items, in the file that is
// the newest now (the original splits a record at the end of a file): it is added once more.
func (x *Index) settle(kept []*indexFile, dropped, split bool) (message.PhyOffset, error) {
	x.endPhy = -1
	full := message.Millis(0)
	for i, f := range kept {
		if f.header.count > 1 || i > 0 {
			x.endPhy = f.header.endPhy
		}
		if i < len(kept)-1 {
			full = f.header.endTime
		}
	}
	if dropped {
		x.s.checkpoint.lowerIndex(full)
	}
	x.mu.Lock()
	x.files, x.ready = kept, true
	x.mu.Unlock()
	from := max(x.endPhy, x.s.MinPhy())
	if split {
		x.endPhy--
	}
	return from, nil
}

// open reads a file's header and decides whether it is to be believed.
func (x *Index) open(f *indexFile, report RecoveryReport, newest bool, after message.PhyOffset) (doubtful bool, err error) {
	file, err := x.fsys.OpenFile(f.path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	var b [indexHeaderBytes]byte
	if _, err := file.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return false, err
	}
	f.header = decodeIndexHeader(b[:])
	size, err := file.Size()
	if err != nil {
		return false, err
	}
	h := &f.header
	switch {
	case size != x.geo.fileBytes(), int64(h.count) > x.geo.items, h.endPhy < after, h.endPhy >= report.End && h.count > 1:
		return true, nil
	case newest && int64(h.count) == x.geo.items && h.count > 1:
		// The file behind it is not there (yet), which may have the other items of the last record: the original splits a record.
		return true, nil
	case x.writes && h.slotsUsed == slotsDoubted:
		return true, nil
	case !report.Clean && (newest || h.endTime > x.s.checkpoint.indexTime()), report.Whole && h.count > 1:
		return true, nil
	}
	if !x.endsFit(file, h) {
		then := "what does not fit is made again from the log"
		if !x.writes {
			then = "queries do not look at it"
		}
		x.logger.Warn("an index file is damaged, or was made with another maxHashSlotNum and maxIndexNum than are configured: its items are not where they should be; "+then,
			"file", f.path, "maxHashSlotNum", x.geo.slots, "maxIndexNum", x.geo.items)
		return true, nil
	}
	return newest && h.count > 1 && h.endPhy >= x.s.MinPhy() && !x.recordBegins(h.endPhy), nil
}

// recordBegins tells whether a record begins at phy, a damaged one too: indexing goes on there.
func (x *Index) recordBegins(phy message.PhyOffset) bool {
	var b [message.StoreTimePrefixBytes]byte
	n, err := x.s.ReadAt(b[:], phy)
	_, isRecord := message.StoreTimeOf(b[:n])
	return err == nil && isRecord && namesPosition(b[:n], phy)
}

// repair walks a doubtful file and makes it hold what can be believed. whole says that nothing was taken away from it; otherwise the
// files behind it are gone, and dropped is the last record that was taken out of it, -1 for none.
func (x *Index) repair(found []*indexFile, i int, after, end message.PhyOffset, quit func() bool) (whole bool, dropped message.PhyOffset, err error) {
	f, newest := found[i], i == len(found)-1
	file, err := x.fsys.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return false, 0, err
	}
	defer file.Close()
	was := f.header
	walk := indexWalk{geo: x.geo, file: file, slots: make([]int32, x.geo.slots)}
	if x.s.Recovery().Whole || was.slotsUsed == slotsDoubted {
		walk.check = newItemCheck(x)
	}
	if err := walk.run(after, end, quit); err != nil {
		return false, 0, err
	}
	complete := walk.count == int64(was.count)
	if newest { // after a crash it may lack items of its last record, and so it may when it is full: the original splits a record
		complete = complete && walk.check != nil && x.s.Recovery().Clean && walk.count < x.geo.items && (walk.last < x.s.MinPhy() || x.recordBegins(walk.last))
	}
	if complete {
		return true, -1, x.wholeFile(f, &walk)
	}
	lacks := walk.count < int64(was.count)
	dropped = -1
	for again := walk.count > 1; again; {
		dropped = walk.last
		if err := walk.dropLastRecord(); err != nil {
			return false, 0, err
		}
		again = walk.count > 1 && walk.last >= x.s.MinPhy() && !x.recordBegins(walk.last)
	}
	if f.header, err = x.headerOf(&walk); err != nil {
		return false, 0, err
	}
	if about := []any{"file", f.path, "items", was.count - 1, "kept", f.header.count - 1}; newest && !lacks {
		x.logger.Info("the last record of the newest index file may lack keys, as after every crash; it is indexed again", about...)
	} else {
		x.logger.Warn("an index file is not complete; the rest is made again from the log", about...)
	}
	if f.header.count <= 1 {
		return false, dropped, x.drop(found[i:])
	}
	// First the files behind, then the rest of this one: else a crash in between would leave a gap that nobody sees.
	if err := x.drop(found[i+1:]); err != nil {
		return false, 0, err
	}
	return false, dropped, walk.write(f.header)
}

// headerOf makes the header out of the items.
func (x *Index) headerOf(w *indexWalk) (indexHeader, error) {
	h := indexHeader{count: int32(w.count)}
	if w.count <= 1 {
		return h, nil
	}
	first, err := w.item(1)
	if err != nil {
		return h, err
	}
	last, err := w.item(w.count - 1)
	if err != nil {
		return h, err
	}
	h.beginPhy, h.endPhy = first.phy, last.phy
	for _, used := range w.slots {
		if used != 0 {
			h.slotsUsed++
		}
	}
	var old [indexHeaderBytes]byte
	if _, err := w.file.ReadAt(old[:], 0); err != nil && err != io.EOF {
		return h, err
	}
	// Items count their time from the header's. Where the first record is gone from the log, the header on disk has to do.
	ok := false
	if h.beginTime, ok = x.storeTimeAt(h.beginPhy); !ok {
		h.beginTime = decodeIndexHeader(old[:]).beginTime
	}
	if h.endTime, ok = x.storeTimeAt(h.endPhy); !ok {
		h.endTime = h.beginTime + 1000*message.Millis(last.seconds+1)
	}
	if h.beginTime <= 0 {
		w.count, h = 1, indexHeader{count: 1}
	}
	return h, nil
}

func (x *Index) storeTimeAt(phy message.PhyOffset) (message.Millis, bool) {
	var b [message.StoreTimePrefixBytes]byte
	n, err := x.s.ReadAt(b[:], phy)
	if err != nil {
		return 0, false
	}
	return message.StoreTimeOf(b[:n])
}

// drop removes files that are made again, the newest first, each durably: what a crash leaves has no gap.
func (x *Index) drop(files []*indexFile) error {
	for _, f := range slices.Backward(files) {
		if err := x.fsys.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := x.fsys.SyncDir(x.dir); err != nil {
			return err
		}
	}
	return nil
}

// indexWalk reads a file item by item and knows what its slots have to be.
type indexWalk struct {
	geo   indexGeometry
	file  sysio.File
	slots []int32 // number of the newest item of each slot
	count int64   // number of the first item that cannot be believed
	last  message.PhyOffset
	check *itemCheck // nil: records are not looked at
}

// run walks to the first item that does not follow from those before it.
func (w *indexWalk) run(after, end message.PhyOffset, quit func() bool) error {
	w.count, w.last = 1, after
	buf := make([]byte, min(w.geo.items, indexWalkItems)*indexItemBytes)
	for w.count < w.geo.items {
		if quit() {
			return ErrShutdown
		}
		n := min(w.geo.items-w.count, indexWalkItems)
		got, err := w.file.ReadAt(buf[:n*indexItemBytes], w.geo.itemAt(w.count))
		if err != nil && err != io.EOF {
			return err
		}
		for b := buf[:got]; len(b) >= indexItemBytes; b = b[indexItemBytes:] {
			it := decodeIndexItem(b)
			slot := &w.slots[uint32(it.hash)%uint32(w.geo.slots)]
			if it == (indexItem{}) || it.hash < 0 || it.phy < w.last || it.phy < 0 || it.phy >= end || it.seconds < 0 || it.prev != *slot {
				return nil
			}
			if w.check != nil {
				if fits, err := w.check.fits(it); err != nil || !fits {
					return err
				}
			}
			*slot = int32(w.count)
			w.last = it.phy
			w.count++
		}
		if err == io.EOF {
			return nil
		}
	}
	return nil
}

func (w *indexWalk) item(n int64) (indexItem, error) {
	var b [indexItemBytes]byte
	_, err := w.file.ReadAt(b[:], w.geo.itemAt(n))
	return decodeIndexItem(b[:]), err
}

// dropLastRecord takes the items of the newest record back: some of them may be lacking. last becomes the one before.
func (w *indexWalk) dropLastRecord() error {
	for dropping := w.last; w.count > 1; w.count-- {
		it, err := w.item(w.count - 1)
		if err != nil {
			return err
		}
		if w.last = it.phy; it.phy != dropping {
			break
		}
		w.slots[uint32(it.hash)%uint32(w.geo.slots)] = it.prev
	}
	return nil
}

// write makes the file hold what was believed and nothing else, durably.
func (w *indexWalk) write(header indexHeader) error {
	if err := w.file.Truncate(w.geo.fileBytes()); err != nil {
		return err
	}
	block := min(len(w.slots), indexWalkItems) * indexSlotBytes
	old, now := make([]byte, block), make([]byte, 0, block)
	for at := 0; at < len(w.slots); {
		part := w.slots[at:min(at+indexWalkItems, len(w.slots))]
		now = encodeSlots(now[:0], part)
		off := int64(indexHeaderBytes + at*indexSlotBytes)
		if _, err := w.file.ReadAt(old[:len(now)], off); err != nil {
			return err
		}
		if !bytes.Equal(old[:len(now)], now) {
			if _, err := w.file.WriteAt(now, off); err != nil {
				return err
			}
		}
		at += len(part)
	}
	// Items of an earlier life must never be taken for the ones that come here.
	if err := zeroTail(w.file, w.geo.itemAt(w.count), w.geo.fileBytes()); err != nil {
		return err
	}
	var b [indexHeaderBytes]byte
	header.encode(b[:])
	if _, err := w.file.WriteAt(b[:], 0); err != nil {
		return err
	}
	return w.file.Datasync()
}
