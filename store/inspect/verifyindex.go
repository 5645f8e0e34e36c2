package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// indexWalk goes through the items of all index files along with the records: both are in the order of the log.
type indexWalk struct {
	v      *verifier
	expect bool              // records must have items
	end    message.PhyOffset // the newest record that the index knew when the check began

	file    sysio.File
	at      int   // index of the file
	n       int32 // the item that comes next in it
	win     []byte
	winAt   int32
	heads   []int32 // newest item of each slot so far; nil = chains are not checked
	used    int32
	first   message.PhyOffset
	last    message.PhyOffset
	chains  int64 // broken links of this file
	chainAt int32

	missing  run    // neighbouring records without items
	stray    run    // neighbouring items that fit nothing
	expected []want // of the current record
	scratch  []byte
}

// want is an item that a record should have.
type want struct {
	hash int32
	tag  bool // written by 5.4 and newer only
	seen bool
}

func newIndexWalk(v *verifier) *indexWalk {
	w := &indexWalk{v: v, n: 1, expect: !v.d.opts.WithoutIndex, end: -1}
	for _, f := range v.d.Index {
		if f.Head.Next > 1 {
			w.end = max(w.end, f.Head.EndPhy)
		}
		if f.Slots == 0 && f.Head.Next > 1 {
			w.expect = false // some items are not readable
		}
	}
	return w
}

func (w *indexWalk) close() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

// peek returns the next item.
func (w *indexWalk) peek() (IndexItem, bool, error) {
	for w.at < len(w.v.d.Index) {
		f := w.v.d.Index[w.at]
		if f.Slots == 0 || w.n >= min(f.Head.Next, f.Items) {
			if err := w.finishFile(f); err != nil {
				return IndexItem{}, false, err
			}
			w.at++
			w.n = 1
			continue
		}
		if w.file == nil {
			file, err := w.v.d.opts.FS.OpenFile(f.Path, os.O_RDONLY, 0)
			if errors.Is(err, fs.ErrNotExist) {
				if err := w.v.d.refreshLog(); err != nil { // its records were deleted before it
					return IndexItem{}, false, err
				}
				w.n = f.Items
				continue
			}
			if err != nil {
				return IndexItem{}, false, err
			}
			w.file, w.winAt, w.win = file, 0, w.win[:0]
			w.used, w.chains, w.heads = 0, 0, nil
			if f.Slots <= slotsCheckedMax {
				w.heads = make([]int32, f.Slots)
			}
		}
		if i := int64(w.n-w.winAt) * indexItemBytes; w.winAt > 0 && i+indexItemBytes <= int64(len(w.win)) {
			return parseIndexItem(w.win[i:]), true, nil
		}
		count := min(int64(indexWindowBytes), int64(min(f.Head.Next, f.Items)-w.n)*indexItemBytes)
		if int64(cap(w.win)) < count {
			w.win = make([]byte, indexWindowBytes)
		}
		w.win = w.win[:count]
		if _, err := w.file.ReadAt(w.win, f.itemAt(w.n)); err != nil && err != io.EOF {
			return IndexItem{}, false, err
		}
		w.winAt = w.n
	}
	return IndexItem{}, false, nil
}

// advance takes the item that peek gave into the chains.
func (w *indexWalk) advance(item IndexItem) {
	f := w.v.d.Index[w.at]
	if w.n == 1 {
		w.first = item.Phy
	}
	w.last = item.Phy
	if w.heads != nil && item.Hash >= 0 {
		slot := item.Hash % f.Slots
		if item.Prev != w.heads[slot] {
			if w.chains++; w.chains == 1 {
				w.chainAt = w.n
			}
		}
		if w.heads[slot] == 0 {
			w.used++
		}
		w.heads[slot] = w.n
	}
	w.n++
}

