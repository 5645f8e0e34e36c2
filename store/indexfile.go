package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"

	"peregrine/internal/message"
	"peregrine/internal/sysio"
)

// An index file (IndexFile and IndexHeader, 5.5.0) is a hash table on disk: a header, slots, and items that are chained from
// the newest to the oldest of their slot. All numbers are big-endian and signed. It has its full length from the beginning.
//
//	offset              size  name       meaning
//	0                   8     beginTime  store time of the first record, ms
//	8                   8     endTime    store time of the newest record, ms
//	16                  8     beginPhy   position of the first record
//	24                  8     endPhy     position of the newest record; what is below is not indexed again
//	32                  4     slotsUsed  slots that are not 0; -1: a query met damage in the file, see indexdamage.go
//	36                  4     count      number of the next item, at least 1 (what is less on disk is read as 1)
//	40+4k               4     slot k     number of its newest item, 0 = none; k < maxHashSlotNum
//	40+4*slots+20n      4     hash       of topic#key, see indexHash; item n, 1 <= n < count <= maxIndexNum; item 0 is not used
//	                +4  8     position   of the record
//	                +12 4     seconds    store time of the record less beginTime, in whole seconds
//	                +16 4     previous   item of the same slot, always a smaller number, 0 = none
//
// The file's name is the local time of its creation, yyyyMMddHHmmssSSS.
const (
	indexHeaderBytes = 40
	indexSlotBytes   = 4
	indexItemBytes   = 20
	indexNameDigits  = 17
	indexNameLayout  = "20060102150405.000" // without the point
)

// indexGeometry is what maxHashSlotNum and maxIndexNum say; no file tells it.
type indexGeometry struct {
	slots int64 // maxHashSlotNum
	items int64 // maxIndexNum
}

func (g indexGeometry) slotAt(hash int32) int64 {
	return indexHeaderBytes + int64(uint32(hash)%uint32(g.slots))*indexSlotBytes
}
func (g indexGeometry) itemAt(n int64) int64 {
	return indexHeaderBytes + g.slots*indexSlotBytes + n*indexItemBytes
}
func (g indexGeometry) fileBytes() int64 { return g.itemAt(g.items) }

type indexHeader struct {
	beginTime, endTime message.Millis
	beginPhy, endPhy   message.PhyOffset
	slotsUsed, count   int32
}

func (h *indexHeader) encode(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b, uint64(h.beginTime))
	be.PutUint64(b[8:], uint64(h.endTime))
	be.PutUint64(b[16:], uint64(h.beginPhy))
	be.PutUint64(b[24:], uint64(h.endPhy))
	be.PutUint32(b[32:], uint32(h.slotsUsed))
	be.PutUint32(b[36:], uint32(h.count))
}

func decodeIndexHeader(b []byte) indexHeader {
	be := binary.BigEndian
	return indexHeader{
		beginTime: message.Millis(be.Uint64(b)), endTime: message.Millis(be.Uint64(b[8:])),
		beginPhy: message.PhyOffset(be.Uint64(b[16:])), endPhy: message.PhyOffset(be.Uint64(b[24:])),
		slotsUsed: int32(be.Uint32(b[32:])), count: max(int32(be.Uint32(b[36:])), 1),
	}
}

type indexItem struct {
	hash    int32
	phy     message.PhyOffset
	seconds int32
	prev    int32
}

func (it *indexItem) encode(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b, uint32(it.hash))
	be.PutUint64(b[4:], uint64(it.phy))
	be.PutUint32(b[12:], uint32(it.seconds))
	be.PutUint32(b[16:], uint32(it.prev))
}

func decodeIndexItem(b []byte) indexItem {
	be := binary.BigEndian
	return indexItem{hash: int32(be.Uint32(b)), phy: message.PhyOffset(be.Uint64(b[4:])), seconds: int32(be.Uint32(b[12:])), prev: int32(be.Uint32(b[16:]))}
}

// indexHash is IndexFile.indexKeyHashMethod: the absolute value of the Java hash, 0 where that has none.
func indexHash(javaHash int32) int32 {
	if javaHash == math.MinInt32 {
		return 0
	}
	return max(javaHash, -javaHash)
}

// indexFile is one file of the index. Its header is that of the file; of the newest one it changes, under Index.mu.
type indexFile struct {
	name   string
	path   string
	header indexHeader
	// doubted says that damage was met in this run; under Index.mu.
	doubted bool
}

// indexNameOK tells the names of index files: digits. The original skips all others.
func indexNameOK(name string) bool {
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return false
		}
	}
	return len(name) == indexNameDigits
}

// indexInfo is an index file as a look at the directory found it.
type indexInfo struct {
	name string
	size int64
}

