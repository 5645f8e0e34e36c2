package inspect

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"peregrine/internal/message"
)

// IndexHeader is the head of an index file.
type IndexHeader struct {
	BeginTimestamp message.Millis
	EndTimestamp   message.Millis
	BeginPhy       message.PhyOffset
	EndPhy         message.PhyOffset
	UsedSlots      int32
	Next           int32 // number of the next item; the first is 1
}

// IndexItem is one entry: a key's hash and the record that has it.
type IndexItem struct {
	Hash    int32
	Phy     message.PhyOffset
	Seconds int32 // since the file's begin time
	Prev    int32 // the next older item of the slot, 0 = none
}

// IndexFile is a file of the index.
type IndexFile struct {
	Path, Name string
	Size       int64
	Head       IndexHeader
	Slots      int32 // 0 when it could not be found out: the items cannot be read
	Items      int32
}

func parseIndexHeader(b []byte) IndexHeader {
	h := IndexHeader{
		BeginTimestamp: message.Millis(binary.BigEndian.Uint64(b)),
		EndTimestamp:   message.Millis(binary.BigEndian.Uint64(b[8:])),
		BeginPhy:       message.PhyOffset(binary.BigEndian.Uint64(b[16:])),
		EndPhy:         message.PhyOffset(binary.BigEndian.Uint64(b[24:])),
		UsedSlots:      int32(binary.BigEndian.Uint32(b[32:])),
		Next:           int32(binary.BigEndian.Uint32(b[36:])),
	}
	h.Next = max(h.Next, 1) // as the original reads it
	return h
}

func parseIndexItem(b []byte) IndexItem {
	return IndexItem{
		Hash:    int32(binary.BigEndian.Uint32(b)),
		Phy:     message.PhyOffset(binary.BigEndian.Uint64(b[4:])),
		Seconds: int32(binary.BigEndian.Uint32(b[12:])),
		Prev:    int32(binary.BigEndian.Uint32(b[16:])),
	}
}

func indexFileBytes(slots, items int64) int64 {
	return indexHeadBytes + slots*indexSlotBytes + items*indexItemBytes
}

// itemAt is where an item stands in the file.
func (f *IndexFile) itemAt(n int32) int64 {
	return indexHeadBytes + int64(f.Slots)*indexSlotBytes + int64(n)*indexItemBytes
}

// IndexHash is the hash of a composed key (IndexFile.indexKeyHashMethod).
func IndexHash(key []byte) int32 {
	h := message.JavaHash(key)
	if h == math.MinInt32 {
		return 0
	}
	if h < 0 {
		return -h
	}
	return h
}

// indexKeys calls yield with every composed key that the index has for a record, in the original's order. Tag keys are
// written by 5.4 and newer only.
func indexKeys(v *message.View, scratch []byte, yield func(key []byte, tag bool)) []byte {
	if v.SysFlag&message.SysFlagTransactionMask == message.SysFlagTransactionRollback {
		return scratch
	}
	compose := func(parts ...[]byte) []byte {
		scratch = append(scratch[:0], v.Topic...)
		for _, p := range parts {
			scratch = append(append(scratch, '#'), p...)
		}
		return scratch
	}
	if key, ok := message.GetProperty(v.Properties, message.PropertyUniqKey); ok {
		yield(compose(key), false)
	}
	if keys, ok := message.GetProperty(v.Properties, message.PropertyKeys); ok {
		for len(keys) > 0 {
			n := 0
			for n < len(keys) && keys[n] != message.KeySeparator {
				n++
			}
			if n > 0 {
				yield(compose(keys[:n]), false)
			}
			keys = keys[min(n+1, len(keys)):]
		}
	}
	if tags, ok := message.GetProperty(v.Properties, message.PropertyTags); ok {
		yield(compose([]byte("T"), tags), true)
	}
	return scratch
}

func (d *Directory) listIndex() error {
	dir := filepath.Join(d.Root, "index")
	entries, err := d.opts.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Dir {
			continue
		}
		path := filepath.Join(dir, e.Name)
		f := &IndexFile{Path: path, Name: d.relative(path)}
		finding := &Finding{Level: Fault, Kind: KindIndexFile, File: f.Name, Position: -1}
		if _, err := strconv.ParseInt(e.Name, 10, 64); err != nil {
			finding.Level = Note
			d.add(finding.format("not an index file"))
			continue
		}
		err := d.readIndexHead(f)
		if errors.Is(err, fs.ErrNotExist) || err == io.EOF && d.Held { // deleted, or being made
			continue
		}
		if err == io.EOF {
			d.add(finding.format("it has %d bytes and no head", f.Size))
			continue
		}
		if err != nil {
			return err
		}
		if err := d.indexGeometry(f); err != nil {
			return err
		}
		d.Index = append(d.Index, f)
	}
	sort.Slice(d.Index, func(i, k int) bool { return filepath.Base(d.Index[i].Path) < filepath.Base(d.Index[k].Path) })
	return nil
}