// finishFile compares head and slots with the items.
func (w *indexWalk) finishFile(f *IndexFile) error {
	w.flushStray()
	finding := &Finding{Level: Fault, Kind: KindIndexFile, File: f.Name, Position: -1}
	if f.Slots > 0 && f.Head.Next > f.Items {
		v := *finding
		v.At = 36
		w.v.found(v.format("its head says that item %d is next, it has room for %d", f.Head.Next, f.Items))
	}
	if w.file == nil || w.v.d.Held && w.at == len(w.v.d.Index)-1 {
		w.close() // the newest file of a running broker changes
		return nil
	}
	defer w.close()
	if w.first != f.Head.BeginPhy || w.last != f.Head.EndPhy {
		v := *finding
		v.At = 16
		w.v.found(v.format("its head says positions %d to %d, its items are of %d to %d", f.Head.BeginPhy, f.Head.EndPhy, w.first, w.last))
	}
	if w.heads == nil {
		return nil
	}
	if w.chains > 0 {
		v := *finding
		v.Kind, v.At, v.Count = KindIndexChain, f.itemAt(w.chainAt), w.chains
		w.v.found(v.format("%s not lead to the item before in the slot, the first is item %d: queries by key may find less", plural(w.chains, "an item does", "items do"), w.chainAt))
	}
	buf := make([]byte, 64<<10)
	var bad, badAt int64
	for slot := int64(0); slot < int64(f.Slots); {
		n := min(int64(len(buf)), (int64(f.Slots)-slot)*indexSlotBytes)
		if _, err := w.file.ReadAt(buf[:n], indexHeadBytes+slot*indexSlotBytes); err != nil && err != io.EOF {
			return err
		}
		for i := int64(0); i < n; i += indexSlotBytes {
			if int32(binary.BigEndian.Uint32(buf[i:])) != w.heads[slot] {
				if bad++; bad == 1 {
					badAt = slot
				}
			}
			slot++
		}
	}
	if bad > 0 {
		v := *finding
		v.Kind, v.At, v.Count = KindIndexChain, indexHeadBytes+badAt*indexSlotBytes, bad
		w.v.found(v.format("%s not name the newest item, the first is slot %d: queries by key may find less", plural(bad, "a slot does", "slots do"), badAt))
	}
	return nil
}

// record takes a good record: its items come next.
func (w *indexWalk) record(view *message.View) error {
	if len(w.v.d.Index) == 0 && !w.expect {
		return nil
	}
	w.expected = w.expected[:0]
	w.scratch = indexKeys(view, w.scratch, func(key []byte, tag bool) {
		w.expected = append(w.expected, want{hash: IndexHash(key), tag: tag})
	})
	phy := view.PhyOffset
	if err := w.upTo(phy); err != nil {
		return err
	}
	for {
		item, ok, err := w.peek()
		if err != nil {
			return err
		}
		if !ok || item.Phy != phy {
			break
		}
		w.match(item, phy)
		w.advance(item)
	}
	if !w.expect || w.v.d.Held && (phy >= w.end || phy < w.v.d.MinPhy()) {
		return nil
	}
	lacks, has := false, false
	for _, e := range w.expected {
		lacks = lacks || !e.seen && !e.tag
		has = has || e.seen
	}
	switch {
	case !lacks && has:
		w.flushMissing()
	case !lacks: // a record without keys
	case has:
		w.miss(phy, "some", "some keys of ")
	default:
		w.miss(phy, "all", "")
	}
	return nil
}

// match finds the key that an item stands for.
func (w *indexWalk) match(item IndexItem, phy message.PhyOffset) {
	twice := false
	for i := range w.expected {
		e := &w.expected[i]
		if e.hash == item.Hash {
			if !e.seen {
				e.seen = true
				w.v.report.Items++
				w.flushStray()
				return
			}
			twice = true
		}
	}
	if twice {
		w.strayItem(phy, Note, KindIndexTwice, "%s: the index has it already; queries of the original return it twice")
		return
	}
	w.strayItem(phy, Fault, KindIndexItem, fmt.Sprintf("%%s: no key of the record there has hash %d", item.Hash))
}

// skip passes over the items of a damaged record.
func (w *indexWalk) skip(phy message.PhyOffset) error {
	if err := w.upTo(phy); err != nil {
		return err
	}
	for {
		item, ok, err := w.peek()
		if err != nil || !ok || item.Phy != phy {
			return err
		}
		w.advance(item)
	}
}

// upTo judges the items in front of a position: they name no record that the walk met.
func (w *indexWalk) upTo(phy message.PhyOffset) error {
	for {
		item, ok, err := w.peek()
		if err != nil || !ok || item.Phy >= phy {
			return err
		}
		if err := w.judgeStray(item); err != nil {
			return err
		}
		w.advance(item)
	}
}