// inspectIndex lists the index files. Their length has to be the configured one, else slots and items would be looked for in
// the wrong places. Only the newest may be short after a crash: it is made again.
func (lay *layout) inspectIndex(fsys sysio.FS, set settings) error {
	if set.index.items == 0 {
		return nil
	}
	entries, err := readDirIfThere(fsys, set.indexDir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range entries {
		switch path := filepath.Join(set.indexDir, e.Name); {
		case e.Dir:
		case !indexNameOK(e.Name):
			lay.warn("%s is not an index file and is ignored", path)
		default:
			lay.index = append(lay.index, indexInfo{e.Name, e.Size})
		}
	}
	return lay.judgeIndexSizes(set)
}

// judgeIndexSizes refuses files of another length than the configured one. Where they do not all have the same, one is damaged: what a short
// one has lost, and what is behind it, is made again from the log (Index.Recover).
func (lay *layout) judgeIndexSizes(set settings) error {
	want := set.index.fileBytes()
files:
	for i, f := range lay.index {
		if f.size == want || lay.crashed && i == len(lay.index)-1 && f.size < want {
			continue
		}
		err := &RefusedError{Path: filepath.Join(set.indexDir, f.name), Reason: fmt.Sprintf("the file has %d bytes, expected are %d (40 + 4*maxHashSlotNum + 20*maxIndexNum); "+
			"configure what the directory was made with, or move the folder away: the index is made again from the log", f.size, want)}
		for _, other := range lay.index {
			if other.size == want && f.size < want {
				lay.warn("%s has %d bytes of %d: it was cut short, the index is made again from there", filepath.Join(set.indexDir, f.name), f.size, want)
				continue files
			}
			if other.size == want {
				err.Repairable = true
				err.Reason = fmt.Sprintf("the file has %d bytes, expected are %d (maxHashSlotNum, maxIndexNum): it is damaged; "+
					"peregrine dump --repair --yes makes the index again from the log and keeps the files, or move the folder away: a start makes it again", f.size, want)
			}
		}
		return err
	}
	return nil
}

// indexWriter is the newest file, mapped. Only the goroutine that calls Index.Add touches it.
type indexWriter struct {
	geo     indexGeometry
	file    sysio.File
	mapping sysio.Mapping
	data    []byte
	header  indexHeader // published as indexFile.header once per Add
	synced  int32       // items below it are durable
}

// openIndexWriter allocates a file as a whole and maps it: a store into a mapping can then meet no full disk.
func openIndexWriter(file sysio.File, geo indexGeometry, header indexHeader) (*indexWriter, error) {
	if err := file.Allocate(0, geo.fileBytes()); err != nil {
		return nil, err
	}
	m, err := file.Map(geo.fileBytes())
	if err != nil {
		return nil, err
	}
	// As with the log: what read-ahead brings in becomes large folios, and each 4-byte change of a slot would write one back.
	_ = m.AdviseRandom(0, geo.fileBytes())
	return &indexWriter{geo: geo, file: file, mapping: m, data: m.Bytes(), header: header, synced: header.count}, nil
}

func (w *indexWriter) close() error {
	err := w.mapping.Unmap()
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// fits tells whether n more items have room.
func (w *indexWriter) fits(n int) bool { return int64(w.header.count)+int64(n) <= w.geo.items }

// add puts the items of one record behind the others.
//
// hot: 0 allocs
func (w *indexWriter) add(phy message.PhyOffset, stored message.Millis, hashes []int32) {
	h, be := &w.header, binary.BigEndian
	if h.count <= 1 {
		h.beginPhy, h.beginTime = phy, stored
	}
	seconds := int32(0)
	if d := (stored - h.beginTime) / 1000; h.beginTime > 0 && d > 0 {
		seconds = int32(min(d, math.MaxInt32))
	}
	for _, hash := range hashes {
		slot := w.data[w.geo.slotAt(hash):][:indexSlotBytes]
		prev := int32(be.Uint32(slot))
		if prev <= 0 || prev >= h.count {
			prev = 0
			h.slotsUsed++
		}
		it := indexItem{hash, phy, seconds, prev}
		it.encode(w.data[w.geo.itemAt(int64(h.count)):][:indexItemBytes])
		be.PutUint32(slot, uint32(h.count))
		h.count++
	}
	h.endPhy, h.endTime = phy, stored
}

// writeHeader puts the header into the mapping.
func (w *indexWriter) writeHeader() { w.header.encode(w.data) }

// sync makes everything added durable.
func (w *indexWriter) sync() error {
	if w.synced == w.header.count {
		return nil
	}
	from := w.geo.itemAt(int64(w.synced))
	for _, part := range [][2]int64{{from, w.geo.itemAt(int64(w.header.count)) - from}, {0, w.geo.itemAt(0)}} {
		// As with the log: the kernel would take the right to write from each page by itself, and interrupt the other processors for each.
		_ = w.mapping.Forget(part[0], part[1])
		if err := w.mapping.SyncRange(part[0], part[1]); err != nil {
			return err
		}
	}
	w.synced = w.header.count
	return nil
}