// readIndexHead reads head and length, in this order: a running broker has given a file its length before the first item.
func (d *Directory) readIndexHead(f *IndexFile) error {
	file, err := d.opts.FS.OpenFile(f.Path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var head [indexHeadBytes]byte
	_, err = file.ReadAt(head[:], 0)
	size, failed := file.Size()
	f.Head, f.Size = parseIndexHeader(head[:]), size
	if failed != nil {
		return failed
	}
	return err
}

// indexGeometry finds out how many slots and items a file has: as configured, the original's default, or by trying where its
// first and last item stand, whose positions are in the head.
func (d *Directory) indexGeometry(f *IndexFile) error {
	finding := &Finding{Level: Fault, Kind: KindIndexFile, File: f.Name, Position: -1}
	slots, items := int64(d.opts.IndexSlots), int64(d.opts.IndexItems)
	switch {
	case slots > 0 && items > 0:
		if indexFileBytes(slots, items) != f.Size && (!d.Held || f.Head.Next > 1) {
			d.add(finding.format("it has %d bytes, expected are %d (maxHashSlotNum=%d, maxIndexNum=%d); its items are not read", f.Size, indexFileBytes(slots, items), slots, items))
			return nil
		}
	case f.Size == indexFileBytes(indexSlotsDefault, indexItemsDefault):
		slots, items = indexSlotsDefault, indexItemsDefault
	case f.Head.Next <= 1: // nothing in it
		return nil
	case f.Size > guessBytesMax:
		finding.Level = Note
		d.add(finding.format("its items are not read: give maxHashSlotNum=… maxIndexNum=… (it has %d bytes)", f.Size))
		return nil
	default:
		b := make([]byte, f.Size)
		n, err := d.readFile(f.Path, b, 0)
		if err != nil && err != io.EOF {
			return err
		}
		if slots, items = guessIndexGeometry(b[:n], f.Head); slots == 0 {
			d.add(finding.format("its items were not found where its head says; give maxHashSlotNum=… maxIndexNum=…"))
			return nil
		}
	}
	f.Slots, f.Items = int32(slots), int32(items)
	return nil
}

// guessIndexGeometry returns the numbers of slots and items with which the items of a file lie in their slots' chains; zeros where there
// are none. One item may fit by chance: of several numbers those count with which most slots name their newest item.
func guessIndexGeometry(b []byte, h IndexHeader) (slots, items int64) {
	last, most := int64(h.Next)-1, 0
	for n := int64(1); ; n++ {
		base := indexHeadBytes + n*indexSlotBytes
		if base+(last+1)*indexItemBytes > int64(len(b)) {
			return slots, items
		}
		if (int64(len(b))-base)%indexItemBytes != 0 {
			continue
		}
		first, end := parseIndexItem(b[base+indexItemBytes:]), parseIndexItem(b[base+last*indexItemBytes:])
		if first.Phy != h.BeginPhy || end.Phy != h.EndPhy || first.Prev != 0 || end.Hash < 0 || int64(end.Prev) >= last ||
			slotOf(b, end.Hash, n) != last {
			continue
		}
		if fit := slotsThatFit(b, n, last); fit > most {
			slots, items, most = n, (int64(len(b))-base)/indexItemBytes, fit
		}
	}
}

// slotOf returns the item that the slot of a hash names, in a file of so many slots.
func slotOf(b []byte, hash int32, slots int64) int64 {
	return int64(binary.BigEndian.Uint32(b[indexHeadBytes+int64(hash)%slots*indexSlotBytes:]))
}

// slotsThatFit counts the slots that name the newest of their items.
func slotsThatFit(b []byte, slots, last int64) (n int) {
	taken := map[int64]bool{}
	for i := last; i > 0; i-- {
		item := parseIndexItem(b[indexHeadBytes+slots*indexSlotBytes+i*indexItemBytes:])
		if item.Hash < 0 || taken[int64(item.Hash)%slots] {
			continue
		}
		taken[int64(item.Hash)%slots] = true
		if slotOf(b, item.Hash, slots) == i {
			n++
		}
	}
	return n
}