func (w *indexWalk) judgeStray(item IndexItem) error {
	if item.Phy >= 0 && item.Phy < w.v.d.MinPhy() {
		w.v.report.Expired++
		w.flushStray()
		return nil
	}
	verdict, err := w.v.peek.look(item.Phy)
	if err != nil {
		return err
	}
	if verdict == isGood {
		fits := false
		w.scratch = indexKeys(&w.v.peek.view, w.scratch, func(key []byte, _ bool) { fits = fits || IndexHash(key) == item.Hash })
		if fits {
			w.strayItem(item.Phy, Note, KindIndexTwice, "%s: out of order, or the index has it already")
			return nil
		}
		w.strayItem(item.Phy, Fault, KindIndexItem, "%s: no key of the record there has its hash")
		return nil
	}
	if w.v.d.Held && verdict == isGone {
		return nil
	}
	if w.v.inDamage(item.Phy) {
		w.strayItem(item.Phy, Note, KindIndexItem, "%s: of a damaged part of the log")
		return nil
	}
	w.strayItem(item.Phy, Fault, KindIndexItem, "%s: there is no good record")
	return nil
}

// strayItem adds the current item to the run of the same kind. In what, %s is the number of items.
func (w *indexWalk) strayItem(phy message.PhyOffset, level Level, kind, what string) {
	r := &w.stray
	if r.Count > 0 && r.Kind == kind && r.last+1 == message.QueueOffset(w.n) {
		r.Count++
		r.last, r.lastPhy = message.QueueOffset(w.n), phy
		return
	}
	w.flushStray()
	f := w.v.d.Index[w.at]
	n := int64(w.n)
	*r = run{Finding: Finding{Level: level, Kind: kind, File: f.Name, At: f.itemAt(w.n), Position: int64(phy), Offset: &n, Count: 1}, what: what,
		last: message.QueueOffset(w.n), lastPhy: phy}
}

func (w *indexWalk) flushStray() {
	r := &w.stray
	if r.Count == 0 {
		return
	}
	items := fmt.Sprintf("item %d of position %d", *r.Offset, r.Position)
	if r.Count > 1 {
		items = fmt.Sprintf("%d items, %d to %d of positions %d to %d", r.Count, *r.Offset, r.last, r.Position, r.lastPhy)
	}
	f := r.Finding
	f.What = fmt.Sprintf(r.what, items)
	r.Count = 0
	w.v.found(&f)
}

// miss adds a record without items to the run of neighbours.
func (w *indexWalk) miss(phy message.PhyOffset, class, what string) {
	level := Fault
	if w.v.d.Abort && w.end >= 0 && phy >= max(w.end, w.v.crash.from) {
		level = Note
		class += "lag"
	}
	r := &w.missing
	if r.Count > 0 && r.class == class {
		r.Count++
		r.lastPhy = phy
		return
	}
	w.flushMissing()
	*r = run{Finding: *w.v.d.place(&Finding{Level: level, Kind: KindNoIndex, Count: 1}, phy), what: what, class: class, lastPhy: phy}
}

func (w *indexWalk) flushMissing() {
	r := &w.missing
	if r.Count == 0 {
		return
	}
	f := r.Finding
	text := fmt.Sprintf("%sthe record at %d are not in the index", r.what, r.Position)
	if r.what == "" {
		text = fmt.Sprintf("the record at %d is not in the index", r.Position)
	}
	if r.Count > 1 {
		text = fmt.Sprintf("%s%d records with keys, from %d to %d, are not in the index", r.what, r.Count, r.Position, r.lastPhy)
	}
	f.What = text + ": queries by key do not find them"
	if f.Level == Note {
		f.What = text + " yet" + w.v.nextStart("adds them")
	} else {
		f.Original = "a clean start of the original does not add them"
	}
	r.Count = 0
	w.v.found(&f)
}

// finish judges what is left behind the end of the log.
func (w *indexWalk) finish() error {
	w.flushMissing()
	for {
		item, ok, err := w.peek()
		if err != nil || !ok {
			w.flushStray()
			return err
		}
		switch {
		case item.Phy < w.v.end || item.Phy < 0:
			err = w.judgeStray(item)
		case w.v.d.Held: // written since
		default:
			w.strayItem(item.Phy, Fault, KindIndexItem, fmt.Sprintf("%%s: behind the end of the log, %d", w.v.end))
		}
		if err != nil {
			return err
		}
		w.advance(item)
	}
}
